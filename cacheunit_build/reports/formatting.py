"""What several reports share: tables, counts, names, and JSON values."""

from __future__ import annotations

import math
import unicodedata
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.escaping import one_line, output_line
from cacheunit_build.domain.file_names import readable_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from cacheunit_build.domain.artifact import Artifact, ArtifactRecord
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.lock import Counted
    from cacheunit_build.domain.prices import PriceOrigin
    from cacheunit_build.domain.target import Price

_MOST_NAMES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of cells, each shown on one line.

    Attributes:
        rows: the rows, all of the same length.
        header: the cells above them; None for a table without a header.
        right: the indexes of columns that are aligned right.
    """

    rows: Sequence[Sequence[str]]
    header: Sequence[str] | None = None
    right: Collection[int] = ()

    @property
    def all_rows(self) -> list[Sequence[str]]:
        """The header, if there is one, and the rows."""
        return [*([] if self.header is None else [self.header]), *self.rows]


Block = list[str] | Table
"""A paragraph of a report: lines, or a table. What a line or a cell holds stays on its line."""


def plain_lines(blocks: Iterable[Block]) -> list[str]:
    """Returns the lines of a report as plain text: a blank line between blocks, and tables whatever their width.

    An empty block is left out, and a block of empty lines.
    """
    shown = [block if isinstance(block, list) else columns(block.all_rows, block.right) for block in blocks]
    separated = (("", *lines) for lines in shown if any(lines))
    return [line for lines in separated for line in lines][1:]


def plain_text(blocks: Iterable[Block]) -> str:
    """Returns a report as the text that is printed where there is no terminal, without a final line end."""
    return "\n".join(map(output_line, plain_lines(blocks)))


def columns(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Returns rows as lines, each column as wide as its widest cell, without trailing spaces.

    Args:
        rows: rows of the same length.
        right: the indexes of columns that are aligned right.
    """
    if not rows:
        return []
    shown = [[output_line(row[0]), *map(one_line, row[1:])] for row in rows]
    widths = [max(_width(row[column]) for row in shown) for column in range(len(shown[0]))]
    lines = []
    for row in shown:
        cells = []
        for column, cell in enumerate(row):
            space = " " * (widths[column] - _width(cell))
            cells.append(space + cell if column in right else cell + space)
        lines.append("  ".join(cells).rstrip())
    return lines


def _width(text: str) -> int:
    """Returns the columns of a text on a terminal: East Asian wide characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def markdown_table(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> str:
    """Returns rows as a Markdown table, the first of them as its header.

    Args:
        rows: rows of the same length; cells are Markdown, in which a bar stands in code spans only.
        right: the indexes of columns that are aligned right.
    """
    rule = ["---:" if column in right else "---" for column in range(len(rows[0]))]
    head, *body = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *body))


def plural(count: int, noun: str, several: str | None = None) -> str:
    """Returns a count with its noun: `1 artifact`, `2 artifacts`."""
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"


def tokens_cell(tokens: int, margin: float, counted: Counted = "estimate") -> str:
    """Returns a number of tokens; an estimate as `~1,093 ±35 %`, a recorded count as `1,236 ±4`."""
    if margin and counted == "recorded":
        return f"{tokens:,} ±{math.ceil(tokens * margin):,}"
    return f"~{tokens:,} ±{margin * 100:.0f} %" if margin else f"{tokens:,}"


def unit_cells(record: ArtifactRecord) -> tuple[str, str]:
    """Returns an artifact's full units, and its tokens after the last of them; dashes for an estimate."""
    if record.margin or not record.unit:
        return "-", "-"
    full, past = divmod(record.entry.tokens, record.unit)
    return f"{full:,}", f"{past:,}"


def units_text(tokens: int, unit: int) -> str:
    """Returns full units and the rest in words: `13 units`, `1 unit + 107 tokens not cached`."""
    full, past = divmod(tokens, unit)
    rest = f" + {plural(past, 'token')} not cached" if past else ""
    return f"{plural(full, 'unit')}{rest}"


def unit_text(artifact: Artifact) -> str:
    """Returns the units of an artifact in words; `unit unknown` where there is none."""
    return units_text(artifact.entry.tokens, artifact.unit) if artifact.unit else "unit unknown"


def names_together(prefixes: Iterable[str]) -> str:
    """Returns the names of prefixes in one line: at most eight, with several variants of one prefix counted.

    a, b@x, b@y, a, c@z -> a, b (2 variants), c@z
    """
    variants: dict[str, dict[str, None]] = {}
    for prefix in prefixes:
        variants.setdefault(prefix.partition("@")[0], {})[prefix] = None
    names = [
        readable_name(next(iter(own))) if len(own) == 1 else f"{name} ({len(own)} variants)"
        for name, own in variants.items()
    ]
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def faults_json(faults: Iterable[Fault]) -> list[dict[str, Any]]:
    """Returns faults as JSON values: message, path, line and hint."""
    return [asdict(fault) for fault in faults]


def with_former_keys(report: dict[str, Any], former: Mapping[str, str]) -> dict[str, Any]:
    """Returns a report that has its renamed keys under their former names too, for programs that still read those.

    Args:
        report: the report, with its present keys.
        former: former name -> present name.
    """
    return report | {old: report[new] for old, new in former.items()}


def price_text(price: Price, origin: PriceOrigin | None = None) -> str:
    """Returns `1.25 USD for a million uncached input tokens`, and the model and source of a price from a list."""
    found = "" if origin is None else f", {origin.model} ({origin.source})"
    return f"{price.input:,} {price.currency} for a million uncached input tokens{found}"
