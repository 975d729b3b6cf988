"""Paths relative to the project root, in one normal form: forward slashes, no `.` or `..`, composed characters."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.names import composed, is_git_folder, printable_name

if TYPE_CHECKING:
    from collections.abc import Callable

LINKED_FOLDER = "a link to a folder is not followed"
LINKED_FOLDER_HINT = "replace the link by the folder itself"

_DRIVE = re.compile(r"^[A-Za-z]:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_MAX_LINKS = 40
"""How many links may follow one another, as on Linux."""


@lru_cache(maxsize=4096)
def normal_path(text: str) -> str:
    """Returns a path below the project root in normal form: `./a//b` as `a/b`.

    Raises:
        CacheunitError: it is empty or absolute, has a backslash or a control character, leaves the root by `..`, or
            leads into `.git`.
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
    if any(map(is_git_folder, parts)):
        raise fail(f'path "{text}" leads into the folder of git', hint="keep sources and artifacts outside of .git")
    if not parts:
        raise fail(f'path "{text}" names no file')
    return composed("/".join(parts))


def follow_links(path: str, link_target: Callable[[str], str | None]) -> str:
    """Returns the path of the file that a path leads to, through links to files inside of the project.

    Args:
        path: the path of a file, relative to the root.
        link_target: returns where the link at a path points to, relative to its folder; None for what is not a link.

    Raises:
        CacheunitError: a folder on the way is a link, the file is outside of the project, or links lead in a circle.
    """
    target = path
    for _ in range(_MAX_LINKS):
        parts: list[str] = []
        pending = target.split("/")
        while len(pending) > 1:
            part = pending.pop(0)
            if part == ".." and not parts:
                raise _leads_out(path)
            parts = parts[:-1] if part == ".." else [*parts, part] if part not in ("", ".") else parts
            if parts and link_target("/".join(parts)) is not None:
                raise fail(LINKED_FOLDER, path=printable_name("/".join(parts)), hint=LINKED_FOLDER_HINT)
        if pending[0] in ("", ".", ".."):  # a folder, in which there is nothing to read
            return path
        here = "/".join([*parts, pending[0]])
        following = link_target(here)
        if following is None:
            return here
        if following.startswith("/"):
            raise _leads_out(path)
        target = "/".join([*parts, following])
    raise fail(f'"{path}" is a link to itself')


def _leads_out(path: str) -> Exception:
    message = f'"{printable_name(path)}" leads out of the project through a link'
    return fail(message, hint="copy the file into the project")
