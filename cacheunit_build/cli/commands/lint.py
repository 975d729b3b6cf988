"""The `lint` command: shows what would break the cache or leak information."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING

import click

from cacheunit_build.cli.changed_since import narrowed
from cacheunit_build.cli.context import DIFFERENT, OK, Context, ProgressBar, with_context
from cacheunit_build.cli.options import format_options, selection_options, since_option
from cacheunit_build.cli.output import print_blocks, print_escaped, print_json
from cacheunit_build.cli.pull_request_output import append_job_summary, print_code_quality, report_faults
from cacheunit_build.domain.errors import CacheunitError

if TYPE_CHECKING:
    from cacheunit_build.domain.selection import Selection
    from cacheunit_build.lint.configuration import LintOptions
    from cacheunit_build.lint.fixes import FixResult
    from cacheunit_build.lint.results import LintResult


@click.command()
@selection_options
@since_option
@click.option(
    "--select", metavar="RULES", multiple=True, help="Check only these rules or groups: CU101, CU1, volatile."
)
@click.option("--ignore", metavar="RULES", multiple=True, help="Skip these rules or groups.")
@click.option(
    "--strict/--no-strict", default=None, help="Fail for warnings too. Default: as in the settings, else only errors."
)
@click.option(
    "--fix", is_flag=True, help="Replace in the sources what has a certain replacement, and show what is left."
)
@click.option(
    "--diff", "only_diff", is_flag=True, help="Show what --fix would change as a text diff; fail if there is anything."
)
@click.option("--codes", "list_rules", is_flag=True, help="List all rules and exit.")
@click.option("--explain", "rule", metavar="RULE", help="Explain a rule, with examples, and exit: CU101, timestamp.")
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
    strict: bool | None,
    fix: bool,
    only_diff: bool,
    list_rules: bool,
    rule: str | None,
) -> int:
    """Show what would break the cache or leak information, where, and how to fix it."""
    from cacheunit_build.lint.configuration import LintOptions
    from cacheunit_build.lint.registry import select_rules
    from cacheunit_build.lint.results import LintResult

    if rule is not None:
        return _explain_rule(rule, form)
    options = LintOptions(rules=select_rules(select, ignore), strict=strict)
    if list_rules:
        return _list_rules(form)
    try:
        changed = narrowed(context, selection, since)
        if fix or only_diff:
            return _fix(context, changed, options, form, only_diff=only_diff)
        result = LintResult(violations=()) if changed is None else _lint(context, changed, options)
    except CacheunitError as error:
        return report_faults(context, form, error)
    _print_result(context, result, form)
    return OK if result.ok else DIFFERENT


def _lint(context: Context, selection: Selection, options: LintOptions) -> LintResult:
    """Lints the project, and prints the notes of the result."""
    from cacheunit_build.adapters.system.secret_scanner import secret_scanner
    from cacheunit_build.lint.linter import lint as lint_project

    with ProgressBar(context) as progress:
        result = lint_project(context.adapters(), selection, options, scan_secrets=secret_scanner(), progress=progress)
    _print_notes(context, result)
    return result


def _print_notes(context: Context, result: LintResult) -> None:
    for note in result.notes:
        context.remark(f'note: {note}; run: pip install "cacheunit-build[secrets]"')


def _fix(context: Context, selection: Selection | None, options: LintOptions, form: str, *, only_diff: bool) -> int:
    """Fixes what is certain, or shows that; returns the exit code."""
    from cacheunit_build.adapters.system.secret_scanner import secret_scanner
    from cacheunit_build.lint.fixes import FixResult, find_fixes, write_fixes

    adapters = context.adapters()
    with ProgressBar(context) as progress:
        fixes = (
            FixResult()
            if selection is None
            else find_fixes(adapters, selection, options, scan_secrets=secret_scanner(), progress=progress)
        )
    _print_notes(context, fixes.left)
    if only_diff:
        _print_fixes(context, fixes, form, only_diff=True)
        return DIFFERENT if fixes.edits else OK
    write_fixes(adapters.files, fixes)
    _print_fixes(context, fixes, form, only_diff=False)
    return OK if fixes.left.ok else DIFFERENT


def _print_fixes(context: Context, fixes: FixResult, form: str, *, only_diff: bool) -> None:
    """Prints what was fixed, or with `only_diff` what would be, and what is left."""
    from cacheunit_build.reports import lint_fixes as report

    if form == "json":
        print_json(report.fixes_json(fixes))
    elif form != "text":
        context.remark(report.summary(fixes, written=not only_diff))
        _print_result(context, fixes.left, form)
    elif only_diff:
        print_blocks(report.diff_blocks(fixes))
        context.remark(report.summary(fixes, written=False))
    else:
        print_blocks(report.fix_blocks(fixes, verbose=context.verbose))


def _list_rules(form: str) -> int:
    """Prints all rules; returns the exit code."""
    from cacheunit_build.reports.lint_rules import rules_blocks, rules_json

    if form == "json":
        print_json(rules_json())
    elif form == "text":
        print_blocks(rules_blocks())
    else:
        raise click.UsageError("--codes supports the formats text and json")
    return OK


def _explain_rule(word: str, form: str) -> int:
    """Prints the page of a rule; returns the exit code."""
    from cacheunit_build.lint.registry import find_rule
    from cacheunit_build.reports import lint_rules as report

    if form not in ("text", "json", "markdown"):
        raise click.UsageError("--explain supports the formats text, json and markdown")
    rule = find_rule(word)
    if form == "json":
        print_json(report.rule_json(rule))
    elif form == "markdown":
        print_escaped(report.rule_markdown(rule))
    else:
        print_blocks(report.rule_blocks(rule))
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
        print_blocks(report.lint_blocks(result, verbose=context.verbose))
