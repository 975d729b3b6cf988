"""Cache rules: still cached tokens and cost after a change agree with a naive cache and a sum over requests."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cacheunit_build.domain.cache_rule import CacheRule

token_ids = st.integers(min_value=0, max_value=3)
tokens = st.lists(token_ids, max_size=40)
units = st.integers(min_value=1, max_value=12)
minima = st.none() | st.integers(min_value=0, max_value=30)


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
    if rule.kind == "unknown" or (rule.kind == "blocks" and rule.unit is None):
        return None
    if rule.kind == "breakpoints":
        cached_ends = [len(old)]  # one entry, at the end of the old prefix
    elif rule.kind == "blocks":
        cached_ends = [end for end in range(len(old) + 1) if rule.unit is not None and end % rule.unit == 0]
    else:
        cached_ends = list(range(len(old) + 1))
    usable_ends = [
        end for end in cached_ends if end >= (rule.minimum or 0) and len(new) >= end and old[:end] == new[:end]
    ]
    return max(usable_ends, default=0)


rules = st.one_of(
    st.builds(CacheRule, kind=st.just("blocks"), unit=st.none() | units, minimum=minima),
    st.builds(CacheRule, kind=st.sampled_from(["breakpoints", "tokens", "unknown"]), minimum=minima),
)


@given(changes(), rules)
@example(([], []), CacheRule(kind="breakpoints"))
@example(([1], []), CacheRule(kind="breakpoints"))
@example(([1] * 8, [1] * 9), CacheRule(kind="blocks", unit=4, minimum=8))
@example(([1] * 8, [1] * 9), CacheRule(kind="blocks", unit=4, minimum=9))
def test_still_cached_tokens_agree_with_a_naive_lookup_in_a_cache(
    change: tuple[list[int], list[int]], rule: CacheRule
) -> None:
    old, new = change
    impact = rule.impact(old, new)
    assert impact.first == common_length(old, new)
    assert impact.still_cached == still_cached_naively(old, new, rule)


@given(changes(), rules)
def test_still_cached_and_recomputed_tokens_add_up_or_are_both_unknown(
    change: tuple[list[int], list[int]], rule: CacheRule
) -> None:
    old, new = change
    impact = rule.impact(old, new)
    if impact.still_cached is None or impact.recomputed is None:
        assert impact.still_cached is impact.recomputed is None
        assert rule.kind == "unknown" or rule.unit is None
    else:
        assert impact.still_cached + impact.recomputed == len(new)
        assert 0 <= impact.still_cached <= impact.first <= min(len(old), len(new))
        assert impact.still_cached == 0 or impact.still_cached >= (rule.minimum or 0)


@given(changes(), units, minima)
def test_block_caches_serve_as_many_full_units_as_possible(
    change: tuple[list[int], list[int]], unit: int, minimum: int | None
) -> None:
    old, new = change
    still_cached = CacheRule(kind="blocks", unit=unit, minimum=minimum).impact(old, new).still_cached
    assert still_cached is not None
    assert still_cached % unit == 0
    assert still_cached + unit > common_length(old, new) or common_length(old, new) // unit * unit < (minimum or 0)


@given(changes(), minima)
def test_breakpoint_caches_serve_all_of_the_old_prefix_or_nothing(
    change: tuple[list[int], list[int]], minimum: int | None
) -> None:
    old, new = change
    still_cached = CacheRule(kind="breakpoints", minimum=minimum).impact(old, new).still_cached
    assert still_cached in (0, len(old))
    assert (still_cached == len(old)) == (new[: len(old)] == old and len(old) >= (minimum or 0)) or not old


@given(changes())
def test_token_caches_serve_exactly_the_common_beginning(change: tuple[list[int], list[int]]) -> None:
    assert CacheRule(kind="tokens").impact(*change).still_cached == common_length(*change)


@given(tokens, rules)
def test_equal_sequences_have_no_first_difference(old: list[int], rule: CacheRule) -> None:
    assert rule.impact(old, list(old)).first == len(old)


@given(changes(), changes(), rules)
def test_tokens_after_the_first_difference_do_not_matter(
    change: tuple[list[int], list[int]], other: tuple[list[int], list[int]], rule: CacheRule
) -> None:
    old, new = change
    tail = other[0]
    assert rule.impact([*old, 8], [*new, 9, *tail]).still_cached == rule.impact([*old, 8], [*new, 9]).still_cached


def test_prefixes_of_a_million_tokens_are_compared() -> None:
    old = list(range(1_000_000))
    new = [*old[:999_999], -1]
    assert CacheRule(kind="blocks", unit=128).impact(old, new).still_cached == 999_999 // 128 * 128


def test_tuples_and_lists_of_token_ids_are_compared() -> None:
    assert CacheRule(kind="tokens").impact((1, 2, 3), [1, 2, 3]).still_cached == 3


def test_a_breakpoint_serves_a_longer_prefix_only_if_it_continues_in_a_new_block() -> None:
    rule = CacheRule(kind="breakpoints")
    assert rule.impact([1, 2], [1, 2, 3], on_block=False).still_cached == 0
    assert rule.impact([1, 2], [1, 2, 3], on_block=True).still_cached == 2
    assert rule.impact([1, 2], [1, 2], on_block=False).still_cached == 2


prices = st.floats(min_value=0, max_value=2)


@given(st.integers(0, 90), st.integers(0, 90), units, minima, prices, prices)
def test_the_cost_agrees_with_a_sum_over_single_requests(  # noqa: PLR0917 - hypothesis passes them in this order
    old: int, new: int, unit: int, minimum: int | None, read: float, write: float
) -> None:
    """The first request after the change writes what is not cached; later requests read it."""
    rule = CacheRule(kind="blocks", unit=unit, minimum=minimum, read=read, write=write)

    def cached_tokens(tokens: int) -> int:
        return 0 if tokens < (minimum or 0) else tokens // unit * unit

    still_cached = min(cached_tokens(old), cached_tokens(new))
    cost = rule.cost(still_cached, old, new)
    first = still_cached * read + (cached_tokens(new) - still_cached) * write + (new - cached_tokens(new))
    later = cached_tokens(new) * read + (new - cached_tokens(new))
    before = cached_tokens(old) * read + (old - cached_tokens(old))
    assert cost.one_time == pytest.approx(first - later)
    assert cost.per_million == pytest.approx((later - before) * 1_000_000)
    unknown = CacheRule(kind="unknown").cost(None, old, new)
    assert (unknown.one_time, unknown.per_million) == (None, None)
