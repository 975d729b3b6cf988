"""Writes the files of a build: all of them, and last the lock; or none, if something fails on the way.

Each file is first written whole to a temporary file beside it, then moved into place. A process that is killed between
two moves leaves whole files and the old lock, so that `check` fails and the next `build` completes the work.
"""

from __future__ import annotations

import contextlib
import os
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.file_names import LOCK_FILE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TEMPORARY = ".cacheunit-tmp"
"""The suffix of temporary files. Their names also start with a dot, so that nothing reads them."""


def commit(root: Path, files: Mapping[str, bytes], removed: Sequence[str], lock: bytes | None) -> None:
    """Writes files, removes others, and writes the lock last, synced to disk.

    Args:
        root: the project root; paths are relative to it.
        files: the bytes of each file to write.
        removed: the files to remove, with the folders that are then empty.
        lock: the bytes of the lock; None to leave it alone.

    Raises:
        CacheunitError: a file cannot be written or removed. What was changed before is restored; the hint names the
            files for which that failed.
    """
    work = _Commit(root)
    try:
        for path, data in files.items():
            work.stage(path, data)
        if lock is not None:
            work.stage(LOCK_FILE, lock, synced=True)
        for path in files:
            work.move(path)
        for path in removed:
            work.remove(path)
        if lock is not None:
            work.move(LOCK_FILE)
    except OSError as error:
        message = f'cannot write "{work.path}": {error.strerror or error}'
        raise fail(message, hint=_restored_hint(work.roll_back())) from None
    except BaseException:
        not_restored = work.roll_back()
        if not_restored:
            raise fail(f'interrupted at "{work.path}"', hint=_restored_hint(not_restored)) from None
        raise
    finally:
        work.remove_temporary()


class _Commit:
    """The steps of one commit.

    Attributes:
        path: the file that is being worked on, relative to the root.
    """

    def __init__(self, root: Path) -> None:
        self.path = ""
        self._root = root
        self._staged: dict[str, Path] = {}  # path -> its temporary file
        self._created_folders: list[Path] = []
        self._checked_folders: set[Path] = set()  # that exist, inside of the project
        self._previous: list[tuple[str, bytes | None]] = []  # path and old content of each file that was changed

    def stage(self, path: str, data: bytes, *, synced: bool = False) -> None:
        """Writes the new content of a file to a temporary file beside it.

        Raises:
            OSError: it cannot be written, or the path is a folder.
            CacheunitError: it would be outside of the project.
        """
        self.path = path
        goal = self._root / path
        if goal.parent not in self._checked_folders:
            self._create_folders(goal.parent, path)
        # Moving a file onto a folder would fail only after other files have been moved.
        if goal.is_dir():
            raise IsADirectoryError(21, "is a folder", str(goal))
        temporary = self._temporary(goal)
        self._staged[path] = temporary
        _write(temporary, data, synced=synced)

    def _temporary(self, goal: Path) -> Path:
        """Returns the path of the temporary file for a file; the process id keeps builds apart."""
        return goal.with_name(f".{goal.name}.{os.getpid()}{TEMPORARY}")

    def _create_folders(self, folder: Path, path: str) -> None:
        """Creates a folder and its parents; an existing one must be inside of the project once links are followed."""
        # For build/a/b/x.txt, where only build/ exists: missing are build/a/b and build/a, existing is build.
        missing = list(takewhile(self._is_missing, (folder, *folder.parents)))
        existing = missing[-1].parent if missing else folder
        if existing not in self._checked_folders:
            if not existing.resolve().is_relative_to(self._root):
                raise fail(f'"{path}" would be written outside of the project, through a link')
            self._checked_folders.add(existing)
        for created in reversed(missing):
            self._created_folders.append(created)
            created.mkdir()
            self._checked_folders.add(created)

    def _is_missing(self, folder: Path) -> bool:
        return folder not in self._checked_folders and not folder.exists()

    def move(self, path: str) -> None:
        """Moves a staged file into place; for the lock, syncs the folder too, if the system can do that."""
        self.path = path
        goal = self._root / path
        self._keep_previous(path)
        self._staged[path].replace(goal)
        if path == LOCK_FILE:
            with contextlib.suppress(OSError):  # the lock is in place; not every file system can sync a folder
                _sync_folder(goal.parent)

    def remove(self, path: str) -> None:
        """Removes a file, and the folders that are then empty."""
        self.path = path
        goal = self._root / path
        self._keep_previous(path)
        goal.unlink(missing_ok=True)
        for folder in goal.parents:
            if folder == self._root or any(folder.iterdir()):
                break
            folder.rmdir()

    def _keep_previous(self, path: str) -> None:
        """Keeps the content of a file that is about to change, for `roll_back`."""
        goal = self._root / path
        self._previous.append((path, goal.read_bytes() if goal.exists() else None))

    def roll_back(self) -> list[str]:
        """Restores every file that was changed; returns the paths that could not be restored."""
        not_restored = []
        for path, data in reversed(self._previous):
            try:
                self._restore(self._root / path, data)
            except OSError:
                not_restored.append(path)
        return not_restored

    def _restore(self, goal: Path, data: bytes | None) -> None:
        """Restores a file's previous content by an atomic move; removes the file if it did not exist."""
        if data is None:
            goal.unlink(missing_ok=True)
        elif not goal.exists() or goal.read_bytes() != data:
            goal.parent.mkdir(parents=True, exist_ok=True)
            # Not written in place: if that fails half-way, neither the old nor the new content would be left.
            temporary = self._temporary(goal)
            self._staged[str(goal)] = temporary
            _write(temporary, data)
            temporary.replace(goal)

    def remove_temporary(self) -> None:
        """Removes temporary files, and folders that were created and are empty.

        What cannot be removed is ignored: the next build removes temporary files, and empty folders do no harm.
        """
        for temporary in self._staged.values():
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
        for folder in reversed(self._created_folders):
            with contextlib.suppress(OSError):
                folder.rmdir()


def _restored_hint(not_restored: Sequence[str]) -> str:
    """Returns a hint that says whether all files were restored."""
    if not not_restored:
        return "everything is as it was before"
    paths = ", ".join(f'"{path}"' for path in not_restored)
    return f'{paths} could not be restored: run "cacheunit build" again'


def remove_leftovers(root: Path, folder: str) -> None:
    """Removes temporary files that a killed commit left below `folder` and beside the lock.

    What cannot be listed or removed is ignored: it does no harm, and the next build tries again.
    """
    with contextlib.suppress(OSError):
        paths = [root / name for name in os.listdir(root) if name.endswith(TEMPORARY)]  # noqa: PTH208 - names only
        for parent, _, files in os.walk(root / folder):
            paths += [Path(parent) / name for name in files if name.endswith(TEMPORARY)]
        for path in paths:
            with contextlib.suppress(OSError):
                path.unlink()


def _write(file: Path, data: bytes, *, synced: bool = False) -> None:
    """Writes a file; with `synced`, returns when it is on disk."""
    with file.open("wb") as handle:
        handle.write(data)
        if synced:
            handle.flush()
            os.fsync(handle.fileno())


def _sync_folder(folder: Path) -> None:
    """Returns when the entries of a folder are on disk; does nothing where the system has no such call."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
