"""`diff`: what a change does to the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cacheunit_build.adapters.storage.project_files import DiskFiles
from cacheunit_build.cli.context import (
    NO,
    OK,
    ProgressBar,
    Session,
    format_options,
    jobs_option,
    put,
    put_json,
    read_file,
    say_faults,
    summarize,
    target_option,
    with_session,
)
from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.protocols import LOCK_FILE, Adapters, OldVersion, Selection

if TYPE_CHECKING:
    from pathlib import Path

    from cacheunit_build.diff.diff import Baseline
    from cacheunit_build.diff.results import DiffResult
    from cacheunit_build.domain.protocols import SourceFiles


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@target_option
@click.option("--against", metavar="REV|LOCK|DIR", help="Default: where this branch left the main one, else HEAD.")
@click.option("--names", "only_names", is_flag=True, help="Only the affected prefixes, one a line.")
@click.option("--text", "texts", is_flag=True, help="The rendered texts too, what cannot be seen made visible.")
@jobs_option
@format_options("text", "json", "markdown", "github")
@with_session
def diff(
    session: Session,
    names: tuple[str, ...],
    target: str | None,
    against: str | None,
    form: str,
    *,
    only_names: bool,
    texts: bool,
    jobs: int,
) -> int:
    """Say what the change since a revision, a lock or another folder does to the cache."""
    from cacheunit_build.diff import diff as story

    if (only_names or texts) and form != "text":
        raise click.UsageError("--names and --text are text: they exclude another --format")
    adapters = session.adapters()
    older = _against(session, adapters, against)
    with ProgressBar(session) as progress:
        found = story.diff(
            adapters,
            older,
            Selection(names=names, target=target),
            progress=progress,
            jobs=jobs,
        )
    _tell(session, found, form, only_names=only_names, texts=texts)
    return NO if found.differences else OK


def _tell(session: Session, found: DiffResult, form: str, *, only_names: bool, texts: bool) -> None:
    from cacheunit_build.reports import diff as report

    for note in found.notes:
        session.say(f"note: {note}")
    if found.faults and form != "json":
        say_faults(found.faults)
        session.say(
            f"\nnote: these are faults of {found.against} under today's rules; what they hide is told as unknown\n"
        )
    if form == "json":
        put_json(report.diff_data(found))
    elif form == "markdown":
        put(report.diff_markdown(found))
    elif form == "github":
        put(report.diff_annotations(found, session.in_repository))
        summarize(report.diff_markdown(found))
    elif only_names:
        put("\n".join(found.affected))
    else:
        put(report.diff_text(found, texts=texts), painted=True)


def _against(session: Session, adapters: Adapters, given: str | None) -> Baseline:
    """A folder or a file that is there, else a revision."""
    from cacheunit_build.adapters.git.revision import Repository
    from cacheunit_build.diff.diff import Baseline
    from cacheunit_build.lockfile.format import parse_lock

    if given == "":
        raise click.UsageError("--against is empty: a revision, a lock or a folder")
    path = None if given is None else session.folder / given
    if path is not None and path.is_dir():
        files = DiskFiles(path)
        if not files.exists("prefixes") and not _has_settings(files):
            raise fail(f'there is no project in "{given}"', hint="a folder with manifests or settings, or a revision")
        return Baseline(label=str(given), past=lambda: _past(adapters, files))
    if path is not None and path.is_file():
        return Baseline(label=str(given), lock=parse_lock(read_file(path), str(given)))
    repository = Repository(_root(adapters))
    revision = repository.base() if given is None else repository.revision(given)
    found = repository.files(revision)
    notes = () if revision.note is None else (revision.note,)
    return Baseline(label=revision.label, past=lambda: _past(adapters, found), notes=notes)


def _has_settings(files: DiskFiles) -> bool:
    return any(files.read(name) is not None for name in ("cacheunit.toml", "pyproject.toml", LOCK_FILE))


def _root(adapters: Adapters) -> Path:
    assert isinstance(adapters.files, DiskFiles)  # noqa: S101 - that is what a session opens
    return adapters.files.root


def _past(adapters: Adapters, files: SourceFiles) -> OldVersion:
    """That version's world, with the vocabularies that are loaded already."""
    from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader

    assert isinstance(adapters.tokenizers, LocalTokenizerLoader)  # noqa: S101 - the same
    return OldVersion(files=files, tokenizers=adapters.tokenizers.reading(files.read), encoder=adapters.encoder)


COMMANDS = (diff,)
