"""Finds the root of a project, the files below a folder, and the names that files have on disk.

Imports next to nothing, since the fast path needs it.
"""

from __future__ import annotations

import os
from stat import S_ISVTX, S_IWOTH

from cacheunit_build.adapters.storage.file_stat import read_regular_file
from cacheunit_build.domain.file_names import LOCK_FILE
from cacheunit_build.domain.names import composed, is_utf8, printable_name, same_composed, twins

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class RefusedPathError(Exception):
    """A file or folder that is not read, since it cannot be, or since another system would find another one or none.

    Attributes:
        path: its path, in printable form.
        message: why it is refused.
        hint: what would help.
    """

    def __init__(self, path: str, message: str, hint: str | None) -> None:
        super().__init__(path, message, hint)
        self.path, self.message, self.hint = printable_name(path), message, hint


def find_root(start: str) -> str:
    """Returns the nearest folder from `start` upwards with settings, a lock or `prefixes/`; `start` where none has.

    What is in a folder that all users share, such as /tmp, is not taken for the project of a folder below it.
    """
    folder = start
    while True:
        if (folder == start or not _is_shared(folder)) and _is_root(folder):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return start
        folder = parent


def _is_shared(folder: str) -> bool:
    """Returns whether all users may write to a folder, but not remove the files of others."""
    try:
        mode = os.stat(folder).st_mode
    except OSError:
        return False
    return bool(mode & S_ISVTX and mode & S_IWOTH)


def _is_root(folder: str) -> bool:
    inside = folder if folder.endswith(os.sep) else f"{folder}{os.sep}"
    if any(os.path.isfile(inside + name) for name in ("cacheunit.toml", LOCK_FILE)):
        return True
    if os.path.isdir(f"{inside}prefixes"):
        return True
    pyproject = f"{inside}pyproject.toml"
    try:
        if not os.path.isfile(pyproject):
            return False
        return b"[tool.cacheunit" in read_regular_file(pyproject)
    except OSError:
        return False


def files_below(root: str, folder: str) -> list[str]:
    """Returns the paths of all files below `folder`, in code point order; names that start with a dot are left out.

    Args:
        root: a folder, with a slash at its end.
        folder: a composed path relative to `root`, as the result is.

    Raises:
        RefusedPathError: a folder is a link or cannot be read, a name is not UTF-8, or two names differ only in their
            normal form.
    """
    files: list[str] = []
    names = DiskNames(root)
    folders = [names.on_disk(folder)]
    linked = names.linked_folder(f"{folders[0]}/")
    if linked is not None:
        raise linked_folder_error(linked)
    while folders:
        parent = folders.pop()
        try:
            entries = [entry for entry in os.scandir(f"{root}{parent}") if not entry.name.startswith(".")]
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise _not_listed(parent, error) from None
        not_ascii = [entry.name for entry in entries if not entry.name.isascii()]
        if not_ascii:
            refuse_unclear_names(parent, not_ascii)
        for entry in entries:
            path = f"{parent}/{entry.name}"
            if not _is_folder(entry):
                files.append(path)
            elif entry.is_symlink():
                raise linked_folder_error(path)
            else:
                folders.append(path)
    return sorted(map(composed, files))


def refuse_unclear_names(folder: str, names: Iterable[str]) -> None:
    """Refuses names in a folder that are not UTF-8, or that differ only in their normal form.

    Raises:
        RefusedPathError: there is such a name.
    """
    names = sorted(names)
    for name in names:
        if not is_utf8(name):
            raise RefusedPathError(_join(folder, name), "the name is not UTF-8", "rename it")
    forms = same_composed(names)
    if forms:
        message = f"two names differ only in their normal form: {' and '.join(forms[:2])}"
        raise RefusedPathError(composed(folder), message, "rename or remove one of them")


def _names_in_folder(root: str, folder: str) -> list[str]:
    """Returns the names in a folder; none where there is no such folder.

    Raises:
        RefusedPathError: it cannot be listed.
    """
    try:
        return os.listdir(f"{root}{folder}")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _not_listed(folder, error) from None


def _not_listed(folder: str, error: OSError) -> RefusedPathError:
    """Returns the error for a folder whose files are not known; to take it for empty would lose them."""
    message = f"the folder cannot be read: {error.strerror or error}"
    return RefusedPathError(composed(folder) or ".", message, "make it readable, or remove it")


def linked_folder_error(path: str) -> RefusedPathError:
    """Returns the error for a folder that is a link."""
    from cacheunit_build.domain.paths import LINKED_FOLDER, LINKED_FOLDER_HINT

    return RefusedPathError(composed(path), LINKED_FOLDER, LINKED_FOLDER_HINT)


class DiskNames:
    """Finds the names that files have on disk, where some systems list `e` and an accent for `\u00e9`.

    Folders are listed once, and only for names that are not ASCII.

    Args:
        root: the root of the project, with a slash at its end.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._listed: dict[str, dict[str, list[str]]] = {}
        self._links: dict[str, bool] = {"": False}

    def on_disk(self, path: str) -> str:
        """Returns a composed path with the names on disk; what does not exist keeps its composed name.

        Raises:
            RefusedPathError: two names on disk differ only in their normal form.
        """
        if path.isascii():
            return path
        found = ""
        for part in path.split("/"):
            names = [] if part.isascii() else self._names_in(found).get(part, [])
            if len(names) > 1:
                refuse_unclear_names(found, names)
            found = _join(found, names[0] if names else part)
        return found

    def linked_folder(self, path: str) -> str | None:
        """Returns the first folder above a file that is a link; None where none is. Each folder is looked at once."""
        folder = path.rpartition("/")[0]
        if folder not in self._links:
            above = self.linked_folder(folder)
            if above is not None:
                return above
            self._links[folder] = os.path.islink(f"{self._root}{folder}")
        return folder if self._links[folder] else None

    def link_target(self, path: str) -> str | None:
        """Returns where the link at a composed path points to, an absolute target inside of the root made relative.

        None for what is not a link, or does not exist.
        """
        on_disk = self.on_disk(path)
        try:
            target = os.readlink(f"{self._root}{on_disk}")
        except OSError:
            return None
        if os.path.isabs(target):
            folder, name = os.path.split(target)
            real = f"{os.path.realpath(folder)}/{name}"
            if real.startswith(self._root):
                target = os.path.relpath(real, os.path.dirname(f"{self._root}{on_disk}"))
        return composed(target.replace(os.sep, "/"))

    def twins(self, paths: Iterable[str]) -> dict[str, str]:
        """Returns path -> a path on disk that is another one here, and the same one on some systems."""
        return twins(paths, self._visible_names)

    def _visible_names(self, folder: str) -> list[str]:
        return list(filter(is_utf8, _names_in_folder(self._root, self.on_disk(folder))))

    def _names_in(self, folder: str) -> dict[str, list[str]]:
        """Returns composed name -> names on disk of what is in a folder."""
        if folder not in self._listed:
            names: dict[str, list[str]] = {}
            for name in _names_in_folder(self._root, folder):
                names.setdefault(composed(name), []).append(name)
            self._listed[folder] = names  # once it is complete, since other threads may look
        return self._listed[folder]


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def parent_folders(files: Iterable[str]) -> set[str]:
    """Returns the folders between the root and each file."""
    parents: set[str] = set()
    found = {file.rpartition("/")[0] for file in files} - {""}
    while found:
        parents |= found
        found = {folder.rpartition("/")[0] for folder in found} - parents - {""}
    return parents


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
