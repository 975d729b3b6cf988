"""One commit to disk: every file staged whole beside its place, moved, and last the lock; or all as it was."""

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

STAGED = ".cacheunit-tmp"
"""How the names of staged files end; a dot stands before them, so that nothing reads them."""


def commit(root: Path, files: Mapping[str, bytes], removed: Sequence[str], lock: bytes | None) -> None:
    """Writes `files`, removes `removed`, and last the lock, synced. Paths are relative to `root`.

    Raises:
        CacheunitError: something cannot be written; what was moved or removed before is put back.
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
        work.undo()
        reason = error.strerror or str(error)
        raise fail(f'cannot write "{work.path}": {reason}', hint="everything is as it was before") from None
    except BaseException:
        work.undo()
        raise
    finally:
        work.clear()


class _Commit:
    """The steps of one commit; `path` is the one that is being worked on."""

    def __init__(self, root: Path) -> None:
        self.path = ""
        self._root = root
        self._staged: dict[str, Path] = {}
        self._made: list[Path] = []
        self._ready: set[Path] = set()
        self._before: list[tuple[Path, bytes | None]] = []

    def stage(self, path: str, data: bytes, *, synced: bool = False) -> None:
        """The bytes beside their place, whole, under a name that no one reads."""
        self.path = path
        goal = self._root / path
        if goal.parent not in self._ready:
            self._make_folders(goal.parent, path)
        if goal.is_dir():
            raise IsADirectoryError(21, "is a folder", str(goal))
        temporary = goal.with_name(f".{goal.name}.{os.getpid()}{STAGED}")
        self._staged[path] = temporary
        with temporary.open("wb") as handle:
            handle.write(data)
            if synced:
                handle.flush()
                os.fsync(handle.fileno())

    def _make_folders(self, folder: Path, path: str) -> None:
        """Makes what is missing of a folder; what is there must lie in the project, links followed."""
        missing = list(takewhile(self._is_missing, (folder, *folder.parents)))
        there = missing[-1].parent if missing else folder
        if there not in self._ready:
            if not there.resolve().is_relative_to(self._root):
                raise fail(f'"{path}" would be written outside of the project, through a link')
            self._ready.add(there)
        for parent in reversed(missing):
            self._made.append(parent)
            parent.mkdir()
            self._ready.add(parent)

    def _is_missing(self, folder: Path) -> bool:
        return folder not in self._ready and not folder.exists()

    def move(self, path: str) -> None:
        """A staged file into its place; the folder of the lock is synced with it, as far as the system can."""
        self.path = path
        goal = self._root / path
        self._before.append((goal, goal.read_bytes() if goal.exists() else None))
        self._staged[path].replace(goal)
        if path == LOCK_FILE:
            with contextlib.suppress(OSError):
                _sync_folder(goal.parent)

    def remove(self, path: str) -> None:
        """A file away, and the folders that it leaves empty."""
        self.path = path
        goal = self._root / path
        self._before.append((goal, goal.read_bytes() if goal.exists() else None))
        goal.unlink(missing_ok=True)
        for folder in goal.parents:
            if folder == self._root or any(folder.iterdir()):
                break
            folder.rmdir()

    def undo(self) -> None:
        """What was moved or removed, put back."""
        for goal, data in reversed(self._before):
            with contextlib.suppress(OSError):
                if data is None:
                    goal.unlink(missing_ok=True)
                elif not goal.exists() or goal.read_bytes() != data:
                    goal.parent.mkdir(parents=True, exist_ok=True)
                    goal.write_bytes(data)

    def clear(self) -> None:
        """Nothing staged stays, and no folder that was made in vain."""
        for temporary in self._staged.values():
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
        for folder in reversed(self._made):
            with contextlib.suppress(OSError):
                folder.rmdir()


def sweep(root: Path, folder: str) -> None:
    """Removes what a killed commit left staged below `folder` and beside the lock."""
    left = [root / name for name in os.listdir(root) if name.endswith(STAGED)]  # noqa: PTH208 - names only
    for parent, _, files in os.walk(root / folder):
        left += [Path(parent) / name for name in files if name.endswith(STAGED)]
    for path in left:
        with contextlib.suppress(OSError):
            path.unlink()


def _sync_folder(folder: Path) -> None:
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
