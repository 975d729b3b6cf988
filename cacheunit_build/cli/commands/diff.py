"""The command `diff`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from cacheunit_build.cli.context import DIFFERENT, OK, Context, ProgressBar, with_context
from cacheunit_build.cli.options import format_options, jobs_option, price_option, selection_options
from cacheunit_build.cli.output import (
    append_job_summary,
    print_blocks,
    print_escaped,
    print_faults,
    print_json,
    print_text,
)

if TYPE_CHECKING:
    from cacheunit_build.diff.results import DiffResult
    from cacheunit_build.domain.selection import Selection


@click.command()
@selection_options
@click.option(
    "--against",
    metavar="REV|LOCK|DIR",
    help="Compare with this; ./NAME is a path. Default: where this branch left the main branch, else HEAD.",
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
    from cacheunit_build.cli.baseline import find_baseline
    from cacheunit_build.diff.diff import diff as compare

    if (only_names or texts) and form != "text":
        raise click.UsageError("--names and --text print text: they exclude another --format")
    project = context.project()
    baseline = find_baseline(context.folder, project, against)
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
    from cacheunit_build.reports.diff_markdown import diff_markdown

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
        print_escaped(diff_markdown(result))
    elif form == "github":
        print_escaped(reports.diff_annotations(result, context.repository_path))
        append_job_summary(diff_markdown(result))
    elif only_names:
        print_text(*result.affected)
    else:
        print_blocks(reports.diff_blocks(result, texts=texts, everything=context.verbose))
