"""The command `watch`."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from cacheunit_build.adapters.git.revision import Repository
from cacheunit_build.cli.context import INTERRUPTED, OK, Context, with_context
from cacheunit_build.cli.gate import lint_gate
from cacheunit_build.cli.options import format_option, jobs_option, selection_options
from cacheunit_build.cli.output import print_escaped, print_faults, print_text
from cacheunit_build.domain.errors import CacheunitError

if TYPE_CHECKING:
    from collections.abc import Callable

    from cacheunit_build.adapters.system.file_watcher import Watcher
    from cacheunit_build.cli.context import OpenProject
    from cacheunit_build.diff.diff import Baseline
    from cacheunit_build.domain.protocols import Adapters
    from cacheunit_build.domain.selection import Selection
    from cacheunit_build.watching.session import WatchedBuild, WatchSession


@click.command()
@selection_options
@click.option("--poll", is_flag=True, help="Look for changes every half second, where the system sends no events.")
@jobs_option
@format_option
@with_context
def watch(context: Context, selection: Selection, form: str, *, poll: bool, jobs: int) -> int:
    """Build again whenever a source changes, until interrupted.

    On a terminal, a screen shows what the last save did and what differs from the last commit; elsewhere, a change is a
    line. With --format json, each build is one line of JSON.
    """
    from cacheunit_build.cli.live_screen import has_screen
    from cacheunit_build.compiler.project import check_selection
    from cacheunit_build.watching.session import WatchSession

    project = WatchedProject(context.project_to_build())
    if selection:
        check_selection(project.files, selection)
    session = WatchSession(project.reopen, jobs, lint_gate(), selection, project.last_commit)
    try:
        if form == "text" and has_screen():
            return _show_screen(context, session, selection, poll=poll)
        _print_log(context, session, form, poll=poll)
    except KeyboardInterrupt:
        pass
    return INTERRUPTED


def _watcher(context: Context, session: WatchSession, remark: Callable[[str], None], *, poll: bool) -> Watcher:
    from cacheunit_build.adapters.system.file_watcher import Watcher

    return Watcher(context.root, session.paths, remark, poll=poll)


def _show_screen(context: Context, session: WatchSession, selection: Selection, *, poll: bool) -> int:
    """Shows a screen until the user ends it."""
    from cacheunit_build.cli.colours import Colours
    from cacheunit_build.cli.live_screen import LiveScreen
    from cacheunit_build.cli.output import on_terminal
    from cacheunit_build.reports.layout import PLAIN
    from cacheunit_build.reports.watch_screen import screen_lines
    from cacheunit_build.watching.state import WatchState

    state = WatchState(selection=selection)
    painter = Colours() if on_terminal() else PLAIN

    def remark(text: str) -> None:
        nonlocal state
        state = replace(state, remark=text)
        screen.draw()

    watcher = _watcher(context, session, remark, poll=poll)
    with LiveScreen(lambda width, height: screen_lines(state, width, height, painter), watcher.stop) as screen:
        for _ in watcher.changes():
            state = state.after(_build(context, session), f"{_now():%H:%M:%S}")
            screen.draw()
            session.finish()
    return OK


def _print_log(context: Context, session: WatchSession, form: str, *, poll: bool) -> None:
    """Prints lines about each build."""
    watcher = _watcher(context, session, context.remark, poll=poll)
    for _ in watcher.changes():
        build = _build(context, session)
        if form == "json":
            _print_json(build)
        else:
            print_watched(build, lambda line: print_text(f"{_now():%H:%M:%S} {line}"))
        session.finish()


def _build(context: Context, session: WatchSession) -> WatchedBuild:
    """Builds once; returns the build with the prices of what it changed."""
    from cacheunit_build.cli.prices import with_prices

    build = session.build()
    results = [build.since_save, build.since_commit]
    with suppress(CacheunitError):  # the settings changed meanwhile: there will be another build
        results = [with_prices(context, result) if result and result.differences else result for result in results]
    return replace(build, since_save=results[0], since_commit=results[1])


def _now() -> dt.datetime:
    return dt.datetime.now().astimezone()


def _print_json(build: WatchedBuild) -> None:
    from cacheunit_build.domain.escaping import json_text
    from cacheunit_build.reports.watch import watch_json

    print_escaped(json_text(watch_json(build, _now().isoformat(timespec="milliseconds")), indent=None))


class WatchedProject:
    """A project that is opened again for each build, with vocabularies that stay loaded."""

    def __init__(self, project: OpenProject) -> None:
        self._project = project
        self.files = project.files
        self._repository = Repository(project.root)

    def reopen(self) -> Adapters:
        """Returns the project as it is now on disk."""
        self._project = self._project.reopened()
        return self._project.adapters

    def last_commit(self) -> Baseline:
        """Returns the last commit, to compare with.

        Raises:
            CacheunitError: there is no git, no repository or no commit.
        """
        from cacheunit_build.cli.baseline import last_commit

        return last_commit(self._project, self._repository)


def project_opener(project: OpenProject) -> Callable[[], Adapters]:
    """Returns a function that opens the project again at each call, with vocabularies that stay loaded."""
    return WatchedProject(project).reopen


def print_watched(build: WatchedBuild, print_line: Callable[[str], None]) -> None:
    """Prints what one build changed, and its faults where they are new."""
    from cacheunit_build.reports.watch import watch_lines

    if build.new_faults:
        print_faults(build.new_faults)
    if build.fixed:
        print_line("fixed")
    for line in watch_lines(build):
        print_line(line)
