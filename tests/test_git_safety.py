"""Git reads the repository around the project, whatever its variables say, and runs no program that it names."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from cacheunit_build import load
from cacheunit_build.adapters.git.command import git_environment
from cacheunit_build.adapters.git.history import GitHistory
from cacheunit_build.domain.errors import CacheunitError

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Project

SOURCES = {
    "cacheunit.toml": 'targets = ["anthropic-1024"]\n',
    "prefixes/a.yaml": "system: a.md.j2\n",
    "templates/a.md.j2": "You are a.\n",
}
ARTIFACT = "build/a/anthropic-1024.txt"


def git(folder: Path, *arguments: str) -> bytes:
    """Runs git without the variables that a test sets."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    settings = ("-c", "user.name=A", "-c", "user.email=a@b.c")
    command = ["git", *settings, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, env=environment).stdout


@pytest.fixture
def shop(project: Project) -> Project:
    """Returns a project that is built and committed."""
    project.write({**SOURCES, ".gitignore": ".cacheunit/\n"})
    project.build()
    git(project.root, "init", "-q", "-b", "main")
    git(project.root, "add", "-A")
    git(project.root, "commit", "-qm", "first")
    return project


# Variables of git, as hooks set them

VARIABLES = {
    "GIT_DIR": ".git", "GIT_WORK_TREE": ".", "GIT_INDEX_FILE": "none", "GIT_COMMON_DIR": "none",
    "GIT_OBJECT_DIRECTORY": "none", "GIT_ALTERNATE_OBJECT_DIRECTORIES": "none", "GIT_NAMESPACE": "x",
    "GIT_PREFIX": "sub/", "GIT_SHALLOW_FILE": "none", "GIT_EXTERNAL_DIFF": "false", "GIT_ATTR_SOURCE": "HEAD",
    "GIT_LITERAL_PATHSPECS": "1", "GIT_CONFIG": "none", "GIT_CONFIG_PARAMETERS": "'core.worktree=/none'",
    "GIT_REPLACE_REF_BASE": "refs/x", "GIT_DEFAULT_HASH": "sha256", "GIT_TRACE": "1", "GIT_REF_PARANOIA": "1",
}  # fmt: skip


@pytest.mark.parametrize("work_tree", ["main", "linked"])
@pytest.mark.parametrize("variables", ["each", "all", "another repository"])
def test_the_repository_is_found_from_the_folder_of_the_project(
    shop: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work_tree: str, variables: str
) -> None:
    if work_tree == "linked":
        git(shop.root, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "topic")
        shop = type(shop)(root=tmp_path / "linked", cacheunit=shop.cacheunit)
    shop.edit("templates/a.md.j2", "You are a", "You were a")
    (tmp_path / "other").mkdir()
    git(tmp_path / "other", "init", "-q")
    sets = {
        "each": [{name: value} for name, value in VARIABLES.items()],
        "all": [VARIABLES, {"GIT_CEILING_DIRECTORIES": str(shop.root)}],
        "another repository": [{"GIT_DIR": str(tmp_path / "other/.git"), "GIT_WORK_TREE": str(tmp_path / "other")}],
    }
    for changes in sets[variables]:
        with monkeypatch.context() as patch:
            for name, value in changes.items():
                patch.setenv(name, value)
            committed = GitHistory(shop.root, "cacheunit.lock").committed_with_lock("templates/a.md.j2")
            assert committed is not None, changes
            assert committed.data == b"You are a.\n"
            if variables != "each":
                ran = shop.run("diff", "--format", "json", "--against", "main")
                assert [item["kind"] for item in ran.json["changes"]] == ["changed"], ran.err
                assert shop.check()["drift"][0]["because"] == ["templates/a.md.j2"]


def test_settings_in_variables_do_not_choose_the_repository_but_trust_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"core.worktree": "/none", "safe.directory": "/shop", "Safe.Directory": "*", "core.fsmonitor": "x"}
    monkeypatch.setenv("GIT_CONFIG_COUNT", str(len(settings)))
    for index, (name, value) in enumerate(settings.items()):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{index}", name)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{index}", value)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/home/config")
    environment = git_environment()
    kept = {name: value for name, value in environment.items() if name.startswith("GIT_CONFIG")}
    assert kept == {
        "GIT_CONFIG_COUNT": "2", "GIT_CONFIG_GLOBAL": "/home/config",
        "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "/shop",
        "GIT_CONFIG_KEY_1": "safe.directory", "GIT_CONFIG_VALUE_1": "*",
    }  # fmt: skip
    for count in ("x", "-1", "", "99999999999999999999"):
        monkeypatch.setenv("GIT_CONFIG_COUNT", count)
        assert "GIT_CONFIG_COUNT" not in git_environment()


# Repositories of strangers


def test_no_program_that_a_repository_names_is_run(shop: Project, tmp_path: Path) -> None:
    shop.write({".gitattributes": "* filter=evil diff=evil merge=evil\n", "templates/a.md.j2": "You were a.\n"})
    git(shop.root, "add", "-A")
    git(shop.root, "commit", "-qm", "second")
    trace = tmp_path / "trace"
    script = tmp_path / "evil"
    script.write_text(f'#!/bin/sh\necho "$0 $@" >> {shlex.quote(str(trace))}\ncat\n', encoding="utf-8")
    script.chmod(0o755)
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for hook in ("post-index-change", "reference-transaction", "post-checkout", "fsmonitor-watchman"):
        shutil.copy(script, hooks / hook)
    evil = str(script)
    names = (
        "core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.gitProxy", "core.askPass",
        "diff.external", "diff.evil.command", "diff.evil.textconv", "filter.evil.clean", "filter.evil.smudge",
        "filter.evil.process", "merge.evil.driver", "gpg.program", "credential.helper", "pager.log", "pager.diff",
        "interactive.diffFilter", "remote.origin.uploadpack", "core.alternateRefsCommand", "trailer.x.command",
    )  # fmt: skip
    for name in names:
        git(shop.root, "config", name, evil)
    git(shop.root, "config", "core.hooksPath", str(hooks))
    git(shop.root, "config", "log.showSignature", "true")
    git(shop.root, "config", "remote.origin.url", f"ext::{evil}")
    git(shop.root, "config", "remote.origin.promisor", "true")
    git(shop.root, "config", "protocol.ext.allow", "always")
    for alias in ("diff", "log", "rev-parse", "cat-file", "ls-tree"):
        git(shop.root, "config", f"alias.{alias}", f"!{evil}")
    blob = git(shop.root, "rev-parse", "HEAD:templates/a.md.j2").decode().strip()
    os.utime(shop.path("cacheunit.lock"), (1, 1))
    trace.unlink(missing_ok=True)
    shop.edit("templates/a.md.j2", "You were a", "You will be a")
    (shop.root / ".git/objects" / blob[:2] / blob[2:]).unlink()  # as in a clone that fetches contents when needed
    commands = (
        "diff --against HEAD",
        "diff",
        "check",
        "explain a",
        "check --format github",
        "git setup",
        "build",
        "init",
    )
    for command in (*map(str.split, commands), ["lint", "--format", "sarif"]):
        ran = shop.run(*command)
        assert "Traceback" not in ran.err, ran.err
    assert not trace.exists(), trace.read_text(encoding="utf-8")
    assert "this clone does not contain the files" in shop.run("diff", "--against", "HEAD").err


def test_a_folder_of_the_checkout_that_looks_like_a_repository_is_not_taken_for_one(shop: Project) -> None:
    git(shop.root, "clone", "-q", "--bare", ".", "inner")
    inner = type(shop)(root=shop.root / "inner", cacheunit=shop.cacheunit)
    inner.write(SOURCES)
    assert inner.run("diff").code == 2
    assert inner.run("build").code == 0


@pytest.mark.parametrize(
    "name", ["-x", "--all", "--output=x", "--help", "-", "--", "HEAD:templates", "main..main", "^main", ":/x", "@{-1}"]
)
def test_a_revision_that_looks_like_an_option_is_only_a_name(shop: Project, name: str) -> None:
    before = shop.files()
    ran = shop.run("diff", f"--against={name}")
    assert (ran.code, ran.output) == (2, b""), ran.err
    assert shop.files() == before


def test_a_repository_of_another_user_is_reported_with_gits_own_reason(
    shop: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper = tmp_path / "bin/git"
    wrapper.parent.mkdir()
    real = shutil.which("git")
    wrapper.write_text(f'#!/bin/sh\nGIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec {real} "$@"\n', encoding="utf-8")
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("LC_ALL", "sv_SE.UTF-8")
    for command in (("diff",), ("diff", "--against", "HEAD"), ("git", "setup")):
        ran = shop.run(*command)
        assert ran.code == 2
        assert "git does not read" in ran.err
        assert "detected dubious ownership" in ran.err
        assert 'hint: if you trust it, run "git config --global --add safe.directory' in ran.err
    assert shop.run("check").code == shop.run("build").code == 0


def test_without_git_a_diff_says_so(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/none")
    ran = shop.run("diff")
    assert (ran.code, "cannot run git" in ran.err, "install git" in ran.err) == (2, True, True)
    assert shop.run("check").code == shop.run("build").code == 0


# Ignored artifacts


@pytest.mark.parametrize(
    ("ignored", "path"),
    [
        ("build/", ARTIFACT),
        ("*.txt", ARTIFACT),
        ("/build/*", ARTIFACT),
        ("*.lock", "cacheunit.lock"),
        ("build", ARTIFACT),
    ],
)
def test_init_build_and_check_tell_that_git_ignores_what_they_write(project: Project, ignored: str, path: str) -> None:
    git(project.root, "init", "-q")
    project.write({"cacheunit.toml": SOURCES["cacheunit.toml"], ".gitignore": f"# mine\n{ignored}\n.cacheunit/\n"})
    note = f"({'.gitignore'}:2: {ignored}), so a clone would not have it"
    assert note in project.run("init").err
    project.write(SOURCES)
    built = project.run("build", "a")
    assert f"note: git ignores {path} {note}" in built.err
    assert note in project.run("build").err
    assert note not in project.run("build").err, "nothing was written"
    assert "git ignores" not in project.run("check").err
    shutil.rmtree(project.path("build"))
    assert note in project.run("check").err
    assert project.run("-q", "check").err == ""
    git(project.root, "add", "-f", "cacheunit.lock")
    project.build() if "lock" in ignored else git(project.root, "status")


def test_nothing_is_told_where_nothing_is_ignored(project: Project) -> None:
    git(project.root, "init", "-q")
    project.write({**SOURCES, ".gitignore": "build/\n!build/\n!/build/**\ndist/\n"})
    assert project.run("build").err == ""
    shutil.rmtree(project.path(".git"))
    project.write({"templates/a.md.j2": "Changed.\n", ".gitignore": "build/\n"})
    assert project.run("build").err == "", "there is no repository"


# Line ends that git converted


def convert(project: Project, *paths: str) -> None:
    for path in paths:
        project.write({path: project.read(path).replace(b"\n", b"\r\n")})


def test_line_ends_that_git_converted_are_named_as_the_cause(shop: Project) -> None:
    convert(shop, *shop.files())
    ran = shop.run("check")
    assert (ran.code, "only line ends: CRLF" in ran.out) == (1, True)
    assert "hint: git converted the files at checkout" in ran.err
    assert [item.get("line_ends") for item in shop.check()["drift"]] == [True]
    assert "only line ends" in shop.run("check", "--format", "markdown").out
    assert "git converted" in shop.run("check", "--format", "github").out
    locked = shop.run("build", "--locked")
    assert (locked.code, "hint: git converted" in locked.err) == (1, True)
    with pytest.raises(CacheunitError, match="line ends were converted to CRLF"):
        load("a", root=str(shop.root))


def test_an_edited_artifact_with_crlf_is_not_excused(shop: Project) -> None:
    convert(shop, ARTIFACT)
    shop.edit(ARTIFACT, "You are", "You were")
    ran = shop.run("check")
    assert (ran.code, "line ends" in ran.out, "git converted" in ran.err) == (1, False, False)
    assert "line_ends" not in shop.check()["drift"][0]
