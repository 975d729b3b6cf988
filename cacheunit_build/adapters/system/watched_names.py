"""The names of watched files: which are an editor's own, what links lead to, and how they are spelled on disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cacheunit_build.adapters.storage.discovery import RefusedPathError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cacheunit_build.adapters.storage.discovery import DiskNames

_MAX_LINKS = 40  # the bound that Linux sets for the symbolic links in one path
_EDITOR_FILE_ENDINGS = ("~", ".swp", ".swo", ".swx", ".tmp", ".bak", "4913", "#")  # Vim tests a folder with "4913"


def on_disk(names: DiskNames, path: str) -> str:
    """Returns a path with the names on disk; as it is, where they are unclear, which the build reports."""
    try:
        return names.on_disk(path)
    except RefusedPathError:
        return path


def walk_visible(top: str) -> Iterator[tuple[str, list[str]]]:
    """Yields each folder from `top` down with the names of its files; hidden folders are left out."""
    for parent, folders, files in os.walk(top):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield parent, files


def symlink_folders(path: Path) -> set[Path]:
    """Returns the folders of the links and the file that a symbolic link leads to; empty if it is no link.

    For a -> links/b -> ../files/c: the folders "links" and "files".
    """
    folders: set[Path] = set()
    for _ in range(_MAX_LINKS):
        try:
            path = path.parent / path.readlink()
        except OSError:  # not a link, or not any more: an editor may be replacing it at this moment
            break
        folders.add(path.parent.resolve())
    return folders


def is_editor_file(name: str) -> bool:
    """Returns whether a file name is one that editors use for swap, backup and lock files, or is hidden."""
    return name.startswith((".", "#")) or name.endswith(_EDITOR_FILE_ENDINGS)
