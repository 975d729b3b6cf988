"""Collects the inputs of the rules for one prefix: its manifest, the texts of its variants and of its tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.front_options import RESPONSE_SCHEMA
from cacheunit_build.domain.paths import normal_path
from cacheunit_build.domain.source_map import SourceLine
from cacheunit_build.lint.segment import Segment
from cacheunit_build.parsing.data_file import parse_data
from cacheunit_build.parsing.tools import CLIENT_ONLY_KEYS, listed_tools

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cacheunit_build.domain.artifact import Artifact
    from cacheunit_build.domain.manifest import Manifest, Variant
    from cacheunit_build.domain.prompt import Rendered
    from cacheunit_build.domain.protocols import SourceFiles
    from cacheunit_build.domain.selection import SelectedArtifacts
    from cacheunit_build.templating.renderer import Renderer


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantInputs:
    """What the rules read of one variant.

    Attributes:
        variant: the variant.
        rendered: what its templates gave.
        system: the system text; None where it is empty.
        turns: the example turns, in order.
        artifacts: the artifacts made from it, one for each target.
    """

    variant: Variant
    rendered: Rendered
    system: Segment | None
    turns: tuple[Segment, ...]
    artifacts: tuple[Artifact, ...]

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The system text, where there is one, and the example turns."""
        return self.turns if self.system is None else (self.system, *self.turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixInputs:
    """What the rules read of one prefix.

    Attributes:
        manifest: the manifest of the prefix.
        variants: the selected variants, at least one.
        tools: the texts of its tools, of the tool calls in its examples, and of its response schema.
        has_all_variants: whether every variant of the manifest is selected.
    """

    manifest: Manifest
    variants: tuple[VariantInputs, ...]
    tools: tuple[Segment, ...]
    has_all_variants: bool


def read_prefix_inputs(
    variants: Sequence[Variant],
    files: SourceFiles,
    renderer: Renderer,
    selection: SelectedArtifacts,
    artifacts: Sequence[Artifact],
) -> PrefixInputs:
    """Returns the inputs of a prefix whose variants compiled without a fault into `artifacts`."""
    manifest = variants[0].manifest
    tool_files = dict.fromkeys(map(normal_path, manifest.tools))
    inputs = tuple(
        _variant_inputs(variant, renderer.render(variant), own_artifacts)
        for variant in variants
        if selection.includes(variant.name)
        and (own_artifacts := tuple(artifact for artifact in artifacts if artifact.prefix == variant.name))
    )
    return PrefixInputs(
        manifest=manifest,
        variants=inputs,
        tools=(
            *(segment for path in tool_files for segment in _tool_segments(files, path)),
            *_call_segments(manifest),
            *_schema_segments(manifest, files),
        ),
        has_all_variants=len(inputs) == len(variants),
    )


def _variant_inputs(variant: Variant, rendered: Rendered, artifacts: tuple[Artifact, ...]) -> VariantInputs:
    """Returns a variant's inputs, with its rendered texts as segments."""
    return VariantInputs(
        variant=variant,
        rendered=rendered,
        system=Segment(kind="system", text=rendered.system) if rendered.system else None,
        turns=tuple(Segment(kind="example", text=turn.text, turn=index) for index, turn in enumerate(rendered.turns)),
        artifacts=artifacts,
    )


_PROSE_KEYS = ("description", "title")
"""The keys of a tool or a schema whose text is for the model alone; programs read other texts."""


def _tool_segments(files: SourceFiles, path: str) -> Iterator[Segment]:
    """Yields the texts of a tool file that are part of a request."""
    document = parse_data(files.read(path) or b"", path, floats=True)
    for keys, text in _sent_texts(*listed_tools(document)):
        line = SourceLine(path=path, line=document.line(keys) or 1)
        yield Segment(kind="tool", text=text, tool_line=line, is_value=keys[-1] not in _PROSE_KEYS)


def _call_segments(manifest: Manifest) -> Iterator[Segment]:
    """Yields the texts in the arguments of the tool calls in the examples."""
    for index, example in enumerate(manifest.examples):
        for place, call in enumerate(example.tool_calls):
            for keys, text in _sent_texts(call.arguments, ("examples", index, "tool_calls", place, "arguments")):
                line = SourceLine(path=manifest.path, line=manifest.line(*keys) or 1)
                yield Segment(kind="tool", text=text, tool_line=line, is_value=True)


def _schema_segments(manifest: Manifest, files: SourceFiles) -> Iterator[Segment]:
    """Yields the texts of the response schema."""
    file = manifest.options.get(RESPONSE_SCHEMA)
    if isinstance(file, str):
        path = normal_path(file)
        document = parse_data(files.read(path) or b"", path, floats=True)
        for keys, text in _sent_texts(document.value, ()):
            line = SourceLine(path=path, line=document.line(keys) or 1)
            yield Segment(kind="tool", text=text, tool_line=line, is_value=keys[-1] not in _PROSE_KEYS)


def _sent_texts(value: Any, keys: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:  # noqa: ANN401
    """Yields every text in the value of a tool file that is sent in a request, with the keys that lead to it.

    Texts are string values, and names of properties where they are not ASCII.
    """
    if isinstance(value, str):
        yield keys, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _sent_texts(item, (*keys, index))
    elif isinstance(value, dict):
        for key, item in value.items():
            is_property = keys[-1:] == ("properties",)
            if key in CLIENT_ONLY_KEYS and not is_property:
                continue
            if not key.isascii():
                yield (*keys, key), key
            yield from _sent_texts(item, (*keys, key))
