"""The stat of a file: as long as it is unchanged, so is the content, as in git's index.

Imports next to nothing, since the fast path needs it.
"""

from __future__ import annotations

import os
from stat import S_ISLNK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

Stat = list[int]
"""Size, inode, device, and the times of modification and change in nanoseconds."""

_COARSE = 2_000_000_000
"""Nanoseconds: some file systems record times to two seconds only."""
_FINE = 100_000_000


def stat_of(path: str | Path) -> Stat | None:
    """Returns the stat of a file, links followed; None where there is no such file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return [status.st_size, status.st_ino, status.st_dev, status.st_mtime_ns, status.st_ctime_ns]


def stat_unless_link(path: str) -> Stat | None:
    """Returns the stat of a file that is not a link; None for a link, and where there is no such file."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if S_ISLNK(status.st_mode):
        return None
    return [status.st_size, status.st_ino, status.st_dev, status.st_mtime_ns, status.st_ctime_ns]


def surely_before(time: int) -> int:
    """Returns the time before which a file surely changed earlier than `time`, however coarse recorded times are.

    Args:
        time: nanoseconds, by the clock of the file system. One that is a whole second is of a coarse file system.
    """
    return time - (_FINE if time % 1_000_000_000 else _COARSE)
