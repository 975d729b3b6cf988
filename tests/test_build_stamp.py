"""The build stamp contains the output of an unchanged `build` or `check`, and is not valid after any change."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from test_build_cache import BASE, LOCK_FILE, STAMPED, age_sources, with_valid_hash

from cacheunit_build.adapters.storage import build_stamp, toolchain
from cacheunit_build.adapters.storage.build_stamp import BuildStamp, read_stamp
from cacheunit_build.adapters.storage.cache_folder import CacheFolder
from cacheunit_build.cli.fast_path import unchanged_output

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Project


@pytest.fixture
def shop(project: Project) -> Project:
    """Returns the base project, built, with files that are older than its stamp."""
    project.write(BASE)
    project.build()
    age_sources(project)
    return project


def stamp_of(project: Project) -> BuildStamp | None:
    """Returns the build stamp of a project."""
    return read_stamp(CacheFolder(str(project.root)))


def stamped_outputs(project: Project) -> tuple[str | None, str | None]:
    """Returns the output of `build` and of `check` in the stamp, None where it is not valid."""
    stamp = stamp_of(project)
    return (None, None) if stamp is None else (stamp.build_output("text"), stamp.check_output("text"))


def test_the_stamp_contains_what_build_and_check_print(shop: Project) -> None:
    built, checked = stamped_outputs(shop)
    assert built == shop.build().out.rstrip("\n")
    assert checked == shop.run("check").out.rstrip("\n")


def test_the_stamp_contains_the_json_of_a_build_once_it_was_asked_for(shop: Project) -> None:
    stamp = stamp_of(shop)
    assert stamp is not None
    assert stamp.build_output("json") is None
    printed = shop.build("--format", "json").out
    stamp = stamp_of(shop)
    assert stamp is not None
    assert f"{stamp.build_output('json')}\n" == printed == shop.build("--format", "json").out
    assert None not in stamped_outputs(shop)


def test_files_are_hashed_in_blocks_of_any_size(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_stamp, "_BLOCK", 3)
    shop.edit("templates/a.md.j2", "one", "two")
    shop.build()
    age_sources(shop)
    assert None not in stamped_outputs(shop)
    edit_keeping_size_and_time(shop, "build/a/small.txt")
    assert stamped_outputs(shop) == (None, None)


def replace_by_link(project: Project, path: str) -> None:
    """Moves a file or folder away and puts a link to it in its place."""
    moved = project.root / f"moved {path.replace('/', ' ')}"
    project.path(path).rename(moved)
    project.path(path).symlink_to(moved)


def replace_by_folder(project: Project, path: str) -> None:
    """Replaces a file by an empty folder."""
    project.path(path).unlink()
    project.path(path).mkdir()


def edit_keeping_size_and_time(project: Project, path: str) -> None:
    """Changes the content of a file, but neither its size nor its time of modification."""
    file = project.path(path)
    status = file.stat()
    file.write_bytes(bytes(reversed(file.read_bytes())))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


CHANGES: dict[str, Callable[[Project], object]] = {
    "a template": lambda project: edit_keeping_size_and_time(project, "templates/a.md.j2"),
    "a data file": lambda project: edit_keeping_size_and_time(project, "data/faq.yaml"),
    "the settings": lambda project: edit_keeping_size_and_time(project, "cacheunit.toml"),
    "the lock": lambda project: edit_keeping_size_and_time(project, LOCK_FILE),
    "an artifact": lambda project: edit_keeping_size_and_time(project, "build/a/small.txt"),
    "the settings, by a second file": lambda project: project.write({"pyproject.toml": ""}),
    "a template that was absent": lambda project: project.write({"templates/special.md.j2": ""}),
    "a template that was absent, now a dangling link": lambda project: project.path(
        "templates/special.md.j2"
    ).symlink_to("none"),
    "the manifests, one added": lambda project: project.write({"prefixes/deep/e.yaml": "system: a.md.j2\n"}),
    "the manifests, one added with a wrong name": lambda project: project.write({"prefixes/e.yml": ""}),
    "the manifests, one removed": lambda project: project.path("prefixes/a.yaml").unlink(),
    "the build folder, an orphan added": lambda project: project.write({"build/orphan/small.txt": ""}),
    "the artifacts, one removed": lambda project: project.path("build/a/small.json").unlink(),
    "a data file to a folder": lambda project: replace_by_folder(project, "data/faq.yaml"),
    "a data file to a link": lambda project: replace_by_link(project, "data/faq.yaml"),
    "a folder of templates to a link": lambda project: replace_by_link(project, "templates/partials"),
    "the folder of manifests to a link": lambda project: replace_by_link(project, "prefixes"),
    "a folder below the manifests to a link": lambda project: replace_by_link(project, "prefixes/deep"),
    "the build folder to a link": lambda project: replace_by_link(project, "build"),
}


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_the_stamp_is_not_valid_after_a_change_of(shop: Project, change: str) -> None:
    assert None not in stamped_outputs(shop)
    CHANGES[change](shop)
    assert stamped_outputs(shop) == (None, None)


def test_recently_changed_files_are_compared_by_content(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(BASE)
    project.build()
    monkeypatch.setattr(BuildStamp, "_contents_match", lambda *_: False)
    assert stamped_outputs(project) == (None, None)
    age_sources(project)
    assert stamped_outputs(project)[0] is not None


def test_recently_changed_files_are_read_only_once_after_a_while(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(BASE)
    project.build()
    later = (project.cache / STAMPED).stat().st_mtime_ns + 60_000_000_000
    monkeypatch.setattr(build_stamp, "file_system_time", lambda *_: later)
    assert None not in stamped_outputs(project)
    monkeypatch.setattr(BuildStamp, "_contents_match", lambda *_: False)
    assert stamped_outputs(project)[0] is not None


def test_files_are_read_each_time_while_they_are_recently_changed(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(BASE)
    project.build()
    before = (project.cache / STAMPED).read_bytes()
    monkeypatch.setattr(build_stamp, "file_system_time", lambda *_: 0)
    assert None not in stamped_outputs(project)
    assert (project.cache / STAMPED).read_bytes() == before


def test_the_stamp_is_not_valid_for_other_software_or_another_vocabulary(
    shop: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(build_stamp, "software", lambda: {"other": "software"})
        assert stamped_outputs(shop) == (None, None)
    value = json.loads((shop.cache / STAMPED).read_bytes().partition(b"\n")[2])
    assert len(value["vocabularies"]) == 1
    with monkeypatch.context() as patched:
        patched.setattr(toolchain, "stat_of", lambda _: None)
        patched.setattr(toolchain, "_sha256_of", lambda _: "another")
        assert stamped_outputs(shop) == (None, None)
    assert None not in stamped_outputs(shop)


def test_an_edited_stamp_whose_hash_does_not_match_is_not_valid(shop: Project) -> None:
    for command in ("build", "check"):
        path = shop.cache / f"output-{command}-text"
        data = path.read_bytes()
        path.write_bytes(data + b"and more")
        assert stamped_outputs(shop)[command == "check"] is None
        path.write_bytes(data)
    assert None not in stamped_outputs(shop)
    data = (shop.cache / STAMPED).read_bytes()
    (shop.cache / STAMPED).write_bytes(data.replace(b"sha256:", b"sha256_").replace(b"manifests", b"manifest5"))
    assert stamped_outputs(shop) == (None, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "structure",
    [[], 5, None, {}, "text", {"outputs": 5}, "software", "vocabularies", "parents", "folders", "stats", "begun"],
)
def test_a_stamp_with_an_unexpected_structure_is_not_valid(shop: Project, structure: object) -> None:
    value = json.loads((shop.cache / STAMPED).read_bytes().partition(b"\n")[2])
    value = {**value, structure: "five"} if isinstance(structure, str) and structure in value else structure
    (shop.cache / STAMPED).write_bytes(with_valid_hash(value))
    stamp = stamp_of(shop)
    assert stamp is not None
    assert stamp.build_output("text") is None


def test_a_build_without_changes_replaces_a_broken_stamp_and_a_check_does_not(shop: Project) -> None:
    intact = (shop.cache / STAMPED).read_bytes()
    (shop.cache / STAMPED).write_bytes(b"garbage")
    before = shop.snapshot()
    shop.run("check")
    assert unchanged_output(str(shop.root), ["check"]) is None
    assert shop.snapshot() == before
    shop.build()
    assert unchanged_output(str(shop.root), ["check"]) == shop.run("check").out.rstrip("\n")
    stamps = [json.loads(data.partition(b"\n")[2]) for data in (intact, (shop.cache / STAMPED).read_bytes())]
    assert {**stamps[0], "begun": 0} == {**stamps[1], "begun": 0}
