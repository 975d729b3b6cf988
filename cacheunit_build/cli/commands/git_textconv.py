"""`cacheunit git textconv`: shows a lock in `git diff` and `git log -p`."""

from __future__ import annotations

from pathlib import Path

import click

from cacheunit_build.cli.context import OK, Session, put, put_bytes, read_file, with_session
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.protocols import LOCK_FILE


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@with_session
def textconv(session: Session, file: Path) -> int:
    """Print a lock with one line per target and entry; print any other file unchanged."""
    from cacheunit_build.lockfile.format import parse_lock
    from cacheunit_build.reports.lock import lock_text

    data = read_file(session.folder / file)
    try:
        put(lock_text(parse_lock(data, LOCK_FILE)))
    except CacheunitError:
        put_bytes(data)
    return OK
