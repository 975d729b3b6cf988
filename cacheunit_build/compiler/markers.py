"""Finds where the cache markers of a request stand among the static tokens of its prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.domain.sequences import common_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cacheunit_build.domain.prompt import StaticTokens
    from cacheunit_build.request_formats.base import MarkerPlace, PrefixParts


def tokens_in_front(
    place: MarkerPlace, parts: PrefixParts, static: StaticTokens, encode: Callable[[str], Sequence[int]], *, exact: bool
) -> int | None:
    """Returns how many static tokens stand in front of the marker on one part of a prefix.

    The parts are looked for from the end of the framed prefix, where the last one stands: a short text such as "hi" is
    in the text of many tools. What the frame puts behind the marked part, such as a role marker, is not in front of it.

    Args:
        place: the part that carries the marker.
        parts: the parts of the prefix.
        static: its static tokens.
        encode: returns the token ids of a text.
        exact: whether the tokens are those of the model's own frame; an estimate has no frame.

    Returns:
        The number of tokens; None where the marked part ends behind the static tokens, or the frame changes its text.
    """
    if place == parts.last and (not exact or place.part == "tools"):
        return static.tokens
    turns = [turn.text for turn in parts.turns]
    marked, later = (
        (turns[place.index], turns[place.index + 1 :]) if place.part == "examples" else (parts.system, turns)
    )
    end = len(static.framed_prefix)
    for text in (*reversed(later), marked):
        start = static.framed_prefix.rfind(text.strip(), 0, end)
        if start < 0:
            return static.tokens if place == parts.last and static.change is None else None
        end, stop = start, start + len(text.strip())
    return common_prefix(static.ids, encode(static.framed_prefix[:stop]))
