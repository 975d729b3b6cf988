"""The lock file: how it is written and read, the kinds of differences, and locks that no build writes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheunit_build.domain.cache_rule import CacheRule
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.lock import Lock, LockedOption, LockEntry, TargetIdentity
from cacheunit_build.lockfile.drift import drift_between, drift_on_disk
from cacheunit_build.lockfile.format import LockUnknownError, lock_bytes, parse_lock

SHA = ["sha256:" + digit * 64 for digit in "0123456789abcdef"]
shas = st.sampled_from(SHA)
names = st.sampled_from(["a", "b/c", "é", "b@x=1", "b@x=2,y=z"])
targets = st.sampled_from(["t", "u"])


@st.composite
def entries_(draw: st.DrawFn) -> LockEntry:
    """Draws an entry that a build can lock."""
    tokens, counted = draw(st.integers(0, 9999)), draw(st.sampled_from(["exact", "recorded", "estimate"]))
    return LockEntry(
        tokens=tokens,
        counted=counted,  # type: ignore[arg-type]
        margin=0.0 if counted == "exact" else draw(st.sampled_from([0.0, 0.1, 0.35])),
        markers=tuple(sorted(draw(st.sets(st.integers(0, tokens), max_size=3)))),
        padding=draw(st.integers(0, min(tokens, 99))),
        text=draw(shas),
        request=draw(shas),
        token_ids=None if counted == "estimate" else draw(shas),
    )


options = st.builds(
    LockedOption,
    effect=st.sampled_from(["front", "text", "cache"]),
    neutral=st.lists(st.sampled_from(["low", True, 1, ["a"]]), max_size=2).map(tuple),
)
identities = st.builds(
    TargetIdentity,
    format=st.sampled_from(["openai-chat", "text"]),
    cache=st.sampled_from([CacheRule(), CacheRule(kind="blocks", unit=128, minimum=0, read=0.1, dropped_units=1)]),
    frame=shas,
    tokenizer=shas,
    options=st.dictionaries(st.sampled_from(["tools", "reasoning.effort"]), options),
    models=st.sampled_from([(), ("m-1", "m-2")]),
)
locks = st.builds(
    Lock,
    targets=st.fixed_dictionaries(dict.fromkeys("tu", identities)),
    entries=st.dictionaries(st.tuples(names, targets), entries_(), max_size=6),
)


def entry(**changes: object) -> LockEntry:
    """Returns an entry with some fields changed."""
    original = LockEntry(tokens=128, counted="exact", padding=3, text=SHA[1], request=SHA[2], token_ids=SHA[3])
    return replace(original, **changes)  # type: ignore[arg-type]


def lock(entries: dict[str, LockEntry], **changes: Any) -> Lock:
    """Returns a lock of these prefixes for one target, "t", with some of its identity changed."""
    identity = TargetIdentity(format="openai-chat", cache=CacheRule(), frame=SHA[0], tokenizer=SHA[0])
    identity = replace(identity, **changes)
    return Lock(targets={"t": identity}, entries={(name, "t"): value for name, value in entries.items()})


@given(locks)
def test_a_written_lock_is_read_back_without_unused_targets(original: Lock) -> None:
    read = parse_lock(lock_bytes(original), "l")
    assert read.entries == original.entries
    assert read.targets == {name: original.targets[name] for _, name in original.entries}
    assert lock_bytes(read) == lock_bytes(original)


@given(locks)
def test_a_lock_is_json_with_lf_sorted_keys_and_tokens_first_in_each_entry(original: Lock) -> None:
    text = lock_bytes(original).decode()
    assert text.endswith("}\n")
    assert "\r" not in text
    value = json.loads(text)
    assert list(value["prefixes"]) == sorted(value["prefixes"])
    for by_target in value["prefixes"].values():
        for fields in by_target.values():
            first, *others = fields
            assert first == "tokens"
            assert others == sorted(others)


def test_each_difference_between_locks_has_its_kind() -> None:
    before = lock({"same": entry(), "text": entry(), "ids": entry(), "gone": entry()})
    after = lock({"same": entry(), "text": entry(text=SHA[9]), "ids": entry(token_ids=SHA[9]), "new": entry()})
    assert [(drift.prefix, drift.kind) for drift in drift_between(before, after)] == [
        ("gone", "removed"), ("ids", "tokenizer"), ("new", "added"), ("text", "changed"),
    ]  # fmt: skip


def test_a_changed_vocabulary_and_changed_rules_are_kinds_of_their_own() -> None:
    before = lock({"a": entry()})
    assert [drift.kind for drift in drift_between(before, lock({"a": entry()}, tokenizer=SHA[5]))] == ["tokenizer"]
    changes: tuple[dict[str, Any], ...] = (
        {"frame": SHA[5]},
        {"format": "text"},
        {"cache": CacheRule(kind="tokens")},
        {"options": {"tools": LockedOption(effect="front")}},
        {"models": ("m",)},
    )
    for change in changes:
        assert [drift.kind for drift in drift_between(before, lock({"a": entry()}, **change))] == ["profile"]
    assert list(drift_between(before, lock({"a": entry()}))) == []


def test_edited_missing_and_orphan_files_differ_from_the_lock() -> None:
    fingerprints = {"build/a/t.txt": SHA[1], "build/a/t.json": SHA[9], "build/b/t.txt": SHA[1], "build/x/t.txt": SHA[0]}
    original = lock({"a": entry(), "b": entry()})
    drift = [(item.kind, item.path) for item in drift_on_disk(original, "build", fingerprints.get, list(fingerprints))]
    assert drift == [("edited", "build/a/t.json"), ("missing", "build/b/t.json"), ("orphan", "build/x/t.txt")]


@pytest.mark.parametrize(
    "broken",
    [b"", b"{", b"[]", b"null", b'{"version": 2}', b'{"version": 2, "targets": {}, "prefixes": {}, "x": 1}', b"\xff"],
)
def test_a_broken_lock_raises_lock_unknown(broken: bytes) -> None:
    with pytest.raises(LockUnknownError, match="the lock is broken"):
        parse_lock(broken, "cacheunit.lock")


def test_a_lock_that_only_a_line_merge_can_write_raises_lock_unknown() -> None:
    """Each of these locks is well-formed, but no build writes it."""
    value = json.loads(lock_bytes(lock({"a": entry(), "b": entry()})))
    targets, (a, b) = value["targets"], value["prefixes"].values()
    for line, message, listed, prefixes in (
        (22, '"a" is after "b"', targets, {"b": b, "a": a}),
        (27, '"t" is after "u"', {**targets, "u": targets["t"]}, {"a": {"u": a["t"], "t": a["t"]}}),
        (10, 'the target "u" is not used', {**targets, "u": targets["t"]}, {"a": a}),
        (3, 'the target "u" is not listed', targets, {"a": {**a, "u": a["t"]}}),
        (22, '"b" has no target', targets, {"a": a, "b": {}}),
    ):
        text = json.dumps({"version": 2, "targets": listed, "prefixes": prefixes}, indent=2)
        with pytest.raises(LockUnknownError) as caught:
            parse_lock(text.encode(), "l")
        assert (caught.value.faults[0].message, caught.value.faults[0].line) == (f"the lock is broken: {message}", line)


@pytest.mark.parametrize("field", ["tokens", "text", "margin", "markers"])
def test_a_lock_with_a_value_of_the_wrong_type_raises_lock_unknown(field: str) -> None:
    value = json.loads(lock_bytes(lock({"a": entry()})))
    value["prefixes"]["a"]["t"][field] = "128"
    with pytest.raises(LockUnknownError):
        parse_lock(json.dumps(value).encode(), "cacheunit.lock")


@pytest.mark.parametrize(
    "changes",
    [
        {"markers": [200]},
        {"markers": [100, 90]},
        {"markers": [90, 90]},
        {"padding": 129},
        {"margin": 0.2},
        {"token_ids": None},
        {"counted": "estimate", "margin": 0.2},
    ],
)
def test_a_lock_whose_values_contradict_each_other_raises_lock_unknown(changes: dict[str, Any]) -> None:
    value = json.loads(lock_bytes(lock({"a": entry()})))
    fields = {**value["prefixes"]["a"]["t"], **changes}
    value["prefixes"]["a"]["t"] = {name: item for name, item in fields.items() if item is not None}
    with pytest.raises(LockUnknownError, match="the lock is broken"):
        parse_lock(json.dumps(value, indent=2).encode(), "cacheunit.lock")


@pytest.mark.parametrize("marker", ["<<<<<<< ours", "=======", ">>>>>>> theirs", "||||||| base"])
def test_conflict_markers_are_reported_with_their_line(marker: str) -> None:
    data = lock_bytes(lock({"a": entry()})).replace(b'  "prefixes"', f'{marker}\n  "prefixes"'.encode())
    with pytest.raises(LockUnknownError, match=r"cacheunit\.lock:11: the lock has merge-conflict markers"):
        parse_lock(data, "cacheunit.lock")


@pytest.mark.parametrize("version", ["3", "999"])
def test_a_newer_lock_is_refused_and_both_versions_are_named(version: str) -> None:
    with pytest.raises(CacheunitError, match=f"has version {version}; this cacheunit reads versions up to 2") as caught:
        parse_lock(f'{{"version": {version}, "anything": 1}}'.encode(), "cacheunit.lock")
    assert not isinstance(caught.value, LockUnknownError)


VERSION_1 = {
    "version": 1,
    "targets": {"t": {"profile": SHA[7], "tokenizer": SHA[0]}},
    "prefixes": {
        "a": {
            "t": {
                "tokens": 128, "counted": "exact", "padding": 3, "request": SHA[2], "text": SHA[1],
                "token_ids": SHA[3], "unit": 128,
            }
        }
    },
}  # fmt: skip


def test_a_lock_of_version_1_is_read_and_differs_in_its_version_only() -> None:
    before = parse_lock(json.dumps(VERSION_1).encode(), "l")
    assert (before.version, before.entries) == (1, {("a", "t"): entry()})
    after = lock({"a": entry(markers=(128,))})
    assert [(item.kind, item.path) for item in drift_between(before, after)] == [("lock version", "cacheunit.lock")]
    changed = lock({"a": entry(text=SHA[9])})
    assert [item.kind for item in drift_between(before, changed)] == ["lock version", "changed"]
    other_vocabulary = lock({"a": entry()}, tokenizer=SHA[5])
    assert [item.kind for item in drift_between(before, other_vocabulary)] == ["lock version", "tokenizer"]


@pytest.mark.parametrize("broken", [{"targets": {}}, {"targets": {"t": 1}}, {"prefixes": 3}, {"more": 1}])
def test_a_broken_lock_of_version_1_raises_lock_unknown(broken: dict[str, Any]) -> None:
    with pytest.raises(LockUnknownError, match="the lock is broken"):
        parse_lock(json.dumps({**VERSION_1, **broken}).encode(), "l")


@pytest.mark.parametrize("version", ['"1"', "true", "0", "null"])
def test_an_invalid_version_raises_lock_unknown(version: str) -> None:
    with pytest.raises(LockUnknownError):
        parse_lock(f'{{"version": {version}, "targets": {{}}, "prefixes": {{}}}}'.encode(), "cacheunit.lock")
