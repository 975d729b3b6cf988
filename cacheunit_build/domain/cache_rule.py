"""The cache rule of a target, and all arithmetic that follows from it: reusable tokens, bounds, padding, cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol

from cacheunit_build.domain.constraints import VALIDATION, Limits
from cacheunit_build.domain.evidence import Evidence
from cacheunit_build.domain.lifetimes import ANY_LIFETIME, lifetime_seconds
from cacheunit_build.domain.sequences import common_prefix
from cacheunit_build.domain.token_count import TokenCount

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    # At run time, a result is imported where it is made: `load` reads a rule, and creating these classes takes 2 ms.
    from cacheunit_build.domain.cache_results import ChangeImpact, Cost, PaddingGain, Prediction

CacheKind = Literal["blocks", "breakpoints", "tokens", "stored", "unknown"]
MarkerName = Literal["cache_control", "prompt_cache_breakpoint", "cachePoint"]
OptionEffect = Literal["front", "text", "examples", "cache"]
"""What the value of a request option changes: it puts text in front of the prefix, it changes the text of the prefix,
it changes only what stands in front of the worked examples, or the provider keeps a cache of its own for each value."""

MILLION = 1_000_000

_WHY_NO_PADDING: dict[CacheKind, str] = {
    "tokens": "any common prefix is reused, so padding saves nothing",
    "breakpoints": "the marked prefix is reused to the token, so padding saves nothing",
    "stored": "the whole prefix is stored and reused, so padding saves nothing",
    "unknown": "the target's cache rule is unknown, so nothing is padded",
    "blocks": "the target's cache unit is unknown, so nothing is padded",
}

MOST_UNIT = 1 << 20
"""The most tokens that a cache unit may have."""
MOST_DROPPED_UNITS = 16
"""The most units that a cache rule may drop."""


class CountedPrefix(Protocol):
    """The number of static tokens of a prefix, as a lock entry has it: with its margin and its cache markers."""

    @property
    def tokens(self) -> int:
        """The number of static tokens."""

    @property
    def margin(self) -> float:
        """The share by which that number may be off; 0 for an exact one."""

    @property
    def markers(self) -> Sequence[int]:
        """How many static tokens stand in front of each cache marker, in ascending order."""

    @property
    def lifetimes(self) -> Sequence[str]:
        """The lifetime of each marker, or one for the whole prefix; empty for the provider's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRule:
    """How a target reuses the computation of a prefix. A price of 1 is that of an uncached input token."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    kind: CacheKind = "unknown"
    """What is reused: whole units of a common prefix (blocks), a marked prefix as a whole (breakpoints), every common
    token (tokens), a prefix that a request of its own stores at the provider, as a whole (stored)."""
    unit: Annotated[int, Limits(gt=0, le=MOST_UNIT)] | None = None
    """The tokens in one cache unit, of blocks; unknown if left out."""
    minimum: Annotated[int, Limits(ge=0)] | None = None
    """A prefix of fewer tokens is never cached; 0 is no minimum, and unknown if left out."""
    dropped_units: Annotated[int, Limits(ge=0, le=MOST_DROPPED_UNITS)] = 0
    """The last full units of a common prefix that the server recomputes in every request; of blocks."""
    read: Annotated[float, Limits(ge=0, le=1)] | None = None
    """The price of a token that is read from the cache."""
    write: Annotated[float, Limits(ge=0)] | None = None
    """The price of a token that is written to the cache."""
    lifetimes: Mapping[str, Annotated[float, Limits(ge=0)]] = field(default_factory=dict)
    """The price of a token that is written for each lifetime that a request may ask for, such as 5m or 1h; * for any.
    What a request does not ask for is the shortest."""
    lifetime_option: str | None = None
    """The request option that sets the lifetime of the whole prefix; left out, each marker has a `ttl` of its own."""
    marker: MarkerName | None = None
    """The marker that a request must carry for its prefix to be cached."""
    key: str | None = None
    """The request key that chooses a cache: requests with different values of it do not share one."""
    warm_up_requests: Annotated[int, Limits(ge=1, le=5)] = 1
    """The requests with different continuations until a further one is served from the cache."""
    best_effort: bool = False
    """Whether a request may miss although its prefix is cached; `verify` then judges the share of hits."""
    evidence: tuple[Evidence, ...] = ()
    """The reasons to believe these numbers."""

    def __post_init__(self) -> None:
        for key in ("unit", "dropped_units"):
            if getattr(self, key) and self.kind != "blocks":
                raise ValueError(f'has a "{key}", which only kind "blocks" has, not "{self.kind}"')

    def has_lifetime(self, lifetime: str) -> bool:
        """Returns whether a request can ask for a lifetime."""
        return lifetime in self.lifetimes or (ANY_LIFETIME in self.lifetimes and lifetime_seconds(lifetime) is not None)

    @property
    def default_lifetime(self) -> str | None:
        """The shortest lifetime, which is that of a request that asks for none; None where it is unknown."""
        known = [(seconds, item) for item in self.lifetimes if (seconds := lifetime_seconds(item))]
        return min(known)[1] if known else None

    def price_of_write(self, lifetime: str | None) -> float | None:
        """Returns the price of a token that is written for a lifetime; None where it is unknown."""
        if lifetime is None:
            return self.write
        return self.lifetimes.get(lifetime, self.lifetimes.get(ANY_LIFETIME, self.write))

    def written_for(self, lifetime: str | None) -> CacheRule:
        """Returns the rule of prefixes that are written for a lifetime."""
        return self if lifetime is None else replace(self, write=self.price_of_write(lifetime))

    @property
    def has_units(self) -> bool:
        """Whether whole units are reused, of a number of tokens that may be unknown."""
        return self.kind == "blocks"

    @property
    def serves_marked_only(self) -> bool:
        """Whether only a marked prefix is served, as a whole."""
        return self.kind == "breakpoints"

    @property
    def is_stored(self) -> bool:
        """Whether a request of its own stores the prefix, and later ones name it."""
        return self.kind == "stored"

    @property
    def is_known(self) -> bool:
        """Whether enough is known to tell how many tokens are reused."""
        return self.kind != "unknown" and (self.kind != "blocks" or self.unit is not None)

    @property
    def why_no_padding(self) -> str:
        """Why a prefix of any length that is cached is not padded; only known units can be padded."""
        return _WHY_NO_PADDING[self.kind]

    @property
    def fewest_cached(self) -> int:
        """The fewest static tokens of which anything is cached: the minimum, or the first unit that is not dropped."""
        return max(self.minimum or 0, (self.unit or 0) * (1 + self.dropped_units))

    @property
    def fewest_name(self) -> str:
        """What `fewest_cached` is, for messages."""
        if self.fewest_cached == self.minimum:
            return "the minimum"
        return f"the first {1 + self.dropped_units} units" if self.dropped_units else "one unit"

    @property
    def fill_goal(self) -> int:
        """The fewest tokens, in full units, of which anything is cached: what padding up to the minimum reaches."""
        unit = self.unit or 1
        return -(-self.fewest_cached // unit) * unit

    def unit_or_none(self, margin: float = 0.0) -> int | None:
        """Returns the tokens in a unit; None where there is none, or where an estimate cannot tell where units end."""
        return None if margin else self.unit

    def caches(self, count: TokenCount) -> bool | None:
        """Returns whether anything of a prefix is cached; None where an estimate is too close to tell.

        minimum  tokens  margin  result
        1,024     1,300  0.0     True
        1,024     1,300  0.5     None
        1,024       500  0.5     False
        """
        if count.high < self.fewest_cached:
            return False
        return True if count.low >= self.fewest_cached else None

    def reusable(self, shared: int, markers: Sequence[int]) -> int | None:
        """Returns how many tokens a warm cache serves to a request that begins with the same `shared` tokens.

        kind         unit  minimum  markers      shared  result
        blocks        128         0  -               300     256
        blocks        128     1,024  -               300       0
        tokens         -         0  -               300     300
        breakpoints    -     1,024  1,100 1,300   1,300   1,300
        breakpoints    -     1,024  1,100 1,300   1,299   1,100
        breakpoints    -     1,024  none          1,300       0
        stored         -     4,096  -             5,000   5,000

        With one dropped unit, the first row gives 128.

        Args:
            shared: the tokens that both requests begin with.
            markers: how many tokens stand in front of each cache marker.

        Returns:
            The number of tokens; None where the rule is unknown.
        """
        stored = self._stored(shared, markers)
        if stored < (self.minimum or 0):
            return 0
        if not self.is_known:
            return None
        if self.unit is not None:
            return max(0, stored // self.unit - self.dropped_units) * self.unit
        return stored

    def _stored(self, shared: int, markers: Sequence[int]) -> int:
        """Returns the length of the longest stored prefix of `shared` tokens, before minimum and units are applied."""
        if self.kind != "breakpoints":
            return shared
        return max((marker for marker in markers if marker <= shared), default=0)

    def predict(self, prefix: CountedPrefix) -> Prediction:
        """Returns how many static tokens of a prefix a warm cache serves, with the bounds that its margin gives."""
        from cacheunit_build.domain.cache_results import Prediction

        tokens = self.reusable(prefix.tokens, prefix.markers)
        if tokens is None:
            return Prediction(tokens=None, low=0, high=prefix.tokens)
        count = TokenCount(tokens=prefix.tokens, margin=prefix.margin)
        markers = [TokenCount(tokens=marker, margin=prefix.margin) for marker in prefix.markers]
        low = self.reusable(count.low, [marker.low for marker in markers]) or 0
        high = self.reusable(count.high, [marker.high for marker in markers]) or 0
        return Prediction(tokens=tokens if low or not high else None, low=low, high=high)

    def impact(
        self,
        old: CountedPrefix,
        new: CountedPrefix,
        ids: tuple[Sequence[int], Sequence[int]],
        *,
        found: Sequence[int] | None = None,
        scale: Callable[[int], int] = int,
    ) -> ChangeImpact:
        """Returns what a cache that holds the old version of a prefix serves of the new one.

        Args:
            old: the version in the cache.
            new: the new version.
            ids: the static token ids of the old and of the new version.
            found: those of the old markers whose entries a request with the new version finds, where its content
                blocks were compared; None where only the tokens are known. A block stays the same even where its last
                token merges with a block that was added behind it, so these may exceed the common tokens by one.
            scale: turns a number of token ids into static tokens: of an estimate, the ids are of another vocabulary.
        """
        from cacheunit_build.domain.cache_results import ChangeImpact

        first = scale(common_prefix(*ids))
        if self.is_stored and first < scale(max(map(len, ids))):  # another prefix is stored anew
            return ChangeImpact(first=first, still_cached=0, recomputed=new.tokens)
        shared, written = first, old.markers
        if found is not None and self.serves_marked_only:
            shared, written = max(found, default=0), found
        still_cached = self.reusable(shared, written)
        stored = TokenCount(tokens=self._stored(shared, written), margin=max(old.margin, new.margin))
        why = self._why_unknown(stored)
        if why is not None or still_cached is None:
            return ChangeImpact(first=first, still_cached=None, recomputed=None, why=why)
        return ChangeImpact(first=first, still_cached=still_cached, recomputed=new.tokens - still_cached)

    def _why_unknown(self, stored: TokenCount) -> str | None:
        """Returns why it is unknown what is served of a stored prefix; None where it is known."""
        if self.caches(stored) is False:
            return None
        if not self.is_known:
            return "the target's cache rule is unknown, so it is unknown how many tokens stay cached"
        if not stored.tokens or not stored.margin:
            return None
        if self.has_units:
            return "an estimate cannot tell where units end, so it is unknown how many tokens stay cached"
        if self.caches(stored) is None:
            minimum = "the target's minimum is within the margin of the estimate"
            return f"{minimum}, so whether anything is cached is unknown"
        return None

    def cost(self, still_cached: int | None, old: tuple[CountedPrefix, CacheRule] | None, new: CountedPrefix) -> Cost:
        """Returns the cost of a change.

        Args:
            still_cached: static tokens of the new version that the old cache entry still serves; None where unknown.
            old: the version before the change, with the rule of its target; None where there was none.
            new: the version after the change.
        """
        from cacheunit_build.domain.cache_results import Cost

        before = 0.0 if old is None else old[1].price_of_hit(old[0])
        after, cached = self.price_of_hit(new), self.predict(new).tokens
        if before is None or after is None or cached is None or self.read is None:
            return Cost(one_time=None, per_million=None)
        uncached = None if still_cached is None else max(0, cached - still_cached)
        written = None if uncached is None else self._price_of_writing(new, cached - uncached, cached)
        one_time = None if uncached is None or written is None else written - uncached * self.read
        return Cost(one_time=one_time, per_million=(after - before) * MILLION)

    def _price_of_writing(self, prefix: CountedPrefix, start: int, end: int) -> float | None:
        """Returns what writing the tokens from `start` to `end` costs, by the lifetime of the marker behind each.

        With 5m at 1.25, 1h at 2, and markers after 1,000 tokens (1h) and 1,500 (5m), the tokens from 600 to 1,500 cost
        400 * 2 + 500 * 1.25.
        """
        if not prefix.lifetimes or len(prefix.lifetimes) != len(prefix.markers):
            price = self.price_of_write(prefix.lifetimes[0] if prefix.lifetimes else None)
            return None if price is None else (end - start) * price
        total = 0.0
        for marker, lifetime in zip(prefix.markers, prefix.lifetimes, strict=True):
            price, stop = self.price_of_write(lifetime), min(marker, end)
            if price is None:
                return None
            total += max(0, stop - start) * price
            start = max(start, stop)
        return total

    def price_of_hit(self, prefix: CountedPrefix) -> float | None:
        """Returns what the static tokens of a prefix cost in a request that a warm cache serves; None if unknown."""
        cached = self.predict(prefix).tokens
        if cached is None or self.read is None or (cached and prefix.margin and self.has_units):
            return None
        return cached * self.read + (prefix.tokens - cached)

    def padding_gain(self, past: int) -> PaddingGain | None:
        """Returns what padding saves for a prefix with `past` tokens after its last full unit.

        In each hit, padding turns `past` uncached tokens into one cached unit; in each miss, a unit is written where
        `past` tokens were computed. With units of 128 tokens, a read price of 0.1 and a write price of 1:

            past  saved per hit       cost per miss  break-even
            70    70 - 12.8 = 57.2    128 - 70 = 58  2 hits per miss
            12    12 - 12.8 = -0.8    116            never

        Returns:
            None where the unit or the price of a cached token is unknown. Where that of a written token is unknown, the
            price of an uncached one is assumed.
        """
        from cacheunit_build.domain.cache_results import PaddingGain

        if self.unit is None or self.read is None:
            return None
        write = 1.0 if self.write is None else self.write
        return PaddingGain(saved_per_hit=past - self.read * self.unit, cost_per_miss=write * (self.unit - past))

    def filling_pays_from(self, hits_per_miss: int) -> int | None:
        """Returns the fewest tokens of a prefix for which padding up to the minimum pays; None with unknown prices.

        Uncached, a prefix of `n` tokens costs `n` in every request. Padded to `fill_goal` tokens, it costs that times
        `read` in each hit and that times `write` in each miss. With 1,024 tokens, read 0.1, write 1.25 and 9 hits per
        miss: 1,024 * (0.9 + 1.25) / 10 = 220.2, so it pays from 221 tokens on. A dropped unit costs 1 a token in a hit.
        """
        goal = self.fill_goal
        served = self.reusable(goal, (goal,))
        if self.read is None or self.write is None or served is None:
            return None
        hit, miss = served * self.read + (goal - served), goal * self.write
        return math.floor((hits_per_miss * hit + miss) / (hits_per_miss + 1)) + 1
