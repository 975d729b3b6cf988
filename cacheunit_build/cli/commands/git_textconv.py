"""`cacheunit git textconv`: shows a lock in `git diff` and `git log -p`."""

from __future__ import annotations

from pathlib import Path

import click

from cacheunit_build.cli.context import OK, Context, read_file, with_context
from cacheunit_build.cli.output import print_bytes, print_text
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.file_names import LOCK_FILE


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@with_context
def textconv(context: Context, file: Path) -> int:
    """Print a lock as one line per entry.

    Its targets come first, one line each. A file that is not a valid lock is printed unchanged.
    """
    from cacheunit_build.lockfile.format import parse_lock
    from cacheunit_build.reports.git_textconv import lock_lines

    data = read_file(context.folder / file)
    try:
        print_text(*lock_lines(parse_lock(data, LOCK_FILE)))
    except CacheunitError:
        print_bytes(data)
    return OK
