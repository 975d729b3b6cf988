"""Locks merge: by plain git where they can, by entry with the driver, and never into something that nobody notices."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Project

LOCK = "cacheunit.lock"
STYLES = ["merge", "diff3", "zdiff3"]
LINES = "\n".join(f"Rule {number}: stay on it." for number in range(6))
FILES = {
    "cacheunit.toml": '[target.small]\nextends = "deepseek-v4"\ncache.unit = 16\n',
    ".gitattributes": "build/** -text -merge\ncacheunit.lock -text\n",
    ".gitignore": ".cacheunit/\n",
    "templates/style.md.j2": f"Be brief.\n{LINES}\nBe kind.\n",
    **{f"prefixes/{name}.yaml": f"system: {name}.md.j2\n" for name in "abde"},
    "prefixes/c.yaml": "system: c.md.j2\ntargets: [deepseek-v4, small]\n",
    **{f"templates/{name}.md.j2": f"First of {name}.\n{LINES}\nLast of {name}.\n" for name in "ace"},
    **{f"templates/{name}.md.j2": f"First of {name}.\n{{% include 'style.md.j2' %}}\n" for name in "bd"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A project in the work tree of a git repository, free of this machine's settings."""

    project: Project
    top: Path

    def git(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *arguments], cwd=self.top, capture_output=True, text=True, check=False)

    def done(self, *arguments: str) -> str:
        done = self.git(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def commit(self, branch: str, change: Callable[[Project], None]) -> None:
        """A branch from `main` with a change of the sources, built."""
        self.done("checkout", "-q", "-B", branch, "main")
        change(self.project)
        self.project.built()
        self.done("add", "-A")
        self.done("commit", "-q", "-m", branch)

    def merge(self) -> subprocess.CompletedProcess[str]:
        return self.git("merge", "--no-edit", "theirs")

    def conflicts(self) -> set[str]:
        return set(self.done("diff", "--name-only", "--diff-filter=U").split())


@pytest.fixture
def bare(project: Project, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """An empty project in a new repository."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.root.parent))
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "ada@example.org")
    repository = Repository(project=project, top=project.root)
    repository.done("-c", "init.defaultBranch=main", "init", "-q")
    return repository


@pytest.fixture
def repository(bare: Repository) -> Repository:
    """Five prefixes, built and committed."""
    bare.project.write(FILES)
    bare.project.built()
    bare.done("add", "-A")
    bare.done("commit", "-q", "-m", "base")
    return bare


# Ten pairs of branches, and more


def first(name: str) -> Callable[[Project], None]:
    return lambda project: project.edit(f"templates/{name}.md.j2", "First", "At first")


def last(name: str) -> Callable[[Project], None]:
    return lambda project: project.edit(f"templates/{name}.md.j2", "Last", "At last")


def style(old: str, new: str) -> Callable[[Project], None]:
    return lambda project: project.edit("templates/style.md.j2", old, new)


def added(name: str, text: str = "New.", targets: str = "deepseek-v4") -> Callable[[Project], None]:
    manifest = f"system: {name}.md.j2\ntargets: [{targets}]\n"
    return lambda project: project.write({f"prefixes/{name}.yaml": manifest, f"templates/{name}.md.j2": f"{text}\n"})


def removed(name: str) -> Callable[[Project], None]:
    return lambda project: [
        project.path(path).unlink() for path in (f"prefixes/{name}.yaml", f"templates/{name}.md.j2")
    ]


def renamed(old: str, new: str) -> Callable[[Project], None]:
    return lambda project: project.path(f"prefixes/{old}.yaml").rename(project.path(f"prefixes/{new}.yaml"))


def manifest(name: str, line: str) -> Callable[[Project], None]:
    return lambda project: project.write({f"prefixes/{name}.yaml": f"system: {name}.md.j2\n{line}\n"})


def rules(project: Project) -> None:
    project.edit("cacheunit.toml", "cache.unit = 16", "cache.unit = 32")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two changes of one base: whether the lock conflicts without and with the driver, what `check` says if not."""

    ours: Callable[[Project], None]
    theirs: Callable[[Project], None]
    plain: bool = False
    driver: bool = False
    drift: tuple[tuple[str, str], ...] = ()
    orphans: int = 0


PAIRS = {
    "first and last": Pair(ours=first("a"), theirs=first("e")),
    "neighbours": Pair(ours=first("a"), theirs=first("b")),
    "neighbour of two targets": Pair(ours=last("c"), theirs=first("d")),
    "same prefix": Pair(ours=first("c"), theirs=last("c"), plain=True, driver=True),
    "same partial": Pair(ours=style("brief", "short"), theirs=style("kind", "fair"), plain=True, driver=True),
    "add in two places": Pair(ours=added("aa"), theirs=added("da")),
    "add in one place": Pair(ours=added("ca"), theirs=added("cb"), plain=True),
    "add before the first and after the last": Pair(ours=added("0"), theirs=added("z")),
    "remove one, edit its neighbour": Pair(ours=removed("b"), theirs=first("c")),
    "remove the last, edit its neighbour": Pair(ours=removed("e"), theirs=first("d")),
    "remove the last, add after it": Pair(ours=removed("e"), theirs=added("z"), plain=True),
    "remove neighbours": Pair(ours=removed("a"), theirs=removed("c")),
    "rename one, edit it": Pair(ours=renamed("a", "z"), theirs=first("a"), plain=True, driver=True),
    "remove one, edit it": Pair(ours=removed("a"), theirs=first("a"), plain=True, driver=True, orphans=2),
    "target of one, edit its neighbour": Pair(ours=manifest("b", "targets: [small]"), theirs=first("a")),
    "rules of a target, add for it": Pair(
        ours=rules, theirs=added("z", targets="small"), driver=True, drift=(("profile", "c"), ("profile", "z"))
    ),
    "both add the same": Pair(ours=added("n"), theirs=added("n")),
    "padding of one, edit it": Pair(ours=manifest("e", "padding: 'off'"), theirs=first("e"), plain=True, driver=True),
    "edit a partial, add one that uses it": Pair(
        ours=style("brief", "short"),
        theirs=added("f", "{% include 'style.md.j2' %}"),
        drift=(("changed", "f"),),
    ),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_a_pair_of_branches(repository: Repository, pair: Pair) -> None:
    """Merged without and with the driver, in each style of markers: as told; and `build` makes the lock right."""
    project = repository.project
    repository.commit("ours", pair.ours)
    repository.commit("theirs", pair.theirs)
    repository.done("checkout", "-q", "ours")
    for driver in (False, True):
        if driver:
            assert project.run("git", "setup").code == 0
            repository.done("commit", "-qam", "attributes")
        start = repository.done("rev-parse", "HEAD").strip()
        for style in STYLES:
            repository.done("config", "merge.conflictStyle", style)
            merged = repository.merge()
            conflict = pair.driver if driver else pair.plain
            assert (LOCK in repository.conflicts()) == conflict, merged.stdout + merged.stderr
            text = project.read(LOCK)
            assert (b"\n<<<<<<< " in text, b"\n||||||| " in text) == (conflict, conflict and style != "merge")
            if conflict:
                check = project.run("check")
                assert (check.code, check.out) == (2, "")
                assert "the lock has merge-conflict markers" in check.err
            else:
                assert project.drift() == sorted(pair.drift)
            assert project.run("build").code == 0
            assert [kind for kind, _ in project.drift()] == ["orphan"] * (pair.orphans if conflict else 0)
            repository.done("reset", "-q", "--hard", start)
            repository.done("clean", "-qfd")
