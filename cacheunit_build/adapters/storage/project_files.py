"""The files of a project on disk: reads that never leave its root, and commits that write all or nothing."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

from cacheunit_build.adapters.storage.atomic_commit import commit, remove_leftovers
from cacheunit_build.adapters.storage.discovery import LinkedFolderError, files_below
from cacheunit_build.adapters.storage.file_stat import stat_of, stat_unless_link
from cacheunit_build.adapters.storage.locks import BuildLock
from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.file_names import CACHE_FOLDER, LOCK_FILE
from cacheunit_build.domain.fingerprint import fingerprint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

ObservedFile = tuple[str, list[int]]
"""The fingerprint and the stat of a file at the time it was read or written."""


class DiskFiles:
    """The files below the root of a project. For this object, a file keeps the bytes of its first reading.

    Paths are relative to the root, with forward slashes.

    Args:
        root: the root of the project.
        recorded: path -> fingerprint and stat, as an earlier run observed them.
        trusted_before: nanoseconds; a file that changed later is read, since its stat may not show a further change.

    Attributes:
        asked: the paths of all files that were asked for.
        reread: how many recorded files had to be read, since their stat did not show that they are unchanged.
    """

    def __init__(self, root: Path, recorded: Mapping[str, ObservedFile] | None = None, trusted_before: int = 0) -> None:
        self.root = root.resolve()
        self.asked: set[str] = set()
        self.reread = 0
        self._prefix = f"{self.root}/" if str(self.root) != "/" else "/"
        self._recorded = recorded or {}
        self._trusted_before = trusted_before
        self._contents: dict[str, bytes | None] = {}
        self._observed: dict[str, ObservedFile] = {}
        self._known: dict[str, str | None] = {}
        self._linked: dict[str, bool] = {}
        self._lock = BuildLock(self.root / CACHE_FOLDER)

    def read(self, path: str) -> bytes | None:
        """Returns the bytes of a file, None where there is no such file.

        Raises:
            CacheunitError: a link leads out of the root, or the file cannot be read.
        """
        self.asked.add(path)
        if path not in self._contents:
            self._contents[path] = self._read_now(path)
        return self._contents[path]

    def _read_now(self, path: str) -> bytes | None:
        full_path = f"{self._prefix}{path}"
        try:
            stat = self._stat_inside(path, full_path)
            if stat is None and not os.path.lexists(full_path):
                return None
            with open(full_path, "rb", buffering=0) as handle:  # noqa: PTH123 - a Path takes longer to make
                data = handle.read()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except RuntimeError:
            raise fail(f'"{path}" is a link to itself') from None
        except OSError as error:
            raise fail(f'cannot read "{path}": {error.strerror or error}') from None
        if stat is not None:
            self._observed[path] = (fingerprint(data), stat)
        return data

    def _stat_inside(self, path: str, full_path: str) -> list[int] | None:
        """Returns the stat of a file, None where there is no such file.

        Raises:
            CacheunitError: a link leads out of the root.
        """
        linked = self._has_linked_folder(path)
        stat = None if linked else stat_unless_link(full_path)
        if stat is not None or (not linked and not os.path.lexists(full_path)):
            return stat
        if not Path(full_path).resolve().is_relative_to(self.root):
            raise fail(f'"{path}" leads out of the project through a link', hint="copy the file into the project")
        return stat_of(full_path)

    def fingerprint(self, path: str) -> str | None:
        """Returns the fingerprint of a file's bytes as they are now, None where there is no such file."""
        data = self._read_now(path)
        return None if data is None else fingerprint(data)

    def known_fingerprint(self, path: str) -> str | None:
        """Returns the fingerprint of a file; the file is not read if its stat shows that it did not change.

        Each file is looked at once.
        """
        if path not in self._known:
            self.asked.add(path)
            self._known[path] = self._known_now(path)
        return self._known[path]

    def _known_now(self, path: str) -> str | None:
        recorded = self._recorded.get(path)
        if recorded is None and not os.path.lexists(f"{self._prefix}{path}"):
            return None
        if recorded is not None and not self._has_linked_folder(path):
            stat = stat_unless_link(f"{self._prefix}{path}")
            if stat is not None and stat == recorded[1] and max(stat[3], stat[4]) < self._trusted_before:
                self._observed[path] = recorded
                return recorded[0]
        self.reread += 1
        return self.fingerprint(path)

    def _has_linked_folder(self, path: str) -> bool:
        """Returns whether a folder above the file is a link; each folder is looked at once."""
        folder = path.rpartition("/")[0]
        if not folder:
            return False
        if folder not in self._linked:
            is_link = os.path.islink(f"{self._prefix}{folder}")  # noqa: PTH114 - a Path takes longer to make
            self._linked[folder] = is_link or self._has_linked_folder(folder)
        return self._linked[folder]

    def observed(self) -> dict[str, ObservedFile]:
        """Returns path -> fingerprint and stat, at that time, of every file that was read or written."""
        return self._observed

    def has_folder(self, folder: str) -> bool:
        """Returns whether there is such a folder."""
        return (self.root / folder).is_dir()

    def real_path(self, path: str) -> str | None:
        """Returns a path with all links followed; `.` for the root, None where it leads out of the project."""
        try:
            real = (self.root / path).resolve()
        except (OSError, RuntimeError):  # a link to itself
            return None
        return (
            unicodedata.normalize("NFC", real.relative_to(self.root).as_posix())
            if real.is_relative_to(self.root)
            else None
        )

    def walk(self, folder: str) -> list[str]:
        """Returns the paths of all files below `folder`, in code point order; names that start with a dot are left out.

        Raises:
            CacheunitError: a folder is a link, and so would be read twice or from elsewhere.
        """
        try:
            return files_below(self._prefix, folder)
        except LinkedFolderError as error:
            raise fail("a link to a folder is not followed", path=str(error)) from None

    def exclusive(self) -> AbstractContextManager[None]:
        """Locks the project against other builds, which wait. Where nothing can be written, nothing is locked."""
        return self._lock.hold()

    def commit(self, files: Mapping[str, bytes], removed: Sequence[str], lock: bytes | None) -> None:
        """Writes files, removes others, and writes the lock last; on failure everything stays as it was.

        Raises:
            CacheunitError: something cannot be written.
        """
        commit(self.root, files, removed, lock)
        for path, data in {**files, **({} if lock is None else {LOCK_FILE: lock})}.items():
            stat = stat_of(self.root / path)
            if stat is not None:
                self._observed[path] = (fingerprint(data), stat)

    def remove_leftovers(self, folder: str) -> None:
        """Removes temporary files that a killed build left. Only for the holder of `exclusive`."""
        remove_leftovers(self.root, folder)
