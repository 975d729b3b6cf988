"""Writes files of the local cache, and reads the clock of its file system. Imports next to nothing."""

from __future__ import annotations

import os

from cacheunit_build.adapters.storage.file_stat import stat_of


def write_cache_file(path: str, data: bytes) -> None:
    """Replaces a cache file atomically. A failure is ignored, since the cache is optional."""
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as handle:
            handle.write(data)
        os.replace(temporary, path)
    except OSError:
        try:
            os.unlink(temporary)
        except OSError:
            return


def file_system_time(folder: str) -> int:
    """Returns the time by the clock of a folder's file system, in nanoseconds; 0 where nothing can be written.

    The clock of a network file system may differ from that of this machine, so a file is touched and its time is read.
    """
    path = f"{folder}/clock"
    try:
        with open(path, "ab"):
            os.utime(path)
    except OSError:
        return 0
    stat = stat_of(path)
    return 0 if stat is None else stat[3]
