"""Writes the new bytes of files to temporary files beside them, so that moving them into place is all that remains.

Several processes may do so at once, in the same folders.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import stat
from io import FileIO
from typing import TYPE_CHECKING

from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.file_names import TEMPORARY
from cacheunit_build.domain.staged_files import StagedFiles

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from cacheunit_build.domain.errors import CacheunitError

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)

UNCHANGED_HINT = "everything is as it was before"


class Stager:
    """Stages files of one project. Paths are relative to its root.

    Args:
        root: the root of the project.

    Attributes:
        temporary: path -> the path of its temporary file.
        folders: the folders that were created, parents first.
        path: the file that is being worked on.
    """

    def __init__(self, root: str) -> None:
        self.temporary: dict[str, str] = {}
        self.folders: list[str] = []
        self.path = ""
        self._root = root
        self._checked = {""}  # folders that exist, and are not links; "" is the root

    @property
    def staged(self) -> StagedFiles:
        """What was staged so far."""
        return StagedFiles(temporary=dict(self.temporary), folders=tuple(self.folders))

    def adopt(self, staged: StagedFiles) -> None:
        """Takes over what was staged before, perhaps by another process."""
        self.temporary |= staged.temporary
        self.folders += staged.folders

    def stage(self, path: str, data: bytes) -> None:
        """Writes the new bytes of a file to a temporary file beside it, with the mode of the former file.

        Raises:
            OSError: it cannot be written, is read-only, or is a folder.
            CacheunitError: it would be reached through a link.
        """
        self.path = path
        self.create_folder(posixpath.dirname(path))
        former = status_to_replace(f"{self._root}/{path}")
        temporary = temporary_path(path, "new")
        self.temporary[path] = temporary
        write_new(f"{self._root}/{temporary}", data, former)

    def create_folder(self, folder: str) -> None:
        """Creates a folder and its parents; none of those that exist may be a link.

        Raises:
            OSError: it cannot be created.
            CacheunitError: it would be reached through a link.
        """
        if folder in self._checked:
            return
        self.create_folder(posixpath.dirname(folder))
        full_path = f"{self._root}/{folder}"
        if not os.path.lexists(full_path):
            with contextlib.suppress(FileExistsError):  # another worker was faster
                os.mkdir(full_path)
                self.folders.append(folder)
        self._refuse_link(folder, full_path)
        self._checked.add(folder)

    def refuse_linked_folder(self, folder: str) -> None:
        """Raises a fault if an existing folder, or one above it in the project, is a link."""
        if folder not in self._checked:
            self.refuse_linked_folder(posixpath.dirname(folder))
            self._refuse_link(folder, f"{self._root}/{folder}")
            self._checked.add(folder)

    def _refuse_link(self, folder: str, full_path: str) -> None:
        if os.path.islink(full_path):
            raise fail(f'"{self.path}" would be reached through the link "{folder}"', hint="make it a folder")

    def discard(self, moved: Collection[str] = ()) -> None:
        """Removes the temporary files, and the folders that were created for them if they are empty.

        What cannot be removed is ignored: the next build removes temporary files, and empty folders do no harm.

        Args:
            moved: the files that have no temporary file any more, since they are in place.
        """
        for path, temporary in self.temporary.items():
            if path not in moved:
                with contextlib.suppress(OSError):
                    os.unlink(f"{self._root}/{temporary}")
        # Several processes may have created them: inner folders have the longer paths.
        self.remove_empty(sorted(self.folders, key=len, reverse=True))

    def remove_empty(self, folders: Iterable[str]) -> None:
        """Removes those of some folders that are empty; inner ones must come first."""
        for folder in folders:
            with contextlib.suppress(OSError):
                os.rmdir(f"{self._root}/{folder}")


def stage_files(root: str, files: Mapping[str, bytes]) -> StagedFiles:
    """Stages files; or none, if something fails on the way.

    Args:
        root: the root of the project.
        files: the new bytes of each file, by its path relative to the root.

    Raises:
        CacheunitError: one of them cannot be written.
    """
    stager = Stager(root)
    try:
        for path, data in files.items():
            stager.stage(path, data)
    except OSError as error:
        stager.discard()
        raise unwritable(stager.path, error, UNCHANGED_HINT) from None
    except BaseException:
        stager.discard()
        raise
    return stager.staged


def unwritable(path: str, error: OSError, hint: str) -> CacheunitError:
    """Returns why a file cannot be written, as a fault."""
    return fail(f'cannot write "{path}": {error.strerror or error}', hint=hint)


def temporary_path(path: str, kind: str) -> str:
    """Returns the path of a temporary file beside a file or folder; the process id keeps builds apart.

    With the kind `new`, build/a/x.txt -> build/a/.x.txt.4711.new.cacheunit-tmp.
    """
    folder, name = posixpath.split(path)
    return posixpath.join(folder, f".{name}.{os.getpid()}.{kind}{TEMPORARY}")


def status_to_replace(file: str) -> os.stat_result | None:
    """Returns the status of a file that is about to be replaced; None where there is none.

    Raises:
        OSError: it is a folder, or its mode says that it is not to be changed.
    """
    try:
        status = os.lstat(file)
    except FileNotFoundError:
        return None
    # Moving a file onto a folder would fail only after other files have been moved.
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(21, "is a folder", file)
    if stat.S_ISREG(status.st_mode) and not status.st_mode & stat.S_IWUSR:
        raise PermissionError(13, "is read-only", file)
    return status


def write_new(file: str, data: bytes, former: os.stat_result | None) -> None:
    """Writes a new file, never through a link, with the mode and the group of the former one."""
    with FileIO(_created(file), "w") as handle:
        view = memoryview(data)
        while view:
            view = view[handle.write(view) :]
        if former is not None and stat.S_ISREG(former.st_mode) and hasattr(os, "fchmod"):
            # A file system without modes gives all files the same one, and may refuse to set it.
            if os.fstat(handle.fileno()).st_mode != former.st_mode:
                os.fchmod(handle.fileno(), stat.S_IMODE(former.st_mode))
            with contextlib.suppress(OSError):  # only a member of the group can give it
                os.fchown(handle.fileno(), -1, former.st_gid)


def _created(file: str) -> int:
    """Creates a file, and returns a descriptor to write it by."""
    try:
        return os.open(file, _CREATE, 0o666)
    except FileExistsError:  # left by a killed build whose process had the same id
        os.unlink(file)
        return os.open(file, _CREATE, 0o666)
