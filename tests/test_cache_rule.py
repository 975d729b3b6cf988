"""What a change of the static tokens does to a cache: held against the rules as a person would write them down."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cacheunit_build.domain.cache_rule import CacheRule

ids = st.integers(min_value=0, max_value=3)
tokens = st.lists(ids, max_size=40)
units = st.integers(min_value=1, max_value=12)
minima = st.none() | st.integers(min_value=0, max_value=30)


@st.composite
def changes(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """An old and a new sequence that mostly begin alike."""
    shared = draw(tokens)
    return shared + draw(tokens), shared + draw(tokens)


def shared_by(old: list[int], new: list[int]) -> int:
    """How many tokens both begin with, counted one by one."""
    count = 0
    for one, other in zip(old, new, strict=False):
        if one != other:
            break
        count += 1
    return count


def warm_naively(old: list[int], new: list[int], rule: CacheRule) -> int | None:
    """How many tokens an engine that holds `old` finds for `new`, walking as it would."""
    if rule.kind == "unknown" or (rule.kind == "blocks" and rule.unit is None):
        return None
    if rule.kind == "breakpoints":
        held = [len(old)]  # one entry, at the end of the old prefix
    elif rule.kind == "blocks":
        held = [end for end in range(len(old) + 1) if rule.unit is not None and end % rule.unit == 0]
    else:
        held = list(range(len(old) + 1))
    found = [end for end in held if end >= (rule.minimum or 0) and len(new) >= end and old[:end] == new[:end]]
    return max(found, default=0)


rules = st.one_of(
    st.builds(CacheRule, kind=st.just("blocks"), unit=st.none() | units, minimum=minima),
    st.builds(CacheRule, kind=st.sampled_from(["breakpoints", "tokens", "unknown"]), minimum=minima),
)


@given(changes(), rules)
@example(([], []), CacheRule(kind="breakpoints"))
@example(([1], []), CacheRule(kind="breakpoints"))
@example(([1] * 8, [1] * 9), CacheRule(kind="blocks", unit=4, minimum=8))
@example(([1] * 8, [1] * 9), CacheRule(kind="blocks", unit=4, minimum=9))
def test_it_is_what_an_engine_that_walks_its_cache_finds(change: tuple[list[int], list[int]], rule: CacheRule) -> None:
    old, new = change
    found = rule.impact(old, new)
    assert found.first == shared_by(old, new)
    assert found.still_cached == warm_naively(old, new, rule)


@given(changes(), rules)
def test_warm_and_rewritten_are_the_new_tokens_or_both_unknown(
    change: tuple[list[int], list[int]], rule: CacheRule
) -> None:
    old, new = change
    found = rule.impact(old, new)
    if found.still_cached is None or found.recomputed is None:
        assert found.still_cached is found.recomputed is None
        assert rule.kind == "unknown" or rule.unit is None
    else:
        assert found.still_cached + found.recomputed == len(new)
        assert 0 <= found.still_cached <= found.first <= min(len(old), len(new))
        assert found.still_cached == 0 or found.still_cached >= (rule.minimum or 0)


@given(changes(), units, minima)
def test_blocks_serve_whole_units_and_one_more_would_be_too_many(
    change: tuple[list[int], list[int]], unit: int, minimum: int | None
) -> None:
    old, new = change
    warm = CacheRule(kind="blocks", unit=unit, minimum=minimum).impact(old, new).still_cached
    assert warm is not None
    assert warm % unit == 0
    assert warm + unit > shared_by(old, new) or shared_by(old, new) // unit * unit < (minimum or 0)


@given(changes(), minima)
def test_breakpoints_serve_the_old_prefix_whole_or_not_at_all(
    change: tuple[list[int], list[int]], minimum: int | None
) -> None:
    old, new = change
    warm = CacheRule(kind="breakpoints", minimum=minimum).impact(old, new).still_cached
    assert warm in (0, len(old))
    assert (warm == len(old)) == (new[: len(old)] == old and len(old) >= (minimum or 0)) or not old


@given(changes())
def test_tokens_serve_exactly_what_both_begin_with(change: tuple[list[int], list[int]]) -> None:
    assert CacheRule(kind="tokens").impact(*change).still_cached == shared_by(*change)


@given(tokens, rules)
def test_nothing_changed_means_no_different_token(old: list[int], rule: CacheRule) -> None:
    assert rule.impact(old, list(old)).first == len(old)


@given(changes(), changes(), rules)
def test_what_follows_the_first_difference_does_not_matter(
    change: tuple[list[int], list[int]], other: tuple[list[int], list[int]], rule: CacheRule
) -> None:
    old, new = change
    tail = other[0]
    assert rule.impact([*old, 8], [*new, 9, *tail]).still_cached == rule.impact([*old, 8], [*new, 9]).still_cached


def test_a_long_prefix_takes_no_longer_than_comparing_it() -> None:
    old = list(range(1_000_000))
    new = [*old[:999_999], -1]
    assert CacheRule(kind="blocks", unit=128).impact(old, new).still_cached == 999_999 // 128 * 128


def test_the_kind_of_sequence_does_not_matter() -> None:
    assert CacheRule(kind="tokens").impact((1, 2, 3), [1, 2, 3]).still_cached == 3


def test_a_prefix_that_goes_on_inside_a_block_is_another_block() -> None:
    rule = CacheRule(kind="breakpoints")
    assert rule.impact([1, 2], [1, 2, 3], on_block=False).still_cached == 0
    assert rule.impact([1, 2], [1, 2, 3], on_block=True).still_cached == 2
    assert rule.impact([1, 2], [1, 2], on_block=False).still_cached == 2


prices = st.floats(min_value=0, max_value=2)


@given(st.integers(0, 90), st.integers(0, 90), units, minima, prices, prices)
def test_the_cost_is_what_a_bill_would_say(  # noqa: PLR0917 - hypothesis gives them in this order
    old: int, new: int, unit: int, minimum: int | None, read: float, write: float
) -> None:
    """Added up request by request: the first one after the change, and two of the later ones."""
    rule = CacheRule(kind="blocks", unit=unit, minimum=minimum, read=read, write=write)

    def served(tokens: int) -> int:
        return 0 if tokens < (minimum or 0) else tokens // unit * unit

    warm = min(served(old), served(new))
    found = rule.cost(warm, old, new)
    first = warm * read + (served(new) - warm) * write + (new - served(new))
    later = served(new) * read + (new - served(new))
    before = served(old) * read + (old - served(old))
    assert found.one_time == pytest.approx(first - later)
    assert found.per_million == pytest.approx((later - before) * 1_000_000)
    unknown = CacheRule(kind="unknown").cost(None, old, new)
    assert (unknown.one_time, unknown.per_million) == (None, None)
