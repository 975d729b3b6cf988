"""Locks a project against other builds, between processes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filelock import BaseFileLock

    from cacheunit_build.adapters.storage.cache_folder import CacheFolder

_POLL_SECONDS = 0.02


class BuildLock:
    """The lock of one project, a file in the user's cache that no command removes. Other users have locks of their own.

    Args:
        cache: the project's part of the user's cache, which is created where it does not exist.
    """

    def __init__(self, cache: CacheFolder) -> None:
        self._cache = cache
        self._lock: BaseFileLock | None = None

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Waits until no other process holds the lock, and holds it; the holder may do so again.

        Where the cache cannot be used, nothing is locked.
        """
        try:
            lock = self._opened()
            if lock is not None:
                lock.acquire()
        except (OSError, NotImplementedError):  # a file system without locks
            lock = None
        if lock is None:
            yield
            return
        try:
            yield
        finally:
            lock.release()

    def _opened(self) -> BaseFileLock | None:
        from filelock import FileLock

        if self._lock is None and self._cache.prepare() is None:
            self._lock = FileLock(self._cache.lock, thread_local=False, poll_interval=_POLL_SECONDS)
        return self._lock
