"""Writes a report to a file that the command line names, or prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cacheunit_build.cli.output import print_blocks, print_escaped
from cacheunit_build.domain.errors import fail

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cacheunit_build.cli.context import Context
    from cacheunit_build.reports.layout import Block

output_option = click.option(
    "-o", "--output", metavar="FILE", help="Write the report to this file, which is replaced as a whole."
)


def check_output(context: Context, output: str | None) -> None:
    """Raises if a report could not be written to a file, for a command that takes long or costs money.

    Raises:
        CacheunitError: the file is a folder or a device, or its folder does not exist.
    """
    if not _is_standard_output(output):
        _writable(context.folder / str(output), str(output))


def write_blocks(context: Context, blocks: Sequence[Block], output: str | None) -> None:
    """Writes a report to a file in 100 columns; prints it, in the width of the terminal, where no file is named.

    Raises:
        CacheunitError: the file cannot be written, or is a folder or a device.
    """
    from cacheunit_build.reports.layout import plain_text

    if _is_standard_output(output):
        print_blocks(blocks)
    else:
        write_report(context, plain_text(blocks), output)


def write_report(context: Context, text: str, output: str | None) -> None:
    """Writes a report, of which no part is left to escape, to a file; prints it where no file is named.

    Args:
        context: the run, in whose folder a relative name is.
        text: the report.
        output: the file; None or `-` for standard output.

    Raises:
        CacheunitError: the file cannot be written, or is a folder or a device.
    """
    if output is None or _is_standard_output(output):
        print_escaped(text)
        return
    from cacheunit_build.adapters.storage.atomic_commit import commit

    file = _writable(context.folder / output, output)
    data = f"{text}\n" if text else ""
    commit(file.parent, {file.name: data.encode("utf-8", "backslashreplace")}, (), None)
    context.remark(f"wrote {output}")


def _is_standard_output(output: str | None) -> bool:
    return output in (None, "-")


def _writable(path: Path, output: str) -> Path:
    """Returns the file that a name leads to, by any links, so that a link stays one.

    Raises:
        CacheunitError: it is a folder or a device, its folder does not exist, or links lead in a circle.
    """
    try:
        file = path.resolve()
        is_other = file.exists() and not file.is_file()
        has_folder = file.parent.is_dir()
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a valid file name"
        raise fail(f'cannot write "{output}": {reason}') from None
    if not output or file.is_dir():
        raise fail(f'cannot write "{output}": it is a folder', hint="name a file")
    if is_other:
        raise fail(f'cannot write "{output}": it is not a regular file', hint="leave out -o to print the report")
    if not has_folder:
        raise fail(f'cannot write "{output}": its folder does not exist', hint="create the folder first")
    return file
