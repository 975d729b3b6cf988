"""Writes files of the user's cache, and reads the clock of a file system. Imports next to nothing."""

from __future__ import annotations

import os

from cacheunit_build.domain.file_names import TEMPORARY

TEMPORARY_SUFFIX = ".tmp"
"""The suffix of temporary files in the cache."""


def write_cache_file(path: str, data: bytes) -> None:
    """Replaces a cache file atomically. A failure is ignored, since the cache is optional."""
    temporary = f"{path}.{os.getpid()}{TEMPORARY_SUFFIX}"
    try:
        with open(temporary, "wb") as handle:
            handle.write(data)
        os.replace(temporary, path)
    except OSError:
        try:
            os.unlink(temporary)
        except OSError:
            return


def file_system_time(root: str, folder: str) -> int:
    """Returns the time by the clock of a project's file system, in nanoseconds; 0 where it is not known.

    The clock of a network file system may differ from that of this machine, so a file is touched and its time is read:
    one in the cache, or one in the project where the two are on different file systems.

    Args:
        root: the root of the project.
        folder: its folder in the cache.
    """
    try:
        if os.stat(root).st_dev == os.stat(folder).st_dev:
            return _time_of_touch(f"{folder}/clock", "ab")
        path = f"{root}/.cacheunit-clock.{os.getpid()}{TEMPORARY}"
        time = _time_of_touch(path, "xb")  # never a file that exists, or that a link leads to
        os.unlink(path)
    except OSError:
        return 0
    return time


def _time_of_touch(path: str, mode: str) -> int:
    with open(path, mode):
        os.utime(path)
    return os.stat(path).st_mtime_ns
