"""`build` and `check` that find nothing to do, without the library that reads command lines.

By the seal, which loads next to nothing; else by the record, which `build` then seals.
"""

from __future__ import annotations

from cacheunit_build.edges.folders import CACHE, find_root
from cacheunit_build.edges.seal import read_seal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cacheunit_build.edges.cache import BuildMemory
    from cacheunit_build.edges.files import ProjectFiles
    from cacheunit_build.model import Outcome
    from cacheunit_build.result import Built, Checked


def open_project(root: Path, before: BuildMemory | None = None) -> tuple[ProjectFiles, BuildMemory]:
    """The files of the project at `root`, and what the last build remembered of them; `before` may save parsing it."""
    from cacheunit_build.edges.cache import BuildMemory
    from cacheunit_build.edges.files import ProjectFiles

    memory = BuildMemory(root / CACHE, _unchanged_texts) if before is None else before.again()
    return ProjectFiles(root, memory.stats(), memory.trusted_before()), memory


def _unchanged_texts(outcomes: Sequence[Outcome]) -> dict[str, str]:
    from cacheunit_build.report.text import built_text, checked_text
    from cacheunit_build.result import Built, Checked

    built = Built(artifacts=tuple(outcomes), lock="unchanged")
    return {"build": built_text(built), "check": checked_text(Checked(verified=len(outcomes)))}


def lean_build(folder: Path, *, seal: bool = False) -> Built | None:
    """The build of the project around `folder`, if it has nothing to do.

    Where files had to be read to be sure of that, the next run need not; with `seal`, it need not load as much, either.
    """
    from cacheunit_build.edges.files import find_root
    from cacheunit_build.errors import CacheunitError
    from cacheunit_build.quick import quick_build

    files, memory = open_project(find_root(folder))
    memory.begin()
    try:
        built = quick_build(files, memory)
    except CacheunitError:
        return None
    if built is not None and (files.reread or seal):
        memory.refresh(files.seen())
    return built


def lean_check(folder: Path) -> Checked | None:
    """The check of the project around `folder`, if everything is as the last build left it."""
    from cacheunit_build.edges.files import find_root
    from cacheunit_build.errors import CacheunitError
    from cacheunit_build.quick import quick_check

    files, memory = open_project(find_root(folder))
    try:
        return quick_check(files, memory)
    except CacheunitError:
        return None


def lean_output(folder: str, command: str) -> str | None:
    """What `command` prints, if it is `build` or `check`, and finds nothing to do and nothing to warn of."""
    root = find_root(folder)
    seal = read_seal(root, f"{root}/{CACHE}")
    sealed = None if seal is None else seal.checked() if command == "check" else seal.built()
    return _recorded_output(folder, command) if sealed is None else sealed


def _recorded_output(folder: str, command: str) -> str | None:
    from pathlib import Path

    from cacheunit_build.report.text import built_text, checked_text

    if command == "check":
        checked = lean_check(Path(folder))
        return None if checked is None else checked_text(checked)
    built = lean_build(Path(folder), seal=True)
    return None if built is None or built.orphans else built_text(built)
