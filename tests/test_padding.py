"""Padding: it reaches the next unit exactly and with few counts, or is an error that lists what was tried."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import count_default

import cacheunit_build
from cacheunit_build.compiler.padding import (
    MOST_CALLS,
    MOST_PADDING,
    AlignmentError,
    align_padding,
    pad_text,
    pad_text_concat,
    pad_text_to,
)

Count = Callable[[str], int]

COUNTS: dict[str, Count] = {
    "characters": len,
    "bytes": lambda text: len(text.encode()),
    "words": lambda text: len(text.split()),
    "quarter of the characters": lambda text: len(text) // 4,
    "thirds, rounded up": lambda text: -(-len(text) // 3),
    "words and marks": lambda text: len(re.findall(r"\w+|[^\w\s]|\s", text)),
    "merging pairs of dots": lambda text: len(re.findall(r"( \.){1,2}|\w+|.", text, re.DOTALL)),
    "the default vocabulary": count_default,
}
PREFIXES = ("a", "Be brief.", "Be brief.\n", "Be brief.\n\n", "。", "12", "   ", "{", "...", ". . .", "🙂", "é" * 50)


@given(tokens=st.integers(-5, 10_000), unit=st.integers(-5, 5_000))
def test_align_padding_is_the_smallest_number_that_reaches_a_multiple_of_the_unit(tokens: int, unit: int) -> None:
    missing = align_padding(tokens, unit)
    if tokens <= 0 or unit <= 0:
        assert missing == 0
    else:
        assert 0 <= missing < unit
        assert (tokens + missing) % unit == 0


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("unit", [1, 2, 3, 7, 16, 64, 128, 1000])
def test_text_with_its_padding_has_the_next_multiple_of_tokens(name: str, unit: int) -> None:
    count = COUNTS[name]
    for prefix in PREFIXES:
        padding = pad_text_concat(prefix, unit, count)
        tokens = count(prefix)
        assert count(prefix + padding) == tokens + align_padding(tokens, unit)
        assert (padding == "") == (tokens % unit == 0)
        assert pad_text_concat(prefix, unit, count) == padding


@given(prefix=st.text(max_size=60), unit=st.sampled_from([2, 16, 64, 128]))
def test_any_text_is_aligned_in_the_default_vocabulary(prefix: str, unit: int) -> None:
    padding = pad_text_concat(prefix, unit, count_default)
    assert padding == "" if not prefix else count_default(prefix + padding) == -(-count_default(prefix) // unit) * unit


@given(prefix=st.text(min_size=1, max_size=30), unit=st.integers(1, 40), salt=st.integers(0, 1 << 16))
def test_with_an_erratic_count_padding_is_exact_or_an_error(prefix: str, unit: int, salt: int) -> None:
    calls = 0

    def erratic(text: str) -> int:
        nonlocal calls
        calls += 1
        return len(text) // 2 + (len(text) * 2654435761 + salt) % 5

    try:
        padding = pad_text_concat(prefix, unit, erratic)
    except AlignmentError:
        pass
    else:
        assert erratic(prefix + padding) == -(-erratic(prefix) // unit) * unit
        calls -= 3
    assert calls <= MOST_CALLS


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("never advances", lambda _: 7),
        ("moves by two", lambda text: 2 * (len(text) // 2) + 1),
        ("shrinks", lambda text: 1_000_001 - len(text)),
        ("jumps over", lambda text: 1 if len(text) < 8 else 1_000_000),
    ],
)
def test_an_unreachable_multiple_is_an_error_that_lists_what_was_tried(name: str, count: Count) -> None:
    calls = []

    def counted(text: str) -> int:
        calls.append(text)
        return count(text)

    with pytest.raises(
        AlignmentError, match=r"no padding adds exactly \d+ tokens to the text's \d+; tried: .*characters"
    ):
        pad_text_concat("prefix.", 128, counted)
    assert len(calls) <= MOST_CALLS, name


@pytest.mark.parametrize("unit", [0, -1, -128])
def test_without_a_positive_unit_or_a_text_nothing_is_padded_or_counted(unit: int) -> None:
    def never(_: str) -> int:
        raise AssertionError("counted")

    assert pad_text_concat("prefix", unit, never) == ""
    assert pad_text_concat("", 128, never) == ""


@pytest.mark.parametrize("result", [None, 1.5, True, "3", -1])
def test_a_count_that_is_not_a_number_of_tokens_is_refused(result: object) -> None:
    with pytest.raises(AlignmentError, match="not a number of tokens"):
        pad_text_concat("prefix", 128, lambda _: result)  # type: ignore[arg-type,return-value]


def test_padding_needs_few_counts_in_the_default_vocabulary() -> None:
    calls = 0

    def counted(text: str) -> int:
        nonlocal calls
        calls += 1
        return count_default(text)

    prefixes = [f"You are agent {n}. " + "Answer with care. " * n for n in range(1, 101)]
    for prefix in prefixes:
        pad_text_concat(prefix, 128, counted)
    assert calls / len(prefixes) <= 3


def test_padding_is_recognizable_and_contains_no_instruction() -> None:
    padding = pad_text_concat("Be brief.", 128, count_default)
    assert re.fullmatch(r"\n\n\[padding\]( \.)+", padding)
    assert re.fullmatch(r"( \.)+", pad_text_concat("Be brief.", 4, count_default))


def test_pad_text_to_can_pad_beyond_the_next_unit_and_refuses_to_shorten() -> None:
    assert count_default("Be brief." + pad_text_to("Be brief.", 512, count_default)) == 512
    assert pad_text_to("Be brief.", count_default("Be brief."), count_default) == ""
    with pytest.raises(AlignmentError, match="has 3 tokens, more than the 2"):
        pad_text_to("Be brief.", 2, count_default)


@pytest.mark.parametrize("goal", [MOST_PADDING + 4, 10**9, 2**63, 10**400, 10**5000], ids=int.bit_length)
def test_a_goal_that_is_too_far_is_an_error_that_names_the_bound(goal: int) -> None:
    with pytest.raises(AlignmentError, match="at most 1,048,576 tokens"):
        pad_text_to("x\n\n", goal, len)
    with pytest.raises(AlignmentError, match="at most 1,048,576 tokens"):
        pad_text_concat("x\n\n", goal, len)


def test_the_farthest_goal_is_reached() -> None:
    assert len(pad_text_to("x\n\n", MOST_PADDING + 3, len)) == MOST_PADDING


@pytest.mark.parametrize("tokens", [2**53 + 1, 2**63, 10**400, 10**5000, -1, -(10**5000)], ids=int.bit_length)
def test_a_count_that_no_text_has_is_an_error(tokens: int) -> None:
    for goal in (5, tokens + 5):
        with pytest.raises(AlignmentError, match="is not a number of tokens"):
            pad_text_to("x", goal, lambda _: tokens)
        with pytest.raises(AlignmentError, match="is not a number of tokens"):
            pad_text_concat("x", 7, lambda _: tokens)


def test_a_goal_below_zero_is_an_error() -> None:
    with pytest.raises(AlignmentError, match="the text has 1 tokens, more than the 0"):
        pad_text_to("x", -(10**5000), len)


def test_pad_text_is_deprecated_and_exact_for_padding_counted_alone() -> None:
    with pytest.warns(DeprecationWarning, match="use pad_text_concat"):
        padding = pad_text(1000, 128, count_default)
    assert count_default(padding) == align_padding(1000, 128)
    with pytest.warns(DeprecationWarning, match="pad_text"):
        assert pad_text(1024, 128, count_default) == ""
    with pytest.warns(DeprecationWarning, match="pad_text"), pytest.raises(AlignmentError):
        pad_text(1000, 128, lambda _: 0)


def test_the_package_exports_the_three_padding_functions() -> None:
    assert (cacheunit_build.align_padding, cacheunit_build.pad_text, cacheunit_build.pad_text_concat) == (
        align_padding,
        pad_text,
        pad_text_concat,
    )
