"""Plans padding: how many static tokens an artifact is to have, and why, in prices of input tokens.

The price of one uncached input token is 1, that of a cached one is `read`. With blocks of `unit` tokens:

    tokens   unit  read   past the last unit   one more cached unit   plan
    1,094    128   0.1    70 at 1 = 70         128 at 0.1 = 12.8      pad: saves the cost of 57 input tokens a request
    1,029    128   0.1    5 at 1 = 5           128 at 0.1 = 12.8      do not pad
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.domain.artifact import PaddingPlan

if TYPE_CHECKING:
    from cacheunit_build.domain.cache_rule import CacheRule
    from cacheunit_build.domain.manifest import PaddingOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """A number of static tokens.

    Attributes:
        tokens: the count.
        margin: the share by which an estimate may be off; 0 for an exact count.
    """

    tokens: int
    margin: float = 0.0

    @property
    def low(self) -> int:
        """The fewest tokens that it may be."""
        return math.floor(self.tokens * (1 - self.margin))

    @property
    def high(self) -> int:
        """The most tokens that it may be."""
        return math.ceil(self.tokens * (1 + self.margin))


def make_plan(count: Count, rule: CacheRule, padding: PaddingOptions) -> PaddingPlan:
    """Returns what to do with a prefix of that many static tokens under a cache rule.

    Padding `s` tokens past the last full unit of `U` up to the next one saves `s` uncached tokens a request and costs
    `U` cached ones: it saves `s - read * U` input-token prices. Padding up to a minimum `M` pays from
    `M * (read + (write - read) / reuses)` tokens on. An estimate is never padded, and decides nothing within its
    margin.

    Args:
        count: the static tokens without padding.
        rule: the cache rule of the target.
        padding: the options of the manifest.
    """
    if count.margin:
        return _plan_of_estimate(count, rule)
    tokens = count.tokens
    if rule.kind != "blocks" or rule.unit is None:
        return _plan_without_unit(tokens, rule, padding)
    if tokens < (rule.minimum or 0):
        return _plan_below_minimum(tokens, rule, rule.unit, padding)
    past = tokens % rule.unit
    if past == 0:
        return PaddingPlan(action="aligned", goal=None, reason=f"{tokens} tokens are {tokens // rule.unit} full units")
    return _plan_past_unit(tokens, past, rule, rule.unit, padding)


def _plan_of_estimate(count: Count, rule: CacheRule) -> PaddingPlan:
    """Returns what is certain within the margin of an estimate."""
    estimate = f"an estimate of {count.tokens} tokens, {count.low} to {count.high}"
    not_padded = "so nothing is padded" if rule.kind == "blocks" else _REASONS_NOT_TO_PAD[rule.kind]
    minimum = rule.minimum
    if minimum is None:
        reason = f"{estimate}; {not_padded}; the target's minimum is unknown"
        return PaddingPlan(action="estimate", goal=None, reason=reason)
    if count.high < minimum:
        missing = f"at least {minimum - count.high} below the minimum of {minimum}: nothing is cached"
        reason = f"{estimate}; {missing}"
        return PaddingPlan(action="below-minimum", goal=None, reason=reason)
    if count.low < minimum:
        near = f"the minimum of {minimum} is within the margin, so it is unknown whether it is cached"
        return PaddingPlan(action="near-minimum", goal=None, reason=f"{estimate}; {not_padded}; {near}")
    return PaddingPlan(action="estimate", goal=None, reason=f"{estimate}; {not_padded}")


_REASONS_NOT_TO_PAD = {
    "tokens": "any common prefix is reused, so padding saves nothing",
    "breakpoints": "the marked prefix is reused to the token, so padding saves nothing",
    "unknown": "the target's cache rule is unknown, so nothing is padded",
    "blocks": "the target's cache unit is unknown, so nothing is padded",
}
"""Why nothing is padded, by the kind of the cache rule."""


def _plan_without_unit(tokens: int, rule: CacheRule, padding: PaddingOptions) -> PaddingPlan:
    """Returns the plan where there is no unit to pad to: the rule has none, or it is unknown."""
    minimum = rule.minimum or 0
    if tokens < minimum and padding.floor and rule.kind == "breakpoints":
        return _plan_below_minimum(tokens, rule, 1, padding)
    if tokens < minimum:
        reason = f"{_missing(tokens, minimum)}{_when_filling_pays(minimum, rule)}"
        return PaddingPlan(action="below-minimum", goal=None, reason=reason)
    action = "unknown" if rule.kind == "blocks" else rule.kind
    return PaddingPlan(action=action, goal=None, reason=_REASONS_NOT_TO_PAD[rule.kind])


def _plan_past_unit(tokens: int, past: int, rule: CacheRule, unit: int, padding: PaddingOptions) -> PaddingPlan:
    """Returns the plan for `past` tokens after the last full unit: pad to the next one if that is wanted and pays."""
    goal = tokens + unit - past
    uncached = f"{past} tokens after the last full unit of {unit}"
    saved = None if rule.read is None else past - rule.read * unit
    if padding.mode == "off":
        reason = f"padding is off; {uncached} are recomputed in each request"
        return PaddingPlan(action="off", goal=None, reason=reason)
    if padding.mode == "always":
        reason = f"{uncached}; padding is set to always, and {_saving(saved)}"
        return PaddingPlan(action="pad", goal=goal, reason=reason)
    if saved is None:
        reason = f"{uncached}; the target's price of a cached token is unknown, so whether padding pays is too"
        return PaddingPlan(action="unknown", goal=None, reason=reason)
    if saved <= 0:
        reason = f"{uncached}; a full cached unit costs as much as {_price(past - saved)}, so padding does not pay"
        return PaddingPlan(action="unpaid", goal=None, reason=reason)
    return PaddingPlan(action="pad", goal=goal, reason=f"{uncached}; padding {_saving(saved)}")


def _plan_below_minimum(tokens: int, rule: CacheRule, unit: int, padding: PaddingOptions) -> PaddingPlan:
    """Returns the plan for a prefix that is not cached: pad up to the minimum if that is wanted and pays."""
    minimum = rule.minimum or 0
    missing = _missing(tokens, minimum)
    goal = -(-minimum // unit) * unit
    if padding.mode == "always" and not padding.floor and tokens % unit:
        goal = tokens + (-tokens % unit)
        return PaddingPlan(action="pad", goal=goal, reason=f"padding is set to always; {missing}")
    if padding.reuses is None:
        reason = f"{missing}{_when_filling_pays(goal, rule)}"
        return PaddingPlan(action="below-minimum", goal=None, reason=reason)
    if rule.read is None or rule.write is None:
        return PaddingPlan(action="unknown", goal=None, reason=f"{missing}; the target's prices are unknown")
    pays_from = goal * (rule.read + (rule.write - rule.read) / padding.reuses)
    reason = f"{missing}; with {padding.reuses} reuses of a cache entry, {_pays_from(goal, pays_from)}"
    if tokens > pays_from:
        return PaddingPlan(action="floor", goal=goal, reason=reason)
    return PaddingPlan(action="unpaid", goal=None, reason=reason)


def _when_filling_pays(goal: int, rule: CacheRule) -> str:
    """Returns from which length padding up to `goal` would pay with many reuses, as the end of a reason."""
    if rule.read is None:
        return ""
    return f"; if a cache entry is reused many times, {_pays_from(goal, goal * rule.read)}"


def _pays_from(goal: int, threshold: float) -> str:
    """Returns the words for which prefixes padding up to `goal` pays: those of more than `threshold` tokens."""
    return f"padding to {goal} pays for a prefix of {math.floor(threshold) + 1} tokens or more"


def _missing(tokens: int, minimum: int) -> str:
    return f"{minimum - tokens} tokens below the minimum of {minimum}: nothing is cached"


def _saving(saved: float | None) -> str:
    """Returns what padding saves in each cached request, as the end of a reason."""
    if saved is None:
        return "what it saves is unknown"
    verb, amount = ("saves", saved) if saved >= 0 else ("adds", -saved)
    return f"{verb} the cost of {_price(amount)} input tokens per cached request"


def _price(value: float) -> str:
    """Returns a number of input tokens, to the hundredth below 10 and without decimals above.

    0.44 -> 0.44     2.5 -> 2.5     24.44 -> 24
    """
    return f"{value:.2f}".rstrip("0").rstrip(".") if abs(value) < 10 else f"{value:.0f}"  # noqa: PLR2004 - as stated
