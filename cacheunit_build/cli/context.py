"""What all commands share: where they run, how they print, and the options they have in common."""

from __future__ import annotations

import json
import os
import sys
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import click

from cacheunit_build.adapters.storage.discovery import CACHE
from cacheunit_build.adapters.storage.project_files import DiskFiles, find_root
from cacheunit_build.domain.errors import CacheunitError, fail
from cacheunit_build.domain.protocols import LOCK_FILE, Adapters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from cacheunit_build.adapters.storage.build_cache import BuildCache
    from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
    from cacheunit_build.domain.errors import Fault

OK, NO, WRONG, BUG, INTERRUPTED = 0, 1, 2, 70, 130

_SILENT_SECONDS = 1.0


class Session:
    """One run of the command line in `folder`."""

    def __init__(self, folder: Path, *, quiet: bool, verbose: bool) -> None:
        self.folder = folder
        self.quiet = quiet
        self.verbose = verbose

    def files(self) -> DiskFiles:
        """The files of the project around the folder."""
        return DiskFiles(find_root(self.folder))

    def shelf(self, files: DiskFiles) -> LocalTokenizerLoader:
        """The vocabularies that this project can name."""
        from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
        from cacheunit_build.adapters.tokenizers.vocabulary_cache import CompiledVocabularies
        from cacheunit_build.targets.loader import known_targets

        rulers = {name: target.tokenizer for name, target in known_targets().items() if target.tokenizer is not None}
        return LocalTokenizerLoader(files.read, rulers, CompiledVocabularies(files.root / CACHE))

    def adapters(self) -> Adapters:
        """The outside world of that project."""
        return self.adapters_factory()(find_root(self.folder))

    def adapters_of(self, files: DiskFiles, memory: BuildCache, shelf: LocalTokenizerLoader | None = None) -> Adapters:
        """The outside world of a project that is open."""
        from cacheunit_build.adapters.git.history import History
        from cacheunit_build.adapters.system.python_encoder import python_encoder

        tokenizers = self.shelf(files) if shelf is None else shelf
        history = History(files.root, LOCK_FILE)
        return Adapters(files=files, tokenizers=tokenizers, encoder=python_encoder, memory=memory, history=history)

    def adapters_factory(self) -> Callable[[Path], Adapters]:
        """What makes the outside world of a root anew, its files read anew, its vocabularies kept."""
        from cacheunit_build.cli.fast_path import open_project

        shelves: list[LocalTokenizerLoader] = []
        memories: list[BuildCache] = []

        def adapters(root: Path) -> Adapters:
            files, memory = open_project(root, memories[0] if memories else None)
            memories[:] = [memory]
            shelves[:] = [shelves[0].reading(files.read) if shelves else self.shelf(files)]
            return self.adapters_of(files, memory, shelves[0])

        return adapters

    def in_repository(self, path: str) -> str:
        """A path of the project as one of the repository around it, if there is one."""
        return f"{self._above}{path}"

    @cached_property
    def _above(self) -> str:
        from cacheunit_build.adapters.git.revision import Repository

        try:
            return Repository(find_root(self.folder)).prefix
        except CacheunitError:
            return ""

    def say(self, text: str) -> None:
        """Talk, on standard error."""
        if not self.quiet:
            click.echo(text, err=True)


class ProgressBar:
    """A bar on standard error, if that is a terminal and the work takes longer than a second."""

    def __init__(self, session: Session) -> None:
        self._wanted = sys.stderr.isatty() and not session.quiet
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
        if not self._wanted or time.monotonic() - self._begun < _SILENT_SECONDS:
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import Progress as Bar

            self._bar = Bar(console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("compiling", total=total)
            self._bar.start()
        self._bar.update(self._task, completed=done)


def put(text: str, *, painted: bool = False) -> None:
    """Data, on standard output; nothing for no text. `painted`: with colour, where somebody looks at it."""
    if text:
        put_bytes(f"{_painted(text) if painted and colourful() else text}\n".encode())


_COLOURS = {
    "green": ("added", "ok:", "+"),
    "red": ("removed", "missing", "edited", "error", "-"),
    "yellow": ("changed", "warning", "tokenizer", "profile", "unknown", "orphan"),
    "cyan": ("renamed", "info", "@@"),
}


def _painted(text: str) -> str:
    """The text with the word at the beginning of each line in the colour of what it says."""
    lines = []
    for line in text.split("\n"):
        found = [(word, colour) for colour, words in _COLOURS.items() for word in words if line.startswith(word)]
        for word, colour in found[:1]:
            whole = word in ("+", "-", "@@")
            line = click.style(line if whole else word, fg=colour) + ("" if whole else line[len(word) :])  # noqa: PLW2901
        lines.append(line)
    return "\n".join(lines)


def colourful() -> bool:
    """Whether somebody looks at standard output who can see colour."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def summarize(markdown: str) -> None:
    """Adds to the summary of a GitHub job, if it runs in one."""
    file = os.environ.get("GITHUB_STEP_SUMMARY")
    if file and markdown:
        try:
            with open(file, "a", encoding="utf-8", newline="\n") as handle:  # noqa: PTH123 - appending
                handle.write(f"{markdown}\n\n")
        except OSError as error:
            raise fail(f"cannot write the job summary: {error.strerror}", path=file) from None


def put_bytes(data: bytes) -> None:
    """Exactly these bytes, on standard output."""
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def put_json(value: object) -> None:
    """A report, on standard output."""
    put(json.dumps(value, ensure_ascii=False, indent=2))


def say_faults(faults: Iterable[Fault]) -> None:
    """Every fault, on standard error."""
    word = click.style("error:", fg="red", bold=True)
    colour = False if os.environ.get("NO_COLOR") else None
    click.echo("\n\n".join(f"{word} {fault}" for fault in faults), err=True, color=colour)


def read_file(file: Path) -> bytes:
    """The bytes of a file that the command line names.

    Raises:
        CacheunitError: it cannot be read.
    """
    try:
        return file.read_bytes()
    except OSError as error:
        raise fail(f'cannot read "{file}": {error.strerror}') from None


def format_options(*forms: str) -> Callable[[Any], Any]:
    """The option for the format of a report."""
    return click.option(
        "--format", "form", type=click.Choice(forms), default=forms[0], show_default=True, help="Of the report."
    )


format_option = format_options("text", "json")
jobs_option = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    default=os.cpu_count() or 1,
    help="Threads that compile. Default: the cores.",
)
target_option = click.option("--target", metavar="T", help="Only for this target, by its name or a model's.")
with_session = click.make_pass_decorator(Session)
