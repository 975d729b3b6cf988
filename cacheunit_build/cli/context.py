"""The context of one run of the command line: where it runs, and the adapters that commands use."""

from __future__ import annotations

import sys
import time
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, Self

import click

from cacheunit_build.cli.global_options import is_set, working_folder
from cacheunit_build.cli.output import print_remark
from cacheunit_build.domain.errors import CacheunitError, fail
from cacheunit_build.domain.file_names import LOCK_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from cacheunit_build.adapters.storage.build_cache import BuildCache
    from cacheunit_build.adapters.storage.project_files import DiskFiles
    from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
    from cacheunit_build.domain.artifact import ArtifactRecord
    from cacheunit_build.domain.protocols import Adapters
    from cacheunit_build.domain.workers import WorkerInputs, Workers

OK, DIFFERENT, WRONG_INPUT, BUG, INTERRUPTED = 0, 1, 2, 70, 130
"""The exit codes: success; a check failed or differences were found; the input is wrong; a bug; interrupted."""

_SECONDS_WITHOUT_BAR = 1.0


class Context:
    """One run of the command line in a folder.

    Args:
        folder: the working folder.
        quiet: whether to print only data and errors.
        verbose: whether to print reasons too.
        no_project_code: whether to refuse the Python encoders that a project names.
    """

    def __init__(self, folder: Path, *, quiet: bool, verbose: bool, no_project_code: bool = False) -> None:
        self.folder = folder
        self.no_project_code = no_project_code
        self.quiet = quiet
        self.verbose = verbose

    def remark(self, *lines: str) -> None:
        """Prints a remark on standard error, as `print_remark` does, unless the run is quiet."""
        if not self.quiet:
            print_remark(*lines)

    @cached_property
    def root(self) -> Path:
        """The root of the project around the folder."""
        from pathlib import Path

        from cacheunit_build.adapters.storage.discovery import find_root

        return Path(find_root(str(self.folder))).resolve()

    def files(self) -> DiskFiles:
        """Returns the files of the project."""
        from cacheunit_build.adapters.storage.project_files import DiskFiles

        return DiskFiles(self.root)

    def project(self, trusts_remote: Callable[[str], bool] | None = None) -> OpenProject:
        """Opens the project, with what its last build recorded; all files are read.

        Args:
            trusts_remote: returns whether what was recorded of a remote cache at a URL is believed; nothing is by
                default.
        """
        return self._open(for_build=False, trusts_remote=trusts_remote)

    def project_to_build(self, trusts_remote: Callable[[str], bool] | None = None) -> OpenProject:
        """Opens the project to build it: files whose stat shows that they did not change need not be read.

        Where there is no cache, a remark says why.

        Args:
            trusts_remote: as for `project`.
        """
        project = self._open(for_build=True, trusts_remote=trusts_remote)
        if project.records.problem is not None:
            self.remark(f"note: nothing is cached: {project.records.problem}")
        return project

    def _open(self, *, for_build: bool, trusts_remote: Callable[[str], bool] | None) -> OpenProject:
        from cacheunit_build.adapters.storage.build_cache import BuildCache
        from cacheunit_build.adapters.storage.cache_folder import CacheFolder

        records = BuildCache(
            CacheFolder(str(self.root)),
            _unchanged_outputs,
            for_build=for_build,
            trusts_remote=trusts_remote or (lambda _: False),
        )
        return OpenProject(self.root, records, no_project_code=self.no_project_code)

    def adapters(self) -> Adapters:
        """Returns the adapters of the project."""
        return self.project().adapters

    def workers(self, count: int, scheduler: str | None, records: BuildCache) -> Workers | None:
        """Returns what builds: a cluster, or processes of this machine; None where there would be only one.

        Args:
            count: the number of processes.
            scheduler: the address of the scheduler of a cluster.
            records: what the last build recorded.
        """
        if scheduler is not None:
            from cacheunit_build.cli.cluster import cluster_workers

            return cluster_workers(scheduler, self.files, records, no_project_code=self.no_project_code)
        if count == 1:
            return None
        from functools import partial

        from cacheunit_build.adapters.system.worker_processes import WorkerProcesses

        return WorkerProcesses(count, partial(_open_in_worker, str(self.root), no_project_code=self.no_project_code))

    def repository_path(self, path: str) -> str:
        """Returns a path of the project as a path of the repository around it, if there is one."""
        return f"{self._path_in_repository}{path}"

    @cached_property
    def _path_in_repository(self) -> str:
        from cacheunit_build.adapters.git.revision import Repository

        try:
            return Repository(self.root).prefix
        except CacheunitError:
            return ""


class OpenProject:
    """A project that is open: its files, what its last build recorded, and its vocabularies.

    Args:
        root: the root of the project.
        records: the cache of the project.
        tokenizers: loaded vocabularies, where the project was open before.
        no_project_code: whether the command line refuses the Python encoders that a project names.
    """

    def __init__(
        self,
        root: Path,
        records: BuildCache,
        tokenizers: LocalTokenizerLoader | None = None,
        *,
        no_project_code: bool = False,
    ) -> None:
        from cacheunit_build.adapters.storage.project_files import DiskFiles

        self.root = root
        self.records = records
        self.files = DiskFiles(root, records.recorded_files(), records.trusted_before())
        self.no_project_code = no_project_code
        self._former_tokenizers = tokenizers

    @cached_property
    def tokenizers(self) -> LocalTokenizerLoader:
        """The loader of vocabularies; vocabularies from outside of the project stay loaded."""
        if self._former_tokenizers is None:
            return _tokenizer_loader(self.files, self.records)
        return self._former_tokenizers.with_project_files(self.files.read)

    @cached_property
    def adapters(self) -> Adapters:
        """The adapters that commands use.

        Raises:
            CacheunitError: the project requires another release of cacheunit.
        """
        from cacheunit_build.adapters.git.history import GitHistory
        from cacheunit_build.cli.project_code import encoder_loader
        from cacheunit_build.domain.protocols import Adapters

        _refuse_other_release(self.files)
        return Adapters(
            files=self.files,
            tokenizers=self.tokenizers,
            encoder=encoder_loader(self.files, refused=self.no_project_code),
            records=self.records,
            history=GitHistory(self.root, LOCK_FILE),
        )

    def reopened(self) -> OpenProject:
        """Returns the project as it is now on disk, with vocabularies that stay loaded."""
        records = self.records.reopened()
        return OpenProject(self.root, records, self.tokenizers, no_project_code=self.no_project_code)


def _open_in_worker(root: str, *, no_project_code: bool) -> WorkerInputs:
    """Opens a project in a worker process that shares nothing with this one, without what its last build recorded."""
    from pathlib import Path

    from cacheunit_build.adapters.storage.build_cache import BuildCache
    from cacheunit_build.adapters.storage.cache_folder import CacheFolder
    from cacheunit_build.adapters.storage.project_files import DiskFiles
    from cacheunit_build.cli.project_code import encoder_loader
    from cacheunit_build.domain.workers import OpenedInputs

    files = DiskFiles(Path(root))
    return OpenedInputs(
        files=files,
        tokenizers=_tokenizer_loader(files, BuildCache(CacheFolder(root))),
        encoder=encoder_loader(files, refused=no_project_code),
    )


def _refuse_other_release(files: DiskFiles) -> None:
    """Raises a fault if the settings require another release, before they are validated.

    A newer release may have keys that this one does not know. Other faults are reported by the command.
    """
    from cacheunit_build.domain.settings_file import REQUIRED_VERSION, find_settings

    try:
        document, table_keys = find_settings(files.read("pyproject.toml"), files.read("cacheunit.toml"))
    except CacheunitError:
        return
    if not isinstance(document.value, dict) or REQUIRED_VERSION not in document.value:
        return
    from importlib.metadata import version  # takes longer than all of this

    from cacheunit_build.parsing.settings import required_version_fault

    fault = required_version_fault(document, table_keys, version("cacheunit-build"))
    if fault is not None:
        raise CacheunitError(fault)


def _tokenizer_loader(files: DiskFiles, records: BuildCache) -> LocalTokenizerLoader:
    from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
    from cacheunit_build.adapters.tokenizers.vocabulary_cache import VocabularyCache
    from cacheunit_build.targets.loader import known_vocabularies

    return LocalTokenizerLoader(files.read, known_vocabularies(), VocabularyCache(records.vocabularies))


def _unchanged_outputs(records: Sequence[ArtifactRecord]) -> Mapping[str, str]:
    """Returns what a build and a check with nothing to do print, by command and report format.

    Without the JSON of a build, which has all artifacts: a build that prints it adds it.
    """
    from cacheunit_build.builder.results import BuildResult, CheckResult
    from cacheunit_build.domain.escaping import json_text
    from cacheunit_build.reports.build import build_blocks
    from cacheunit_build.reports.check import check_blocks, check_json
    from cacheunit_build.reports.layout import plain_text

    built = BuildResult(records=tuple(records), lock="unchanged")
    checked = CheckResult(verified=len(records))
    return {
        "build-text": plain_text(build_blocks(built)),
        "check-text": plain_text(check_blocks(checked)),
        "check-json": json_text(check_json(checked)),
    }


class ProgressBar:
    """A bar on standard error, if that is a terminal and the work takes longer than a second."""

    def __init__(self, context: Context) -> None:
        self._wanted = sys.stderr.isatty() and not context.quiet
        self._begun = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        """Shows that `done` of `total` manifests are compiled."""
        if not self._wanted or time.monotonic() - self._begun < _SECONDS_WITHOUT_BAR:
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import Progress

            self._bar = Progress(console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("compiling", total=total)
            self._bar.start()
        self._bar.update(self._task, completed=done)


def read_file(file: Path) -> bytes:
    """Returns the bytes of a file that the command line names.

    Raises:
        CacheunitError: it cannot be read.
    """
    try:
        return file.read_bytes()
    except OSError as error:
        raise fail(f'cannot read "{file}": {error.strerror}') from None


def with_context(command: Callable[..., Any]) -> Callable[..., Any]:
    """Makes the context of this run the first argument of a command."""

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - what click passes
        parsed = click.get_current_context()
        context = Context(
            working_folder(parsed),
            quiet=is_set(parsed, "quiet"),
            verbose=is_set(parsed, "verbose"),
            no_project_code=is_set(parsed, "no_project_code"),
        )
        return command(context, *arguments, **options)

    return run
