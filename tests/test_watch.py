"""Watching builds every save once and nothing else, and ends with the output of a build from nothing."""

from __future__ import annotations

import errno
import gc
import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Self

import pytest
from support import reference
from watchdog.observers import Observer

from cacheunit_build.adapters.storage import build_cache, project_files
from cacheunit_build.adapters.system import file_watcher
from cacheunit_build.adapters.system.file_watcher import Watcher
from cacheunit_build.adapters.system.watched_names import symlink_folders
from cacheunit_build.cli.commands.watch import WatchedProject
from cacheunit_build.cli.context import Context
from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.source_map import SourceLine
from cacheunit_build.reports.watch import watch_lines
from cacheunit_build.targets.loader import known_targets
from cacheunit_build.templating.renderer import Renderer
from cacheunit_build.watching.session import WatchSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from conftest import Cacheunit, Project
    from watchdog.events import FileSystemEvent
    from watchdog.observers.api import BaseObserver

    from cacheunit_build.adapters.storage.file_stat import Stat
    from cacheunit_build.builder.results import BuildResult
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.manifest import Variant
    from cacheunit_build.domain.prompt import Lookup, Rendered
    from cacheunit_build.domain.protocols import WatchedPaths

pytestmark = pytest.mark.slow  # real files, events and threads

PROGRAM = [sys.executable, "-u", "-c", "from cacheunit_build.cli.main import main; main()"]
SLOW_WATCH = """
from cacheunit_build.adapters.system import file_watcher
from cacheunit_build.cli.main import main

file_watcher.SETTLE_SECONDS = 0.5
file_watcher.RESCAN_SECONDS = 600.0
main()
"""
"""A program: the command line, where a burst of events ends after half a second and no scan comes without an event."""

LOCK_FILE = "cacheunit.lock"
PATIENCE = 60.0
"""Seconds after which a test gives up waiting; on a machine that is not busy, no wait takes as long as one."""

FIXED = "fixed"
"""The line that reports a build without faults after one with faults."""

CONFIG = '[target.small]\nextends = "deepseek-v4"\ncache.unit = 8\n'
SOURCES = {
    "cacheunit.toml": f'targets = ["small"]\n\n{CONFIG}',
    "prefixes/a.yaml": "system: a.md.j2\n",
    "prefixes/deep/b.yaml": "system: b.md.j2\ndata: {faq: data/deep/er/faq.yaml}\n",
    "templates/a.md.j2": "You are a.\n{% include 'partials/style.md.j2' %}\n",
    "templates/b.md.j2": "You are b: {{ faq.answer }}.\n",
    "templates/partials/style.md.j2": "Be brief.\n",
    "data/deep/er/faq.yaml": "answer: first\n",
}
A = "templates/a.md.j2"
STYLE = "templates/partials/style.md.j2"
TEXT_A = "build/a/small.txt"
TEXT_B = "build/deep/b/small.txt"


@pytest.fixture(autouse=True)
def watch_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets times for tests: changes are noticed by events alone, or by fast polling; and files are not synced."""
    monkeypatch.setattr(file_watcher, "RESCAN_SECONDS", 600.0)
    monkeypatch.setattr(file_watcher, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(file_watcher, "SETTLE_SECONDS", 0.03)
    monkeypatch.setattr(file_watcher, "PROBE_TIMEOUT_SECONDS", PATIENCE)
    monkeypatch.setattr(os, "fsync", lambda _: None)


def watch_session(project: Project) -> WatchSession:
    """Returns the builds of a watch, without anything that watches."""
    return WatchSession(WatchedProject(Context(project.root, quiet=True, verbose=False).project()).reopen)


class RecordingWatcher(Watcher):
    """A watcher that records what it does, and can be kept from ending a burst of changes.

    Attributes:
        events: the paths of the events that were handled.
        scans: how many scans have ended.
        waits: how often it began to wait for an event.
        before_scan: called before each scan.
        burst_may_end: while this is not set, a burst goes on.
    """

    def __init__(
        self, root: Path, get_paths: Callable[[], WatchedPaths], report: Callable[[str], None], *, poll: bool
    ) -> None:
        super().__init__(root, get_paths, report, poll=poll)
        self.events: list[str] = []
        self.scans = 0
        self.waits = 0
        self.before_scan: Callable[[], object] = lambda: None
        self.burst_may_end = threading.Event()
        self.burst_may_end.set()
        self._waiting = False

    @property
    def polling(self) -> bool:
        return self._polling

    @property
    def idle(self) -> bool:
        """Whether every event that was handled so far has led to a build that has ended."""
        return self._waiting and not self._pending.is_set()

    def watched_folders(self) -> list[Path]:
        return [folder for folder in list(self._watches) if folder.is_dir()]

    def stop(self) -> None:
        self.burst_may_end.set()
        super().stop()

    def handle_event(self, event: FileSystemEvent) -> None:
        super().handle_event(event)
        self.events.append(os.fsdecode(event.src_path))

    def _wait_for_event(self) -> bool:
        self.waits += 1
        self._waiting = True
        try:
            return super()._wait_for_event()
        finally:
            self._waiting = False

    def _wait_for_burst_end(self) -> None:
        self.burst_may_end.wait(PATIENCE)
        super()._wait_for_burst_end()

    def _wait_until_stable(self, stats: dict[str, Stat]) -> dict[str, Stat]:
        self.burst_may_end.wait(PATIENCE)
        return super()._wait_until_stable(stats)

    def _scan_files(self) -> dict[str, Stat]:
        self.before_scan()
        stats = super()._scan_files()
        self.scans += 1
        return stats


class Watching:
    """Watches a project in a thread of its own, and records the builds.

    Attributes:
        built: the result of each build after the first two.
        lines: the lines that report builds.
        reported: the lines that report how it watches.
        faults: the faults of each build that failed otherwise than the one before.
        after_build: called after each build, before the watcher looks for changes again.
    """

    def __init__(self, project: Project, *, poll: bool = False) -> None:
        self.project = project
        self.built: list[BuildResult] = []
        self.lines: list[str] = []
        self.reported: list[str] = []
        self.faults: list[tuple[Fault, ...]] = []
        self._errors: list[BaseException] = []
        self._marks = itertools.count()
        self.after_build: Callable[[], object] = lambda: None
        self._session = watch_session(project)
        self.watcher = RecordingWatcher(project.root.resolve(), self._session.paths, self.reported.append, poll=poll)
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            for _ in self.watcher.changes():
                self._build()
        except BaseException as error:  # noqa: BLE001 - it is raised where the test waits
            self._errors.append(error)

    def _build(self) -> None:
        build = self._session.build()
        self.after_build()
        if build.new_faults:
            self.faults.append(build.new_faults)
        self.lines += [*([FIXED] if build.fixed else []), *watch_lines(build)]
        self.built.append(build.result)

    def __enter__(self) -> Self:
        self._thread.start()
        # The first build finds out which files it reads; they were not watched before, so a second one follows.
        self.until(lambda: self.reported and self.watcher.scans > 3 and (self.watcher.idle or self.watcher.polling))
        del self.built[:2]
        return self

    def __exit__(self, *_: object) -> None:
        self.watcher.stop()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        if self._errors:
            raise self._errors[0]

    def holds_within(self, seconds: float, condition: Callable[[], object]) -> bool:
        """Waits until the condition holds; returns whether it did in time."""
        end = time.monotonic() + seconds
        while not condition():
            if self._errors:
                raise self._errors[0]
            if time.monotonic() > end:
                return False
            time.sleep(0.005)
        return True

    def until(self, condition: Callable[[], object]) -> None:
        """Waits until the condition holds."""
        state = (self.reported, self.faults, self.lines)
        assert self.holds_within(PATIENCE, condition), (*state, len(self.built))

    def until_text(self, path: str, text: str) -> None:
        """Waits until an artifact has that text, and a build that wrote anything has ended."""
        file = self.project.path(path)
        self.until(lambda: file.is_file() and text in file.read_text(encoding="utf-8"))
        self.until(lambda: any(built.written for built in self.built))

    @contextmanager
    def one_burst(self) -> Iterator[None]:
        """Lets no build begin within the block, so that changes in it are one burst however slow the machine is."""
        self.watcher.burst_may_end.clear()
        try:
            yield
            self._handle_all_events()
        finally:
            self.watcher.burst_may_end.set()

    def settle(self) -> None:
        """Waits until all changes up to now have been noticed and built."""
        builds = -1
        while builds != len(self.built):
            builds = len(self.built)
            if self.watcher.polling:
                # Between two waits with no build in between, a whole scan showed nothing new.
                waits = self.watcher.waits
                self.until(lambda waits=waits: self.watcher.waits >= waits + 2)  # type: ignore[misc]
            else:
                self._handle_all_events()
                self.until(lambda: self.watcher.idle or self.watcher.polling)

    def _handle_all_events(self) -> None:
        """Waits until the events of all changes up to now have been handled.

        The events of a folder come in order: when that of a file written now has come, the earlier ones have, too.
        """
        if self.watcher.polling:
            return
        name = f".mark-{next(self._marks)}.swp"
        written: set[Path] = set()

        def marks() -> set[Path]:
            return {folder / name for folder in self.watcher.watched_folders()}

        def handled() -> bool:
            return self.watcher.polling or {str(mark) for mark in marks()}.issubset(self.watcher.events)

        end = time.monotonic() + PATIENCE
        while not handled():  # a folder that was created again is not watched at once: the file is written until it is
            assert time.monotonic() < end, (marks(), self.watcher.events)
            for mark in marks():
                with suppress(FileNotFoundError):
                    mark.write_bytes(b"")
                    written.add(mark)
            self.holds_within(0.5, handled)
        for mark in written:
            mark.unlink(missing_ok=True)

    def reports(self, start: str) -> bool:
        """Returns whether a line that begins so reported a build."""
        return any(line.startswith(start) for line in self.lines)

    @property
    def rebuilt(self) -> list[set[str]]:
        """The prefixes that each build wrote, if any."""
        return [{prefix for prefix, _ in built.written} for built in self.built if built.written or built.removed]

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and not self._errors


@pytest.fixture
def shop(project: Project) -> Project:
    project.write(SOURCES)
    return project


@pytest.fixture(params=[False, True], ids=["events", "polling"])
def poll(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def assert_as_built_from_nothing(project: Project, cacheunit: Cacheunit) -> None:
    """Asserts that a copy of the sources, built without output, lock and cache, gives the same output and lock."""
    rebuilt = project.root.parent / "rebuilt"
    shutil.rmtree(rebuilt, ignore_errors=True)
    shutil.copytree(project.root, rebuilt, ignore=shutil.ignore_patterns("build", LOCK_FILE), symlinks=True)
    assert cacheunit("-C", rebuilt, "build").code == 0
    output = {path: data for path, data in project.files().items() if path.startswith(("build/", LOCK_FILE))}
    copy = type(project)(root=rebuilt, cacheunit=cacheunit)
    assert output == {path: data for path, data in copy.files().items() if path.startswith(("build/", LOCK_FILE))}


# How editors save


def _rename_in_folder(file: Path, data: bytes) -> None:
    new = file.with_name(file.name + ".tmp")
    new.write_bytes(data)
    new.replace(file)


def _rename_from_elsewhere(file: Path, data: bytes) -> None:
    new = file.parents[2] / "elsewhere"
    new.write_bytes(data)
    new.replace(file)


def _backup_and_create(file: Path, data: bytes) -> None:
    backup = file.with_name(file.name + "~")
    file.rename(backup)
    file.write_bytes(data)
    backup.unlink()


def _vim(file: Path, data: bytes) -> None:
    swap = file.with_name(f".{file.name}.swp")
    other = file.with_name(f".{file.name}.swx")
    probe = file.with_name("4913")
    backup = file.with_name(file.name + "~")
    for path in (swap, other):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR))
    other.unlink()
    swap.unlink()
    swap.write_bytes(b"b0VIM 9.0" + bytes(4087))
    os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    probe.chmod(0o644)
    probe.unlink()
    file.rename(backup)
    with file.open("xb") as handle:
        handle.write(data)
        handle.flush()
    file.chmod(0o644)
    with swap.open("r+b") as handle:
        handle.write(b"b0VIM 9.1")
    backup.unlink()
    swap.unlink()


def _emacs(file: Path, data: bytes) -> None:
    lock = file.with_name(f".#{file.name}")
    auto = file.with_name(f"#{file.name}#")
    lock.symlink_to("ada@host.1:2")
    auto.write_bytes(data)
    backup = file.with_name(file.name + "~")
    file.rename(backup)
    file.write_bytes(data)
    lock.unlink()
    auto.unlink()
    backup.unlink()


def _in_place(file: Path, data: bytes) -> None:
    with file.open("r+b") as handle:
        handle.truncate(0)
        handle.write(data)


def _in_place_in_halves(file: Path, data: bytes) -> None:
    with file.open("r+b") as handle:
        handle.truncate(0)
        handle.write(data[: len(data) // 2])
        handle.flush()
        handle.write(data[len(data) // 2 :])


def _vscode_atomic(file: Path, data: bytes) -> None:
    new = file.with_name(f"{file.name}.vsctmp")
    new.write_bytes(data)
    new.chmod(0o644)
    new.rename(file)


def _delete_and_create(file: Path, data: bytes) -> None:
    file.unlink()
    file.write_bytes(data)


SAVES = [
    _rename_in_folder,
    _rename_from_elsewhere,
    _backup_and_create,
    _vim,
    _emacs,
    _in_place,
    _in_place_in_halves,
    _vscode_atomic,
    _delete_and_create,
]


@pytest.mark.parametrize("save", SAVES)
def test_each_way_to_save_a_file_causes_one_build(
    shop: Project, save: Callable[[Path, bytes], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_watcher, "SETTLE_SECONDS", 0.5)
    with Watching(shop) as watching:
        save(shop.path(A), b"Saved.\n")
        watching.until_text(TEXT_A, "Saved.")
        watching.settle()
        assert watching.rebuilt == [{"a"}]
        assert watching.faults == []
        assert watching.reported == ["watching for changes"]


@pytest.mark.parametrize("save", SAVES)
def test_each_way_to_save_a_file_is_noticed_by_polling(shop: Project, save: Callable[[Path, bytes], None]) -> None:
    with Watching(shop, poll=True) as watching:
        save(shop.path(A), b"Saved.\n")
        watching.until_text(TEXT_A, "Saved.")


@pytest.mark.parametrize("path", ["prefixes/a.yaml", "cacheunit.toml", "data/deep/er/faq.yaml", STYLE])
@pytest.mark.parametrize("save", [_rename_in_folder, _vim, _in_place])
def test_a_change_to_each_kind_of_source_is_noticed(
    shop: Project, path: str, save: Callable[[Path, bytes], None]
) -> None:
    changed = {
        "prefixes/a.yaml": "system: [a.md.j2, a.md.j2]\n",
        "cacheunit.toml": SOURCES["cacheunit.toml"].replace("8", "64"),
        "data/deep/er/faq.yaml": "answer: other\n",
        STYLE: "Be long.\n",
    }[path]
    with Watching(shop) as watching:
        with watching.one_burst():
            save(shop.path(path), changed.encode())
        watching.until(lambda: watching.rebuilt)
        watching.settle()
        assert watching.rebuilt == [
            {"cacheunit.toml": {"a", "deep/b"}, "data/deep/er/faq.yaml": {"deep/b"}}.get(path, {"a"})
        ]


# What is no change


def test_reading_files_causes_no_build(shop: Project) -> None:
    with Watching(shop) as watching:
        for path, data in shop.files().items():
            assert shop.read(path) == data
        subprocess.run([*PROGRAM, "-C", shop.root, "check"], check=True, capture_output=True)
        subprocess.run(["grep", "-r", "brief", shop.root], check=True, capture_output=True)
        list(os.walk(shop.root))
        watching.settle()
        assert watching.built == []


EDITOR_FILES = [
    ".a.md.j2.swp",
    "a.md.j2.swo",
    ".a.md.j2.swn",
    "4913",
    "a.md.j2~",
    ".#a.md.j2",
    "#a.md.j2#",
    ".DS_Store",
]


@pytest.mark.parametrize("name", [*EDITOR_FILES, "a.md.j2.tmp", "a.md.j2.bak"])
def test_files_left_behind_by_editors_cause_no_build(shop: Project, name: str) -> None:
    with Watching(shop) as watching:
        for folder in ("templates", "templates/partials", "prefixes"):
            file = shop.path(folder) / name
            file.write_bytes(b"first")
            file.write_bytes(b"second")
            file.rename(file.with_name(f".{name}.swp"))
            file.with_name(f".{name}.swp").unlink()
        watching.settle()
        assert watching.built == []


def test_saving_the_same_bytes_writes_nothing_and_reports_nothing(shop: Project, poll: bool) -> None:
    with Watching(shop, poll=poll) as watching:
        before = shop.snapshot("build", LOCK_FILE)
        with watching.one_burst():
            _vim(shop.path(A), SOURCES[A].encode())
        watching.until(lambda: watching.built)
        watching.settle()
        assert shop.snapshot("build", LOCK_FILE) == before
        assert (watching.rebuilt, watching.faults) == ([], [])
        assert [line.split(",")[0] for line in watching.lines] == ["built: 2 artifacts"]  # of the first build


def _touch(file: Path) -> None:
    file.touch()


def _change_the_mode(file: Path) -> None:
    file.chmod(0o600)


def _link(file: Path) -> None:
    os.link(file, file.parents[2] / "a hard link")


@pytest.mark.parametrize("change", [_touch, _change_the_mode, _link])
def test_a_change_of_metadata_alone_does_not_cause_a_fallback_to_polling(
    shop: Project, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    monkeypatch.setattr(file_watcher, "RESCAN_SECONDS", 1.5)
    with Watching(shop) as watching:
        change(shop.path(A))
        watching.settle()
        scans = watching.watcher.scans
        watching.until(lambda: watching.watcher.scans > scans)
        watching.settle()
        assert watching.reported == ["watching for changes"]
        assert watching.rebuilt == []


def test_the_output_of_a_build_does_not_cause_another(shop: Project, poll: bool) -> None:
    with Watching(shop, poll=poll) as watching:
        with watching.one_burst():
            shop.edit(A, "You are a", "You were a")
        watching.until_text(TEXT_A, "You were a")
        watching.settle()
        assert watching.rebuilt == [{"a"}]
        assert len(watching.built) <= 3  # the lock is watched too, since a checkout may change it


def test_sources_beside_the_output_folder_are_watched(shop: Project) -> None:
    """Only the folder of artifacts is ignored, not its parent."""
    (shop.root / "llm").mkdir()
    for folder in ("prefixes", "templates"):
        shop.path(folder).rename(shop.path(f"llm/{folder}"))
    folders = "[target", 'prefixes = "llm/prefixes"\ntemplates = "llm/templates"\nbuild = "llm/build"\n\n[target'
    shop.edit("cacheunit.toml", *folders)
    with Watching(shop) as watching:
        with watching.one_burst():
            shop.edit(f"llm/{A}", "You are a", "You were a")
        watching.until(lambda: watching.rebuilt)
        watching.settle()
        with watching.one_burst():
            shop.write({"llm/prefixes/new.yaml": "system: a.md.j2\n"})
        watching.until(lambda: {"new"} in watching.rebuilt)
        watching.settle()
        assert len(watching.built) <= 5


# Many at once, and while it builds


def test_a_burst_of_changes_causes_one_build(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_watcher, "SETTLE_SECONDS", 1.0)
    monkeypatch.setattr(file_watcher, "MAX_BURST_SECONDS", PATIENCE)
    names = [f"p{number}" for number in range(20)]
    project.write({"cacheunit.toml": SOURCES["cacheunit.toml"]})
    project.write({f"prefixes/{name}.yaml": f"system: {name}.md.j2\n" for name in names})
    project.write({f"templates/{name}.md.j2": "One.\n" for name in names})
    with Watching(project) as watching:
        for name in names:
            _rename_in_folder(project.path(f"templates/{name}.md.j2"), b"Two.\n")
        watching.until(lambda: watching.rebuilt)
        watching.settle()
        assert watching.rebuilt == [set(names)]


def test_a_build_starts_even_while_files_keep_changing(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_watcher, "SETTLE_SECONDS", 0.2)
    monkeypatch.setattr(file_watcher, "MAX_BURST_SECONDS", 0.5)
    with Watching(shop) as watching:
        writing = threading.Event()

        def write() -> None:
            number = 0
            while not writing.is_set():
                shop.write({"templates/log.md.j2": str(number := number + 1)})

        thread = threading.Thread(target=write)
        thread.start()
        try:
            shop.edit(A, "You are a", "You were a")
            watching.until_text(TEXT_A, "You were a")
        finally:
            writing.set()
            thread.join()


def test_after_many_files_change_at_once_the_output_is_that_of_a_build_from_nothing(
    project: Project, cacheunit: Cacheunit
) -> None:
    names = [f"many/p{number}" for number in range(250)]
    first = {"cacheunit.toml": SOURCES["cacheunit.toml"], "templates/all.md.j2": "All.\n"}
    project.write(first)
    project.write({f"prefixes/{name}.yaml": "system: all.md.j2\n" for name in names[:3]})
    with Watching(project) as watching:
        project.write({f"prefixes/{name}.yaml": f"system: {name}.md.j2\n" for name in names})
        project.write({f"templates/{name}.md.j2": f"This is {name}.\n" for name in names})
        shutil.rmtree(project.path(f"prefixes/{names[0]}.yaml").parent)
        project.write({f"prefixes/{name}.yaml": f"system: {name}.md.j2\n" for name in names[:20]})
        watching.until(lambda: project.path(f"build/{names[19]}/small.txt").is_file())
        watching.settle()
        assert not project.path(f"build/{names[30]}/small.txt").exists()
    assert_as_built_from_nothing(project, cacheunit)


def test_a_burst_of_changes_causes_at_most_two_builds_when_polling(
    shop: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_watcher, "SETTLE_SECONDS", 0.3)
    monkeypatch.setattr(file_watcher, "MAX_BURST_SECONDS", PATIENCE)
    with Watching(shop, poll=True) as watching:
        for number in range(6):
            _rename_in_folder(shop.path(A), f"Half {number}.\n".encode())
            scans = watching.watcher.scans
            watching.until(lambda scans=scans: watching.watcher.scans > scans)  # type: ignore[misc]
        watching.until_text(TEXT_A, "Half 5.")
        watching.settle()
        assert len(watching.rebuilt) <= 2


class Gate:
    """Holds one build right after it has rendered its templates."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered = threading.Event()
        self.leave = threading.Event()
        self.closed = False
        render = Renderer.render

        def held(renderer: Renderer, variant: Variant, inputs: Sequence[Lookup] = ()) -> Rendered:
            rendered = render(renderer, variant, inputs)
            if self.closed and variant.name == "a":
                self.closed = False
                self.entered.set()
                assert self.leave.wait(PATIENCE)
            return rendered

        monkeypatch.setattr(Renderer, "render", held)


def _edit_again(project: Project) -> None:
    project.edit(A, "First.", "Other.")


def _edit_the_partial(project: Project) -> None:
    project.edit(STYLE, "Be brief.", "Other.")


def _add_a_manifest_in_a_new_folder(project: Project) -> None:
    project.write({"prefixes/new/er/c.yaml": "system: new/c.md.j2\n", "templates/new/c.md.j2": "Other.\n"})


def _change_the_settings(project: Project) -> None:
    project.edit("cacheunit.toml", "8", "16")


@pytest.mark.parametrize(
    "edit", [_edit_again, _edit_the_partial, _add_a_manifest_in_a_new_folder, _change_the_settings]
)
def test_a_change_during_a_build_causes_another_build(
    shop: Project,
    cacheunit: Cacheunit,
    poll: bool,
    monkeypatch: pytest.MonkeyPatch,
    edit: Callable[[Project], None],
) -> None:
    gate = Gate(monkeypatch)
    with Watching(shop, poll=poll) as watching:
        gate.closed = True
        with watching.one_burst():
            shop.edit(A, "You are a.", "First.")
        assert gate.entered.wait(PATIENCE)
        edit(shop)
        gate.leave.set()
        watching.until(lambda: len(watching.rebuilt) == 2)
        watching.settle()
        assert watching.rebuilt[0] == {"a"}
    assert_as_built_from_nothing(shop, cacheunit)


def test_a_change_during_the_first_build_causes_another_build(shop: Project, poll: bool) -> None:
    watching = Watching(shop, poll=poll)

    def edit_once() -> None:
        watching.after_build = lambda: None
        shop.edit(A, "You are a", "You were a")

    watching.after_build = edit_once
    with watching:
        watching.until(lambda: "You were a" in shop.read(TEXT_A).decode())


# Folders and links


@pytest.mark.parametrize("folder", ["templates/partials", "templates", "prefixes", "data", "data/deep"])
def test_a_folder_that_is_removed_and_created_again_is_watched(
    shop: Project,
    cacheunit: Cacheunit,
    poll: bool,
    folder: str,
) -> None:
    kept = shop.root.parent / "kept"
    with Watching(shop, poll=poll) as watching:
        shutil.copytree(shop.path(folder), kept)
        shutil.rmtree(shop.path(folder))
        watching.until(lambda: watching.faults or watching.rebuilt)
        watching.settle()
        shutil.copytree(kept, shop.path(folder))
        watching.until(lambda: FIXED in watching.lines or len(watching.rebuilt) > 1)
        watching.settle()
        shop.edit(STYLE, "Be brief.", "Be long.")
        watching.until_text(TEXT_A, "Be long.")
        shop.edit("data/deep/er/faq.yaml", "first", "other")
        watching.until_text(TEXT_B, "other")
        shop.write({"prefixes/new.yaml": "system: partials/style.md.j2\n"})
        watching.until(lambda: {"new"} in watching.rebuilt)
        watching.settle()
        assert len(watching.reported) == 1
    assert_as_built_from_nothing(shop, cacheunit)


@pytest.mark.parametrize(
    "folder",
    [
        "templates/partials",
        "templates",
        "data",
        "data/deep/er",
        "data/deep",
    ],
)
def test_a_folder_that_is_renamed_and_renamed_back_is_watched(shop: Project, folder: str) -> None:
    with Watching(shop) as watching:
        shop.path(folder).rename(shop.root.parent / "away")
        watching.until(lambda: watching.faults)
        watching.settle()
        (shop.root.parent / "away").rename(shop.path(folder))
        watching.until(lambda: FIXED in watching.lines)
        shop.edit(STYLE, "Be brief.", "Be long.")
        watching.until_text(TEXT_A, "Be long.")
        shop.edit("data/deep/er/faq.yaml", "first", "other")
        watching.until_text(TEXT_B, "other")
        assert len(watching.reported) == 1


def test_a_folder_that_replaces_another_is_watched(shop: Project) -> None:
    with Watching(shop) as watching:
        shutil.copytree(shop.path("templates"), shop.path("other"))
        shop.edit("other/a.md.j2", "You are a", "You were a")
        watching.settle()
        shop.path("templates").rename(shop.path("older"))
        shop.path("other").rename(shop.path("templates"))
        watching.until_text(TEXT_A, "You were a")
        shop.edit(A, "You were a", "You will be a")
        watching.until_text(TEXT_A, "You will be a")
        watching.settle()
        known = len(watching.built)
        shop.write({"older/partials/style.md.j2": "Nobody reads this.\n"})
        watching.settle()
        assert len(watching.built) == known


@pytest.mark.parametrize("save", [_in_place, _rename_in_folder, _vim])
def test_the_file_that_a_symbolic_link_leads_to_is_watched(shop: Project, save: Callable[[Path, bytes], None]) -> None:
    shop.write({"shared/texts/real.md": "You are shared.\n"})
    shop.path(A).unlink()
    shop.path(A).symlink_to("../shared/texts/real.md")
    with Watching(shop) as watching:
        save(shop.path("shared/texts/real.md"), b"You were shared.\n")
        watching.until_text(TEXT_A, "You were shared.")
        shop.write({"shared/texts/second.md": "Second.\n"})
        shop.path(A).unlink()
        shop.path(A).symlink_to("../shared/texts/second.md")
        watching.until_text(TEXT_A, "Second.")
        save(shop.path("shared/texts/second.md"), b"Third.\n")
        watching.until_text(TEXT_A, "Third.")


def test_every_link_in_a_chain_of_symbolic_links_is_watched(shop: Project) -> None:
    shop.write({"shared/one.md": "One.\n", "shared/two.md": "Two.\n"})
    shop.path("links").mkdir()
    shop.path("links/current").symlink_to("../shared/one.md")
    shop.path(A).unlink()
    shop.path(A).symlink_to("../links/current")
    with Watching(shop) as watching:
        shop.path("links/new").symlink_to("../shared/two.md")
        shop.path("links/new").replace(shop.path("links/current"))
        watching.until_text(TEXT_A, "Two.")


# Manifests and settings


def test_manifests_that_are_added_renamed_or_removed_are_noticed(
    shop: Project, poll: bool, cacheunit: Cacheunit
) -> None:
    with Watching(shop, poll=poll) as watching:
        shop.write({"prefixes/new/c.yaml": "system: a.md.j2\n"})
        watching.until(lambda: {"new/c"} in watching.rebuilt)
        watching.until(lambda: watching.reports("prefixes/new/c.yaml:1  added: new/c for small, "))
        shop.path("prefixes/deep/b.yaml").unlink()
        watching.until(lambda: watching.reports("prefixes/deep/b.yaml:1  removed: deep/b for small, "))
        assert not shop.path("build/deep").exists()
        shop.path("prefixes/a.yaml").rename(shop.path("prefixes/deep/d.yaml"))
        watching.until(lambda: watching.reports("prefixes/deep/d.yaml:1  renamed: a → deep/d for small, "))
    assert_as_built_from_nothing(shop, cacheunit)


def test_folders_that_the_settings_rename_are_watched(shop: Project) -> None:
    with Watching(shop) as watching:
        shutil.copytree(shop.path("templates"), shop.path("texts"))
        shop.edit("texts/a.md.j2", "You are a", "You were a")
        shop.edit("cacheunit.toml", "[target", 'templates = "texts"\nbuild = "out"\n\n[target')
        watching.until(lambda: shop.path("out/a/small.txt").is_file())
        shop.edit("texts/partials/style.md.j2", "Be brief.", "Be long.")
        watching.until(lambda: b"Be long." in shop.read("out/a/small.txt"))


def test_the_creation_of_a_template_that_was_looked_for_is_noticed(shop: Project, poll: bool) -> None:
    shop.write({A: "{% include ['special/a.md.j2', 'partials/style.md.j2'] %}\n"})
    with Watching(shop, poll=poll) as watching:
        shop.write({"templates/special/a.md.j2": "Special.\n"})
        watching.until_text(TEXT_A, "Special.")


# What is broken


BREAKS = {
    "manifest": ("prefixes/a.yaml", "system: [a.md.j2\n"),
    "manifest-key": ("prefixes/a.yaml", "systm: a.md.j2\n"),
    "template": (A, "You are {{ broken }\n"),
    "partial": (STYLE, "{% if %}\n"),
    "data": ("data/deep/er/faq.yaml", "answer: [\n"),
    "settings": ("cacheunit.toml", "targets = [\n"),
    "not-text": (A, "\xff\xfe"),
}


@pytest.mark.parametrize("broken", BREAKS)
def test_a_fault_is_reported_once_and_the_next_good_save_is_built(
    shop: Project,
    poll: bool,
    broken: str,
) -> None:
    path, text = BREAKS[broken]
    with Watching(shop, poll=poll) as watching:
        outputs = shop.snapshot("build", LOCK_FILE)
        _rename_in_folder(shop.path(path), text.encode("latin-1"))
        watching.until(lambda: watching.faults)
        watching.settle()
        assert len(watching.faults) == 1
        assert [fault.path for fault in watching.faults[0]] == [path]
        assert shop.snapshot("build", LOCK_FILE) == outputs
        _rename_in_folder(shop.path(path), SOURCES[path].encode())
        watching.until(lambda: FIXED in watching.lines)
        _rename_in_folder(shop.path(STYLE), b"Be long.\n")
        watching.until_text(TEXT_A, "Be long.")
        assert len(watching.faults) == 1


def test_each_new_fault_is_reported(shop: Project) -> None:
    with Watching(shop) as watching:
        outputs = shop.snapshot("build", LOCK_FILE)
        _rename_in_folder(shop.path("prefixes/a.yaml"), b"system: [\n")
        watching.until(lambda: len(watching.faults) == 1)
        _rename_in_folder(shop.path(A), b"{{ broken }\n")
        _rename_in_folder(shop.path("prefixes/a.yaml"), SOURCES["prefixes/a.yaml"].encode())
        watching.until(lambda: len(watching.faults) == 2)
        _rename_in_folder(shop.path(A), SOURCES[A].encode())
        watching.until(lambda: watching.lines.count(FIXED) == 1)
        shop.path(STYLE).unlink()
        watching.until(lambda: len(watching.faults) == 3)
        assert "partials/style.md.j2" in str(watching.faults[2][0])
        assert shop.snapshot("build", LOCK_FILE) == outputs
        _rename_in_folder(shop.path(STYLE), SOURCES[STYLE].encode())
        watching.until(lambda: watching.lines.count(FIXED) == 2)
        watching.settle()
        assert shop.snapshot("build", LOCK_FILE) == outputs
        assert len(watching.faults) == 3


def test_watching_can_start_with_a_broken_project(shop: Project) -> None:
    shop.write({A: "{{ broken }\n"})
    with Watching(shop) as watching:
        assert len(watching.faults) == 1
        shop.write({A: "Whole.\n"})
        watching.until_text(TEXT_A, "Whole.")


def test_watching_can_start_without_manifests(project: Project) -> None:
    project.write({"cacheunit.toml": SOURCES["cacheunit.toml"]})
    with Watching(project) as watching:
        assert len(watching.faults) == 1
        project.write({"templates/a.md.j2": "First.\n", "prefixes/deep/er/a.yaml": "system: a.md.j2\n"})
        watching.until_text("build/deep/er/a/small.txt", "First.")


def test_a_full_disk_is_reported_and_the_next_save_is_built(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with Watching(shop) as watching:
        outputs = shop.snapshot("build", LOCK_FILE)
        with monkeypatch.context() as full:

            def refuse(*_: object) -> None:
                raise fail('cannot write "build/a/small.txt": No space left on device')

            full.setattr(project_files, "stage_files", refuse)
            shop.edit(A, "You are a", "You were a")
            watching.until(lambda: watching.faults)
            watching.settle()
            assert shop.snapshot("build", LOCK_FILE) == outputs
        shop.edit(A, "You were a", "You will be a")
        watching.until_text(TEXT_A, "You will be a")


def test_the_cache_folder_may_be_removed_at_any_time(shop: Project) -> None:
    with Watching(shop) as watching:
        shutil.rmtree(shop.cache)
        shop.edit(A, "You are a", "You were a")
        watching.until_text(TEXT_A, "You were a")
        watching.settle()
        shutil.rmtree(shop.cache)
        shop.cache.write_bytes(b"")
        shop.edit(A, "You were a", "You will be a")
        watching.until_text(TEXT_A, "You will be a")


def test_two_watches_of_one_project_agree_and_stop_building(shop: Project, cacheunit: Cacheunit) -> None:
    with Watching(shop) as first, Watching(shop) as second:
        for number in range(3):
            with first.one_burst(), second.one_burst():
                _vim(shop.path(A), f"Number {number}.\n".encode())
            first.until(lambda number=number: f"Number {number}." in shop.path(TEXT_A).read_text())  # type: ignore[misc]
        first.settle()
        second.settle()
        assert len(first.rebuilt) + len(second.rebuilt) <= 6
        assert first.faults == second.faults == []
    assert_as_built_from_nothing(shop, cacheunit)


# Where no events come


class Silent:
    """An observer that never reports an event, as on some network file systems."""

    def __init__(self) -> None:
        self._alive = False
        self.scheduled = 0

    def start(self) -> None:
        self._alive = True

    def stop(self) -> None:
        self._alive = False

    def is_alive(self) -> bool:
        return self._alive

    def join(self, _timeout: float) -> None: ...

    def schedule(self, _handler: object, path: str) -> str:
        self.scheduled += 1
        return path

    def unschedule(self, _watch: object) -> None: ...


LIMITS = {errno.ENOSPC: "fs.inotify.max_user_watches", errno.EMFILE: "fs.inotify.max_user_instances"}


@pytest.mark.parametrize("after", [0, 2])
@pytest.mark.parametrize("code", LIMITS)
def test_a_refused_watch_at_the_start_causes_polling_and_the_limit_is_named(
    shop: Project, monkeypatch: pytest.MonkeyPatch, code: int, after: int
) -> None:
    class Limited(Silent):
        def schedule(self, handler: object, path: str) -> str:
            if self.scheduled == after:
                raise OSError(code, os.strerror(code))
            return super().schedule(handler, path)

    monkeypatch.setattr(file_watcher, "Observer", Limited)
    with Watching(shop) as watching:
        shop.edit(A, "You are a", "You were a")
        watching.until_text(TEXT_A, "You were a")
        assert LIMITS[code] in watching.reported[0]
        assert "polling every half second instead" in watching.reported[0]
        assert "No space left" not in "".join(watching.reported)


def test_an_observer_that_cannot_start_causes_polling_and_the_limit_is_named(
    shop: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refused(Silent):
        def start(self) -> None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(file_watcher, "Observer", Refused)
    with Watching(shop) as watching:
        shop.edit(A, "You are a", "You were a")
        watching.until_text(TEXT_A, "You were a")
        assert LIMITS[errno.EMFILE] in watching.reported[0]


def test_a_refused_watch_later_causes_polling_from_then_on(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    observers: list[BaseObserver] = []

    def create() -> BaseObserver:
        observers.append(Observer())
        return observers[0]

    monkeypatch.setattr(file_watcher, "Observer", create)
    with Watching(shop) as watching:

        def refuse(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(observers[0], "schedule", refuse)
        shop.write({"templates/new/c.md.j2": "First.\n", "prefixes/c.yaml": "system: new/c.md.j2\n"})
        watching.until_text("build/c/small.txt", "First.")
        watching.until(lambda: LIMITS[errno.ENOSPC] in watching.reported[-1])
        watching.settle()
        shop.write({"templates/new/c.md.j2": "Second.\n"})
        watching.until_text("build/c/small.txt", "Second.")
        assert len(watching.reported) == 2


def test_a_change_without_an_event_causes_polling_and_is_reported(
    shop: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_watcher, "Observer", Silent)
    monkeypatch.setattr(file_watcher, "RESCAN_SECONDS", 0.1)
    monkeypatch.setattr(file_watcher, "PROBE_TIMEOUT_SECONDS", 0.1)
    with Watching(shop) as watching:
        assert watching.reported == ["watching for changes"]
        scans = watching.watcher.scans
        watching.until(lambda: watching.watcher.scans > scans + 1)
        assert watching.built == []
        shop.edit(A, "You are a", "You were a")
        watching.until_text(TEXT_A, "You were a")
        assert watching.reported[1:] == ["no file system events arrive: polling every half second instead"]
        monkeypatch.setattr(file_watcher, "RESCAN_SECONDS", 600.0)
        watching.settle()
        shop.edit(A, "You were a", "You will be a")
        watching.until_text(TEXT_A, "You will be a")


def test_a_scan_that_is_faster_than_the_event_does_not_cause_a_fallback_to_polling(
    shop: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_watcher, "RESCAN_SECONDS", 0.1)
    with Watching(shop) as watching:

        def edit_once() -> None:
            if not watching.built and "You were a" not in shop.read(A).decode():
                shop.edit(A, "You are a", "You were a")

        watching.watcher.before_scan = edit_once
        watching.until_text(TEXT_A, "You were a")
        watching.settle()
        assert watching.reported == ["watching for changes"]


def test_polling_creates_no_observer(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise AssertionError

    monkeypatch.setattr(file_watcher, "Observer", refuse)
    with Watching(shop, poll=True) as watching:
        assert watching.reported == ["polling for changes every half second"]
        shop.edit(A, "You are a", "You were a")
        watching.until_text(TEXT_A, "You were a")
        watching.settle()
        assert len(watching.built) <= 3


# After all of it


@pytest.mark.parametrize("seed", range(3))
def test_after_any_edits_the_output_is_that_of_a_build_from_nothing(
    shop: Project,
    cacheunit: Cacheunit,
    poll: bool,
    seed: int,
) -> None:
    randomness = random.Random(seed)  # noqa: S311 - not for cryptography
    paths = [A, STYLE, "templates/b.md.j2", "templates/new/c.md.j2", "data/deep/er/faq.yaml"]
    saves = [save for save in SAVES if save is not _emacs]
    with Watching(shop, poll=poll) as watching:
        for number in range(40):
            path = shop.path(randomness.choice(paths))
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.is_file():
                path.write_bytes(b"")
            text = f"answer: {number}\n" if path.suffix == ".yaml" else f"Text {randomness.randrange(5)}.\n"
            randomness.choice(saves)(path, text.encode())
            if randomness.random() < 0.2:
                shop.path("prefixes/c.yaml").write_text("system: new/c.md.j2\n")
            if randomness.random() < 0.1:
                shop.path("prefixes/c.yaml").unlink(missing_ok=True)
            if randomness.random() < 0.1:
                with suppress(FileNotFoundError):
                    shutil.rmtree(shop.path("templates/partials"))
            if randomness.random() < 0.3:
                threading.Event().wait(randomness.random() * 0.1)  # edits come in every phase of a build
        shop.write({STYLE: "The last.\n", A: SOURCES[A], "templates/new/c.md.j2": "And c.\n"})
        shop.write({"prefixes/c.yaml": "system: new/c.md.j2\n", "templates/b.md.j2": SOURCES["templates/b.md.j2"]})
        watching.until_text(TEXT_A, "The last.")
        watching.until_text("build/c/small.txt", "And c.")
        watching.settle()
        assert watching.alive
    assert_as_built_from_nothing(shop, cacheunit)


def test_many_builds_do_not_use_more_and_more_memory(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_cache, "software", dict)  # to find it out takes most of the time
    project.write({key: text for key, text in SOURCES.items() if "b.yaml" not in key})
    session = watch_session(project)
    texts = [f"Text {number}.\n" for number in range(7)]

    def rebuild(times: int) -> int:
        """Builds several times; returns the bytes that are allocated afterwards."""
        for number in range(times):
            project.write({A: texts[number % 7] if number % 10 else "{{ broken }\n"})
            session.build()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    rebuild(100)
    tracemalloc.start()
    try:
        held = [rebuild(20), *(rebuild(60) for _ in range(5))]
    finally:
        tracemalloc.stop()
    grown = [after - before for before, after in itertools.pairwise(held)]
    assert min(grown) < 20_000, grown  # not 300 bytes a build; a table that doubles once is no leak


# What it shows


def static_ids(text: bytes) -> list[int]:
    """Returns the token ids of a framed prefix, by the reference implementation."""
    frame = known_targets()["deepseek-v4"].frame
    ids: list[int] = reference().encode(frame.before + text.decode() + frame.after, add_special_tokens=False).ids
    return ids


END = "word149\n"
"""The end of the content of a test's prefix, in front of the padding."""

CHANGED = SourceLine(path="templates/a.md.j2", line=1)


def common(old: list[int], new: list[int]) -> int:
    return next((index for index, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), len(old))


@pytest.mark.parametrize(
    ("rule", "still_cached"),
    [
        ('cache = {kind = "blocks", unit = 8, minimum = 0}', lambda old, new: common(old, new) // 8 * 8),
        ('cache = {kind = "blocks", unit = 8, minimum = 2000}', lambda _old, _new: 0),
        ('cache = {kind = "tokens"}', common),
        ('cache = {kind = "breakpoints", minimum = 0}', lambda _old, _new: 0),
        ('cache = {kind = "unknown"}', lambda _old, _new: None),
    ],
)
def test_each_build_reports_how_the_tokens_changed(
    project: Project, rule: str, still_cached: Callable[[list[int], list[int]], int | None]
) -> None:
    words = " ".join(f"word{number}" for number in range(150))
    config = f'targets = ["small"]\n\n[target.small]\nextends = "deepseek-v4"\n{rule}\n'
    project.write({"cacheunit.toml": config, "prefixes/a.yaml": "system: a.md.j2\npadding: always\n"})
    project.write({"prefixes/b.yaml": "system: a.md.j2\ntargets: [kimi]\n", "templates/a.md.j2": f"{words}\n"})
    session = watch_session(project)
    (line,) = watch_lines(session.build())
    assert re.fullmatch(r"built: 2 artifacts, 2 written, [\d,]+ ms", line)
    old, old_text = static_ids(project.read(TEXT_A)), project.read(TEXT_A).decode()
    project.edit("templates/a.md.j2", "word100 word101", "another word")
    build = session.build()
    new, text = static_ids(project.read(TEXT_A)), project.read(TEXT_A).decode()
    content = [len(static_ids(f"{side.partition(END)[0]}{END}".encode())) for side in (old_text, text)]
    padding = [len(old) - content[0], len(new) - content[1]]
    assert build.since_save is not None
    exact, estimate = build.since_save.differences
    assert (exact.old and exact.old.tokens, exact.new and exact.new.tokens) == (len(old), len(new))
    assert exact.still_cached == still_cached(old, new)
    assert exact.first is not None
    assert (exact.key, exact.what, exact.first.source) == (("a", "small"), "text edited", CHANGED)
    assert estimate.key == ("b", "kimi")
    (line,) = watch_lines(replace(build, since_save=replace(build.since_save, differences=(exact,))))
    for name, (former, present) in {"content": content, "padding": padding}.items():
        assert f", {name} {present:,}," in line if former == present else f", {name} {former:,} → {present:,}," in line
    shown = "?" if exact.still_cached is None else f"{exact.still_cached:,}"
    assert line.startswith("templates/a.md.j2:1  text edited: a for small, ")
    assert f", {shown} still cached, " in line
    assert re.search(r", [\d,]+ ms$", line)
    assert list(watch_lines(session.build())) == []


def test_an_edited_artifact_is_written_again_and_changes_nothing_for_a_cache(shop: Project) -> None:
    session = watch_session(shop)
    session.build()
    text = shop.read(TEXT_A)
    shop.write({TEXT_A: "Edited by hand.\n"})
    (line,) = watch_lines(session.build())
    assert line.startswith("built: 2 artifacts, 1 written, ")
    assert shop.read(TEXT_A) == text


# The command itself


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
@pytest.mark.parametrize("arguments", [[], ["--poll"]])
def test_the_command_builds_each_save_and_ends_when_interrupted(shop: Project, arguments: list[str]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", SLOW_WATCH, "-C", shop.root, "watch", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    out, err = process.stdout, process.stderr
    assert out is not None
    assert err is not None
    timeout = threading.Timer(2 * PATIENCE, process.kill)
    timeout.start()
    try:
        first = [out.readline(), out.readline()]
        assert re.fullmatch(r"\d\d:\d\d:\d\d built: 2 artifacts, 2 written, [\d,]+ ms\n", first[0])
        assert re.fullmatch(r"\d\d:\d\d:\d\d not compared with HEAD: .*\n", first[1])
        assert err.readline().startswith("polling" if arguments else "watching")
        for number in range(2):
            _vim(shop.path(A), f"Saved {number}.\n".encode())
            assert f" {A}:1  text edited: a for small, " in out.readline()
            assert f"Saved {number}." in shop.read(TEXT_A).decode()
        shop.write({A: "{{ broken }\n"})
        assert err.readline().startswith(f"error: {A}:1: ")
        process.send_signal(signal.SIGINT)
        code, errors = process.wait(PATIENCE), err.read()  # it waits for events, ten times as long
        assert (code, "Traceback" in errors) == (130, False), errors
    finally:
        timeout.cancel()
        process.kill()
        process.communicate()


def test_a_link_that_disappears_while_it_is_followed_is_no_error(shop: Project) -> None:
    """Editors move a link away for a moment, which cannot be timed from outside."""
    link = shop.path("templates/link.md")
    link.symlink_to("nowhere.md")
    assert symlink_folders(link) == {link.parent.resolve()}
    link.unlink()
    assert symlink_folders(link) == set()


def test_an_artifact_whose_request_alone_changes_is_not_reported_as_new(project: Project) -> None:
    schema = '{"type": "object", "additionalProperties": false, "description": "One."}'
    project.write({"s.json": schema, "templates/a.md.j2": "You are a tester.\n"})
    project.write({"prefixes/a.yaml": "system: a.md.j2\ntargets: [openai]\noptions: {response_schema: s.json}\n"})
    session = watch_session(project)
    session.build()
    project.edit("s.json", "One.", "Two.")
    (line,) = watch_lines(session.build())
    assert re.match(
        r"s\.json:1  response schema edited: a for openai, content ~\d+, padding 0, ~0 still cached, ", line
    )
