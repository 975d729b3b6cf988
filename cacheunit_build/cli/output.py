"""Printing: data on standard output, remarks and faults on standard error; tables and colours on a terminal only."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

from cacheunit_build.domain.errors import fail

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.text import Text

    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.reports.formatting import Block, Table

_STYLES = {
    "green": ("added", "built", "ok:", "+"),
    "red": ("removed", "missing", "edited", "refused", "error", "differs", "-"),
    "yellow": ("changed", "warning", "tokenizer", "profile", "unknown", "orphan"),
    "cyan": ("renamed", "info", "@@"),
}
"""The words that have a colour at the beginning of a line or as a cell of a table."""

_DIFF_MARKS = ("+", "-", "@@")
"""The marks that colour a whole line of a text diff. In a cell they have no colour: there, a dash means no value."""


def print_blocks(blocks: Iterable[Block]) -> None:
    """Prints a report: on a terminal its tables fit the width, elsewhere it is plain text."""
    if on_terminal():
        _draw(blocks)
        return
    from cacheunit_build.reports.formatting import plain_text

    print_text(plain_text(blocks))


def print_text(text: str) -> None:
    """Prints text with a final line end; nothing for an empty text."""
    if text:
        print_bytes(f"{text}\n".encode("utf-8", "backslashreplace"))  # an argument need not be UTF-8


def print_bytes(data: bytes) -> None:
    """Prints exactly these bytes; a reader that closed the pipe is no error.

    Raises:
        CacheunitError: they cannot be written.
    """
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise fail(f"cannot write to standard output: {error.strerror}") from None


def print_json(value: object) -> None:
    """Prints JSON, indented."""
    print_text(json.dumps(value, ensure_ascii=False, indent=2))


def print_faults(faults: Iterable[Fault]) -> None:
    """Prints every fault on standard error."""
    text = "\n\n".join(f"error: {fault}" for fault in faults)
    if not sys.stderr.isatty() or os.environ.get("NO_COLOR"):
        print_remark(text)
        return
    from rich.console import Console
    from rich.text import Text

    drawn = Text(text)
    drawn.highlight_regex(r"^error:", "bold red")
    drawn.highlight_regex(r"^hint:", "bold")
    Console(stderr=True, highlight=False).print(drawn, soft_wrap=True)


def print_remark(text: str) -> None:
    """Prints a remark on standard error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def on_terminal() -> bool:
    """Returns whether standard output is a terminal that shows colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def append_job_summary(markdown: str) -> None:
    """Appends to the summary of a GitHub job, if the command runs in one.

    Raises:
        CacheunitError: the file of the summary cannot be written.
    """
    file = os.environ.get("GITHUB_STEP_SUMMARY")
    if file and markdown:
        try:
            with open(file, "a", encoding="utf-8", errors="backslashreplace", newline="\n") as handle:  # noqa: PTH123 - one append
                handle.write(f"{markdown}\n\n")
        except OSError as error:
            raise fail(f"cannot write the job summary: {error.strerror}", path=file) from None


def _draw(blocks: Iterable[Block]) -> None:
    """Draws blocks on the terminal. Content is never read as markup."""
    from rich.console import Console

    console = Console(highlight=False)
    first = True
    for block in blocks:
        if not str(block):  # an empty text, or a table without rows
            continue
        if not first:
            console.print()
        first = False
        if isinstance(block, str):
            for line in block.split("\n"):
                console.print(_styled(line), soft_wrap=True)
        else:
            console.print(_drawn_table(block))


def _drawn_table(table: Table) -> object:
    """Returns a table as rich draws it: without lines, its columns as wide as the terminal allows."""
    from rich.table import Table as DrawnTable

    drawn = DrawnTable(box=None, padding=(0, 2, 0, 0), show_header=table.header is not None, header_style="bold")
    for index, name in enumerate(table.all_rows[0]):
        name = name if table.header is not None else ""  # noqa: PLW2901 - a table without header has no names
        drawn.add_column(name, justify="right" if index in table.right else "left", overflow="fold")
    for row in table.rows:
        drawn.add_row(*(_styled(cell, whole=True) for cell in row))
    return drawn


def _styled(text: str, *, whole: bool = False) -> Text:
    """Returns a text with its first word coloured; with `whole`, only if the text is that word alone."""
    from rich.text import Text

    styled = Text(text)
    for style, words in _STYLES.items():
        for word in words:
            is_diff_line = word in _DIFF_MARKS
            if text == word if whole else text.startswith(word):
                styled.stylize("" if whole and is_diff_line else style, 0, len(text) if is_diff_line else len(word))
                return styled
    return styled
