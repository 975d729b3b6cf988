"""Finds the files of a locked project, in a folder or in the data of a package, and verifies artifacts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.errors import CacheunitError, Fault, fail
from cacheunit_build.domain.file_names import LINE_ENDS_HINT, LOCK_FILE, SETTINGS_FILES
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.names import composed
from cacheunit_build.domain.settings_file import find_settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.resources.abc import Traversable


class IntegrityError(CacheunitError):
    """The bytes of an artifact differ from the locked ones; the message has the file and both fingerprints."""


def settings_table(root: Traversable) -> Mapping[str, Any]:
    """Returns the settings of the project, without validating them: the build has done that.

    Raises:
        CacheunitError: a file of settings is not TOML, or two files have settings.
    """
    pyproject, own = (_read(root.joinpath(name)) for name in SETTINGS_FILES)
    document, _ = find_settings(pyproject, own)
    table: Mapping[str, Any] = document.value
    if not isinstance(table, dict):
        raise fail('"tool.cacheunit" must be a table', path=document.path)
    return table


def _read(file: Traversable) -> bytes | None:
    """Returns the bytes of a file; None if it does not exist."""
    try:
        return file.read_bytes() if file.is_file() else None
    except OSError as error:
        raise fail(f"the file cannot be read: {error.strerror}", path=str(file)) from None


def folder_below(folder: Traversable, path: str) -> Traversable:
    """Returns a folder below another one, by the names on disk: in any normal form, and in UTF-8 in every locale."""
    for part in path.split("/"):
        child = folder.joinpath(os.fsdecode(part.encode()) if isinstance(folder, Path) else part)
        if not part.isascii() and folder.is_dir() and not child.is_dir():
            others = (other for other in folder.iterdir() if composed(_name(other)) == composed(part))
            child = next(others, child)
        folder = child
    return folder


def _name(file: Traversable) -> str:
    """Returns the name of a file, which is UTF-8 on disk whatever the locale says."""
    return os.fsencode(file.name).decode("utf-8", "replace") if isinstance(file, Path) else file.name


def nearest_root(start: Path) -> Traversable:
    """Returns the nearest folder with a lock: `start`, or one above it.

    Raises:
        CacheunitError: there is none.
    """
    for folder in (start, *start.resolve().parents):
        if (folder / LOCK_FILE).is_file():
            return folder
    raise fail(f"there is no {LOCK_FILE} in {start} or above", hint='run "cacheunit build"')


def as_root(folder: Traversable) -> Traversable:
    """Returns a folder that has a lock.

    Raises:
        CacheunitError: it has none.
    """
    if not folder.joinpath(LOCK_FILE).is_file():
        raise fail(f"there is no {LOCK_FILE} in {folder}", hint='run "cacheunit build"')
    return folder


def lock_bytes(path: Traversable) -> bytes:
    """Returns the bytes of a lock.

    Raises:
        CacheunitError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise fail(f"the lock cannot be read: {error.strerror}", path=str(path)) from None


def verified_bytes(path: Traversable, expected: str) -> bytes:
    """Returns the bytes of an artifact's file.

    Raises:
        IntegrityError: they do not have the expected fingerprint.
        CacheunitError: the file cannot be read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        message = f"the artifact cannot be read: {error.strerror}"
        raise fail(message, path=str(path), hint='run "cacheunit build"') from None
    found = fingerprint(data)
    if found != expected:
        message = f"the artifact does not match the lock: expected {expected}, found {found}"
        hint = '"cacheunit check" shows what differs'
        if fingerprint(data.replace(b"\r\n", b"\n")) == expected:
            message += ", since its line ends were converted to CRLF"
            hint = LINE_ENDS_HINT
        raise IntegrityError(Fault(message=message, path=str(path), hint=hint))
    return data
