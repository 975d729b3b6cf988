"""The stat of a file. While it is unchanged and old enough, the file's content is unchanged too, as in git's index.

Imports next to nothing, since the fast path needs it.
"""

from __future__ import annotations

import os
from errno import EINVAL, ELOOP, ENAMETOOLONG
from stat import S_ISDIR, S_ISLNK, S_ISREG

from cacheunit_build.domain.file_names import MOST_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Stat = list[int]
"""Size, inode, device, and the times of modification and change in nanoseconds."""

_NO_WAIT = getattr(os, "O_NONBLOCK", 0)

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


def exists(path: str | Path) -> bool:
    """Returns whether there is a file, a folder or a link at a path.

    Raises:
        OSError: that is not known, as in a folder that the user may not enter. It must not count as missing: what
            depends on a missing file would change, and be removed.
    """
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError as error:
        if error.errno in (ELOOP, ENAMETOOLONG, EINVAL):  # no file can have that path
            return False
        raise
    return True


def read_regular_file(path: str) -> bytes:
    """Returns the bytes of a file; what is no regular file, such as a pipe, is not waited for.

    Raises:
        OSError: it cannot be read, is no regular file, or is larger than `MOST_BYTES`.
    """
    descriptor = os.open(path, os.O_RDONLY | _NO_WAIT)
    with open(descriptor, "rb", buffering=0) as handle:
        status = os.fstat(descriptor)
        if S_ISDIR(status.st_mode):
            raise IsADirectoryError(21, "is a folder", path)
        if not S_ISREG(status.st_mode):
            raise OSError(22, "it is not a regular file", path)
        if status.st_size > MOST_BYTES:
            raise OSError(27, f"it is larger than {MOST_BYTES // 2**20} MiB", path)
        return handle.read()


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
