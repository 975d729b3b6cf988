"""Where text came from: each run of characters of a rendered text, with the places in the sources that gave it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A line of a file: the path relative to the project root, the line from 1."""

    path: str
    line: int


SourceChain = tuple[SourceLine, ...]
"""The place that spells a character, then those that bring it in: the expression that prints it, the include, …"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedSpan:
    """`length` characters from one place. Where `advancing`, each line end in them goes one line on in the source."""

    length: int
    chain: SourceChain
    advancing: bool = False


class SourceMap:
    """The origin of every character of one text.

    Args:
        text: the rendered text.
        pieces: runs of characters in order; together as long as the text.
    """

    def __init__(self, text: str, pieces: Iterable[MappedSpan]) -> None:
        self.text = text
        self.pieces = tuple(piece for piece in pieces if piece.length)
        self._starts = list(accumulate((piece.length for piece in self.pieces), initial=0))

    def at(self, offset: int) -> SourceChain:
        """The chain of the character at `offset`; that of the last one behind the end; none for an empty text."""
        if not self.pieces:
            return ()
        index = min(max(bisect_right(self._starts, offset) - 1, 0), len(self.pieces) - 1)
        piece, start = self.pieces[index], self._starts[index]
        if not piece.advancing or not piece.chain:
            return piece.chain
        end = min(offset, start + piece.length - 1)
        first, *others = piece.chain
        return (SourceLine(path=first.path, line=first.line + self.text.count("\n", start, end)), *others)

    def spans(self, start: int = 0, end: int | None = None) -> Iterable[tuple[int, int, MappedSpan]]:
        """Start, end and piece of each run, in order; of those only that have characters from `start` to `end`."""
        last = len(self.text) if end is None else end
        for index in range(max(bisect_right(self._starts, start) - 1, 0), len(self.pieces)):
            if self._starts[index] >= last:
                break
            yield self._starts[index], self._starts[index + 1], self.pieces[index]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMaps:
    """The source maps of a rendered variant: of its system text, and of each worked turn."""

    system: SourceMap
    turns: tuple[SourceMap, ...]
