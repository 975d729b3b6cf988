"""The story of shared heads: all artifacts of each target as a tree, and what a shared section would gain in front."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.compiler.project import compile_or_fail
from cacheunit_build.diff.sharing_tree import family_tree
from cacheunit_build.diff.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cacheunit_build.diff.sharing_tree import Branch
    from cacheunit_build.domain.cache_rule import CacheRule
    from cacheunit_build.domain.models import Artifact
    from cacheunit_build.domain.protocols import Adapters, Selection
    from cacheunit_build.domain.source_map import SourceMap

MOST_SECTIONS = 8
"""How many shared sections are tried at the front, for each target."""

_LEAST_SHARED = 200  # characters: what is shorter is seldom a unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A text that several artifacts have from one source, behind their heads.

    `units` is how many more units would be shared if it stood at the front of all of them.
    """

    path: str
    names: tuple[str, ...]
    tokens: int
    units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The artifacts of one target. `unit` is 1 where the target counts in tokens, or its unit is unknown."""

    target: str
    rule: CacheRule
    margin: float
    unit: int
    tree: Branch
    units: int
    sections: tuple[Section, ...]


def families(adapters: Adapters, selection: Selection) -> tuple[Family, ...]:
    """The family of each target that `selection` takes.

    Raises:
        CacheunitError: every fault in the sources.
    """
    compiled = compile_or_fail(adapters, selection)
    version = Snapshot(compiled, adapters.files)
    by_target: dict[str, list[Artifact]] = {}
    for artifact in version.artifacts():
        by_target.setdefault(artifact.target, []).append(artifact)
    return tuple(_family(version, artifacts) for _, artifacts in sorted(by_target.items()))


def _family(version: Snapshot, artifacts: Sequence[Artifact]) -> Family:
    target = version.ready(artifacts[0]).target
    unit = target.cache.unit or 1
    ids = {artifact.prefix: version.ids(artifact) for artifact in artifacts}
    tree = family_tree(ids, unit)
    sections = [
        _gain(version, artifacts, shared, tree.saved, unit) for shared in _shared(version, artifacts)[:MOST_SECTIONS]
    ]
    return Family(
        target=target.name,
        rule=target.cache,
        margin=artifacts[0].margin,
        unit=unit,
        tree=tree,
        units=sum(len(own) // unit for own in ids.values()),
        sections=tuple(sorted(sections, key=lambda section: (-section.units, section.path))),
    )


def _shared(version: Snapshot, artifacts: Sequence[Artifact]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Source, text and users of what several artifacts have from one source, in one piece and not in front."""
    users: dict[tuple[str, str], list[str]] = {}
    for artifact in artifacts:
        found = version.origins(artifact).system
        for path, start, end in _runs(found):
            if start > 0 and end - start >= _LEAST_SHARED:
                users.setdefault((path, found.text[start:end]), []).append(artifact.prefix)
    shared = [(path, text, tuple(names)) for (path, text), names in users.items() if len(names) > 1]
    return sorted(shared, key=lambda item: (-len(item[1]) * (len(item[2]) - 1), item[0]))


def _runs(found: SourceMap) -> Iterator[tuple[str, int, int]]:
    """Each source that gave one run of a text, itself or by what it brings in, with where the run begins and ends."""
    spans: dict[str, list[int]] = {}
    for start, end, piece in found.spans():
        for path in {place.path for place in piece.chain}:
            known = spans.setdefault(path, [start, start, 0])
            known[1] = end
            known[2] += end - start
    for path, (start, end, length) in spans.items():
        if length == end - start < len(found.text):
            yield path, start, end


def _gain(
    version: Snapshot,
    artifacts: Sequence[Artifact],
    shared: tuple[str, str, tuple[str, ...]],
    saved: int,
    unit: int,
) -> Section:
    """What more is shared if a section stands first in the system text of all that have it: all encoded anew."""
    path, text, names = shared
    moved: Mapping[str, Sequence[int]] = {
        artifact.prefix: _with_first(version, artifact, text) if artifact.prefix in names else version.ids(artifact)
        for artifact in artifacts
    }
    tokens = len(version.ready(artifacts[0]).tokenizer.encode(text))
    return Section(path=path, names=names, tokens=tokens, units=family_tree(moved, unit).saved - saved)


def _with_first(version: Snapshot, artifact: Artifact, text: str) -> Sequence[int]:
    """The tokens of an artifact with that part of its system text moved to the front."""
    whole = version.origins(artifact).system.text
    rest = whole.replace(text, "", 1)
    framed_prefix = artifact.framed_prefix.replace(artifact.text.decode(), f"{text.strip()}\n\n{rest}", 1)
    return version.ready(artifact).tokenizer.encode(framed_prefix)
