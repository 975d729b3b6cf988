"""Printing: data on standard output, remarks and faults on standard error; colours on a terminal only.

Everything that is printed leaves the program here. Text from outside can do nothing to a terminal or a CI log: what is
not a character to look at is shown as its escape, and a line stays one line.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

from cacheunit_build.cli.streams import write_errors, write_output
from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.escaping import json_text, many_lines, output_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.reports.layout import Block

_NARROWEST = 40
"""The fewest columns that a report is laid out for."""


def print_blocks(blocks: Iterable[Block]) -> None:
    """Prints a report that fits the width of the terminal, or 100 columns; with colours on a terminal only."""
    from cacheunit_build.cli.colours import Colours
    from cacheunit_build.reports.layout import layout

    lines = layout(blocks, output_width(), Colours()) if on_terminal() else layout(blocks, output_width())
    print_escaped("\n".join(lines))


def output_width() -> int:
    """Returns the width for reports in columns: the variable COLUMNS, else the width of the terminal, else 100."""
    from cacheunit_build.reports.layout import DEFAULT_WIDTH

    return max(_NARROWEST, shutil.get_terminal_size((DEFAULT_WIDTH, 0)).columns)


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
    """Prints faults on standard error, one for each cause; on a terminal they fit its width."""
    from cacheunit_build.reports.folding import fold_faults

    lines = "\n\n".join(f"error: {fault}" for fault in fold_faults(faults)).split("\n")
    if not sys.stderr.isatty():
        write_errors("".join(f"{line}\n" for line in lines))
        return
    from cacheunit_build.cli.colours import painted_fault

    paint = str if os.environ.get("NO_COLOR") else painted_fault
    write_errors("".join(f"{paint(part)}\n" for line in lines for part in _fitting(line)))


def print_remark(*lines: str) -> None:
    """Prints lines on standard error; line ends around the text of a line are blank lines."""
    shown = [part for line in lines for part in _with_blank_lines(line).split("\n")]
    if sys.stderr.isatty():
        shown = [part for line in shown for part in _fitting(line)]
    write_errors("".join(f"{line}\n" for line in shown))


def _fitting(line: str) -> list[str]:
    """Returns a line in parts that fit the width of the terminal."""
    from cacheunit_build.reports.layout import wrap

    return [output_line(part) for part in wrap(line, output_width())]


def _with_blank_lines(text: str) -> str:
    """Returns `output_line`, with the line ends at the start and at the end of the text as they are."""
    body = text.strip("\n")
    start, _, end = text.partition(body) if body else (text, "", "")
    return f"{start}{output_line(body)}{end}"


def on_terminal() -> bool:
    """Returns whether standard output is a terminal that shows colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
