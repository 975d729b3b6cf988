"""A file that is being written is not built, and no input or missing folder ends a watch."""

from __future__ import annotations

import shutil
import threading
from typing import TYPE_CHECKING

import pytest
from watchdog.events import (
    FileClosedEvent,
    FileClosedNoWriteEvent,
    FileModifiedEvent,
    FileOpenedEvent,
    FileSystemEvent,
)

from cacheunit_build.adapters.system import file_watcher
from cacheunit_build.adapters.system.file_watcher import Watcher
from cacheunit_build.adapters.system.open_files import OpenFiles
from cacheunit_build.cli.commands.watch import WatchedProject
from cacheunit_build.cli.context import Context
from cacheunit_build.domain.protocols import WatchedPaths
from cacheunit_build.watching.session import WatchSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from conftest import Project

OPEN, WRITE, CLOSE, LEAVE = "opened", "modified", "closed", "closed_no_write"


@pytest.mark.parametrize(
    ("events", "being_written"),
    [
        ([OPEN], False),
        ([OPEN, WRITE], True),
        ([OPEN, WRITE, CLOSE], False),
        ([OPEN, WRITE, WRITE, CLOSE], False),
        ([OPEN, WRITE, OPEN, CLOSE], True),
        ([OPEN, WRITE, OPEN, CLOSE, WRITE, CLOSE], False),
        ([OPEN, OPEN, WRITE, CLOSE, LEAVE], False),
        ([OPEN, LEAVE, OPEN, WRITE], True),
        ([WRITE], False),  # `touch`, `chmod` and `truncate` open no file; and elsewhere than on Linux, nothing is told
        ([WRITE, WRITE], False),
        ([CLOSE, LEAVE], False),
        ([CLOSE, OPEN, WRITE], True),
        ([OPEN, WRITE, "deleted"], False),
        ([OPEN, WRITE, "moved"], True),  # the file of another name
        ([OPEN, WRITE, CLOSE, "moved"], False),
    ],
)
def test_a_file_is_being_written_from_its_change_until_everybody_has_closed_it(
    events: Sequence[str], being_written: bool
) -> None:
    files = OpenFiles()
    for kind in events:
        files.note(kind, "/a", "/b" if kind == "moved" else "")
    assert files.being_written == being_written


def test_each_file_counts_and_a_move_replaces_the_destination() -> None:
    files = OpenFiles()
    for path in ("/a", "/b"):
        files.note(OPEN, path)
        files.note(WRITE, path)
    files.note(CLOSE, "/a")
    assert files.being_written
    files.note("moved", "/a", "/b")
    assert not files.being_written
    files.note(OPEN, "/c")
    files.note(WRITE, "/c")
    files.note("moved", "/c", "/d")
    files.note(CLOSE, "/d")
    assert not files.being_written
    files.note(OPEN, "/c")
    files.note(WRITE, "/c")
    files.clear()
    assert not files.being_written


class Clock:
    """A clock that only waiting moves, and on which scheduled steps happen while somebody waits.

    Attributes:
        now: seconds.
    """

    def __init__(self, steps: Sequence[tuple[float, Callable[[], object]]]) -> None:
        self.now = 0.0
        self._steps = sorted(steps, key=lambda step: step[0])

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float, flag: threading.Event) -> bool:
        """Waits until the flag is set, or the time is over; returns whether the flag is set."""
        end = self.now + seconds
        while not flag.is_set() and self._steps and self._steps[0][0] <= end:
            time, step = self._steps.pop(0)
            self.now = max(self.now, time)
            step()
        if not flag.is_set():
            self.now = end
        return flag.is_set()


class Flag(threading.Event):
    """An event that is waited for on a clock."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        return self._clock.wait(600.0 if timeout is None else timeout, self)


class ScriptedWatcher(Watcher):
    """A watcher without an observer, whose events and times are those of a script."""

    def __init__(self, root: Path, steps: Sequence[tuple[float, Callable[[], object]]], *, poll: bool) -> None:
        self.reported: list[str] = []
        paths = WatchedPaths(folders=frozenset(("templates",)), files=frozenset(), ignored=frozenset())
        super().__init__(root, lambda: paths, self.reported.append, poll=poll)
        self.clock = Clock(steps)
        self._pending, self._stopped = Flag(self.clock), Flag(self.clock)
        self._paths = paths

    def _start(self) -> None: ...

    def _events_arrive(self) -> bool:
        return True


class Script:
    """What happens to one template at which time, and when the builds begin."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.file = root / "templates/a.md.j2"
        self.file.parent.mkdir(parents=True)
        self.file.write_bytes(b"before")
        self._root = root
        self._monkeypatch = monkeypatch

    def events(self, *kinds: type[FileSystemEvent], data: bytes | None = None) -> Callable[[], None]:
        """Returns a step that writes the file, if there are data, and sends events about it."""

        def step() -> None:
            if data is not None:
                self.file.write_bytes(data)
            for kind in kinds:
                self.watcher.handle_event(kind(str(self.file)))

        return step

    def builds(self, *steps: tuple[float, Callable[[], object]], poll: bool = False) -> list[tuple[float, bytes]]:
        """Runs the steps; returns the time and the template of each build that follows the first one."""
        self.watcher = ScriptedWatcher(self._root, [*steps, (9.0, lambda: self.watcher.stop())], poll=poll)  # noqa: PLW0108 - made now
        self._monkeypatch.setattr(file_watcher, "time", self.watcher.clock)
        started = [(round(self.watcher.clock.now, 2), self.file.read_bytes()) for _ in self._changes()]
        return started[1:]

    def _changes(self) -> Iterator[None]:
        for _ in self.watcher.changes():
            if self.watcher.clock.now >= 9.0:
                return
            yield


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    return Script(tmp_path, monkeypatch)


def test_a_file_that_is_written_slowly_is_built_when_it_is_closed(script: Script) -> None:
    builds = script.builds(
        (1.0, script.events(FileOpenedEvent, FileModifiedEvent, data=b"")),
        (1.3, script.events(FileModifiedEvent, data=b"ha")),
        (1.6, script.events(FileModifiedEvent, FileClosedEvent, data=b"half and half")),
    )
    assert [data for _, data in builds] == [b"half and half"]
    assert 1.65 <= builds[0][0] <= 1.7


def test_a_file_that_two_programs_write_is_built_when_both_have_closed_it(script: Script) -> None:
    builds = script.builds(
        (1.0, script.events(FileOpenedEvent, FileModifiedEvent, data=b"1")),
        (1.1, script.events(FileOpenedEvent, FileClosedEvent)),
        (1.4, script.events(FileModifiedEvent, FileClosedEvent, data=b"12")),
    )
    assert [data for _, data in builds] == [b"12"]


def test_a_file_that_stays_open_is_built_after_a_second(script: Script) -> None:
    builds = script.builds((1.0, script.events(FileOpenedEvent, FileModifiedEvent, data=b"log")))
    assert [data for _, data in builds] == [b"log"]
    assert 2.0 <= builds[0][0] <= 2.1


def test_a_reader_that_stays_does_not_delay_later_builds(script: Script) -> None:
    save = script.events(FileOpenedEvent, FileModifiedEvent, FileClosedEvent, data=b"x")
    (first, _), (second, _) = script.builds((1.0, script.events(FileOpenedEvent)), (2.0, save), (5.0, save))
    assert first <= 3.1
    assert second <= 5.1


@pytest.mark.parametrize("poll", [False, True])
def test_a_file_that_is_emptied_and_written_later_is_built_once(script: Script, poll: bool) -> None:
    """Where a system does not report that a file is closed, as with `truncate`, an empty file is waited for."""
    builds = script.builds(
        (1.0, script.events(FileModifiedEvent, data=b"")),
        (1.3, script.events(FileModifiedEvent, data=b"content")),
        poll=poll,
    )
    assert [data for _, data in builds] == [b"content"]
    assert script.watcher.reported == []


@pytest.mark.parametrize("poll", [False, True])
def test_a_file_that_stays_empty_is_built_with_a_warning(script: Script, poll: bool) -> None:
    builds = script.builds((1.0, script.events(FileModifiedEvent, data=b"")), poll=poll)
    assert [data for _, data in builds] == [b""]
    assert 1.5 <= builds[0][0] <= 2.2
    assert script.watcher.reported == ["warning: templates/a.md.j2 is empty now"]


def test_an_empty_file_that_was_empty_before_is_not_waited_for(script: Script) -> None:
    script.file.write_bytes(b"")
    save = script.events(FileOpenedEvent, FileModifiedEvent, FileClosedEvent)
    assert [time < 1.2 for time, _ in script.builds((1.0, save))] == [True]
    assert script.watcher.reported == []


def test_reading_a_file_causes_no_build(script: Script) -> None:
    assert script.builds((1.0, script.events(FileOpenedEvent, FileClosedNoWriteEvent))) == []


# No input ends a watch

SOURCES = {
    "cacheunit.toml": 'targets = ["anthropic-1024"]\n',
    "prefixes/a.yaml": "system: a.md.j2\n",
    "templates/a.md.j2": "You are a.\n",
}


def session(project: Project) -> WatchSession:
    return WatchSession(WatchedProject(Context(project.root, quiet=True, verbose=False).project()).reopen)


BROKEN: dict[str, dict[str, str | bytes]] = {
    "another release": {"cacheunit.toml": 'required-version = ">=99"\n'},
    "settings": {"cacheunit.toml": "[[[\n"},
    "settings twice": {"pyproject.toml": "[tool.cacheunit]\n"},
    "a lock of a newer release": {"cacheunit.lock": '{"version": 99}\n'},
    "an empty manifest": {"prefixes/a.yaml": ""},
    "a manifest that is not UTF-8": {"prefixes/a.yaml": b"\xff\xfe\x00"},
    "a second manifest": {"prefixes/A.yaml": "system: a.md.j2\n"},
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_project_that_breaks_is_a_fault_and_is_built_when_it_is_repaired(project: Project, kind: str) -> None:
    project.write(SOURCES)
    builds = session(project)
    assert builds.build().result.written
    before = project.files()
    project.write(BROKEN[kind])
    broken = builds.build()
    assert broken.new_faults
    assert builds.build().new_faults == ()
    for path in project.files().keys() - before.keys():
        project.path(path).unlink()
    project.write(before)
    assert set(BROKEN[kind]) - {"cacheunit.lock"} <= {*builds.paths().files, "pyproject.toml", "prefixes/A.yaml"}
    project.write({"templates/a.md.j2": "You were a.\n"})
    repaired = builds.build()
    assert (repaired.fixed, bool(repaired.result.written)) == (True, True)


def test_a_project_that_cannot_be_opened_at_first_is_watched(project: Project) -> None:
    project.write({**SOURCES, "cacheunit.toml": 'required-version = ">=99"\n'})
    builds = session(project)
    assert builds.build().new_faults
    assert "cacheunit.toml" in builds.paths().files
    project.write(SOURCES)
    assert builds.build().fixed


def test_a_project_folder_that_vanishes_and_comes_back_is_built_again(project: Project) -> None:
    project.write(SOURCES)
    builds = session(project)
    builds.build()
    shutil.move(project.root, project.root.parent / "away")
    assert builds.build().new_faults
    assert not project.root.exists(), "the folder is not created"
    shutil.move(project.root.parent / "away", project.root)
    project.write({"templates/a.md.j2": "You were a.\n"})
    assert builds.build().result.written


def test_while_the_project_folder_is_missing_the_folder_above_is_watched(project: Project) -> None:
    project.write(SOURCES)
    watcher = Watcher(project.root, session(project).paths, lambda _: None, poll=False)
    assert project.root in watcher._existing_folders()  # noqa: SLF001 - what is to be watched
    shutil.rmtree(project.root)
    assert list(watcher._existing_folders()) == [project.root.parent]  # noqa: SLF001
    assert watcher._is_relevant(str(project.root))  # noqa: SLF001
    assert not watcher._is_relevant(str(project.root.parent / "other/file"))  # noqa: SLF001
