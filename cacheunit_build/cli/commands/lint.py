"""The `lint` command: shows what would break the cache or leak information."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING

import click

from cacheunit_build.cli.changed_since import narrowed
from cacheunit_build.cli.context import DIFFERENT, OK, Context, ProgressBar, with_context
from cacheunit_build.cli.options import format_options, selection_options, since_option
from cacheunit_build.cli.output import print_blocks, print_escaped, print_json, print_text
from cacheunit_build.cli.pull_request_output import append_job_summary, print_code_quality

if TYPE_CHECKING:
    from cacheunit_build.domain.selection import Selection
    from cacheunit_build.lint.results import LintResult


@click.command()
@selection_options
@since_option
@click.option(
    "--select", metavar="RULES", multiple=True, help="Check only these rules or groups: CU101, CU1, volatile."
)
@click.option("--ignore", metavar="RULES", multiple=True, help="Skip these rules or groups.")
@click.option("--codes", "list_rules", is_flag=True, help="List all rules and exit.")
@format_options("text", "json", "markdown", "github", "gitlab", "sarif")
@with_context
def lint(
    context: Context,
    selection: Selection,
    since: str | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    form: str,
    *,
    list_rules: bool,
) -> int:
    """Show what would break the cache or leak information, where, and how to fix it."""
    from cacheunit_build.adapters.system.secret_scanner import secret_scanner
    from cacheunit_build.lint.linter import lint as lint_project
    from cacheunit_build.lint.registry import select_rules
    from cacheunit_build.lint.results import LintResult

    rules = select_rules(select, ignore)
    if list_rules:
        return _list_rules(form)
    changed = narrowed(context, selection, since)
    with ProgressBar(context) as progress:
        result = (
            LintResult(violations=())
            if changed is None
            else lint_project(context.adapters(), changed, rules, scan_secrets=secret_scanner(), progress=progress)
        )
    for note in result.notes:
        context.remark(f'note: {note}; run: pip install "cacheunit-build[secrets]"')
    _print_result(context, result, form)
    return OK if result.ok else DIFFERENT


def _list_rules(form: str) -> int:
    """Prints all rules; returns the exit code."""
    from cacheunit_build.reports.lint import rules_json, rules_lines

    if form == "json":
        print_json(rules_json())
    elif form == "text":
        print_text(*rules_lines())
    else:
        raise click.UsageError("--codes supports the formats text and json")
    return OK


def _print_result(context: Context, result: LintResult, form: str) -> None:
    """Prints the result in a format; in a GitHub job, adds the table to its summary too."""
    from cacheunit_build.reports import lint as report
    from cacheunit_build.reports.sarif import lint_sarif

    if form == "json":
        print_json(report.lint_json(result))
    elif form == "sarif":
        folder = context.repository_path("").rstrip("/")
        print_json(lint_sarif(result, folder, metadata.version("cacheunit-build")))
    elif form == "markdown":
        print_escaped(report.lint_markdown(result))
    elif form == "github":
        print_escaped(report.lint_github(result, context.repository_path))
        append_job_summary(report.lint_markdown(result))
    elif form == "gitlab":
        from cacheunit_build.reports.gitlab import lint_gitlab

        print_code_quality(context, lint_gitlab(result, context.repository_path), report.lint_blocks(result))
    else:
        print_blocks(report.lint_blocks(result))
