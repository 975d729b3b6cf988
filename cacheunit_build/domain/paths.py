"""Paths relative to the project root, in one normal form: forward slashes, no `.` or `..`, composed characters."""

from __future__ import annotations

import re
import unicodedata

from cacheunit_build.domain.errors import fail

_DRIVE = re.compile(r"^[A-Za-z]:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def normal_path(text: str) -> str:
    """Returns a path below the project root in normal form: `./a//b` as `a/b`.

    Raises:
        CacheunitError: it is empty or absolute, has a backslash or a control character, or leaves the root by `..`.
    """
    if text.startswith("/") or _DRIVE.match(text):
        raise fail(f'path "{text}" is absolute', hint="write it relative to the project root")
    if "\\" in text:
        raise fail(f'path "{text}" has a backslash', hint="write it with forward slashes on every system")
    if _CONTROL.search(text):
        raise fail(f"path {text!r} has a control character")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise fail(f'path "{text}" leaves its folder by ".."', hint="every source must be below the project root")
    if not parts:
        raise fail(f'path "{text}" names no file')
    return unicodedata.normalize("NFC", "/".join(parts))
