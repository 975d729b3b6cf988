"""The command `diff`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cacheunit_build.cli.context import DIFFERENT, OK, Context, ProgressBar, with_context
from cacheunit_build.cli.options import format_options, price_option, selection_options
from cacheunit_build.cli.output import print_faults, print_text
from cacheunit_build.cli.output_file import output_option, write_blocks, write_report
from cacheunit_build.cli.pull_request_output import print_code_quality, print_github_diff, report_faults
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.escaping import json_text

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
@output_option
@format_options("text", "json", "markdown", "github", "gitlab", "html")
@with_context
def diff(
    context: Context,
    selection: Selection,
    against: str | None,
    model: str | None,
    output: str | None,
    form: str,
    *,
    only_names: bool,
    texts: bool,
) -> int:
    """Show what the change since a revision, a lock or another folder does to the cache."""
    from cacheunit_build.cli.baseline import find_baseline
    from cacheunit_build.cli.prices import with_prices
    from cacheunit_build.diff.diff import diff as compare

    if (only_names or texts) and form != "text":
        raise click.UsageError("--names and --text print text: they exclude another --format")
    if output is not None and (only_names or form == "github"):
        raise click.UsageError("--output is for a report: it excludes --names and --format github")
    try:
        project = context.project()
        baseline = find_baseline(context.folder, project, against)
        with ProgressBar(context) as progress:
            result = compare(project.adapters, baseline, selection, progress=progress)
    except CacheunitError as error:
        return report_faults(context, form, error, output)
    result = with_prices(context, result, model)
    _print_remarks(context, result, form)
    if only_names:
        print_text(*result.affected)
    else:
        _report(context, result, output, form, texts=texts)
    return DIFFERENT if result.differences else OK


def _print_remarks(context: Context, result: DiffResult, form: str) -> None:
    for note in result.notes:
        context.remark(f"note: {note}")
    if result.faults and form not in ("json", "github"):
        print_faults(result.faults)
        context.remark(
            f"\nnote: these are errors in {result.against} under today's rules; what they affect is shown as unknown\n"
        )


def _report(context: Context, result: DiffResult, output: str | None, form: str, *, texts: bool) -> None:
    """Prints the report, or writes it to a file."""
    from cacheunit_build.reports import diff as reports
    from cacheunit_build.reports.diff_markdown import diff_markdown

    if form == "json":
        write_report(context, json_text(reports.diff_json(result)), output)
    elif form == "html":
        from cacheunit_build.reports.diff_html import diff_html

        write_report(context, diff_html(result, everything=context.verbose), output)
    elif form == "markdown":
        write_report(context, diff_markdown(result), output)
    elif form == "github":
        print_github_diff(context, result)
    elif form == "gitlab":
        from cacheunit_build.reports.gitlab import diff_gitlab

        blocks = reports.diff_blocks(result, everything=context.verbose)
        print_code_quality(context, diff_gitlab(result, context.repository_path), blocks, output)
    else:
        write_blocks(context, reports.diff_blocks(result, texts=texts, everything=context.verbose), output)
