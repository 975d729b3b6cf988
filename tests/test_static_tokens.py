"""Static tokens: those that every request made from a prefix begins with, whatever the user writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from support import default_vocabulary, reference

from cacheunit_build.compiler.static_tokens import TRIED_CONTINUATIONS, static_tokens
from cacheunit_build.domain.prompt import Conversation

if TYPE_CHECKING:
    from collections.abc import Callable


PREFIX = Conversation(system="", tools=(), turns=())


def in_front(framed_prefix: str) -> Callable[[Conversation], str]:
    """Returns the frame that puts a text in front of the words that follow."""
    return lambda request: framed_prefix + request.next_text


def static_and_unstable(framed_prefix: str) -> tuple[int, int]:
    """Returns the numbers of static and of unstable tokens of a framed prefix."""
    vocabulary = default_vocabulary()
    result = static_tokens(in_front(framed_prefix), PREFIX, vocabulary.encode, vocabulary.control_ids)
    assert result.framed_prefix == framed_prefix
    return result.tokens, result.unstable


def test_no_token_before_a_control_token_is_unstable() -> None:
    assert static_and_unstable("<｜begin▁of▁sentence｜>Be brief.\n<｜User｜>") == (5, 0)


def test_a_newline_word_or_short_number_at_the_end_is_an_unstable_token() -> None:
    assert static_and_unstable("Be brief.\n") == (2, 1)
    assert static_and_unstable("Be brief") == (1, 1)
    assert static_and_unstable("Total: 12") == (3, 1)


def test_three_digits_at_the_end_are_a_static_token() -> None:
    assert static_and_unstable("Total: 123") == (4, 0)


def test_a_last_token_that_merges_with_the_next_text_is_unstable() -> None:
    merges = {"abc": 1, "ab": 2, "bc": 3, "a": 4, "b": 5, "c": 6}

    def encode(text: str) -> list[int]:
        ids = []
        while text:
            piece = next(token for token in merges if text.startswith(token)) if text[0] in "abc" else text[0]
            ids.append(merges.get(piece, ord(piece[0])))
            text = text[len(piece) :]
        return ids

    result = static_tokens(lambda request: "a" + request.next_text.replace("a", "bc"), PREFIX, encode, ())
    assert (list(result.ids), result.unstable) == ([], 1)


@given(st.text(max_size=40))
def test_static_token_ids_begin_every_continued_text_in_the_reference_implementation(framed_prefix: str) -> None:
    vocabulary = default_vocabulary()
    result = static_tokens(in_front(framed_prefix), PREFIX, vocabulary.encode, vocabulary.control_ids)
    for continuation in TRIED_CONTINUATIONS:
        ids = reference().encode(framed_prefix + continuation, add_special_tokens=False).ids
        assert ids[: result.tokens] == list(result.ids)


def test_a_frame_that_begins_with_the_users_text_has_no_static_tokens() -> None:
    vocabulary = default_vocabulary()
    result = static_tokens(
        lambda request: request.next_text + " tail", PREFIX, vocabulary.encode, vocabulary.control_ids
    )
    assert (result.tokens, result.framed_prefix) == (0, "")
