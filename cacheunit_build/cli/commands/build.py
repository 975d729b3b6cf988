"""The command `build`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cacheunit_build.cli.context import DIFFERENT, OK, WRONG_INPUT, Context, ProgressBar, with_context
from cacheunit_build.cli.gate import lint_gate
from cacheunit_build.cli.options import format_options, no_remote_option, selection_options, worker_options
from cacheunit_build.cli.output import print_blocks, print_faults, print_json

if TYPE_CHECKING:
    from cacheunit_build.builder.results import BuildResult
    from cacheunit_build.cli.context import OpenProject
    from cacheunit_build.domain.selection import Selection


@click.command()
@selection_options
@click.option("--locked", is_flag=True, help="Write only artifacts that match the lock, and never the lock.")
@worker_options
@no_remote_option
@format_options("text", "json", "markdown", "github")
@with_context
def build(
    context: Context,
    selection: Selection,
    form: str,
    *,
    jobs: int,
    scheduler: str | None,
    no_remote: bool,
    locked: bool,
) -> int:
    """Compile what changed, write artifacts, then the lock."""
    project = context.project_to_build(lambda _: not no_remote)
    result = None if selection or locked else _unchanged(project, form)
    if result is None:
        from cacheunit_build.adapters.system.garbage import collect_garbage_rarely
        from cacheunit_build.builder.build import build as build_project
        from cacheunit_build.builder.chunks import BuildOptions
        from cacheunit_build.cli.remote_cache import open_remote_cache, results_of

        collect_garbage_rarely()
        remote = open_remote_cache(project.files.read, refused=no_remote, verifies=locked)
        with results_of(context, remote) as results, ProgressBar(context) as progress:
            workers = context.workers(jobs, scheduler, project.records)
            options = BuildOptions(gate=lint_gate(), workers=workers, remote=results, progress=progress)
            result = build_project(project.adapters, selection, options, locked=locked)
    if result.written or result.lock == "written":
        from cacheunit_build.cli.ignored_files import remark_ignored

        remark_ignored(context, (record.key for record in result.records))
    return report_build(context, result, form)


def _unchanged(project: OpenProject, form: str) -> BuildResult | None:
    """Returns the result of a build that has nothing to do, and records what was read to find that out."""
    from cacheunit_build.builder.up_to_date import unchanged_build
    from cacheunit_build.domain.escaping import json_text
    from cacheunit_build.reports.build import build_json

    project.records.start()
    result = unchanged_build(project.files, project.records)
    if result is not None and (project.files.reread or form == "json" or not project.records.has_stamp):
        outputs = {"build-json": json_text(build_json(result))} if form == "json" and not result.orphans else {}
        project.records.confirm(project.files.observed(), outputs)
    return result


def report_build(context: Context, result: BuildResult, form: str) -> int:
    """Prints the result of a build; returns the exit code."""
    if form == "json":
        from cacheunit_build.reports.build import build_json

        print_json(build_json(result))
    elif form in ("markdown", "github"):
        from cacheunit_build.cli.pull_request_output import print_review
        from cacheunit_build.reports.build import build_markdown

        print_review(context, form, build_markdown(result), result)
    else:
        _print_build(context, result)
    return WRONG_INPUT if result.faults else DIFFERENT if result.drift else OK


def _print_build(context: Context, result: BuildResult) -> None:
    from cacheunit_build.reports.build import build_blocks
    from cacheunit_build.reports.check import drift_hint, drift_table
    from cacheunit_build.reports.formatting import plural

    for note in result.notes:
        context.remark(f"note: {note}")
    for orphan in result.orphans:
        context.remark(f"warning: {orphan.path} is not in the lock; it was not touched")
    if result.faults:
        print_faults(result.faults)
        written = "" if result.is_partly_written else "; nothing was written"
        context.remark(f"\n{plural(len(result.faults), 'error')}{written}")
    elif result.drift:
        print_blocks([drift_table(result.drift, verbose=context.verbose)])
        context.remark("\nrefused: sources, lock and build/ do not match; nothing was written")
        context.remark(f"\nhint: {drift_hint(result.drift)}")
    else:
        print_blocks(build_blocks(result, verbose=context.verbose))
