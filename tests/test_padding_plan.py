"""Padding plans: a prefix is padded where that saves cost by the target's prices, and the reason states the numbers."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from cacheunit_build.compiler.padding_plan import PaddingRequest, make_plan
from cacheunit_build.domain.cache_rule import CacheRule
from cacheunit_build.domain.token_count import TokenCount
from cacheunit_build.targets.loader import known_targets

if TYPE_CHECKING:
    from conftest import Project

    from cacheunit_build.domain.artifact import PaddingPlan
    from cacheunit_build.domain.cache_rule import CacheKind
    from cacheunit_build.domain.manifest import PaddingMode

MODES: tuple[PaddingMode, ...] = ("auto", "always", "off")
KINDS: tuple[CacheKind, ...] = ("blocks", "breakpoints", "tokens", "unknown")

tokens_ = st.integers(0, 200_000)
units = st.integers(1, 4096) | st.sampled_from([16, 64, 128, 256, 784])
writes = st.sampled_from([0.0, 1.0, 1.25, 2.0])
hits_per_miss_ = st.sampled_from([1, 2, 10, 50]) | st.integers(1, 1_000)
prices = st.sampled_from([0.0, 0.02, 0.1, 0.25, 0.5, 1.0]) | st.floats(0, 1)
margins = st.sampled_from([0.01, 0.1, 0.35, 0.5, 0.9])


def blocks(unit: int | None = 128, **more: Any) -> CacheRule:
    """Returns a cache rule of blocks."""
    return CacheRule(kind="blocks", unit=unit, **{"minimum": 0, "read": 0.02, "write": 1.0, **more})


def plan_for(
    tokens: int, rule: CacheRule, mode: PaddingMode = "auto", hits_per_miss: int = 10, **more: Any
) -> PaddingPlan:
    """Returns the plan for an exact count."""
    wanted = PaddingRequest(mode=mode, hits_per_miss=hits_per_miss, **more)
    return make_plan(TokenCount(tokens=tokens), rule, wanted)


def floor_plan(tokens: int, rule: CacheRule, hits_per_miss: int, mode: PaddingMode = "auto") -> PaddingPlan:
    """Returns the plan for an exact count with the floor option."""
    return plan_for(tokens, rule, mode, hits_per_miss, floor=True)


def numbers_in_reason(plan: PaddingPlan) -> set[str]:
    """Returns the numbers in the reason of a plan."""
    return set(re.findall(r"-?\d+(?:\.\d+)?", plan.reason.replace(",", "")))


# After the last full unit


@given(tokens=tokens_, unit=units, read=prices)
def test_full_units_are_aligned_and_never_padded_in_any_mode(tokens: int, unit: int, read: float) -> None:
    for mode in MODES:
        plan = plan_for(tokens - tokens % unit + unit, blocks(unit, read=read), mode)
        assert (plan.action, plan.goal) == ("aligned", None)
        assert str(tokens // unit + 1) in numbers_in_reason(plan)


@given(tokens=tokens_, unit=units, read=prices, write=writes, hits=hits_per_miss_)
@example(tokens=2, unit=4, read=0.5, write=1.0, hits=10)  # saves exactly nothing in a hit
@example(tokens=3, unit=4, read=0.5, write=1.0, hits=1)  # saves in a hit exactly what a miss costs
def test_automatic_padding_pads_exactly_when_the_hits_save_more_than_the_misses_cost(
    tokens: int, unit: int, read: float, write: float, hits: int
) -> None:
    past = tokens % unit
    assume(past)
    pays = hits * (past - read * unit) > write * (unit - past)
    plan = plan_for(tokens, blocks(unit, read=read, write=write), "auto", hits)
    assert plan.action == ("pad" if pays and past > read * unit else "unpaid")
    assert (plan.goal is None) is (plan.action == "unpaid")


def test_a_short_prefix_is_padded_only_where_its_hits_pay_for_the_misses() -> None:
    """5 tokens to 128 cost 123 in a miss, and save 2.44 in a hit: 50 hits do not pay for one miss, 51 do."""
    fifty, fifty_one = (plan_for(5, blocks(), "auto", hits) for hits in (50, 51))
    assert (fifty.action, fifty_one.action) == ("unpaid", "pad")
    assert "it pays from 51 hits per miss on (50 expected)" in fifty.reason
    assert plan_for(5, blocks(), "always").goal == 128


@given(tokens=tokens_, unit=units, mode=st.sampled_from(MODES), floor=st.booleans(), budget=st.integers(1, 200_000))
def test_padding_never_goes_over_the_budget(
    tokens: int,
    unit: int,
    mode: PaddingMode,
    floor: bool,
    budget: int,
) -> None:
    rule = blocks(unit, minimum=1024)
    plan = plan_for(tokens, rule, mode, 100, floor=floor, budget=budget)
    free = plan_for(tokens, rule, mode, 100, floor=floor)
    if free.goal is not None and free.goal > budget:
        assert (plan.action, plan.goal) == ("over-budget", None)
        assert f"{free.goal:,} tokens would exceed the budget of {budget:,}" in plan.reason
    else:
        assert plan == free


def test_dropped_units_are_a_minimum_and_cost_their_full_price_in_each_hit() -> None:
    """Padded to 256, a hit serves 128 at 0.1 and computes 128, a miss writes 256: with 10 hits, it pays from 152 on."""
    rule = blocks(128, minimum=256, read=0.1, dropped_units=1)
    assert (floor_plan(151, rule, 10).action, floor_plan(152, rule, 10).goal) == ("unpaid", 256)
    assert floor_plan(200, blocks(128, read=0.1, dropped_units=1), 10).goal == 256
    aligned = plan_for(128, blocks(128, dropped_units=1))
    assert (aligned.action, aligned.goal) == ("below-minimum", None)
    assert "128 tokens below the first 2 units of 256: nothing is cached" in aligned.reason
    always = plan_for(382, blocks(128, dropped_units=3), "always")
    assert (always.goal, "nothing is with it" in always.reason) == (384, True)


def test_that_the_minimum_is_unknown_is_said_of_an_exact_count_too() -> None:
    assert plan_for(300, blocks(minimum=None)).reason.endswith("minimum is unknown, so none is assumed")


@given(tokens=tokens_, unit=units, dropped=st.integers(1, 3))
def test_padding_to_a_unit_that_is_dropped_is_not_planned(tokens: int, unit: int, dropped: int) -> None:
    rule = blocks(unit, dropped_units=dropped)
    plan = plan_for(tokens, rule, "auto", 1_000_000)
    if plan.goal is not None:
        assert rule.reusable(plan.goal, ()) == (plan.goal // unit - dropped) * unit > 0


@given(tokens=tokens_, unit=units, read=prices, mode=st.sampled_from(MODES))
def test_a_goal_is_the_next_multiple_of_the_unit(tokens: int, unit: int, read: float, mode: PaddingMode) -> None:
    plan = plan_for(tokens, blocks(unit, read=read), mode)
    if plan.goal is not None:
        assert (plan.goal % unit, 0 < plan.goal - tokens < unit) == (0, True)


@given(tokens=tokens_, unit=units, read=st.none() | prices)
def test_mode_always_pads_at_any_cost_and_mode_off_never_pads(tokens: int, unit: int, read: float | None) -> None:
    assume(tokens % unit)
    always, off = (plan_for(tokens, blocks(unit, read=read), mode) for mode in ("always", "off"))
    assert (always.action, always.goal) == ("pad", tokens + unit - tokens % unit)
    assert (off.action, off.goal) == ("off", None)


@pytest.mark.parametrize(
    ("tokens", "action", "goal"),
    [(127, "pad", 128), (128, "aligned", None), (130, "unpaid", None), (143, "unpaid", None), (144, "pad", 256)],
)
def test_deepseek_is_padded_from_sixteen_tokens_after_a_full_unit(tokens: int, action: str, goal: int | None) -> None:
    plan = plan_for(tokens, known_targets()["deepseek-v4"].cache)
    assert (plan.action, plan.goal) == (action, goal)


def test_with_an_unknown_price_nothing_is_padded_and_the_reason_states_it() -> None:
    plan = plan_for(100, blocks(64, read=None))
    assert (plan.action, plan.goal) == ("unknown", None)
    assert "price of a cached token is unknown" in plan.reason


def test_reasons_state_the_numbers_they_compare() -> None:
    assert plan_for(1179, blocks()).reason == (
        "27 tokens after the last full unit of 128; padding saves the cost of 24 input tokens per cached request "
        "and costs 101 per miss: it pays from 5 hits per miss on (10 expected)"
    )
    assert plan_for(1179, blocks(), "auto", 4).reason.endswith("it pays from 5 hits per miss on (4 expected)")
    assert plan_for(1279, blocks(), "auto", 4).reason.endswith("it pays from 1 hit per miss on (4 expected)")
    assert plan_for(1154, blocks()).reason == (
        "2 tokens after the last full unit of 128; a full cached unit costs as much as 2.56, so padding does not pay"
    )
    assert plan_for(1152, blocks()).reason == "1,152 tokens are 9 full units"
    assert plan_for(1154, blocks(), "always").reason == (
        "2 tokens after the last full unit of 128; padding is set to always, "
        "and adds the cost of 0.56 input tokens per cached request"
    )
    assert plan_for(1154, blocks(), "off").reason == (
        "padding is off; 2 tokens after the last full unit of 128 are recomputed in each request"
    )


# Other kinds


@given(
    tokens=st.integers(1, 200_000), kind=st.sampled_from(KINDS), mode=st.sampled_from(MODES), read=st.none() | prices
)
def test_without_a_unit_nothing_is_padded(tokens: int, kind: CacheKind, mode: PaddingMode, read: float | None) -> None:
    rule = CacheRule(kind=kind, read=read, write=1.0)
    plan = plan_for(tokens, rule, mode)
    assert (plan.goal, plan.action) == (None, "unknown" if kind in ("blocks", "unknown") else kind)


@pytest.mark.parametrize(
    ("kind", "phrase"),
    [
        ("tokens", "any common prefix is reused"),
        ("breakpoints", "the marked prefix is reused to the token"),
        ("unknown", "cache rule is unknown"),
        ("blocks", "cache unit is unknown"),
    ],
)
def test_the_reason_states_why_nothing_is_aligned_for_each_kind(kind: CacheKind, phrase: str) -> None:
    assert phrase in plan_for(1000, CacheRule(kind=kind)).reason


# Below a minimum


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("tokens", "below"), [(1, True), (1023, True), (1024, False), (1025, False)])
def test_exactly_the_minimum_of_tokens_is_cached(kind: CacheKind, tokens: int, below: bool) -> None:
    rule = CacheRule(kind=kind, minimum=1024, unit=128 if kind == "blocks" else None, read=0.1, write=1.25)
    plan = plan_for(tokens, rule)
    assert (plan.action == "below-minimum") is below
    if below:
        assert plan.goal is None
        assert {str(1024 - tokens), "1024"} <= numbers_in_reason(plan)


def test_below_the_minimum_the_reason_states_the_distance_and_from_where_padding_pays() -> None:
    rule = CacheRule(kind="breakpoints", minimum=4096, read=0.1, write=1.25)
    assert plan_for(3413, rule).reason == (
        "683 tokens below the minimum of 4,096: nothing is cached; "
        "with 10 hits per miss, padding to 4,096 pays for a prefix of 838 tokens or more"
    )
    assert plan_for(1000, blocks(256, minimum=1100, read=0.5)).reason == (
        "100 tokens below the minimum of 1,100: nothing is cached; "
        "with 10 hits per miss, padding to 1,280 pays for a prefix of 699 tokens or more"
    )
    unpriced = plan_for(1000, blocks(256, minimum=1100, read=None))
    assert unpriced.reason == "100 tokens below the minimum of 1,100: nothing is cached"


@given(
    tokens=st.integers(1, 5_000),
    unit=units,
    minimum=st.integers(1, 5_000),
    read=prices,
    write=writes,
    hits=hits_per_miss_,
    mode=st.sampled_from(["auto", "always"]),
)
def test_padding_to_the_minimum_pays_exactly_by_the_formula(
    *, tokens: int, unit: int, minimum: int, read: float, write: float, hits: int, mode: PaddingMode
) -> None:
    """Of `hits` + 1 requests, one writes the padded prefix and the others read it; unpadded, all are uncached."""
    assume(tokens < minimum)
    goal, fewest = math.ceil(minimum / unit) * unit, max(minimum, unit)
    saved = (hits + 1) * tokens - goal * (write + hits * read)
    assume(abs(saved) > 1e-6)
    pays = saved > 0
    plan = floor_plan(tokens, blocks(unit, minimum=minimum, read=read, write=write), hits, mode)
    assert (plan.action, plan.goal) == (("floor", goal) if pays else ("unpaid", None))
    assert {str(fewest - tokens), str(fewest), str(hits), str(goal)} <= numbers_in_reason(plan)


@pytest.mark.parametrize(("hits", "pays_from"), [(9, 881), (99, 457), (1, 2765)])
def test_padding_to_the_minimum_pays_from_the_length_that_the_vendor_publishes(hits: int, pays_from: int) -> None:
    """The vendor counts the requests of one cache entry, the one that writes it included."""
    rule = blocks(128, minimum=4096, read=0.1, write=1.25)
    just_below, just_above = (floor_plan(tokens, rule, hits) for tokens in (pays_from - 1, pays_from))
    assert just_below.action == "unpaid"
    assert str(pays_from) in numbers_in_reason(just_below)
    assert just_above.goal == 4096


def test_padding_to_the_minimum_does_not_pay_if_one_hit_saves_less_than_writing_costs() -> None:
    rule = blocks(128, minimum=4096, read=0.9, write=1.25)
    assert floor_plan(4095, rule, 1).action == "unpaid"


def test_padding_to_the_minimum_with_unknown_prices_is_not_planned() -> None:
    for missing in ("read", "write"):
        plan = floor_plan(1000, blocks(128, minimum=1024, **{missing: None}), 9)
        assert (plan.action, plan.goal, "prices are unknown" in plan.reason) == ("unknown", None, True)


def test_padding_to_the_minimum_requires_the_floor_option() -> None:
    rule = blocks(128, minimum=1024, read=0.0, write=0.0)
    assert plan_for(1023, rule).goal is None
    assert plan_for(1023, rule, "off").goal is None
    assert floor_plan(1023, rule, 1).goal == 1024


def test_above_the_minimum_the_floor_option_changes_nothing() -> None:
    rule = blocks(128, minimum=1024)
    for tokens in (1024, 1026, 1100):
        assert floor_plan(tokens, rule, 10) == plan_for(tokens, rule)


def test_a_prefix_with_a_breakpoint_is_padded_to_the_minimum_too() -> None:
    rule = CacheRule(kind="breakpoints", minimum=1024, read=0.1, write=1.25)
    assert floor_plan(1000, rule, 100).goal == 1024


def test_mode_always_pads_below_the_minimum_too() -> None:
    plan = plan_for(200, blocks(128, minimum=1024), "always")
    assert (plan.action, plan.goal) == ("pad", 256)
    assert "824 tokens below the minimum of 1,024: nothing is cached, and nothing is with it" in plan.reason


def test_mode_always_does_not_pad_full_units_below_the_minimum() -> None:
    assert plan_for(256, blocks(128, minimum=1024), "always").goal is None


@pytest.mark.parametrize(("tokens", "units_"), [(1023, 0), (1024, 8), (1100, 8), (1151, 8), (1152, 9)])
def test_full_units_are_cached_from_the_minimum_on(tokens: int, units_: int) -> None:
    plan = plan_for(tokens, blocks(128, minimum=1024), "off")
    assert (plan.action == "below-minimum") is (units_ == 0)
    if units_:
        assert tokens - units_ * 128 == (0 if plan.action == "aligned" else int(plan.reason.split()[3]))


# Estimates


@given(
    tokens=st.integers(1, 50_000),
    margin=margins,
    kind=st.sampled_from(KINDS),
    unit=units,
    minimum=st.none() | st.integers(0, 60_000),
    mode=st.sampled_from(MODES),
    floor=st.booleans(),
)
def test_an_estimate_has_no_goal_and_decides_nothing_within_its_margin(
    *,
    tokens: int,
    margin: float,
    kind: CacheKind,
    unit: int,
    minimum: int | None,
    mode: PaddingMode,
    floor: bool,
) -> None:
    count = TokenCount(tokens=tokens, margin=margin)
    rule = CacheRule(kind=kind, unit=unit if kind == "blocks" else None, minimum=minimum, read=0.0, write=0.0)
    plan = make_plan(count, rule, PaddingRequest(mode=mode, floor=floor))
    assert plan.goal is None
    assert plan.action in ("estimate", "below-minimum", "near-minimum")
    assert {str(tokens), str(count.low), str(count.high)} <= numbers_in_reason(plan)
    fewest = max(minimum or 0, unit if kind == "blocks" else 0)
    if plan.action == "below-minimum":
        assert tokens * (1 + margin) < fewest + 1
    if plan.action == "estimate":
        assert tokens * (1 - margin) > fewest - 1
    if tokens * (1 - margin) < fewest - 1 and tokens * (1 + margin) > fewest + 1:
        assert plan.action == "near-minimum"
        assert str(fewest) in numbers_in_reason(plan)


@given(tokens=tokens_, margin=margins)
def test_the_bounds_of_an_estimate_are_rounded_outwards(tokens: int, margin: float) -> None:
    count = TokenCount(tokens=tokens, margin=margin)
    share = Fraction(str(margin))
    assert 0 <= count.low <= tokens * (1 - share) <= tokens <= tokens * (1 + share) <= count.high
    assert count.high - count.low <= 2 * share * tokens + 2
    assert (TokenCount(tokens=tokens).low, TokenCount(tokens=tokens).high) == (tokens, tokens)


@pytest.mark.parametrize(
    ("tokens", "action"), [(929, "below-minimum"), (931, "near-minimum"), (1137, "near-minimum"), (1138, "estimate")]
)
def test_an_estimate_near_the_minimum_is_unknown(tokens: int, action: str) -> None:
    rule = CacheRule(kind="breakpoints", minimum=1024, read=0.1, write=1.25)
    plan = make_plan(TokenCount(tokens=tokens, margin=0.1), rule, PaddingRequest())
    assert plan.action == action
    assert ("unknown whether it is cached" in plan.reason) is (action == "near-minimum")


def test_the_reason_states_that_the_minimum_is_unknown() -> None:
    plan = make_plan(TokenCount(tokens=100, margin=0.1), CacheRule(kind="unknown"), PaddingRequest())
    assert (plan.action, "minimum is unknown" in plan.reason) == ("estimate", True)


# In a project


def repeated_words(count: int) -> str:
    """Returns a template that renders to so many words."""
    return f"{{% for _ in range({count}) %}} word{{% endfor %}}"


OWN = """\
[target.mine]
extends = "deepseek-v4"
frame = {after = "<｜User｜>"}
cache = {unit = 128, minimum = 512, read = 0.1, write = 2.0}
"""


@pytest.mark.parametrize(
    ("padding", "plan", "tokens"),
    [
        ("auto", "below-minimum", 401),
        ("off", "below-minimum", 401),
        ("{floor: true, hits_per_miss: 1}", "unpaid", 401),
        ("{floor: true, hits_per_miss: 3}", "floor", 512),
        ("{floor: true, reuses: 3}", "floor", 512),
        ("{floor: true}", "floor", 512),
        ("{mode: always, floor: true, hits_per_miss: 3}", "floor", 512),
        ("always", "pad", 512),
    ],
)
def test_the_padding_options_of_the_manifest_apply_to_the_build(
    project: Project, padding: str, plan: str, tokens: int
) -> None:
    project.write(
        {
            "cacheunit.toml": OWN,
            "prefixes/a.yaml": f"system: a.md.j2\ntargets: [mine]\npadding: {padding}\n",
            "templates/a.md.j2": repeated_words(400),
        }
    )
    (artifact,) = project.run("build", "--format", "json").json["artifacts"]
    assert (artifact["plan"], artifact["tokens"], artifact["padding"]) == (plan, tokens, tokens - 401)
    assert artifact["reason"] in project.run("explain", "a").out
    assert artifact["reason"] in project.run("-v", "build").out


def test_one_prefix_is_planned_by_the_rule_of_each_target(project: Project) -> None:
    project.write(
        {
            "cacheunit.toml": OWN
            + """
[target.exact]
extends = "mine"
cache = {kind = "tokens"}
""",
            "prefixes/a.yaml": "system: a.md.j2\ntargets: [deepseek-v4, mine, exact, anthropic-512, kimi, groq]\n",
            "templates/a.md.j2": repeated_words(700),
        }
    )
    artifacts = project.run("build", "--format", "json").json["artifacts"]
    plans = {artifact["target"]: (artifact["plan"], artifact["counted"]) for artifact in artifacts}
    assert plans["deepseek-v4"] == ("pad", "exact")
    assert plans["mine"] == ("pad", "exact")
    assert plans["exact"] == ("tokens", "exact")
    assert plans["groq"] == ("estimate", "estimate")
    assert plans["kimi"] == ("estimate", "estimate")
    assert {artifact["padding"] for artifact in artifacts if artifact["counted"] == "estimate"} == {0}
    page = project.run("explain", "a").out
    assert all(artifact["reason"] in page and artifact["target"] in page for artifact in artifacts)


def test_a_budget_is_compared_with_the_lower_bound_of_an_estimate(project: Project) -> None:
    project.write(
        {
            "prefixes/a.yaml": "system: a.md.j2\ntargets: [anthropic-512]\nbudget: 600\n",
            "templates/a.md.j2": repeated_words(1_000),
        }
    )
    project.build()
    project.edit("prefixes/a.yaml", "budget: 600", "budget: 400")
    ran = project.run("build")
    assert ran.code == 2
    assert re.search(
        r"prefixes/a\.yaml:3: a for anthropic-512: at least \d+ static tokens, \d+ over the budget", ran.err
    )
