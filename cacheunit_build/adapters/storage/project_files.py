"""The files of a project on disk: reads that never leave its root, and commits that write all or nothing."""

from __future__ import annotations

import os
from stat import S_ISDIR, S_ISLNK, S_ISREG, S_IWUSR
from typing import TYPE_CHECKING

from cacheunit_build.adapters.storage.atomic_commit import commit, remove_empty_folders, remove_leftovers
from cacheunit_build.adapters.storage.cache_folder import CacheFolder
from cacheunit_build.adapters.storage.discovery import DiskNames, RefusedPathError, files_below, linked_folder_error
from cacheunit_build.adapters.storage.file_stat import (
    exists,
    latest_change,
    read_regular_file,
    stat_of,
    stat_unless_link,
)
from cacheunit_build.adapters.storage.locks import BuildLock
from cacheunit_build.adapters.storage.staging import Stager, stage_files
from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.file_names import LOCK_FILE
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.paths import follow_links

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from cacheunit_build.domain.errors import CacheunitError
    from cacheunit_build.domain.protocols import ObservedFile
    from cacheunit_build.domain.staged_files import StagedFiles


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
        stat = stat_of(self.root) if trusted_before else None
        self._device = 0 if stat is None else stat[2]
        self._contents: dict[str, bytes | None] = {}
        self._observed: dict[str, ObservedFile] = {}
        self._known: dict[str, str | None] = {}
        self._names = DiskNames(self._prefix)
        self._lock = BuildLock(CacheFolder(str(self.root)))

    def read(self, path: str) -> bytes | None:
        """Returns the bytes of a file, None where there is no such file.

        Raises:
            CacheunitError: a link leads out of the root, or the file cannot be read.
        """
        self.asked.add(path)
        if path not in self._contents:
            self._contents[path] = self.read_now(path)
        return self._contents[path]

    def read_now(self, path: str) -> bytes | None:
        """Returns the bytes of a file as it is now, which are not kept; None where there is no such file.

        Raises:
            CacheunitError: as `read` does.
        """
        full_path = self._full_path(path)
        try:
            stat = stat_unless_link(full_path)
            if stat is None:
                if not exists(full_path):
                    return None
                full_path = self._full_path(follow_links(path, self._names.link_target))
                stat = stat_of(full_path)
            data = read_regular_file(full_path)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except RefusedPathError as error:
            raise _refused(error) from None
        except OSError as error:
            raise _unreadable(path, error) from None
        if stat is not None:
            self._observed[path] = (fingerprint(data), stat)
        return data

    def _full_path(self, path: str) -> str:
        """Returns the path on disk of a file.

        Raises:
            CacheunitError: a folder above it is a link, or two names differ only in their normal form.
        """
        try:
            on_disk = self._names.on_disk(path)
        except RefusedPathError as error:
            raise _refused(error) from None
        linked = self._names.linked_folder(on_disk)
        if linked is not None:
            raise _refused(linked_folder_error(linked))
        return f"{self._prefix}{on_disk}"

    def fingerprint(self, path: str) -> str | None:
        """Returns the fingerprint of a file's bytes as they are now, None where there is no such file."""
        data = self.read_now(path)
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
        full_path = self._full_path(path)
        try:
            if recorded is None and not exists(full_path):
                return None
        except OSError as error:
            raise _unreadable(path, error) from None
        if recorded is not None:
            stat = stat_unless_link(full_path)
            if stat is not None and stat == recorded[1] and latest_change(stat, self._device) < self._trusted_before:
                self._observed[path] = recorded
                return recorded[0]
        self.reread += 1
        return self.fingerprint(path)

    def observed(self) -> dict[str, ObservedFile]:
        """Returns path -> fingerprint and stat, at that time, of every file that was read or written."""
        return self._observed

    def has_folder(self, folder: str) -> bool:
        """Returns whether there is such a folder, or a link to one."""
        try:
            return S_ISDIR(os.stat(f"{self._prefix}{self._names.on_disk(folder)}").st_mode)  # noqa: PTH116 - a string
        except (FileNotFoundError, NotADirectoryError):
            return False
        except RefusedPathError as error:
            raise _refused(error) from None
        except OSError as error:
            raise _unreadable(folder, error) from None

    def twins(self, paths: Iterable[str]) -> Mapping[str, str]:
        """Returns path -> a path on disk that is another one here, and the same one on some systems."""
        try:
            return self._names.twins(paths)
        except RefusedPathError as error:
            raise _refused(error) from None

    def walk(self, folder: str) -> list[str]:
        """Returns the paths of all files below `folder`, in code point order; names that start with a dot are left out.

        Raises:
            CacheunitError: a folder is a link, and so would be read twice or from elsewhere; or a name is unclear.
        """
        try:
            return files_below(self._prefix, folder)
        except RefusedPathError as error:
            raise _refused(error) from None

    def exclusive(self) -> AbstractContextManager[None]:
        """Locks the project against other builds, which wait. Where nothing can be written, nothing is locked."""
        return self._lock.hold()

    def edit_problem(self, path: str) -> str | None:
        """Returns why a source is not to be edited, as in `it is read-only`; None where it can be.

        A link is not: what it leads to may belong to something else, and a commit would replace the link.
        """
        try:
            status = os.lstat(self._full_path(path))
        except OSError as error:
            return f"it cannot be read: {error.strerror or error}"
        if S_ISLNK(status.st_mode):
            return "it is a link"
        if not S_ISREG(status.st_mode):
            return "it is not a regular file"
        return None if status.st_mode & S_IWUSR else "it is read-only"

    def stage(self, files: Mapping[str, bytes]) -> StagedFiles:
        """Writes files to temporary files, which `commit` moves into place; on failure everything stays as it was.

        Raises:
            CacheunitError: something cannot be written.
        """
        return stage_files(str(self.root), {self._names.on_disk(path): data for path, data in files.items()})

    def discard(self, staged: Iterable[StagedFiles]) -> None:
        """Removes the temporary files of what is not to be moved into place, and the folders created for them."""
        stager = Stager(str(self.root))
        for item in staged:
            stager.adopt(item)
        stager.discard()

    def commit(
        self,
        files: Mapping[str, bytes],
        removed: Sequence[str],
        lock: bytes | None,
        staged: Sequence[StagedFiles] = (),
    ) -> None:
        """Writes files, removes others, and writes the lock last; on failure everything stays as it was.

        Args:
            files: the bytes of each file to write.
            removed: the files to remove.
            lock: the bytes of the lock; None to leave it alone.
            staged: further files, which are staged; if something fails, they are discarded.

        Raises:
            CacheunitError: something cannot be written.
        """
        on_disk = self._names.on_disk
        contents = {on_disk(path): data for path, data in files.items()}
        commit(self.root, contents, list(map(on_disk, removed)), lock, staged)
        written = {**files, **({} if lock is None else {LOCK_FILE: lock})}
        self.note_written({path: fingerprint(data) for path, data in written.items()})

    def note_written(self, fingerprints: Mapping[str, str]) -> None:
        """Notes the fingerprints of files that were just written, with their present stat."""
        for path, digest in fingerprints.items():
            stat = stat_of(f"{self._prefix}{self._names.on_disk(path)}")
            if stat is not None:
                self._observed[path] = (digest, stat)

    def note_read(self, observed: Mapping[str, ObservedFile]) -> None:
        """Notes which files of the project another process read."""
        self._observed |= observed

    def remove_leftovers(self, folder: str, *, is_new: bool = False) -> None:
        """Removes temporary files that a killed build left. Only for the holder of `exclusive`.

        Args:
            folder: the build folder.
            is_new: whether it did not exist before, so that empty folders in it are left of this build.
        """
        remove_leftovers(self.root, self._names.on_disk(folder))
        if is_new:
            remove_empty_folders(self.root, self._names.on_disk(folder))


def _unreadable(path: str, error: OSError) -> CacheunitError:
    """Returns why a file or folder cannot be read as a fault."""
    return fail(f'cannot read "{path}": {error.strerror or error}')


def _refused(error: RefusedPathError) -> CacheunitError:
    """Returns a refused path as a fault."""
    return fail(error.message, path=error.path, hint=error.hint)
