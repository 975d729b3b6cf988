"""Lays out a report as lines of a given width: tables whose text columns wrap, and paragraphs.

A table of three columns, of which the last is aligned right, in 40 columns:

    prefix                target       tokens
    review/summarize,     deepseek-v4   1,280
      support/agent ×6
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Protocol

from cacheunit_build.domain.escaping import one_line, output_line

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

DEFAULT_WIDTH = 100
"""The columns of a report that is not printed to a terminal."""

_GAP = "  "
_INDENT = "  "
_NARROWEST = 12
"""The fewest columns to which the text column of a table shrinks."""

_MARK = r"\[-.{1,300}?-\]|\{\+.{1,300}?\+\}"
"""Words of a word diff that differ, with their marks; bounded, so that marks without an end take no time."""
_MARKS = re.compile(f"({_MARK})")
_WORDS = re.compile(rf"(?:{_MARK}|[^ ])+ *| +")
_BREAKS = re.compile(r"(?<=[/,@&=.:_-])(?=\w)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of cells.

    Attributes:
        rows: the rows, all of the same length.
        header: the cells above them; None for a table without a header.
        right: the indexes of columns that are aligned right; these are numbers, which never wrap.
        indent: the columns in front of each line.
        notes: index of a row -> a paragraph below it.
    """

    rows: Sequence[Sequence[str]]
    header: Sequence[str] | None = None
    right: Collection[int] = ()
    indent: int = 0
    notes: Mapping[int, str] = field(default_factory=dict)

    @property
    def all_rows(self) -> list[Sequence[str]]:
        """The header, if there is one, and the rows."""
        return [*([] if self.header is None else [self.header]), *self.rows]


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Lines that do not wrap, such as those of a text diff.

    Attributes:
        lines: the lines.
    """

    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks without blank lines between them.

    Attributes:
        blocks: the blocks.
    """

    blocks: Sequence[Block]


Block = list[str] | Table | Verbatim | Section
"""A part of a report: paragraphs that wrap, one an item; a table; lines that do not wrap; or several of these."""


class Painter(Protocol):
    """Adds colours to what is shown, which change no width."""

    def line(self, text: str) -> str:
        """Returns a line of a paragraph."""

    def verbatim(self, text: str) -> str:
        """Returns a line that does not wrap, such as that of a text diff."""

    def cell(self, text: str) -> str:
        """Returns a cell of a table, without the spaces around it."""

    def header(self, text: str) -> str:
        """Returns a cell of a table's header."""


class _Plain:
    """No colours."""

    def line(self, text: str) -> str:
        return text

    def verbatim(self, text: str) -> str:
        return text

    def cell(self, text: str) -> str:
        return text

    def header(self, text: str) -> str:
        return text


PLAIN: Painter = _Plain()


def layout(blocks: Iterable[Block], width: int = DEFAULT_WIDTH, painter: Painter = PLAIN) -> list[str]:
    """Returns the lines of a report, with a blank line between blocks. Empty blocks are left out.

    No line is wider than `width`, but for those of `Verbatim` and for tables whose numbers alone are wider. Text from
    outside is escaped: no part of it can do anything to a terminal, and a cell or a paragraph stays in its place.

    Args:
        blocks: the parts of the report.
        width: the columns that a line may take.
        painter: adds colours.
    """
    lines: list[str] = []
    for block in blocks:
        shown = list(_block_lines(block, width, painter))
        if any(shown):
            lines += ["", *shown] if lines else shown
    return lines


def plain_text(blocks: Iterable[Block], width: int = DEFAULT_WIDTH) -> str:
    """Returns a report as text without colours and without a final line end."""
    return "\n".join(layout(blocks, width))


def columns(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Returns rows as lines, each column as wide as its widest cell, whatever the width, without trailing spaces."""
    table = Table(rows=rows, right=right)
    return list(_table_lines(table, _total(_natural_widths(_escaped(table)), 0), PLAIN)) if rows else []


def text_width(text: str) -> int:
    """Returns the columns of a text on a terminal: East Asian wide characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def wrap(text: str, width: int, indent: str = _INDENT) -> list[str]:
    """Returns a text as lines of at most `width` columns.

    It is broken at spaces; a word that is too wide for a line behind a slash, a comma or the like, or else anywhere.
    `[-old words-]` and `{+new words+}` of a word diff stay whole where they fit a line.

    Args:
        text: the text, without line ends.
        width: the columns that a line may take.
        indent: what lines after the first begin with, behind the indentation of the text.
    """
    if text_width(text) <= width:
        return [text]
    body = text.lstrip(" ")
    start = text[: len(text) - len(body)]
    follow = start + indent
    lines, line = [], start
    for piece in _pieces(body, max(1, width - text_width(follow))):
        if text_width(line) + text_width(piece.rstrip(" ")) > width and line.strip(" "):
            lines.append(line.rstrip(" "))
            line = follow
        line += piece
    return [*lines, line.rstrip(" ")]


def _pieces(text: str, width: int) -> Iterator[str]:
    """Yields a text in pieces between which a line may end: words with the spaces behind them, parts of long words."""
    for word in _WORDS.findall(text):
        for piece in [word] if text_width(word.rstrip(" ")) <= width else filter(None, _MARKS.split(word)):
            if text_width(piece.rstrip(" ")) <= width and (piece == word or _MARKS.fullmatch(piece)):
                yield piece
            else:
                yield from _parts(piece, width)


def _parts(text: str, width: int) -> Iterator[str]:
    """Yields a text that has marks wider than a line, or none, in words and parts of words that fit a line."""
    for word in re.findall(r"[^ ]+ *| +", text):
        if text_width(word.rstrip(" ")) <= width:
            yield word
            continue
        for part in _BREAKS.split(word):
            yield from _cut(part, width)


def _cut(part: str, width: int) -> Iterator[str]:
    """Yields a part of a word, cut where it is wider than a line."""
    piece, used = "", 0
    for character in part:
        columns_of = text_width(character)
        if used + columns_of > width and piece:
            yield piece
            piece, used = "", 0
        piece += character
        used += columns_of
    yield piece


def _block_lines(block: Block, width: int, painter: Painter) -> Iterator[str]:
    if isinstance(block, Table):
        yield from _table_lines(block, width, painter) if block.rows else ()
    elif isinstance(block, Section):
        for part in block.blocks:
            yield from _block_lines(part, width, painter)
    elif isinstance(block, Verbatim):
        yield from (painter.verbatim(output_line(line)) for line in block.lines)
    else:
        yield from (painter.line(line) for text in block for line in _safe(wrap(output_line(text), width)))


def _safe(lines: Sequence[str]) -> list[str]:
    """Returns the lines of a wrapped text, of which none begins with a command of a log."""
    return [lines[0], *map(output_line, lines[1:])]


def _table_lines(table: Table, width: int, painter: Painter) -> Iterator[str]:
    """Yields the lines of a table that has rows."""
    rows = _escaped(table)
    widths = _fitted_widths(rows, table, width)
    if _total(widths, table.indent) > width:
        yield from _stacked_lines(rows, table, width, painter)
        return
    start = " " * table.indent
    headers = 0 if table.header is None else 1
    for index, row in enumerate(rows):
        is_header = index < headers
        yield from _row_lines(
            row, widths, table, painter.header if is_header else painter.cell, "" if is_header else _INDENT
        )
        if note := table.notes.get(index - headers):
            yield from map(painter.line, _safe(wrap(f"{start}{_INDENT}{output_line(note)}", width, "")))


def _stacked_lines(rows: Sequence[Sequence[str]], table: Table, width: int, painter: Painter) -> Iterator[str]:
    """Yields a paragraph for each row: its first cell, then the others with the names of their columns."""
    headers = 0 if table.header is None else 1
    names = rows[0] if headers else [""] * len(rows[0])
    for index, row in enumerate(rows[headers:]):
        cells = [f"{name} {cell}".strip() for name, cell in zip(names[1:], row[1:], strict=True) if cell]
        note = table.notes.get(index)
        for text in (row[0], f"{_INDENT}{', '.join(cells)}", *([f"{_INDENT}{output_line(note)}"] if note else ())):
            yield from map(painter.line, _safe(wrap(f"{' ' * table.indent}{text}", width)))


def _row_lines(
    row: Sequence[str], widths: Sequence[int], table: Table, paint: Callable[[str], str], indent: str
) -> Iterator[str]:
    """Yields the lines of one row, as many as its longest wrapped cell has."""
    wrapped = [_safe(wrap(cell, widths[column], indent)) for column, cell in enumerate(row)]
    for cells in zip_longest(*wrapped, fillvalue=""):
        shown = []
        for column, cell in enumerate(cells):
            space = " " * (widths[column] - text_width(cell))
            painted = paint(cell) if cell else ""
            shown.append(space + painted if column in table.right else painted + space)
        yield f"{' ' * table.indent}{_GAP.join(shown)}".rstrip()


def _escaped(table: Table) -> list[list[str]]:
    """Returns the rows of a table, the header first, as they are shown."""
    return [[output_line(row[0]), *map(one_line, row[1:])] for row in table.all_rows]


def _natural_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(text_width, cells)) for cells in zip(*rows, strict=True)]


def _total(widths: Sequence[int], indent: int) -> int:
    return indent + sum(widths) + len(_GAP) * (len(widths) - 1)


def _fitted_widths(rows: Sequence[Sequence[str]], table: Table, width: int) -> list[int]:
    """Returns the width of each column. Where they do not fit, headers of numbers wrap, then the widest texts."""
    widths = _natural_widths(rows)
    excess = _total(widths, table.indent) - width
    if excess <= 0:
        return widths
    for column in sorted(table.right, key=lambda column: -widths[column]) if table.header is not None else ():
        needed = max(text_width(row[column]) for row in rows[1:])
        word = max(map(text_width, rows[0][column].split(" ")))
        saved = min(excess, widths[column] - max(needed, word))
        widths[column] -= saved
        excess -= saved
    texts = [column for column in range(len(widths)) if column not in table.right]
    while excess > 0 and texts:
        widest = max(texts, key=lambda column: widths[column])
        if widths[widest] <= _NARROWEST:
            break
        widths[widest] -= 1
        excess -= 1
    return widths
