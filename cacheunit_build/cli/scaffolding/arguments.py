"""Finds the files that the arguments of `init` name, and the files in the folders that they name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.domain.errors import fail

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

_OTHER_FOLDERS = frozenset(("node_modules", "__pycache__", "venv", "site-packages"))
"""Folders of other programs. Hidden folders are not searched either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFile:
    """A file that an argument names, or that is in a folder that one names.

    Attributes:
        path: the absolute path.
        shown: the path in messages.
        parts: the names of the folders and the file from which the prefix is named.
        key: the expression behind `#`; None where there is none.
        in_folder: whether only its folder was named.
    """

    path: Path
    shown: str
    parts: tuple[str, ...]
    key: str | None = None
    in_folder: bool = False


def named_files(folder: Path, arguments: Collection[Path], skipped: Collection[Path]) -> Iterator[NamedFile]:
    """Yields each file once, in the order of the arguments, and in a folder by path.

    Args:
        folder: the folder to which arguments are relative.
        arguments: what the user typed: files, folders, and `FILE#KEY`.
        skipped: absolute paths of folders that are left out in other folders.

    Raises:
        CacheunitError: a folder cannot be read.
    """
    seen: set[tuple[Path, str | None]] = set()
    for argument in arguments:
        path, key = _split(folder, argument)
        shown = str(argument)[: -len(key) - 1] if key is not None else str(argument)
        if key is None and path.is_dir():
            files = _files_in(path, shown, skipped)
        else:
            files = iter([NamedFile(path=path, shown=shown.replace(os.sep, "/"), parts=(path.name,), key=key)])
        for file in files:
            identity = (file.path, file.key)
            if identity not in seen:
                seen.add(identity)
                yield file


def _split(folder: Path, argument: Path) -> tuple[Path, str | None]:
    """Returns the absolute path of an argument, and the key behind the first `#` that follows the name of a file."""
    path = _absolute(folder, str(argument))
    if path.exists() or "#" not in str(argument):
        return path, None
    text = str(argument)
    hashes = [index for index, character in enumerate(text) if character == "#"]
    index = next((index for index in hashes if _absolute(folder, text[:index]).is_file()), hashes[0])
    return _absolute(folder, text[:index]), text[index + 1 :]


def _absolute(folder: Path, text: str) -> Path:
    """Returns the absolute path of a folder, or of a file, without `.`, `..` and links in front of its name."""
    path = folder / text
    return path.resolve() if path.is_dir() else path.parent.resolve() / path.name


def _files_in(folder: Path, shown: str, skipped: Collection[Path]) -> Iterator[NamedFile]:
    """Yields the files in a folder and below, and links to folders, but nothing that is hidden or of other programs."""

    def refuse(error: OSError) -> None:
        raise fail(f'cannot read "{error.filename}": {error.strerror}') from None

    start = shown.replace(os.sep, "/").rstrip("/")
    prefix = "" if start in {"", "."} else f"{start}/"
    for parent, folders, names in os.walk(folder, onerror=refuse):
        here = type(folder)(parent)
        folders[:] = sorted(name for name in folders if _is_searched(here / name, skipped))
        parts = here.relative_to(folder).parts
        linked = [name for name in folders if (here / name).is_symlink()]
        for name in sorted([*names, *linked]):
            if not name.startswith("."):
                path = "/".join((*parts, name))
                yield NamedFile(path=here / name, shown=f"{prefix}{path}", parts=(*parts, name), in_folder=True)


def _is_searched(folder: Path, skipped: Collection[Path]) -> bool:
    """Returns whether a folder may have prompts."""
    name = folder.name
    is_other = name.startswith(".") or name in _OTHER_FOLDERS or folder in skipped or (folder / "pyvenv.cfg").exists()
    return not is_other
