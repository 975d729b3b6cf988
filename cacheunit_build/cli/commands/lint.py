"""`lint`: what would break the cache or leak."""

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


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@target_option
@click.option("--select", metavar="CODES", multiple=True, help="Only these codes or groups: CU101, CU1, volatile.")
@click.option("--ignore", metavar="CODES", multiple=True, help="Not these codes or groups.")
@click.option("--codes", is_flag=True, help="List all codes, and lint nothing.")
@format_options("text", "json", "markdown", "github", "sarif")
@with_session
def lint(
    session: Session,
    names: tuple[str, ...],
    target: str | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    form: str,
    *,
    codes: bool,
) -> int:
    """Say what would break the cache or leak: where in the sources, how bad, and what to do."""
    from cacheunit_build.adapters.system.secret_scanner import secret_scanner
    from cacheunit_build.lint.linter import lint as story
    from cacheunit_build.lint.registry import chosen

    wanted = chosen(select, ignore)
    if codes:
        return _list_codes(form)
    with ProgressBar(session) as progress:
        linted = story(
            session.adapters(), Selection(names=names, target=target), wanted, scan=secret_scanner(), progress=progress
        )
    for note in linted.notes:
        session.say(f'note: {note}; pip install "cacheunit-build[secrets]"')
    _put(session, linted, form)
    return OK if linted.ok else NO


def _list_codes(form: str) -> int:
    from cacheunit_build.reports.lint import codes_data, codes_text

    if form not in ("text", "json"):
        raise click.UsageError("--codes lists as text or json")
    if form == "json":
        put_json(codes_data())
    else:
        put(codes_text())
    return OK


def _put(session: Session, linted: LintResult, form: str) -> None:
    from cacheunit_build.reports import lint as report
    from cacheunit_build.reports.sarif import linted_sarif

    if form == "json":
        put_json(report.linted_data(linted))
    elif form == "sarif":
        folder = session.in_repository("").rstrip("/")
        put_json(linted_sarif(linted, folder, metadata.version("cacheunit-build")))
    elif form == "markdown":
        put(report.linted_markdown(linted))
    elif form == "github":
        put(report.linted_github(linted, session.in_repository))
        summarize(report.linted_markdown(linted))
    else:
        put(report.linted_text(linted, colour=colourful()))


COMMANDS = (lint,)
