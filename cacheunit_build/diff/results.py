"""The results of `diff` as frozen values for the reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

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
class Difference:
    """What a change of the sources does to one artifact, and to a cache that holds the old version.

    Attributes:
        prefix: the prefix or variant.
        target: the target.
        kind: what changed.
        old: the lock entry of the old version; None for an added artifact.
        new: the lock entry of the new version; None for a removed artifact.
        was: the former name of a renamed prefix.
        shares: the artifact of the old version whose cache entry serves an added one.
        still_cached: static tokens that the old cache entry still serves; None where unknown.
        recomputed: the other static tokens; None where unknown.
        first: where the versions begin to differ.
        cost: the cost of the change.
        price: the price of the target's tokens in money, if it is known.
        price_origin: where that price comes from; None for the target's own.
        text: the old and the new text, where both are known.
        why: the reason why something is unknown.
    """

    prefix: str
    target: str
    kind: DifferenceKind
    old: LockEntry | None = None
    new: LockEntry | None = None
    was: str | None = None
    shares: str | None = None
    still_cached: int | None = None
    recomputed: int | None = None
    first: FirstChange | None = None
    cost: Cost | None = None
    price: Price | None = None
    price_origin: PriceOrigin | None = None
    text: tuple[str, str] | None = None
    why: str | None = None

    @property
    def key(self) -> ArtifactKey:
        """The prefix and the target, which name the artifact."""
        return self.prefix, self.target

    @property
    def estimated(self) -> bool:
        """Whether the number of tokens is an estimate; that of the older version if the artifact was removed."""
        entry = self.new or self.old
        return entry is not None and entry.is_estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffResult:
    """The differences between the sources and an older version.

    Attributes:
        against: the name of the older version.
        differences: the differences, by prefix and target.
        sources: the artifacts that use each changed source.
        faults: the faults of the old sources, by today's rules.
        notes: further remarks.
        prefixes: the folder of manifests.
    """

    against: str
    differences: tuple[Difference, ...] = ()
    sources: Mapping[str, tuple[ArtifactKey, ...]] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()
    prefixes: str = "prefixes"

    @property
    def affected(self) -> tuple[str, ...]:
        """The prefixes that changed and still exist, each once, sorted."""
        return tuple(sorted({item.prefix for item in self.differences if item.kind != "removed"}))
