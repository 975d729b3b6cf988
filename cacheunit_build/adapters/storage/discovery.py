"""Finds the root of a project, and the files below a folder. Imports next to nothing, since the fast path needs it."""

from __future__ import annotations

import os

from cacheunit_build.domain.file_names import LOCK_FILE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class LinkedFolderError(Exception):
    """A folder is a link, and so would be read twice or from elsewhere; the argument is its path."""


def find_root(start: str) -> str:
    """Returns the nearest folder from `start` upwards with settings, a lock or `prefixes/`; `start` where none has."""
    folder = start
    while True:
        if _is_root(folder):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return start
        folder = parent


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
        with open(pyproject, "rb") as handle:
            return b"[tool.cacheunit" in handle.read()
    except OSError:
        return False


def files_below(root: str, folder: str) -> list[str]:
    """Returns the paths of all files below `folder`, in code point order; names that start with a dot are left out.

    Args:
        root: a folder, with a slash at its end.
        folder: a folder, relative to `root`, as the paths are.

    Raises:
        LinkedFolderError: a folder is a link.
    """
    files: list[str] = []
    folders = [folder]
    while folders:
        parent = folders.pop()
        try:
            entries = list(os.scandir(f"{root}{parent}"))
        except OSError:
            continue
        for entry in entries:
            if entry.name.startswith("."):
                continue
            path = f"{parent}/{entry.name}"
            if not _is_folder(entry):
                files.append(path)
            elif entry.is_symlink():
                raise LinkedFolderError(_composed(path))
            else:
                folders.append(path)
    return sorted(map(_composed, files))


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


def _composed(path: str) -> str:
    """Returns a path with composed characters, in which some file systems list names decomposed."""
    if path.isascii():
        return path
    import unicodedata

    return unicodedata.normalize("NFC", path)
