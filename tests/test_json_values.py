"""`load` reads a lock without pydantic, and accepts exactly what a build accepts, which reads it with pydantic."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.json_values import from_json
from cacheunit_build.domain.lock import LockEntry, TargetIdentity, entry_from, identity_from
from cacheunit_build.domain.lock_tables import lock_tables
from cacheunit_build.domain.manifest import ManifestKeys
from cacheunit_build.domain.settings import SettingsKeys
from cacheunit_build.domain.target import TargetKeys
from cacheunit_build.lockfile.format import parse_lock

SHA = f"sha256:{'0' * 64}"
ENTRY = {
    "tokens": 300,
    "counted": "recorded",
    "margin": 0.5,
    "markers": [100, 300],
    "padding": 0,
    "request": SHA,
    "text": SHA,
    "token_ids": SHA,
}
IDENTITY = {
    "cache": {
        "kind": "blocks",
        "unit": 128,
        "minimum": 0,
        "dropped_units": 1,
        "read": 0.1,
        "write": 1.25,
        "marker": "cache_control",
        "warm_up_requests": 2,
        "best_effort": True,
        "evidence": [],
    },
    "format": "openai-chat",
    "frame": SHA,
    "models": ["m"],
    "options": {"tools": {"effect": "front", "neutral": [[]]}},
    "tokenizer": SHA,
}
EVIDENCE = {"claim": "c", "grade": "measured", "checked": "2026-01-01", "source": "s"}
VALUE = {"entry": ENTRY, "identity": IDENTITY}
DELETED = object()


def paths_in(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Returns the keys and indexes that lead to each value of JSON inside of another, and to one that is not there."""
    if isinstance(value, dict):
        items: list[tuple[str | int, Any]] = [*value.items(), ("added", None)]
    elif isinstance(value, list):
        items = list(enumerate(value))
    else:
        return []
    return [found for key, item in items for found in ((*path, key), *paths_in(item, (*path, key)))]


def changed(value: Any, path: tuple[str | int, ...], new: object) -> Any:  # noqa: ANN401 - a value of JSON
    """Returns a value of JSON in which another stands at a path, or none."""
    if not path:
        return new
    key, *rest = path
    if isinstance(value, list):
        return [changed(item, tuple(rest), new) if index == key else item for index, item in enumerate(value)]
    item = changed(value.get(key), tuple(rest), new)
    return {**{k: v for k, v in value.items() if k != key}, **({} if item is DELETED else {key: item})}


def by_build(entry: object, identity: object) -> tuple[LockEntry, TargetIdentity] | None:
    """Returns what a build reads of a lock with this entry; None where it refuses the lock."""
    value = {"version": 2, "targets": {"t": identity}, "prefixes": {"p": {"t": entry}}}
    try:
        lock = parse_lock(json.dumps(value).encode(), "cacheunit.lock")
    except CacheunitError:
        return None
    return lock.entries["p", "t"], lock.targets["t"]


def by_load(entry: object, identity: object) -> tuple[LockEntry, TargetIdentity] | None:
    """Returns what `load` reads of it."""
    try:
        return entry_from(entry), identity_from(identity)
    except ValueError:
        return None


PATHS = [path for path in paths_in(VALUE) if path[0] != "added"]
LEAVES = st.none() | st.booleans() | st.integers(-2, 1 << 21) | st.floats(-1, 3) | st.sampled_from(["", "x", SHA])
VALUES = LEAVES | st.lists(LEAVES, max_size=2) | st.dictionaries(st.sampled_from(["a", "effect"]), LEAVES, max_size=1)


@given(st.sampled_from(PATHS), st.just(DELETED) | VALUES)
@example(("entry", "text"), f"{SHA}\n")
@example(("entry", "tokens"), 1.0)
@example(("entry", "margin"), 0)
@example(("identity", "cache", "kind"), "tokens")
@example(
    ("identity", "cache", "evidence"), [{"claim": "c", "grade": "measured", "checked": "2026-01-01", "source": ""}]
)
def test_load_accepts_exactly_the_changed_locks_that_a_build_accepts(path: tuple[str | int, ...], new: object) -> None:
    if new is DELETED and isinstance(path[-1], int):
        return
    value = changed(VALUE, path, new)
    entry, identity = value.get("entry"), value.get("identity")
    assert by_load(entry, identity) == by_build(entry, identity)


FILES: list[tuple[type[Any], dict[str, Any]]] = [
    (
        ManifestKeys,
        {
            "system": ["a.j2"],
            "targets": ["deepseek-v4"],
            "variables": {"a": 1},
            "data": {"a": "a.json"},
            "tools": ["a.json"],
            "matrix": {"a": [1, True, "x"]},
            "padding": {"mode": "auto", "floor": True, "hits_per_miss": 3},
            "examples": [{"role": "user", "text": "t"}, {"role": "assistant", "tool_calls": [{"name": "n"}]}],
        },
    ),
    (
        TargetKeys,
        {
            "request": "openai-chat",
            "tokenizer": {"package": "p", "file": "f"},
            "frame": {"encoder": {"package": "p", "file": "f", "function": "g", "sha256": "0" * 64}},
            "cache": IDENTITY["cache"],
            "options": [{"name": "n", "effect": "front", "neutral": [1], **EVIDENCE}],
            "price": {"input": 1},
        },
    ),
    (SettingsKeys, {"targets": ["a"], "hits_per_miss": 3, "target": {"a": {"b": 1}}, "lint": {}}),
]


@given(st.data())
def test_a_file_is_read_without_pydantic_as_with_it(data: st.DataObject) -> None:
    kind, value = data.draw(st.sampled_from(FILES))
    path = data.draw(st.sampled_from(paths_in(value)))
    new = data.draw(st.just(DELETED) | VALUES)
    if new is DELETED and isinstance(path[-1], int):
        return
    value = changed(value, path, new)
    try:
        read = from_json(kind, value)
    except ValueError:  # pydantic is asked then, and its answer holds
        return
    assert read == TypeAdapter(kind).validate_json(json.dumps(value))


def test_the_files_of_a_usual_project_are_read_without_pydantic() -> None:
    script = (
        "import sys; from cacheunit_build.targets.loader import known_models, known_targets;"
        "from cacheunit_build.parsing.settings import parse_settings;"
        "dict(known_targets()), dict(known_models()); parse_settings(None, b'gate = [\"CU1\"]');"
        "assert 'pydantic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_unchanged_lock_is_accepted() -> None:
    assert by_load(ENTRY, IDENTITY) is not None


@pytest.mark.parametrize(
    "data", [b"[" * 100_000, b'{"version": 2, "prefixes": ' + b'{"a":' * 100_000, b"9" * 100_000, b""]
)
def test_a_lock_that_is_nested_without_end_is_broken_for_load_and_build(data: bytes) -> None:
    with pytest.raises(CacheunitError, match="the lock is broken"):
        lock_tables(data, "cacheunit.lock")
    with pytest.raises(CacheunitError, match="the lock is broken"):
        parse_lock(data, "cacheunit.lock")


@pytest.mark.parametrize("value", [10**400, float("inf"), float("nan"), [[[]]], "x" * 1000, True, None])
def test_a_number_that_is_none_is_refused_with_a_short_message(value: object) -> None:
    for data in ({**ENTRY, "margin": value}, {**ENTRY, "tokens": [value]}):
        with pytest.raises(ValueError, match=r'^"(margin|tokens)": ') as caught:
            entry_from(data)
        assert len(str(caught.value)) < 120
