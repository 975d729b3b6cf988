"""Writes the files of a build: all of them, and last the lock; or none, if something fails on the way.

Each file is first written whole to a temporary file beside it, then moved into place. What the lock names is on disk
before the lock is, so that after a kill or a power cut every file is whole, and the lock either names what is there, or
is the old one: then `check` fails, and the next `build` completes the work.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
from typing import TYPE_CHECKING

from cacheunit_build.adapters.storage.durability import sync_files, sync_folder
from cacheunit_build.adapters.storage.staging import (
    UNCHANGED_HINT,
    Stager,
    status_to_replace,
    temporary_path,
    unwritable,
    write_new,
)
from cacheunit_build.domain.errors import PartlyWrittenError, fail
from cacheunit_build.domain.file_names import LOCK_FILE, TEMPORARY
from cacheunit_build.domain.names import composed, folded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from cacheunit_build.domain.staged_files import StagedFiles


def commit(
    root: Path,
    files: Mapping[str, bytes],
    removed: Sequence[str],
    lock: bytes | None,
    staged: Sequence[StagedFiles] = (),
) -> None:
    """Writes files, removes others, and writes the lock last; all of it is on disk when this returns.

    Args:
        root: the project root; paths are relative to it.
        files: the bytes of each file to write.
        removed: the files to remove, with the folders that are then empty.
        lock: the bytes of the lock; None to leave it alone.
        staged: further files, which are staged already. If something fails, they are discarded too.

    Raises:
        CacheunitError: a file cannot be written or removed, is read-only, or would be reached through a link. What was
            changed before is restored; the hint names the files for which that failed.
    """
    work = _Commit(str(root))
    try:
        for item in staged:
            work.stager.adopt(item)
        for path, data in files.items():
            work.stager.stage(path, data)
        paths = list(work.stager.temporary)
        if lock is not None:
            work.stager.stage(LOCK_FILE, lock)
        work.spell_folders()
        work.sync(work.stager.temporary.values())
        for path in removed:  # first, since one may have the name of a file to write in other letter case
            work.remove(path)
        for path in paths:
            work.move(path)
        if lock is not None:
            work.sync(paths)
            work.move(LOCK_FILE)
            with contextlib.suppress(OSError):  # all is in place
                sync_folder(root)
        work.stager.folders.clear()  # they stay
    except OSError as error:
        not_restored = work.roll_back()
        fault = unwritable(work.stager.path, error, _restored_hint(not_restored))
        raise PartlyWrittenError(*fault.faults) if not_restored else fault from None
    except BaseException:
        not_restored = work.roll_back()
        if not_restored:
            interrupted = fail(f'interrupted at "{work.stager.path}"', hint=_restored_hint(not_restored))
            raise PartlyWrittenError(*interrupted.faults) from None
        raise
    finally:
        work.clean_up(removed)


class _Commit:
    """The steps of one commit. Paths are relative to the root.

    Attributes:
        stager: writes the new contents, and knows the file that is being worked on.
    """

    def __init__(self, root: str) -> None:
        self.stager = Stager(root)
        self._root = root
        self._previous: list[tuple[str, str | None]] = []  # each file that was changed, and the former one
        self._renamed: list[tuple[str, str]] = []  # former and new path of each folder, by each rename
        self._moved: set[str] = set()  # the staged files that are in place
        self._spelled: dict[str, str] = {}  # former and new path of each folder
        self._names: dict[str, dict[str, str]] = {}  # folder -> composed name -> name, before the commit

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _exists(self, path: str) -> bool:
        return os.path.lexists(self._full(path))

    def sync(self, paths: Iterable[str]) -> None:
        """Returns when these files are on disk, with their contents and under their names."""
        sync_files(list(map(self._full, paths)), list(map(self._full, self.stager.folders)))

    def spell_folders(self) -> None:
        """Renames the folders of staged files whose name on disk is in other letter case.

        That is so where the file system takes both for one; folders that were created now have their right name.
        """
        seen, created = {""}, set(self.stager.folders)
        for path in self.stager.temporary:
            for folder in reversed(list(_unseen_parents(path, seen))):
                if folder not in created:
                    self._spell(folder)

    def _spell(self, folder: str) -> None:
        former = self._other_spelling(folder)
        if former is not None:
            between = temporary_path(folder, "folder")  # some file systems ignore a rename to other letter case
            for old, new in ((former, between), (between, folder)):
                self._renamed.append((old, new))
                os.rename(self._full(old), self._full(new))
            self._spelled[former] = folder

    def _as_spelled(self, path: str) -> str:
        """Returns a path with the present names of folders; by former ones the system may err."""
        found = ""
        for part in path.split("/"):
            found = posixpath.join(found, part)
            found = self._spelled.get(found, found)
        return found

    def _other_spelling(self, path: str) -> str | None:
        """Returns the path of what exists at `path` under a name in other letter case; None where the name is right."""
        if not self._exists(path):
            return None
        folder, own_name = posixpath.split(path)
        if folder not in self._names:
            self._names[folder] = {composed(name): name for name in os.listdir(self._full(folder))}
        names = self._names[folder]
        if composed(own_name) in names:
            return None
        form = folded(own_name)
        return next((posixpath.join(folder, name) for name in names.values() if folded(name) == form), None)

    def move(self, path: str) -> None:
        """Moves a staged file into place."""
        self.stager.path = path
        former = temporary_path(path, "former")
        other = self._other_spelling(path)
        if other is not None:  # where it is replaced, some file systems keep its name
            self._previous.append((other, former))
            os.replace(self._full(other), self._full(former))
        former_kept = other is None and _keep(self._full(path), self._full(former))
        self._previous.append((path, former if former_kept else None))
        os.replace(self._full(self.stager.temporary[path]), self._full(path))
        self._moved.add(path)

    def remove(self, path: str) -> None:
        """Removes a file; until the end of the commit it has another name."""
        self.stager.path = path
        path = self._as_spelled(path)
        folder = posixpath.dirname(path)
        if not self._exists(folder):
            return
        self.stager.refuse_linked_folder(folder)
        if status_to_replace(self._full(path)) is None:
            return
        former = temporary_path(path, "former")
        self._previous.append((path, former))
        os.replace(self._full(path), self._full(former))

    def roll_back(self) -> list[str]:
        """Restores every file that was changed, each by a rename; returns the paths that could not be restored."""
        not_restored: list[str] = []
        staged = self.stager.temporary
        waiting = {path for path, temporary in staged.items() if self._exists(temporary)}
        for path, former in reversed(self._previous):
            try:
                if path in waiting and self._exists(path):  # it was not yet replaced, and perhaps cannot be
                    continue
                if former is None:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(self._full(path))
                elif self._exists(former):
                    os.replace(self._full(former), self._full(path))
                elif path in staged or not self._exists(path):  # another build removed it
                    not_restored.append(path)
            except OSError:
                not_restored.append(path)
        for folder, renamed in reversed(self._renamed):
            try:
                if self._exists(renamed):
                    os.rename(self._full(renamed), self._full(folder))
            except OSError:
                not_restored.append(folder)
        return not_restored

    def clean_up(self, removed: Sequence[str]) -> None:
        """Removes temporary files, and folders that are empty now.

        What cannot be removed is ignored: the next build removes temporary files, and empty folders do no harm.
        """
        for _, former in self._previous:
            if former is not None:
                with contextlib.suppress(OSError):
                    os.unlink(self._full(former))
        self.stager.discard(self._moved)
        seen = {""}
        left = [folder for path in removed for folder in _unseen_parents(path, seen)]
        self.stager.remove_empty(sorted(left, reverse=True))


def _unseen_parents(path: str, seen: set[str]) -> Iterator[str]:
    """Yields the folders above a path that were not seen before, inner ones first, and adds them."""
    folder = posixpath.dirname(path)
    while folder not in seen:
        seen.add(folder)
        yield folder
        folder = posixpath.dirname(folder)


def _restored_hint(not_restored: Sequence[str]) -> str:
    """Returns a hint that says whether all files were restored."""
    if not not_restored:
        return UNCHANGED_HINT
    paths = ", ".join(f'"{path}"' for path in not_restored)
    return f'{paths} could not be restored: run "cacheunit build" again'


def remove_leftovers(root: Path, folder: str) -> None:
    """Removes temporary files that a killed commit left below `folder` and beside the lock, and folders of them alone.

    What cannot be listed or removed is ignored: it does no harm, and the next build tries again.
    """
    emptied: list[str] = []
    with contextlib.suppress(OSError):
        _unlink(f"{root}/{name}" for name in os.listdir(root) if name.endswith(TEMPORARY))
        for parent, folders, files in os.walk(root / folder):
            folders[:] = [name for name in folders if not name.startswith(".")]  # of something else, as `.git`
            temporary = [name for name in files if name.endswith(TEMPORARY)]
            _unlink(f"{parent}/{name}" for name in temporary)
            if temporary and len(temporary) == len(files):
                emptied.append(parent)
    _remove_folders(reversed(emptied))


def remove_empty_folders(root: Path, folder: str) -> None:
    """Removes the empty folders in a folder, and then the folder if it is empty; for a folder that a build created."""
    _remove_folders(parent for parent, _, _ in os.walk(root / folder, topdown=False))


def _unlink(paths: Iterable[str]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _remove_folders(folders: Iterable[str]) -> None:
    for folder in folders:
        with contextlib.suppress(OSError):  # it is not empty
            os.rmdir(folder)


def _keep(file: str, former: str) -> bool:
    """Keeps a file under a second name, for a rollback; returns whether the file exists."""
    if not os.path.lexists(file):
        return False
    try:
        os.link(file, former, follow_symlinks=False)
    except (OSError, NotImplementedError):  # a file system without hard links
        if os.path.islink(file):
            os.replace(file, former)  # a copy would be of what it leads to
        else:
            with open(file, "rb") as handle:
                write_new(former, handle.read(), os.fstat(handle.fileno()))
    return True
