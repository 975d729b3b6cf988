r"""Finds the static tokens of a framed prefix: those that stay the same whatever the user says next.

The last token of a text may merge with the words that follow it. With the vocabulary of DeepSeek:

    framed prefix       tokens                      static  unstable, because
    Be kind.<|User|>    Be, kind, ., <|User|>       4       nothing: a control token never merges
    Be kind.\n          Be, kind, .\n               2       ".\n": more line ends would be one token with it
    Be ki               Be, ki                      1       "ki": untried letters could go on
    Section 12          Section, space, 12          2       "12": a third digit would be one token with it
    Section 123         Section, space, 123         3       nothing: a group has three digits at most
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from cacheunit_build.domain.prompt import StaticTokens
from cacheunit_build.domain.sequences import common_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

_LETTERS = ("a", "e", "n", "s", "t", "y", "Z", "ed", "er", "ing", "ly", "tion", "able")
_MARKS = (".", ",", ":", ")", "]", "-", "_", "/", "'s", '"', "=", "*", "`")
_SPACES = (" ", "  ", "\u00a0", "\u3000", "\t", "\n", "\n\n", "\r\n", " the", " .")
_OTHERS = ("7", "42", "2024", "\u4e2d", "\u6211", "\u3042", "\u00e9", "\u0301", "\U0001f642", "\u200d")
_LONG = "A longer message, of several sentences. It asks for two things at once, and gives 3 numbers.\n" * 8
TRIED_CONTINUATIONS = ("A short one.", *_LETTERS, *_MARKS, *_SPACES, *_OTHERS, _LONG)
"""The user's words that are tried: letters, endings, marks, white space, digits, other scripts, whole texts."""


def static_tokens(
    framed: Callable[[str], str], encode: Callable[[str], Sequence[int]], controls: Collection[int]
) -> StaticTokens:
    """Returns the tokens that all requests share, with the framed prefix that they are of.

    The framed prefix is what the framed texts of all continuations begin with. If it ends in a control token, all of
    its tokens are static. Otherwise each framed text is encoded, and the ids that all of them begin with are static, up
    to the last run of letters, marks or digits, which an untried continuation could go on.

    Args:
        framed: returns the text that the model reads, from the user's words.
        encode: returns the token ids of a text, with control tokens read as such.
        controls: the ids of the control tokens.
    """
    texts = [framed(continuation) for continuation in TRIED_CONTINUATIONS]
    framed_prefix = texts[0]
    for text in texts[1:]:
        framed_prefix = framed_prefix[: common_prefix(framed_prefix, text)]
    ids = encode(framed_prefix)
    if not ids or ids[-1] in controls:
        return StaticTokens(framed_prefix=framed_prefix, ids=ids, unstable=0)
    stable = common_prefix(ids, encode(framed_prefix[: _start_of_last_run(framed_prefix)]))
    for text in texts:
        stable = min(stable, common_prefix(ids, encode(text)))
    return StaticTokens(framed_prefix=framed_prefix, ids=ids[:stable], unstable=len(ids) - stable)


def _start_of_last_run(text: str) -> int:
    r"""Returns where the last run of letters, or of punctuation and symbols, begins, with a space in front of it.

    Full groups of three digits are no run, since the next digit begins another group; neither is ASCII white space, of
    which all kinds are tried.

        "Be kind"   -> 2     "Be kind."  -> 7     "No. 1234" -> 7     "kind\n" -> 5
    """
    kind = _kind(text[-1])
    if kind == "space" and text[-1].isascii():
        return len(text)
    start = len(text)
    while start and _kind(text[start - 1]) == kind:
        start -= 1
    if kind == "digit":
        return len(text) - (len(text) - start) % 3
    before = text[start - 1 : start]
    return start - 1 if before and before not in "\r\n" and _kind(before) in ("space", "mark") else start


def _kind(character: str) -> str:
    """Returns whether a character is a letter (combining marks included), a digit, a space or any other mark."""
    if character.isspace():
        return "space"
    category = unicodedata.category(character)[0]
    return {"L": "letter", "M": "letter", "N": "digit"}.get(category, "mark")
