"""The command `watch`."""

from __future__ import annotations

import datetime as dt
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from cacheunit_build.adapters.git.revision import Repository
from cacheunit_build.cli.context import INTERRUPTED, OK, Context, with_context
from cacheunit_build.cli.gate import lint_gate
from cacheunit_build.cli.options import format_option, selection_options
from cacheunit_build.cli.output import print_escaped, print_faults, print_remark, print_text
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.watching.state import WatchState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cacheunit_build.adapters.system.file_watcher import Watcher
    from cacheunit_build.cli.context import OpenProject
    from cacheunit_build.cli.page_server import PageServer
    from cacheunit_build.diff.diff import Baseline
    from cacheunit_build.domain.protocols import Adapters
    from cacheunit_build.domain.selection import Selection
    from cacheunit_build.watching.session import WatchedBuild, WatchSession


DEFAULT_PORT = 4599
"""The port of the live page where none is named."""


class PortType(click.IntRange):
    """A port of `--serve`."""

    name = "port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - click's signature
        """Returns the port; the name of a prefix behind the option is no port."""
        if not str(value).isdecimal():
            self.fail(f'"{value}" is not a port: put names of prefixes in front of --serve', param, ctx)
        return super().convert(value, param, ctx)


@click.command()
@selection_options
@click.option("--poll", is_flag=True, help="Look for changes every half second, where the system sends no events.")
@click.option(
    "--serve",
    "port",
    type=PortType(0, 65535),
    is_flag=False,
    flag_value=DEFAULT_PORT,
    metavar="[PORT]",
    help=f"Serve a live page to the browser of this computer. Default port: {DEFAULT_PORT}; 0 for any free one.",
)
@format_option
@with_context
def watch(context: Context, selection: Selection, form: str, *, poll: bool, port: int | None) -> int:
    """Build again whenever a source changes, until interrupted.

    On a terminal, a screen shows what the last save did and what differs from the last commit; elsewhere, a change is a
    line. With --format json, each build is one line of JSON. With --serve, a page in the browser shows the prefixes and
    every token of their texts.
    """
    from cacheunit_build.cli.live_screen import has_screen
    from cacheunit_build.compiler.project import check_selection
    from cacheunit_build.watching.session import WatchSession

    project = WatchedProject(context.project_to_build())
    if selection:
        check_selection(project.files, selection)
    session = WatchSession(project.reopen, lint_gate(), selection, project.last_commit)
    if port is not None:
        session.compare_with_main(project.main_branch)
    try:
        with _page_server(context, port) as page:
            builds = ShownBuilds(context, session, page, selection)
            if form == "text" and has_screen():
                return _show_screen(context, builds, poll=poll)
            _print_log(context, builds, form, poll=poll)
    except KeyboardInterrupt:
        pass
    return INTERRUPTED


@contextmanager
def _page_server(context: Context, port: int | None) -> Iterator[PageServer | None]:
    """Serves the page until the block ends, if there is a port."""
    if port is None:
        yield None
        return
    from cacheunit_build.cli.page_server import PageServer

    with PageServer(context.root, port, context.remark) as page:
        yield page


class ShownBuilds:
    """The builds of one watch, each with the state that the screen and the page show.

    Attributes:
        session: the builds.
        page: the server of the page; None where it is not served.
        state: what the watch knows.
    """

    def __init__(self, context: Context, session: WatchSession, page: PageServer | None, selection: Selection) -> None:
        self._context = context
        self.session = session
        self.page = page
        self.state = WatchState(selection=selection, page=None if page is None else page.address)

    def build(self) -> WatchedBuild:
        """Builds once; the page, which the author looks at, shows it first."""
        with nullcontext() if self.page is None else self.page.building():
            build = _build(self._context, self.session)
        self.state = self.state.after(build, f"{_now():%H:%M:%S}")
        if self.page is not None:
            self.page.publish(self.state)
        return build


def _watcher(context: Context, session: WatchSession, remark: Callable[[str], None], *, poll: bool) -> Watcher:
    from cacheunit_build.adapters.system.file_watcher import Watcher

    return Watcher(context.root, session.paths, remark, poll=poll)


def _show_screen(context: Context, builds: ShownBuilds, *, poll: bool) -> int:
    """Shows a screen until the user ends it."""
    from cacheunit_build.cli.colours import Colours
    from cacheunit_build.cli.live_screen import LiveScreen
    from cacheunit_build.cli.output import on_terminal
    from cacheunit_build.reports.layout import PLAIN
    from cacheunit_build.reports.watch_screen import screen_lines

    painter = Colours() if on_terminal() else PLAIN

    def remark(text: str) -> None:
        builds.state = replace(builds.state, remark=text)
        screen.draw()

    watcher = _watcher(context, builds.session, remark, poll=poll)
    lines = partial(screen_lines, painter=painter)
    with LiveScreen(lambda width, height: lines(builds.state, width, height), watcher.stop) as screen:
        for _ in watcher.changes():
            builds.build()
            screen.draw()
            builds.session.finish()
    return OK


def _print_log(context: Context, builds: ShownBuilds, form: str, *, poll: bool) -> None:
    """Prints lines about each build."""
    if builds.page is not None:
        print_remark(f"live page: {builds.page.address}")
    watcher = _watcher(context, builds.session, context.remark, poll=poll)
    for _ in watcher.changes():
        build = builds.build()
        if form == "json":
            _print_json(build)
        else:
            print_watched(build, lambda line: print_text(f"{_now():%H:%M:%S} {line}"))
        builds.session.finish()


def _build(context: Context, session: WatchSession) -> WatchedBuild:
    """Builds once; returns the build with the prices of what it changed."""
    from cacheunit_build.cli.prices import with_prices

    build = session.build()
    results = [build.since_save, build.since_commit, build.since_main]
    with suppress(CacheunitError):  # the settings changed meanwhile: there will be another build
        results = [with_prices(context, result) if result and result.differences else result for result in results]
    return replace(build, since_save=results[0], since_commit=results[1], since_main=results[2])


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

    def main_branch(self) -> Baseline:
        """Returns the commit where this branch left the main branch, to compare with; raises as `last_commit`."""
        from cacheunit_build.cli.baseline import main_branch

        return main_branch(self._project, self._repository)


def print_watched(build: WatchedBuild, print_line: Callable[[str], None]) -> None:
    """Prints what one build changed, and its faults where they are new."""
    from cacheunit_build.reports.watch import watch_lines

    if build.new_faults:
        print_faults(build.new_faults)
    if build.fixed:
        print_line("fixed")
    for line in watch_lines(build):
        print_line(line)
