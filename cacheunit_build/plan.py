"""How many static tokens an artifact is to have, and why, in token prices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.model import Plan

if TYPE_CHECKING:
    from cacheunit_build.model import CacheRule, Padding


def make_plan(tokens: int, rule: CacheRule, padding: Padding) -> Plan:
    """What to do with a prefix of `tokens` static tokens under a cache rule.

    Padding `s` tokens past the last full unit of `U` up to the next one saves `s` uncached tokens a request and costs
    `U` cached ones: it gains `s - read * U` token prices. Filling up to a minimum `M` pays from
    `M * (read + (write - read) / reuses)` tokens on.
    """
    if rule.kind != "blocks" or rule.unit == 0:
        return _unrounded(tokens, rule)
    if tokens < rule.minimum:
        return _below_minimum(tokens, rule, padding)
    past = tokens % rule.unit
    if past == 0:
        return Plan(action="aligned", goal=None, reason=f"{tokens} tokens are {tokens // rule.unit} full units")
    return _past_unit(tokens, past, rule, padding)


def _unrounded(tokens: int, rule: CacheRule) -> Plan:
    """No unit to pad to: the rule has none, or it is unknown."""
    short = "" if tokens >= rule.minimum else f"; {_lacking(tokens, rule)}"
    if rule.kind == "tokens":
        return Plan(action="tokens", goal=None, reason=f"any common prefix is reused: padding gains nothing{short}")
    if rule.kind == "breakpoints":
        reason = f"the marked position is reused exactly, without rounding: padding gains nothing{short}"
        return Plan(action="breakpoints", goal=None, reason=reason)
    what = "cache unit" if rule.kind == "blocks" else "cache rule"
    return Plan(action="unknown", goal=None, reason=f"the target's {what} is unknown: nothing is aligned{short}")


def _past_unit(tokens: int, past: int, rule: CacheRule, padding: Padding) -> Plan:
    """`past` tokens stand after the last full unit: pad them to the next, if that is wanted and pays."""
    goal = tokens + rule.unit - past
    lost = f"{past} tokens past the last full unit of {rule.unit}"
    gain = None if rule.read is None else past - rule.read * rule.unit
    worth = "gains an unknown price" if gain is None else f"gains {_price(gain)} token prices a request"
    if padding.mode == "off":
        return Plan(action="off", goal=None, reason=f"padding is off; {lost} are computed anew in each request")
    if padding.mode == "always":
        return Plan(action="pad", goal=goal, reason=f"{lost}; padding is set to always, and {worth}")
    if gain is None:
        return Plan(action="unknown", goal=None, reason=f"{lost}; the target's price of a cached token is unknown")
    if gain <= 0:
        reason = f"{lost}; a full unit costs {_price(past - gain)} cached, so padding does not pay"
        return Plan(action="unpaid", goal=None, reason=reason)
    return Plan(action="pad", goal=goal, reason=f"{lost}; padding {worth}")


def _below_minimum(tokens: int, rule: CacheRule, padding: Padding) -> Plan:
    """Nothing is cached: fill up to the minimum where that is asked for and pays, else say what is lacking."""
    lacking = _lacking(tokens, rule)
    goal = -(-rule.minimum // rule.unit) * rule.unit
    if padding.mode == "always" and not padding.floor:
        return Plan(action="pad", goal=tokens + (-tokens % rule.unit), reason=f"padding is set to always; {lacking}")
    if rule.read is None or rule.write is None:
        return Plan(action="unknown", goal=None, reason=f"{lacking}; the target's prices are unknown")
    if padding.reuses is None:
        reason = f"{lacking}; with many reuses, filling up to {goal} pays from {_price(goal * rule.read)} tokens on"
        return Plan(action="below-minimum", goal=None, reason=f'{reason} ("floor: true")')
    pays_from = goal * (rule.read + (rule.write - rule.read) / padding.reuses)
    weighed = f"{lacking}; at {padding.reuses} reuses, filling up to {goal} pays from {_price(pays_from)} tokens on"
    if tokens <= pays_from:
        return Plan(action="unpaid", goal=None, reason=weighed)
    return Plan(action="floor", goal=goal, reason=weighed)


def _lacking(tokens: int, rule: CacheRule) -> str:
    return f"{rule.minimum - tokens} tokens below the minimum of {rule.minimum}: nothing is cached"


def _price(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
