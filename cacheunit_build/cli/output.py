"""Printing: data on standard output, remarks and faults on standard error; tables and colours on a terminal only.

Everything that is printed leaves the program here. Text from outside can do nothing to a terminal or a CI log: what is
not a character to look at is shown as its escape, and a line stays one line.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from cacheunit_build.cli.streams import write_errors, write_output
from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.escaping import json_text, many_lines, one_line, output_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console
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

    print_escaped(plain_text(blocks))


def print_text(*lines: str) -> None:
    """Prints lines of text."""
    print_escaped("\n".join(map(output_line, lines)))


def print_escaped(text: str) -> None:
    """Prints a text of which no part is left to escape, such as Markdown; nothing for an empty text."""
    if text:
        _write(f"{text}\n".encode("utf-8", "backslashreplace"))  # an argument need not be UTF-8


def print_json(value: object) -> None:
    """Prints JSON, indented."""
    print_escaped(json_text(value))


def print_bytes(data: bytes) -> None:
    """Prints exactly these bytes to a program or a file; on a terminal, what it would not show is escaped."""
    _write(many_lines(data.decode("utf-8", "backslashreplace")).encode() if sys.stdout.isatty() else data)


def _write(data: bytes) -> None:
    """Writes to standard output; a reader that closed the pipe is no error.

    Raises:
        CacheunitError: it cannot be written.
    """
    reason = write_output(data)
    if reason is not None:
        raise fail(f"cannot write to standard output: {reason}")


def print_faults(faults: Iterable[Fault]) -> None:
    """Prints every fault on standard error."""
    text = "\n\n".join(f"error: {fault}" for fault in faults)
    if not sys.stderr.isatty() or os.environ.get("NO_COLOR"):
        write_errors(f"{text}\n")
        return
    from rich.console import Console
    from rich.text import Text

    drawn = Text(text)
    drawn.highlight_regex(r"^error:", "bold red")
    drawn.highlight_regex(r"^hint:", "bold")
    console = Console(stderr=True, highlight=False)
    with console.capture() as capture:
        console.print(drawn, soft_wrap=True)
    write_errors(capture.get())


def print_remark(*lines: str) -> None:
    """Prints lines on standard error; line ends around the text of a line are blank lines."""
    write_errors("".join(f"{_with_blank_lines(line)}\n" for line in lines))


def _with_blank_lines(text: str) -> str:
    """Returns `output_line`, with the line ends at the start and at the end of the text as they are."""
    body = text.strip("\n")
    start, _, end = text.partition(body) if body else (text, "", "")
    return f"{start}{output_line(body)}{end}"


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
    with console.capture() as capture:
        _draw_blocks(console, [block for block in blocks if (any(block) if isinstance(block, list) else block.rows)])
    _write(capture.get().encode())


def _draw_blocks(console: Console, blocks: Iterable[Block]) -> None:
    """Draws blocks that are not empty, with blank lines between them."""
    for index, block in enumerate(blocks):
        if index:
            console.print()
        if isinstance(block, list):
            for line in block:
                console.print(_styled(output_line(line)), soft_wrap=True)
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
        drawn.add_row(*(_styled(one_line(cell), whole=True) for cell in row))
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
