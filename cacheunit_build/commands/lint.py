"""`lint`: what would break the cache or leak."""

from __future__ import annotations

import os
import sys
from importlib import metadata
from typing import TYPE_CHECKING

import click

from cacheunit_build.commands.session import NO, OK, Progress, Session, put, put_json, target_option, with_session
from cacheunit_build.ports import Selection

if TYPE_CHECKING:
    from pathlib import Path

    from cacheunit_build.finding import Linted

_FORMATS = ("text", "json", "markdown", "github", "sarif")


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@target_option
@click.option("--select", metavar="CODES", multiple=True, help="Only these codes or groups: CU101, CU1, volatile.")
@click.option("--ignore", metavar="CODES", multiple=True, help="Not these codes or groups.")
@click.option("--codes", is_flag=True, help="List all codes, and lint nothing.")
@click.option("--format", "form", type=click.Choice(_FORMATS), default="text", show_default=True, help="Of the report.")
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
    from cacheunit_build.codes import chosen
    from cacheunit_build.edges.secrets import secret_scanner
    from cacheunit_build.linting import lint as story

    wanted = chosen(select, ignore)
    if codes:
        return _list_codes(form)
    with Progress(session) as progress:
        linted = story(
            session.edges(), Selection(names=names, target=target), wanted, scan=secret_scanner(), progress=progress
        )
    for note in linted.notes:
        session.say(f'note: {note}; pip install "cacheunit-build[secrets]"')
    _put(session, linted, form)
    return OK if linted.ok else NO


def _list_codes(form: str) -> int:
    from cacheunit_build.report.lint import codes_data, codes_text

    if form not in ("text", "json"):
        raise click.UsageError("--codes lists as text or json")
    if form == "json":
        put_json(codes_data())
    else:
        put(codes_text())
    return OK


def _put(session: Session, linted: Linted, form: str) -> None:
    from cacheunit_build.report import lint as report
    from cacheunit_build.report.sarif import linted_sarif

    folder = _folder_in_repository(session.files().root)
    if form == "json":
        put_json(report.linted_data(linted))
    elif form == "sarif":
        put_json(linted_sarif(linted, folder, metadata.version("cacheunit-build")))
    elif form == "text":
        put(report.linted_text(linted, colour=sys.stdout.isatty() and not os.environ.get("NO_COLOR")))
    else:
        text = report.linted_markdown(linted) if form == "markdown" else report.linted_github(linted, folder)
        if text:
            put(text)


def _folder_in_repository(root: Path) -> str:
    """Where the project lies in the repository around it; empty at its root, and where there is none."""
    for parent in (root, *root.parents):
        if (parent / ".git").exists():
            return "" if parent == root else root.relative_to(parent).as_posix()
    return ""


COMMANDS = (lint,)
