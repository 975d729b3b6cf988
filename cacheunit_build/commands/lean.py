"""`build` and `check` that find nothing to do, without the library that reads command lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.edges.cache import BuildMemory
from cacheunit_build.edges.files import CACHE, ProjectFiles, find_root
from cacheunit_build.errors import CacheunitError
from cacheunit_build.quick import quick_build, quick_check

if TYPE_CHECKING:
    from pathlib import Path

    from cacheunit_build.result import Built, Checked


def open_project(root: Path) -> tuple[ProjectFiles, BuildMemory]:
    """The files of the project at `root`, and what the last build remembered of them."""
    memory = BuildMemory(root / CACHE)
    return ProjectFiles(root, memory.stats(), memory.trusted_before()), memory


def lean_build(folder: Path) -> Built | None:
    """The build of the project around `folder`, if it has nothing to do.

    Where files had to be read to be sure of that, the next run need not.
    """
    files, memory = open_project(find_root(folder))
    memory.begin()
    try:
        built = quick_build(files, memory)
    except CacheunitError:
        return None
    if built is not None and files.reread:
        memory.refresh()
    return built


def lean_check(folder: Path) -> Checked | None:
    """The check of the project around `folder`, if everything is as the last build left it."""
    files, memory = open_project(find_root(folder))
    try:
        return quick_check(files, memory)
    except CacheunitError:
        return None


def lean_output(folder: Path, command: str) -> str | None:
    """What `command` prints, if it is `build` or `check`, and finds nothing to do and nothing to warn of."""
    from cacheunit_build.report.text import built_text, checked_text

    if command == "check":
        checked = lean_check(folder)
        return None if checked is None else checked_text(checked)
    built = lean_build(folder)
    return None if built is None or built.orphans else built_text(built)
