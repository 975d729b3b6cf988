"""What stands in for a file's content while nothing touches it, as in git's index. Loads next to nothing."""

from __future__ import annotations

import os
from stat import S_ISLNK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

Stat = list[int]

_COARSE = 2_000_000_000  # some file systems keep times to two seconds only
_FINE = 100_000_000


def stat_unless_link(path: str) -> Stat | None:
    """The same for what is no link; None for a link, and where nothing is."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if S_ISLNK(status.st_mode):
        return None
    return [status.st_size, status.st_ino, status.st_dev, status.st_mtime_ns, status.st_ctime_ns]


def stat_of(path: str | Path) -> Stat | None:
    """Size, inode, device, and times of modification and change in nanoseconds; None where there is no such file."""
    try:
        status = os.stat(path)  # noqa: PTH116 - the quickest there is
    except OSError:
        return None
    return [status.st_size, status.st_ino, status.st_dev, status.st_mtime_ns, status.st_ctime_ns]


def surely_before(begun: int) -> int:
    """A file that changed earlier than this surely changed before `begun`, however coarse its time is."""
    return begun - (_FINE if begun % 1_000_000_000 else _COARSE)
