"""Lock, artifacts and cache over the life of a project: edits, deleted files, crashes and concurrent builds."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

import pytest

from cacheunit_build.adapters.storage import atomic_commit, staging
from cacheunit_build.adapters.storage.project_files import DiskFiles
from cacheunit_build.builder import build as build_module
from cacheunit_build.domain.errors import CacheunitError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from conftest import CommandResult, Project

LOCK_FILE = "cacheunit.lock"
STYLE = "templates/partials/style.md.j2"
VARIANTS = ["deep/b@locale=de", "deep/b@locale=en"]
PROGRAM = [sys.executable, "-c", "from cacheunit_build.cli.main import main; main()"]


@pytest.fixture
def shop(copy_project: Callable[[str], Project]) -> Project:
    """Returns the project "shared-partial", built: three prefixes, two of which include the same template."""
    project = copy_project("shared-partial")
    project.build()
    return project


@pytest.fixture
def git(project: Project, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Returns a function that runs git in the project, now a repository, without the settings of this machine."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "ada@example.org")

    def run(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=project.root, check=True, capture_output=True)

    run("init", "--quiet")
    return run


def entries(project: Project) -> dict[str, Any]:
    """Returns the entries of the lock by prefix and target."""
    prefixes: dict[str, Any] = json.loads(project.read(LOCK_FILE))["prefixes"]
    return prefixes


def change_lock(project: Project, change: Callable[[Any], None]) -> None:
    """Changes the JSON value of the lock file."""
    lock = json.loads(project.read(LOCK_FILE))
    change(lock)
    project.write({LOCK_FILE: json.dumps(lock, ensure_ascii=False, indent=2) + "\n"})


def changed_sources(project: Project) -> dict[str, list[str]]:
    """Returns the changed sources that `check` reports for each changed prefix."""
    drift = project.check()["drift"]
    assert {item["kind"] for item in drift} <= {"changed"}
    return {item["prefix"]: item["because"] for item in drift}


# A build without changes


def test_a_second_build_writes_nothing(shop: Project) -> None:
    before = shop.snapshot("build", LOCK_FILE)
    report = shop.run("build", "--format", "json").json
    assert shop.snapshot("build", LOCK_FILE) == before
    assert {item["status"] for item in report["artifacts"]} == {"unchanged"}
    assert report["lock"] == "unchanged"


def test_a_build_rewrites_only_what_changed(shop: Project) -> None:
    before = shop.snapshot("build")
    shop.edit("templates/c.md.j2", "tickets", "letters")
    report = shop.run("build", "--format", "json").json
    after = shop.snapshot("build")
    changed = {path for path in after if after[path] != before.get(path)}
    artifacts = {f"build/c/{target}.{form}" for target in ("deepseek-v4", "small") for form in ("txt", "json")}
    assert changed == {*artifacts, "build/c"}
    assert {(i["prefix"], i["status"]) for i in report["artifacts"] if i["status"] == "built"} == {("c", "built")}


def test_deleting_or_breaking_the_cache_changes_no_output(shop: Project) -> None:
    before = shop.files()
    for cache in ("", "{", "[]", '{"a deepseek-v4": 3}', '{"a deepseek-v4": {"entry": 3, "inputs": []}}'):
        shutil.rmtree(shop.cache)
        if cache:
            shop.cache.mkdir()
            (shop.cache / "record.json").write_text(cache)
        assert shop.check()["ok"]
        shop.build()
        assert shop.files() == before


def test_an_unused_file_is_not_drift(shop: Project) -> None:
    shop.write({"templates/unused.md.j2": "{{ broken", "notes.md": "x", "data/unused.yaml": "a: [", ".hidden": "x"})
    assert shop.drift() == []


# check


def test_check_names_exactly_the_prefixes_that_use_an_edited_partial_and_the_partial(shop: Project) -> None:
    shop.edit(STYLE, "five", "six")
    assert changed_sources(shop) == {name: [STYLE] for name in ("a", *VARIANTS)}


def test_without_a_cache_git_is_used_to_name_the_changed_sources(shop: Project, git: Callable[..., None]) -> None:
    git("add", ".")
    git("commit", "--quiet", "--message", "built")
    shutil.rmtree(shop.cache)
    shop.edit(STYLE, "five", "six")
    assert changed_sources(shop) == {name: [STYLE] for name in ("a", *VARIANTS)}


def test_git_is_used_for_a_new_template_and_for_a_project_in_a_subfolder(
    project: Project, copy_project: Callable[[str], Project], git: Callable[..., None]
) -> None:
    copy_project("shared-partial")
    (project.root / "inner").mkdir()
    for name in ("prefixes", "templates", "cacheunit.toml"):
        (project.root / name).rename(project.root / "inner" / name)
    inner = type(project)(root=project.root / "inner", cacheunit=project.cacheunit)
    inner.build()
    git("add", ".")
    git("commit", "--quiet", "--message", "built")
    shutil.rmtree(inner.cache)
    inner.write({"templates/partials/en.md.j2": "Use British spelling.\n"})
    assert changed_sources(inner) == {"deep/b@locale=en": ["templates/partials/en.md.j2"]}


def test_without_cache_and_git_check_does_not_guess_what_changed(shop: Project) -> None:
    shutil.rmtree(shop.cache)
    shop.edit(STYLE, "five", "six")
    assert changed_sources(shop) == {name: [] for name in ("a", *VARIANTS)}


def test_git_is_not_used_if_the_lock_differs_from_the_committed_one(shop: Project, git: Callable[..., None]) -> None:
    git("add", ".")
    git("commit", "--quiet", "--message", "built")
    shop.edit(STYLE, "five", "six")
    shop.build()
    shutil.rmtree(shop.cache)
    shop.edit("templates/a.md.j2", "help", "assist")
    assert changed_sources(shop) == {"a": []}


@pytest.mark.parametrize("state", ["built", "edited", "never built", "broken"])
def test_check_writes_nothing_at_all(shop: Project, state: str) -> None:
    shutil.rmtree(shop.cache)
    if state == "edited":
        shop.edit(STYLE, "five", "six")
        shop.path("build/a/deepseek-v4.txt").unlink()
        shop.write({"build/orphan/small.txt": "x"})
    elif state == "never built":
        shutil.rmtree(shop.path("build"))
        shop.path(LOCK_FILE).unlink()
    elif state == "broken":
        shop.edit(STYLE, "five", "{{ nobody }}")
    before = shop.snapshot()
    codes = {shop.run("check").code, shop.run("check", "--format", "json").code}
    assert codes == {{"built": 0, "broken": 2}.get(state, 1)}
    assert shop.snapshot() == before


def test_check_distinguishes_edited_missing_and_orphan_files(shop: Project) -> None:
    shop.edit("build/a/deepseek-v4.txt", "Acme", "Emca")
    shop.path("build/c/small.json").unlink()
    shop.write({"build/old/deepseek-v4.txt": "x", "build/readme.md": "x"})
    expected = [("edited", "a"), ("missing", "c")]
    assert shop.drift() == [*expected, ("orphan", "build/old/deepseek-v4.txt")]
    assert shop.drift("a") == [("edited", "a")]
    assert shop.drift("--target", "small") == [("missing", "c")]
    text = shop.run("check")
    assert text.code == 1
    assert [line.split() for line in text.out.splitlines()[:2]] == [
        ["edited", "a", "deepseek-v4", "build/a/deepseek-v4.txt"],
        ["missing", "c", "small", "build/c/small.json"],
    ]


def test_an_artifact_with_other_line_ends_or_a_byte_order_mark_is_edited(shop: Project) -> None:
    data = shop.read("build/a/deepseek-v4.txt")
    for other in (data + b"\n", data.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + data, b""):
        shop.write({"build/a/deepseek-v4.txt": other})
        assert shop.drift() == [("edited", "a")]
        shop.build()
        assert shop.read("build/a/deepseek-v4.txt") == data


def test_a_deleted_lock_fails_the_check(shop: Project) -> None:
    shop.path(LOCK_FILE).unlink()
    assert set(shop.drift()) == {("added", name) for name in ("a", "c", *VARIANTS)}
    ran = shop.run("check")
    assert (ran.code, "there is no cacheunit.lock" in ran.err) == (1, True)


def test_without_a_build_folder_check_compares_with_the_lock_alone_and_prints_a_note(shop: Project) -> None:
    shutil.rmtree(shop.path("build"))
    ran = shop.run("check")
    assert (ran.code, ran.err) == (0, "note: there is no build/: only the lock was compared\n")
    shop.edit(STYLE, "five", "six")
    assert set(changed_sources(shop)) == {"a", *VARIANTS}


def test_an_added_and_a_removed_manifest_fail_the_check(shop: Project) -> None:
    shop.path("prefixes/a.yaml").rename(shop.path("prefixes/z.yaml"))
    assert shop.drift() == [("removed", "a"), ("added", "z")]


def test_a_removed_variant_is_removed_from_lock_and_build_folder(shop: Project) -> None:
    shop.edit("prefixes/deep/b.yaml", "[de, en]", "[de, fr]")
    assert shop.drift() == [("removed", "deep/b@locale=en"), ("added", "deep/b@locale=fr")]
    shop.build()
    assert sorted(entries(shop)) == ["a", "c", "deep/b@locale=de", "deep/b@locale=fr"]
    assert not shop.path("build/deep/b@locale=en").exists()


def test_a_token_count_edited_by_hand_fails_the_check(shop: Project) -> None:
    change_lock(shop, lambda lock: lock["prefixes"]["a"]["deepseek-v4"].update(tokens=256))
    assert shop.drift() == [("changed", "a")]
    shop.build()
    assert entries(shop)["a"]["deepseek-v4"]["tokens"] == 128


def test_a_template_comment_changes_inputs_but_not_the_artifact(shop: Project) -> None:
    shop.edit(STYLE, "Answer", "{# short #}Answer")
    assert shop.check()["ok"]
    changed = shop.run("explain", "a", "--format", "json").json["artifacts"][0]["changed"]
    assert [change["path"] for change in changed] == [STYLE]
    before = shop.files("build")
    assert shop.run("build", "--format", "json").json["lock"] == "unchanged"
    assert shop.files("build") == before
    assert shop.run("explain", "a", "--format", "json").json["artifacts"][0]["changed"] == []


def test_a_changed_vocabulary_is_tokenizer_drift(shop: Project) -> None:
    change_lock(shop, lambda lock: lock["targets"]["small"].update(tokenizer="sha256:" + "0" * 64))
    assert shop.drift() == [("tokenizer", "c")]


def test_the_same_text_with_other_token_ids_is_tokenizer_drift(shop: Project) -> None:
    change_lock(shop, lambda lock: lock["prefixes"]["a"]["deepseek-v4"].update(token_ids="sha256:" + "0" * 64))
    assert shop.drift() == [("tokenizer", "a")]


def test_a_changed_unit_of_a_target_is_profile_drift_of_its_artifacts_only(shop: Project) -> None:
    shop.edit("cacheunit.toml", "cache.unit = 16", "cache.unit = 32")
    assert shop.drift() == [("profile", "c")]
    refused = shop.run("build", "--locked")
    assert (refused.code, refused.out.split()[:3]) == (1, ["profile", "c", "small"])
    shop.build()
    lock = json.loads(shop.read(LOCK_FILE))
    assert lock["targets"]["small"]["cache"]["unit"] == 32
    assert lock["prefixes"]["c"]["small"]["tokens"] % 32 == 0


# build --locked


def test_a_locked_build_refuses_an_edited_source_and_writes_nothing(shop: Project) -> None:
    shop.edit(STYLE, "five", "six")
    shutil.rmtree(shop.path("build/c"))
    before = shop.files()
    ran, report = shop.run("build", "--locked"), shop.run("build", "--locked", "--format", "json")
    assert (ran.code, report.code) == (1, 1)
    assert shop.files() == before
    drift = [(item["prefix"], item["kind"], item["because"]) for item in report.json["drift"]]
    assert drift == [(name, "changed", [STYLE]) for name in ("a", *VARIANTS)]
    assert report.json["lock"] == "refused"


def test_a_locked_build_refuses_an_edited_artifact_and_does_not_repair_it(shop: Project) -> None:
    shop.edit("build/a/deepseek-v4.txt", "Acme", "Emca")
    before = shop.files()
    ran = shop.run("build", "--locked")
    assert (ran.code, ran.out.split()[:2]) == (1, ["edited", "a"])
    assert shop.files() == before


def test_a_locked_build_writes_what_is_missing_and_never_the_lock(shop: Project) -> None:
    before = shop.files()
    lock = shop.path(LOCK_FILE).stat()
    shutil.rmtree(shop.path("build"))
    ran = shop.run("build", "--locked")
    assert (ran.code, ran.err) == (0, "")
    assert shop.files() == before
    after = shop.path(LOCK_FILE).stat()
    assert (after.st_ino, after.st_mtime_ns) == (lock.st_ino, lock.st_mtime_ns)


def test_a_locked_build_does_not_even_reformat_the_lock(shop: Project) -> None:
    shop.write({LOCK_FILE: json.dumps(json.loads(shop.read(LOCK_FILE)))})
    before = shop.files()
    assert shop.run("build", "--locked").code == 0
    assert shop.files() == before


def test_a_locked_build_needs_a_lock(shop: Project) -> None:
    shop.path(LOCK_FILE).unlink()
    before = shop.files()
    ran = shop.run("build", "--locked")
    assert (ran.code, ran.out, "there is no cacheunit.lock" in ran.err) == (2, "", True)
    assert shop.files() == before


def test_a_locked_build_refuses_a_manifest_that_is_not_locked(shop: Project) -> None:
    shop.write({"prefixes/d.yaml": "system: c.md.j2\n"})
    ran = shop.run("build", "--locked")
    assert (ran.code, ran.out.split()[:2]) == (1, ["added", "d"])
    assert not shop.path("build/d").exists()


# Removed artifacts and orphans


def test_a_build_warns_of_orphans_and_never_deletes_them(shop: Project) -> None:
    shop.write({"build/old/deepseek-v4.txt": "x", "build/old/gone.txt": "x", "build/old/gone.json": "x"})
    others = {"build/a/notes.md": "", "build/lib/shop/data.json": "", "build/lib/shop/notes.txt": "", "build/x.txt": ""}
    shop.write(others)
    ran, report = shop.run("build"), shop.run("build", "--format", "json")
    orphans = ["build/old/deepseek-v4.txt", "build/old/gone.json", "build/old/gone.txt"]
    assert (ran.code, report.json["orphans"]) == (0, orphans)
    assert shop.files().keys() >= {*orphans, *others}
    assert [line.split(":")[0] for line in ran.err.splitlines()] == ["warning"] * 3
    assert shop.read("build/old/deepseek-v4.txt") == b"x"


def test_after_a_manifest_is_removed_a_build_removes_its_artifacts_folders_and_lock_entry(shop: Project) -> None:
    shutil.rmtree(shop.path("prefixes/deep"))
    shop.path("prefixes/c.yaml").unlink()
    shop.write({"build/c/notes.md": "mine"})
    report = shop.run("build", "--format", "json").json
    removed = [("c", "deepseek-v4"), ("c", "small"), *((name, "deepseek-v4") for name in VARIANTS)]
    assert [(item["prefix"], item["target"]) for item in report["removed"]] == removed
    assert not shop.path("build/deep").exists()
    assert list(shop.files("build")) == ["build/a/deepseek-v4.json", "build/a/deepseek-v4.txt", "build/c/notes.md"]
    assert list(entries(shop)) == ["a"]
    assert list(json.loads(shop.read(LOCK_FILE))["targets"]) == ["deepseek-v4"]


def test_after_the_build_folder_is_renamed_the_old_one_is_not_touched(shop: Project) -> None:
    before = shop.files("build")
    shop.edit("cacheunit.toml", "[target", 'build = "out"\n\n[target')
    shop.build()
    assert shop.files("build") == before
    assert [data for _, data in sorted(shop.files("out").items())] == [data for _, data in sorted(before.items())]


# A broken lock

_BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut in half": lambda data: data[: len(data) // 2],
    "in a merge": lambda data: data.replace(b'    "a": {', b'<<<<<<< HEAD\n    "a": {\n=======\n>>>>>>> other', 1),
    "no mapping": lambda _: b"[]\n",
    "not UTF-8": lambda data: data + b"\xff",
    "with an unknown key": lambda data: data.replace(b'"counted"', b'"extra": 1,\n        "counted"', 1),
    "with a key twice": lambda data: data.replace(b'"counted"', b'"tokens": 128,\n        "counted"', 1),
    "with no version": lambda data: data.replace(b'  "version": 2,\n', b""),
    "with a version of text": lambda data: data.replace(b'"version": 2', b'"version": "2"'),
    "with a negative count": lambda data: data.replace(b'"tokens": 128', b'"tokens": -128', 1),
    "with half a fingerprint": lambda data: data.replace(b'"text": "sha256:', b'"text": "sha256:beef', 1),
}


@pytest.mark.parametrize("damage", _BROKEN)
def test_a_broken_lock_fails_the_check_and_is_replaced_by_a_full_build_only(shop: Project, damage: str) -> None:
    good = shop.files()
    shop.write({LOCK_FILE: _BROKEN[damage](shop.read(LOCK_FILE))})
    assert shop.read(LOCK_FILE) != good[LOCK_FILE]
    broken = shop.files()
    for command in (("check",), ("build", "a"), ("build", "--target", "small"), ("build", "--locked")):
        ran = shop.run(*command)
        assert (ran.code, ran.out) == (2, ""), command
        assert ran.err.startswith(f"error: {LOCK_FILE}:"), ran.err
        assert 'hint: run "cacheunit build"' in ran.err
    assert shop.files() == broken
    ran = shop.run("build")
    assert (ran.code, ran.err.partition(":")[0]) == (0, "note")
    assert shop.files() == good


def test_merge_conflict_markers_in_the_lock_are_reported_with_their_line(shop: Project) -> None:
    lock = shop.read(LOCK_FILE).decode().splitlines(keepends=True)
    lock[9:9] = ["<<<<<<< HEAD\n", "=======\n", ">>>>>>> other\n"]
    shop.write({LOCK_FILE: "".join(lock)})
    assert "error: cacheunit.lock:10: the lock has merge-conflict markers" in shop.run("check").err


# Builds of some prefixes or targets


def test_building_one_prefix_keeps_the_entries_of_the_others(shop: Project) -> None:
    shop.edit(STYLE, "five", "six")
    before = entries(shop)
    shop.build("a")
    after = entries(shop)
    assert after["a"] != before["a"]
    assert {**after, "a": None} == {**before, "a": None}
    assert {name for _, name in shop.drift()} == set(VARIANTS)
    shop.build("deep/b@locale=en")
    assert {name for _, name in shop.drift()} == {"deep/b@locale=de"}


def test_building_one_prefix_ignores_faults_of_the_others(shop: Project) -> None:
    shop.write({"prefixes/c.yaml": "nonsense: true\n"})
    shop.edit("templates/a.md.j2", "help", "assist")
    shop.build("a")
    assert "c" in entries(shop)


def test_building_one_target_keeps_the_entries_of_the_others(shop: Project) -> None:
    shop.edit("templates/c.md.j2", "tickets", "letters")
    before = entries(shop)["c"]
    shop.build("--target", "small")
    after = entries(shop)["c"]
    assert after["deepseek-v4"] == before["deepseek-v4"]
    assert after["small"] != before["small"]
    assert shop.drift() == [("changed", "c")]


def test_building_one_prefix_is_refused_if_its_target_changed_for_others_too(shop: Project) -> None:
    shop.write({"prefixes/d.yaml": "system: c.md.j2\ntargets: [small]\n"})
    shop.edit("cacheunit.toml", "16", "32")
    before = shop.files()
    ran = shop.run("build", "d")
    assert (ran.code, 'target "small"' in ran.err) == (2, True)
    assert shop.files() == before


# Faults while writing


TEMPORARY = ".cacheunit-tmp"


class KilledError(BaseException):
    """Stands for the end of the process: no code of the product handles it, not even to clean up."""


class FailingDisk:
    """Counts the file operations of a commit and lets one fail, as on a full disk; or all from there, as after a kill.

    Args:
        monkeypatch: replaces the operations that `DiskFiles.stage` and `DiskFiles.commit` call.
        failing: the index of the operation that fails; -1 for none.
        killed: whether the process ends at that operation.
    """

    OPERATIONS = (
        *((os, name) for name in ("mkdir", "replace", "unlink", "rmdir", "fsync", "open", "link")),
        (staging, "FileIO"),
        (atomic_commit, "sync_files"),
    )

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, failing: int, killed: bool) -> None:
        self.operations: list[str] = []
        self._failing = failing
        self._killed = killed
        self._committing = False
        for owner, name in self.OPERATIONS:
            monkeypatch.setattr(owner, name, self._counted(name, getattr(owner, name)))
        for name in ("stage", "commit"):
            monkeypatch.setattr(DiskFiles, name, self._commit(getattr(DiskFiles, name)))

    def step(self, name: str) -> None:
        """Counts an operation, and raises an error if it is the one that fails."""
        index = len(self.operations)
        self.operations.append(name)
        if self._killed and 0 <= self._failing <= index:
            raise KilledError
        if self.fails(index):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fails(self, index: int) -> bool:
        """Returns whether the operation of that index fails."""
        return index == self._failing

    def _counted(self, name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
            if not self._committing:
                return operation(*arguments, **options)
            self.step(name)
            result = operation(*arguments, **options)
            return _Handle(result, self) if hasattr(result, "write") and result.writable() else result

        return call

    def _commit(self, commit: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:  # noqa: ANN401
            self._committing = True
            try:
                return commit(*arguments)
            finally:
                self._committing = False

        return call


class _Handle:
    """An open file; when its `write` fails, half of the data is written."""

    def __init__(self, handle: IO[bytes], disk: FailingDisk) -> None:
        self._handle = handle
        self._disk = disk

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.close()

    def write(self, data: bytes) -> int:
        half = self._handle.write(data[: len(data) // 2])
        self._disk.step("write")
        return half + self._handle.write(data[len(data) // 2 :])

    def flush(self) -> None:
        self._handle.flush()

    def fileno(self) -> int:
        return self._handle.fileno()


def _outputs(project: Project) -> dict[str, bytes]:
    """Returns the bytes of the lock, of temporary files and of everything in build/, by path."""
    paths = [path for path in (*project.root.iterdir(), *project.path("build").rglob("*")) if path.is_file()]
    return {path.relative_to(project.root).as_posix(): path.read_bytes() for path in sorted(paths)}


class RepeatableBuild:
    """A project whose next build creates, changes and removes files and folders; each `build` starts from that state.

    Attributes:
        project: the project.
        old: the outputs before the build.
        new: the outputs after a build without a fault.
        steps: the file operations of such a build, in order.
    """

    def __init__(self, project: Project, start: Path) -> None:
        self.project = project
        self.old = _outputs(project)
        self._start = start
        project.edit(STYLE, "five", "six")
        project.path("prefixes/c.yaml").unlink()
        project.write({"prefixes/new/one.yaml": "system: a.md.j2\nvariables: {product: Emca}\n"})
        shutil.copytree(project.root, start)
        self.steps, _ = self.build(failing=-1)
        self.new = _outputs(project)

    def build(self, *, failing: int, killed: bool = False) -> tuple[list[str], CommandResult | None]:
        """Builds with a fault at one operation; returns the operations, and the result unless it was killed."""
        shutil.rmtree(self.project.root)
        shutil.copytree(self._start, self.project.root)
        with pytest.MonkeyPatch.context() as patch:
            disk = FailingDisk(patch, failing=failing, killed=killed)
            patch.setattr(os, "getpid", lambda: 1)  # another process than that of the next build
            with contextlib.suppress(KilledError):
                return disk.operations, self.project.run("build")
        return disk.operations, None

    def partly_written(self, now: Mapping[str, bytes]) -> list[str]:
        """Returns the paths of files that have neither their old nor their new content."""
        return [path for path, data in now.items() if data not in (self.old.get(path), self.new.get(path))]


@pytest.fixture
def change(copy_project: Callable[[str], Project], tmp_path: Path) -> RepeatableBuild:
    """Returns a build that uses every kind of file operation."""
    project = copy_project("shared-partial")
    project.path("prefixes/deep/b.yaml").unlink()
    project.edit("prefixes/c.yaml", "targets: [deepseek-v4, small]", "targets: [small]")
    project.build()
    change = RepeatableBuild(project, tmp_path / "start")
    assert {"mkdir", "open", "write", "sync_files", "link", "replace", "unlink", "rmdir"} <= set(change.steps)
    assert change.old.keys() - change.new.keys()
    assert change.new.keys() - change.old.keys()
    return change


def _without_temporary(files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {path: data for path, data in files.items() if not path.endswith(TEMPORARY)}


@pytest.mark.slow
def test_a_build_killed_at_any_step_leaves_complete_files_and_the_next_build_finishes(change: RepeatableBuild) -> None:
    project = change.project
    for step, operation in enumerate(change.steps):
        _, ran = change.build(failing=step, killed=True)
        outputs = _without_temporary(_outputs(project))
        assert (ran, change.partly_written(outputs)) == (None, []), (step, operation)
        assert outputs[LOCK_FILE] == change.old[LOCK_FILE] or outputs == change.new, (step, operation)
        assert project.run("check").code == (0 if outputs == change.new else 1), (step, operation)
        project.build()
        assert _without_temporary(_outputs(project)) == change.new, (step, operation)


@pytest.mark.slow
def test_the_next_build_removes_the_temporary_files_of_a_killed_build(change: RepeatableBuild) -> None:
    for step in range(len(change.steps)):
        change.build(failing=step, killed=True)
        change.project.build()
        assert _outputs(change.project) == change.new, (step, change.steps[step])


def test_a_full_disk_while_files_are_staged_is_one_clear_error_and_changes_no_file(change: RepeatableBuild) -> None:
    for step in range(change.steps.index("link")):
        _, ran = change.build(failing=step)
        assert ran is not None
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith('error: cannot write "'), ran.err
        assert "No space left on device\n\nhint: everything is as it was before\n" in ran.err
        assert _without_temporary(_outputs(change.project)) == change.old, (step, change.steps[step])


def test_a_full_disk_while_files_are_staged_leaves_no_temporary_file_or_empty_folder(change: RepeatableBuild) -> None:
    project = change.project
    for step in range(change.steps.index("link")):
        change.build(failing=step)
        assert _outputs(project) == change.old, (step, change.steps[step])
        folders = [path for path in project.path("build").rglob("*") if path.is_dir()]
        assert all(any(folder.iterdir()) for folder in folders), (step, change.steps[step])


def test_a_fault_while_files_are_moved_into_place_is_rolled_back(change: RepeatableBuild) -> None:
    moves = [step for step, operation in enumerate(change.steps) if operation == "replace"]
    for step in moves:
        _, ran = change.build(failing=step)
        assert ran is not None
        assert ran.code == 2
        assert _outputs(change.project) == change.old, step


@pytest.mark.slow
def test_after_a_fault_before_the_lock_is_in_place_the_old_lock_fails_the_check(change: RepeatableBuild) -> None:
    moves = [step for step, operation in enumerate(change.steps) if operation == "replace"]
    for step in range(moves[0], moves[-1] + 1):
        _, ran = change.build(failing=step)
        outputs = _outputs(change.project)
        assert ran is not None
        if change.steps[step] == "link":  # without hard links, former files are copied
            assert (ran.code, outputs) == (0, change.new), ran.err
            continue
        assert (ran.code, outputs[LOCK_FILE], change.partly_written(outputs)) == (2, change.old[LOCK_FILE], []), (
            step,
            change.steps[step],
        )
        assert change.project.run("check").code == 1
        change.project.build()
        assert _outputs(change.project) == change.new, (step, change.steps[step])


@pytest.mark.slow
def test_a_kill_during_the_rollback_leaves_complete_files(
    change: RepeatableBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = max(step for step, operation in enumerate(change.steps) if operation == "replace")
    step = FailingDisk.step
    for killed_at in range(last + 1, last + 12):

        def fail_then_kill(disk: FailingDisk, name: str, killed_at: int = killed_at) -> None:
            if len(disk.operations) >= killed_at:
                raise KilledError
            step(disk, name)

        monkeypatch.setattr(FailingDisk, "step", fail_then_kill)
        _, ran = change.build(failing=last)
        outputs = _without_temporary(_outputs(change.project))
        assert (ran, change.partly_written(outputs)) == (None, []), killed_at
        assert outputs[LOCK_FILE] == change.old[LOCK_FILE]


def test_a_lock_that_cannot_be_moved_into_place_is_named(change: RepeatableBuild) -> None:
    last = max(step for step, operation in enumerate(change.steps) if operation == "replace")
    _, ran = change.build(failing=last)
    assert ran is not None
    assert ran.err.startswith(f'error: cannot write "{LOCK_FILE}"'), ran.err


def test_a_file_that_cannot_be_restored_is_named(change: RepeatableBuild, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk fails when the last file is moved, and at every operation after that."""
    last = max(step for step, operation in enumerate(change.steps) if operation == "replace")
    failing = range(last, last + 1000)
    monkeypatch.setattr(FailingDisk, "fails", lambda _disk, index: index in failing)
    _, ran = change.build(failing=last)
    assert ran is not None
    assert ran.err.startswith(f'error: cannot write "{LOCK_FILE}"'), ran.err
    assert "everything is as it was before" not in ran.err
    changed = [path for path, data in change.old.items() if data != change.new.get(path) and path != LOCK_FILE]
    outputs = _outputs(change.project)
    assert changed
    for path in changed:
        assert (f'"{path}"' in ran.err) == (outputs.get(path) != change.old[path]), path
    assert 'could not be restored: run "cacheunit build" again' in ran.err
    assert "nothing was written" not in ran.err
    assert outputs[LOCK_FILE] == change.old[LOCK_FILE]
    assert change.partly_written(_without_temporary(outputs)) == []


def test_a_fault_after_the_lock_is_in_place_does_not_report_that_nothing_was_locked(change: RepeatableBuild) -> None:
    last = max(step for step, operation in enumerate(change.steps) if operation == "replace")
    _, ran = change.build(failing=last + 1)
    assert ran is not None
    assert _outputs(change.project)[LOCK_FILE] == change.new[LOCK_FILE]
    assert "nothing was locked" not in ran.err


@pytest.mark.parametrize("path", ["build", "build/a", "build/a/deepseek-v4.txt/x", "cacheunit.lock/x"])
def test_a_file_or_folder_in_the_way_is_one_clear_error_and_nothing_is_written(
    copy_project: Callable[[str], Project], path: str
) -> None:
    project = copy_project("shared-partial")
    project.write({path: "in the way"})
    before = project.files()
    ran = project.run("build")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith('error: cannot write "'), ran.err
    assert ran.err.count("error:") == 1
    assert project.files() == before
    assert project.run("check").code in (1, 2)


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("build", "build: a link to a folder is not followed"),
        ("build/a", "build/a: a link to a folder is not followed"),
        ("build/a/deepseek-v4.txt", "build/a/deepseek-v4.txt: a link to a folder is not followed"),
        ("build/other", "build/other: a link to a folder is not followed"),
    ],
)
def test_a_build_does_not_write_through_a_link_out_of_the_project(
    copy_project: Callable[[str], Project], tmp_path: Path, path: str, error: str
) -> None:
    project = copy_project("shared-partial")
    outside = tmp_path / "outside"
    outside.mkdir()
    link = project.path(path)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside)
    ran = project.run("build")
    assert (ran.code, error in ran.err) == (2, True)
    assert list(outside.iterdir()) == []
    assert not project.path(LOCK_FILE).exists()


def test_without_a_usable_cache_a_build_notes_it_once_and_changes_nothing_else(
    copy_project: Callable[[str], Project], user_cache: Path
) -> None:
    project = copy_project("shared-partial")
    user_cache.write_text("a file where the folder should be")
    ran = project.run("build")
    assert (ran.code, ran.err) == (0, f'note: nothing is cached: "{user_cache}" is a link or a file\n')
    assert project.check()["ok"]


# Concurrent processes and closed outputs


@pytest.mark.slow
def test_concurrent_builds_of_different_prefixes_are_all_in_the_lock(project: Project) -> None:
    names = [f"p{number}" for number in range(8)]
    for name in names:
        project.write({f"prefixes/{name}.yaml": "system: all.md.j2\n"})
    project.write({"templates/all.md.j2": "You sort tickets.\n"})
    running = [
        subprocess.Popen([*PROGRAM, "-q", "build", name], cwd=project.root, stdout=subprocess.DEVNULL) for name in names
    ]
    assert [process.wait(timeout=60) for process in running] == [0] * len(names)
    assert sorted(entries(project)) == names
    assert project.drift() == []
    assert not [path for path in _outputs(project) if path.endswith(TEMPORARY)]


def run_without_reader(project: Project, *command: str) -> tuple[int, bytes]:
    """Runs a command with a closed standard output; returns its exit code and standard error."""
    process = subprocess.Popen([*PROGRAM, *command], cwd=project.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr as stream:
        errors = stream.read()
    return process.wait(timeout=60), errors


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")
def test_an_output_that_cannot_be_written_is_an_error(shop: Project) -> None:
    for _ in range(2):  # the second build has nothing to do
        with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
            ran = subprocess.run([*PROGRAM, "build"], cwd=shop.root, stdout=full, stderr=subprocess.PIPE, check=False)
        assert (ran.returncode, ran.stderr.startswith(b"error: cannot write to standard output: ")) == (2, True)


@pytest.mark.parametrize("command", ["check", "build --locked"])
def test_a_target_may_be_named_by_a_model_everywhere(shop: Project, command: str) -> None:
    shop.write({"build/a/deepseek-v4.txt": "edited"})
    by_name, by_model = (
        shop.run(*command.split(), "--target", name, "--format", "json") for name in ("deepseek-v4", "deepseek-v4-pro")
    )
    assert (by_name.code, by_model.code, by_name.json["drift"]) == (1, 1, by_model.json["drift"])


@pytest.mark.slow
def test_a_closed_standard_output_is_not_a_bug(shop: Project) -> None:
    shop.edit(STYLE, "five", "six")
    code, errors = run_without_reader(shop, "build")
    assert (code in (0, 1), errors) == (True, b"")
    assert shop.check()["ok"]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["build", "show a"])
def test_a_closed_standard_output_does_not_change_the_exit_code(shop: Project, command: str) -> None:
    assert run_without_reader(shop, *command.split()) == (0, b"")


def test_a_file_is_not_called_restored_if_another_build_swept_its_former_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Builds of two users do not exclude one another, and each removes temporary files."""
    (tmp_path / "build").mkdir()
    for name in ("changed", "removed"):
        (tmp_path / "build" / name).write_bytes(b"old")
    synced: list[object] = []

    def sync(files: object, _: object) -> None:
        synced.append(files)
        if len(synced) == 2:  # what was moved into place, before the lock is
            atomic_commit.remove_leftovers(tmp_path, "build")
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_commit, "sync_files", sync)
    with pytest.raises(CacheunitError) as caught:
        atomic_commit.commit(tmp_path, {"build/changed": b"new"}, ["build/removed"], b"{}")
    hint = caught.value.faults[0].hint or ""
    assert ('"build/changed"' in hint, '"build/removed"' in hint, "as it was" in hint) == (True, True, False)


def test_no_folder_stays_of_what_several_workers_staged_and_is_discarded(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    staged = [files.stage({f"build/deep/{name}.txt": b"text\n"}) for name in ("a", "b")]
    files.discard(staged)
    assert list(tmp_path.iterdir()) == []
    inner_first = [files.stage({"build/deep/a.txt": b"text\n"}), files.stage({"build/b.txt": b"text\n"})]
    files.discard(reversed(inner_first))
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_could_not_be_read_again_is_not_written(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    before = shop.snapshot()
    monkeypatch.setattr(build_module, "MOST_BYTES", 2_000)
    shop.edit(STYLE, "five", "six")
    ran = shop.run("build")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: cacheunit.lock: the lock would have "), ran.err
    assert "hint: split the project" in ran.err
    shop.edit(STYLE, "six", "five")
    assert {path: entry[2] for path, entry in shop.snapshot().items()} == {path: e[2] for path, e in before.items()}


def test_folders_of_others_in_the_build_folder_stay(shop: Project) -> None:
    for folder in ("build/site/.git/refs/heads", "build/site/cache/empty", "build/own"):
        shop.path(folder).mkdir(parents=True)
    shop.edit(STYLE, "five", "six")
    shop.build()
    shop.edit(STYLE, "six", "{{ broken")
    assert shop.run("build").code == 2
    assert all(
        shop.path(folder).is_dir() for folder in ("build/site/.git/refs/heads", "build/site/cache/empty", "build/own")
    )
