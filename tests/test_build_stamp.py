"""A stamp is told from what is there, and says nothing wherever a build or check would have something to say."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from test_build_record import BASE, LOCK_FILE, STAMPED, age_sources, signed

from cacheunit_build.adapters.storage import build_stamp as stamp_module
from cacheunit_build.adapters.storage.build_stamp import BuildStamp, read_stamp
from cacheunit_build.cli.fast_path import unchanged_output

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Project


@pytest.fixture
def shop(project: Project) -> Project:
    """The project of the sequences, built, and then older than its stamp."""
    project.write(BASE)
    project.built()
    age_sources(project)
    return project


def stamp_of(project: Project) -> BuildStamp | None:
    return read_stamp(str(project.root), str(project.path(".cacheunit")))


def said(project: Project) -> tuple[str | None, str | None]:
    """What the stamp says of a build and of a check."""
    stamp = stamp_of(project)
    return (None, None) if stamp is None else (stamp.build_output("text"), stamp.check_output("text"))


def test_it_says_what_a_build_and_a_check_say(shop: Project) -> None:
    built, checked = said(shop)
    assert built == shop.built().out.rstrip("\n")
    assert checked == shop.run("check").out.rstrip("\n")


def link(project: Project, path: str) -> None:
    """The same files, by a link to where they are now."""
    away = project.root / f"away {path.replace('/', ' ')}"
    project.path(path).rename(away)
    project.path(path).symlink_to(away)


def folder(project: Project, path: str) -> None:
    """A folder where a file was."""
    project.path(path).unlink()
    project.path(path).mkdir()


def same_size(project: Project, path: str) -> None:
    """Another content of the same size, and the same time of modification."""
    file = project.path(path)
    status = file.stat()
    file.write_bytes(bytes(reversed(file.read_bytes())))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


CHANGES: dict[str, Callable[[Project], object]] = {
    "a template": lambda project: same_size(project, "templates/a.md.j2"),
    "a file of data": lambda project: same_size(project, "data/faq.yaml"),
    "the settings": lambda project: same_size(project, "cacheunit.toml"),
    "the lock": lambda project: same_size(project, LOCK_FILE),
    "an artifact": lambda project: same_size(project, "build/a/small.txt"),
    "other settings": lambda project: project.write({"pyproject.toml": ""}),
    "an absent template": lambda project: project.write({"templates/special.md.j2": ""}),
    "an absent template that leads nowhere": lambda project: project.path("templates/special.md.j2").symlink_to("none"),
    "a manifest more": lambda project: project.write({"prefixes/deep/e.yaml": "system: a.md.j2\n"}),
    "a manifest with a wrong name": lambda project: project.write({"prefixes/e.yml": ""}),
    "a manifest less": lambda project: project.path("prefixes/a.yaml").unlink(),
    "an orphan": lambda project: project.write({"build/stray.txt": ""}),
    "an artifact less": lambda project: project.path("build/a/small.json").unlink(),
    "a folder for a file": lambda project: folder(project, "data/faq.yaml"),
    "a linked file": lambda project: link(project, "data/faq.yaml"),
    "a linked folder": lambda project: link(project, "templates/partials"),
    "a linked folder of manifests": lambda project: link(project, "prefixes"),
    "a linked folder in it": lambda project: link(project, "prefixes/deep"),
    "a linked folder of artifacts": lambda project: link(project, "build"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_it_says_nothing_after_a_change_of(shop: Project, change: str) -> None:
    assert None not in said(shop)
    CHANGES[change](shop)
    assert said(shop) == (None, None)


def test_of_files_that_are_too_young_only_their_content_tells(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(BASE)
    project.built()
    monkeypatch.setattr(BuildStamp, "_contents_match", lambda *_: False)
    assert said(project) == (None, None)
    age_sources(project)
    assert said(project)[0] is not None


def test_files_that_were_too_young_are_read_once(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(BASE)
    project.built()
    later = project.path(STAMPED).stat().st_mtime_ns + 60_000_000_000
    monkeypatch.setattr(stamp_module, "file_system_time", lambda _: later)
    assert None not in said(project)
    monkeypatch.setattr(BuildStamp, "_contents_match", lambda *_: False)
    assert said(project)[0] is not None


def test_files_that_are_still_too_young_are_read_again(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(BASE)
    project.built()
    before = project.read(STAMPED)
    monkeypatch.setattr(stamp_module, "file_system_time", lambda _: 0)
    assert None not in said(project)
    assert project.read(STAMPED) == before


def test_it_says_nothing_of_other_software_or_another_vocabulary(
    shop: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(stamp_module, "software", lambda: ["other"])
        assert said(shop) == (None, None)
    value = json.loads(shop.read(STAMPED).partition(b"\n")[2])
    assert len(value["vocabularies"]) == 1
    with monkeypatch.context() as patched:
        patched.setattr(stamp_module, "stat_of", lambda _: [0, 0, 0, 0, 0])
        assert said(shop) == (None, None)
    assert None not in said(shop)


def test_it_says_nothing_where_it_was_edited_without_its_hash(shop: Project) -> None:
    for command in ("build", "check"):
        path = f".cacheunit/output-{command}-text"
        data = shop.read(path)
        shop.write({path: data + b"and more"})
        assert said(shop)[command == "check"] is None
        shop.write({path: data})
    assert None not in said(shop)
    data = shop.read(STAMPED)
    shop.write({STAMPED: data.replace(b"sha256:", b"sha256_").replace(b"manifests", b"manifest5")})
    assert said(shop) == (None, None)


@pytest.mark.parametrize(
    "shape",
    [[], 5, None, {}, "text", {"outputs": 5}, "software", "vocabularies", "parents", "folders", "stats", "begun"],
)
def test_a_stamp_of_another_shape_says_nothing(shop: Project, shape: object) -> None:
    value = json.loads(shop.read(STAMPED).partition(b"\n")[2])
    value = {**value, shape: "five"} if isinstance(shape, str) and shape in value else shape
    shop.write({STAMPED: signed(value)})
    stamp = stamp_of(shop)
    assert stamp is not None
    assert stamp.build_output("text") is None


def test_a_build_that_finds_nothing_to_do_makes_it_again_and_a_check_does_not(shop: Project) -> None:
    good = shop.read(STAMPED)
    shop.write({STAMPED: b"garbage"})
    before = shop.snapshot()
    shop.run("check")
    assert unchanged_output(str(shop.root), ["check"]) is None
    assert shop.snapshot() == before
    shop.built()
    assert unchanged_output(str(shop.root), ["check"]) == shop.run("check").out.rstrip("\n")
    made = [json.loads(data.partition(b"\n")[2]) for data in (good, shop.read(STAMPED))]
    assert {**made[0], "begun": 0} == {**made[1], "begun": 0}
