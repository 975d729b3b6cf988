"""The command `watch`."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import click

from cacheunit_build.cli.context import INTERRUPTED, Context, with_context
from cacheunit_build.cli.gate import lint_gate
from cacheunit_build.cli.options import jobs_option, selection_options
from cacheunit_build.cli.output import print_faults, print_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from cacheunit_build.cli.context import OpenProject
    from cacheunit_build.domain.protocols import Adapters
    from cacheunit_build.domain.selection import Selection
    from cacheunit_build.watching.session import WatchedBuild


@click.command()
@selection_options
@click.option("--poll", is_flag=True, help="Look for changes every half second, where the system sends no events.")
@jobs_option
@with_context
def watch(context: Context, selection: Selection, *, poll: bool, jobs: int) -> int:
    """Build again whenever a source changes, until interrupted."""
    from cacheunit_build.adapters.system.file_watcher import Watcher
    from cacheunit_build.compiler.project import check_selection
    from cacheunit_build.watching.session import WatchSession

    project = context.project_to_build()
    if selection:
        check_selection(project.adapters.files, selection)
    session = WatchSession(project_opener(project), jobs, lint_gate(), selection)
    watcher = Watcher(context.root, session.paths, context.remark, poll=poll)
    try:
        for _ in watcher.changes():
            print_watched(session.build(), lambda line: print_text(f"{dt.datetime.now().astimezone():%H:%M:%S} {line}"))
    except KeyboardInterrupt:
        pass
    return INTERRUPTED


def project_opener(project: OpenProject) -> Callable[[], Adapters]:
    """Returns a function that opens the project again at each call, with vocabularies that stay loaded."""

    def reopen() -> Adapters:
        nonlocal project
        project = project.reopened()
        return project.adapters

    return reopen


def print_watched(build: WatchedBuild, print_line: Callable[[str], None]) -> None:
    """Prints what one build changed, and its faults where they are new."""
    from cacheunit_build.reports.watch import watch_lines

    if build.new_faults:
        print_faults(build.new_faults)
    if build.fixed:
        print_line("fixed")
    for line in watch_lines(build):
        print_line(line)
