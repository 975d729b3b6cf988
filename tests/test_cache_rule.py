"""Cache rules: reusable tokens, what stays cached after a change, and costs agree with naive caches and sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cacheunit_build.domain.cache_rule import CacheRule
from cacheunit_build.domain.token_count import TokenCount

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cacheunit_build.domain.cache_results import ChangeImpact

token_ids = st.integers(min_value=0, max_value=3)
tokens = st.lists(token_ids, max_size=40)
units = st.integers(min_value=1, max_value=12)
minima = st.none() | st.integers(min_value=0, max_value=30)
ANTHROPIC = CacheRule(kind="breakpoints", minimum=1024, read=0.1, write=1.25, marker="cache_control")


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version of a prefix, as a lock entry has it."""

    tokens: int
    margin: float = 0.0
    markers: tuple[int, ...] = ()
    lifetimes: tuple[str, ...] = ()


def version(count: int, margin: float = 0.0) -> Version:
    """Returns a version with one marker at its end."""
    return Version(tokens=count, margin=margin, markers=(count,))


def impact(
    rule: CacheRule, old: Sequence[int], new: Sequence[int], *, found: Sequence[int] | None = None
) -> ChangeImpact:
    """Returns what a change does to exact versions with one marker at their end."""
    return rule.impact(version(len(old)), version(len(new)), (old, new), found=found)


def impact_of_estimates(old: int, new: int, *, common: int, margin: float, rule: CacheRule = ANTHROPIC) -> ChangeImpact:
    """Returns what a change of estimated versions does, which have `common` tokens in common."""
    ids = list(range(old)), [*range(common), *range(10_000_000, 10_000_000 + new - common)]
    return rule.impact(version(old, margin), version(new, margin), ids)


@st.composite
def changes(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Draws an old and a new token sequence, which mostly share a beginning."""
    shared = draw(tokens)
    return shared + draw(tokens), shared + draw(tokens)


def common_length(old: list[int], new: list[int]) -> int:
    """Returns the length of the common beginning, counted token by token."""
    count = 0
    for one, other in zip(old, new, strict=False):
        if one != other:
            break
        count += 1
    return count


def still_cached_naively(old: list[int], new: list[int], rule: CacheRule) -> int | None:
    """Returns how many tokens of `new` a cache with an entry for `old` serves; None if the rule is unknown."""
    # One entry at the end of the old prefix, or one at each of its tokens.
    cached_ends = [len(old)] if rule.kind == "breakpoints" else range(len(old) + 1)
    usable = [end for end in cached_ends if len(new) >= end and old[:end] == new[:end]]
    longest = max((end for end in usable if end >= (rule.minimum or 0)), default=0)
    if longest >= (rule.minimum or 0) and (rule.kind == "unknown" or (rule.kind == "blocks" and rule.unit is None)):
        return None
    full_units = list(range(0, longest + 1, rule.unit or 1))
    return max(full_units[: len(full_units) - rule.dropped_units], default=0)


rules = st.one_of(
    st.builds(
        CacheRule, kind=st.just("blocks"), unit=st.none() | units, minimum=minima, dropped_units=st.integers(0, 3)
    ),
    st.builds(CacheRule, kind=st.sampled_from(["breakpoints", "tokens", "unknown"]), minimum=minima),
)


# What a change leaves cached


@given(changes(), rules)
@example(([], []), CacheRule(kind="breakpoints"))
@example(([1], []), CacheRule(kind="breakpoints"))
@example(([1] * 8, [1] * 9), CacheRule(kind="blocks", unit=4, minimum=8))
@example(([1] * 8, [1] * 9), CacheRule(kind="blocks", unit=4, minimum=9))
def test_still_cached_tokens_agree_with_a_naive_lookup_in_a_cache(
    change: tuple[list[int], list[int]], rule: CacheRule
) -> None:
    old, new = change
    result = impact(rule, old, new)
    assert result.first == common_length(old, new)
    assert result.still_cached == still_cached_naively(old, new, rule)


@given(changes(), rules)
def test_still_cached_and_recomputed_tokens_add_up_or_are_both_unknown_for_a_reason(
    change: tuple[list[int], list[int]], rule: CacheRule
) -> None:
    old, new = change
    result = impact(rule, old, new)
    if result.still_cached is None or result.recomputed is None:
        assert result.still_cached is result.recomputed is None
        assert rule.kind == "unknown" or rule.unit is None
        assert result.why is not None
    else:
        assert result.still_cached + result.recomputed == len(new)
        assert 0 <= result.still_cached <= result.first <= min(len(old), len(new))
        assert result.first >= (rule.minimum or 0) or result.still_cached == 0
        assert result.why is None


@given(changes(), minima)
def test_breakpoint_caches_serve_all_of_the_old_prefix_or_nothing(
    change: tuple[list[int], list[int]], minimum: int | None
) -> None:
    old, new = change
    still_cached = impact(CacheRule(kind="breakpoints", minimum=minimum), old, new).still_cached
    assert still_cached in (0, len(old))
    assert (still_cached == len(old)) == (new[: len(old)] == old and len(old) >= (minimum or 0)) or not old


@given(changes(), rules)
def test_a_change_serves_no_more_than_an_unchanged_prefix(change: tuple[list[int], list[int]], rule: CacheRule) -> None:
    still_cached = impact(rule, *change).still_cached
    reusable = rule.predict(version(len(change[1]))).tokens
    assert still_cached is not None or reusable is None
    assert (still_cached or 0) <= (reusable or 0)


@given(tokens, rules)
def test_an_unchanged_prefix_is_served_as_predicted(old: list[int], rule: CacheRule) -> None:
    result = impact(rule, old, list(old))
    assert result.first == len(old)
    assert result.still_cached == rule.predict(version(len(old))).tokens == rule.reusable(len(old), (len(old),))


@given(changes(), changes(), rules)
def test_tokens_after_the_first_difference_do_not_matter(
    change: tuple[list[int], list[int]], other: tuple[list[int], list[int]], rule: CacheRule
) -> None:
    old, new = change
    tail = other[0]
    longer = impact(rule, [*old, 8], [*new, 9, *tail]).still_cached
    assert longer == impact(rule, [*old, 8], [*new, 9]).still_cached


def test_prefixes_of_a_million_tokens_are_compared() -> None:
    old = list(range(1_000_000))
    new = [*old[:999_999], -1]
    assert impact(CacheRule(kind="blocks", unit=128), old, new).still_cached == 999_999 // 128 * 128


def test_tuples_and_lists_of_token_ids_are_compared() -> None:
    assert impact(CacheRule(kind="tokens"), (1, 2, 3), [1, 2, 3]).still_cached == 3


def test_a_breakpoint_serves_a_longer_prefix_only_if_it_continues_in_a_new_block() -> None:
    rule = CacheRule(kind="breakpoints")
    assert impact(rule, [1, 2], [1, 2, 3], found=()).still_cached == 0
    assert impact(rule, [1, 2], [1, 2, 3], found=(2,)).still_cached == 2
    merged = impact(rule, [1, 2], [1, 7, 3], found=(2,))  # the end of the old block merges with the new one
    assert (merged.first, merged.still_cached, merged.recomputed) == (1, 2, 1)
    assert impact(CacheRule(kind="tokens"), [1, 2], [1, 2, 3], found=()).still_cached == 2


def test_only_marked_positions_of_the_old_version_are_served() -> None:
    rule = CacheRule(kind="breakpoints", minimum=2)
    old, ids = Version(tokens=6, markers=(3, 5)), list(range(6))
    for new, served in (([0, 1, 2, 3, 4, 9], 5), ([0, 1, 2, 3, 9], 3), ([0, 1, 9], 0)):
        assert rule.impact(old, version(len(new)), (ids, new)).still_cached == served
    unmarked = Version(tokens=6)
    assert rule.impact(unmarked, unmarked, (ids, ids)).still_cached == 0


# What is reused


@pytest.mark.parametrize(
    ("rule", "shared", "markers", "result"),
    [
        (CacheRule(kind="blocks", unit=128), 300, (), 256),
        (CacheRule(kind="blocks", unit=128, dropped_units=1), 300, (), 128),
        (CacheRule(kind="blocks", unit=128, dropped_units=3), 300, (), 0),
        (CacheRule(kind="blocks", unit=128, minimum=1024), 300, (), 0),
        (CacheRule(kind="blocks", unit=256, minimum=257), 256, (), 0),
        (CacheRule(kind="blocks", unit=256, minimum=257), 300, (), 256),
        (CacheRule(kind="blocks"), 300, (), None),
        (CacheRule(kind="tokens"), 300, (), 300),
        (CacheRule(kind="unknown"), 300, (), None),
        (ANTHROPIC, 1300, (1100, 1300), 1300),
        (ANTHROPIC, 1299, (1100, 1300), 1100),
        (ANTHROPIC, 1299, (900,), 0),
        (ANTHROPIC, 1300, (), 0),
    ],
)
def test_reusable_tokens_follow_the_rule(
    rule: CacheRule, shared: int, markers: tuple[int, ...], result: int | None
) -> None:
    assert rule.reusable(shared, markers) == result


@pytest.mark.parametrize("key", ["unit", "dropped_units"])
@pytest.mark.parametrize("kind", ["breakpoints", "tokens", "unknown"])
def test_only_blocks_have_units(key: str, kind: str) -> None:
    with pytest.raises(ValueError, match=f'has a "{key}", which only kind "blocks" has'):
        CacheRule(**{"kind": kind, key: 1})  # type: ignore[arg-type]


# Estimates


def test_whether_an_estimate_is_cached_is_unknown_within_its_margin_only() -> None:
    near_the_edge = TokenCount(tokens=1003, margin=0.1)
    assert (near_the_edge.low, near_the_edge.high) == (902, 1104)
    assert CacheRule(kind="breakpoints", minimum=1104).caches(near_the_edge) is None
    assert CacheRule(kind="breakpoints", minimum=1105).caches(near_the_edge) is False
    assert CacheRule(kind="breakpoints", minimum=902).caches(near_the_edge) is True


@given(st.integers(0, 5000), st.sampled_from([0.0, 0.1, 0.35, 0.5]), rules)
def test_a_prediction_lies_within_its_bounds(count: int, margin: float, rule: CacheRule) -> None:
    prediction = rule.predict(version(count, margin))
    assert prediction.low <= prediction.high
    if prediction.tokens is not None:
        assert prediction.low <= prediction.tokens <= prediction.high
        assert margin or prediction.low == prediction.high == rule.reusable(count, (count,))


def test_nothing_is_predicted_of_an_estimate_near_the_minimum() -> None:
    near, far, below = (ANTHROPIC.predict(version(count, 0.5)) for count in (1093, 3000, 500))
    assert (near.tokens, near.low) == (None, 0)
    assert (far.tokens, far.low, far.high) == (3000, 1500, 4500)
    assert (below.tokens, below.high) == (0, 0)


def test_an_estimate_far_below_the_minimum_has_nothing_cached_whatever_the_other_version_is() -> None:
    assert impact_of_estimates(1093, 400, common=390, margin=0.5).still_cached == 0
    assert impact_of_estimates(1093, 400, common=0, margin=0.5).still_cached == 0


def test_an_estimate_near_the_minimum_is_unknown_with_the_reason() -> None:
    result = impact_of_estimates(1093, 1100, common=1093, margin=0.5)
    assert (result.still_cached, result.recomputed) == (None, None)
    assert "minimum is within the margin" in str(result.why)
    units_of_estimate = impact_of_estimates(1093, 1100, common=1093, margin=0.5, rule=CacheRule(kind="blocks", unit=64))
    assert "where units end" in str(units_of_estimate.why)
    assert impact_of_estimates(9000, 9001, common=9000, margin=0.5).still_cached == 9000


# Prices


prices = st.floats(min_value=0, max_value=2)


@given(st.integers(0, 90), st.integers(0, 90), units, minima, prices, prices)
def test_the_cost_agrees_with_a_sum_over_single_requests(  # noqa: PLR0917 - hypothesis passes them in this order
    old: int, new: int, unit: int, minimum: int | None, read: float, write: float
) -> None:
    """The first request after the change writes what is not cached; later requests read it."""
    rule = CacheRule(kind="blocks", unit=unit, minimum=minimum, read=read, write=write)

    def cached_tokens(count: int) -> int:
        return 0 if count < (minimum or 0) else count // unit * unit

    still_cached = min(cached_tokens(old), cached_tokens(new))
    cost = rule.cost(still_cached, (version(old), rule), version(new))
    first = still_cached * read + (cached_tokens(new) - still_cached) * write + (new - cached_tokens(new))
    later = cached_tokens(new) * read + (new - cached_tokens(new))
    before = cached_tokens(old) * read + (old - cached_tokens(old))
    assert cost.one_time == pytest.approx(first - later)
    assert cost.per_million == pytest.approx((later - before) * 1_000_000)
    nothing_known = CacheRule(kind="unknown")
    unknown = nothing_known.cost(None, (version(old), nothing_known), version(new))
    assert (unknown.one_time, unknown.per_million) == (None, None)


def test_the_old_version_is_priced_by_the_rule_that_it_was_built_with() -> None:
    """Of 1,000 tokens, units of 512 cached 512, and units of 128 cache 896: each later request saves 384 at 0.9."""
    old, new = (CacheRule(kind="blocks", unit=unit, read=0.1, write=1.0) for unit in (512, 128))
    cost = new.cost(0, (version(1000), old), version(1000))
    assert cost.per_million == pytest.approx(-384 * 0.9 * 1_000_000)


@given(st.integers(1, 200), st.integers(1, 128), st.floats(0, 1), prices, st.integers(1, 500))
def test_padding_pays_from_its_break_even_on(full: int, past: int, read: float, write: float, hits: int) -> None:
    """Compares the cost of `hits` hits and one miss with and without padding, request by request."""
    unit = 128
    gain = CacheRule(kind="blocks", unit=unit, read=read, write=write).padding_gain(past % unit)
    assert gain is not None
    rest = past % unit
    unpadded = hits * (full * unit * read + rest) + (full * unit + rest) * write
    padded = hits * (full + 1) * unit * read + (full + 1) * unit * write
    saved = unpadded - padded
    assert saved == pytest.approx(hits * gain.saved_per_hit - gain.cost_per_miss)
    if abs(saved) > 1e-6:
        assert (saved > 0) == (gain.break_even is not None and hits >= gain.break_even)


def test_filling_up_to_the_minimum_pays_from_the_length_that_the_vendor_publishes() -> None:
    """OpenAI: with N requests, from 1,024 * (0.1 + 1.15 / N) tokens on; one of the N requests writes."""
    rule = CacheRule(kind="breakpoints", minimum=1024, read=0.1, write=1.25)
    for requests, published in ((2, 692), (5, 338), (10, 221), (100, 115)):
        assert rule.filling_pays_from(requests - 1) == published
