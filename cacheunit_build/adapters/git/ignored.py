"""Finds out which files git ignores, so that a clone would not have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.adapters.git.command import run_git
from cacheunit_build.domain.errors import CacheunitError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def ignored_files(folder: Path, paths: Iterable[str]) -> dict[str, str]:
    """Returns the files that git ignores and does not track: path -> the line that says so, as `.gitignore:3: build/`.

    Empty outside of a work tree, and without git.

    Args:
        folder: a folder of the work tree.
        paths: files, relative to the folder; they need not exist.
    """
    if not any((above / ".git").exists() for above in (folder, *folder.parents)):  # quicker than to start git
        return {}
    names = "\0".join(paths).encode()
    try:
        result = run_git(folder, "check-ignore", "--verbose", "-z", "--stdin", data=names)
    except CacheunitError:
        return {}
    fields = result.stdout.decode("utf-8", "backslashreplace").split("\0")  # file, line, pattern, path, file, …
    rules = zip(fields[0::4], fields[1::4], fields[2::4], fields[3::4], strict=False)
    return {path: f"{file}:{line}: {pattern}" for file, line, pattern, path in rules if not pattern.startswith("!")}
