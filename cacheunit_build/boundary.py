"""Which tokens of a framed text are static: those that stay the same whatever the user says next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.model import Static

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

CONTINUATIONS = (
    "a",
    "7",
    " ",
    "\n",
    "\n\n",
    ".",
    ")",
    "\u4e2d",
    "\U0001f642",
    "A longer text, of some words, follows.\n",
)
"""What is tried as the user's first words: letter, digit, space, newlines, punctuation, CJK, emoji, a sentence."""


def static_tokens(framed: str, encode: Callable[[str], Sequence[int]], controls: Collection[int]) -> Static:
    """The static token ids of `framed`.

    A control token never merges with what follows, so a text that ends in one is static to its end. Otherwise the
    text is encoded with each of `CONTINUATIONS`, and what all agree on is static.

    Args:
        framed: the text up to where the user's words begin.
        encode: text -> token ids, control tokens read as such.
        controls: ids of the control tokens.
    """
    ids = encode(framed)
    if not ids or ids[-1] in controls:
        return Static(ids=ids, soft=0)
    safe = len(ids)
    for continuation in CONTINUATIONS:
        safe = _common(ids, encode(framed + continuation), safe)
    return Static(ids=ids[:safe], soft=len(ids) - safe)


def _common(ids: Sequence[int], others: Sequence[int], most: int) -> int:
    """How many tokens both start with, at most `most`; they differ near the end, if at all."""
    if ids[:most] == others[:most]:
        return most
    return next((index for index, (left, right) in enumerate(zip(ids, others, strict=False)) if left != right), 0)
