"""Files of the local cache: written whole or not at all, and never missed. Loads next to nothing."""

from __future__ import annotations

import os

from cacheunit_build.adapters.storage.file_stat import stat_of


def write_cache_file(path: str, data: bytes) -> None:
    """Replaces a file of the cache. Failing to is no fault."""
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as handle:  # noqa: PTH123 - pathlib takes long to load
            handle.write(data)
        os.replace(temporary, path)  # noqa: PTH105 - as above
    except OSError:
        try:
            os.unlink(temporary)  # noqa: PTH108 - as above
        except OSError:
            return


def clock_of(folder: str) -> int:
    """Nanoseconds, by the clock of the file system that the cache folder is on; 0 where nothing can be written."""
    path = f"{folder}/clock"
    try:
        with open(path, "ab"):  # noqa: PTH123 - pathlib takes long to load
            os.utime(path)
    except OSError:
        return 0
    stat = stat_of(path)
    return 0 if stat is None else stat[3]
