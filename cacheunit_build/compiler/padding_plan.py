"""Plans padding: how many static tokens an artifact is to have, and why, in prices of input tokens.

The price of one uncached input token is 1, that of a cached one is `read`, of a written one `write`. With blocks of 128
tokens, a read price of 0.1, a write price of 1, and 10 hits per miss:

    tokens   past the last unit   saved per hit      cost per miss   plan
    1,094    70                   70 - 12.8 = 57.2   128 - 70 = 58   pad: 10 * 57.2 > 58
    1,040    16                   16 - 12.8 = 3.2    112             do not pad: 10 * 3.2 < 112
    1,029    5                    5 - 12.8 < 0       123             do not pad, at any number of hits
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cacheunit_build.domain.artifact import PaddingPlan
from cacheunit_build.domain.settings import DEFAULT_HITS_PER_MISS

if TYPE_CHECKING:
    from cacheunit_build.domain.cache_results import PaddingGain
    from cacheunit_build.domain.cache_rule import CacheRule
    from cacheunit_build.domain.lock import Counted
    from cacheunit_build.domain.manifest import PaddingMode
    from cacheunit_build.domain.token_count import TokenCount


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddingRequest:
    """What a manifest and its project ask of padding.

    Attributes:
        mode: when to pad.
        floor: whether to pad a prefix that is below the minimum up to the minimum.
        hits_per_miss: how many requests a cache entry serves for each one that writes it.
        budget: the most static tokens; None where there is no limit.
    """

    mode: PaddingMode = "auto"
    floor: bool = False
    hits_per_miss: int = DEFAULT_HITS_PER_MISS
    budget: int | None = None


def make_plan(count: TokenCount, rule: CacheRule, wanted: PaddingRequest, counted: Counted = "exact") -> PaddingPlan:
    """Returns what to do with a prefix of that many static tokens under a cache rule.

    With `auto`, `past` tokens after the last full unit are padded where it pays:
    hits_per_miss * (past - read * unit) > write * (unit - past). An estimate is never padded, and decides nothing
    within its margin. Neither is a recorded count: it is that of the unpadded bytes. Padding stops at the budget.

    Args:
        count: the static tokens without padding.
        rule: the cache rule of the target.
        wanted: what manifest and project ask for.
        counted: where the count comes from.
    """
    if count.margin or counted != "exact":
        return _plan_of_estimate(count, rule, recorded=counted == "recorded")
    plan = _plan_of_exact(count.tokens, rule, wanted)
    if plan.goal is None or wanted.budget is None or plan.goal <= wanted.budget:
        return plan
    over = f"but {plan.goal:,} tokens would exceed the budget of {wanted.budget:,}, so nothing is padded"
    return PaddingPlan(action="over-budget", goal=None, reason=f"{plan.reason}; {over}")


def _plan_of_exact(tokens: int, rule: CacheRule, wanted: PaddingRequest) -> PaddingPlan:
    """Returns the plan for an exact count, before the budget is applied."""
    if tokens == 0:
        return PaddingPlan(action="below-minimum", goal=None, reason="there are no static tokens: nothing is cached")
    plan = _plan_in_units(tokens, rule, rule.unit, wanted) if rule.unit else _plan_without_unit(tokens, rule, wanted)
    if rule.minimum is None and rule.is_known:
        return replace(plan, reason=f"{plan.reason}; the target's minimum is unknown, so none is assumed")
    return plan


def _plan_of_estimate(count: TokenCount, rule: CacheRule, *, recorded: bool) -> PaddingPlan:
    """Returns what is certain within the margin of an estimate, or of a recorded count."""
    bounds = f", {count.low:,} to {count.high:,}" if count.margin else ""
    estimate = f"{'a recorded count' if recorded else 'an estimate'} of {count.tokens:,} tokens{bounds}"
    counted_unpadded = "it is that of the unpadded text, so nothing is padded"
    why = counted_unpadded if recorded else "so nothing is padded"
    not_padded = why if rule.has_units else rule.why_no_padding
    fewest, name = rule.fewest_cached, rule.fewest_name
    cached = rule.caches(count)
    if cached is False:
        least = "at least " if count.margin else ""
        outcome = "the provider refuses to store it" if rule.is_stored else "nothing is cached"
        reason = f"{estimate}; {least}{fewest - count.high:,} below {name} of {fewest:,}: {outcome}"
        return PaddingPlan(action="below-minimum", goal=None, reason=reason)
    if cached is None:
        near = f"{name} of {fewest:,} is within the margin, so it is unknown whether it is cached"
        return PaddingPlan(action="near-minimum", goal=None, reason=f"{estimate}; {not_padded}; {near}")
    unknown = "; the target's minimum is unknown" if rule.minimum is None else ""
    return PaddingPlan(
        action="recorded" if recorded else "estimate", goal=None, reason=f"{estimate}; {not_padded}{unknown}"
    )


def _plan_without_unit(tokens: int, rule: CacheRule, wanted: PaddingRequest) -> PaddingPlan:
    """Returns the plan where there is no unit to pad to: the rule has none, or it is unknown."""
    if tokens < rule.fewest_cached and (rule.serves_marked_only or rule.is_stored):
        return _plan_below_minimum(tokens, rule, wanted)
    if tokens < rule.fewest_cached:
        reason = f"{_missing(tokens, rule)}{_when_filling_pays(rule, wanted)}"
        return PaddingPlan(action="below-minimum", goal=None, reason=reason)
    action = rule.kind if rule.is_known else "unknown"
    return PaddingPlan(action=action, goal=None, reason=rule.why_no_padding)


def _plan_in_units(tokens: int, rule: CacheRule, unit: int, wanted: PaddingRequest) -> PaddingPlan:
    """Returns the plan of an exact count for a rule that reuses whole units."""
    past = tokens % unit
    goal = tokens + (unit - past if past else 0)
    if tokens < (rule.minimum or 0) or goal < rule.fewest_cached:
        return _plan_below_minimum(tokens, rule, wanted)
    if past == 0:
        units = tokens // unit
        reason = f"{tokens:,} tokens are {units:,} full unit{'' if units == 1 else 's'}"
        return PaddingPlan(action="aligned", goal=None, reason=reason)
    return _plan_past_unit(past, goal, rule, unit, wanted)


def _plan_past_unit(past: int, goal: int, rule: CacheRule, unit: int, wanted: PaddingRequest) -> PaddingPlan:
    """Returns the plan for `past` tokens after the last full unit: pad to the next one if that is wanted and pays."""
    uncached = f"{past:,} tokens after the last full unit of {unit:,}"
    gain = rule.padding_gain(past)
    if wanted.mode == "off":
        reason = f"padding is off; {uncached} are recomputed in each request"
        return PaddingPlan(action="off", goal=None, reason=reason)
    if wanted.mode == "always":
        reason = f"{uncached}; padding is set to always, and {_gain_text(gain, wanted)}"
        return PaddingPlan(action="pad", goal=goal, reason=reason)
    if gain is None:
        reason = f"{uncached}; the target's price of a cached token is unknown, so whether padding pays is too"
        return PaddingPlan(action="unknown", goal=None, reason=reason)
    if gain.saved_per_hit <= 0:
        cached_unit = _price(past - gain.saved_per_hit)
        reason = f"{uncached}; a full cached unit costs as much as {cached_unit}, so padding does not pay"
        return PaddingPlan(action="unpaid", goal=None, reason=reason)
    pays = wanted.hits_per_miss * gain.saved_per_hit > gain.cost_per_miss
    reason = f"{uncached}; padding {_gain_text(gain, wanted)}"
    return PaddingPlan(action="pad" if pays else "unpaid", goal=goal if pays else None, reason=reason)


def _plan_below_minimum(tokens: int, rule: CacheRule, wanted: PaddingRequest) -> PaddingPlan:
    """Returns the plan for a prefix that is not cached: pad up to the minimum if that is wanted and pays."""
    missing, unit = _missing(tokens, rule), rule.unit or 1
    if wanted.mode == "always" and not wanted.floor and tokens % unit:
        goal = tokens + (-tokens % unit)
        cached = "" if rule.reusable(goal, (goal,)) else ", and nothing is with it"
        reason = f"padding is set to always; without it, {missing}{cached}"
        return PaddingPlan(action="pad", goal=goal, reason=reason)
    if not wanted.floor:
        reason = f"{missing}{_when_filling_pays(rule, wanted)}"
        return PaddingPlan(action="below-minimum", goal=None, reason=reason)
    pays_from = rule.filling_pays_from(wanted.hits_per_miss)
    if pays_from is None:
        return PaddingPlan(action="unknown", goal=None, reason=f"{missing}; the target's prices are unknown")
    reason = f"{missing}; {_pays_from(rule, pays_from, wanted)}"
    if tokens >= pays_from:
        return PaddingPlan(action="floor", goal=rule.fill_goal, reason=reason)
    return PaddingPlan(action="unpaid", goal=None, reason=reason)


def _when_filling_pays(rule: CacheRule, wanted: PaddingRequest) -> str:
    """Returns from which length padding up to the minimum would pay, as the end of a reason."""
    pays_from = rule.filling_pays_from(wanted.hits_per_miss)
    return "" if pays_from is None else f"; {_pays_from(rule, pays_from, wanted)}"


def _pays_from(rule: CacheRule, pays_from: int, wanted: PaddingRequest) -> str:
    """Returns the words for which prefixes padding up to the minimum pays."""
    rate = f"with {wanted.hits_per_miss:,} hits per miss"
    return f"{rate}, padding to {rule.fill_goal:,} pays for a prefix of {pays_from:,} tokens or more"


def _missing(tokens: int, rule: CacheRule) -> str:
    fewest = rule.fewest_cached
    return f"{fewest - tokens:,} tokens below {rule.fewest_name} of {fewest:,}: nothing is cached"


def _gain_text(gain: PaddingGain | None, wanted: PaddingRequest) -> str:
    """Returns what padding saves and costs, and the break-even in hits per miss, as the end of a reason."""
    if gain is None:
        return "what it saves is unknown"
    verb, amount = ("saves", gain.saved_per_hit) if gain.saved_per_hit >= 0 else ("adds", -gain.saved_per_hit)
    hit = f"{verb} the cost of {_price(amount)} input tokens per cached request"
    if gain.break_even is None:
        return hit
    miss = f"costs {_price(gain.cost_per_miss)} per miss"
    noun = "hit" if gain.break_even == 1 else "hits"
    return f"{hit} and {miss}: it pays from {gain.break_even:,} {noun} per miss on ({wanted.hits_per_miss:,} expected)"


def _price(value: float) -> str:
    """Returns a number of input tokens, to the hundredth below 10 and without decimals above.

    0.44 -> 0.44     2.5 -> 2.5     24.44 -> 24     1,024.4 -> 1,024
    """
    return f"{value:.2f}".rstrip("0").rstrip(".") if abs(value) < 10 else f"{value:,.0f}"  # noqa: PLR2004 - as stated
