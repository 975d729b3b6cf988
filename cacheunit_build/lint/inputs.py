"""What lint reads of one prefix: its manifest, the texts of its variants, and those of its tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.paths import normal_path
from cacheunit_build.lint.segment import Segment
from cacheunit_build.parsing.data_file import parse_data
from cacheunit_build.parsing.manifest import expand
from cacheunit_build.parsing.tools import NOT_SENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cacheunit_build.domain.artifact import Artifact
    from cacheunit_build.domain.manifest import Manifest, Variant
    from cacheunit_build.domain.prompt import Rendered
    from cacheunit_build.domain.protocols import ProjectFiles, Selection
    from cacheunit_build.templating.renderer import Renderer


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One variant: its texts, what was rendered, and the artifacts made from that."""

    variant: Variant
    rendered: Rendered
    passages: tuple[Segment, ...]
    artifacts: tuple[Artifact, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One prefix: its manifest, the variants that are meant, the texts of its tools with the line of each.

    `whole`: all variants are meant.
    """

    manifest: Manifest
    scripts: tuple[Script, ...]
    tools: tuple[Segment, ...]
    tool_lines: Mapping[tuple[str, tuple[str | int, ...]], int]
    whole: bool


def read_prefix(
    manifest: Manifest, files: ProjectFiles, renderer: Renderer, selection: Selection, artifacts: Sequence[Artifact]
) -> Reading:
    """Reads a prefix again that has been compiled without a fault into `artifacts`."""
    lines: dict[tuple[str, tuple[str | int, ...]], int] = {}
    tools: list[Segment] = []
    for file in dict.fromkeys(map(normal_path, manifest.tools)):
        document = parse_data(files.read(file) or b"", file, floats=True)
        for keys, text in _texts(document.value, ()):
            tools.append(Segment(kind="tool", text=text, path=file, keys=keys))
            lines[file, keys] = document.line(keys) or 1
    variants = expand(manifest)
    meant = [variant for variant in variants if selection.includes(variant.name)]
    scripts = []
    for variant in meant:
        made = tuple(artifact for artifact in artifacts if artifact.prefix == variant.name)
        if made:
            rendered = renderer.render(variant)
            scripts.append(
                Script(variant=variant, rendered=rendered, passages=tuple(_passages(rendered)), artifacts=made)
            )
    return Reading(
        manifest=manifest,
        scripts=tuple(scripts),
        tools=tuple(tools),
        tool_lines=lines,
        whole=len(scripts) == len(variants),
    )


def _passages(rendered: Rendered) -> Iterator[Segment]:
    if rendered.system:
        yield Segment(kind="system", text=rendered.system)
    for index, turn in enumerate(rendered.turns):
        yield Segment(kind="example", text=turn.text, keys=("examples", index))


def _texts(value: Any, keys: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:  # noqa: ANN401
    """Every text in a tool file that is part of a request, names of properties too, with the keys above it."""
    if isinstance(value, str):
        yield keys, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, (*keys, index))
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in NOT_SENT and "properties" not in keys[-1:]:
                continue
            if not key.isascii():
                yield (*keys, key), key
            yield from _texts(item, (*keys, key))
