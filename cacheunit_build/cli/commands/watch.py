"""`watch`: builds at every save, and says at once what it did to the tokens."""

from __future__ import annotations

import datetime as dt
import time
from typing import TYPE_CHECKING

import click

from cacheunit_build.adapters.storage.discovery import CACHE
from cacheunit_build.adapters.storage.project_files import find_root
from cacheunit_build.builder.up_to_date import quick_build
from cacheunit_build.cli.context import INTERRUPTED, Session, jobs_option, put, say_faults, with_session
from cacheunit_build.domain.errors import CacheunitError, Fault
from cacheunit_build.domain.protocols import LOCK_FILE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cacheunit_build.adapters.storage.project_files import DiskFiles
    from cacheunit_build.adapters.system.file_watcher import Watched
    from cacheunit_build.builder.results import BuildResult
    from cacheunit_build.domain.protocols import Adapters

FOLDERS = ("prefixes", "templates", "build")


class WatchBuilds:
    """The builds of one watch: vocabularies stay loaded, and what was looked for last is what is watched.

    Args:
        root: the project's root.
        adapters: makes the outside world anew for each build.
        jobs: how many threads compile.
        show: takes each line for people.
        complain: takes the faults of a failing build.
    """

    def __init__(
        self,
        root: Path,
        adapters: Callable[[Path], Adapters],
        show: Callable[[str], None],
        complain: Callable[[tuple[Fault, ...]], None],
        jobs: int = 1,
    ) -> None:
        self.root = root
        self._adapters = adapters
        self._show = show
        self._complain = complain
        self._jobs = jobs
        self._faults: tuple[Fault, ...] = ()
        self._asked: frozenset[str] = frozenset()
        self._folders = FOLDERS

    def watched(self) -> Watched:
        """What decides the next build: manifests, templates, and every file that the last one looked for."""
        from cacheunit_build.adapters.system.file_watcher import Watched

        prefixes, templates, build = self._folders
        own = (f"{build}/", f"{CACHE}/")
        return Watched(
            folders=frozenset((prefixes, templates)),
            files=frozenset(path for path in self._asked if not path.startswith(own) and path != LOCK_FILE),
            ignored=frozenset((build, CACHE, LOCK_FILE)),
        )

    def build(self) -> BuildResult:
        """Builds once, and shows what changed; a build that has nothing to do shows nothing."""
        from cacheunit_build.builder import build as story
        from cacheunit_build.reports.watch import watch_lines

        begun = time.monotonic()
        adapters = self._adapters(self.root)
        with adapters.files.exclusive():
            adapters.memory.begin()
            built = self._unchanged(adapters) or story.build(adapters, jobs=self._jobs)
        seconds = time.monotonic() - begun
        self._remember(adapters)
        if built.faults != self._faults:
            if built.faults:
                self._complain(built.faults)
            else:
                self._show("mended")
        self._faults = built.faults
        for line in watch_lines(built, seconds):
            self._show(line)
        return built

    def _unchanged(self, adapters: Adapters) -> BuildResult | None:
        try:
            return quick_build(adapters.files, adapters.memory)
        except CacheunitError:
            return None

    def _remember(self, adapters: Adapters) -> None:
        from cacheunit_build.parsing.settings import parse_settings

        files: DiskFiles = adapters.files  # type: ignore[assignment]
        self._asked = frozenset(files.asked)
        try:
            config = parse_settings(files.read("pyproject.toml"), files.read("cacheunit.toml"))
        except CacheunitError:
            return
        self._folders = (config.prefixes, config.templates, config.build)


@click.command()
@click.option("--poll", is_flag=True, help="Look every half second, where no events arrive.")
@jobs_option
@with_session
def watch(session: Session, *, poll: bool, jobs: int) -> int:
    """Build at every save, until interrupted."""
    from cacheunit_build.adapters.system.file_watcher import Watcher

    builds = WatchBuilds(
        find_root(session.folder).resolve(),
        session.adapters_factory(),
        lambda line: put(f"{dt.datetime.now().astimezone():%H:%M:%S} {line}"),
        say_faults,
        jobs,
    )
    watcher = Watcher(builds.root, builds.watched, session.say, poll=poll)
    try:
        for _ in watcher.batches():
            builds.build()
    except KeyboardInterrupt:
        pass
    return INTERRUPTED


COMMANDS = (watch,)
