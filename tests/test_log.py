"""The history of the lock: what `log` reads from git, how artifacts are followed, and the text and JSON reports."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from cacheunit_build.cli.main import COMMANDS
from cacheunit_build.domain.cache_rule import CacheRule
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.lock import Lock, LockEntry, TargetIdentity
from cacheunit_build.domain.selection import Selection
from cacheunit_build.domain.version_history import LockCommit
from cacheunit_build.history.log import LogRange, log
from cacheunit_build.lockfile.format import LockReader, lock_bytes, parse_lock
from cacheunit_build.reports.sparkline import means, sampled, sparkline

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from conftest import Cacheunit, CommandResult

    from cacheunit_build.history.results import ArtifactHistory, LogResult

RULES = {
    "blocks": CacheRule(kind="blocks", unit=100, read=0.1, write=1.0),
    "tokens": CacheRule(kind="tokens", read=0.1, write=1.0),
}
FIRST_DAY = 1_767_225_600  # 2026-01-01
DAY = 86_400


def entry(text: str, tokens: int, **changes: Any) -> LockEntry:
    """Returns the entry of an artifact with a text, counted exactly."""
    text_hash, request, ids = (fingerprint(f"{text} {part}".encode()) for part in ("text", "request", "ids"))
    made = LockEntry(tokens=tokens, counted="exact", padding=0, text=text_hash, request=request, token_ids=ids)
    return replace(made, **changes)


def lock(entries: Mapping[str, LockEntry], rules: Mapping[str, CacheRule] = RULES) -> Lock:
    """Returns the lock with these entries, by `prefix` for the target `blocks` or by `prefix:target`."""
    by_key = {(name.partition(":")[0], name.partition(":")[2] or "blocks"): item for name, item in entries.items()}
    targets = {
        name: TargetIdentity(
            format="openai-chat", cache=rules[name], frame=fingerprint(b"f"), tokenizer=fingerprint(b"t")
        )
        for name in {target for _, target in by_key}
    }
    return Lock(targets=targets, entries=by_key)


A, B, C = lock({"a": entry("a1", 250)}), lock({"a": entry("a2", 310)}), lock({"a": entry("a3", 305)})


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeHistory:
    """A history of locks in memory; blobs are the indexes of the contents.

    Attributes:
        contents: the bytes of the lock after each commit, from the oldest; None for a commit that removed it.
        reads: the blobs that were read.
        is_shallow: whether it begins where a clone ends.
    """

    contents: Sequence[bytes | None]
    reads: list[str]
    is_shallow: bool = False

    def commits(self) -> list[LockCommit]:
        """Returns the commits, newest first."""
        found = [
            LockCommit(
                commit=f"{index:040x}",
                date=f"2026-01-{index + 1:02}",
                subject=f"Edit {index}",
                blob=None if data is None else str(self.contents.index(data)),
                is_boundary=self.is_shallow and index == 0,
            )
            for index, data in enumerate(self.contents)
        ]
        return found[::-1]

    def commits_after(self, revision: str) -> frozenset[str]:
        """Returns the commits after the one with this index."""
        return frozenset(f"{index:040x}" for index in range(int(revision) + 1, len(self.contents)))

    def read(self, blob: str) -> bytes | None:
        """Returns the content; None for the one that is empty."""
        self.reads.append(blob)
        return self.contents[int(blob)] or None


def read_history(
    *locks: Lock | bytes | None,
    names: Sequence[str] = (),
    targets: Sequence[str] = (),
    **options: Any,
) -> LogResult:
    """Returns what `log` returns for a history of locks, from the oldest to the newest."""
    contents = [lock_bytes(item) if isinstance(item, Lock) else item for item in locks]
    history = FakeHistory(contents=contents, reads=[], is_shallow=options.pop("is_shallow", False))
    return log(history, Selection(names=tuple(names), targets=tuple(targets)), {}, LogRange(**options))


def points(history: ArtifactHistory) -> list[tuple[int, str, int, int]]:
    """Returns index, kind, tokens and growth of each point of an artifact."""
    return [(point.index, point.kind, point.entry.tokens, point.growth) for point in history.points]


# Following artifacts


def test_an_artifact_has_a_point_for_each_commit_that_changed_it() -> None:
    other = lock({"a": entry("a1", 250), "b": entry("b1", 900)})
    (first, second) = read_history(A, other, lock({**as_names(other), "a": entry("a2", 310)}), C).artifacts
    assert points(first) == [(0, "added", 250, 0), (2, "changed", 310, 60), (3, "changed", 305, -5)]
    assert points(second) == [(1, "added", 900, 0), (3, "removed", 900, 0)]
    assert first.largest_growth == first.points[1]
    assert (first.is_removed, second.is_removed) == (False, True)


def as_names(value: Lock) -> dict[str, LockEntry]:
    """Returns the entries of a lock by `prefix:target`."""
    return {f"{prefix}:{target}": item for (prefix, target), item in value.entries.items()}


def test_the_cached_share_is_that_of_the_rule_in_the_same_lock() -> None:
    finer = {"blocks": replace(RULES["blocks"], unit=50)}
    (history,) = read_history(A, lock({"a": entry("a1", 250)}, finer), B).artifacts
    assert [(point.kind, point.cached, point.cached_share) for point in history.points] == [
        ("added", 200, 0.8),
        ("rule changed", 250, 1.0),
        ("changed", 300, 300 / 310),
    ]


def test_a_renamed_prefix_is_followed_even_if_its_request_has_a_key_made_of_the_name() -> None:
    renamed = lock({"z": replace(entry("a2", 310), request=fingerprint(b"another key"))})
    for names in ([], ["a"], ["z"]):
        (history,) = read_history(A, B, renamed, names=names).artifacts
        assert (history.prefix, sorted(history.names)) == ("z", ["a", "z"])
        assert [point.kind for point in history.points] == ["added", "changed", "renamed"]


def test_a_prefix_that_takes_the_name_of_a_renamed_one_is_another() -> None:
    both = lock({"a": entry("new", 700), "z": entry("a1", 250)})
    histories = read_history(A, both).artifacts
    assert [(item.prefix, points(item)) for item in histories] == [
        ("a", [(0, "added", 250, 0), (1, "changed", 700, 450)]),
        ("z", [(1, "added", 250, 0)]),
    ]
    moved = lock({"z": entry("a1", 250)})
    again = lock({"a": entry("new", 700), "z": entry("a1", 250)})
    histories = read_history(A, moved, again).artifacts
    assert [(item.prefix, points(item)) for item in histories] == [
        ("a", [(2, "added", 700, 0)]),
        ("z", [(0, "added", 250, 0), (1, "renamed", 250, 0)]),
    ]


def test_another_count_of_the_same_text_is_no_growth() -> None:
    recounted = lock({"a": entry("a1", 400, token_ids=fingerprint(b"other vocabulary"))})
    (history,) = read_history(A, recounted).artifacts
    assert points(history) == [(0, "added", 250, 0), (1, "recounted", 400, 150)]
    assert history.largest_growth is None


def test_a_prefix_that_comes_back_is_the_same_one() -> None:
    (history,) = read_history(A, None, B).artifacts
    assert points(history) == [(0, "added", 250, 0), (1, "removed", 250, 0), (2, "added", 310, 0)]
    assert history.tokens_at(4) == [250, None, 310, 310]


# Locks that are not known


def test_locks_in_the_middle_of_a_merge_broken_or_missing_are_reported_with_a_reason() -> None:
    newer = lock_bytes(A).replace(b'"version": 2', b'"version": 3')
    result = read_history(A, b"<<<<<<< HEAD\n", b"{", newer, b"", C)
    assert [item.problem for item in result.commits] == [
        None,
        "the lock has merge-conflict markers (line 1)",
        "the lock is broken: not valid JSON: Expecting property name enclosed in double quotes (line 1)",
        "the lock has version 3; this cacheunit reads versions up to 2 (line 2)",
        "this clone does not contain it",
        None,
    ]
    assert points(result.artifacts[0]) == [(0, "added", 250, 0), (5, "changed", 305, 55)]


def test_what_the_first_known_lock_changed_is_unknown_behind_one_that_is_not_known() -> None:
    (history,) = read_history(b"{", A, B).artifacts
    assert points(history) == [(1, "start", 250, 0), (2, "changed", 310, 60)]


def test_a_lock_of_version_1_has_tokens_but_no_cached_share() -> None:
    old = {
        "version": 1,
        "targets": {"blocks": {"profile": fingerprint(b"p"), "tokenizer": fingerprint(b"t")}},
        "prefixes": {"a": {"blocks": {**entry_json(A), "unit": 100}}},
    }
    (history,) = read_history(json.dumps(old).encode(), A, B).artifacts
    assert [(point.entry.tokens, point.cached) for point in history.points] == [(250, None), (250, 200), (310, 300)]


def entry_json(value: Lock) -> dict[str, Any]:
    """Returns the only entry of a lock as JSON values."""
    loaded: dict[str, Any] = json.loads(lock_bytes(value))["prefixes"]["a"]["blocks"]
    return loaded


def test_equal_locks_are_read_once() -> None:
    contents = [lock_bytes(item) for item in (A, B, A, B)]
    history = FakeHistory(contents=contents, reads=[])
    result = log(history, Selection(), {}, LogRange())
    assert [point[2] for point in points(result.artifacts[0])] == [250, 310, 250, 310]
    assert history.reads == ["0", "1"]


def test_versions_that_are_read_one_after_another_are_what_each_is_by_itself() -> None:
    locks = [
        A,
        lock({"a": entry("a1", 250), "b": entry("b", 1), "b:tokens": entry("b", 1)}),
        lock({"b:tokens": entry("b", 2), "c": entry("c", 3)}),
        lock({"b:tokens": entry("b", 2)}, {"tokens": CacheRule(kind="tokens", minimum=9)}),
        Lock(targets={}, entries={}),
        C,
    ]
    reader = LockReader()
    for item in locks:
        assert reader.read(lock_bytes(item), "x") == parse_lock(lock_bytes(item), "x") == item


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"tokens": 250', '"tokens": -1'),
        ('"a": {', '"../a": {'),
        ('"targets": {', '"other": 1,\n  "targets": {'),
        ('  "prefixes": {', '  "prefixes": 1, "x": {'),
        ('"blocks": {\n      "cache"', '"unused": {\n      "cache"'),
    ],
)
def test_what_is_wrong_in_a_lock_is_found_behind_one_that_is_right(old: str, new: str) -> None:
    data = lock_bytes(A)
    broken = data.decode().replace(old, new).encode()
    assert broken != data
    reader = LockReader()
    reader.read(data, "x")
    with pytest.raises(CacheunitError) as alone:
        parse_lock(broken, "x")
    with pytest.raises(CacheunitError) as later:
        reader.read(broken, "x")
    assert later.value.faults == alone.value.faults
    assert reader.read(lock_bytes(B), "x") == B


# Which commits


@pytest.mark.parametrize("since", ["0", "2026-01-02"])
def test_since_shows_later_changes_and_the_state_before_them(since: str) -> None:
    result = read_history(A, B, C, since=since)
    assert points(result.artifacts[0]) == [(0, "start", 250, 0), (1, "changed", 310, 60), (2, "changed", 305, -5)]
    assert result.has_start


def test_since_before_the_first_commit_shows_all() -> None:
    result = read_history(A, B, since="2025-12-31")
    assert [point[1] for point in points(result.artifacts[0])] == ["added", "changed"]
    assert not result.has_start


def test_limit_counts_commits_that_changed_what_is_selected() -> None:
    def both(a: LockEntry, b: LockEntry) -> Lock:
        return lock({"a": a, "b": b})

    versions = [both(entry(f"a{index}", 100 + index), entry("b", 50)) for index in range(5)]
    versions.append(both(entry("a4", 104), entry("b2", 51)))
    (history,) = read_history(*versions, names=["a"], limit=2).artifacts
    assert points(history) == [(2, "start", 102, 0), (3, "changed", 103, 1), (4, "changed", 104, 1)]
    everything = read_history(*versions, limit=1)
    assert [points(item) for item in everything.artifacts] == [
        [(4, "start", 104, 0)],
        [(4, "start", 50, 0), (5, "changed", 51, 1)],
    ]


def test_a_shallow_clone_does_not_call_its_first_lock_an_addition() -> None:
    result = read_history(A, B, is_shallow=True)
    assert points(result.artifacts[0])[0][1] == "start"
    assert result.is_shallow


@pytest.mark.parametrize(
    ("names", "targets", "message"),
    [
        (["x"], [], 'no prefix "x" in the history of the lock'),
        (["x/*"], [], 'no prefix in the history of the lock matches "x/*"'),
        ([], ["nothing"], 'unknown target "nothing"'),
        (["b"], ["blocks"], 'nothing is compiled for target "blocks"'),
        (["a@x=1"], [], 'there is no variant "a@x=1"'),
    ],
)
def test_a_name_that_selects_nothing_is_a_fault(names: list[str], targets: list[str], message: str) -> None:
    with pytest.raises(CacheunitError) as error:
        read_history(lock({"a": entry("a", 1), "b:tokens": entry("b", 1)}), names=names, targets=targets)
    assert [fault.message for fault in error.value.faults] == [message]


# Git


def git(folder: Path, *arguments: str, data: bytes = b"") -> str:
    """Runs git, and returns its output."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    settings = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always")
    command = ["git", *settings, *arguments]
    result = subprocess.run(command, cwd=folder, check=True, capture_output=True, env=environment, input=data)
    return result.stdout.decode().strip()


def commit_locks(folder: Path, *locks: Lock | bytes, subjects: Sequence[str] = ()) -> None:
    """Creates a repository with a commit a day, each of which changes the lock; from 2026-01-01 on."""
    stream = b""
    for index, item in enumerate(locks):
        data = lock_bytes(item) if isinstance(item, Lock) else item
        subject = (subjects[index] if subjects else f"Edit {index}").encode()
        stream += b"commit refs/heads/main\ncommitter A <a@b.c> %d +0000\n" % (FIRST_DAY + index * DAY)
        stream += b"data %d\n%b\n" % (len(subject), subject)
        stream += b"M 100644 inline cacheunit.lock\ndata %d\n%b\n" % (len(data), data)
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "fast-import", "--quiet", data=stream)
    git(folder, "reset", "-q", "--hard")


def run_log(cacheunit: Cacheunit, folder: Path, *arguments: str) -> CommandResult:
    """Runs `log`, and asserts that it succeeds."""
    ran = cacheunit("-C", folder, "log", *arguments)
    assert ran.code == 0, ran.err
    return ran


def test_the_history_of_one_artifact_is_a_row_a_commit(cacheunit: Cacheunit, tmp_path: Path) -> None:
    padded = lock({"a": replace(entry("a3", 400), padding=7)})
    subjects = ["First", "Add refund policy", "Merge <<main>>", "Pad"]
    commit_locks(tmp_path, A, B, b"<<<<<<< HEAD\n", padded, subjects=subjects)
    first, second, third, fourth = git(tmp_path, "log", "--reverse", "--format=%h", "--abbrev=7").split("\n")
    assert run_log(cacheunit, tmp_path, "a").out == (
        "a for blocks: 250 → 400 tokens (+150)\n"
        "  ▁▄▄█\n"
        "\n"
        f'largest growth: +90 in {fourth} 2026-01-04 "Pad"\n'
        "\n"
        "commit   date        tokens    change  padding  cached  subject\n"
        f"{fourth}  2026-01-04     400       +90        7   100 %  Pad\n"
        f"{third}  2026-01-03          not read                   Merge <<main>>\n"
        "  the lock has merge-conflict markers (line 1)\n"
        f"{second}  2026-01-02     310       +60        0    96 %  Add refund policy\n"
        f"{first}  2026-01-01     250     added        0    80 %  First\n"
        "\n"
        "3 commits changed this artifact from 2026-01-01 to 2026-01-04\n"
    )


def test_several_artifacts_are_a_row_a_prefix_and_target_with_the_largest_growth(
    cacheunit: Cacheunit, tmp_path: Path
) -> None:
    def version(tokens: int, **others: LockEntry) -> Lock:
        variants = {f"a@plan={plan}": entry(f"{plan}{tokens}", tokens + add) for plan, add in (("x", 0), ("y", 20))}
        return lock({**variants, "same": entry("same", 99), **others})

    estimate = entry("e", 640, counted="estimate", margin=0.35, token_ids=None)
    commit_locks(
        tmp_path,
        version(200, gone=entry("gone", 5), **{"e:tokens": estimate}),
        version(900, **{"e:tokens": replace(estimate, tokens=700, text=fingerprint(b"e2"))}),
    )
    second = git(tmp_path, "rev-parse", "--short=7", "HEAD")
    assert run_log(cacheunit, tmp_path).out == (
        "prefix  target             tokens  over time  change  padding    cached\n"
        "a ×2    blocks  200…220 → 900…920         ▁█    +700        0  97…100 %\n"
        f'  +700 in {second} 2026-01-02 "Edit 1"\n'
        "e       tokens        ~640 → ~700         ▁█    ~+60        0    ~100 %\n"
        f'  ~+60 in {second} 2026-01-02 "Edit 1"\n'
        "\n"
        "tokens unchanged: same\n"
        f'removed: gone in {second} 2026-01-02 "Edit 1"\n'
        "\n"
        "2 commits changed these artifacts from 2026-01-01 to 2026-01-02\n"
    )
    verbose = run_log(cacheunit, tmp_path, "-v").out
    commit_locks(
        tmp_path / "other",
        lock({"a@plan=x": entry("x", 5), "a@plan=y": entry("y", 5)}),
        lock({"a@plan=x": entry("x2", 6), "a@plan=y": entry("y2", 14)}),
    )
    assert "\n  +9 of a@plan=y for blocks in " in run_log(cacheunit, tmp_path / "other").out
    assert ["a@plan=x" in verbose, "a@plan=y" in verbose, "tokens unchanged" in verbose] == [True, True, False]


def test_a_prefix_that_was_added_later_is_shown_with_its_commit(cacheunit: Cacheunit, tmp_path: Path) -> None:
    commit_locks(tmp_path, A, lock({"a": entry("a1", 250), "b": entry("b", 9)}))
    second = git(tmp_path, "rev-parse", "--short=7", "HEAD")
    out = run_log(cacheunit, tmp_path).out
    assert f'  added in {second} 2026-01-02 "Edit 1"\n\ntokens unchanged: a\n' in out


@pytest.mark.parametrize("columns", [40, 80, 100])
def test_the_report_fits_the_width(
    cacheunit: Cacheunit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    names = {f"folder{index % 3}/prefix-with-a-long-name-{index}": index for index in range(60)}
    versions = [
        lock({name: entry(f"{name}{tokens}", tokens + add) for name, add in names.items()}) for tokens in (2000, 30_000)
    ]
    commit_locks(tmp_path, *versions, subjects=["x" * 200, "y" * 200])
    monkeypatch.setenv("COLUMNS", str(columns))
    for arguments in ([], [f"{next(iter(names))}"]):
        lines = run_log(cacheunit, tmp_path, *arguments).out.split("\n")
        assert max(map(len, lines)) <= columns
        assert len(lines) <= 40


def test_json_has_every_commit_and_point(cacheunit: Cacheunit, tmp_path: Path) -> None:
    commit_locks(tmp_path, A, b"{", lock({"a": replace(entry("a2", 310), padding=10)}), subjects=["Ä\x1b[2J", "x", "y"])
    ids = git(tmp_path, "log", "--reverse", "--format=%H").split("\n")
    report = run_log(cacheunit, tmp_path, "--format", "json").json
    assert [(item["commit"], item["date"], item["subject"]) for item in report["commits"]] == [
        (ids[0], "2026-01-01", "Ä\x1b[2J"),
        (ids[1], "2026-01-02", "x"),
        (ids[2], "2026-01-03", "y"),
    ]
    assert [item["problem"] is None for item in report["commits"]] == [True, False, True]
    (artifact,) = report["artifacts"]
    assert artifact["tokens"] == {"first": 250, "last": 310}
    assert artifact["points"][1] == artifact["largest_growth"] == {
        "commit": ids[2], "kind": "changed", "prefix": "a", "tokens": 310, "content_tokens": 300, "padding": 10,
        "counted": "exact", "margin": 0.0, "cached": 300, "cached_share": 0.9677, "growth": 60,
    }  # fmt: skip


def test_a_merged_branch_is_the_merge_and_compared_with_the_branch_that_it_was_merged_into(
    cacheunit: Cacheunit, tmp_path: Path
) -> None:
    commit_locks(tmp_path, A)
    git(tmp_path, "checkout", "-qb", "topic")
    for name, item in (("one", B), ("two", C)):
        (tmp_path / "cacheunit.lock").write_bytes(lock_bytes(item))
        git(tmp_path, "commit", "-qam", name)
    git(tmp_path, "checkout", "-q", "main")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "other")
    git(tmp_path, "merge", "-q", "--no-ff", "topic", "-m", "Merge topic")
    report = run_log(cacheunit, tmp_path, "--format", "json").json
    assert [item["subject"] for item in report["commits"]] == ["Edit 0", "Merge topic"]
    assert [point["growth"] for point in report["artifacts"][0]["points"]] == [0, 55]


def test_the_lock_is_followed_where_a_commit_renames_the_folder_of_the_project(
    cacheunit: Cacheunit, tmp_path: Path
) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    folders = ["old name", "line\nend [1]", "new"]
    for index, (folder, item) in enumerate(zip(folders, (A, B, C), strict=True)):
        if index:
            git(tmp_path, "mv", folders[index - 1], folder)
            git(tmp_path, "commit", "-qm", f"rename {index}")
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "cacheunit.lock").write_bytes(lock_bytes(item))
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-qm", f"build {index}")
    report = run_log(cacheunit, tmp_path / "new", "--format", "json").json
    assert [point["tokens"] for point in report["artifacts"][0]["points"]] == [250, 310, 305]
    assert [item["subject"] for item in report["commits"]] == ["build 0", "rename 1", "build 1", "rename 2", "build 2"]


def test_a_shallow_clone_says_where_its_history_ends(cacheunit: Cacheunit, tmp_path: Path) -> None:
    commit_locks(tmp_path / "origin", A, B, C)
    git(tmp_path, "clone", "-q", "--depth=2", f"file://{tmp_path / 'origin'}", "clone")
    second = git(tmp_path / "clone", "rev-parse", "HEAD~1")
    ran = run_log(cacheunit, tmp_path / "clone", "a")
    assert ran.err == (
        f'note: this clone is shallow: commits before {second[:7]} are missing; run "git fetch --unshallow"\n'
    )
    assert "added" not in ran.out
    assert run_log(cacheunit, tmp_path / "clone", "a", "--since", "HEAD~1").err == ""


def test_since_takes_a_branch_a_commit_or_a_day(cacheunit: Cacheunit, tmp_path: Path) -> None:
    commit_locks(tmp_path, A, B, C)
    git(tmp_path, "branch", "release", "HEAD~1")
    for since in ("release", "HEAD~1", git(tmp_path, "rev-parse", "HEAD~1"), "2026-01-03"):
        report = run_log(cacheunit, tmp_path, "--since", since, "--format", "json").json
        assert [point["kind"] for point in report["artifacts"][0]["points"]] == ["start", "changed"]
        assert [item["subject"] for item in report["commits"]] == ["Edit 1", "Edit 2"]
    assert "no change since 2026-01-03" in run_log(cacheunit, tmp_path, "--since", "HEAD").out


@pytest.mark.parametrize(
    ("since", "message", "hint"),
    [
        ("relese", 'there is no revision or date "relese"', 'did you mean "release"?'),
        (
            "2 weeks ago",
            'there is no revision or date "2 weeks ago"',
            "expected a branch, a tag, a commit, or YYYY-MM-DD",
        ),
        ("2026-02-30", '--since: there is no day "2026-02-30"', "a day is YYYY-MM-DD, as in 2026-10-02"),
        ("", "--since is empty: name a revision or a day", None),
        ("--output=x", 'there is no revision or date "--output=x"', None),
    ],
)
def test_since_that_is_neither_is_a_fault(
    cacheunit: Cacheunit, tmp_path: Path, since: str, message: str, hint: str | None
) -> None:
    commit_locks(tmp_path, A)
    git(tmp_path, "branch", "release")
    ran = cacheunit("-C", tmp_path, "log", f"--since={since}")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {message}\n")
    assert hint is None or ran.err.endswith(f"hint: {hint}\n")


def test_without_a_committed_lock_there_is_one_fault(cacheunit: Cacheunit, tmp_path: Path) -> None:
    outside = cacheunit("-C", tmp_path, "log")
    assert (outside.code, outside.out) == (2, "")
    assert outside.err.startswith("error: not in a git work tree")
    git(tmp_path, "init", "-q", "-b", "main")
    assert cacheunit("-C", tmp_path, "log").err.startswith("error: there is no commit yet\n")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "x")
    never = cacheunit("-C", tmp_path, "log")
    assert (never.code, never.err.split("\n")[0]) == (2, "error: cacheunit.lock was never committed")


def test_a_lock_that_the_clone_lacks_is_reported(cacheunit: Cacheunit, tmp_path: Path) -> None:
    commit_locks(tmp_path, A)
    (tmp_path / "cacheunit.lock").write_bytes(lock_bytes(B))
    git(tmp_path, "commit", "-qam", "second")
    blob = git(tmp_path, "rev-parse", "HEAD:cacheunit.lock")
    (tmp_path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    out = run_log(cacheunit, tmp_path, "a").out
    assert "not read" in out
    assert "this clone does not contain it" in out


def test_a_submodule_in_the_place_of_the_lock_is_no_lock(cacheunit: Cacheunit, tmp_path: Path) -> None:
    commit_locks(tmp_path, A)
    head = git(tmp_path, "rev-parse", "HEAD")
    git(tmp_path, "update-index", "--cacheinfo", f"160000,{head},cacheunit.lock")
    git(tmp_path, "commit", "-qm", "odd")
    git(tmp_path, "reset", "-q", "--hard", "HEAD~1")
    git(tmp_path, "merge", "-q", "HEAD@{1}")
    (tmp_path / "cacheunit.lock").rmdir()
    (tmp_path / "cacheunit.lock").write_bytes(lock_bytes(B))
    git(tmp_path, "rm", "-q", "--cached", "cacheunit.lock")
    git(tmp_path, "add", "cacheunit.lock")
    git(tmp_path, "commit", "-qm", "back")
    report = run_log(cacheunit, tmp_path, "--format", "json").json
    assert [item["problem"] for item in report["commits"]] == [None, "this clone does not contain it", None]
    assert [point["growth"] for point in report["artifacts"][0]["points"]] == [0, 60]


@pytest.mark.skipif(os.name == "nt", reason="the program is a shell script")
def test_git_runs_no_program_that_the_repository_names(cacheunit: Cacheunit, tmp_path: Path) -> None:
    commit_locks(tmp_path, A, B)
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\n", encoding="utf-8")
    program.chmod(0o755)
    for name in ("gpg.program", "diff.external", "diff.x.textconv", "diff.x.command", "core.fsmonitor", "core.pager"):
        git(tmp_path, "config", name, str(program))
    git(tmp_path, "config", "log.showSignature", "true")
    (tmp_path / ".gitattributes").write_text("cacheunit.lock diff=x\n", encoding="utf-8")
    assert "+60" in run_log(cacheunit, tmp_path, "a").out
    assert not (tmp_path / "ran").exists()


def test_a_target_is_selected_by_the_name_of_a_model_too(cacheunit: Cacheunit, tmp_path: Path) -> None:
    rules = {**RULES, "claude-sonnet-4.5": RULES["tokens"], "retired": RULES["tokens"]}
    commit_locks(tmp_path, lock({"a:retired": entry("a", 1), "a": entry("a", 2)}, rules))
    for target in ("retired", "ret*"):
        report = run_log(cacheunit, tmp_path, "--target", target, "--format", "json").json
        assert [item["target"] for item in report["artifacts"]] == ["retired"]
    assert cacheunit("-C", tmp_path, "log", "--target", "retird").code == 2


def test_log_runs_no_code_of_the_project() -> None:
    from cacheunit_build.cli import project_code

    assert "log" in COMMANDS
    assert project_code.help_line("log") == "Runs no code of the project."


# The file of a report


def test_a_report_is_written_to_a_file_which_is_replaced_as_a_whole(cacheunit: Cacheunit, tmp_path: Path) -> None:
    commit_locks(tmp_path, A, B)
    printed = run_log(cacheunit, tmp_path, "--format", "json").out
    for _ in range(2):
        ran = run_log(cacheunit, tmp_path, "--format", "json", "-o", "log.json")
        assert (ran.out, ran.err) == ("", "wrote log.json\n")
        assert (tmp_path / "log.json").read_text(encoding="utf-8") == printed
    assert run_log(cacheunit, tmp_path, "--format", "json", "-o", "-").out == printed
    assert sorted(path.name for path in tmp_path.iterdir()) == [".git", "cacheunit.lock", "log.json"]
    text = run_log(cacheunit, tmp_path).out
    run_log(cacheunit, tmp_path, "-o", "log.txt")
    assert (tmp_path / "log.txt").read_text(encoding="utf-8") == text


@pytest.mark.skipif(os.name == "nt", reason="links and devices")
def test_a_report_is_written_through_a_link_and_the_link_stays(cacheunit: Cacheunit, tmp_path: Path) -> None:
    commit_locks(tmp_path, A)
    (tmp_path / "reports").mkdir()
    (tmp_path / "link").symlink_to("reports/log.json")
    run_log(cacheunit, tmp_path, "--format", "json", "-o", "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "reports/log.json").is_file()


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("folder", 'cannot write "folder": it is a folder'),
        ("", 'cannot write "": it is a folder'),
        ("none/log.json", 'cannot write "none/log.json": its folder does not exist'),
        ("file/log.json", 'cannot write "file/log.json": its folder does not exist'),
        ("pipe", 'cannot write "pipe": it is not a regular file'),
        ("read-only", 'cannot write "read-only": is read-only'),
        ("circle", 'cannot write "circle"'),
    ],
)
@pytest.mark.skipif(os.name == "nt", reason="links, devices and modes")
def test_a_place_that_no_report_can_be_written_to_is_one_fault(
    cacheunit: Cacheunit, tmp_path: Path, output: str, message: str
) -> None:
    commit_locks(tmp_path, A)
    (tmp_path / "folder").mkdir()
    (tmp_path / "circle").symlink_to("circle")
    os.mkfifo(tmp_path / "pipe")  # never a device of the system, which a test run as root could replace
    for name in ("file", "read-only"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "read-only").chmod(0o444)
    before = sorted(path.name for path in tmp_path.iterdir())
    ran = cacheunit("-C", tmp_path, "log", "-o", output)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {message}")
    assert ran.err.count("error: ") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert (tmp_path / "read-only").read_bytes() == b"x"
    assert (tmp_path / "pipe").is_fifo()


# Sparklines


@pytest.mark.parametrize(
    ("values", "width", "line"),
    [
        ([1, 2, 3, 4, 8], 9, "▁▂▃▄█"),
        ([5, 5, None], 9, "▁▁·"),
        ([], 9, ""),
        ([None, None], 9, "··"),
        (list(range(100)), 4, "▁▃▆█"),
        ([0, 0, 0, 0, 9], 2, "▁█"),
    ],
)
def test_a_sparkline_goes_from_the_least_to_the_greatest(values: list[int | None], width: int, line: str) -> None:
    assert sparkline(values, width) == line


def test_of_more_values_than_bars_the_last_one_is_shown() -> None:
    for count in range(1, 50):
        shown = sampled(list(range(count)), 7)
        assert shown[-1] == count - 1
        assert len(shown) == min(count, 7)
        assert shown == sorted(set(shown), key=lambda value: value or 0)


def test_the_mean_is_of_the_artifacts_that_exist() -> None:
    assert means([[1, None, None], [3, 4, None]]) == [2.0, 4.0, None]
