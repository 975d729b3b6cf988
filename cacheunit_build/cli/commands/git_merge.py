"""`cacheunit git merge`: git's merge driver for locks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cacheunit_build.cli.context import DIFFERENT, OK, Context, read_file, with_context
from cacheunit_build.cli.output import print_faults
from cacheunit_build.domain.errors import Fault, fail
from cacheunit_build.domain.file_names import LOCK_FILE, LOCK_VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cacheunit_build.domain.lock import Lock
    from cacheunit_build.lockfile.merge import MergedLock

_file = click.Path(path_type=Path)


@click.command()
@click.argument("base", type=_file)
@click.argument("ours", type=_file)
@click.argument("theirs", type=_file)
@click.argument("path", default=LOCK_FILE)
@with_context
def merge(context: Context, base: Path, ours: Path, theirs: Path, path: str) -> int:
    """Merge three locks into OURS, as git's merge driver.

    PATH is the name of the lock in messages. Exit code 1: there are conflicts, which are marked in
    OURS, or a lock is invalid.
    """
    from cacheunit_build.adapters.git.merge_driver import merge_texts
    from cacheunit_build.lockfile.format import lock_bytes
    from cacheunit_build.lockfile.merge import merge_locks

    # Git reads the result from OURS; exit code 0 is a clean merge, another one up to 128 leaves the file in conflict.
    goal = context.folder / ours
    texts = [read_file(context.folder / file) for file in (base, ours, theirs)]
    locks, faults = _parse(texts, path)
    if faults:
        _write(goal, merge_texts(context.folder, *texts).data)
        print_faults(faults)
        return DIFFERENT
    if any(lock.version != LOCK_VERSION for lock in locks):
        return _merge_by_line(context, goal, texts, path)
    merged = merge_locks(*locks)
    if not merged.conflicts:
        _write(goal, lock_bytes(merged.lock))
        return OK
    _write(goal, _with_markers(context.folder, merged, locks))
    print_faults(Fault(message=str(conflict), path=path) for conflict in merged.conflicts)
    context.remark('\nhint: merge the sources, then run "cacheunit build" to rewrite the lock')
    return DIFFERENT


def _merge_by_line(context: Context, goal: Path, texts: Sequence[bytes], path: str) -> int:
    """Merges locks of which an earlier cacheunit wrote one: as text, and to be built again in any case."""
    from cacheunit_build.adapters.git.merge_driver import merge_texts

    _write(goal, merge_texts(context.folder, *texts).data)
    message = "an earlier cacheunit wrote one of the locks, so they were merged by line"
    print_faults([Fault(message=message, path=path, hint='merge the sources, then run "cacheunit build"')])
    return DIFFERENT


def _parse(texts: Sequence[bytes], path: str) -> tuple[list[Lock], list[Fault]]:
    """Parses the locks of base, ours and theirs; returns the faults of invalid ones.

    The base may be empty: that is what git passes if both sides added the lock.

    Raises:
        CacheunitError: a newer version of this program wrote one of them.
    """
    from cacheunit_build.lockfile.format import EMPTY_LOCK, LockUnknownError, parse_lock

    locks: list[Lock] = []
    faults: list[Fault] = []
    for side, data in zip(("base", "ours", "theirs"), texts, strict=True):
        try:
            locks.append(EMPTY_LOCK if side == "base" and not data else parse_lock(data, f"{path} ({side})"))
        except LockUnknownError as error:
            faults += error.faults
    return locks, faults


def _with_markers(folder: Path, merged: MergedLock, locks: Sequence[Lock]) -> bytes:
    """Returns the merged lock with conflict markers around each entry that is in conflict.

    Two changes of one entry may merge by line, into an entry that no build makes. Then the merge is repeated without a
    base, which marks every difference.
    """
    from cacheunit_build.adapters.git.merge_driver import merge_texts
    from cacheunit_build.lockfile.format import lock_bytes

    base, ours, theirs = (lock_bytes(merged.resolved_with(lock)) for lock in locks)
    text = merge_texts(folder, base, ours, theirs)
    return text.data if text.conflict else merge_texts(folder, None, ours, theirs).data


def _write(file: Path, data: bytes) -> None:
    """Writes the file that git reads the result from.

    Raises:
        CacheunitError: it cannot be written.
    """
    try:
        file.write_bytes(data)
    except OSError as error:
        raise fail(f'cannot write "{file}": {error.strerror}', hint="the merge was not completed") from None
