"""The cache rule of a target, and all arithmetic that follows from it: reusable tokens, impact and cost of a change."""

from __future__ import annotations

import datetime as dt  # noqa: TID251 - the type of a date; no clock is read
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from cacheunit_build.domain.constraints import VALIDATION, Limits
from cacheunit_build.domain.sequences import common_prefix

if TYPE_CHECKING:
    from collections.abc import Sequence

CacheKind = Literal["blocks", "breakpoints", "tokens", "unknown"]
MarkerName = Literal["cache_control", "prompt_cache_breakpoint"]
Grade = Literal["documented", "measured", "inferred"]

MILLION = 1_000_000

MOST_UNIT = 1 << 20
"""The most tokens that a cache unit may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The reason to believe a number of a target."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    claim: str
    """What is claimed, in one sentence."""
    grade: Grade
    """Whether the provider documents it, it was measured on a server, or it is inferred."""
    checked: dt.date
    """The day of the last check."""
    source: str
    """The URL or name of the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeImpact:
    """What a cache that holds the old tokens of a prefix serves of the new ones.

    Attributes:
        first: index of the first token that differs; where none does, the length of the shorter version.
        still_cached: static tokens that the old cache entry still serves; None where the cache rule is unknown.
        recomputed: the other static tokens of the new version; None where the cache rule is unknown.
    """

    first: int
    still_cached: int | None
    recomputed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of a change, as a multiple of the price of one uncached input token; None where it is unknown.

    Attributes:
        one_time: extra cost of the first request after the change, which has to write the cache again.
        per_million: extra cost of a million later requests; negative where they become cheaper.
    """

    one_time: float | None
    per_million: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRule:
    """How a target reuses the computation of a prefix. A price of 1 is that of an uncached input token."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    kind: CacheKind = "unknown"
    """What is reused: whole units of a common prefix (blocks), a marked prefix as a whole (breakpoints), every common
    token (tokens)."""
    unit: Annotated[int, Limits(gt=0, le=MOST_UNIT)] | None = None
    """The tokens in one cache unit, of blocks; unknown if left out."""
    minimum: Annotated[int, Limits(ge=0)] | None = None
    """A prefix of fewer tokens is never cached; 0 is no minimum, and unknown if left out."""
    read: Annotated[float, Limits(ge=0, le=1)] | None = None
    """The price of a token that is read from the cache."""
    write: Annotated[float, Limits(ge=0)] | None = None
    """The price of a token that is written to the cache."""
    marker: MarkerName | None = None
    """The marker that a request must carry for its prefix to be cached."""
    warm_up_requests: Annotated[int, Limits(ge=1, le=5)] = 1
    """The requests with different continuations until a further one is served from the cache."""
    evidence: tuple[Evidence, ...] = ()
    """The reasons to believe these numbers."""

    def __post_init__(self) -> None:
        if self.unit is not None and self.kind != "blocks":
            raise ValueError(f'has a "unit", which only kind "blocks" has, not "{self.kind}"')

    def reusable(self, tokens: int) -> int | None:
        """Returns how many of a prefix's static tokens a warm cache serves; None where the rule is unknown.

        kind         unit  minimum  tokens  result
        blocks        128        0     300     256
        blocks        128     1024     300       0
        breakpoints          1024     1300    1300
        """
        if tokens < (self.minimum or 0):
            return 0
        if self.kind == "blocks" and self.unit is not None:
            return tokens - tokens % self.unit
        return tokens if self.kind in ("tokens", "breakpoints") else None

    def impact(self, old: Sequence[int], new: Sequence[int], *, on_block: bool = True) -> ChangeImpact:
        """Returns what a cache that holds `old` serves of `new`.

        Args:
            old: static token ids in the cache.
            new: static token ids of the new version.
            on_block: whether the old prefix ends where a content block of the new request ends. Only then do
                breakpoints serve an old prefix that the new one extends, since a marker ends a whole block.
        """
        first = common_prefix(old, new)
        still_cached = self._still_cached(len(old), len(new), first, on_block=on_block)
        if still_cached is not None and still_cached < (self.minimum or 0):
            still_cached = 0
        recomputed = None if still_cached is None else len(new) - still_cached
        return ChangeImpact(first=first, still_cached=still_cached, recomputed=recomputed)

    def _still_cached(self, old: int, new: int, common: int, *, on_block: bool) -> int | None:
        """Returns the tokens served of `new` tokens, before the minimum is applied; `common` lead both versions.

        kind         unit  old   new    on_block  result
        tokens             abcd  abce   True      3
        blocks       2     abcd  abce   True      2
        breakpoints        abcd  abce   True      0
        breakpoints        abcd  abcde  True      4
        breakpoints        abcd  abcde  False     0
        """
        if self.kind == "tokens":
            return common
        if self.kind == "breakpoints":
            return old if common == old and (on_block or new == old) else 0
        if self.kind == "blocks" and self.unit is not None:
            return common - common % self.unit
        return None

    def cost(self, still_cached: int | None, old_tokens: int, new_tokens: int) -> Cost:
        """Returns the cost of a change from `old_tokens` to `new_tokens` static tokens.

        Args:
            still_cached: how many of them the old cache entry still serves; None where that is unknown.
            old_tokens: static tokens before the change.
            new_tokens: static tokens after the change.
        """
        before, after = self.reusable(old_tokens), self.reusable(new_tokens)
        if self.read is None or before is None or after is None:
            return Cost(one_time=None, per_million=None)
        uncached = None if still_cached is None else max(0, after - still_cached)
        one_time = None if uncached is None or self.write is None else uncached * (self.write - self.read)
        old_price, new_price = (
            served * self.read + (tokens - served) for tokens, served in ((old_tokens, before), (new_tokens, after))
        )
        return Cost(one_time=one_time, per_million=(new_price - old_price) * MILLION)
