"""A project's files: reads that never leave the root, and one commit that writes all or nothing."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import IO, TYPE_CHECKING

from cacheunit_build.adapters.storage import discovery as folders
from cacheunit_build.adapters.storage.atomic_commit import commit, sweep
from cacheunit_build.adapters.storage.discovery import CACHE, LinkedFolderError, files_below
from cacheunit_build.adapters.storage.file_stat import stat_of, stat_unless_link
from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.protocols import LOCK_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Known = tuple[str, list[int]]


def find_root(start: Path) -> Path:
    """The nearest folder from `start` upwards that has settings or manifests; `start` where none has."""
    return Path(folders.find_root(str(start)))


class DiskFiles:
    """The files below one root. What was read once stays as it was read for the life of this object.

    Paths are relative to the root, with forward slashes.

    Args:
        root: the project's root.
        known: path -> fingerprint and stat, as an earlier run saw them.
        trusted_before: nanoseconds; a file that changed later is read, whatever its stat, since its time may not tell.
    """

    def __init__(self, root: Path, known: Mapping[str, Known] | None = None, trusted_before: int = 0) -> None:
        self.root = root.resolve()
        self._read: dict[str, bytes | None] = {}
        self._known = known or {}
        self._trusted_before = trusted_before
        self._seen: dict[str, Known] = {}
        self._held = False
        self._told: dict[str, str | None] = {}
        self.reread = 0
        self._straight: dict[str, bool] = {}
        self._prefix = f"{self.root}/" if str(self.root) != "/" else "/"
        self.asked: set[str] = set()

    def read(self, path: str) -> bytes | None:
        """The bytes of a file, None where there is none.

        Raises:
            CacheunitError: a link leads out of the root, or the file cannot be read.
        """
        self.asked.add(path)
        if path not in self._read:
            self._read[path] = self._read_now(path)
        return self._read[path]

    def _read_now(self, path: str) -> bytes | None:
        whole = f"{self._prefix}{path}"
        try:
            straight = self._is_straight(path)
            stat = stat_unless_link(whole) if straight else None
            if stat is None and straight and not os.path.lexists(whole):
                return None
            if stat is None and not Path(whole).resolve().is_relative_to(self.root):
                raise fail(f'"{path}" leads out of the project by a link', hint="copy the file into the project")
            stat = stat or stat_of(whole)
            with open(whole, "rb", buffering=0) as handle:  # noqa: PTH123 - a path is slow to make
                data = handle.read()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except RuntimeError:
            raise fail(f'"{path}" is a link that leads to itself') from None
        except OSError as error:
            raise fail(f'cannot read "{path}": {error.strerror or error}') from None
        if stat is not None:
            self._seen[path] = (fingerprint(data), stat)
        return data

    def fingerprint(self, path: str) -> str | None:
        """The fingerprint of a file's bytes as they are now, None where there is none."""
        data = self._read_now(path)
        return None if data is None else fingerprint(data)

    def known_fingerprint(self, path: str) -> str | None:
        """The same, asked once: a file is taken for unread while its stat is on record, and surely older than that."""
        if path not in self._told:
            self.asked.add(path)
            self._told[path] = self._known_now(path)
        return self._told[path]

    def _known_now(self, path: str) -> str | None:
        known = self._known.get(path)
        if known is None and not os.path.lexists(f"{self._prefix}{path}"):
            return None
        if known is not None and self._is_straight(path):
            stat = stat_unless_link(f"{self._prefix}{path}")
            if stat == known[1] and max(stat[3], stat[4]) < self._trusted_before:
                self._seen[path] = known
                return known[0]
        self.reread += 1
        return self.fingerprint(path)

    def _is_straight(self, path: str) -> bool:
        """Whether no folder above the file is a link; each folder is asked once."""
        folder = path.rpartition("/")[0]
        if folder not in self._straight:
            self._straight[folder] = not folder or (
                not os.path.islink(f"{self._prefix}{folder}")  # noqa: PTH114 - a path is slow to make
                and self._is_straight(folder)
            )
        return self._straight[folder]

    def seen(self) -> dict[str, Known]:
        """Path -> fingerprint and stat of every file that was read or written, as it was then."""
        return self._seen

    def exists(self, folder: str) -> bool:
        """Whether there is a folder of that name."""
        return (self.root / folder).is_dir()

    def walk(self, folder: str) -> list[str]:
        """Every file below `folder`, by code point; names that start with a dot are passed over.

        Raises:
            CacheunitError: a folder is a link, and so would be read twice or from elsewhere.
        """
        try:
            return files_below(self._prefix, folder)
        except LinkedFolderError as error:
            raise fail("a link to a folder is not followed", path=str(error)) from None

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Holds the project for one build at a time; others wait. Where nothing can be written, nothing is held.

        Who holds it already may ask again.
        """
        if self._held:
            yield
            return
        try:
            (self.root / CACHE).mkdir(exist_ok=True)
            ignored = self.root / CACHE / ".gitignore"
            if not ignored.exists():
                ignored.write_text("*\n", encoding="utf-8")
            handle = (self.root / CACHE / "lock").open("ab")
        except OSError:
            yield
            return
        with handle:
            _hold(handle)
            self._held = True
            try:
                yield
            finally:
                self._held = False

    def commit(self, files: Mapping[str, bytes], removed: Sequence[str], lock: bytes | None) -> None:
        """Writes files, removes others, and last the lock; or leaves all as it was and raises."""
        commit(self.root, files, removed, lock)
        for path, data in {**files, **({} if lock is None else {LOCK_FILE: lock})}.items():
            stat = stat_of(self.root / path)
            if stat is not None:
                self._seen[path] = (fingerprint(data), stat)

    def sweep(self, folder: str) -> None:
        """Removes what a killed build left staged. Only for the holder of `exclusive`."""
        sweep(self.root, folder)


def _hold(handle: IO[bytes]) -> None:
    """Waits until no other process holds the file; closing it lets go."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt  # type: ignore[unused-ignore]

        msvcrt.locking(handle.fileno(), msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined,unused-ignore]
    else:
        fcntl.flock(handle, fcntl.LOCK_EX)
