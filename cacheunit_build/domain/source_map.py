"""Source maps: for each character of a rendered text, the source lines that it comes from.

Example: line 1 of `prefixes/a.yaml` names `top.j2`, line 2 of `top.j2` is `{% include 'rules.j2' %}`, and line 1 of
`rules.j2` is `Be kind.`. Each character of "Be kind." then has this chain:

    rules.j2:1 < top.j2:2 < prefixes/a.yaml:1
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A line of a source file.

    Attributes:
        path: the file, relative to the project root.
        line: the line number, from 1.
    """

    path: str
    line: int


SourceChain = tuple[SourceLine, ...]
"""The line that contains a character, then the lines that bring it into the text: the expression that prints it, the
include around that, and last the manifest. Empty if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedSpan:
    """A run of characters with one chain of source lines.

    Attributes:
        length: the number of characters.
        chain: the source lines of its first character.
        verbatim: True if the characters are copied unchanged from the source, so that each newline among them moves the
            first line of the chain on by one. False if all of them come from one source line.
    """

    length: int
    chain: SourceChain
    verbatim: bool = False


class SourceMap:
    r"""The source lines of every character of one text.

    Example, for the text "a\nb!" of a template and a "!" printed by an expression on its line 2:

        spans    length 3, t.j2:1, verbatim   length 1, t.j2:2
        at(0)    t.j2:1
        at(2)    t.j2:2                        (one newline after the start of its span)
        at(3)    t.j2:2

    Args:
        text: the rendered text.
        spans: its spans in order; together as long as the text. Empty ones are dropped.
    """

    def __init__(self, text: str, spans: Iterable[MappedSpan]) -> None:
        self.text = text
        self._spans = tuple(span for span in spans if span.length)
        self._starts = list(accumulate((span.length for span in self._spans), initial=0))

    @cached_property
    def _line_ends(self) -> list[int]:
        """The offset of each newline, so that the line of an offset is found without counting through the text."""
        return [match.start() for match in re.finditer("\n", self.text)]

    def at(self, offset: int) -> SourceChain:
        """Returns the chain of the character at `offset`.

        An offset past the end gets the chain of the last character; an empty text has none.
        """
        if not self._spans:
            return ()
        index = min(max(bisect_right(self._starts, offset) - 1, 0), len(self._spans) - 1)
        span, start = self._spans[index], self._starts[index]
        if not span.verbatim or not span.chain:
            return span.chain
        end = min(offset, start + span.length - 1)
        first, *others = span.chain
        line = first.line + bisect_left(self._line_ends, end) - bisect_left(self._line_ends, start)
        return (SourceLine(path=first.path, line=line), *others)

    def spans(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int, MappedSpan]]:
        """Yields the spans that overlap the characters from `start` to `end`, in order.

        Each comes with its own start and end in the text, which may lie outside of the range asked for.
        """
        last = len(self.text) if end is None else end
        for index in range(max(bisect_right(self._starts, start) - 1, 0), len(self._spans)):
            if self._starts[index] >= last:
                break
            yield self._starts[index], self._starts[index + 1], self._spans[index]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMaps:
    """The source maps of one rendered variant.

    Attributes:
        system: the map of its system text.
        turns: the maps of its worked examples, one a turn.
    """

    system: SourceMap
    turns: tuple[SourceMap, ...]
