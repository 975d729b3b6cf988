"""Locks merge: by plain git where they can, by entry with the driver, and never into something that nobody notices."""

from __future__ import annotations

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
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.lock import Lock, LockEntry, TargetIdentity
from cacheunit_build.lockfile.format import LockUnknownError, parse_lock, write_lock
from cacheunit_build.lockfile.merge import merge_locks

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Cacheunit, Ran

    InputChange = Callable[[Project], None]

LOCK_FILE = "cacheunit.lock"
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

    def commit(self, branch: str, change: InputChange) -> None:
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


def edited(path: str, old: str, new: str) -> InputChange:
    return lambda project: project.edit(path, old, new)


def first(name: str) -> InputChange:
    return edited(f"templates/{name}.md.j2", "First", "At first")


def last(name: str) -> InputChange:
    return edited(f"templates/{name}.md.j2", "Last", "At last")


def style(old: str, new: str) -> InputChange:
    return edited("templates/style.md.j2", old, new)


def added(name: str, text: str = "New.", targets: str = "deepseek-v4") -> InputChange:
    manifest = f"system: {name}.md.j2\ntargets: [{targets}]\n"
    return lambda project: project.write({f"prefixes/{name}.yaml": manifest, f"templates/{name}.md.j2": f"{text}\n"})


def removed(name: str) -> InputChange:
    def change(project: Project) -> None:
        project.path(f"prefixes/{name}.yaml").unlink()
        project.path(f"templates/{name}.md.j2").unlink()

    return change


def renamed(old: str, new: str) -> InputChange:
    def change(project: Project) -> None:
        project.path(f"prefixes/{old}.yaml").rename(project.path(f"prefixes/{new}.yaml"))

    return change


def manifest(name: str, line: str) -> InputChange:
    return lambda project: project.write({f"prefixes/{name}.yaml": f"system: {name}.md.j2\n{line}\n"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two changes of one base: whether the lock conflicts without and with the driver, what `check` says if not.

    `based`: the markers show the base, in the styles that do; `orphans`: artifacts that `build` then leaves alone.
    """

    ours: InputChange
    theirs: InputChange
    plain: bool = False
    driver: bool = False
    drift: tuple[tuple[str, str], ...] = ()
    based: bool = True
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
        based=False,
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
def test_a_pair_of_branches(repository: Repository, pair: Pair) -> None:
    """Merged without and with the driver, in each style of markers: as told; and `build` makes the lock anew."""
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
                conflict and style != "merge" and (pair.based or not driver),
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


def test_the_artifacts_of_a_prefix_that_is_gone_are_left_where_its_conflict_was(repository: Repository) -> None:
    """What `build` says of them is what is to be done."""
    project = repository.project
    repository.commit("ours", removed("a"))
    repository.commit("theirs", first("a"))
    repository.done("checkout", "-q", "ours")
    repository.merge()
    assert "warning: build/a/deepseek-v4.txt is not in the lock; it is left alone" in project.run("build").err
    repository.done("rm", "-rfq", "build/a", "templates/a.md.j2")
    assert project.drift() == []


def test_what_both_sides_add_under_one_name_is_settled_in_its_sources_first(repository: Repository) -> None:
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


def entry(tokens: int, digit: str = "1", *, estimate: bool = False) -> LockEntry:
    sha = "sha256:" + digit * 64
    return LockEntry(
        tokens=tokens,
        counted="estimate" if estimate else "exact",
        padding=3,
        unit=0 if estimate else 128,
        text=sha,
        request=sha,
        token_ids=None if estimate else sha,
    )


def lock(*, profile: str = "0", **tokens: int) -> bytes:
    """The text of a lock of prefixes for one target, by how many tokens each has."""
    identity = TargetIdentity(profile="sha256:" + profile * 64, tokenizer="sha256:" + "0" * 64)
    entries = {(name, "t"): entry(count, str(count % 10)) for name, count in tokens.items()}
    return write_lock(Lock(targets={"t": identity}, entries=entries))


def driven(project: Project, base: bytes, ours: bytes, theirs: bytes) -> Ran:
    project.write({"base": base, "ours": ours, "theirs": theirs})
    return project.run("git", "merge", "base", "ours", "theirs", "sub/cacheunit.lock")


def test_the_driver_merges_what_lines_cannot(project: Project) -> None:
    ran = driven(project, lock(b=1), lock(a=1, b=1), lock(aa=2, b=3))
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert project.read("ours") == lock(a=1, aa=2, b=3)


def test_the_driver_marks_what_clashes_and_says_one_line_an_entry(project: Project) -> None:
    ran = driven(project, lock(a=1, b=1, c=1, d=1, e=1), lock(a=2, b=5, d=1, e=6), lock(a=3, b=1, c=3, d=4))
    assert ran.code == 1
    assert ran.err.splitlines() == [
        "error: sub/cacheunit.lock: a for t: both sides changed it, not alike",
        "",
        "error: sub/cacheunit.lock: c for t: ours removed it, theirs changed it",
        "",
        "error: sub/cacheunit.lock: e for t: ours changed it, theirs removed it",
        "",
        'hint: merge the sources, then "cacheunit build" makes the lock anew from them',
    ]
    text = project.read("ours").decode()
    marked = re.findall(r"^<<<<<<< ours\n(.*?)^=======\n(.*?)^>>>>>>> theirs\n", text, re.MULTILINE | re.DOTALL)
    tokens = [tuple(re.findall(r'"tokens": (\d)', side) for side in sides) for sides in marked]
    assert tokens == [(["2"], ["3"]), ([], ["3"]), (["6"], [])]
    # What does not clash stands there once, as merged, outside of the markers.
    assert (text.count('"tokens": 5'), text.count('"tokens": 4')) == (1, 1)


def test_a_clash_that_lines_would_merge_is_marked(project: Project) -> None:
    base = lock(a=1)
    ours, theirs = base.replace(b'"tokens": 1', b'"tokens": 2'), base.replace(b'"unit": 128', b'"unit": 64')
    assert driven(project, base, ours, theirs).code == 1
    assert project.read("ours").count(b"\n=======\n") == 2


def test_a_clash_that_lines_merge_into_no_lock_is_marked_and_without_the_driver_refused(project: Project) -> None:
    texts = lock(b=1, d=1), lock(c=2, d=1), lock(b=1, c=3, d=1)
    text, conflict = merge_texts(project.root, *texts)
    assert not conflict
    with pytest.raises(LockUnknownError, match='duplicate key "c"'):
        parse_lock(text, LOCK_FILE)
    ran = driven(project, *texts)
    assert (ran.code, ran.err.count("error: ")) == (1, 1)
    assert b"\n<<<<<<< ours\n" in project.read("ours")


def test_an_entry_made_for_rules_that_the_other_side_changed_clashes(project: Project) -> None:
    ran = driven(project, lock(a=1), lock(a=2, profile="9"), lock(a=1, b=1))
    assert ran.code == 1
    assert 'b for t: made for rules or a vocabulary of "t" that the other side replaced' in ran.err
    assert b"\n<<<<<<< ours\n" in project.read("ours")


def test_rules_that_both_sides_changed_clash(project: Project) -> None:
    ran = driven(project, lock(a=1), lock(a=1, profile="8"), lock(a=1, profile="9"))
    assert ran.code == 1
    assert ran.err.startswith("error: sub/cacheunit.lock: t: both sides changed it, not alike\n")


def test_rules_that_nothing_is_left_for_do_not_clash(project: Project) -> None:
    ran = driven(project, lock(a=1, b=1), lock(a=1, profile="8"), lock(b=1, profile="9"))
    assert (ran.code, ran.err) == (0, "")
    assert project.read("ours") == lock()


def test_a_lock_that_both_sides_began_is_merged(project: Project) -> None:
    """Git gives an empty base."""
    assert driven(project, b"", lock(a=1), lock(b=2)).code == 0
    assert project.read("ours") == lock(a=1, b=2)


@pytest.mark.parametrize("side", ["base", "ours", "theirs"])
def test_a_side_that_is_no_lock_is_merged_as_plain_git_would(project: Project, side: str) -> None:
    texts = {"base": lock(a=1, c=1), "ours": lock(a=2, c=1), "theirs": lock(a=3, c=1)}
    texts[side] = texts[side].replace(b'"unit": 128', b'"unit": 1 2 8', 1)
    ran = driven(project, **texts)
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
    texts[side] = texts[side].replace(b'"version": 1', b'"version": 2') if side != "theirs" else b'{"version": 2}'
    ran = driven(project, **texts)
    assert ran.code == 2
    assert f"sub/cacheunit.lock ({side})" in ran.err
    assert "the lock has version 2; this cacheunit reads version 1" in ran.err
    assert project.read("ours") == texts["ours"]


def test_a_file_that_is_not_there_is_a_fault(project: Project) -> None:
    ran = project.run("git", "merge", "base", "ours", "theirs")
    assert (ran.code, ran.err.count("error: cannot read ")) == (2, 1)


# The textconv


def test_a_lock_is_shown_as_one_line_a_target_and_an_entry(project: Project) -> None:
    identity = TargetIdentity(profile="sha256:" + "8" * 64, tokenizer="sha256:" + "9" * 64)
    entries = {
        ("a@x=1", "t"): entry(1300, "1"),
        ("b", "t"): entry(1280, "2"),
        ("b", "u"): entry(1100, "3", estimate=True),
    }
    project.write({"l": write_lock(Lock(targets={"t": identity, "u": identity}, entries=entries))})
    ran = project.run("git", "textconv", "l")
    assert (ran.code, ran.err) == (0, "")
    ones, twos, threes = ("1" * 12, "2" * 12, "3" * 12)
    assert ran.out.splitlines() == [
        "target t  profile 888888888888  tokenizer 999999999999",
        "target u  profile 888888888888  tokenizer 999999999999",
        f"a@x=1  t  1,300 tokens  units 10 + 20 of 128  padding 3  exact  text {ones}  request {ones}  ids {ones}",
        f"b  t  1,280 tokens  units 10 of 128  padding 3  exact  text {twos}  request {twos}  ids {twos}",
        f"b  u  about 1,100 tokens  units -  padding 3  estimate  text {threes}  request {threes}",
    ]


@pytest.mark.parametrize("data", [b"", b"{\r\n", b"\xff\0", b'{"version": 2}', b"<<<<<<< ours\n"])
def test_what_is_no_lock_is_shown_as_it_is(project: Project, data: bytes) -> None:
    project.write({"l": data})
    ran = project.run("git", "textconv", "l")
    assert (ran.code, ran.output, ran.err) == (0, data, "")


# Setting both up


SETTINGS = ["merge.cacheunit.name", "merge.cacheunit.driver", "diff.cacheunit.textconv"]
ATTRIBUTES = "cacheunit.lock merge=cacheunit diff=cacheunit\n"


def test_one_command_sets_both_up_beside_what_is_there_and_says_so_and_again_keeps_it(bare: Repository) -> None:
    assert bare.project.run("init").code == 0
    before = bare.project.read(".gitattributes").decode()
    ran = bare.project.run("git", "setup")
    assert (ran.code, ran.out.splitlines()) == (0, [*(f"set  {name}" for name in SETTINGS), "added to  .gitattributes"])
    assert bare.project.read(".gitattributes").decode() == before + ATTRIBUTES
    again = bare.project.run("git", "setup")
    assert (again.code, again.err) == (0, "")
    assert again.out.splitlines() == [*(f"kept  {name}" for name in SETTINGS), "kept  .gitattributes"]
    assert bare.project.read(".gitattributes").decode() == before + ATTRIBUTES


def test_a_line_without_its_end_stays_a_line(bare: Repository) -> None:
    bare.project.write({".gitattributes": "*.png binary"})
    bare.project.run("git", "setup")
    assert bare.project.read(".gitattributes").decode() == "*.png binary\n" + ATTRIBUTES


def test_removing_takes_back_exactly_what_was_set_up(bare: Repository) -> None:
    bare.project.write({".gitattributes": "*.png binary\n"})
    before = bare.done("config", "--local", "--list")
    bare.project.run("git", "setup")
    ran = bare.project.run("git", "setup", "--remove")
    assert (ran.code, ran.err) == (0, "")
    assert bare.done("config", "--local", "--list") == before
    assert bare.project.read(".gitattributes") == b"*.png binary\n"
    assert bare.project.run("git", "setup", "--remove").out.splitlines() == [f"absent  {name}" for name in SETTINGS]


def test_attributes_that_overrule_are_told_and_nothing_is_left(bare: Repository) -> None:
    bare.project.write({".git/info/attributes": "*.lock -merge\n"})
    ran = bare.project.run("git", "setup")
    assert ran.code == 2
    assert "other attributes of git overrule those of the lock" in ran.err
    assert not bare.project.path(".gitattributes").exists()
    assert "cacheunit" not in bare.done("config", "--local", "--list")


@pytest.mark.parametrize("remove", [[], ["--remove"]])
def test_outside_of_git_is_a_fault(project: Project, monkeypatch: pytest.MonkeyPatch, remove: list[str]) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.root.parent))
    ran = project.run("git", "setup", *remove)
    assert (ran.code, ran.out) == (2, "")
    assert "is in no work tree of git: not a git repository" in ran.err
    assert list(project.root.iterdir()) == []


def test_without_git_is_a_fault(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(project.root))
    ran = project.run("git", "setup")
    assert (ran.code, ran.out) == (2, "")
    assert "git does not start" in ran.err


def test_a_project_in_a_subfolder_with_spaces_of_a_linked_work_tree_is_merged_and_shown(
    bare: Repository, cacheunit: Cacheunit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git runs driver and textconv by itself, by an interpreter anywhere, that imports nothing of the repository."""
    python = tmp_path / "it's 100%O" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    bare.project.write({"json.py": "raise SystemExit(9)\n"})
    sub = "my bots/it's 100 %O"
    inner = Project(root=bare.top / sub, cacheunit=cacheunit)
    inner.write(FILES)
    inner.built()
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
def gone(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Set up by an interpreter that is not there any more."""
    monkeypatch.setattr("sys.executable", "/nowhere/it's/python")
    assert repository.project.run("git", "setup").code == 0
    repository.done("add", "-A")
    repository.done("commit", "-q", "-m", "attributes")
    return repository


def test_where_the_interpreter_is_gone_git_merges_and_shows_as_without_it(gone: Repository) -> None:
    gone.commit("ours", first("c"))
    gone.commit("theirs", last("c"))
    gone.done("checkout", "-q", "ours")
    assert '"text": "sha256:' in gone.done("diff", "main", "theirs", "--", LOCK_FILE)
    gone.merge()
    assert LOCK_FILE in gone.conflicts()
    assert b"\n<<<<<<< ours\n" in gone.project.read(LOCK_FILE)
    assert gone.project.run("build").code == 0


# The merge itself

_NAMES = [(name, target) for name in "abcd" for target in "tu"]
_ENTRIES = [entry(number, str(number)) for number in range(3)]
_IDENTITIES = [TargetIdentity(profile=f"sha256:{digit * 64}", tokenizer=f"sha256:{'0' * 64}") for digit in "01"]
identities = st.sampled_from(_IDENTITIES)
wholes = st.dictionaries(st.sampled_from(_NAMES), st.sampled_from(_ENTRIES))
edits = st.dictionaries(st.sampled_from(_NAMES), st.none() | st.sampled_from(_ENTRIES), max_size=3)


@st.composite
def trios(draw: st.DrawFn) -> tuple[Lock, Lock, Lock]:
    """A base, and what two sides made of it: canonical, with the targets that are used."""
    base = draw(wholes)
    targets = {name: draw(identities) for name in "tu"}
    made = [_lock(base, targets)]
    for _ in range(2):
        changed = base | {key: value for key, value in draw(edits).items() if value is not None}
        for key in draw(st.lists(st.sampled_from(_NAMES), max_size=2)):
            changed.pop(key, None)
        made.append(_lock(changed, {name: draw(identities | st.just(targets[name])) for name in "tu"}))
    return made[0], made[1], made[2]


def _lock(entries: dict[tuple[str, str], LockEntry], targets: dict[str, TargetIdentity]) -> Lock:
    return Lock(
        entries=entries, targets={name: targets[name] for name in targets if any(name == t for _, t in entries)}
    )


@given(trios())
def test_with_an_unchanged_side_it_is_the_other(trio: tuple[Lock, Lock, Lock]) -> None:
    base, ours, _ = trio
    for merged in (merge_locks(base, ours, base), merge_locks(base, base, ours), merge_locks(base, ours, ours)):
        assert merged.clashes == ()
        assert write_lock(merged.lock) == write_lock(ours)


@given(trios())
def test_the_order_of_the_sides_matters_only_to_what_clashes(trio: tuple[Lock, Lock, Lock]) -> None:
    base, ours, theirs = trio
    one, other = merge_locks(base, ours, theirs), merge_locks(base, theirs, ours)
    assert {(clash.prefix, clash.target) for clash in one.clashes} == {(c.prefix, c.target) for c in other.clashes}
    if not one.clashes:
        assert write_lock(one.lock) == write_lock(other.lock)


@given(trios())
def test_each_entry_is_of_a_side_made_for_the_target_as_merged_and_the_text_is_canonical(
    trio: tuple[Lock, Lock, Lock],
) -> None:
    base, ours, theirs = trio
    merged = merge_locks(base, ours, theirs)
    clashing = {(clash.prefix, clash.target) for clash in merged.clashes}
    for key, value in merged.lock.entries.items():
        made = [side.targets[key[1]] for side in (ours, theirs) if side.entries.get(key) == value]
        assert made
        assert key in clashing or merged.lock.targets[key[1]] in made
    text = write_lock(merged.lock)
    assert write_lock(parse_lock(text, LOCK_FILE)) == text


@given(trios())
def test_what_clashes_shows_in_the_texts_that_are_marked(trio: tuple[Lock, Lock, Lock]) -> None:
    base, ours, theirs = trio
    merged = merge_locks(base, ours, theirs)
    texts = [write_lock(merged.decided_by(side)) for side in (ours, theirs)]
    assert (texts[0] == texts[1]) == (not merged.clashes)
    write_lock(merged.decided_by(base))


@settings(max_examples=40)
@given(trios())
def test_what_lines_give_is_marked_or_refused_or_in_the_one_form(trio: tuple[Lock, Lock, Lock]) -> None:
    """Plain git may put lines together that no build wrote: such a lock must not be read."""
    base, ours, theirs = (write_lock(lock) for lock in trio)
    text, _ = merge_texts(Path(tempfile.gettempdir()), base, ours, theirs)
    try:
        read = parse_lock(text, LOCK_FILE)
    except CacheunitError:
        return
    assert write_lock(read) == text
