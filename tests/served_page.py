"""The live page of a project: its server, and the builds that it shows, which tests call for."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cacheunit_build.cli.commands.watch import ShownBuilds, WatchedProject
from cacheunit_build.cli.context import Context
from cacheunit_build.cli.gate import lint_gate
from cacheunit_build.cli.page_server import PageServer
from cacheunit_build.domain.selection import Selection
from cacheunit_build.watching.session import WatchSession

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Project

TARGETS = """targets = ["small", "large"]
[watch]
editor = "editor://open?file={path}&line={line}"
[target.small]
extends = "deepseek-v4"
cache = {unit = 8}
[target.large]
extends = "deepseek-v4"
cache = {unit = 16}
[target.guess]
extends = "openai"
"""
RULES = "".join(f"- Rule {number}: name the source of each claim.\n" for number in range(12))
SHOP = {
    "cacheunit.toml": TARGETS,
    "templates/rules.j2": RULES,
    "templates/agent.j2": "You are an agent of {{ city }}.\n\n{% include 'rules.j2' %}\nGoodbye.\n",
    "templates/review.j2": "You review answers.\n{% include 'rules.j2' %}\n",
    "templates/guess.j2": "You guess, since 2026-01-31T10:00:00.\n",
    "prefixes/shop/agent.yaml": "system: agent.j2\nmatrix: {city: [Berlin, Paris]}\n",
    "prefixes/shop/review.yaml": "system: review.j2\ntargets: [small]\n",
    "prefixes/guess.yaml": "system: guess.j2\ntargets: [guess, small]\n",
}


@dataclass(kw_only=True)
class LivePage:
    """A page that is served.

    Attributes:
        server: the server.
        builds: the builds; `build` builds once, and shows it.
        problems: what the server reported.
    """

    server: PageServer
    builds: ShownBuilds
    problems: list[str] = field(default_factory=list)

    def build(self) -> None:
        self.builds.build()
        self.builds.session.finish()


@contextmanager
def live_page(project: Project, port: int = 0) -> Iterator[LivePage]:
    """Serves the page of a project, built once, until the block ends; then the server has reported nothing."""
    problems: list[str] = []
    context = Context(project.root, quiet=True, verbose=False)
    watched = WatchedProject(context.project_to_build())
    session = WatchSession(watched.reopen, lint_gate(), None, watched.last_commit)
    session.compare_with_main(watched.main_branch)
    with PageServer(project.root, port, problems.append) as server:
        page = LivePage(server=server, builds=ShownBuilds(context, session, server, Selection()), problems=problems)
        page.build()
        yield page
    assert problems == []
