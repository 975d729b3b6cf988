"""The `lint` command: shows what would break the cache or leak information."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING

import click

from cacheunit_build.cli.context import (
    NO,
    OK,
    ProgressBar,
    Session,
    colourful,
    format_options,
    put,
    put_json,
    summarize,
    target_option,
    with_session,
)
from cacheunit_build.domain.protocols import Selection

if TYPE_CHECKING:
    from cacheunit_build.lint.results import LintResult


@click.command("lint")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@target_option
@click.option(
    "--select", metavar="RULES", multiple=True, help="Check only these rules or groups: CU101, CU1, volatile."
)
@click.option("--ignore", metavar="RULES", multiple=True, help="Skip these rules or groups.")
@click.option("--codes", "list_rules", is_flag=True, help="List all rules and exit.")
@format_options("text", "json", "markdown", "github", "sarif")
@with_session
def lint_command(
    session: Session,
    names: tuple[str, ...],
    target: str | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    form: str,
    *,
    list_rules: bool,
) -> int:
    """Show what would break the cache or leak information, where, and how to fix it."""
    from cacheunit_build.adapters.system.secret_scanner import secret_scanner
    from cacheunit_build.lint.linter import lint
    from cacheunit_build.lint.registry import select_rules

    rules = select_rules(select, ignore)
    if list_rules:
        return _list_rules(form)
    selection = Selection(names=names, target=target)
    with ProgressBar(session) as progress:
        result = lint(session.adapters(), selection, rules, scan_secrets=secret_scanner(), progress=progress)
    for note in result.notes:
        session.say(f'note: {note}; run: pip install "cacheunit-build[secrets]"')
    _print_result(session, result, form)
    return OK if result.ok else NO


def _list_rules(form: str) -> int:
    """Prints all rules; returns the exit code."""
    from cacheunit_build.reports.lint import rules_data, rules_text

    if form == "json":
        put_json(rules_data())
    elif form == "text":
        put(rules_text())
    else:
        raise click.UsageError("--codes supports the formats text and json")
    return OK


def _print_result(session: Session, result: LintResult, form: str) -> None:
    """Prints the result in a format; in a GitHub job, adds the table to its summary too."""
    from cacheunit_build.reports import lint as report
    from cacheunit_build.reports.sarif import lint_sarif

    if form == "json":
        put_json(report.lint_data(result))
    elif form == "sarif":
        folder = session.in_repository("").rstrip("/")
        put_json(lint_sarif(result, folder, metadata.version("cacheunit-build")))
    elif form == "markdown":
        put(report.lint_markdown(result))
    elif form == "github":
        put(report.lint_github(result, session.in_repository))
        summarize(report.lint_markdown(result))
    else:
        put(report.lint_text(result, colour=colourful()))


COMMANDS = (lint_command,)
