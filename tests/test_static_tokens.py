"""Static are the tokens that stay the same whatever follows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support import default_vocabulary, reference

from cacheunit_build.compiler.static_tokens import TRIED_CONTINUATIONS, static_tokens


def static(stem: str) -> tuple[int, int]:
    vocabulary = default_vocabulary()
    found = static_tokens(lambda user: stem + user, vocabulary.encode, vocabulary.control_ids)
    assert found.framed_prefix == stem
    return found.tokens, found.unstable


def test_a_control_token_ends_a_prefix_hard() -> None:
    assert static("<｜begin▁of▁sentence｜>Be brief.\n<｜User｜>") == (5, 0)


def test_a_newline_or_a_word_at_the_end_is_soft() -> None:
    assert static("Be brief.\n") == (2, 1)
    assert static("Be brief") == (1, 1)
    assert static("Total: 12") == (3, 1)


def test_digits_in_threes_are_a_safe_end() -> None:
    assert static("Total: 123") == (4, 0)


def test_toy_merges_are_seen() -> None:
    merges = {"abc": 1, "ab": 2, "bc": 3, "a": 4, "b": 5, "c": 6}

    def encode(text: str) -> list[int]:
        ids = []
        while text:
            piece = next(token for token in merges if text.startswith(token)) if text[0] in "abc" else text[0]
            ids.append(merges.get(piece, ord(piece[0])))
            text = text[len(piece) :]
        return ids

    found = static_tokens(lambda user: "a" + user.replace("a", "bc"), encode, ())
    assert (list(found.ids), found.unstable) == ([], 1)


@given(st.text(max_size=40))
def test_static_ids_begin_every_continued_text_by_the_reference(stem: str) -> None:
    vocabulary = default_vocabulary()
    found = static_tokens(lambda user: stem + user, vocabulary.encode, vocabulary.control_ids)
    for continuation in TRIED_CONTINUATIONS:
        ids = reference().encode(stem + continuation, add_special_tokens=False).ids
        assert ids[: found.tokens] == list(found.ids)


def test_a_frame_that_changes_its_beginning_with_the_user_has_nothing_static() -> None:
    vocabulary = default_vocabulary()
    found = static_tokens(lambda user: user + " tail", vocabulary.encode, vocabulary.control_ids)
    assert (found.tokens, found.framed_prefix) == (0, "")
