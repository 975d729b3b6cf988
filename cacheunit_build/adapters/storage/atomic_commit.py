"""Writes the files of a build: all of them, and last the lock; or none, if something fails on the way.

Each file is first written whole to a temporary file beside it, then moved into place. What the lock names is on disk
before the lock is, so that after a kill or a power cut every file is whole, and the lock either names what is there, or
is the old one: then `check` fails, and the next `build` completes the work.
"""

from __future__ import annotations

import contextlib
import os
import stat
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from cacheunit_build.adapters.storage.durability import sync_files, sync_folder
from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.file_names import LOCK_FILE, TEMPORARY
from cacheunit_build.domain.names import composed, folded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def commit(root: Path, files: Mapping[str, bytes], removed: Sequence[str], lock: bytes | None) -> None:
    """Writes files, removes others, and writes the lock last; all of it is on disk when this returns.

    Args:
        root: the project root; paths are relative to it.
        files: the bytes of each file to write.
        removed: the files to remove, with the folders that are then empty.
        lock: the bytes of the lock; None to leave it alone.

    Raises:
        CacheunitError: a file cannot be written or removed, is read-only, or would be reached through a link. What was
            changed before is restored; the hint names the files for which that failed.
    """
    work = _Commit(root)
    try:
        for path, data in files.items():
            work.stage(path, data)
        if lock is not None:
            work.stage(LOCK_FILE, lock)
        work.sync_staged()
        for path in removed:  # first, since one may have the name of a file to write in other letter case
            work.remove(path)
        for path in files:
            work.move(path)
        if lock is not None:
            work.sync_moved()
            work.move(LOCK_FILE)
            sync_folder(root)
    except OSError as error:
        message = f'cannot write "{work.path}": {error.strerror or error}'
        raise fail(message, hint=_restored_hint(work.roll_back())) from None
    except BaseException:
        not_restored = work.roll_back()
        if not_restored:
            raise fail(f'interrupted at "{work.path}"', hint=_restored_hint(not_restored)) from None
        raise
    finally:
        work.clean_up(removed)


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
        self._checked_folders: set[Path] = {root}  # that exist, and are not reached through a link
        self._previous: list[tuple[Path, Path | None]] = []  # each file that was changed, and the former one
        self._renamed: list[tuple[Path, Path]] = []  # former and new path of each folder, by each rename
        self._spelled: dict[Path, Path] = {}  # former and new path of each folder
        self._names: dict[Path, dict[str, str]] = {}  # folder -> composed name -> name, before the commit

    def stage(self, path: str, data: bytes) -> None:
        """Writes the new content of a file to a temporary file beside it, with the mode of the former file.

        Raises:
            OSError: it cannot be written, is read-only, or is a folder.
            CacheunitError: it would be reached through a link.
        """
        self.path = path
        goal = self._root / path
        if goal.parent not in self._checked_folders:
            self._create_folders(goal.parent)
        former = _status_to_replace(goal)
        temporary = self._temporary(goal)
        self._staged[path] = temporary
        _write(temporary, data, former)

    def _temporary(self, goal: Path, kind: str = "new") -> Path:
        """Returns the path of a temporary file for a file; the process id keeps builds apart."""
        return goal.with_name(f".{goal.name}.{os.getpid()}.{kind}{TEMPORARY}")

    def _create_folders(self, folder: Path) -> None:
        """Creates a folder and its parents; none of those that exist may be a link."""
        # For build/a/b/x.txt, where only build/ exists: missing are build/a/b and build/a.
        missing = list(takewhile(self._is_missing, (folder, *folder.parents)))
        existing = missing[-1].parent if missing else folder
        unchecked = list(takewhile(lambda item: item not in self._checked_folders, (existing, *existing.parents)))
        self._refuse_links(existing)
        for unchecked_folder in reversed(unchecked):
            self._spell(unchecked_folder)
        for created in reversed(missing):
            self._created_folders.append(created)
            created.mkdir()
            self._checked_folders.add(created)

    def _spell(self, folder: Path) -> None:
        """Renames a folder whose name on disk is in other letter case, where the file system takes both for one."""
        former = self._other_spelling(folder)
        if former is not None:
            between = self._temporary(folder, "folder")  # some file systems ignore a rename to other letter case
            for old, new in ((former, between), (between, folder)):
                self._renamed.append((old, new))
                old.rename(new)
            self._spelled[former] = folder

    def _as_spelled(self, path: str) -> Path:
        """Returns the full path of a file with the present names of folders; by former ones the system may err."""
        found = self._root
        for part in path.split("/"):
            found = self._spelled.get(found / part, found / part)
        return found

    def _other_spelling(self, path: Path) -> Path | None:
        """Returns the path of what exists at `path` under a name in other letter case; None where the name is right."""
        if path.parent not in self._names:
            self._names[path.parent] = {composed(name): name for name in os.listdir(path.parent)}  # noqa: PTH208 - names only
        names = self._names[path.parent]
        if composed(path.name) in names or not os.path.lexists(path):
            return None
        form = folded(path.name)
        return next((path.with_name(name) for name in names.values() if folded(name) == form), None)

    def _is_missing(self, folder: Path) -> bool:
        return folder not in self._checked_folders and not os.path.lexists(folder)

    def _refuse_links(self, folder: Path) -> None:
        """Raises a fault if a folder, or one above it in the project, is a link."""
        for parent in takewhile(lambda item: item not in self._checked_folders, (folder, *folder.parents)):
            if parent.is_symlink():
                link = parent.relative_to(self._root).as_posix()
                raise fail(f'"{self.path}" would be reached through the link "{link}"', hint="make it a folder")
            self._checked_folders.add(parent)

    def sync_staged(self) -> None:
        """Returns when the new contents are on disk."""
        sync_files(self._staged.values())

    def sync_moved(self) -> None:
        """Returns when the files that were moved into place are on disk under their names."""
        sync_files([self._root / path for path in self._staged if path != LOCK_FILE])

    def move(self, path: str) -> None:
        """Moves a staged file into place."""
        self.path = path
        goal = self._root / path
        former = self._temporary(goal, "former")
        other = self._other_spelling(goal)
        if other is not None:  # where it is replaced, some file systems keep its name
            self._previous.append((other, former))
            other.replace(former)
        former_kept = other is None and _keep(goal, former)
        self._previous.append((goal, former if former_kept else None))
        self._staged[path].replace(goal)

    def remove(self, path: str) -> None:
        """Removes a file; until the end of the commit it has another name."""
        self.path = path
        goal = self._as_spelled(path)
        if not os.path.lexists(goal.parent):
            return
        self._refuse_links(goal.parent)
        if _status_to_replace(goal) is None:
            return
        former = self._temporary(goal, "former")
        self._previous.append((goal, former))
        goal.replace(former)

    def roll_back(self) -> list[str]:
        """Restores every file that was changed, each by a rename; returns the paths that could not be restored."""
        not_restored: list[Path] = []
        staged = {self._root / path: temporary for path, temporary in self._staged.items()}
        waiting = {path for path, temporary in staged.items() if os.path.lexists(temporary)}
        for path, former in reversed(self._previous):
            try:
                if path in waiting and os.path.lexists(path):  # it was not yet replaced, and perhaps cannot be
                    continue
                if former is None:
                    path.unlink(missing_ok=True)
                elif os.path.lexists(former):
                    former.replace(path)
                elif path in staged or not os.path.lexists(path):  # another build removed it
                    not_restored.append(path)
            except OSError:
                not_restored.append(path)
        for folder, renamed in reversed(self._renamed):
            try:
                if os.path.lexists(renamed):
                    renamed.rename(folder)
            except OSError:
                not_restored.append(folder)
        return [path.relative_to(self._root).as_posix() for path in not_restored]

    def clean_up(self, removed: Sequence[str]) -> None:
        """Removes temporary files, and folders that are empty now.

        What cannot be removed is ignored: the next build removes temporary files, and empty folders do no harm.
        """
        temporary = [*self._staged.values(), *(former for _, former in self._previous if former is not None)]
        for path in temporary:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        left = {folder for path in removed for folder in (self._root / path).parents if folder != self._root}
        left = {folder for folder in left if folder.is_relative_to(self._root)}
        for folder in (*reversed(self._created_folders), *sorted(left, reverse=True)):
            with contextlib.suppress(OSError):  # it is not empty
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


def _status_to_replace(file: Path) -> os.stat_result | None:
    """Returns the status of a file that is about to be replaced; None where there is none.

    Raises:
        OSError: it is a folder, or its mode says that it is not to be changed.
    """
    try:
        status = file.lstat()
    except FileNotFoundError:
        return None
    # Moving a file onto a folder would fail only after other files have been moved.
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(21, "is a folder", str(file))
    if stat.S_ISREG(status.st_mode) and not status.st_mode & stat.S_IWUSR:
        raise PermissionError(13, "is read-only", str(file))
    return status


def _write(file: Path, data: bytes, former: os.stat_result | None) -> None:
    """Writes a new file, never through a link, with the mode and the group of the former one."""
    file.unlink(missing_ok=True)
    with file.open("xb") as handle:
        handle.write(data)
        if former is not None and stat.S_ISREG(former.st_mode) and hasattr(os, "fchmod"):
            # A file system without modes gives all files the same one, and may refuse to set it.
            if os.fstat(handle.fileno()).st_mode != former.st_mode:
                os.fchmod(handle.fileno(), stat.S_IMODE(former.st_mode))
            with contextlib.suppress(OSError):  # only a member of the group can give it
                os.fchown(handle.fileno(), -1, former.st_gid)


def _keep(file: Path, former: Path) -> bool:
    """Keeps a file under a second name, for a rollback; returns whether the file exists."""
    if not os.path.lexists(file):
        return False
    try:
        os.link(file, former, follow_symlinks=False)
    except (OSError, NotImplementedError):  # a file system without hard links
        if file.is_symlink():
            file.replace(former)  # a copy would be of what it leads to
        else:
            _write(former, file.read_bytes(), file.stat())
    return True
