"""File systems with other rules, simulated at the lowest calls; bench/platforms.py tries real ones."""

from __future__ import annotations

import builtins
import errno
import io
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from filelock import BaseFileLock

from cacheunit_build.adapters.storage.cache_file import file_system_time
from cacheunit_build.adapters.storage.file_stat import latest_change, surely_before

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Project

SECOND = 1_000_000_000
ARTIFACT = "build/agent/anthropic-1024.txt"
LOCK = "cacheunit.lock"


@pytest.fixture
def agent(project: Project) -> Project:
    """Returns a project with one prefix, not yet built."""
    project.write({
        "cacheunit.toml": 'targets = ["anthropic-1024"]\n',
        "prefixes/agent.yaml": "system: agent.md.j2\n",
        "templates/agent.md.j2": "You are agent 0.\n",
    })  # fmt: skip
    return project


# Letter case


@pytest.fixture
def ignored_case(agent: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Returns a project on a file system that takes names for one that differ only in letter case, and keeps them."""
    root, listdir, rename = str(agent.root), os.listdir, os.rename

    def spelled(path: Any) -> Any:  # noqa: ANN401 - whatever a call of the system gets
        if isinstance(path, int) or not os.fspath(path).startswith(f"{root}/"):
            return path
        found = root
        for part in os.fspath(path).removeprefix(f"{root}/").split("/"):
            try:
                names = listdir(found)
            except OSError:
                names = []
            found = f"{found}/{next((name for name in names if name.lower() == part.lower()), part)}"
        return found

    def first(call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda path=".", *arguments, **options: call(spelled(path), *arguments, **options)

    def moved(old: Any, new: Any) -> None:  # noqa: ANN401
        source, target = spelled(old), spelled(new)
        rename(source, os.fspath(new) if source == target else target)

    for owner, names in (
        (os, ("lstat", "stat", "open", "mkdir", "rmdir", "unlink", "listdir", "scandir", "readlink", "utime")),
        (io, ("open",)),
        (builtins, ("open",)),
    ):
        for name in names:
            monkeypatch.setattr(owner, name, first(getattr(owner, name)))
    link = os.link
    monkeypatch.setattr(os, "link", lambda old, new, **options: link(spelled(old), spelled(new), **options))
    monkeypatch.setattr(os, "rename", moved)
    monkeypatch.setattr(os, "replace", moved)
    return agent


def built(project: Project) -> list[str]:
    """Returns the paths in the build folder, as they are spelled there."""
    return sorted(path for path in project.files("build") if path.endswith(".txt"))


def test_the_simulation_ignores_letter_case(ignored_case: Project) -> None:
    assert ignored_case.read("PREFIXES/Agent.yaml") == ignored_case.read("prefixes/agent.yaml")
    ignored_case.path("prefixes/agent.yaml").rename(ignored_case.path("prefixes/Agent.yaml"))
    assert os.listdir(ignored_case.path("prefixes")) == ["Agent.yaml"]  # noqa: PTH208 - names


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("prefixes/agent.yaml", "prefixes/Agent.yaml", "build/Agent/anthropic-1024.txt"),
        ("prefixes/deep", "prefixes/DEEP", "build/DEEP/x/anthropic-1024.txt"),
        ("prefixes/deep/x.yaml", "prefixes/deep/X.yaml", "build/deep/X/anthropic-1024.txt"),
    ],
)
def test_after_a_prefix_is_renamed_to_other_letter_case_its_artifacts_have_the_new_name(
    ignored_case: Project, old: str, new: str, expected: str
) -> None:
    project = ignored_case
    project.write({"prefixes/deep/x.yaml": "system: agent.md.j2\n"})
    project.build()
    project.path(old).rename(project.path(new))
    assert project.run("check").code == 1
    project.build()
    assert expected in built(project)
    assert len(built(project)) == 2
    assert project.drift() == []
    assert "unchanged" in project.build().out


def test_a_new_folder_below_one_in_other_letter_case_has_its_new_name(ignored_case: Project) -> None:
    project = ignored_case
    project.write({"prefixes/deep/x.yaml": "system: agent.md.j2\n"})
    project.build()
    project.path("prefixes/deep").rename(project.path("prefixes/DEEP"))
    project.path("prefixes/DEEP/x.yaml").rename(project.path("prefixes/DEEP/y.yaml"))
    project.build()
    assert (built(project), project.drift()) == (["build/DEEP/y/anthropic-1024.txt", ARTIFACT], [])


def test_a_variant_and_a_target_in_other_letter_case_have_the_new_name(ignored_case: Project) -> None:
    project = ignored_case
    settings = 'targets = ["{0}"]\n[target.{0}]\nextends = "anthropic-1024"\n'
    project.write({"cacheunit.toml": settings.format("mine")})
    project.write({"prefixes/agent.yaml": "system: agent.md.j2\nmatrix: {plan: [pro]}\n"})
    project.build()
    project.write({"cacheunit.toml": settings.format("MINE")})
    project.build()
    assert built(project) == ["build/agent@plan=pro/MINE.txt"]
    project.edit("prefixes/agent.yaml", "pro", "Pro")
    project.build()
    assert built(project) == ["build/agent@plan=Pro/MINE.txt"]
    assert project.drift() == []


def test_artifacts_that_are_spelled_otherwise_on_disk_are_drift_and_spelled_anew(ignored_case: Project) -> None:
    """As after a checkout that renamed a folder's letter case in git only."""
    project = ignored_case
    project.build()
    project.path("build/agent").rename(project.path("build/AGENT"))
    assert {kind for kind, _ in project.drift()} == {"missing", "orphan"}
    assert project.run("build", "--locked").code == 0
    assert (built(project), project.drift()) == ([ARTIFACT], [])
    project.path("build/agent").rename(project.path("build/AGENT"))
    project.run("build")
    assert (built(project), project.drift()) == ([ARTIFACT], [])


def test_a_failed_build_restores_the_former_spelling(ignored_case: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project = ignored_case
    project.build()
    project.path("prefixes/agent.yaml").rename(project.path("prefixes/Agent.yaml"))
    before = project.files()
    refuse(monkeypatch, project.path(LOCK))
    ran = project.run("build")
    assert (ran.code, "everything is as it was before" in ran.err) == (2, True), ran.err
    assert project.files() == before


def test_a_template_in_other_letter_case_is_another_one(ignored_case: Project) -> None:
    project = ignored_case
    project.build()
    project.path("templates/agent.md.j2").rename(project.path("templates/Agent.md.j2"))
    assert (project.run("build").code, project.run("check").code) == (2, 2)
    project.edit("prefixes/agent.yaml", "agent.md", "Agent.md")
    project.build()


# Files that cannot be replaced, linked or given a mode


def refuse(monkeypatch: pytest.MonkeyPatch, busy: Path) -> None:
    """Refuses to replace, move or remove a file, as Windows does while it is open."""
    for name in ("replace", "rename", "unlink"):
        call = getattr(os, name)

        def refused(*paths: Any, call: Callable[..., Any] = call, **options: Any) -> Any:  # noqa: ANN401
            if str(busy) in map(os.fspath, paths):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(busy))
            return call(*paths, **options)

        monkeypatch.setattr(os, name, refused)


@pytest.mark.parametrize("path", [ARTIFACT, "build/agent/anthropic-1024.json", LOCK, "build/gone/anthropic-1024.txt"])
def test_an_open_file_that_cannot_be_replaced_is_one_error_and_everything_is_as_before(
    agent: Project, path: str
) -> None:
    agent.write({"prefixes/gone.yaml": "system: agent.md.j2\n"})
    agent.build()
    agent.path("prefixes/gone.yaml").unlink()
    agent.edit("templates/agent.md.j2", "0", "1")
    before = agent.files()
    with pytest.MonkeyPatch.context() as patch:
        refuse(patch, agent.path(path))
        ran = agent.run("build")
    assert (ran.code, f'cannot write "{path}"' in ran.err) == (2, True), ran.err
    assert "everything is as it was before" in ran.err
    assert agent.files() == before
    agent.build()
    assert agent.drift() == []


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK])
def test_a_file_system_without_hard_links_and_modes_is_built_on(
    agent: Project, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    agent.build()
    agent.edit("templates/agent.md.j2", "0", "1")
    for name in ("link", "fchmod", "fchown"):
        monkeypatch.setattr(os, name, refused)
    agent.build()
    assert agent.drift() == []


@pytest.mark.parametrize("error", [NotImplementedError(), OSError(errno.ENOLCK, "no locks"), OSError(errno.EIO, "io")])
def test_a_file_system_without_locks_is_built_on(
    agent: Project, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(BaseFileLock, "acquire", refused)
    agent.build()


# Folders and files of which nothing is known


@pytest.mark.parametrize("folder", ["prefixes", "prefixes/deep", "templates", "build", "build/agent"])
@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ENAMETOOLONG, errno.ESTALE])
def test_a_folder_that_cannot_be_listed_is_not_taken_for_empty(
    agent: Project, monkeypatch: pytest.MonkeyPatch, folder: str, number: int
) -> None:
    agent.write({"prefixes/deep/x.yaml": "system: agent.md.j2\n"})
    agent.build()
    agent.edit("templates/agent.md.j2", "0", "1")
    before, scandir = agent.files(), os.scandir

    def failing(path: Any = ".") -> Iterator[os.DirEntry[str]]:  # noqa: ANN401
        if os.fspath(path) == str(agent.path(folder)):
            raise OSError(number, os.strerror(number))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", failing)
    for command in ("build", "check"):
        ran = agent.run(command)
        assert (ran.code, f"{folder}: the folder cannot be read" in ran.err) == (2, True), ran.err
    monkeypatch.undo()
    assert agent.files() == before


@pytest.mark.parametrize("path", ["cacheunit.toml", "templates/extra.md.j2", LOCK, ARTIFACT])
def test_a_file_that_may_exist_is_not_taken_for_absent(
    agent: Project, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    agent.write({"templates/agent.md.j2": 'You{% include "extra.md.j2" ignore missing %}\n'})
    agent.write({"templates/extra.md.j2": " are 0."})
    agent.build()
    before, lstat, stat = agent.files(), os.lstat, os.stat

    def failing(call: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        def status(name: Any, **options: Any) -> os.stat_result:  # noqa: ANN401
            if name == str(agent.path(path)):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return call(name, **options)

        return status

    monkeypatch.setattr(os, "lstat", failing(lstat))
    monkeypatch.setattr(os, "stat", failing(stat))
    ran = agent.run("build")
    monkeypatch.undo()
    assert (ran.code, f'cannot read "{path}"' in ran.err) == (2, True), ran.err
    assert agent.files() == before


# Times


def status_with(status: os.stat_result, *, modified: int, changed: int, device: int | None = None) -> os.stat_result:
    """Returns a status with other times, in nanoseconds, and of another device."""
    values = list(status)
    values[2] = status.st_dev if device is None else device
    values[7:] = (modified // SECOND,) * 3
    times = {"st_mtime_ns": modified, "st_ctime_ns": changed, "st_mtime": modified / SECOND}
    return os.stat_result(values, times)


def test_the_clock_is_read_where_the_time_of_change_is_one(agent: Project, tmp_path: Path) -> None:
    assert file_system_time(str(agent.root), str(tmp_path)) > 0
    assert list(tmp_path.iterdir()) == [agent.root]


@pytest.mark.parametrize("rule", ["as the mtime", "creation", "windows"])
def test_no_stat_is_believed_where_the_time_of_change_is_another_one(
    agent: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    created = tmp_path.stat().st_ctime_ns - 5 * SECOND
    stat = os.stat

    def changed(path: Any, **options: Any) -> os.stat_result:  # noqa: ANN401
        status = stat(path, **options)
        if rule == "as the mtime":
            return status_with(status, modified=status.st_mtime_ns, changed=status.st_mtime_ns)
        return status_with(status, modified=created, changed=created) if str(path) == str(tmp_path) else status

    if rule == "windows":
        monkeypatch.setattr(sys, "platform", "win32")
    else:
        monkeypatch.setattr(os, "stat", changed)
    assert file_system_time(str(agent.root), str(tmp_path)) == 0


def stat_at(*times: int, device: int = 1) -> list[int]:
    """Returns the numbers of a stat that was modified and changed at these times."""
    return [10, 20, device, *times]


@pytest.mark.parametrize(
    ("numbers", "begun", "believed"),
    [
        (stat_at(10 * SECOND + 1, 10 * SECOND + 1), 11 * SECOND + 1, True),
        (stat_at(10 * SECOND + 1, 10 * SECOND + 1), 10 * SECOND + 2, False),
        (stat_at(10 * SECOND + 1, 10 * SECOND + 1), 11 * SECOND, False),  # the clock is coarse
        (stat_at(10 * SECOND, 10 * SECOND), 11 * SECOND + 1, False),  # the file's times are
        (stat_at(10 * SECOND, 10 * SECOND), 12 * SECOND + SECOND // 2, True),
        (stat_at(10 * SECOND, 10 * SECOND + 5), 11 * SECOND + 1, True),  # mtime was set, the file system has fine times
        (stat_at(10 * SECOND, 10 * SECOND, device=2), 99 * SECOND + 1, False),  # another clock
        (stat_at(1, 1) + stat_at(10 * SECOND, 10 * SECOND), 11 * SECOND + 1, False),
        (stat_at(1, 1) + stat_at(1, 1, device=2), 99 * SECOND + 1, False),
        (stat_at(1, 1), 0, False),
    ],
)
def test_a_stat_is_believed_only_if_its_file_surely_changed_before(
    numbers: list[int], begun: int, *, believed: bool
) -> None:
    assert (latest_change(numbers, 1) < surely_before(begun)) == believed


def test_an_edit_in_a_folder_of_another_file_system_is_found_although_its_stat_is_unchanged(
    agent: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    lstat, stat, begun = os.lstat, os.stat, agent.root.stat().st_ctime_ns // SECOND * SECOND

    def elsewhere(call: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        def status(path: Any, **options: Any) -> os.stat_result:  # noqa: ANN401
            found = call(path, **options)
            if "/templates/" not in os.fspath(path):
                return found
            return status_with(found, modified=begun, changed=begun, device=99)

        return status

    monkeypatch.setattr(os, "lstat", elsewhere(lstat))
    monkeypatch.setattr(os, "stat", elsewhere(stat))
    later = begun + 60 * SECOND + 1
    for module in ("build_cache", "build_stamp"):
        monkeypatch.setattr(f"cacheunit_build.adapters.storage.{module}.file_system_time", lambda *_: later)
    agent.build()
    agent.build()
    agent.edit("templates/agent.md.j2", "0", "1")
    agent.build()
    assert b"agent 1" in agent.read(ARTIFACT)
