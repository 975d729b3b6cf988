"""Finds which leading units the artifacts of a target share, and what a shared section would save at the front.

    artifact   units        tree: 1 2     a, b, c
    a          1 2 3 4              3     a, b
    b          1 2 3 5                4   a
    c          1 2 6                  5   b
                                    6     c

A cache holds six units, where the three artifacts have eleven together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.compiler.frozen_options import frozen_options
from cacheunit_build.compiler.project import compile_or_fail
from cacheunit_build.diff.snapshot import Snapshot
from cacheunit_build.domain.fingerprint import fingerprint_json
from cacheunit_build.domain.sequences import common_prefix

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cacheunit_build.domain.artifact import Artifact
    from cacheunit_build.domain.cache_rule import CacheRule
    from cacheunit_build.domain.protocols import Adapters
    from cacheunit_build.domain.selection import Selection
    from cacheunit_build.domain.source_map import SourceMap

MOST_SECTIONS = 8
"""How many shared sections are tried at the front, for each target."""

_BITS_OF_AN_ID = 32

_SHORTEST_SECTION = 200
"""Characters: a shorter section is seldom a unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingNode:
    """A node of the tree of shared units.

    Attributes:
        units: the cache units that all of `names` have here.
        names: the artifacts that have them.
        ends: the artifacts that have no further unit.
        branches: how the others go on.
    """

    units: int
    names: tuple[str, ...]
    ends: tuple[str, ...]
    branches: tuple[SharingNode, ...]

    @property
    def unique(self) -> int:
        """The different units in this node and below."""
        return self.units + sum(branch.unique for branch in self.branches)

    @property
    def saved(self) -> int:
        """The units that a cache need not hold again, because several artifacts share them."""
        return self.units * (len(self.names) - 1) + sum(branch.saved for branch in self.branches)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSection:
    """A text that several artifacts have from one source, but not at the front.

    Attributes:
        path: the source.
        names: the artifacts that have it.
        tokens: its tokens.
        units: the further units that would be shared if it were at the front of all of them.
    """

    path: str
    names: tuple[str, ...]
    tokens: int
    units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSharing:
    """What the artifacts of one target share.

    Attributes:
        target: the target.
        rule: its cache rule.
        margin: the share by which counts may be off.
        unit: tokens in one cache unit; 1 where the target reuses single tokens, or its unit is unknown.
        tree: the tree of shared units.
        units: the units of all artifacts together.
        sections: shared sections, by what they would save.
    """

    target: str
    rule: CacheRule
    margin: float
    unit: int
    tree: SharingNode
    units: int
    sections: tuple[SharedSection, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A section that may save units at the front: its source, its text, and the artifacts that have it."""

    path: str
    text: str
    names: tuple[str, ...]


def sharing(adapters: Adapters, selection: Selection) -> tuple[TargetSharing, ...]:
    """Returns what the selected artifacts share, for each target.

    Raises:
        CacheunitError: every fault in the sources.
    """
    snapshot = Snapshot(compile_or_fail(adapters, selection), adapters.files)
    by_target: dict[str, list[Artifact]] = {}
    for artifact in snapshot.artifacts.values():
        by_target.setdefault(artifact.target, []).append(artifact)
    return tuple(_target_sharing(snapshot, artifacts) for _, artifacts in sorted(by_target.items()))


def sharing_tree(ids: Mapping[str, Sequence[int]], unit: int) -> SharingNode:
    """Returns the tree of units that artifacts share.

    Args:
        ids: the static token ids of each artifact; tokens after its last full unit are left out.
        unit: tokens in one cache unit.

    Returns:
        The root, which may have no unit.
    """
    full_units = {name: list(ids[name][: len(ids[name]) // unit * unit]) for name in sorted(ids)}
    return _node(full_units, 0, unit)


def _node(ids: Mapping[str, Sequence[int]], start: int, unit: int) -> SharingNode:
    """Returns the node of artifacts whose ids are the same up to `start`."""
    first, *others = ids.values()
    end = len(first)
    for other in others:
        end = min(end, common_prefix(first, other))
    end -= end % unit
    ends = tuple(name for name, own in ids.items() if len(own) == end)
    groups: dict[tuple[int, ...], dict[str, Sequence[int]]] = {}
    for name, own in ids.items():
        if len(own) > end:
            groups.setdefault(tuple(own[end : end + unit]), {})[name] = own
    branches = tuple(_node(group, end, unit) for group in groups.values())
    return SharingNode(units=(end - start) // unit, names=tuple(ids), ends=ends, branches=branches)


def _target_sharing(snapshot: Snapshot, artifacts: Sequence[Artifact]) -> TargetSharing:
    target = snapshot.target(artifacts[0]).target
    unit = target.cache.unit or 1
    ids = {artifact.prefix: _ids_with_options(snapshot.ids(artifact), snapshot, artifact) for artifact in artifacts}
    tree = sharing_tree(ids, unit)
    candidates = _candidates(snapshot, artifacts)[:MOST_SECTIONS]
    sections = [_section(snapshot, artifacts, candidate, tree.saved, unit) for candidate in candidates]
    return TargetSharing(
        target=target.name,
        rule=target.cache,
        margin=snapshot.target(artifacts[0]).tokenizer.margin or max(artifact.margin for artifact in artifacts),
        unit=unit,
        tree=tree,
        units=sum(len(own) // unit for own in ids.values()),
        sections=tuple(sorted(sections, key=lambda section: (-section.units, section.path))),
    )


def _ids_with_options(ids: Sequence[int], snapshot: Snapshot, artifact: Artifact) -> Sequence[int]:
    """Returns the token ids of an artifact, shifted by a number made from the frozen options that they do not show.

    Without such options they are the ids themselves; else each is moved by a number that the options give.
    """
    frozen = frozen_options(artifact.variant.manifest, snapshot.target(artifact).target)
    hidden = {name: frozen.values[name] for name in frozen.hidden}
    if not hidden:
        return ids
    start = int(fingerprint_json(hidden).rpartition(":")[2], 16) << _BITS_OF_AN_ID
    return [start + token for token in ids]


def _candidates(snapshot: Snapshot, artifacts: Sequence[Artifact]) -> list[_Candidate]:
    """Returns texts that several artifacts have from one source, in one piece, not at the front; largest first."""
    users: dict[tuple[str, str], list[str]] = {}
    for artifact in artifacts:
        system = snapshot.maps(artifact).system
        for path, start, end in _contiguous_sources(system):
            if start > 0 and end - start >= _SHORTEST_SECTION:
                users.setdefault((path, system.text[start:end]), []).append(artifact.prefix)
    found = [_Candidate(path=path, text=text, names=tuple(names)) for (path, text), names in users.items()]
    shared = [candidate for candidate in found if len(candidate.names) > 1]
    return sorted(shared, key=lambda item: (-len(item.text) * (len(item.names) - 1), item.path))


def _contiguous_sources(system: SourceMap) -> Iterator[tuple[str, int, int]]:
    """Yields each source whose part of a text is in one piece, itself or what it includes, with start and end."""
    extents: dict[str, list[int]] = {}
    for start, end, span in system.spans():
        for path in {line.path for line in span.chain}:
            extent = extents.setdefault(path, [start, start, 0])
            extent[1] = end
            extent[2] += end - start
    for path, (start, end, length) in extents.items():
        if length == end - start < len(system.text):
            yield path, start, end


def _section(
    snapshot: Snapshot, artifacts: Sequence[Artifact], candidate: _Candidate, saved: int, unit: int
) -> SharedSection:
    """Returns what is shared in addition if the candidate is first in the system text of all that have it."""
    moved: Mapping[str, Sequence[int]] = {
        artifact.prefix: _ids_with_options(
            _ids_with_first(snapshot, artifact, candidate.text)
            if artifact.prefix in candidate.names
            else snapshot.ids(artifact),
            snapshot,
            artifact,
        )
        for artifact in artifacts
    }
    tokens = len(snapshot.target(artifacts[0]).tokenizer.encode(candidate.text))
    units = sharing_tree(moved, unit).saved - saved
    return SharedSection(path=candidate.path, names=candidate.names, tokens=tokens, units=units)


def _ids_with_first(snapshot: Snapshot, artifact: Artifact, text: str) -> Sequence[int]:
    """Returns the token ids of an artifact with `text` moved to the front of its system text."""
    rest = snapshot.maps(artifact).system.text.replace(text, "", 1)
    moved = f"{text.strip()}\n\n{rest}"
    # A chat template may strip the system text.
    framed = artifact.framed_prefix.replace(artifact.text.decode().strip(), moved.strip(), 1)
    ids = snapshot.target(artifact).tokenizer.encode(framed)
    return ids[: len(ids) - artifact.unstable]
