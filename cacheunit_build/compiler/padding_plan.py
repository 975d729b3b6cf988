"""How many static tokens an artifact is to have, and why, in token prices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.domain.models import PaddingPlan

if TYPE_CHECKING:
    from cacheunit_build.domain.cache_rule import CacheRule
    from cacheunit_build.domain.models import Padding


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Static tokens; an estimate may be off by the share `margin`, an exact count has none."""

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


def make_plan(count: Count, rule: CacheRule, padding: Padding) -> PaddingPlan:
    """What to do with a prefix of so many static tokens under a cache rule.

    Padding `s` tokens past the last full unit of `U` up to the next one saves `s` uncached tokens a request and costs
    `U` cached ones: it gains `s - read * U` token prices. Filling up to a minimum `M` pays from
    `M * (read + (write - read) / reuses)` tokens on. An estimate is never aligned, and decides nothing within its
    margin.
    """
    if count.margin:
        return _estimated(count, rule)
    tokens = count.tokens
    if rule.kind != "blocks" or rule.unit is None:
        return _unrounded(tokens, rule, padding)
    if tokens < (rule.minimum or 0):
        return _below_minimum(tokens, rule, rule.unit, padding)
    past = tokens % rule.unit
    if past == 0:
        return PaddingPlan(action="aligned", goal=None, reason=f"{tokens} tokens are {tokens // rule.unit} full units")
    return _past_unit(tokens, past, rule, rule.unit, padding)


def _estimated(count: Count, rule: CacheRule) -> PaddingPlan:
    """No vocabulary: what is sure within the margin, and nothing else."""
    about = f"an estimate of {count.tokens} tokens, {count.low} to {count.high}"
    unaligned = "so nothing is aligned" if rule.kind == "blocks" else _RULES[rule.kind]
    minimum = rule.minimum
    if minimum is None:
        return PaddingPlan(
            action="estimate", goal=None, reason=f"{about}; {unaligned}; the target's minimum is unknown"
        )
    if count.high < minimum:
        lacking = f"at least {minimum - count.high} below the minimum of {minimum}: nothing is cached"
        return PaddingPlan(action="below-minimum", goal=None, reason=f"{about}; {lacking}{_filling(minimum, rule)}")
    if count.low < minimum:
        reason = f"{about}; {unaligned}; the minimum of {minimum} is within the margin: unknown whether it is cached"
        return PaddingPlan(action="near-minimum", goal=None, reason=reason)
    return PaddingPlan(action="estimate", goal=None, reason=f"{about}; {unaligned}")


_RULES = {
    "tokens": "any common prefix is reused: padding gains nothing",
    "breakpoints": "the marked position is reused exactly, without rounding: padding gains nothing",
    "unknown": "the target's cache rule is unknown: nothing is aligned",
    "blocks": "the target's cache unit is unknown: nothing is aligned",
}


def _unrounded(tokens: int, rule: CacheRule, padding: Padding) -> PaddingPlan:
    """No unit to pad to: the rule has none, or it is unknown."""
    minimum = rule.minimum or 0
    if tokens < minimum and padding.floor and rule.kind == "breakpoints":
        return _below_minimum(tokens, rule, 1, padding)
    if tokens < minimum:
        return PaddingPlan(
            action="below-minimum", goal=None, reason=f"{_lacking(tokens, minimum)}{_filling(minimum, rule)}"
        )
    action = "unknown" if rule.kind == "blocks" else rule.kind
    return PaddingPlan(action=action, goal=None, reason=_RULES[rule.kind])


def _past_unit(tokens: int, past: int, rule: CacheRule, unit: int, padding: Padding) -> PaddingPlan:
    """`past` tokens stand after the last full unit: pad them to the next, if that is wanted and pays."""
    goal = tokens + unit - past
    lost = f"{past} tokens past the last full unit of {unit}"
    gain = None if rule.read is None else past - rule.read * unit
    worth = "gains an unknown price" if gain is None else f"gains {_price(gain)} token prices a request"
    if padding.mode == "off":
        return PaddingPlan(action="off", goal=None, reason=f"padding is off; {lost} are computed anew in each request")
    if padding.mode == "always":
        return PaddingPlan(action="pad", goal=goal, reason=f"{lost}; padding is set to always, and {worth}")
    if gain is None:
        reason = f"{lost}; the target's price of a cached token is unknown, so padding cannot be weighed"
        return PaddingPlan(action="unknown", goal=None, reason=reason)
    if gain <= 0:
        reason = f"{lost}; a full unit costs {_price(past - gain)} cached, so padding does not pay"
        return PaddingPlan(action="unpaid", goal=None, reason=reason)
    return PaddingPlan(action="pad", goal=goal, reason=f"{lost}; padding {worth}")


def _below_minimum(tokens: int, rule: CacheRule, unit: int, padding: Padding) -> PaddingPlan:
    """Nothing is cached: fill up to the minimum where that is asked for and pays, else say what is lacking."""
    minimum = rule.minimum or 0
    lacking = _lacking(tokens, minimum)
    goal = -(-minimum // unit) * unit
    if padding.mode == "always" and not padding.floor and tokens % unit:
        goal = tokens + (-tokens % unit)
        return PaddingPlan(action="pad", goal=goal, reason=f"padding is set to always; {lacking}")
    if padding.reuses is None:
        return PaddingPlan(action="below-minimum", goal=None, reason=f"{lacking}{_filling(goal, rule)}")
    if rule.read is None or rule.write is None:
        return PaddingPlan(action="unknown", goal=None, reason=f"{lacking}; the target's prices are unknown")
    pays_from = goal * (rule.read + (rule.write - rule.read) / padding.reuses)
    weighed = f"{lacking}; at {padding.reuses} reuses, filling up to {goal} pays from {_price(pays_from)} tokens on"
    return PaddingPlan(
        action="floor" if tokens > pays_from else "unpaid", goal=goal if tokens > pays_from else None, reason=weighed
    )


def _filling(goal: int, rule: CacheRule) -> str:
    """From which length a text would pay to be filled up to `goal`, if it is reused often."""
    if rule.read is None:
        return ""
    return f"; with many reuses, filling up to {goal} pays from {_price(goal * rule.read)} tokens on"


def _lacking(tokens: int, minimum: int) -> str:
    return f"{minimum - tokens} tokens below the minimum of {minimum}: nothing is cached"


def _price(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
