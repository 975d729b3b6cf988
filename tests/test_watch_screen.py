"""What watch shows: what the last save did, what differs from the last commit, and a screen that always fits."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from cacheunit_build.cli.colours import Colours
from cacheunit_build.cli.commands.watch import WatchedProject
from cacheunit_build.cli.context import Context
from cacheunit_build.cli.prices import with_prices
from cacheunit_build.diff.results import Difference, DiffResult
from cacheunit_build.domain.cache_results import Cost
from cacheunit_build.domain.errors import Fault
from cacheunit_build.domain.lock import LockEntry
from cacheunit_build.domain.selection import Selection
from cacheunit_build.domain.source_map import SourceLine
from cacheunit_build.reports.diff import diff_json
from cacheunit_build.reports.layout import text_width
from cacheunit_build.reports.watch import watch_json, watch_lines
from cacheunit_build.reports.watch_screen import screen_lines
from cacheunit_build.watching import comparison
from cacheunit_build.watching.budgets import BudgetUse
from cacheunit_build.watching.session import WatchSession
from cacheunit_build.watching.state import LastChange, WatchState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from conftest import Project


CONFIG = 'targets = ["small", "other"]\n\n[target.small]\nextends = "deepseek-v4"\ncache.unit = 8\n'
SOURCES = {
    "cacheunit.toml": f'{CONFIG}\n[target.other]\nextends = "deepseek-v4"\ncache.unit = 16\n',
    "templates/style.md.j2": "Be brief.\nBe polite.\n",
    **{f"templates/{name}.md.j2": f"You are {name}.\n{{% include 'style.md.j2' %}}\n" for name in "abc"},
    **{f"prefixes/shop/{name}.yaml": f"system: {name}.md.j2\npadding: always\n" for name in "abc"},
}
STYLE = "templates/style.md.j2"
A = "templates/a.md.j2"


def test_the_address_of_the_page_is_above_the_last_line() -> None:
    page = "http://127.0.0.1:4599/?token=abcdefghijklmnopqrstuv"
    lines = screen_lines(WatchState(page=page), 80, 24)
    assert lines[-2:] == [f"page: {page}", "q or Ctrl-C to quit"]
    assert len(lines) == 24


def git(folder: Path, *arguments: str) -> None:
    """Runs git in a folder, without the settings of this machine."""
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    environment |= {
        f"GIT_{who}_{what}": "x@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    subprocess.run(["git", *arguments], cwd=folder, env=environment, capture_output=True, check=True)


def commit(project: Project) -> None:
    git(project.root, "add", "-A")
    git(project.root, "commit", "-qm", "all")


@pytest.fixture
def shop(project: Project) -> Project:
    """Returns a project in a repository, committed."""
    project.write(SOURCES)
    git(project.root, "init", "-q", "-b", "main")
    commit(project)
    return project


def watch(project: Project, selection: Selection | None = None) -> WatchSession:
    """Returns the builds of a watch, compared with the last commit."""
    watched = WatchedProject(Context(project.root, quiet=True, verbose=False).project_to_build())
    return WatchSession(watched.reopen, selection=selection, last_commit=watched.last_commit)


def changes(result: DiffResult | None) -> set[tuple[str, str, str]]:
    """Returns prefix, target and kind of change of each difference."""
    assert result is not None
    return {(item.prefix, item.target, item.what) for item in result.differences}


def everywhere(prefixes: str, what: str) -> set[tuple[str, str, str]]:
    return {(f"shop/{name}", target, what) for name in prefixes for target in ("small", "other")}


# What is compared


def test_a_build_is_compared_with_the_one_before_and_with_the_last_commit(shop: Project) -> None:
    session = watch(shop)
    first = session.build()
    assert (first.since_save, changes(first.since_commit)) == (None, set())
    shop.edit(A, "You are a", "You were a")
    assert changes(session.build().since_save) == everywhere("a", "text edited")
    shop.edit(STYLE, "Be brief", "Be very brief")
    build = session.build()
    assert changes(build.since_save) == everywhere("abc", "text edited")
    assert build.since_commit is not None
    places = {(item.prefix, str(item.place)) for item in build.since_commit.differences}
    assert {(name, "style.md.j2" in place) for name, place in places} == {
        ("shop/a", False),
        ("shop/b", True),
        ("shop/c", True),
    }


def test_the_comparison_with_the_last_commit_is_that_of_diff(shop: Project) -> None:
    session = watch(shop)
    session.build()
    edits: list[Callable[[], object]] = [
        lambda: shop.edit(STYLE, "Be brief.\n", "Be very brief.\n"),
        lambda: shop.edit(STYLE, "Be very", "# A line above\nBe very"),
        lambda: shop.edit(A, "You are a", "You were a"),
        lambda: shop.path("prefixes/shop/b.yaml").rename(shop.path("prefixes/shop/d.yaml")),
        lambda: shop.write({"prefixes/shop/e.yaml": "system: [a.md.j2, c.md.j2]\n"}),
        lambda: shop.path("prefixes/shop/c.yaml").unlink(),
        lambda: shop.edit("cacheunit.toml", "unit = 8", "unit = 4"),
        lambda: shop.edit("cacheunit.toml", "unit = 4", "unit = 8\ncache.minimum = 16"),
        lambda: shop.edit("cacheunit.toml", "targets =", "hits_per_miss = 3\ntargets ="),
        lambda: shop.edit(STYLE, "# A line above\nBe very", "Be"),
    ]
    for edit in edits:
        edit()
        build = session.build()
        assert build.since_commit is not None
        context = Context(shop.root, quiet=True, verbose=False)
        watched = json.loads(json.dumps(diff_json(with_prices(context, build.since_commit))))
        assert watched == shop.run("diff", "--against", "HEAD", "--format", "json").json


def test_a_commit_is_what_the_next_build_is_compared_with(shop: Project) -> None:
    session = watch(shop)
    session.build()
    shop.edit(A, "You are a", "You were a")
    assert changes(session.build().since_commit) == everywhere("a", "text edited")
    commit(shop)
    build = session.build()
    assert (changes(build.since_save), changes(build.since_commit)) == (set(), set())
    shop.edit(A, "You were a", "You are a")
    assert changes(session.build().since_commit) == everywhere("a", "text edited")


def test_a_change_that_is_committed_before_it_is_built_is_compared_with_later_ones(shop: Project) -> None:
    session = watch(shop)
    shop.edit(A, "You are a", "You were a")
    session.build()
    shop.edit(A, "You were a", "You will be a")
    commit(shop)
    assert changes(session.build().since_commit) == set()
    shop.edit(A, "You will be a", "You will be an a")
    build = session.build()
    assert build.since_commit is not None
    texts = [item.text for item in build.since_commit.differences if item.text is not None]
    assert [(old.split("\n")[0], new.split("\n")[0]) for old, new in texts] == [
        ("You will be a.", "You will be an a.")
    ] * 2


def test_what_another_program_built_is_compared_too(shop: Project) -> None:
    session = watch(shop)
    session.build()
    shop.edit(A, "You are a", "You were a")
    session.build()
    session.finish()
    shop.edit(A, "You were a", "You will be a")
    shop.build()
    build = session.build()
    assert (build.result.project, build.since_save is None) == (None, False)
    assert changes(build.since_save) == everywhere("a", "text edited")
    assert build.since_save is not None
    for item in build.since_save.differences:
        assert item.text is not None
        assert [text.split("\n")[0] for text in item.text] == ["You were a.", "You will be a."]


def test_a_rule_that_another_program_built_is_compared_too(shop: Project) -> None:
    session = watch(shop)
    session.build()
    shop.edit(A, "You are a", "You were a")
    session.build()
    session.finish()
    shop.edit("cacheunit.toml", "unit = 8", "unit = 8\ncache.minimum = 64")
    shop.build()
    build = session.build()
    assert build.result.project is None
    context = Context(shop.root, quiet=True, verbose=False)
    assert build.since_commit is not None
    watched = json.loads(json.dumps(diff_json(with_prices(context, build.since_commit))))
    assert watched == shop.run("diff", "--against", "HEAD", "--format", "json").json


def test_of_git_only_commits_and_checkouts_are_watched(shop: Project) -> None:
    session = watch(shop)
    session.build()
    paths = session.paths()
    assert {path for path in paths.files if path.startswith(".git")} == {".git/logs/HEAD"}
    assert ".git" in paths.ignored


def test_a_commit_that_does_not_compile_is_compared_by_its_lock(shop: Project) -> None:
    shop.build()
    shop.edit(A, "You are a.", "{{ broken }")
    commit(shop)
    shop.edit(A, "{{ broken }", "You were a.")
    session = watch(shop)
    build = session.build()
    assert changes(build.since_commit) == everywhere("a", "text edited")
    errors = "1 error there under today's rules; what they affect is unknown"
    assert f"({errors})" in list(watch_lines(build))[-1]
    assert f"  {errors}" in screen_lines(WatchState().after(build, "12:00:00"), 100, 30)


def test_names_and_targets_apply_to_both_comparisons(shop: Project) -> None:
    session = watch(shop, Selection(names=("shop/a", "shop/b"), targets=("small",)))
    shop.edit(A, "You are a", "You were a")
    session.build()
    shop.edit(STYLE, "Be brief", "Be very brief")
    build = session.build()
    expected = {("shop/a", "small"), ("shop/b", "small")}
    for result in (build.since_save, build.since_commit):
        assert {(prefix, target) for prefix, target, _ in changes(result)} == expected


def test_changes_have_the_words_of_diff(shop: Project) -> None:
    session = watch(shop)
    session.build()
    shop.edit("cacheunit.toml", "unit = 8", "unit = 4")
    (what,) = {what for _, _, what in changes(session.build().since_save)}
    assert what.startswith("rule of the target changed: unit 8 → 4")
    shop.edit("cacheunit.toml", "unit = 4", "unit = 4\ncache.minimum = 8")
    differences = changes(session.build().since_save)
    assert {what.partition(":")[0] for _, _, what in differences} == {"rule of the target changed"}
    assert len(differences) == 3
    shop.path("prefixes/shop/b.yaml").rename(shop.path("prefixes/shop/d.yaml"))
    build = session.build()
    assert changes(build.since_save) == everywhere("d", "renamed")
    (line, _) = watch_lines(build)
    assert line.startswith("prefixes/shop/d.yaml:1  renamed: shop/b → shop/d for other, small, ")
    shop.path("prefixes/shop/d.yaml").unlink()
    assert changes(session.build().since_save) == everywhere("d", "removed")


@pytest.mark.parametrize("most", [0, 100])
def test_what_an_added_prefix_shares_is_known_in_small_projects_only(
    shop: Project, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(comparison, "MOST_COMPARED_WITH_ADDED", most)
    session = watch(shop)
    session.build()
    shop.write({"prefixes/shop/e.yaml": "system: [a.md.j2, b.md.j2]\ntargets: [small]\n"})
    build = session.build()
    assert build.since_save is not None
    (item,) = build.since_save.differences
    if most:
        assert (item.shares, item.why) == ("shop/a", None)
        assert item.still_cached
    else:
        assert (item.shares, item.still_cached) == (None, None)
        assert "cacheunit diff" in (item.why or "")


def test_without_a_commit_it_is_said_why_nothing_is_compared(project: Project) -> None:
    project.write(SOURCES)
    session = watch(project)
    lines = list(watch_lines(session.build()))
    assert len(lines) == 2
    assert lines[1].startswith("not compared with HEAD: not in a git work tree")
    git(project.root, "init", "-q")
    assert session.build().no_commit == "there is no commit yet"
    project.edit(A, "You are a", "You were a")
    build = session.build()
    assert changes(build.since_save) == everywhere("a", "text edited")
    assert len(list(watch_lines(build))) == 1


def test_after_a_fault_a_build_is_compared_with_the_last_good_one(shop: Project) -> None:
    session = watch(shop)
    state = WatchState().after(session.build(), "12:00:00")
    shop.edit(A, "You are a.", "{{ broken }")
    state = state.after(session.build(), "12:00:01")
    state = state.after(session.build(), "12:00:02")
    lines = screen_lines(state, 100, 30)
    assert lines[0] == "error: 1 fault since 12:00:01"
    assert lines[1].startswith(f"  {A}:1: ")
    assert lines[2].startswith("  hint: ")
    assert "last good build at 12:00:00; build/ and the lock are as it left them" in lines
    assert "against HEAD" in "".join(lines)
    shop.edit(A, "{{ broken }", "You were a.")
    build = session.build()
    assert (build.fixed, changes(build.since_save)) == (True, everywhere("a", "text edited"))
    state = state.after(build, "12:00:03")
    assert screen_lines(state, 100, 30)[0].startswith("ok: built at 12:00:03 in ")
    assert "last change at 12:00:03: 2 artifacts changed" in screen_lines(state, 100, 30)


def test_a_build_that_changes_nothing_leaves_the_last_change_on_the_screen(shop: Project) -> None:
    session = watch(shop)
    state = WatchState().after(session.build(), "12:00:00")
    shop.edit(A, "You are a", "You were a")
    state = state.after(session.build(), "12:00:01").after(session.build(), "12:00:02")
    lines = screen_lines(state, 100, 30)
    assert lines[0].startswith("ok: built at 12:00:02 in ")
    assert lines[0].endswith("6 artifacts, nothing written")
    assert "last change at 12:00:01: 2 artifacts changed" in lines


def test_budgets_are_those_of_the_manifests_the_fullest_first(shop: Project) -> None:
    session = watch(shop)
    session.build()
    assert session.build().budgets == ()
    for name, budget in {"a": 400, "b": 100}.items():
        shop.write({f"prefixes/shop/{name}.yaml": f"system: {name}.md.j2\npadding: always\nbudget: {budget}\n"})
    uses = session.build().budgets
    assert [(use.prefix, use.budget) for use in uses] == [("shop/b", 100), ("shop/a", 400)]
    tokens = json.loads(shop.read("cacheunit.lock"))
    assert str(uses[0].tokens) in json.dumps(tokens)


# The screen


def entry(tokens: int, padding: int) -> LockEntry:
    digest = f"sha256:{tokens:064x}"
    return LockEntry(tokens=tokens, counted="exact", padding=padding, text=digest, request=digest, token_ids=digest)


def difference(prefix: str, target: str, tokens: tuple[int, int], line: int = 4) -> Difference:
    """Returns a difference of which the content grew, and the padding shrank by as much."""
    old, new = tokens
    return Difference(
        prefix=prefix,
        target=target,
        kind="changed",
        what="text edited",
        place=SourceLine(path="templates/partials/style.md.j2", line=line),
        old=entry(old, 20),
        new=entry(new, 12),
        still_cached=1_024,
        recomputed=new - 1_024,
        cost=Cost(one_time=new - 1_024.0, per_million=0.0),
        mean_price=0.0,
    )


MANY = DiffResult(
    against="HEAD (1a2b3c4)",
    differences=tuple(
        difference(f"support/agent-{number:03}", target, (1_280, 1_280))
        for number in range(200)
        for target in ("anthropic", "deepseek-v4", "openai")
    ),
)
CAUSES = DiffResult(
    against="HEAD (1a2b3c4)",
    differences=tuple(difference(f"support/p{line}", "openai", (1_280, 1_280 + line), line) for line in range(1, 41)),
)
BUDGETS = tuple(
    BudgetUse(prefix=f"support/p{number}", target="openai", tokens=1_280, budget=1_300 + 90 * number, estimated=False)
    for number in range(30)
)
FAULTS = tuple(
    Fault(message="unexpected '}'", path=f"templates/t{number}.md.j2", line=3, hint="close it") for number in range(30)
)


def state(change: DiffResult = MANY, faults: Sequence[Fault] = ()) -> WatchState:
    return WatchState(
        at="12:03:11",
        milliseconds=412,
        faults=tuple(faults),
        faults_since="12:03:10" if faults else None,
        good_at="12:03:05",
        artifacts=600,
        written=600,
        change=LastChange(at="12:03:05", milliseconds=412, difference=change),
        since_commit=change,
        budgets=BUDGETS,
        remark="watching for changes",
        selection=Selection(names=("support/*",), targets=("openai",)),
    )


FRAMES = {
    "edit": (state(), 40),
    "many causes": (state(CAUSES), 24),
    "faults": (state(faults=FAULTS[:2]), 24),
}


@pytest.mark.parametrize("columns", [80, 100, 200])
@pytest.mark.parametrize("name", FRAMES)
def test_frames(golden: Callable[[str, bytes], None], name: str, columns: int) -> None:
    shown, height = FRAMES[name]
    lines = screen_lines(shown, columns, height)
    golden(f"../frames/watch-{name.replace(' ', '-')}-{columns}.txt", "\n".join([*lines, ""]).encode())


def test_a_change_of_600_artifacts_is_one_row_in_each_comparison_and_leaves_nothing_out() -> None:
    lines = screen_lines(state(), 100, 40)
    assert sum("support/ (200 prefixes) for 3 targets" in line for line in lines) == 2
    assert lines[-1] == "only support/* --target openai · watching for changes · q or Ctrl-C to quit"
    assert "1,260 → 1,268" in "".join(lines)
    assert "20 → 12" in "".join(lines)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
@pytest.mark.parametrize("height", [1, 5, 10, 24, 40, 60])
@pytest.mark.parametrize("faults", [0, 1, 30])
@pytest.mark.parametrize("change", [MANY, CAUSES])
def test_a_frame_has_as_many_lines_as_the_terminal_and_is_not_wider(
    width: int, height: int, faults: int, change: DiffResult
) -> None:
    lines = screen_lines(state(change, FAULTS[:faults]), width, height)
    assert len(lines) == height
    if width >= 60:  # numbers never wrap
        assert max(map(text_width, lines)) <= width
    if height >= 5:
        assert lines[0].startswith("error: " if faults else "ok: ")
        assert lines[-1].endswith("quit")
    if height >= 24:
        headings = [line for line in lines if line.startswith(("last change", "against", "budgets"))]
        assert len(headings) == 3
        if faults == 30:
            assert any("more faults" in line for line in lines)


def test_the_rows_that_do_not_fit_are_counted() -> None:
    words = [f"text edited {number}" for number in range(20)]
    items = [replace(difference(f"p{n}", "openai", (1_280, 1_280), n + 1), what=what) for n, what in enumerate(words)]
    lines = screen_lines(state(DiffResult(against="HEAD", differences=tuple(items))), 100, 30)
    change, since_commit = list(parts(lines))[1:3]
    for part in (change, since_commit):
        shown = sum("text edited" in line for line in part)
        (left,) = [int(line.split()[2]) for line in part if line.startswith("  … and ")]
        assert shown > 0
        assert shown + left == len(items)


def parts(lines: Sequence[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for line in [*lines, ""]:
        if line:
            part.append(line)
        elif part:
            yield part
            part = []


def test_a_bar_is_as_long_as_the_share_that_is_used() -> None:
    use = BudgetUse(prefix="support/agent", target="openai", tokens=1_204, budget=1_500, estimated=True)
    lines = screen_lines(WatchState(at="12:00:00", budgets=(use,)), 80, 10)
    assert "  support/agent  openai  ████████████████░░░░  ~1,204 of 1,500" in lines


def test_text_from_outside_is_escaped_on_the_screen_and_in_the_log() -> None:
    evil = "a\x1b[2J\n::error::x"
    item = difference(evil, "openai", (1_280, 1_290))
    shown = state(DiffResult(against="HEAD", differences=(item,)), [Fault(message=evil, path=evil, line=1, hint=evil)])
    for line in screen_lines(shown, 100, 40):
        assert line.isprintable()
        assert not line.lstrip().startswith("::")


def test_colours_change_no_width_and_no_word() -> None:
    plain, painted = (screen_lines(state(faults=FAULTS[:1]), 100, 40, *painter) for painter in ((), (Colours(),)))
    import click

    assert [click.unstyle(line) for line in painted] == plain
    assert painted[0].startswith("\x1b[31m")


def test_before_the_first_build_the_screen_says_that_it_builds() -> None:
    assert screen_lines(WatchState(), 80, 5) == ["building", "", "", "", "q or Ctrl-C to quit"]


def test_json_has_both_comparisons_the_faults_and_the_budgets(shop: Project) -> None:
    session = watch(shop)
    session.build()
    shop.edit(A, "You are a", "You were a")
    report = watch_json(session.build(), "2026-01-01T12:00:00+00:00")
    assert report["ok"]
    assert [item["what"] for item in report["since_save"]["changes"]] == ["text edited"] * 2
    assert report["since_commit"]["against"].startswith("HEAD (")
    shop.edit(A, "You were a.", "{{ broken }")
    report = watch_json(session.build(), "2026-01-01T12:00:00+00:00")
    assert (report["ok"], report["errors"][0]["path"], report["since_save"]) == (False, A, None)


# The command on a terminal


class Terminal:
    """A program on a pseudo-terminal of 100 columns and 30 lines.

    Attributes:
        shown: everything that it wrote.
    """

    def __init__(self, folder: Path, *arguments: str, **variables: str) -> None:
        self._terminal, end = pty.openpty()
        self.resize(100, 30)
        environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cacheunit_build", "watch", *arguments],
            cwd=folder,
            env={**environment, "TERM": "xterm-256color", **variables},
            stdin=end,
            stdout=end,
            stderr=end,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(end, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - one thread
        )
        os.close(end)
        self.shown = b""

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def until(self, *texts: str) -> None:
        """Waits until all these texts have been shown since the last call."""
        deadline = time.monotonic() + 60
        new = b""
        while not all(text.encode() in new for text in texts):
            assert time.monotonic() < deadline, new
            if select.select([self._terminal], [], [], 1)[0]:
                new += os.read(self._terminal, 65536)
        self.shown += new

    def end(self) -> int:
        """Reads the rest, and returns the exit code."""
        with contextlib.suppress(OSError):  # the terminal ends with the process
            while data := os.read(self._terminal, 65536):
                self.shown += data
        return self.process.wait(60)

    def close(self) -> None:
        """Ends the program if it still runs."""
        os.close(self._terminal)
        self.process.kill()
        self.process.wait()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.parametrize(("keys", "code"), [(b"q", 0), (b"\x03", 130)])
def test_on_a_terminal_a_screen_is_drawn_and_left_at_the_end(shop: Project, keys: bytes, code: int) -> None:
    terminal = Terminal(shop.root)
    try:
        terminal.until("ok:", "against HEAD (", "no difference", "watching for changes")
        shop.edit(STYLE, "Be brief", "Be very brief")
        terminal.until("last change at ", "templates/style.md.j2:1  text edited", "quit")
        commit(shop)
        terminal.until("against HEAD (", "no difference", "quit")
        terminal.resize(60, 20)
        os.kill(terminal.process.pid, signal.SIGWINCH)
        terminal.until("quit")
        terminal.type(keys)
        assert terminal.end() == code
    finally:
        terminal.close()
    assert terminal.shown.startswith(b"\x1b[?1049h")
    assert terminal.shown.endswith(b"\x1b[?1049l")
    assert b"\x1b[32m" in terminal.shown
    last = terminal.shown.decode().rpartition("\x1b[H")[2]
    assert last.count("\r\n") == 19


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.parametrize(("variables", "has_screen"), [({"NO_COLOR": "1"}, True), ({"TERM": "dumb"}, False)])
def test_a_screen_needs_no_colours_but_a_cursor(shop: Project, variables: dict[str, str], has_screen: bool) -> None:
    terminal = Terminal(shop.root, **variables)
    try:
        terminal.until("against HEAD (", "no difference")
        terminal.type(b"\x03")
        assert terminal.end() == 130
    finally:
        terminal.close()
    assert (b"\x1b[?1049h" in terminal.shown) == has_screen
    assert b"\x1b[32m" not in terminal.shown


@pytest.mark.slow
def test_in_json_each_build_is_a_line(shop: Project) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "cacheunit_build", "-q", "watch", "--format", "json"],
        cwd=shop.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        first = json.loads(process.stdout.readline())
        assert (first["ok"], first["since_save"], first["since_commit"]["changes"]) == (True, None, [])
        shop.edit(A, "You are a.", "{{ broken }")
        while (report := json.loads(process.stdout.readline()))["ok"]:
            continue
        assert [error["path"] for error in report["errors"]] == [A]
    finally:
        process.kill()
        process.communicate()
