"""The builds of one watch: what is watched, what each build did, and what that does to a cache."""

from __future__ import annotations

import time  # noqa: TID251 - how long a build takes is reported, and decides no byte
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from cacheunit_build.builder.build import build
from cacheunit_build.builder.chunks import BuildOptions
from cacheunit_build.builder.results import BuildResult
from cacheunit_build.builder.up_to_date import reusable_records, unchanged_build
from cacheunit_build.compiler.project import compile_project
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.file_names import LOCK_FILE, SETTINGS_FILES
from cacheunit_build.domain.protocols import WatchedPaths
from cacheunit_build.parsing.settings import parse_settings
from cacheunit_build.watching.budgets import BudgetReader
from cacheunit_build.watching.comparison import BuildComparison
from cacheunit_build.watching.deferred_records import DeferredRecords

if TYPE_CHECKING:
    from collections.abc import Callable

    from cacheunit_build.builder.results import Gate
    from cacheunit_build.compiler.project import CompiledProject
    from cacheunit_build.diff.known_version import KnownVersion
    from cacheunit_build.diff.results import DiffResult
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.protocols import Adapters
    from cacheunit_build.domain.selection import Selection
    from cacheunit_build.watching.budgets import BudgetUse
    from cacheunit_build.watching.comparison import OpenBaseline

FOLDERS = ("prefixes", "templates", "build")
"""The folders of manifests, templates and artifacts until the settings are read."""

GIT_FOLDER = ".git"
COMMITS = f"{GIT_FOLDER}/logs/HEAD"
"""The file that git changes at each commit and checkout, where the project is at the top of a work tree.

Elsewhere, the next save shows that there is another commit.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedBuild:
    """One build of a watch.

    Attributes:
        result: the result.
        seconds: how long it took.
        new_faults: the faults, where they are not those of the build before.
        fixed: whether the build before had faults and this one has none.
        since_save: the differences from the good build before; None for the first one, and where there are faults.
        since_commit: the differences from the last commit; None where there is none to compare with, or a fault.
        no_commit: why there is no last commit to compare with; None where there is one, or nobody asked.
        since_main: the differences from where this branch left the main branch; None as for `since_commit`.
        no_main: why there is no such commit; None as for `no_commit`.
        budgets: the use of each budget; the fullest first.
        version: what was built, for texts and tokens; None where there are faults.
    """

    result: BuildResult
    seconds: float
    new_faults: tuple[Fault, ...] = ()
    fixed: bool = False
    since_save: DiffResult | None = None
    since_commit: DiffResult | None = None
    no_commit: str | None = None
    since_main: DiffResult | None = None
    no_main: str | None = None
    budgets: tuple[BudgetUse, ...] = ()
    version: KnownVersion | None = None


class WatchSession:
    """Builds a project again and again.

    Args:
        open_adapters: opens the project again, with vocabularies that stay loaded.
        gate: finds what must not be frozen.
        selection: which artifacts to build; all if None.
        last_commit: returns the last commit, to compare with, or raises why there is none; None to compare with none.
    """

    def __init__(
        self,
        open_adapters: Callable[[], Adapters],
        gate: Gate | None = None,
        selection: Selection | None = None,
        last_commit: OpenBaseline | None = None,
    ) -> None:
        self._open_adapters = open_adapters
        self._gate = gate
        self._selection = selection
        self._faults: tuple[Fault, ...] = ()
        self._asked: frozenset[str] = frozenset()
        self._folders = FOLDERS
        self._commits = (COMMITS,) if last_commit is not None else ()
        self._comparison = BuildComparison(last_commit)
        self._budgets = BudgetReader()
        self._unfinished: tuple[Adapters, DeferredRecords] | None = None

    def compare_with_main(self, main_branch: OpenBaseline) -> None:
        """Compares the builds from now on with the main branch too.

        Args:
            main_branch: returns the commit where this branch left the main branch, or raises why there is none.
        """
        self._comparison.compare_with_main(main_branch)

    def paths(self) -> WatchedPaths:
        """Returns the manifests, the templates, the files that the last build looked for, and git's list of commits."""
        prefixes, templates, build_folder = self._folders
        files = (path for path in self._asked if not path.startswith(f"{build_folder}/") and path != LOCK_FILE)
        return WatchedPaths(
            folders=frozenset((prefixes, templates)),
            files=frozenset((*files, *self._commits)),
            ignored=frozenset((build_folder, LOCK_FILE, GIT_FOLDER)),
        )

    def build(self) -> WatchedBuild:
        """Builds once, then compares what was built. The caller shows it, then calls `finish`.

        What is wrong, even so wrong that the project cannot be opened, is a fault of the result.
        """
        self.finish()
        begun = time.monotonic()
        adapters: Adapters | None = None
        try:
            adapters = self._open()
            result = self._build(adapters)
        except CacheunitError as error:
            result = BuildResult(faults=error.faults)
        build = WatchedBuild(result=result, seconds=time.monotonic() - begun)
        former, self._faults = self._faults, result.faults
        if result.faults or adapters is None:
            return replace(build, new_faults=result.faults if result.faults != former else ())
        return self._compared(replace(build, fixed=bool(former)), adapters)

    def finish(self) -> None:
        """Stores the record of the last build, which nobody waits for."""
        unfinished, self._unfinished = self._unfinished, None
        if unfinished is not None:
            adapters, records = unfinished
            with suppress(CacheunitError), adapters.files.exclusive():
                records.flush()

    def _open(self) -> Adapters:
        try:
            adapters = self._open_adapters()
        except CacheunitError:
            self._asked |= set(SETTINGS_FILES)  # they are why it cannot be opened
            raise
        records = DeferredRecords(adapters.records)
        self._unfinished = adapters, records
        return replace(adapters, records=records)

    def _build(self, adapters: Adapters) -> BuildResult:
        try:
            with adapters.files.exclusive():
                adapters.records.start()
                result = None if self._selection else unchanged_build(adapters.files, adapters.records)
                options = BuildOptions(gate=self._gate, keeps_texts=True)
                return result or build(adapters, self._selection, options)
        finally:
            self._note_inputs(adapters)

    def _compared(self, build: WatchedBuild, adapters: Adapters) -> WatchedBuild:
        """Returns a good build with what it changed. What cannot be read any more is built and compared soon."""
        try:
            compiled = partial(self._compiled, build.result, adapters)
            comparison = self._comparison.compare(adapters, build.result.records, compiled)
        except CacheunitError:
            return build
        return replace(
            build,
            since_save=comparison.since_save,
            since_commit=comparison.since_commit,
            no_commit=comparison.no_commit,
            since_main=comparison.since_main,
            no_main=comparison.no_main,
            budgets=self._budgets.uses(comparison.version),
            version=comparison.version,
        )

    def _compiled(self, result: BuildResult, adapters: Adapters) -> CompiledProject:
        """Returns what a build compiled and reused; where it had nothing to do, everything is reused."""
        if result.project is not None:
            return result.project
        reuse = reusable_records(adapters.records, adapters.files.known_fingerprint)
        return compile_project(adapters, self._selection, reuse=reuse)

    def _note_inputs(self, adapters: Adapters) -> None:
        """Notes which files were looked for, and the folders of the settings; broken settings change no folder."""
        files = adapters.files
        self._asked = frozenset(files.asked)
        try:
            settings = parse_settings(files.read("pyproject.toml"), files.read("cacheunit.toml"))
        except CacheunitError:
            return
        self._folders = (settings.prefixes, settings.templates, settings.build)
