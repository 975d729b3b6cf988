"""What a cache rule says about a prefix: the prediction, the impact and cost of a change, the gain of padding."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """How many static tokens of a prefix a warm cache serves.

    Attributes:
        tokens: the number; None where it is unknown, or unknown whether anything is cached.
        low: the fewest tokens that it may be.
        high: the most tokens that it may be.
    """

    tokens: int | None
    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeImpact:
    """What a cache that holds the old tokens of a prefix serves of the new ones.

    Attributes:
        first: index of the first token that differs; where none does, the length of the shorter version.
        still_cached: static tokens that the old cache entry still serves; None where unknown.
        recomputed: the other static tokens of the new version; None where unknown.
        why: why they are unknown; None where they are known.
    """

    first: int
    still_cached: int | None
    recomputed: int | None
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of a change, as a multiple of the price of one uncached input token; None where it is unknown.

    Attributes:
        one_time: extra cost of the first request after the change, which has to write the cache again.
        per_million: extra cost of a million later requests; negative where they become cheaper.
    """

    one_time: float | None
    per_million: float | None

    @property
    def is_known(self) -> bool:
        """Whether any of it is known."""
        return self.one_time is not None or self.per_million is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddingGain:
    """What padding to the end of a unit saves and costs, as a multiple of the price of one uncached input token.

    Attributes:
        saved_per_hit: saved by each request that the cache serves; negative where a full cached unit costs more.
        cost_per_miss: further cost of each request that has to write the cache.
    """

    saved_per_hit: float
    cost_per_miss: float

    @property
    def break_even(self) -> int | None:
        """The fewest hits for each miss at which padding saves more than it costs; None where it never does."""
        if self.saved_per_hit <= 0:
            return None
        return math.floor(self.cost_per_miss / self.saved_per_hit) + 1
