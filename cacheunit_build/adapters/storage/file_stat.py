"""The stat of a file. While it is unchanged and old enough, the file's content is unchanged too, as in git's index.

Imports next to nothing, since the fast path needs it.
"""

from __future__ import annotations

import os
from stat import S_ISLNK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Stat = list[int]
"""Size, inode, device, and the times of modification and change in nanoseconds."""

_COARSE = 2_000_000_000
"""Nanoseconds: some file systems record times to two seconds only."""
_FINE = 100_000_000
_NEVER = 1 << 63


def stat_of(path: str | Path) -> Stat | None:
    """Returns the stat of a file, links followed; None where there is no such file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return _numbers(status)


def stat_unless_link(path: str) -> Stat | None:
    """Returns the stat of a file that is not a link; None for a link, and where there is no such file."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return None if S_ISLNK(status.st_mode) else _numbers(status)


def is_absent(path: str) -> bool:
    """Returns whether there is nothing of that name, a link to nothing being something.

    Raises:
        OSError: the system cannot tell, as where a folder may not be entered or a disk fails.
    """
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    return False


def _numbers(status: os.stat_result) -> Stat:
    return [status.st_size, status.st_ino, status.st_dev, status.st_mtime_ns, status.st_ctime_ns]


def latest_change(numbers: Sequence[int], device: int) -> int:
    """Returns the latest time at which one of some files may have changed, as far as their stats tell.

    A file whose time is a whole second may have changed until two seconds later, even where the clock is finer: a
    folder of the project may be on another file system. There the clock may differ too, so such a file is never old.

    Args:
        numbers: the numbers of each stat, one after the other.
        device: the device whose clock tells the time.
    """
    if set(numbers[2::5]) != {device}:
        return _NEVER
    changes = [*map(max, numbers[3::5], numbers[4::5])]
    coarse = max((time for time in changes if time % 1_000_000_000 == 0), default=0)
    return max(*changes, coarse + _COARSE - _FINE)


def surely_before(time: int) -> int:
    """Returns a time such that a file whose recorded change is earlier surely changed before `time`.

    time      result
    10.5 s    10.4 s    (fine times)
    10.0 s     8.0 s    (a whole second: the file system may record two seconds only)

    Args:
        time: nanoseconds, by the clock of the file system.
    """
    return time - (_FINE if time % 1_000_000_000 else _COARSE)
