"""Which tokens of a framed prefix are static: those that stay the same whatever the user says next."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from cacheunit_build.domain.models import StaticTokens
from cacheunit_build.domain.sequences import common_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

_LETTERS = ("a", "e", "n", "s", "t", "y", "Z", "ed", "er", "ing", "ly", "tion", "able")
_MARKS = (".", ",", ":", ")", "]", "-", "_", "/", "'s", '"', "=", "*", "`")
_SPACES = (" ", "  ", "\u00a0", "\u3000", "\t", "\n", "\n\n", "\r\n", " the", " .")
_OTHERS = ("7", "42", "2024", "\u4e2d", "\u6211", "\u3042", "\u00e9", "\u0301", "\U0001f642", "\u200d")
_LONG = "A longer message, of several sentences. It asks for two things at once, and gives 3 numbers.\n" * 8
TRIED_CONTINUATIONS = ("A short one.", *_LETTERS, *_MARKS, *_SPACES, *_OTHERS, _LONG)
"""What is tried as the user's words: letters, endings, marks, white space, digits, other scripts, whole texts."""


def static_tokens(
    framed: Callable[[str], str], encode: Callable[[str], Sequence[int]], controls: Collection[int]
) -> StaticTokens:
    """The token ids that all requests share.

    The framed_prefix is the text that all framed continuations begin with. A control token never merges with what follows, so a
    framed_prefix that ends in one is static to its end. Otherwise every framed text is encoded, and what all of them have in
    common is static; but never what the last run of letters or of marks gave, which words that were not
    tried could go on.

    Args:
        framed: the user's words -> the text that the model reads.
        encode: text -> token ids, control tokens read as such.
        controls: ids of the control tokens.
    """
    texts = [framed(continuation) for continuation in TRIED_CONTINUATIONS]
    framed_prefix = texts[0]
    for text in texts[1:]:
        framed_prefix = framed_prefix[: common_prefix(framed_prefix, text)]
    ids = encode(framed_prefix)
    if not ids or ids[-1] in controls:
        return StaticTokens(framed_prefix=framed_prefix, ids=ids, unstable=0)
    safe = common_prefix(ids, encode(framed_prefix[: _last_run(framed_prefix)]))
    for text in texts:
        safe = min(safe, common_prefix(ids, encode(text)))
    return StaticTokens(framed_prefix=framed_prefix, ids=ids[:safe], unstable=len(ids) - safe)


def _last_run(framed_prefix: str) -> int:
    """Where the last run of letters, or of punctuation and symbols, begins, a space in front included.

    Digits in threes are no run that could go on: the next digit begins a group of its own. Neither is white space of
    ASCII: all of its kinds are tried.
    """
    kind = _kind(framed_prefix[-1])
    if kind == "Z" and framed_prefix[-1].isascii():
        return len(framed_prefix)
    start = len(framed_prefix)
    while start and _kind(framed_prefix[start - 1]) == kind:
        start -= 1
    if kind == "N":
        return len(framed_prefix) - (len(framed_prefix) - start) % 3
    before = framed_prefix[start - 1 : start]
    return start - 1 if before and before not in "\r\n" and _kind(before) in "ZP" else start


def _kind(character: str) -> str:
    """Letter or mark (L), digit (N), white space (Z), or anything else (P)."""
    if character.isspace():
        return "Z"
    category = unicodedata.category(character)[0]
    return {"L": "L", "M": "L", "N": "N"}.get(category, "P")
