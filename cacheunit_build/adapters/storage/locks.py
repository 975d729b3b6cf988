"""Locks a project against other builds, between processes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from filelock import BaseFileLock

_POLL_SECONDS = 0.02


class BuildLock:
    """The lock of one project, a file in its cache folder.

    Args:
        folder: the cache folder, which is created where it does not exist.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock: BaseFileLock | None = None

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Waits until no other process holds the lock, and holds it; the holder may do so again.

        Where nothing can be written, nothing is locked.
        """
        try:
            lock = self._opened()
            lock.acquire()
        except OSError:
            yield
            return
        try:
            yield
        finally:
            lock.release()

    def _opened(self) -> BaseFileLock:
        from filelock import FileLock

        if self._lock is None:
            self._folder.mkdir(exist_ok=True)
            ignored = self._folder / ".gitignore"
            if not ignored.exists():
                ignored.write_text("*\n", encoding="utf-8")
            path = self._folder / "lock"
            self._lock = FileLock(path, thread_local=False, poll_interval=_POLL_SECONDS)
        return self._lock
