r"""Divides the text of an artifact into rows of tokens, and the rows into chunks that a page loads as it scrolls.

The rows of the text "Be kind.\n\nBe brief." whose tokens are `Be`, ` kind`, `.\n\n`, `Be`, ` brief`, `.`:

    token  begins  texts             a row is a line; a token over two lines is in both, and begins in the first
    0      yes     Be · kind · .
    2      no      ↵
    3      yes     Be · brief · .
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from cacheunit_build.reports.text_diff import show_characters, show_white_space

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cacheunit_build.diff.framed_text import FramedText, TextLine, TextSources
    from cacheunit_build.domain.source_map import SourceChain

Name = TypeVar("Name", str, int)
CHUNK_TOKENS = 1_000
"""About as many tokens has a chunk: several cache units, and more than a screen."""
CHUNK_CHARACTERS = 4_000
"""About as many characters has a chunk of a text whose tokens are not known."""
_LINE_END = "↵"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    """A line of a text, or a part of a very long one.

    Attributes:
        token: the index of its first token, from 0; None where tokens are not known.
        begins: whether that token begins in the row.
        is_continued: whether the row continues the line of the row before.
        texts: the characters of each of its tokens as they are shown; of a token within a character none.
        parts: for each run of tokens, their number and the part of the request that they are of.
        sources: the source line, then those that bring it into the text; empty where unknown.
        start: the index of its first character in the text.
        length: the number of characters.
    """

    token: int | None
    begins: bool
    is_continued: bool
    texts: tuple[str, ...]
    parts: tuple[tuple[int, str], ...]
    sources: SourceChain
    start: int
    length: int

    def json(self) -> dict[str, Any]:
        """Returns the row as JSON values, without its sources."""
        return {
            "token": self.token,
            "begins": self.begins,
            "continued": self.is_continued,
            "texts": self.texts,
            "parts": self.parts,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenText:
    """The text of an artifact.

    Attributes:
        chunks: its rows, in chunks.
        ids: the id of each token; empty where tokens are not known.
        offsets: the first character of each token, then the length of the text; empty where tokens are not known.
        sources: the source lines of its characters.
    """

    chunks: tuple[tuple[TokenRow, ...], ...]
    ids: tuple[int, ...]
    offsets: tuple[int, ...]
    sources: TextSources

    def index(self) -> list[dict[str, Any]]:
        """Returns the first token, the number of rows and of characters of each chunk as JSON values."""
        return [
            {"token": rows[0].token, "rows": len(rows), "characters": sum(row.length for row in rows)}
            for rows in self.chunks
        ]

    def chunk(self, number: int) -> dict[str, Any]:
        """Returns the rows of a chunk as JSON values, with its source lines and the ids of its tokens."""
        rows = self.chunks[number]
        chains = [list(self._chains(row)) for row in rows]
        places: dict[SourceChain, int] = {}
        for row, own in zip(rows, chains, strict=True):
            for chain in (row.sources, *own):
                places.setdefault(chain, len(places))
        first, last = rows[0].token, rows[-1]
        return {
            "rows": [
                {**row.json(), "source": places[row.sources], "sources": list(_run_lengths([places[c] for c in own]))}
                for row, own in zip(rows, chains, strict=True)
            ],
            "sources": [[{"path": item.path, "line": item.line} for item in chain] for chain in places],
            "ids": () if first is None or last.token is None else self.ids[first : last.token + len(last.texts)],
        }

    def _chains(self, row: TokenRow) -> Iterator[SourceChain]:
        """Yields the source lines of each token of a row."""
        if row.token is None:
            yield row.sources
            return
        for token in range(row.token, row.token + len(row.texts)):
            start = max(self.offsets[token], row.start)
            yield self.sources.of(start, max(self.offsets[token + 1], start + 1))


def token_text(text: FramedText, ids: Sequence[int]) -> TokenText:
    """Returns the rows of a text.

    Args:
        text: the text, divided.
        ids: the id of each of its tokens.
    """
    rows = _rows(text) if text.offsets else _rows_without_tokens(text)
    return TokenText(
        chunks=tuple(_chunks(rows)),
        ids=tuple(ids) if text.offsets else (),
        offsets=text.offsets,
        sources=text.sources,
    )


def _chunks(rows: Iterator[TokenRow]) -> Iterator[tuple[TokenRow, ...]]:
    """Yields the rows in chunks, each as long as the constants say or a row longer."""
    chunk: list[TokenRow] = []
    tokens = characters = 0
    for row in rows:
        chunk.append(row)
        tokens += 0 if row.token is None else len(row.texts)
        characters += row.length
        if tokens >= CHUNK_TOKENS or (row.token is None and characters >= CHUNK_CHARACTERS):
            yield tuple(chunk)
            chunk, tokens, characters = [], 0, 0
    if chunk:
        yield tuple(chunk)


def _rows(text: FramedText) -> Iterator[TokenRow]:
    """Yields the rows of a text whose tokens are known."""
    offsets, start, last = text.offsets, 0, len(text.lines) - 1
    for index, line in enumerate(text.lines):
        characters = "".join(run.text for run in line.runs)
        end = start + len(characters)
        first = bisect_left(offsets, start)
        begins = offsets[first] == start
        after = len(offsets) - 1 if index == last else bisect_left(offsets, end)
        edges = [start, *offsets[first + begins : after], end]
        pieces = [characters[a - start : b - start] for a, b in pairwise(edges)]
        token = first if begins else first - 1
        yield from _parts_of_line(line, pieces, token, start, begins=begins)
        start = end


def _parts_of_line(
    line: TextLine, pieces: Sequence[str], token: int, start: int, *, begins: bool
) -> Iterator[TokenRow]:
    """Yields the row of a line, or the rows of a very long one.

    Args:
        line: the line.
        pieces: the characters of each of its tokens.
        token: the index of the first one.
        start: the index of the first character of the line.
        begins: whether that begins in the line.
    """
    names = list(_part_of_each(line, pieces))
    for first in range(0, len(pieces), CHUNK_TOKENS):
        own = pieces[first : first + CHUNK_TOKENS]
        is_end = first + CHUNK_TOKENS >= len(pieces)
        length = sum(map(len, own))
        yield TokenRow(
            token=token + first,
            begins=begins or first > 0,
            is_continued=first > 0,
            texts=tuple(_shown(own, is_end=is_end)),
            parts=tuple(_run_lengths(names[first : first + CHUNK_TOKENS])),
            sources=line.sources,
            start=start,
            length=length,
        )
        start += length


def _part_of_each(line: TextLine, pieces: Sequence[str]) -> Iterator[str]:
    """Yields the part of the request that the first character of each piece of a line is of."""
    runs = iter(line.runs)
    run = next(runs)
    place, end = 0, len(run.text)
    for piece in pieces:
        while place >= end and (following := next(runs, None)) is not None:
            run = following
            end += len(run.text)
        yield run.part
        place += len(piece)


def _run_lengths(names: Sequence[Name]) -> Iterator[tuple[int, Name]]:
    """Yields how often each of some names follows itself, and the name."""
    count = 0
    for index, name in enumerate(names):
        count += 1
        if index + 1 == len(names) or names[index + 1] != name:
            yield count, name
            count = 0


def _shown(pieces: Sequence[str], *, is_end: bool) -> Iterator[str]:
    """Yields the pieces as they are shown: white space at the end visible, a line end only where nothing else is."""
    blank = len(pieces)
    while is_end and blank and not pieces[blank - 1].strip(" \n"):
        blank -= 1
    for index, piece in enumerate(pieces):
        body = piece.removesuffix("\n")
        is_last = is_end and index >= blank - 1
        yield (show_white_space(body) if is_last else show_characters(body)) or (_LINE_END if piece else "")


def _rows_without_tokens(text: FramedText) -> Iterator[TokenRow]:
    """Yields the rows of a text whose tokens are not known; each of their texts is of one part."""
    for line in text.lines:
        characters = "".join(run.text for run in line.runs)
        for first in range(0, len(characters), CHUNK_CHARACTERS):
            own = characters[first : first + CHUNK_CHARACTERS]
            part = next(_part_of_each(line, [characters]))
            yield TokenRow(
                token=None,
                begins=False,
                is_continued=first > 0,
                texts=tuple(_shown([own], is_end=True)),
                parts=((1, part),),
                sources=line.sources,
                start=first,
                length=len(own),
            )
