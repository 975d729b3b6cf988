"""Watching: every save is built once, nothing else is, and what is there at the end is what a cold build gives."""

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
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import pytest
from support import reference

from cacheunit_build.adapters.storage import project_files as files_edge
from cacheunit_build.adapters.storage.build_cache import BuildCache
from cacheunit_build.adapters.system import file_watcher as watch_edge
from cacheunit_build.adapters.system.file_watcher import Watcher
from cacheunit_build.cli.commands.watch import WatchBuilds
from cacheunit_build.cli.context import Session
from cacheunit_build.domain.errors import fail
from cacheunit_build.targets.loader import known_targets
from cacheunit_build.templating.renderer import Renderer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Cacheunit, Project
    from watchdog.events import FileSystemEvent

    from cacheunit_build.builder.results import BuildResult
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.manifest import Variant
    from cacheunit_build.domain.prompt import Rendered

PROGRAM = [sys.executable, "-u", "-c", "from cacheunit_build.cli.main import main; main()"]
LOCK_FILE = "cacheunit.lock"
DEADLINE = 15.0
"""Seconds within which what must happen happens, on a slow machine too."""

HURRY = 3.0
"""The same, for what does not happen yet."""

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
def times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking without events comes too late to help, so that events must; polling comes soon; no disk is synced."""
    monkeypatch.setattr(watch_edge, "RESCAN", 600.0)
    monkeypatch.setattr(watch_edge, "POLL", 0.02)
    monkeypatch.setattr(watch_edge, "SETTLE", 0.03)
    monkeypatch.setattr(os, "fsync", lambda _: None)


class Watching:
    """A watch of a project in a thread, and all that it did."""

    def __init__(self, project: Project, *, poll: bool = False, patience: float = DEADLINE) -> None:
        self.project = project
        self._patience = patience
        self.built: list[BuildResult] = []
        self.lines: list[str] = []
        self.said: list[str] = []
        self.complaints: list[tuple[Fault, ...]] = []
        self._failed: list[BaseException] = []
        self._news = threading.Condition()
        self._events: list[str] = []
        self.looked = 0
        session = Session(project.root, quiet=True, verbose=False)
        self.builds = WatchBuilds(
            project.root.resolve(), session.adapters_factory(), self._noted(self.lines), self._noted(self.complaints)
        )
        self.watcher = Watcher(self.builds.root, self.builds.watched, self._noted(self.said), poll=poll)
        notice, scan = self.watcher.notice, self.watcher._scan  # noqa: SLF001

        def noticed(event: FileSystemEvent) -> None:
            notice(event)
            self._noted(self._events)(os.fsdecode(event.src_path))

        def scanned() -> Any:  # noqa: ANN401 - what it gives
            found = scan()
            with self._news:
                self.looked += 1
                self._news.notify_all()
            return found

        self.watcher.notice = noticed  # type: ignore[method-assign]
        self.watcher._scan = scanned  # type: ignore[method-assign]  # noqa: SLF001
        self._thread = threading.Thread(target=self._run)

    def _noted(self, kept: list[Any]) -> Callable[[Any], None]:
        def note(item: Any) -> None:  # noqa: ANN401 - whatever is told
            with self._news:
                kept.append(item)
                self._news.notify_all()

        return note

    def _run(self) -> None:
        try:
            for _ in self.watcher.batches():
                self._noted(self.built)(self.builds.build())
        except BaseException as error:  # noqa: BLE001 - it is raised where the test waits
            self._noted(self._failed)(error)

    def __enter__(self) -> Self:
        self._thread.start()
        self.until(lambda: self.said and self.looked > 3)  # the first build, and a look at what it looked for first
        del self.built[:2]
        return self

    def __exit__(self, *_: object) -> None:
        self.watcher.stop()
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive()
        if self._failed:
            raise self._failed[0]

    def until(self, condition: Callable[[], object]) -> None:
        """Waits until that holds; whatever the watch does wakes it, and a glance now and then."""
        end = time.monotonic() + self._patience
        while True:
            with self._news:
                if self._failed:
                    raise self._failed[0]
                if condition():
                    return
                assert time.monotonic() < end, (self.said, self.complaints, self.lines, len(self.built))
                self._news.wait(0.05)

    def until_text(self, path: str, text: str) -> None:
        """Waits until an artifact has that text, and the build that made it has ended."""
        file = self.project.path(path)
        self.until(lambda: file.is_file() and text in file.read_text(encoding="utf-8"))
        self.until(lambda: any(built.written for built in self.built))

    def settle(self) -> None:
        """Waits until every event up to now has come, and what it meant was built."""
        root = self.project.root
        tops = [root, *(root / name for name in self.builds.watched().folders if (root / name).is_dir())]
        for number, folder in enumerate(tops):
            mark = folder / f".mark-{number}-{len(self._events)}.swp"

            def marked(mark: Path = mark) -> bool:  # again and again, since the folder may not be watched yet
                mark.write_bytes(b"")
                return str(mark) in self._events or self.watcher._poll  # noqa: SLF001 - by looking, no event comes

            self.until(marked)
            mark.unlink()
        while True:
            known = len(self.built)
            threading.Event().wait(max(2.5 * watch_edge.SETTLE, 0.1))  # nothing must happen: only time shows that
            if len(self.built) == known and not self.watcher._pending.is_set():  # noqa: SLF001
                return

    @property
    def rebuilt(self) -> list[set[str]]:
        """The prefixes that each build wrote, if any."""
        return [{prefix for prefix, _ in built.written} for built in self.built if built.written or built.removed]

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and not self._failed


@pytest.fixture
def shop(project: Project) -> Project:
    project.write(SOURCES)
    return project


@pytest.fixture(params=[False, True], ids=["events", "polling"])
def poll(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def assert_cold(project: Project, cacheunit: Cacheunit) -> None:
    """The outputs are those of a build from nothing."""
    afresh = project.root.parent / "afresh"
    shutil.rmtree(afresh, ignore_errors=True)
    shutil.copytree(
        project.root, afresh, ignore=shutil.ignore_patterns("build", LOCK_FILE, ".cacheunit"), symlinks=True
    )
    assert cacheunit("-C", afresh, "build").code == 0
    made = {path: data for path, data in project.files().items() if path.startswith(("build/", LOCK_FILE))}
    again = type(project)(root=afresh, cacheunit=cacheunit)
    assert made == {path: data for path, data in again.files().items() if path.startswith(("build/", LOCK_FILE))}


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
def test_each_way_to_save_gives_one_build_with_the_new_text(
    shop: Project, save: Callable[[Path, bytes], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_edge, "SETTLE", 0.2)
    with Watching(shop) as watching:
        save(shop.path(A), b"Saved.\n")
        watching.until_text(TEXT_A, "Saved.")
        watching.settle()
        assert watching.rebuilt == [{"a"}]
        assert watching.complaints == []
        assert watching.said == ["watching for changes"]


@pytest.mark.parametrize("save", SAVES)
def test_each_way_to_save_is_seen_by_looking(shop: Project, save: Callable[[Path, bytes], None]) -> None:
    with Watching(shop, poll=True) as watching:
        save(shop.path(A), b"Saved.\n")
        watching.until_text(TEXT_A, "Saved.")


@pytest.mark.parametrize("path", ["prefixes/a.yaml", "cacheunit.toml", "data/deep/er/faq.yaml", STYLE])
@pytest.mark.parametrize("save", [_rename_in_folder, _vim, _in_place])
def test_each_kind_of_source_is_seen(shop: Project, path: str, save: Callable[[Path, bytes], None]) -> None:
    changed = {
        "prefixes/a.yaml": "system: [a.md.j2, a.md.j2]\n",
        "cacheunit.toml": SOURCES["cacheunit.toml"].replace("8", "64"),
        "data/deep/er/faq.yaml": "answer: other\n",
        STYLE: "Be long.\n",
    }[path]
    with Watching(shop) as watching:
        save(shop.path(path), changed.encode())
        watching.until(lambda: watching.rebuilt)
        watching.settle()
        assert watching.rebuilt == [
            {"cacheunit.toml": {"a", "deep/b"}, "data/deep/er/faq.yaml": {"deep/b"}}.get(path, {"a"})
        ]


# What is no change


def test_reading_builds_nothing(shop: Project) -> None:
    with Watching(shop) as watching:
        for path, data in shop.files().items():
            assert shop.read(path) == data
        subprocess.run([*PROGRAM, "-C", shop.root, "check"], check=True, capture_output=True)
        subprocess.run(["grep", "-r", "brief", shop.root], check=True, capture_output=True)
        list(os.walk(shop.root))
        watching.settle()
        assert watching.built == []


DROPPINGS = [".a.md.j2.swp", "a.md.j2.swo", ".a.md.j2.swn", "4913", "a.md.j2~", ".#a.md.j2", "#a.md.j2#", ".DS_Store"]


@pytest.mark.parametrize("name", [*DROPPINGS, "a.md.j2.tmp", "a.md.j2.bak"])
def test_what_editors_leave_behind_builds_nothing(shop: Project, name: str) -> None:
    with Watching(shop) as watching:
        for folder in ("templates", "templates/partials", "prefixes"):
            file = shop.path(folder) / name
            file.write_bytes(b"first")
            file.write_bytes(b"second")
            file.rename(file.with_name(f".{name}.swp"))
            file.with_name(f".{name}.swp").unlink()
        watching.settle()
        assert watching.built == []


def test_a_save_of_the_same_bytes_shows_nothing_and_writes_nothing(shop: Project, poll: bool) -> None:  # noqa: FBT001
    with Watching(shop, poll=poll) as watching:
        before = shop.snapshot("build", LOCK_FILE)
        _vim(shop.path(A), SOURCES[A].encode())
        watching.until(lambda: watching.built)
        watching.settle()
        assert shop.snapshot("build", LOCK_FILE) == before
        assert (watching.rebuilt, watching.complaints) == ([], [])
        assert len(watching.lines) == 2  # of the first build


def _touch(file: Path) -> None:
    file.touch()


def _change_the_mode(file: Path) -> None:
    file.chmod(0o600)


def _link(file: Path) -> None:
    os.link(file, file.parents[2] / "a hard link")


@pytest.mark.parametrize("change", [_touch, _change_the_mode, _link])
def test_a_change_of_no_bytes_is_no_sign_that_events_do_not_come(
    shop: Project, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    monkeypatch.setattr(watch_edge, "RESCAN", 1.5)
    with Watching(shop) as watching:
        change(shop.path(A))
        watching.settle()
        looked = watching.looked
        watching.until(lambda: watching.looked > looked)
        watching.settle()
        assert watching.said == ["watching for changes"]
        assert watching.rebuilt == []


def test_its_own_outputs_start_no_loop(shop: Project, poll: bool) -> None:  # noqa: FBT001
    with Watching(shop, poll=poll) as watching:
        shop.edit(A, "You are a", "You were a")
        watching.until_text(TEXT_A, "You were a")
        watching.settle()
        assert watching.rebuilt == [{"a"}]
        assert len(watching.built) <= 3  # the lock is watched too, since a checkout may change it


def test_an_output_folder_beside_the_sources_hides_none_of_them(shop: Project) -> None:
    """Only the folder of artifacts is not looked at, not the one that it lies in."""
    (shop.root / "llm").mkdir()
    for folder in ("prefixes", "templates"):
        shop.path(folder).rename(shop.path(f"llm/{folder}"))
    folders = "[target", 'prefixes = "llm/prefixes"\ntemplates = "llm/templates"\nbuild = "llm/build"\n\n[target'
    shop.edit("cacheunit.toml", *folders)
    with Watching(shop, patience=HURRY) as watching:
        shop.edit(f"llm/{A}", "You are a", "You were a")
        watching.until(lambda: watching.rebuilt)
        watching.settle()
        shop.write({"llm/prefixes/new.yaml": "system: a.md.j2\n"})
        watching.until(lambda: {"new"} in watching.rebuilt)
        watching.settle()
        assert len(watching.built) <= 5


# Many at once, and while it builds


def test_a_burst_is_one_build_with_all_of_it(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_edge, "SETTLE", 0.4)
    monkeypatch.setattr(watch_edge, "LONGEST_BURST", DEADLINE)
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


def test_a_change_that_never_settles_is_built_all_the_same(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_edge, "SETTLE", 0.2)
    monkeypatch.setattr(watch_edge, "LONGEST_BURST", 0.5)
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


def test_a_thousand_files_of_another_branch_are_built_as_they_are_then(project: Project, cacheunit: Cacheunit) -> None:
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
    assert_cold(project, cacheunit)


def test_a_burst_is_one_build_by_looking_too(shop: Project) -> None:
    with Watching(shop, poll=True) as watching:
        for number in range(6):
            _rename_in_folder(shop.path(A), f"Half {number}.\n".encode())
            looked = watching.looked
            watching.until(lambda looked=looked: watching.looked > looked)  # type: ignore[misc]
        watching.until_text(TEXT_A, "Half 5.")
        watching.settle()
        assert len(watching.rebuilt) <= 2


class Gate:
    """Holds a build right after it rendered, once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered = threading.Event()
        self.leave = threading.Event()
        self.closed = False
        render = Renderer.render

        def held(renderer: Renderer, variant: Variant) -> Rendered:
            rendered = render(renderer, variant)
            if self.closed and variant.name == "a":
                self.closed = False
                self.entered.set()
                assert self.leave.wait(DEADLINE)
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
def test_an_edit_during_a_build_is_built_next(
    shop: Project,
    cacheunit: Cacheunit,
    poll: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
    edit: Callable[[Project], None],
) -> None:
    gate = Gate(monkeypatch)
    with Watching(shop, poll=poll) as watching:
        gate.closed = True
        shop.edit(A, "You are a.", "First.")
        assert gate.entered.wait(DEADLINE)
        edit(shop)
        gate.leave.set()
        watching.until(lambda: len(watching.rebuilt) == 2)
        watching.settle()
        assert watching.rebuilt[0] == {"a"}
    assert_cold(shop, cacheunit)


def test_an_edit_during_the_first_build_is_built_next(shop: Project, poll: bool) -> None:  # noqa: FBT001
    watching = Watching(shop, poll=poll, patience=HURRY)
    build = watching.builds.build

    def edited_after() -> BuildResult:
        built = build()
        if not watching.built:
            shop.edit(A, "You are a", "You were a")
        watching.builds.build = build  # type: ignore[method-assign]
        return built

    watching.builds.build = edited_after  # type: ignore[method-assign]
    with watching:
        watching.until(lambda: "You were a" in shop.read(TEXT_A).decode())


# Folders and links


@pytest.mark.parametrize("folder", ["templates/partials", "templates", "prefixes", "data", "data/deep"])
def test_a_folder_that_goes_and_comes_again_is_watched_again(
    shop: Project,
    cacheunit: Cacheunit,
    poll: bool,  # noqa: FBT001
    folder: str,
) -> None:
    kept = shop.root.parent / "kept"
    with Watching(shop, poll=poll) as watching:
        shutil.copytree(shop.path(folder), kept)
        shutil.rmtree(shop.path(folder))
        watching.until(lambda: watching.complaints or watching.rebuilt)
        watching.settle()
        shutil.copytree(kept, shop.path(folder))
        watching.until(lambda: "mended" in watching.lines or len(watching.rebuilt) > 1)
        watching.settle()
        shop.edit(STYLE, "Be brief.", "Be long.")
        watching.until_text(TEXT_A, "Be long.")
        shop.edit("data/deep/er/faq.yaml", "first", "other")
        watching.until_text(TEXT_B, "other")
        shop.write({"prefixes/new.yaml": "system: partials/style.md.j2\n"})
        watching.until(lambda: {"new"} in watching.rebuilt)
        watching.settle()
        assert len(watching.said) == 1
    assert_cold(shop, cacheunit)


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
def test_a_folder_that_is_renamed_away_and_back_is_watched_again(shop: Project, folder: str) -> None:
    with Watching(shop, patience=HURRY) as watching:
        shop.path(folder).rename(shop.root.parent / "away")
        watching.until(lambda: watching.complaints)
        watching.settle()
        (shop.root.parent / "away").rename(shop.path(folder))
        watching.until(lambda: "mended" in watching.lines)
        shop.edit(STYLE, "Be brief.", "Be long.")
        watching.until_text(TEXT_A, "Be long.")
        shop.edit("data/deep/er/faq.yaml", "first", "other")
        watching.until_text(TEXT_B, "other")
        assert len(watching.said) == 1


def test_a_folder_that_takes_anothers_place_is_watched(shop: Project) -> None:
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
def test_a_source_that_is_a_link_is_watched_where_it_lies(shop: Project, save: Callable[[Path, bytes], None]) -> None:
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


def test_a_link_on_the_way_to_a_source_is_watched_too(shop: Project) -> None:
    shop.write({"shared/one.md": "One.\n", "shared/two.md": "Two.\n"})
    shop.path("links").mkdir()
    shop.path("links/current").symlink_to("../shared/one.md")
    shop.path(A).unlink()
    shop.path(A).symlink_to("../links/current")
    with Watching(shop, patience=HURRY) as watching:
        shop.path("links/new").symlink_to("../shared/two.md")
        shop.path("links/new").replace(shop.path("links/current"))
        watching.until_text(TEXT_A, "Two.")


# Manifests and settings


def test_manifests_come_and_go(shop: Project, poll: bool, cacheunit: Cacheunit) -> None:  # noqa: FBT001
    with Watching(shop, poll=poll) as watching:
        shop.write({"prefixes/new/c.yaml": "system: a.md.j2\n"})
        watching.until(lambda: {"new/c"} in watching.rebuilt)
        assert any(re.match(r"new/c for small: .* new, ", line) for line in watching.lines)
        shop.path("prefixes/deep/b.yaml").unlink()
        watching.until(lambda: "deep/b for small: removed" in watching.lines)
        assert not shop.path("build/deep").exists()
        shop.path("prefixes/a.yaml").rename(shop.path("prefixes/deep/d.yaml"))
        watching.until(lambda: "a for small: removed" in watching.lines)
        watching.until(lambda: any("deep/d" in names for names in watching.rebuilt))
    assert_cold(shop, cacheunit)


def test_renamed_folders_in_the_settings_are_followed(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """By events or, where one is lost while folders are scheduled anew, by the look that comes soon after."""
    monkeypatch.setattr(watch_edge, "RESCAN", 5.0)
    with Watching(shop) as watching:
        shutil.copytree(shop.path("templates"), shop.path("texts"))
        shop.edit("texts/a.md.j2", "You are a", "You were a")
        shop.edit("cacheunit.toml", "[target", 'templates = "texts"\nbuild = "out"\n\n[target')
        watching.until(lambda: shop.path("out/a/small.txt").is_file())
        shop.edit("texts/partials/style.md.j2", "Be brief.", "Be long.")
        watching.until(lambda: b"Be long." in shop.read("out/a/small.txt"))


def test_an_absent_candidate_that_comes_is_seen(shop: Project, poll: bool) -> None:  # noqa: FBT001
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
def test_what_breaks_is_told_once_and_heals_with_the_next_good_save(
    shop: Project,
    poll: bool,  # noqa: FBT001
    broken: str,
) -> None:
    path, text = BREAKS[broken]
    with Watching(shop, poll=poll) as watching:
        outputs = shop.snapshot("build", LOCK_FILE)
        _rename_in_folder(shop.path(path), text.encode("latin-1"))
        watching.until(lambda: watching.complaints)
        watching.settle()
        assert len(watching.complaints) == 1
        assert [fault.path for fault in watching.complaints[0]] == [path]
        assert shop.snapshot("build", LOCK_FILE) == outputs
        _rename_in_folder(shop.path(path), SOURCES[path].encode())
        watching.until(lambda: "mended" in watching.lines)
        _rename_in_folder(shop.path(STYLE), b"Be long.\n")
        watching.until_text(TEXT_A, "Be long.")
        assert len(watching.complaints) == 1


def test_one_fault_after_another_is_told_each_time(shop: Project) -> None:
    with Watching(shop) as watching:
        outputs = shop.snapshot("build", LOCK_FILE)
        _rename_in_folder(shop.path("prefixes/a.yaml"), b"system: [\n")
        watching.until(lambda: len(watching.complaints) == 1)
        _rename_in_folder(shop.path(A), b"{{ broken }\n")
        _rename_in_folder(shop.path("prefixes/a.yaml"), SOURCES["prefixes/a.yaml"].encode())
        watching.until(lambda: len(watching.complaints) == 2)
        _rename_in_folder(shop.path(A), SOURCES[A].encode())
        watching.until(lambda: watching.lines.count("mended") == 1)
        shop.path(STYLE).unlink()
        watching.until(lambda: len(watching.complaints) == 3)
        assert "partials/style.md.j2" in str(watching.complaints[2][0])
        assert shop.snapshot("build", LOCK_FILE) == outputs
        _rename_in_folder(shop.path(STYLE), SOURCES[STYLE].encode())
        watching.until(lambda: watching.lines.count("mended") == 2)
        watching.settle()
        assert shop.snapshot("build", LOCK_FILE) == outputs
        assert len(watching.complaints) == 3


def test_it_begins_with_what_is_broken_too(shop: Project) -> None:
    shop.write({A: "{{ broken }\n"})
    with Watching(shop) as watching:
        assert len(watching.complaints) == 1
        shop.write({A: "Whole.\n"})
        watching.until_text(TEXT_A, "Whole.")


def test_a_project_without_manifests_waits_for_the_first(project: Project) -> None:
    project.write({"cacheunit.toml": SOURCES["cacheunit.toml"]})
    with Watching(project) as watching:
        assert len(watching.complaints) == 1
        project.write({"templates/a.md.j2": "First.\n", "prefixes/deep/er/a.yaml": "system: a.md.j2\n"})
        watching.until_text("build/deep/er/a/small.txt", "First.")


def test_a_full_disk_is_told_and_the_next_save_is_built(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with Watching(shop) as watching:
        outputs = shop.snapshot("build", LOCK_FILE)
        with monkeypatch.context() as full:

            def refuse(*_: object) -> None:
                raise fail('cannot write "build/a/small.txt": No space left on device')

            full.setattr(files_edge, "commit", refuse)
            shop.edit(A, "You are a", "You were a")
            watching.until(lambda: watching.complaints)
            watching.settle()
            assert shop.snapshot("build", LOCK_FILE) == outputs
        shop.edit(A, "You were a", "You will be a")
        watching.until_text(TEXT_A, "You will be a")


def test_the_cache_may_go_at_any_time(shop: Project) -> None:
    with Watching(shop) as watching:
        shutil.rmtree(shop.path(".cacheunit"))
        shop.edit(A, "You are a", "You were a")
        watching.until_text(TEXT_A, "You were a")
        watching.settle()
        shutil.rmtree(shop.path(".cacheunit"))
        shop.path(".cacheunit").write_bytes(b"")
        shop.edit(A, "You were a", "You will be a")
        watching.until_text(TEXT_A, "You will be a")


def test_two_watches_of_one_project_agree_and_settle(shop: Project, cacheunit: Cacheunit) -> None:
    with Watching(shop) as first, Watching(shop) as second:
        for number in range(3):
            _vim(shop.path(A), f"Number {number}.\n".encode())
            first.until(lambda number=number: f"Number {number}." in shop.path(TEXT_A).read_text())  # type: ignore[misc]
        first.settle()
        second.settle()
        assert len(first.rebuilt) + len(second.rebuilt) <= 6
        assert first.complaints == second.complaints == []
    assert_cold(shop, cacheunit)


# Where no events come


class Silent:
    """An observer that never tells anything."""

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
def test_where_watches_run_out_it_looks_instead_and_names_the_limit(
    shop: Project, monkeypatch: pytest.MonkeyPatch, code: int, after: int
) -> None:
    class Limited(Silent):
        def schedule(self, handler: object, path: str) -> str:
            if self.scheduled == after:
                raise OSError(code, os.strerror(code))
            return super().schedule(handler, path)

    monkeypatch.setattr(watch_edge, "Observer", Limited)
    with Watching(shop) as watching:
        shop.edit(A, "You are a", "You were a")
        watching.until_text(TEXT_A, "You were a")
        assert LIMITS[code] in watching.said[0]
        assert "every half second" in watching.said[0]
        assert "No space left" not in "".join(watching.said)


def test_where_the_system_has_no_watching_left_at_all_it_looks_instead(
    shop: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refused(Silent):
        def start(self) -> None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(watch_edge, "Observer", Refused)
    with Watching(shop) as watching:
        shop.edit(A, "You are a", "You were a")
        watching.until_text(TEXT_A, "You were a")
        assert LIMITS[errno.EMFILE] in watching.said[0]


def test_where_watches_run_out_later_it_looks_from_then_on(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with Watching(shop) as watching:
        observer: Any = watching.watcher._observer  # noqa: SLF001

        def refuse(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(observer, "schedule", refuse)
        shop.write({"templates/new/c.md.j2": "First.\n", "prefixes/c.yaml": "system: new/c.md.j2\n"})
        watching.until_text("build/c/small.txt", "First.")
        watching.until(lambda: LIMITS[errno.ENOSPC] in watching.said[-1])
        watching.settle()
        shop.write({"templates/new/c.md.j2": "Second.\n"})
        watching.until_text("build/c/small.txt", "Second.")
        assert len(watching.said) == 2


def test_where_no_events_come_it_notices_by_itself_and_says_so(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_edge, "Observer", Silent)
    monkeypatch.setattr(watch_edge, "RESCAN", 0.1)
    with Watching(shop) as watching:
        assert watching.said == ["watching for changes"]
        looked = watching.looked
        watching.until(lambda: watching.looked > looked + 1)
        assert watching.built == []
        shop.edit(A, "You are a", "You were a")
        watching.until_text(TEXT_A, "You were a")
        assert watching.said[1:] == ["changes come without events: looking for changes every half second instead"]
        monkeypatch.setattr(watch_edge, "RESCAN", 600.0)
        watching.settle()
        shop.edit(A, "You were a", "You will be a")
        watching.until_text(TEXT_A, "You will be a")


def test_a_change_at_the_moment_of_looking_is_no_sign_that_events_do_not_come(
    shop: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_edge, "RESCAN", 0.1)
    with Watching(shop) as watching:
        scan = watching.watcher._scan  # noqa: SLF001

        def edited_before() -> Any:  # noqa: ANN401 - what it gives
            if not watching.built and "You were a" not in shop.read(A).decode():
                shop.edit(A, "You are a", "You were a")
            return scan()

        monkeypatch.setattr(watching.watcher, "_scan", edited_before)
        watching.until_text(TEXT_A, "You were a")
        watching.settle()
        assert watching.said == ["watching for changes"]


def test_by_looking_it_needs_no_observer(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise AssertionError

    monkeypatch.setattr(watch_edge, "Observer", refuse)
    with Watching(shop, poll=True) as watching:
        assert watching.said == ["looking for changes every half second"]
        shop.edit(A, "You are a", "You were a")
        watching.until_text(TEXT_A, "You were a")
        watching.settle()
        assert len(watching.built) <= 3


# After all of it


@pytest.mark.parametrize("seed", range(3))
def test_after_any_edits_the_outputs_are_those_of_a_cold_build(
    shop: Project,
    cacheunit: Cacheunit,
    poll: bool,  # noqa: FBT001
    seed: int,
) -> None:
    chance = random.Random(seed)  # noqa: S311 - nothing is secret here
    paths = [A, STYLE, "templates/b.md.j2", "templates/new/c.md.j2", "data/deep/er/faq.yaml"]
    saves = [save for save in SAVES if save is not _emacs]
    with Watching(shop, poll=poll) as watching:
        for number in range(40):
            path = shop.path(chance.choice(paths))
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.is_file():
                path.write_bytes(b"")
            text = f"answer: {number}\n" if path.suffix == ".yaml" else f"Text {chance.randrange(5)}.\n"
            chance.choice(saves)(path, text.encode())
            if chance.random() < 0.2:
                shop.path("prefixes/c.yaml").write_text("system: new/c.md.j2\n")
            if chance.random() < 0.1:
                shop.path("prefixes/c.yaml").unlink(missing_ok=True)
            if chance.random() < 0.1:
                with suppress(FileNotFoundError):
                    shutil.rmtree(shop.path("templates/partials"))
            if chance.random() < 0.3:
                threading.Event().wait(chance.random() * 0.1)  # edits come in every phase of a build
        shop.write({STYLE: "The last.\n", A: SOURCES[A], "templates/new/c.md.j2": "And c.\n"})
        shop.write({"prefixes/c.yaml": "system: new/c.md.j2\n", "templates/b.md.j2": SOURCES["templates/b.md.j2"]})
        watching.until_text(TEXT_A, "The last.")
        watching.until_text("build/c/small.txt", "And c.")
        watching.settle()
        assert watching.alive
    assert_cold(shop, cacheunit)


def test_memory_stays_as_it_is_over_many_builds(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BuildCache, "_software", ["the same"])  # takes most of the time
    project.write({key: text for key, text in SOURCES.items() if "b.yaml" not in key})
    session = Session(project.root, quiet=True, verbose=False)
    builds = WatchBuilds(project.root.resolve(), session.adapters_factory(), lambda _: None, lambda _: None)
    texts = [f"Text {number}.\n" for number in range(7)]

    def rebuild(times: int) -> int:
        """Builds, and gives what is still held after."""
        for number in range(times):
            project.write({A: texts[number % 7] if number % 10 else "{{ broken }\n"})
            builds.build()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    rebuild(100)
    tracemalloc.start()
    try:
        held = [rebuild(20), *(rebuild(60) for _ in range(3))]
    finally:
        tracemalloc.stop()
    grown = [after - before for before, after in itertools.pairwise(held)]
    assert min(grown) < 20_000, grown  # not 300 bytes a build; a table that doubles once is no leak


# What it shows


def static_ids(text: bytes) -> list[int]:
    """The ids of a static prefix by the reference implementation."""
    frame = known_targets()["deepseek-v4"].frame
    ids: list[int] = reference().encode(frame.before + text.decode() + frame.after, add_special_tokens=False).ids
    return ids


def common(old: list[int], new: list[int]) -> int:
    return next((index for index, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), len(old))


@pytest.mark.parametrize(
    ("rule", "warm"),
    [
        ('cache = {kind = "blocks", unit = 8, minimum = 0}', lambda old, new: common(old, new) // 8 * 8),
        ('cache = {kind = "blocks", unit = 8, minimum = 2000}', lambda _old, _new: 0),
        ('cache = {kind = "tokens"}', common),
        ('cache = {kind = "breakpoints", minimum = 0}', lambda _old, _new: 0),
        ('cache = {kind = "unknown"}', lambda _old, _new: None),
    ],
)
def test_a_line_says_what_a_save_did_to_the_tokens(
    project: Project, rule: str, warm: Callable[[list[int], list[int]], int | None]
) -> None:
    words = " ".join(f"word{number}" for number in range(150))
    config = f'targets = ["small"]\n\n[target.small]\nextends = "deepseek-v4"\n{rule}\n'
    project.write({"cacheunit.toml": config, "prefixes/a.yaml": "system: a.md.j2\npadding: always\n"})
    project.write({"prefixes/b.yaml": "system: a.md.j2\ntargets: [kimi]\n", "templates/a.md.j2": f"{words}\n"})
    session = Session(project.root, quiet=True, verbose=False)
    lines: list[str] = []
    builds = WatchBuilds(project.root.resolve(), session.adapters_factory(), lines.append, lambda _: None)
    builds.build()
    old = static_ids(project.read(TEXT_A))
    assert f"{len(old):,} tokens" in lines[0]
    assert re.fullmatch(r"a for small: .*\d padding, new, [\d,]+ ms", lines[0])
    assert lines[1].startswith("b for kimi: about ")
    del lines[:]
    project.edit("templates/a.md.j2", "word100 word101", "another word")
    builds.build()
    new = static_ids(project.read(TEXT_A))
    text = project.read(TEXT_A).decode()
    padding = len(new) - len(static_ids(text[: text.index("word149\n") + len("word149\n")].encode()))
    parts = [f"{len(new):,} tokens", f"{padding:,} padding", f"{len(new) - len(old):+,} to the lock"]
    if "unit = 8" in rule:
        assert len(new) % 8 == 0
        parts.append(f"{len(new) // 8:,} units")
    expected = warm(old, new)
    line = lines[0]
    assert line.startswith("a for small: ")
    assert all(part in line for part in parts), (line, parts)
    assert (f"{expected:,} stay warm" in line) if expected is not None else ("warm" not in line)
    assert re.search(r", [\d,]+ ms$", line)
    assert "units" not in lines[1]
    assert "warm" not in lines[1]
    del lines[:]
    builds.build()
    assert lines == []


def test_a_build_over_an_edited_artifact_claims_no_warm_tokens(shop: Project) -> None:
    session = Session(shop.root, quiet=True, verbose=False)
    lines: list[str] = []
    builds = WatchBuilds(shop.root.resolve(), session.adapters_factory(), lines.append, lambda _: None)
    builds.build()
    del lines[:]
    shop.write({TEXT_A: "Edited by hand.\n"})
    shop.edit(A, "You are a", "You were a")
    builds.build()
    (line,) = lines
    assert "warm" not in line
    assert b"You were a" in shop.read(TEXT_A)


# The command itself


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
@pytest.mark.parametrize("arguments", [[], ["--poll"]])
def test_the_command_builds_at_each_save_and_ends_at_once_when_interrupted(shop: Project, arguments: list[str]) -> None:
    process = subprocess.Popen(
        [*PROGRAM, "-C", shop.root, "watch", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    out, err = process.stdout, process.stderr
    assert out is not None
    assert err is not None
    guard = threading.Timer(60, process.kill)
    guard.start()
    try:
        first = [out.readline(), out.readline()]
        assert re.fullmatch(r"\d\d:\d\d:\d\d a for small: .*, new, [\d,]+ ms\n", first[0])
        assert err.readline().startswith("looking" if arguments else "watching")
        written = 0.0
        for number in range(2):
            if arguments:  # what it first sees counts, and it has not looked yet
                threading.Event().wait(0.3)
            _vim(shop.path(A), f"Saved {number}.\n".encode())
            written = time.monotonic()
            assert " a for small: " in out.readline()
            assert f"Saved {number}." in shop.read(TEXT_A).decode()
        assert time.monotonic() - written < DEADLINE
        shop.write({A: "{{ broken }\n"})
        assert err.readline().startswith(f"error: {A}:1: ")
        asked = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        assert time.monotonic() - asked < 3
        assert "Traceback" not in err.read()
    finally:
        guard.cancel()
        process.kill()
        process.communicate()


def test_a_link_that_is_gone_while_it_is_looked_at_ends_no_watch(shop: Project) -> None:
    """Editors move a link away for a moment: what was a link a moment ago need not be one now."""
    link = shop.path("templates/link.md")
    link.symlink_to("nowhere.md")
    assert watch_edge._link_folders(link) == {link.parent.resolve()}  # noqa: SLF001 - the moment cannot be hit from outside
    link.unlink()
    assert watch_edge._link_folders(link) == set()  # noqa: SLF001 - as above
