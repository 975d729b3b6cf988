"""The results of `diff` as frozen values for the reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from cacheunit_build.domain.settings import DEFAULT_HITS_PER_MISS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from cacheunit_build.diff.snapshot import Snapshot
    from cacheunit_build.domain.cache_results import Cost
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.lock import ArtifactKey, LockEntry
    from cacheunit_build.domain.prices import PriceOrigin
    from cacheunit_build.domain.source_map import SourceLine
    from cacheunit_build.domain.target import Price

Part = Literal["system", "padding", "tools", "examples", "options", "cache", "frame"]
DifferenceKind = Literal["added", "removed", "renamed", "changed", "tokenizer", "profile", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstChange:
    """The place at which two versions of an artifact begin to differ.

    Attributes:
        part: the part of the request.
        byte: the offset in the system text, from 0; None where the change is not in it.
        token: the index among the static tokens, from 0; None where these are the same.
        unit: the index among full cache units, from 0; None where that is not known.
        source: the line of the present sources that made the change; None where it is not known.
    """

    part: Part
    byte: int | None
    token: int | None
    unit: int | None
    source: SourceLine | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedLines:
    """Lines of a source that were replaced; those of the old or of the new version may be none.

    Attributes:
        old: the lines of the old version.
        new: the lines of the new version.
    """

    old: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What a change of the sources does to one artifact, and to a cache that holds the old version.

    Attributes:
        prefix: the prefix or variant.
        target: the target.
        kind: what changed.
        what: the kind of change in words, such as `text edited` or `variable locale: en → fr`.
        place: the line of the present sources that is named for the change: that of the first change, or the manifest
            of an artifact that was added, removed or renamed; None where it is not known.
        old: the lock entry of the old version; None for an added artifact.
        new: the lock entry of the new version; None for a removed artifact.
        was: the former name of a renamed prefix.
        shares: the artifact of the old version whose cache entry serves an added one.
        still_cached: static tokens that the old cache entry still serves; None where unknown.
        recomputed: the other static tokens; None where unknown.
        first: where the versions begin to differ.
        cost: the cost of the change.
        mean_price: the change of the mean price of a request, as `request_price` gives it; None where unknown.
        price: the price of the target's tokens in money, if it is known.
        price_origin: where that price comes from; None for the target's own.
        text: what the model reads of the old and the new version, without padding, where both are known.
        why: the reason why something is unknown.
    """

    prefix: str
    target: str
    kind: DifferenceKind
    what: str = ""
    place: SourceLine | None = None
    old: LockEntry | None = None
    new: LockEntry | None = None
    was: str | None = None
    shares: str | None = None
    still_cached: int | None = None
    recomputed: int | None = None
    first: FirstChange | None = None
    cost: Cost | None = None
    mean_price: float | None = None
    price: Price | None = None
    price_origin: PriceOrigin | None = None
    text: tuple[str, str] | None = None
    why: str | None = None

    @property
    def key(self) -> ArtifactKey:
        """The prefix and the target, which name the artifact."""
        return self.prefix, self.target

    @property
    def is_count_only(self) -> bool:
        """Whether only the count changed, and no request and no rule did."""
        return self.what.startswith(COUNT_ONLY)

    @property
    def estimated(self) -> bool:
        """Whether the number of tokens is an estimate; that of the older version if the artifact was removed."""
        entry = self.new or self.old
        return entry is not None and entry.is_estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One change of the sources, with the differences of all artifacts in which it is the first change.

    Attributes:
        source: its place; None where it is not known.
        what: the kind of change in words; `also changed` where no artifact differs here first.
        changes: the lines that changed at that place.
        differences: the differences, by prefix and target; none where no artifact differs here first.
    """

    source: SourceLine | None
    what: str
    changes: tuple[ChangedLines, ...] = ()
    differences: tuple[Difference, ...] = ()


COUNT_ONLY = "count only"
"""How the words of a difference begin in which only the count of the same bytes changed."""

TOOLS_REORDERED = "tools reordered"
"""The words of a difference in which only the order of tools changed."""

ALSO_CHANGED = "also changed"
"""The words for a changed place in the sources that is the first change of no artifact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffResult:
    """The differences between the sources and an older version.

    Attributes:
        against: the name of the older version.
        differences: the differences, by prefix and target.
        sources: the artifacts that use each changed source.
        lines: the lines that changed at each place of a difference, and at each further place of the changed sources.
        hits_per_miss: how many requests of the project a cache entry serves for each one that writes it.
        faults: the faults of the old sources, by today's rules.
        notes: further remarks.
        snapshot: the present sources, compiled, for reports that show texts.
    """

    against: str
    differences: tuple[Difference, ...] = ()
    sources: Mapping[str, tuple[ArtifactKey, ...]] = field(default_factory=dict)
    lines: Mapping[SourceLine, ChangedLines] = field(default_factory=dict)
    hits_per_miss: int = DEFAULT_HITS_PER_MISS
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()
    snapshot: Snapshot | None = field(default=None, compare=False, repr=False)

    @property
    def affected(self) -> tuple[str, ...]:
        """The prefixes that changed and still exist, each once, sorted."""
        return tuple(sorted({item.prefix for item in self.differences if item.kind != "removed"}))

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The differences by place and words, in the order of places, then the further places of each changed source.

        A place that is not known is last; the further places of one source are together.
        """
        groups: dict[tuple[SourceLine | None, str], list[Difference]] = {}
        for item in self.differences:
            groups.setdefault((item.place, item.what), []).append(item)
        causes = [
            Cause(source=place, what=what, changes=self._changes_at(place), differences=tuple(items))
            for (place, what), items in groups.items()
        ]
        causes.sort(key=lambda cause: (*_order(cause.source), cause.what))
        reordered = {place.path for place, what in groups if place is not None and what == TOOLS_REORDERED}
        return (*causes, *self._also_changed({place for place, _ in groups}, reordered))

    def _changes_at(self, place: SourceLine | None) -> tuple[ChangedLines, ...]:
        return (self.lines[place],) if place is not None and place in self.lines else ()

    def _also_changed(self, first: Collection[SourceLine | None], reordered: Collection[str]) -> Iterator[Cause]:
        """Yields a cause without differences for each changed source that has places besides `first`.

        In the files of `reordered`, of which the order of tools alone changed, that is the other end of the same move.
        """
        places: dict[str, list[SourceLine]] = {}
        for place in sorted(self.lines, key=_order):
            if place not in first and place.path not in reordered:
                places.setdefault(place.path, []).append(place)
        for own in places.values():
            yield Cause(source=own[0], what=ALSO_CHANGED, changes=tuple(self.lines[place] for place in own))


def _order(place: SourceLine | None) -> tuple[bool, str, int]:
    return (True, "", 0) if place is None else (False, place.path, place.line)
