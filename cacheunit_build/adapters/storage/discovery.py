"""A project's folders: where its root is, and which files lie below one. Loads next to nothing."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

CACHE = ".cacheunit"
"""The local cache, relative to the root."""

_LOCK = "cacheunit.lock"


class LinkedFolderError(Exception):
    """A folder is a link, and so would be read twice or from elsewhere; its argument is the path."""


def find_root(start: str) -> str:
    """The nearest folder from `start` upwards that has settings or manifests; `start` where none has."""
    folder = start
    while True:
        if _is_root(folder):
            return folder
        above = os.path.dirname(folder)  # noqa: PTH120 - pathlib takes as long to load as all this
        if above == folder:
            return start
        folder = above


def _is_root(folder: str) -> bool:
    inside = folder if folder.endswith(os.sep) else f"{folder}{os.sep}"
    if any(os.path.isfile(inside + name) for name in ("cacheunit.toml", _LOCK)):  # noqa: PTH113 - as above
        return True
    if os.path.isdir(f"{inside}prefixes"):  # noqa: PTH112 - as above
        return True
    pyproject = f"{inside}pyproject.toml"
    try:
        if not os.path.isfile(pyproject):  # noqa: PTH113 - as above
            return False
        with open(pyproject, "rb") as handle:  # noqa: PTH123 - as above
            return b"[tool.cacheunit" in handle.read()
    except OSError:
        return False


def files_below(root: str, folder: str) -> list[str]:
    """Every file below `folder`, by code point, relative to `root`, which ends in a slash; dot names are passed over.

    Raises:
        LinkedFolderError: a folder is a link.
    """
    found: list[str] = []
    waiting = [folder]
    while waiting:
        parent = waiting.pop()
        try:
            entries = list(os.scandir(f"{root}{parent}"))
        except OSError:
            continue
        for entry in entries:
            if entry.name.startswith("."):
                continue
            path = f"{parent}/{entry.name}"
            if not _is_folder(entry):
                found.append(path)
            elif entry.is_symlink():
                raise LinkedFolderError(_composed(path))
            else:
                waiting.append(path)
    return sorted(map(_composed, found))


def folders_above(files: Iterable[str]) -> set[str]:
    """The folders on the way from the root to each file."""
    found: set[str] = set()
    above = {file.rpartition("/")[0] for file in files} - {""}
    while above:
        found |= above
        above = {folder.rpartition("/")[0] for folder in above} - found - {""}
    return found


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _composed(path: str) -> str:
    if path.isascii():
        return path
    import unicodedata

    return unicodedata.normalize("NFC", path)
