"""`build` and `check` that find nothing to do, without the library that reads command lines.

By the seal, which loads next to nothing; else by the record.
"""

from __future__ import annotations

from cacheunit_build.adapters.storage.build_stamp import read_seal
from cacheunit_build.adapters.storage.discovery import CACHE, find_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cacheunit_build.adapters.storage.build_cache import BuildCache
    from cacheunit_build.adapters.storage.project_files import DiskFiles
    from cacheunit_build.builder.results import BuildResult, CheckResult
    from cacheunit_build.domain.models import ArtifactRecord


def open_project(root: Path, before: BuildCache | None = None) -> tuple[DiskFiles, BuildCache]:
    """The files of the project at `root`, and what the last build remembered of them; `before` may save parsing it."""
    from cacheunit_build.adapters.storage.build_cache import BuildCache
    from cacheunit_build.adapters.storage.project_files import DiskFiles

    memory = BuildCache(root / CACHE, _unchanged_texts) if before is None else before.again()
    return DiskFiles(root, memory.stats(), memory.trusted_before()), memory


def _unchanged_texts(outcomes: Sequence[ArtifactRecord]) -> dict[str, str]:
    from cacheunit_build.builder.results import BuildResult, CheckResult
    from cacheunit_build.reports.text import built_text, checked_text

    built = BuildResult(artifacts=tuple(outcomes), lock="unchanged")
    return {"build": built_text(built), "check": checked_text(CheckResult(verified=len(outcomes)))}


def sealed_output(folder: str, command: str) -> str | None:
    """What `command` prints, `build` or `check`, if the seal says that there is nothing to do or to warn of."""
    root = find_root(folder)
    seal = read_seal(root, f"{root}/{CACHE}")
    if seal is None:
        return None
    return seal.checked() if command == "check" else seal.built()


def unchanged_build(files: DiskFiles, memory: BuildCache) -> BuildResult | None:
    """The build of a project that has nothing to do, by its record.

    Where files had to be read to be sure of that, the next run need not; and it finds a seal.
    """
    from cacheunit_build.builder.up_to_date import quick_build
    from cacheunit_build.domain.errors import CacheunitError

    memory.begin()
    try:
        built = quick_build(files, memory)
    except CacheunitError:
        return None
    if built is not None and (files.reread or read_seal(str(files.root), str(files.root / CACHE)) is None):
        memory.refresh(files.seen())
    return built


def unchanged_check(files: DiskFiles, memory: BuildCache) -> CheckResult | None:
    """The check of a project in which everything is as the last build left it, by its record."""
    from cacheunit_build.builder.up_to_date import quick_check
    from cacheunit_build.domain.errors import CacheunitError

    try:
        return quick_check(files, memory)
    except CacheunitError:
        return None
