"""Writes files of the user's cache, and reads the clock of a file system. Imports next to nothing."""

from __future__ import annotations

import os
import sys

from cacheunit_build.domain.file_names import TEMPORARY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

TEMPORARY_SUFFIX = ".tmp"
"""The suffix of temporary files in the cache."""


_PAST = 1_000_000_000
"""A time in the past, in seconds: in 2001."""
_SAME = 100_000_000
"""Nanoseconds, within which two changes were made by the same build."""


def write_cache_file(path: str, data: bytes) -> None:
    """Replaces a cache file atomically. A failure is ignored, since the cache is optional."""
    write_cache_parts(path, (data,))


def write_cache_parts(path: str, parts: Iterable[bytes]) -> None:
    """Replaces a cache file atomically by these parts, one after the other. A failure is ignored."""
    temporary = f"{path}.{os.getpid()}{TEMPORARY_SUFFIX}"
    try:
        with open(temporary, "wb") as handle:
            handle.writelines(parts)
        os.replace(temporary, path)
    except OSError:
        try:
            os.unlink(temporary)
        except OSError:
            return


def file_system_time(root: str, folder: str) -> int:
    """Returns the time by the clock of a project's file system, in nanoseconds; 0 where no stat can be believed.

    The clock of a network file system may differ from that of this machine, so a file is created and its time is read:
    one in the cache, or one in the project where the two are on different file systems.

    A stat shows every change only if it has a time of change that nobody can set. The ctime of Windows is the time of
    creation instead, and so it may be on file systems of Windows elsewhere; on FAT it may be the mtime.

    Args:
        root: the root of the project.
        folder: its folder in the cache.
    """
    if sys.platform == "win32":
        return 0
    try:
        if os.stat(root).st_dev == os.stat(folder).st_dev:
            return _time_of_new_file(folder, f"clock.{os.getpid()}{TEMPORARY_SUFFIX}")
        return _time_of_new_file(root, f".cacheunit-clock.{os.getpid()}{TEMPORARY}")
    except OSError:
        return 0


def _time_of_new_file(folder: str, name: str) -> int:
    """Returns the time of change of a file that is created in a folder and removed again; 0 if it is another time."""
    path = f"{folder}/{name}"
    with open(path, "xb"):  # never a file that exists, or that a link leads to
        pass
    try:
        os.utime(path, (_PAST, _PAST))
        changed, folder_changed = os.stat(path).st_ctime_ns, os.stat(folder).st_ctime_ns
    finally:
        os.unlink(path)
    follows_mtime = changed < (_PAST + 60) * 1_000_000_000
    is_creation = abs(folder_changed - changed) > _SAME  # the folder has changed now too, and was created earlier
    return 0 if follows_mtime or is_creation else changed
