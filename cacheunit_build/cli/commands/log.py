"""The command `log`: shows how the tokens of prompts changed from commit to commit."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING

import click

from cacheunit_build.cli.context import OK, Context, with_context
from cacheunit_build.cli.options import format_options, selection_options
from cacheunit_build.cli.output_file import output_option, write_blocks, write_report
from cacheunit_build.domain.errors import CacheunitError, fail
from cacheunit_build.domain.escaping import json_text
from cacheunit_build.domain.file_names import LOCK_FILE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cacheunit_build.domain.selection import Selection
    from cacheunit_build.domain.target import Target
    from cacheunit_build.history.results import LogResult


@click.command()
@selection_options
@click.option("--since", metavar="REV|DATE", help="Only commits after this revision, or since this day (YYYY-MM-DD).")
@click.option(
    "-n",
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    help="Only the last N commits that changed a selected artifact.",
)
@output_option
@format_options("text", "json", "html")
@with_context
def log(
    context: Context, selection: Selection, since: str | None, limit: int | None, output: str | None, form: str
) -> int:
    """Show how tokens, padding and cached share changed by commit, as git has the lock.

    A NAME is a prefix or variant, a folder, or a glob, also of a prefix that was removed or renamed. For a single
    artifact, each commit that changed it is listed.
    """
    from cacheunit_build.adapters.git.lock_history import GitLockHistory
    from cacheunit_build.history.log import LogRange
    from cacheunit_build.history.log import log as read_log
    from cacheunit_build.reports.log_cells import shallow_note

    log_range = LogRange(since=_checked_since(since), limit=limit)
    targets = _targets(context) if selection.targets else {}
    result = read_log(GitLockHistory(context.root, LOCK_FILE), selection, targets, log_range)
    note = shallow_note(result)
    if note is not None:
        context.remark(f"note: {note}")
    _report(context, result, output, form)
    return OK


def _report(context: Context, result: LogResult, output: str | None, form: str) -> None:
    """Prints the report, or writes it to a file."""
    from cacheunit_build.reports.log import log_blocks, log_json

    if form == "json":
        write_report(context, json_text(log_json(result)), output)
    elif form == "html":
        from cacheunit_build.reports.log_page import log_page

        write_report(context, log_page(result), output)
    else:
        write_blocks(context, log_blocks(result, verbose=context.verbose), output)


def _checked_since(since: str | None) -> str | None:
    """Returns the option `--since`, or raises for a day that no calendar has."""
    if since == "":
        raise click.UsageError("--since is empty: name a revision or a day")
    if since is not None and re.fullmatch(r"\d{4}-\d{2}-\d{2}", since):
        try:
            dt.date.fromisoformat(since)
        except ValueError:
            raise fail(f'--since: there is no day "{since}"', hint="a day is YYYY-MM-DD, as in 2026-10-02") from None
    return since


def _targets(context: Context) -> Mapping[str, Target]:
    """Returns all targets by name; where the settings have faults, the known ones, since old locks need none."""
    from cacheunit_build.compiler.project import read_project
    from cacheunit_build.targets.loader import known_targets

    try:
        return read_project(context.files())[1]
    except CacheunitError:
        return known_targets()
