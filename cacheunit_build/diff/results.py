"""The results of `diff` as frozen values for the reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cacheunit_build.domain.cache_rule import Cost
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.models import LockEntry
    from cacheunit_build.domain.protocols import ArtifactKey
    from cacheunit_build.domain.source_map import SourceLine
    from cacheunit_build.domain.target import Price

Part = Literal["system", "padding", "tools", "examples", "frame"]
DifferenceKind = Literal["added", "removed", "renamed", "changed", "tokenizer", "profile", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstChange:
    """Where two versions of an artifact begin to differ.

    `byte` counts in the system text, None where the change is not in it; `token` in the static tokens, `unit` in whole
    cache units of them, both from 0, None where they are the same or the unit is unknown. `source` is the line of the
    sources where the change was made, as they are now, None where that is not known.
    """

    part: Part
    byte: int | None
    token: int | None
    unit: int | None
    source: SourceLine | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What a change of the sources does to one artifact, and to a cache that holds the old one.

    `old` is the entry before, `new` that of now. `was` is the former name of a renamed prefix; `shares` the artifact of
    the old version whose cache serves an added one. `why` says what cannot be told, and why not.
    """

    prefix: str
    target: str
    kind: DifferenceKind
    old: LockEntry | None = None
    new: LockEntry | None = None
    margin: float = 0.0
    was: str | None = None
    shares: str | None = None
    still_cached: int | None = None
    recomputed: int | None = None
    first: FirstChange | None = None
    cost: Cost | None = None
    price: Price | None = None
    text: tuple[str, str] | None = None
    why: str | None = None

    @property
    def key(self) -> ArtifactKey:
        """Prefix and target, which name an artifact."""
        return self.prefix, self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffResult:
    """All differences against `against`, and the sources that changed with the artifacts that use each.

    `faults` are those of the old sources under today's rules.
    """

    against: str
    differences: tuple[Difference, ...] = ()
    sources: Mapping[str, tuple[ArtifactKey, ...]] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def affected(self) -> tuple[str, ...]:
        """The prefixes that are not as they were and still there, each once."""
        return tuple(sorted({item.prefix for item in self.differences if item.kind != "removed"}))
