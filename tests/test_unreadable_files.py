"""Files and folders that cannot be read, or are too large, are faults: they never count as missing or as unchanged."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from test_build_cache import BASE

from cacheunit_build.adapters.storage import build_stamp, discovery, file_stat
from cacheunit_build.adapters.storage.cache_folder import CacheFolder
from cacheunit_build.domain.fingerprint import fingerprint

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Project

FILES = {
    **BASE,
    "prefixes/inner/x.yaml": "system: x.md.j2\n",
    "templates/x.md.j2": "X{% include 'optional/y.md' ignore missing %}\n",
    "templates/optional/y.md": "Y\n",
}


@pytest.fixture
def shop(project: Project) -> Project:
    """A built project with a prefix in a folder, and a template that may be missing."""
    project.write(FILES)
    project.build()
    return project


def _deny(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Makes a folder one that the user may not enter: root may enter all, so modes do not show it."""

    def denying(function: Any) -> Any:  # noqa: ANN401 - any function of os
        def denied(path: Any = ".", *arguments: Any, **keywords: Any) -> Any:  # noqa: ANN401
            is_path = not isinstance(path, int)
            if (
                is_path
                and f"{os.fspath(path)}/".startswith(f"{folder}/")
                and (function is os_scandir or os.fspath(path) != str(folder))
            ):
                raise PermissionError(13, "Permission denied", path)
            return function(path, *arguments, **keywords)

        return denied

    os_scandir = os.scandir
    for name in ("lstat", "stat", "open", "scandir", "listdir", "readlink"):
        monkeypatch.setattr(os, name, denying(getattr(os, name)))


@pytest.mark.parametrize("folder", ["prefixes", "prefixes/inner", "templates/optional", "build", "build/inner"])
@pytest.mark.parametrize("command", ["build", "check"])
def test_a_folder_that_cannot_be_read_is_not_an_empty_one(
    shop: Project, monkeypatch: pytest.MonkeyPatch, folder: str, command: str
) -> None:
    before = shop.files()
    with monkeypatch.context() as patched:
        _deny(patched, shop.root / folder)
        ran = shop.run(command)
    assert (ran.code, folder in ran.err, "Permission denied" in ran.err) == (2, True, True), ran.out + ran.err
    assert shop.files() == before


def test_a_build_folder_that_cannot_be_reached_is_not_a_missing_one(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(FILES)
    project.edit("cacheunit.toml", "targets", 'build = "out/frozen"\ntargets')
    project.build()
    _deny(monkeypatch, project.root / "out")
    ran = project.run("check")
    assert (ran.code, 'cannot read "out/' in ran.err) == (2, True), ran.out + ran.err


def test_a_stamp_does_not_hold_where_a_missing_file_may_be_there(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write({**FILES, "templates/optional/z.md": "Z\n"})
    (project.root / "templates/optional/y.md").unlink()
    project.build()
    stamp = build_stamp.read_stamp(CacheFolder(str(project.root)))
    assert stamp is not None
    assert stamp.check_output("text") is not None
    _deny(monkeypatch, project.root / "templates/optional")
    assert stamp.check_output("text") is None


@pytest.mark.parametrize("path", ["prefixes/inner/x.yaml", "templates/x.md.j2", "cacheunit.lock"])
def test_a_file_that_grew_huge_is_not_read_whole(shop: Project, path: str) -> None:
    os.truncate(shop.root / path, 60 * 2**30)
    ran = shop.run("check")
    assert (ran.code, "it is larger than 256 MiB" in ran.err) == (2, True), ran.out + ran.err


def test_a_stamp_does_not_take_a_huge_file_for_its_beginning(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"a" * 65536)
    read = build_stamp._fingerprint_now  # noqa: SLF001 - a stamp compares only what it returns
    assert read(str(file)) == fingerprint(b"a" * 65536)
    os.truncate(file, 60 * 2**30)
    with pytest.raises(OSError, match="too large"):
        read(str(file))


def test_huge_settings_and_pipes_above_a_folder_do_not_stop_the_search_for_a_project(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "prefixes").mkdir()
    (tmp_path / "a/pyproject.toml").touch()
    os.truncate(tmp_path / "a/pyproject.toml", 60 * 2**30)
    assert discovery.find_root(str(tmp_path / "a/b")) == str(tmp_path)


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "file/below"])
def test_a_name_that_no_file_can_have_is_missing(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    assert not file_stat.exists(tmp_path / name)
