"""The command `targets`."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import click

from cacheunit_build.cli.context import OK, Context, with_context
from cacheunit_build.cli.options import format_option
from cacheunit_build.cli.output import print_blocks, print_json

if TYPE_CHECKING:
    from cacheunit_build.domain.target import Target

_OLD_DAYS = 180


@click.command()
@click.argument("name", required=False)
@format_option
@with_context
def targets(context: Context, name: str | None, form: str) -> int:
    """List the known targets and the project's; with NAME, show all about one, with the evidence of its numbers."""
    from cacheunit_build.compiler.project import read_project
    from cacheunit_build.reports.targets import target_blocks, targets_json, targets_table
    from cacheunit_build.targets.lookup import named_target

    _, known = read_project(context.files())
    if name is not None:
        target = named_target(name, known)
        known = {target.name: target}
    if form == "json":
        print_json(targets_json(known))
    elif name is None:
        print_blocks([targets_table(known, verbose=context.verbose)])
    else:
        print_blocks(block for target in known.values() for block in target_blocks(target))
    for target in known.values():
        _warn_of_old_evidence(context, target)
    return OK


def _warn_of_old_evidence(context: Context, target: Target) -> None:
    """Prints a warning where the numbers of a target were checked long ago, since providers change their rules."""
    today = dt.datetime.now(dt.UTC).date()
    evidence = (*target.cache.evidence, *target.options, *target.tool_limits)
    age = max(((today - item.checked).days for item in evidence), default=0)
    if age > _OLD_DAYS:
        context.remark(f"warning: {target.name}: its numbers were checked {age} days ago; check them again")
