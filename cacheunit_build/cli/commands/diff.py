"""The command `diff`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from cacheunit_build.adapters.storage.project_files import DiskFiles
from cacheunit_build.cli.context import DIFFERENT, OK, Context, ProgressBar, read_file, with_context
from cacheunit_build.cli.old_version import old_version
from cacheunit_build.cli.options import format_options, jobs_option, price_option, selection_options
from cacheunit_build.cli.output import (
    append_job_summary,
    print_blocks,
    print_escaped,
    print_faults,
    print_json,
    print_text,
)
from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.file_names import LOCK_FILE, SETTINGS_FILES

if TYPE_CHECKING:
    from pathlib import Path

    from cacheunit_build.cli.context import OpenProject
    from cacheunit_build.diff.diff import Baseline
    from cacheunit_build.diff.results import DiffResult
    from cacheunit_build.domain.selection import Selection


@click.command()
@selection_options
@click.option(
    "--against",
    metavar="REV|LOCK|DIR",
    help="Compare with this. Default: where this branch left the main branch, else HEAD.",
)
@click.option("--names", "only_names", is_flag=True, help="Print only the affected prefixes, one a line.")
@click.option("--text", "texts", is_flag=True, help="Show the rendered texts too, with white space made visible.")
@price_option
@jobs_option
@format_options("text", "json", "markdown", "github")
@with_context
def diff(
    context: Context,
    selection: Selection,
    against: str | None,
    model: str | None,
    form: str,
    *,
    only_names: bool,
    texts: bool,
    jobs: int,
) -> int:
    """Show what the change since a revision, a lock or another folder does to the cache."""
    from cacheunit_build.diff.diff import diff as compare

    if (only_names or texts) and form != "text":
        raise click.UsageError("--names and --text print text: they exclude another --format")
    project = context.project()
    baseline = _baseline(context.folder, project, against)
    with ProgressBar(context) as progress:
        result = compare(project.adapters, baseline, selection, progress=progress, jobs=jobs)
    _print_diff(context, _with_prices(context, result, model), form, only_names=only_names, texts=texts)
    return DIFFERENT if result.differences else OK


def _with_prices(context: Context, result: DiffResult, model: str | None) -> DiffResult:
    """Returns a result with the prices of its targets, and notes where there are none for the model."""
    from cacheunit_build.cli.prices import targets_with_prices

    targets, prices = targets_with_prices(context, {item.target for item in result.differences}, model)
    differences = []
    for item in result.differences:
        found = prices.of(targets[item.target]) if item.target in targets else None
        differences.append(item if found is None else replace(item, price=found[0], price_origin=found[1]))
    return replace(result, differences=tuple(differences), notes=(*result.notes, *prices.notes(targets.values())))


def _print_diff(context: Context, result: DiffResult, form: str, *, only_names: bool, texts: bool) -> None:
    from cacheunit_build.reports import diff as reports

    for note in result.notes:
        context.remark(f"note: {note}")
    if result.faults and form != "json":
        print_faults(result.faults)
        context.remark(
            f"\nnote: these are errors in {result.against} under today's rules; what they affect is shown as unknown\n"
        )
    if form == "json":
        print_json(reports.diff_json(result))
    elif form == "markdown":
        print_escaped(reports.diff_markdown(result))
    elif form == "github":
        print_escaped(reports.diff_annotations(result, context.repository_path))
        append_job_summary(reports.diff_markdown(result))
    elif only_names:
        print_text(*result.affected)
    else:
        print_blocks(reports.diff_blocks(result, texts=texts))


def _baseline(folder: Path, project: OpenProject, against: str | None) -> Baseline:
    """Returns what to compare with: an existing folder or file of that name, else a revision.

    Raises:
        CacheunitError: there is none of that name, or the folder has no project.
    """
    from cacheunit_build.adapters.git.revision import Repository
    from cacheunit_build.diff.diff import Baseline
    from cacheunit_build.lockfile.format import parse_lock

    if against == "":
        raise click.UsageError("--against is empty: name a revision, a lock or a folder")
    path = None if against is None else folder / against
    if path is not None and path.is_dir():
        files = DiskFiles(path)
        if not files.has_folder("prefixes") and not _has_project_file(files):
            raise fail(f'there is no project in "{against}"', hint="name a folder with manifests or settings")
        return Baseline(label=str(against), old_version=lambda: old_version(project, files))
    if path is not None and path.is_file():
        return Baseline(label=str(against), lock=parse_lock(read_file(path), str(against)))
    repository = Repository(project.root)
    revision = repository.base() if against is None else repository.revision(against, "revision, file or folder")
    committed = repository.files(revision)
    texts = committed.links_as_text(lambda file: _text_of_file(project.root / file))
    notes = (
        *(() if revision.note is None else (revision.note,)),
        *(f"{file} is a link in {revision.label}, but a text file here (core.symlinks=false)" for file in texts),
    )
    return Baseline(label=revision.label, old_version=lambda: old_version(project, committed), notes=notes)


def _text_of_file(file: Path) -> bytes | None:
    """Returns the bytes of a file that is no link; None where there is none."""
    return file.read_bytes() if file.is_file() and not file.is_symlink() else None


def _has_project_file(files: DiskFiles) -> bool:
    return any(files.read(name) is not None for name in (*SETTINGS_FILES, LOCK_FILE))
