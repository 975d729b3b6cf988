"""A plan pads where that pays, by the prices of the target, and says why in numbers."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from cacheunit_build.compiler.padding_plan import Count, make_plan
from cacheunit_build.domain.cache_rule import CacheRule
from cacheunit_build.domain.manifest import PaddingOptions
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
prices = st.sampled_from([0.0, 0.02, 0.1, 0.25, 0.5, 1.0]) | st.floats(0, 1)
margins = st.sampled_from([0.01, 0.1, 0.35, 0.5, 0.9])


def blocks(unit: int | None = 128, **more: Any) -> CacheRule:
    return CacheRule(kind="blocks", unit=unit, **{"minimum": 0, "read": 0.02, "write": 1.0, **more})


def planned(tokens: int, rule: CacheRule, mode: PaddingMode = "auto", reuses: int | None = None) -> PaddingPlan:
    return make_plan(Count(tokens=tokens), rule, PaddingOptions(mode=mode, floor=reuses is not None, reuses=reuses))


def numbers(plan: PaddingPlan) -> set[str]:
    return set(re.findall(r"-?\d+(?:\.\d+)?", plan.reason))


# Past a unit


@given(tokens=tokens_, unit=units, read=prices)
def test_a_full_unit_is_aligned_and_never_padded_in_any_mode(tokens: int, unit: int, read: float) -> None:
    for mode in MODES:
        plan = planned(tokens - tokens % unit, blocks(unit, read=read), mode)
        assert (plan.action, plan.goal) == ("aligned", None)
        assert str(tokens // unit) in numbers(plan)


@given(tokens=tokens_, unit=units, read=prices)
@example(tokens=2, unit=4, read=0.5)  # gains exactly nothing
def test_automatic_padding_pads_exactly_where_it_gains(tokens: int, unit: int, read: float) -> None:
    past = tokens % unit
    assume(past)
    gain = past - read * unit
    plan = planned(tokens, blocks(unit, read=read))
    assert plan.action == ("pad" if gain > 0 else "unpaid")
    assert (plan.goal is None) is (gain <= 0)


@given(tokens=tokens_, unit=units, read=prices, mode=st.sampled_from(MODES))
def test_a_goal_is_the_next_multiple_of_the_unit(tokens: int, unit: int, read: float, mode: PaddingMode) -> None:
    plan = planned(tokens, blocks(unit, read=read), mode)
    if plan.goal is not None:
        assert (plan.goal % unit, 0 < plan.goal - tokens < unit) == (0, True)


@given(tokens=tokens_, unit=units, read=st.none() | prices)
def test_always_pads_whatever_it_costs_and_off_never_does(tokens: int, unit: int, read: float | None) -> None:
    assume(tokens % unit)
    always, off = (planned(tokens, blocks(unit, read=read), mode) for mode in ("always", "off"))
    assert (always.action, always.goal) == ("pad", tokens + unit - tokens % unit)
    assert (off.action, off.goal) == ("off", None)


@pytest.mark.parametrize(
    ("tokens", "action", "goal"),
    [(127, "pad", 128), (128, "aligned", None), (129, "unpaid", None), (130, "unpaid", None), (131, "pad", 256)],
)
def test_deepseek_pads_from_three_tokens_past_a_unit(tokens: int, action: str, goal: int | None) -> None:
    plan = planned(tokens, known_targets()["deepseek-v4"].cache)
    assert (plan.action, plan.goal) == (action, goal)


def test_an_unknown_price_weighs_nothing_and_says_so() -> None:
    plan = planned(100, blocks(64, read=None))
    assert (plan.action, plan.goal) == ("unknown", None)
    assert "price of a cached token is unknown" in plan.reason


def test_reasons_give_the_numbers_they_weigh() -> None:
    assert planned(1179, blocks()).reason == (
        "27 tokens after the last full unit of 128; padding saves the cost of 24 input tokens per cached request"
    )
    assert planned(1154, blocks()).reason == (
        "2 tokens after the last full unit of 128; a full cached unit costs as much as 2.56, so padding does not pay"
    )
    assert planned(1152, blocks()).reason == "1152 tokens are 9 full units"
    assert planned(1154, blocks(), "always").reason == (
        "2 tokens after the last full unit of 128; padding is set to always, "
        "and adds the cost of 0.56 input tokens per cached request"
    )
    assert planned(1154, blocks(), "off").reason == (
        "padding is off; 2 tokens after the last full unit of 128 are recomputed in each request"
    )


# Other kinds


@given(tokens=tokens_, kind=st.sampled_from(KINDS), mode=st.sampled_from(MODES), read=st.none() | prices)
def test_without_a_unit_nothing_is_padded(tokens: int, kind: CacheKind, mode: PaddingMode, read: float | None) -> None:
    rule = CacheRule(kind=kind, read=read, write=1.0)
    plan = planned(tokens, rule, mode)
    assert (plan.goal, plan.action) == (None, "unknown" if kind in ("blocks", "unknown") else kind)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("tokens", "any common prefix is reused"),
        ("breakpoints", "the marked prefix is reused to the token"),
        ("unknown", "cache rule is unknown"),
        ("blocks", "cache unit is unknown"),
    ],
)
def test_why_nothing_is_aligned_is_said_for_each_kind(kind: CacheKind, words: str) -> None:
    assert words in planned(1000, CacheRule(kind=kind)).reason


# Below a minimum


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("tokens", "below"), [(1, True), (1023, True), (1024, False), (1025, False)])
def test_the_minimum_itself_is_enough(kind: CacheKind, tokens: int, below: bool) -> None:
    rule = CacheRule(kind=kind, minimum=1024, unit=128 if kind == "blocks" else None, read=0.1, write=1.25)
    plan = planned(tokens, rule)
    assert (plan.action == "below-minimum") is below
    if below:
        assert plan.goal is None
        assert {str(1024 - tokens), "1024"} <= numbers(plan)


def test_below_the_minimum_it_is_said_how_far_and_from_where_filling_would_pay() -> None:
    rule = CacheRule(kind="breakpoints", minimum=4096, read=0.1, write=1.25)
    assert planned(3413, rule).reason == (
        "683 tokens below the minimum of 4096: nothing is cached; "
        "with many reuses, padding to 4096 pays from 410 tokens"
    )
    assert planned(1000, blocks(256, minimum=1100, read=0.5)).reason == (
        "100 tokens below the minimum of 1100: nothing is cached; "
        "with many reuses, padding to 1280 pays from 641 tokens"
    )
    unpriced = planned(1000, blocks(256, minimum=1100, read=None))
    assert unpriced.reason == "100 tokens below the minimum of 1100: nothing is cached"


@given(
    tokens=st.integers(0, 5_000),
    unit=units,
    minimum=st.integers(1, 5_000),
    read=prices,
    write=st.sampled_from([0.0, 1.0, 1.25, 2.0]),
    reuses=st.integers(1, 1_000),
    mode=st.sampled_from(["auto", "always"]),
)
def test_filling_up_pays_exactly_by_the_formula(
    *, tokens: int, unit: int, minimum: int, read: float, write: float, reuses: int, mode: PaddingMode
) -> None:
    assume(tokens < minimum)
    goal = math.ceil(minimum / unit) * unit
    pays = tokens > goal * (read + (write - read) / reuses)
    plan = planned(tokens, blocks(unit, minimum=minimum, read=read, write=write), mode, reuses)
    assert (plan.action, plan.goal) == (("floor", goal) if pays else ("unpaid", None))
    assert {str(minimum - tokens), str(minimum), str(reuses), str(goal)} <= numbers(plan)


@pytest.mark.parametrize(("reuses", "pays_from"), [(10, 880.64), (100, 456.7), (2, 2764.8)])
def test_filling_up_pays_from_the_length_that_the_vendor_publishes(reuses: int, pays_from: float) -> None:
    rule = blocks(128, minimum=4096, read=0.1, write=1.25)
    just_below, just_above = (planned(tokens, rule, "auto", reuses) for tokens in (int(pays_from), int(pays_from) + 1))
    assert just_below.action == "unpaid"
    assert str(int(pays_from) + 1) in numbers(just_below)
    assert just_above.goal == 4096


def test_filling_up_for_a_single_reuse_never_pays_where_writing_costs_more() -> None:
    rule = blocks(128, minimum=4096, read=0.1, write=1.25)
    assert planned(4095, rule, "auto", 1).action == "unpaid"


def test_filling_up_with_unknown_prices_is_not_weighed() -> None:
    for missing in ("read", "write"):
        plan = planned(1000, blocks(128, minimum=1024, **{missing: None}), "auto", 9)
        assert (plan.action, plan.goal, "prices are unknown" in plan.reason) == ("unknown", None, True)


def test_filling_up_is_asked_for_and_never_done_unasked() -> None:
    rule = blocks(128, minimum=1024, read=0.0, write=0.0)
    assert planned(1023, rule).goal is None
    assert planned(1023, rule, "off").goal is None
    assert planned(1023, rule, "auto", 1).goal == 1024


def test_above_the_minimum_a_floor_changes_nothing() -> None:
    rule = blocks(128, minimum=1024)
    for tokens in (1024, 1026, 1100):
        assert planned(tokens, rule, "auto", 9) == planned(tokens, rule)


def test_a_prefix_at_a_breakpoint_is_filled_up_too() -> None:
    rule = CacheRule(kind="breakpoints", minimum=1024, read=0.1, write=1.25)
    assert planned(1000, rule, "auto", 100).goal == 1024


def test_always_pads_below_the_minimum_too() -> None:
    plan = planned(200, blocks(128, minimum=1024), "always")
    assert (plan.action, plan.goal) == ("pad", 256)
    assert "824 tokens below the minimum of 1024" in plan.reason


def test_always_pads_no_full_unit_below_the_minimum() -> None:
    assert planned(256, blocks(128, minimum=1024), "always").goal is None


@pytest.mark.parametrize(("tokens", "units_"), [(1023, 0), (1024, 8), (1100, 8), (1151, 8), (1152, 9)])
def test_steps_begin_at_the_minimum(tokens: int, units_: int) -> None:
    plan = planned(tokens, blocks(128, minimum=1024), "off")
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
    reuses=st.none() | st.integers(1, 99),
)
def test_an_estimate_has_no_goal_and_decides_nothing_within_its_margin(
    *,
    tokens: int,
    margin: float,
    kind: CacheKind,
    unit: int,
    minimum: int | None,
    mode: PaddingMode,
    reuses: int | None,
) -> None:
    count = Count(tokens=tokens, margin=margin)
    rule = CacheRule(kind=kind, unit=unit if kind == "blocks" else None, minimum=minimum, read=0.0, write=0.0)
    plan = make_plan(count, rule, PaddingOptions(mode=mode, floor=reuses is not None, reuses=reuses))
    assert plan.goal is None
    assert plan.action in ("estimate", "below-minimum", "near-minimum")
    assert {str(tokens), str(count.low), str(count.high)} <= numbers(plan)
    if plan.action == "below-minimum":
        assert minimum is not None
        assert tokens * (1 + margin) < minimum + 1
    if plan.action == "estimate" and minimum is not None:
        assert tokens * (1 - margin) > minimum - 1
    if minimum is not None and tokens * (1 - margin) < minimum - 1 and tokens * (1 + margin) > minimum + 1:
        assert plan.action == "near-minimum"
        assert str(minimum) in numbers(plan)


@given(tokens=tokens_, margin=margins)
def test_the_bounds_of_an_estimate_are_rounded_away_from_it(tokens: int, margin: float) -> None:
    count = Count(tokens=tokens, margin=margin)
    assert 0 <= count.low <= tokens * (1 - margin) <= tokens <= tokens * (1 + margin) <= count.high
    assert (Count(tokens=tokens).low, Count(tokens=tokens).high) == (tokens, tokens)


@pytest.mark.parametrize(
    ("tokens", "action"), [(929, "below-minimum"), (931, "near-minimum"), (1137, "near-minimum"), (1138, "estimate")]
)
def test_an_estimate_near_a_minimum_says_unknown(tokens: int, action: str) -> None:
    rule = CacheRule(kind="breakpoints", minimum=1024, read=0.1, write=1.25)
    plan = make_plan(Count(tokens=tokens, margin=0.1), rule, PaddingOptions())
    assert plan.action == action
    assert ("unknown whether it is cached" in plan.reason) is (action == "near-minimum")


def test_an_unknown_minimum_is_said_to_be_unknown() -> None:
    plan = make_plan(Count(tokens=100, margin=0.1), CacheRule(kind="unknown"), PaddingOptions())
    assert (plan.action, "minimum is unknown" in plan.reason) == ("estimate", True)


# In a project


def words(count: int) -> str:
    return f"{{% for _ in range({count}) %}} word{{% endfor %}}"


OWN = """\
[target.mine]
extends = "deepseek-v4"
frame = {after = "<｜User｜>"}
cache = {unit = 128, minimum = 512, read = 0.1, write = 1.25}
"""


@pytest.mark.parametrize(
    ("padding", "plan", "tokens"),
    [
        ("auto", "below-minimum", 401),
        ("off", "below-minimum", 401),
        ("{floor: true, reuses: 1}", "unpaid", 401),
        ("{floor: true, reuses: 3}", "floor", 512),
        ("{mode: always, floor: true, reuses: 3}", "floor", 512),
        ("always", "pad", 512),
    ],
)
def test_what_the_manifest_says_of_padding_is_what_is_built(
    project: Project, padding: str, plan: str, tokens: int
) -> None:
    project.write(
        {
            "cacheunit.toml": OWN,
            "prefixes/a.yaml": f"system: a.md.j2\ntargets: [mine]\npadding: {padding}\n",
            "templates/a.md.j2": words(400),
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
            "templates/a.md.j2": words(700),
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


def test_a_budget_counts_an_estimate_at_its_lowest(project: Project) -> None:
    project.write(
        {
            "prefixes/a.yaml": "system: a.md.j2\ntargets: [anthropic-512]\nbudget: 600\n",
            "templates/a.md.j2": words(1_000),
        }
    )
    project.built()
    project.edit("prefixes/a.yaml", "budget: 600", "budget: 400")
    ran = project.run("build")
    assert ran.code == 2
    assert re.search(
        r"prefixes/a\.yaml:3: a for anthropic-512: at least \d+ static tokens, \d+ over the budget", ran.err
    )
