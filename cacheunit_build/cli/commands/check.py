"""The command `check`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from cacheunit_build.cli.context import DIFFERENT, OK, WRONG_INPUT, Context, ProgressBar, with_context
from cacheunit_build.cli.gate import lint_gate
from cacheunit_build.cli.options import format_options, no_remote_option, selection_options, worker_options
from cacheunit_build.cli.output import print_blocks, print_faults, print_json
from cacheunit_build.cli.pull_request_output import print_code_quality, print_review

if TYPE_CHECKING:
    from cacheunit_build.builder.results import CheckResult
    from cacheunit_build.domain.selection import Selection


@click.command()
@selection_options
@worker_options
@no_remote_option
@click.option(
    "--prove", is_flag=True, help="Build copies without a cache, under other conditions, and compare all bytes."
)
@click.option("--require-counts", is_flag=True, help="Fail on estimates, and list them.")
@format_options("text", "json", "markdown", "github", "gitlab")
@with_context
def check(
    context: Context,
    selection: Selection,
    form: str,
    *,
    jobs: int,
    scheduler: str | None,
    no_remote: bool,
    prove: bool,
    require_counts: bool,
) -> int:
    """Compile in memory and compare with the lock and build/. Nothing is written."""
    if prove and selection:
        raise click.UsageError("--prove is about the whole project: leave out names and --target")
    from cacheunit_build.builder.up_to_date import unchanged_check
    from cacheunit_build.cli.remote_cache import open_remote_cache, results_of

    remote = open_remote_cache(context.files().read, refused=no_remote, verifies=True)
    project = context.project(lambda url: remote is not None and url == remote.url)
    result = None if selection else unchanged_check(project.files, project.records)
    if result is None:
        from cacheunit_build.adapters.system.garbage import collect_garbage_rarely
        from cacheunit_build.builder.check import check as check_project
        from cacheunit_build.builder.chunks import BuildOptions

        collect_garbage_rarely()
        with results_of(context, remote) as results, ProgressBar(context) as progress:
            workers = context.workers(jobs, scheduler, project.records)
            options = BuildOptions(gate=lint_gate(), workers=workers, remote=results, progress=progress)
            result = check_project(project.reopened().adapters, selection, options)
    if prove and not result.faults:
        from cacheunit_build.adapters.system.isolated_rebuild import IsolatedRebuild
        from cacheunit_build.builder.proof import prove as prove_project

        rebuild = IsolatedRebuild(project_code=not context.no_project_code)
        result = replace(result, proof=prove_project(project.reopened().adapters, rebuild))
    result = replace(result, counts_required=require_counts)
    if result.notes and not result.faults:  # there is no lock, or no build folder
        from cacheunit_build.cli.ignored_files import remark_ignored
        from cacheunit_build.lockfile.format import read_lock

        remark_ignored(context, read_lock(project.files).entries)
    return report_check(context, result, form)


def report_check(context: Context, result: CheckResult, form: str) -> int:
    """Prints the result of a check; returns the exit code."""
    if form == "json":
        from cacheunit_build.reports.check import check_json

        print_json(check_json(result))
    elif form in ("markdown", "github"):
        from cacheunit_build.reports.check import check_markdown

        print_review(context, form, check_markdown(result), result)
    elif form == "gitlab":
        from cacheunit_build.reports.check import check_blocks
        from cacheunit_build.reports.gitlab import check_gitlab

        if result.faults:
            print_faults(result.faults)
        blocks = () if result.faults else check_blocks(result)
        print_code_quality(context, check_gitlab(result, context.repository_path), blocks)
    else:
        _print_check(context, result)
    return WRONG_INPUT if result.faults else OK if result.ok else DIFFERENT


def _print_check(context: Context, result: CheckResult) -> None:
    from cacheunit_build.reports.check import check_blocks, drift_hint

    for note in result.notes:
        context.remark(f"note: {note}")
    if result.faults:
        print_faults(result.faults)
        return
    print_blocks(check_blocks(result, verbose=context.verbose))
    if result.counts_required and result.estimates:
        context.remark('\nhint: "cacheunit calibrate" records what the provider counts')
    if result.drift:
        context.remark(f"\nhint: {drift_hint(result.drift)}")
