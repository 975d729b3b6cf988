"""Syncs files to disk: by one call for a whole file system where the system has it, else file by file."""

from __future__ import annotations

import errno
import os
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

_NOT_WRITTEN = (errno.EIO, errno.ENOSPC, errno.EDQUOT)
_FEW = 16
"""So many files are synced one by one: syncing a whole file system also waits for what others wrote."""


def sync_files(files: Collection[str], new_folders: Collection[str] = ()) -> None:
    """Waits until these files are on disk, with their contents and under their names.

    Args:
        files: the files.
        new_folders: the folders that were created for them.

    Raises:
        OSError: the system cannot write them.
    """
    folders = {os.path.dirname(file) for file in (*files, *new_folders)}
    sync_file_system = _syncfs() if len(files) > _FEW else None
    if sync_file_system is not None:
        for folder in {os.stat(folder).st_dev: folder for folder in folders}.values():
            _with_descriptor(folder, sync_file_system)
        return
    for file in files:
        _with_descriptor(file, os.fsync, os.O_RDWR)  # Windows cannot sync what is open for reading only
    for folder in folders:
        sync_folder(folder)


def sync_folder(folder: Path | str) -> None:
    """Waits until the names of the files in a folder are on disk; does nothing where the system has no such call.

    Raises:
        OSError: the system cannot write them.
    """
    if hasattr(os, "O_DIRECTORY"):
        try:
            _with_descriptor(folder, os.fsync)
        except OSError as error:  # not every file system can sync a folder
            if error.errno in _NOT_WRITTEN:
                raise


def _with_descriptor(path: Path | str, sync: Callable[[int], None], flags: int = os.O_RDONLY) -> None:
    descriptor = os.open(path, flags)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


@cache
def _syncfs() -> Callable[[int], None] | None:
    """Returns Linux's `syncfs`, which Python's library lacks; None where there is none."""
    import ctypes

    try:
        function = ctypes.CDLL(None, use_errno=True).syncfs
    except (OSError, TypeError, AttributeError):
        return None

    def sync_file_system(descriptor: int) -> None:
        if function(descriptor) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))

    return sync_file_system
