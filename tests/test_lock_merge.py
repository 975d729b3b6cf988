"""Locks merge by line in plain git where possible, by entry with the driver, and never silently into a wrong lock."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conftest import Project
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheunit_build.adapters.git.merge_driver import merge_texts
from cacheunit_build.domain.cache_rule import CacheRule
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.lock import Lock, LockEntry, TargetIdentity
from cacheunit_build.lockfile.format import LockUnknownError, lock_bytes, parse_lock
from cacheunit_build.lockfile.merge import merge_locks

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Cacheunit, CommandResult

    SourceChange = Callable[[Project], None]

LOCK_FILE = "cacheunit.lock"
STYLES = ["merge", "diff3", "zdiff3"]
LINES = "\n".join(f"Rule {number}: stay on it." for number in range(6))
FILES = {
    "cacheunit.toml": '[target.small]\nextends = "deepseek-v4"\ncache.unit = 16\n',
    ".gitattributes": "build/** -text -merge\ncacheunit.lock -text\n",
    "templates/style.md.j2": f"Be brief.\n{LINES}\nBe kind.\n",
    **{f"prefixes/{name}.yaml": f"system: {name}.md.j2\n" for name in "abde"},
    "prefixes/c.yaml": "system: c.md.j2\ntargets: [deepseek-v4, small]\n",
    **{f"templates/{name}.md.j2": f"First of {name}.\n{LINES}\nLast of {name}.\n" for name in "ace"},
    **{f"templates/{name}.md.j2": f"First of {name}.\n{{% include 'style.md.j2' %}}\n" for name in "bd"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A project in the work tree of a git repository, without the git settings of this machine."""

    project: Project
    top: Path

    def git(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *arguments], cwd=self.top, capture_output=True, text=True, check=False)

    def done(self, *arguments: str) -> str:
        done = self.git(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def commit(self, branch: str, change: SourceChange) -> None:
        """Creates a branch from `main` with a change of the sources, built and committed."""
        self.done("checkout", "-q", "-B", branch, "main")
        change(self.project)
        self.project.build()
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
    bare.project.build()
    bare.done("add", "-A")
    bare.done("commit", "-q", "-m", "base")
    return bare


# Pairs of branches


def edited(path: str, old: str, new: str) -> SourceChange:
    return lambda project: project.edit(path, old, new)


def first(name: str) -> SourceChange:
    return edited(f"templates/{name}.md.j2", "First", "At first")


def last(name: str) -> SourceChange:
    return edited(f"templates/{name}.md.j2", "Last", "At last")


def style(old: str, new: str) -> SourceChange:
    return edited("templates/style.md.j2", old, new)


def added(name: str, text: str = "New.", targets: str = "deepseek-v4") -> SourceChange:
    manifest = f"system: {name}.md.j2\ntargets: [{targets}]\n"
    return lambda project: project.write({f"prefixes/{name}.yaml": manifest, f"templates/{name}.md.j2": f"{text}\n"})


def removed(name: str) -> SourceChange:
    def change(project: Project) -> None:
        project.path(f"prefixes/{name}.yaml").unlink()
        project.path(f"templates/{name}.md.j2").unlink()

    return change


def renamed(old: str, new: str) -> SourceChange:
    def change(project: Project) -> None:
        project.path(f"prefixes/{old}.yaml").rename(project.path(f"prefixes/{new}.yaml"))

    return change


def manifest(name: str, line: str) -> SourceChange:
    return lambda project: project.write({f"prefixes/{name}.yaml": f"system: {name}.md.j2\n{line}\n"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two changes of one base, and what becomes of the lock when they are merged.

    Attributes:
        plain: whether it conflicts in plain git.
        driver: whether it conflicts with the driver.
        drift: what `check` reports if it does not conflict.
        shows_base: whether markers show the base, in the styles that do.
        orphans: the artifacts that `build` leaves alone after a conflict.
    """

    ours: SourceChange
    theirs: SourceChange
    plain: bool = False
    driver: bool = False
    drift: tuple[tuple[str, str], ...] = ()
    shows_base: bool = True
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
    "remove two, one between": Pair(ours=removed("a"), theirs=removed("c")),
    "remove two neighbours": Pair(ours=removed("b"), theirs=removed("c"), plain=True),
    "remove one, add beside it": Pair(ours=removed("c"), theirs=added("ca"), plain=True),
    "rename one, edit it": Pair(ours=renamed("a", "z"), theirs=first("a"), plain=True, driver=True),
    "remove one, edit it": Pair(ours=removed("a"), theirs=first("a"), plain=True, driver=True, orphans=2),
    "target of one, edit its neighbour": Pair(ours=manifest("b", "targets: [small]"), theirs=first("a")),
    "rules of a target, add for it": Pair(
        ours=edited("cacheunit.toml", "cache.unit = 16", "cache.unit = 32"),
        theirs=added("z", targets="small"),
        driver=True,
        drift=(("changed", "z"),),
        shows_base=False,
    ),
    "both add the same": Pair(ours=added("n"), theirs=added("n")),
    "padding of one, edit it": Pair(ours=manifest("e", "padding: 'off'"), theirs=first("e"), plain=True, driver=True),
    "edit a partial, add one that uses it": Pair(
        ours=style("brief", "short"),
        theirs=added("f", "{% include 'style.md.j2' %}"),
        drift=(("changed", "f"),),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_merging_a_pair_of_branches_conflicts_as_documented_and_build_rewrites_the_lock(
    repository: Repository, pair: Pair
) -> None:
    """Without and with the driver, in each style of conflict markers."""
    project = repository.project
    repository.commit("ours", pair.ours)
    repository.commit("theirs", pair.theirs)
    repository.done("checkout", "-q", "ours")
    for driver in (False, True):
        if driver:
            assert project.run("git", "setup").code == 0
            repository.done("commit", "-qam", "attributes")
        start = repository.done("rev-parse", "HEAD").strip()
        conflict = pair.driver if driver else pair.plain
        for style in STYLES if conflict else STYLES[:1]:
            repository.done("config", "merge.conflictStyle", style)
            merged = repository.merge()
            assert (LOCK_FILE in repository.conflicts()) == conflict, merged.stdout + merged.stderr
            text = project.read(LOCK_FILE)
            assert (b"\n<<<<<<< " in text, b"\n||||||| " in text) == (
                conflict,
                conflict and style != "merge" and (pair.shows_base or not driver),
            )
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


def test_the_artifacts_of_a_prefix_that_one_side_removed_are_kept_and_named(repository: Repository) -> None:
    """Removing what `build` names completes the merge."""
    project = repository.project
    repository.commit("ours", removed("a"))
    repository.commit("theirs", first("a"))
    repository.done("checkout", "-q", "ours")
    repository.merge()
    assert "warning: build/a/deepseek-v4.txt is not in the lock; it was not touched" in project.run("build").err
    repository.done("rm", "-rfq", "build/a", "templates/a.md.j2")
    assert project.drift() == []


def test_a_prefix_that_both_sides_add_is_resolved_in_its_sources_first(repository: Repository) -> None:
    project = repository.project
    repository.commit("ours", added("n", "One."))
    repository.commit("theirs", added("n", "Two."))
    repository.done("checkout", "-q", "ours")
    assert project.run("git", "setup").code == 0
    repository.merge()
    assert repository.conflicts() >= {LOCK_FILE, "templates/n.md.j2"}
    repository.done("checkout", "--theirs", "templates/n.md.j2")
    assert project.run("build").code == 0
    assert project.read("build/n/deepseek-v4.txt").startswith(b"Two.")
    assert project.drift() == []


# The driver


def identity_of(*, frame: str, tokenizer: str = "0") -> TargetIdentity:
    """Returns the identity of a target with units of 128 tokens, by the digit of two fingerprints."""
    rule = CacheRule(kind="blocks", unit=128)
    return TargetIdentity(
        format="openai-chat", cache=rule, frame=f"sha256:{frame * 64}", tokenizer=f"sha256:{tokenizer * 64}"
    )


def entry(tokens: int, digit: str = "1", *, estimate: bool = False) -> LockEntry:
    sha = "sha256:" + digit * 64
    return LockEntry(
        tokens=tokens,
        counted="estimate" if estimate else "exact",
        margin=0.35 if estimate else 0.0,
        padding=min(3, tokens),
        text=sha,
        request=sha,
        token_ids=None if estimate else sha,
    )


def lock(*, profile: str = "0", **tokens: int) -> bytes:
    """The text of a lock of prefixes for one target, by how many tokens each has."""
    identity = identity_of(frame=profile)
    entries = {(name, "t"): entry(count, str(count % 10)) for name, count in tokens.items()}
    return lock_bytes(Lock(targets={"t": identity}, entries=entries))


def merge_by_driver(project: Project, base: bytes, ours: bytes, theirs: bytes) -> CommandResult:
    project.write({"base": base, "ours": ours, "theirs": theirs})
    return project.run("git", "merge", "base", "ours", "theirs", "sub/cacheunit.lock")


def test_the_driver_merges_entries_that_conflict_by_line(project: Project) -> None:
    ran = merge_by_driver(project, lock(b=1), lock(a=1, b=1), lock(aa=2, b=3))
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert project.read("ours") == lock(a=1, aa=2, b=3)


def test_the_driver_marks_conflicts_and_reports_one_line_per_entry(project: Project) -> None:
    ran = merge_by_driver(project, lock(a=1, b=1, c=1, d=1, e=1), lock(a=2, b=5, d=1, e=6), lock(a=3, b=1, c=3, d=4))
    assert ran.code == 1
    assert ran.err.splitlines() == [
        "error: sub/cacheunit.lock: a for t: both sides changed it differently",
        "",
        "error: sub/cacheunit.lock: c for t: ours removed it, theirs changed it",
        "",
        "error: sub/cacheunit.lock: e for t: ours changed it, theirs removed it",
        "",
        'hint: merge the sources, then run "cacheunit build" to rewrite the lock',
    ]
    text = project.read("ours").decode()
    conflicts = re.findall(r"^<<<<<<< ours\n(.*?)^=======\n(.*?)^>>>>>>> theirs\n", text, re.MULTILINE | re.DOTALL)
    tokens = [tuple(re.findall(r'"tokens": (\d)', side) for side in sides) for sides in conflicts]
    assert tokens == [(["2"], ["3"]), ([], ["3"]), (["6"], [])]
    # What does not conflict is there once, merged, outside of the markers.
    assert (text.count('"tokens": 5'), text.count('"tokens": 4')) == (1, 1)


def test_a_conflict_that_would_merge_by_line_is_marked(project: Project) -> None:
    base = lock(a=1)
    ours, theirs = (
        base.replace(b'"tokens": 1', b'"tokens": 2'),
        base.replace(b'"token_ids": "sha256:1', b'"token_ids": "sha256:2'),
    )
    assert merge_by_driver(project, base, ours, theirs).code == 1
    assert project.read("ours").count(b"\n=======\n") == 2


def test_a_conflict_that_merges_by_line_to_an_invalid_lock_is_marked_by_the_driver(
    project: Project,
) -> None:
    texts = lock(b=1, d=1), lock(c=2, d=1), lock(b=1, c=3, d=1)
    merged = merge_texts(project.root, *texts)
    assert not merged.conflict
    with pytest.raises(LockUnknownError, match='duplicate key "c"'):
        parse_lock(merged.data, LOCK_FILE)
    ran = merge_by_driver(project, *texts)
    assert (ran.code, ran.err.count("error: ")) == (1, 1)
    assert b"\n<<<<<<< ours\n" in project.read("ours")


def test_an_entry_made_with_rules_that_the_other_side_changed_is_a_conflict(project: Project) -> None:
    ran = merge_by_driver(project, lock(a=1), lock(a=2, profile="9"), lock(a=1, b=1))
    assert ran.code == 1
    assert 'b for t: made with rules or a vocabulary of "t" that the other side changed' in ran.err
    assert b"\n<<<<<<< ours\n" in project.read("ours")


def test_rules_that_both_sides_changed_are_a_conflict(project: Project) -> None:
    ran = merge_by_driver(project, lock(a=1), lock(a=1, profile="8"), lock(a=1, profile="9"))
    assert ran.code == 1
    assert ran.err.startswith("error: sub/cacheunit.lock: t: both sides changed it differently\n")


def test_changed_rules_that_no_entry_is_left_for_are_not_a_conflict(project: Project) -> None:
    ran = merge_by_driver(project, lock(a=1, b=1), lock(a=1, profile="8"), lock(b=1, profile="9"))
    assert (ran.code, ran.err) == (0, "")
    assert project.read("ours") == lock()


def test_a_lock_that_both_sides_added_is_merged(project: Project) -> None:
    """Git passes an empty base."""
    assert merge_by_driver(project, b"", lock(a=1), lock(b=2)).code == 0
    assert project.read("ours") == lock(a=1, b=2)


@pytest.mark.parametrize("side", ["base", "ours", "theirs"])
def test_an_invalid_lock_is_merged_by_line_as_in_plain_git(project: Project, side: str) -> None:
    texts = {"base": lock(a=1, c=1), "ours": lock(a=2, c=1), "theirs": lock(a=3, c=1)}
    texts[side] = texts[side].replace(b'"counted": "exact"', b'"counted": "exact" 3', 1)
    ran = merge_by_driver(project, **texts)
    assert ran.code == 1
    assert ran.err.startswith(f"error: sub/cacheunit.lock ({side}):18: the lock is broken")
    project.write({"mine": texts["ours"]})
    labels = [word for name in ("ours", "base", "theirs") for word in ("-L", name)]
    plain = ["git", "merge-file", "-p", *labels, "mine", "base", "theirs"]
    done = subprocess.run(plain, cwd=project.root, capture_output=True, check=False)
    assert project.read("ours") == done.stdout
    assert b"<<<<<<< ours" in done.stdout


@pytest.mark.parametrize("side", ["base", "ours", "theirs"])
def test_a_newer_lock_is_refused_and_nothing_is_written(project: Project, side: str) -> None:
    texts = {"base": lock(a=1), "ours": lock(a=2), "theirs": b"no lock"}
    texts[side] = texts[side].replace(b'"version": 2', b'"version": 3') if side != "theirs" else b'{"version": 3}'
    ran = merge_by_driver(project, **texts)
    assert ran.code == 2
    assert f"sub/cacheunit.lock ({side})" in ran.err
    assert "the lock has version 3; this cacheunit reads versions up to 2" in ran.err
    assert project.read("ours") == texts["ours"]


@pytest.mark.parametrize("side", ["base", "ours", "theirs"])
def test_a_lock_of_version_1_is_merged_by_line_and_must_be_built_again(project: Project, side: str) -> None:
    texts = {"base": lock(a=1), "ours": lock(a=1, b=1), "theirs": lock(a=1, c=1)}
    texts[side] = b'{"version": 1, "targets": {}, "prefixes": {}}\n'
    ran = merge_by_driver(project, **texts)
    assert ran.code == 1
    assert "an earlier cacheunit wrote one of the locks, so they were merged by line" in ran.err
    assert 'run "cacheunit build"' in ran.err


def test_a_missing_file_is_an_error(project: Project) -> None:
    ran = project.run("git", "merge", "base", "ours", "theirs")
    assert (ran.code, ran.err.count("error: cannot read ")) == (2, 1)


def test_a_result_that_cannot_be_written_is_one_clear_error(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_file: Path, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    project.write({"base": lock(b=1), "ours": lock(a=1, b=1), "theirs": lock(b=3)})
    monkeypatch.setattr(Path, "write_bytes", full)
    ran = project.run("git", "merge", "base", "ours", "theirs")
    assert (ran.code, ran.err.count("error:")) == (2, 1)
    assert ran.err.startswith('error: cannot write "')
    assert "No space left on device" in ran.err


# Showing a lock


def test_a_lock_is_shown_as_one_line_per_target_and_entry(project: Project) -> None:
    identity = identity_of(frame="8", tokenizer="9")
    entries = {
        ("a@x=1", "t"): entry(1300, "1"),
        ("b", "t"): entry(1280, "2"),
        ("b", "u"): entry(1100, "3", estimate=True),
    }
    project.write({"l": lock_bytes(Lock(targets={"t": identity, "u": identity}, entries=entries))})
    ran = project.run("git", "textconv", "l")
    assert (ran.code, ran.err) == (0, "")
    ones, twos, threes = ("1" * 12, "2" * 12, "3" * 12)
    fingerprints = f"  text {ones}  request {ones}  ids {ones}"
    assert ran.out.splitlines() == [
        "target t  openai-chat  kind blocks unit 128  frame 888888888888  tokenizer 999999999999",
        "target u  openai-chat  kind blocks unit 128  frame 888888888888  tokenizer 999999999999",
        f"a@x=1  t  1,300 tokens  10 units of 128 + 20 tokens  padding 3  exact{fingerprints}",
        f"b  t  1,280 tokens  10 units of 128  padding 3  exact  text {twos}  request {twos}  ids {twos}",
        f"b  u  ~1,100 tokens  padding 3  estimate ±35 %  text {threes}  request {threes}",
    ]


@pytest.mark.parametrize("data", [b"", b"{\r\n", b"\xff\0", b'{"version": 2}', b"<<<<<<< ours\n"])
def test_a_file_that_is_not_a_lock_is_shown_unchanged(project: Project, data: bytes) -> None:
    project.write({"l": data})
    ran = project.run("git", "textconv", "l")
    assert (ran.code, ran.output, ran.err) == (0, data, "")


# Setup


SETTINGS = ["merge.cacheunit.name", "merge.cacheunit.driver", "diff.cacheunit.textconv"]
ATTRIBUTES = "cacheunit.lock merge=cacheunit diff=cacheunit\n"


def test_setup_adds_settings_and_attributes_once_and_reports_each(bare: Repository) -> None:
    assert bare.project.run("init").code == 0
    before = bare.project.read(".gitattributes").decode()
    ran = bare.project.run("git", "setup")
    assert (ran.code, ran.out.splitlines()) == (0, [*(f"set  {name}" for name in SETTINGS), "updated  .gitattributes"])
    assert bare.project.read(".gitattributes").decode() == before + ATTRIBUTES
    again = bare.project.run("git", "setup")
    assert (again.code, again.err) == (0, "")
    assert again.out.splitlines() == [*(f"unchanged  {name}" for name in SETTINGS), "unchanged  .gitattributes"]
    assert bare.project.read(".gitattributes").decode() == before + ATTRIBUTES


def test_a_last_line_without_a_newline_is_kept(bare: Repository) -> None:
    bare.project.write({".gitattributes": "*.png binary"})
    bare.project.run("git", "setup")
    assert bare.project.read(".gitattributes").decode() == "*.png binary\n" + ATTRIBUTES


def test_setup_can_be_removed_exactly(bare: Repository) -> None:
    bare.project.write({".gitattributes": "*.png binary\n"})
    before = bare.done("config", "--local", "--list")
    bare.project.run("git", "setup")
    ran = bare.project.run("git", "setup", "--remove")
    assert (ran.code, ran.err) == (0, "")
    assert bare.done("config", "--local", "--list") == before
    assert bare.project.read(".gitattributes") == b"*.png binary\n"
    assert bare.project.run("git", "setup", "--remove").out.splitlines() == [f"not set  {name}" for name in SETTINGS]


def test_attributes_that_override_are_reported_and_nothing_is_changed(bare: Repository) -> None:
    bare.project.write({".git/info/attributes": "*.lock -merge\n"})
    ran = bare.project.run("git", "setup")
    assert ran.code == 2
    assert 'other git attributes override those of "cacheunit.lock"' in ran.err
    assert not bare.project.path(".gitattributes").exists()
    assert "cacheunit" not in bare.done("config", "--local", "--list")


@pytest.mark.parametrize("remove", [[], ["--remove"]])
def test_setup_outside_of_git_is_an_error(project: Project, monkeypatch: pytest.MonkeyPatch, remove: list[str]) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.root.parent))
    ran = project.run("git", "setup", *remove)
    assert (ran.code, ran.out) == (2, "")
    assert "is not in a git work tree: not a git repository" in ran.err
    assert list(project.root.iterdir()) == []


def test_setup_without_git_is_an_error(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(project.root))
    ran = project.run("git", "setup")
    assert (ran.code, ran.out) == (2, "")
    assert "cannot run git" in ran.err


@pytest.mark.slow
def test_a_project_in_a_subfolder_with_spaces_of_a_linked_work_tree_is_merged_and_shown(
    bare: Repository, cacheunit: Cacheunit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git runs both commands by itself, with an interpreter anywhere, which imports nothing from the repository."""
    python = tmp_path / "it's 100%O" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    bare.project.write({"json.py": "raise SystemExit(9)\n"})
    sub = "my bots/it's 100 %O"
    inner = Project(root=bare.top / sub, cacheunit=cacheunit)
    inner.write(FILES)
    inner.build()
    bare.done("add", "-A")
    bare.done("commit", "-q", "-m", "base")
    bare.done("worktree", "add", "-q", "linked tree", "-b", "linked")
    linked = Repository(
        project=Project(root=bare.top / "linked tree" / sub, cacheunit=cacheunit), top=bare.top / "linked tree"
    )
    assert linked.project.run("git", "setup").code == 0
    assert not (linked.top / ".gitattributes").exists()
    linked.done("commit", "-qam", "attributes")
    bare.done("merge", "-q", "linked")
    linked.commit("ours", added("ca"))
    linked.commit("theirs", added("cb"))
    shown = linked.done("diff", "main", "theirs", "--", f"{sub}/{LOCK_FILE}")
    assert [line[1:8] for line in shown.splitlines() if line[0] == "+" and line[1] != "+"] == ["cb  dee"]
    linked.done("checkout", "-q", "ours")
    assert linked.merge().returncode == 0
    assert linked.project.drift() == []


@pytest.fixture
def without_interpreter(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository that was set up by an interpreter which no longer exists."""
    monkeypatch.setattr("sys.executable", "/nowhere/it's/python")
    assert repository.project.run("git", "setup").code == 0
    repository.done("add", "-A")
    repository.done("commit", "-q", "-m", "attributes")
    return repository


def test_without_the_interpreter_git_merges_by_line_and_shows_the_file(without_interpreter: Repository) -> None:
    without_interpreter.commit("ours", first("c"))
    without_interpreter.commit("theirs", last("c"))
    without_interpreter.done("checkout", "-q", "ours")
    assert '"text": "sha256:' in without_interpreter.done("diff", "main", "theirs", "--", LOCK_FILE)
    without_interpreter.merge()
    assert LOCK_FILE in without_interpreter.conflicts()
    assert b"\n<<<<<<< ours\n" in without_interpreter.project.read(LOCK_FILE)
    assert without_interpreter.project.run("build").code == 0


# Properties of a merge

_NAMES = [(name, target) for name in "abcd" for target in "tu"]
_ENTRIES = [entry(number, str(number)) for number in range(3)]
_IDENTITIES = [identity_of(frame=digit) for digit in "01"]
identities = st.sampled_from(_IDENTITIES)
entry_maps = st.dictionaries(st.sampled_from(_NAMES), st.sampled_from(_ENTRIES))
edits = st.dictionaries(st.sampled_from(_NAMES), st.none() | st.sampled_from(_ENTRIES), max_size=3)


@st.composite
def trios(draw: st.DrawFn) -> tuple[Lock, Lock, Lock]:
    """Draws a base and two changes of it, in canonical form: with the targets that are used."""
    base = draw(entry_maps)
    targets = {name: draw(identities) for name in "tu"}
    locks = [_lock(base, targets)]
    for _ in range(2):
        changed = base | {key: value for key, value in draw(edits).items() if value is not None}
        for key in draw(st.lists(st.sampled_from(_NAMES), max_size=2)):
            changed.pop(key, None)
        locks.append(_lock(changed, {name: draw(identities | st.just(targets[name])) for name in "tu"}))
    return locks[0], locks[1], locks[2]


def _lock(entries: dict[tuple[str, str], LockEntry], targets: dict[str, TargetIdentity]) -> Lock:
    return Lock(
        entries=entries, targets={name: targets[name] for name in targets if any(name == t for _, t in entries)}
    )


@given(trios())
def test_merging_with_an_unchanged_side_returns_the_other(trio: tuple[Lock, Lock, Lock]) -> None:
    base, ours, _ = trio
    for merged in (merge_locks(base, ours, base), merge_locks(base, base, ours), merge_locks(base, ours, ours)):
        assert merged.conflicts == ()
        assert lock_bytes(merged.lock) == lock_bytes(ours)


@given(trios())
def test_the_order_of_the_sides_matters_only_for_conflicts(trio: tuple[Lock, Lock, Lock]) -> None:
    base, ours, theirs = trio
    one, other = merge_locks(base, ours, theirs), merge_locks(base, theirs, ours)
    assert {(conflict.prefix, conflict.target) for conflict in one.conflicts} == {
        (c.prefix, c.target) for c in other.conflicts
    }
    if not one.conflicts:
        assert lock_bytes(one.lock) == lock_bytes(other.lock)


@pytest.mark.slow
@given(trios())
def test_each_entry_is_one_of_a_side_made_with_the_merged_target_and_the_text_is_canonical(
    trio: tuple[Lock, Lock, Lock],
) -> None:
    base, ours, theirs = trio
    merged = merge_locks(base, ours, theirs)
    conflicts = {(conflict.prefix, conflict.target) for conflict in merged.conflicts}
    for key, value in merged.lock.entries.items():
        made = [side.targets[key[1]] for side in (ours, theirs) if side.entries.get(key) == value]
        assert made
        assert key in conflicts or merged.lock.targets[key[1]] in made
    text = lock_bytes(merged.lock)
    assert lock_bytes(parse_lock(text, LOCK_FILE)) == text


@given(trios())
def test_the_texts_that_are_marked_differ_where_there_is_a_conflict(trio: tuple[Lock, Lock, Lock]) -> None:
    base, ours, theirs = trio
    merged = merge_locks(base, ours, theirs)
    texts = [lock_bytes(merged.resolved_with(side)) for side in (ours, theirs)]
    assert (texts[0] == texts[1]) == (not merged.conflicts)
    lock_bytes(merged.resolved_with(base))


@settings(max_examples=40)
@given(trios())
def test_a_merge_by_line_is_marked_or_refused_or_in_canonical_form(trio: tuple[Lock, Lock, Lock]) -> None:
    """Plain git may combine lines to a lock that no build wrote: it must not be read."""
    base, ours, theirs = (lock_bytes(lock) for lock in trio)
    text = merge_texts(Path(tempfile.gettempdir()), base, ours, theirs).data
    try:
        read = parse_lock(text, LOCK_FILE)
    except CacheunitError:
        return
    assert lock_bytes(read) == text
