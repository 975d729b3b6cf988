"""A result is named by everything that decides it, and is believed only where this build could have made it."""

from __future__ import annotations

import datetime as dt
import json
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remote_results import CONTEXT, IDENTITIES, PATHS, RESULTS, manifest, result, with_plan

from cacheunit_build.adapters.remote_cache.action_result import ActionResult, parse_action_result
from cacheunit_build.domain import remote_blob, remote_cache
from cacheunit_build.domain.artifact import PaddingPlan
from cacheunit_build.domain.cache_rule import CacheRule
from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.lock import Lock, identity_data
from cacheunit_build.domain.remote_blob import pack, unpack
from cacheunit_build.domain.remote_cache import (
    MOST_SETS,
    BlobDigest,
    ListedBuild,
    blob_digest,
    deciding_settings,
    listing_bytes,
    parse_listing,
    with_newest,
)
from cacheunit_build.lockfile.format import lock_bytes
from cacheunit_build.parsing.settings import parse_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cacheunit_build.domain.remote_cache import CacheableManifest, CachedManifest

    Change = Callable[[CacheableManifest], CacheableManifest]

DIGEST = blob_digest(b"blob")
BUILDS = st.builds(
    ListedBuild,
    paths=st.lists(PATHS, min_size=1, max_size=4, unique=True).map(sorted).map(tuple),
    result=st.binary(max_size=2).map(lambda data: blob_digest(data).sha256),
    blob=st.binary(max_size=3).map(blob_digest),
)


def packed(cached: CachedManifest) -> bytes:
    """Returns the blob of a result."""
    blob = pack(cached)
    assert blob is not None
    return blob


def json_of(value: object) -> bytes:
    """Returns a value as `compact_json` does, also where it is not valid there."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def forged(head: object, data: bytes = b"") -> bytes:
    """Returns a blob with this head, or these bytes in its place."""
    text = head if isinstance(head, bytes) else json_of(head)
    return b"cacheunit 1\n" + zlib.compress(text + b"\n" + data)


def compact_head(cached: CachedManifest) -> bytes:
    """Returns the head of a result."""
    return zlib.decompress(packed(cached).partition(b"\n")[2]).partition(b"\n")[0]


def changed_head(cached: CachedManifest, change: Callable[[dict[str, Any]], object]) -> bytes:
    """Returns the blob of a result with one thing changed in its head."""
    head, _, data = zlib.decompress(packed(cached).partition(b"\n")[2]).partition(b"\n")
    values = json.loads(head)
    change(values)
    return forged(values, data)


@given(RESULTS)
def test_a_result_comes_back_as_it_was(cached: CachedManifest) -> None:
    assert unpack(packed(cached), cached.manifest, cached.record.inputs) == cached


@given(RESULTS)
def test_the_files_of_a_result_are_those_of_its_lock_entries(cached: CachedManifest) -> None:
    files = cached.files("build")
    assert {path: fingerprint(data) for path, data in files.items()} == cached.record.locked_files("build")
    assert all(path.startswith(f"build/{cached.manifest.name}") for path in files)


@given(RESULTS, st.data())
def test_a_damaged_blob_is_no_result(cached: CachedManifest, data: st.DataObject) -> None:
    blob = bytearray(packed(cached))
    at = data.draw(st.integers(0, len(blob) - 1))
    damage = data.draw(st.sampled_from(["flip", "cut", "add"]))
    if damage == "flip":
        blob[at] ^= 1 << data.draw(st.integers(0, 7))
    elif damage == "cut":
        del blob[at:]
    else:
        blob[at:at] = b"\0"
    assert unpack(bytes(blob), cached.manifest, cached.record.inputs) in (None, cached)


@given(st.binary(max_size=200))
def test_any_bytes_are_no_result(data: bytes) -> None:
    of = manifest()
    for blob in (data, b"cacheunit 1\n" + data, forged(data)):
        assert unpack(blob, of, {of.path: of.fingerprint}) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401 - JSON
    """Yields every place in a JSON value: a list or an object, and the index or key in it."""
    if isinstance(value, list | dict):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places(value[key])


@given(RESULTS, st.data())
def test_a_result_with_any_other_value_in_any_place_is_none(cached: CachedManifest, data: st.DataObject) -> None:
    head, _, contents = zlib.decompress(packed(cached).partition(b"\n")[2]).partition(b"\n")
    values = json.loads(head)
    table, key = data.draw(st.sampled_from(list(places(values))))
    similar = [[], {}, "", 0, 1, -1, 1.0, True, False, None, [table[key]], "\x1b[2J", "\ud800", float("nan")]
    table[key] = data.draw(st.sampled_from(similar) | JSON)
    opened = unpack(forged(values, contents), cached.manifest, cached.record.inputs)
    if opened is not None:  # a number of tokens, for one, may be another one
        assert json_of(values) == compact_head(opened)
        assert opened.record.inputs == cached.record.inputs
        assert opened.contents == cached.contents
        assert opened.record.identities == cached.record.identities
        lock_bytes(Lock(targets=IDENTITIES, entries={item.key: item.entry for item in opened.record.artifacts}))


def test_another_version_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    cached = result(manifest())
    blob = packed(cached)
    assert unpack(blob.replace(b"cacheunit 1", b"cacheunit 2", 1), cached.manifest, cached.record.inputs) is None
    key = replace(CONTEXT).digest
    monkeypatch.setattr(remote_cache, "FORMAT", 2)
    assert replace(CONTEXT).digest != key


@pytest.mark.parametrize(
    "head", [b"[" * 100_000, b'{"files":[],"record":' + b"[" * 100_000, b"9" * 5000, b"NaN", b'"\xff"', b""]
)
def test_json_that_cannot_be_read_is_no_result(head: bytes) -> None:
    of = manifest()
    assert unpack(forged(head), of, {of.path: of.fingerprint}) is None


def test_a_blob_beyond_a_limit_is_neither_read_nor_made(monkeypatch: pytest.MonkeyPatch) -> None:
    cached = result(manifest(), text=b"a" * 100_000)
    blob = packed(cached)
    monkeypatch.setattr(remote_blob, "MOST_BYTES", 99_999)
    assert unpack(blob, cached.manifest, cached.record.inputs) is None
    assert pack(cached) is None
    monkeypatch.undo()
    monkeypatch.setattr(remote_blob, "MOST_PACKED_BYTES", len(blob) - 1)
    assert unpack(blob, cached.manifest, cached.record.inputs) is None
    assert pack(cached) is None


def test_a_bomb_is_not_unpacked_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_blob, "MOST_BYTES", 1000)
    asked: list[int] = []

    class Stream:
        eof, unused_data = False, b""

        def decompress(self, _: bytes, most: int) -> bytes:
            asked.append(most)
            return b"a" * most

    monkeypatch.setattr(zlib, "decompressobj", Stream)
    assert unpack(forged(b""), manifest(), {}) is None
    assert asked == [1001]


def test_a_result_of_other_files_is_none() -> None:
    cached = result(manifest())
    blob, inputs = packed(cached), dict(cached.record.inputs)
    assert unpack(blob, cached.manifest, inputs) == cached
    assert unpack(blob, cached.manifest, {**inputs, "templates/a.md.j2": None}) is None
    assert unpack(blob, cached.manifest, {**inputs, "templates/b.md.j2": None}) is None
    assert unpack(blob, cached.manifest, {cached.manifest.path: cached.manifest.fingerprint}) is None
    without = {path: digest for path, digest in inputs.items() if path != cached.manifest.path}
    assert (
        unpack(packed(replace(cached, record=replace(cached.record, inputs=without))), cached.manifest, without) is None
    )


def test_a_result_of_another_manifest_is_none() -> None:
    cached, other = result(manifest()), manifest(1)
    inputs = {**cached.record.inputs, other.path: other.fingerprint}
    foreign = replace(result(other, {cached.manifest.path: cached.manifest.fingerprint}), manifest=cached.manifest)
    assert unpack(packed(foreign), cached.manifest, foreign.record.inputs) is None
    assert unpack(packed(cached), other, inputs) is None


def test_a_result_of_another_target_state_is_none() -> None:
    cached = result(manifest())
    changed = replace(IDENTITIES["other"], cache=CacheRule(kind="blocks", unit=64))
    other = replace(CONTEXT, identities={**IDENTITIES, "other": changed})
    assert unpack(packed(cached), manifest(context=other), cached.record.inputs) is None


def test_a_result_of_another_state_of_its_manifest_is_none() -> None:
    cached = result(manifest())
    edited = replace(cached.manifest, fingerprint=fingerprint(b"edited"))
    assert unpack(packed(cached), edited, cached.record.inputs) is None


def test_a_file_with_other_bytes_than_its_lock_entry_is_none() -> None:
    cached = result(manifest(), text=b"Never say no.")
    blob = zlib.decompress(packed(cached).partition(b"\n")[2])
    changed = b"cacheunit 1\n" + zlib.compress(blob.replace(b"Never say no.", b"Always say no"))
    assert unpack(changed, cached.manifest, cached.record.inputs) is None


ARTIFACT = ("prefix", "target", "identity", "entry", "action", "reason", "paths")


def with_artifact(**values: object) -> Callable[[dict[str, Any]], object]:
    """Returns a change: values of the first artifact."""

    def change(head: dict[str, Any]) -> None:
        for name, value in values.items():
            head["record"]["prefix"][2][0][ARTIFACT.index(name)] = value

    return change


def with_entry(**values: object) -> Callable[[dict[str, Any]], object]:
    """Returns a change: values in the lock entry of the first artifact."""
    return lambda head: head["record"]["prefix"][2][0][ARTIFACT.index("entry")].update(values)


def with_remote(value: object) -> Callable[[dict[str, Any]], object]:
    """Returns a change: where the result says it is from."""
    return lambda head: head["record"]["prefix"].__setitem__(1, value)


def foreign_target(head: dict[str, Any]) -> None:
    """Gives the first target a name that the manifest does not have."""
    for artifact in head["record"]["prefix"][2]:
        if artifact[1] == "deepseek-v4":
            artifact[1] = "deepseek-v5"


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "no artifacts": lambda head: head["record"]["prefix"][2].clear(),
    "an artifact twice": lambda head: head["record"]["prefix"][2].append(head["record"]["prefix"][2][0]),
    "a file of nobody": lambda head: head["files"].append([fingerprint(b""), 0]),
    "a file less": lambda head: head["files"].pop(),
    "files in another order": lambda head: head["files"].reverse(),
    "a size below zero": lambda head: head["files"][0].__setitem__(1, -1),
    "a name outside of the build folder": with_artifact(prefix="support/agent0/../../x"),
    "a target outside of the build folder": with_artifact(target="../other"),
    "a target that the manifest does not have": foreign_target,
    "a reason that moves the cursor": with_artifact(reason="\x1b[2J"),
    "an action that is none": with_artifact(action="##[x]"),
    "a target without identity": lambda head: head["record"]["header"]["identities"].pop(),
    "the identity of another target": with_artifact(identity=1),
    "an identity by a negative index": with_artifact(identity=-2),
    "an identity by a truth value": with_artifact(identity=False),
    "an identity of nobody": lambda head: head["record"]["header"]["identities"].append(
        identity_data(IDENTITIES["other"])
    ),
    "another remote": with_remote("https://trusted.example.com"),
    "a remote that is no text": with_remote([]),
    "a remote that is false": with_remote(False),  # noqa: FBT003 - the value
    "no paths": with_artifact(paths=[]),
    "paths as a text": with_artifact(paths="a"),
    "paths that are all": lambda head: with_artifact(paths=list(head["record"]["prefix"][0]))(head),
    "paths as an object": lambda head: with_artifact(paths=head["record"]["prefix"][0])(head),
    "an input more": lambda head: head["record"]["prefix"][0].update({"templates/b.md.j2": None}),
    "an input without fingerprint": lambda head: head["record"]["prefix"][0].update({"templates/a.md.j2": ""}),
    "settings": lambda head: head["record"]["header"].update(settings={"cacheunit.toml": None}),
    "a key more": lambda head: head.update(more=1),
    "a value that is the default": with_entry(margin=0.0),
    "an endless margin": with_entry(margin=float("inf"), counted="estimate", token_ids=None),
    "a lifetime that is no text": with_entry(lifetimes=["\ud800"]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_record_that_no_build_makes_is_none(change: Callable[[dict[str, Any]], object]) -> None:
    cached = result(manifest())
    assert unpack(changed_head(cached, lambda _: None), cached.manifest, cached.record.inputs) == cached
    assert unpack(changed_head(cached, change), cached.manifest, cached.record.inputs) is None


def test_every_action_of_padding_is_accepted() -> None:
    for action in ("pad", "below-minimum", "over-budget", "off"):
        plan = PaddingPlan(action=action, goal=None, reason="~1,093 ±35 % »日本«")
        cached = with_plan(result(manifest()), plan)
        assert unpack(packed(cached), cached.manifest, cached.record.inputs) == cached


@pytest.mark.parametrize(
    "change",
    [
        lambda it: replace(it, name="other"),
        lambda it: replace(it, path="prefixes/other.yaml"),
        lambda it: replace(it, fingerprint=fingerprint(b"edited")),
        lambda it: replace(it, context=replace(it.context, software={"python": "cpython 4"})),
        lambda it: replace(it, context=replace(it.context, settings={"build": "other"})),
        lambda it: replace(it, context=replace(it.context, identities={})),
    ],
)
def test_everything_that_decides_a_result_is_in_its_keys(change: Change) -> None:
    of = manifest()
    assert change(of).key != of.key
    assert change(of).result_key({}) != of.result_key({})


def test_keys_do_not_depend_on_the_order_of_anything() -> None:
    of = manifest()
    same = replace(CONTEXT, identities=dict(reversed(IDENTITIES.items())))
    assert manifest(context=same).key == of.key
    assert of.result_key({"a": "x", "b": None}) == of.result_key({"b": None, "a": "x"})


@pytest.mark.parametrize("inputs", [{}, {"a": None}, {"a": "sha256:1"}, {"b": None}])
def test_the_key_of_a_result_has_each_file_and_whether_it_is_there(inputs: dict[str, str | None]) -> None:
    keys = [manifest().result_key(other) for other in ({}, {"a": None}, {"a": "sha256:1"}, {"b": None})]
    assert keys.count(manifest().result_key(inputs)) == 1


@pytest.mark.parametrize(
    ("line", "decides"),
    [
        ('targets = ["openai"]', True),
        ("hits_per_miss = 3", True),
        ('gate = ["CU101"]', True),
        ('project = "x"', True),
        ('build = "out"', True),
        ('[lint]\nignore = ["CU101"]', True),
        ('[target.x]\nextends = "openai"', True),
        ('[watch]\neditor = "zed"', False),
        ('[cache]\nremote = "https://cache.example.com"', False),
    ],
)
def test_settings_that_decide_bytes_or_refuse_them_are_in_the_key(line: str, *, decides: bool) -> None:
    without = deciding_settings(parse_settings(None, None))
    assert (deciding_settings(parse_settings(None, line.encode())) != without) == decides


def test_settings_with_dates_have_a_key() -> None:
    settings = parse_settings(None, b"[target.x.cache]\nevidence = [{ date = 2026-01-02 }]\n")
    assert str(dt.date(2026, 1, 2)) in json.dumps(deciding_settings(settings))


@given(st.lists(BUILDS, max_size=MOST_SETS).map(tuple))
def test_a_listing_comes_back_as_it_was(builds: tuple[ListedBuild, ...]) -> None:
    assert parse_listing(listing_bytes(builds)) == builds


@given(st.lists(BUILDS, max_size=20), BUILDS)
def test_the_newest_build_is_first_and_paths_are_listed_once(builds: list[ListedBuild], newest: ListedBuild) -> None:
    listed: tuple[ListedBuild, ...] = ()
    for build in [*builds, newest]:
        listed = with_newest(listed, build)
    assert listed[0] == newest
    assert len({build.paths for build in listed}) == len(listed) <= MOST_SETS


def test_old_builds_are_dropped_where_a_listing_would_be_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    long = [ListedBuild(paths=("a" * 400 + str(number),), result=DIGEST.sha256, blob=DIGEST) for number in range(4)]
    monkeypatch.setattr(remote_cache, "MOST_LISTING_BYTES", 1500)
    listed = with_newest(long[1:], long[0])
    assert listed == tuple(long[:2])
    assert parse_listing(listing_bytes(listed)) == listed


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../secret", "a/../../b", "a//b", "./a", "C:/x", "a\\b", "", ".env", "a/.hidden/b", ".git/config",
     "\ud800", "a\x1b", 1, None, ["a"], {}],
)  # fmt: skip
def test_a_listing_cannot_ask_for_other_files_than_those_of_a_project(path: object) -> None:
    row = [DIGEST.sha256, DIGEST.sha256, 1, [path]]
    assert parse_listing(json.dumps({"format": 1, "builds": [row]}).encode()) == ()


@pytest.mark.parametrize(
    "listing",
    [
        b"", b"[]", b"1", b"\xff", b"[" * 100_000, b'{"format":1}', b'{"format":1,"builds":1}',
        b'{"format":1,"builds":[1]}',
        b'{"format":2,"builds":[]}', b'{"format":1,"builds":[["x","y",1,["a"]]]}', b"{" + b" " * (1 << 20) + b"}",
    ],
)  # fmt: skip
def test_what_is_no_listing_has_no_builds(listing: bytes) -> None:
    assert parse_listing(listing) == ()


@pytest.mark.parametrize("paths", [[], ["b", "a"], ["a", "a"], [f"p{number:05}" for number in range(10_001)]])
def test_a_set_of_paths_is_sorted_and_bounded(paths: list[str]) -> None:
    row = [DIGEST.sha256, DIGEST.sha256, 1, paths]
    assert parse_listing(json.dumps({"format": 1, "builds": [row]}).encode()) == ()


def test_a_file_that_cannot_be_read_is_no_input() -> None:
    def refuse(_: str) -> str:
        raise fail("it is a link to another folder")

    build = ListedBuild(paths=("a",), result=DIGEST.sha256, blob=DIGEST)
    assert build.inputs(refuse) is None
    assert build.inputs({"a": "x"}.get) == {"a": "x"}


def test_only_results_that_others_can_find_are_cacheable() -> None:
    of = manifest()
    assert result(of).is_cacheable
    assert not result(of, {".env": None}).is_cacheable
    assert not replace(result(of), manifest=replace(of, fingerprint=fingerprint(b"edited meanwhile"))).is_cacheable


def action_result_class() -> Any:  # noqa: ANN401 - made at run time
    """Returns the class of `ActionResult` messages by protobuf's own package."""
    descriptors = pytest.importorskip("google.protobuf.descriptor_pb2", reason="protobuf is not installed")
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    file = descriptors.FileDescriptorProto(name="x.proto", package="x", syntax="proto3")
    field = descriptors.FieldDescriptorProto
    messages = {
        "Digest": [("hash", 1, field.TYPE_STRING, ""), ("size_bytes", 2, field.TYPE_INT64, "")],
        "Metadata": [("worker", 1, field.TYPE_STRING, "")],
        "OutputFile": [("path", 1, field.TYPE_STRING, ""), ("digest", 2, field.TYPE_MESSAGE, "Digest")],
        "ActionResult": [
            ("output_files", 2, field.TYPE_MESSAGE, "OutputFile"),
            ("exit_code", 4, field.TYPE_INT32, ""),
            ("stdout_raw", 5, field.TYPE_BYTES, ""),
            ("execution_metadata", 9, field.TYPE_MESSAGE, "Metadata"),
        ],
    }
    for name, items in messages.items():
        message = file.message_type.add(name=name)
        for key, number, kind, type_name in items:
            label = field.LABEL_REPEATED if key == "output_files" else field.LABEL_OPTIONAL
            message.field.add(
                name=key, number=number, type=kind, label=label, type_name=f".x.{type_name}" if type_name else None
            )
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("x.ActionResult"))


ENTRIES = st.builds(
    ActionResult,
    stdout=st.binary(max_size=300),
    blob=st.none() | st.builds(BlobDigest, sha256=st.just(DIGEST.sha256), size=st.integers(0, (1 << 63) - 1)),
)


@given(ENTRIES)
def test_an_entry_comes_back_as_it_was(entry: ActionResult) -> None:
    assert parse_action_result(entry.to_bytes()) == entry


@given(ENTRIES)
def test_protobuf_reads_entries_and_would_write_the_same_bytes(entry: ActionResult) -> None:
    message = action_result_class().FromString(entry.to_bytes())
    assert message.SerializeToString() == entry.to_bytes()
    assert message.stdout_raw == entry.stdout
    digests = [(file.digest.hash, file.digest.size_bytes) for file in message.output_files]
    assert digests == ([] if entry.blob is None else [(entry.blob.sha256, entry.blob.size)])
    assert all(file.path for file in message.output_files)


@given(ENTRIES, st.text(max_size=20), st.integers(-(1 << 31), (1 << 31) - 1))
def test_fields_that_a_server_adds_are_left_out(entry: ActionResult, worker: str, exit_code: int) -> None:
    message = action_result_class().FromString(entry.to_bytes())
    message.execution_metadata.worker = worker
    message.exit_code = exit_code
    assert parse_action_result(message.SerializeToString()) == entry


@pytest.mark.parametrize(
    "blob",
    [
        BlobDigest(sha256="../../../" + "a" * 55, size=1),
        BlobDigest(sha256="A" * 64, size=1),
        BlobDigest(sha256="", size=1),
        BlobDigest(sha256=DIGEST.sha256, size=1 << 63),
    ],
)
def test_an_entry_whose_digest_is_none_is_no_entry(blob: BlobDigest) -> None:
    assert parse_action_result(ActionResult(blob=blob).to_bytes()) is None


@given(st.binary(max_size=60))
def test_any_bytes_are_an_entry_or_none(data: bytes) -> None:
    entry = parse_action_result(data)
    assert entry is None or entry.blob is None or len(entry.blob.sha256) == len(DIGEST.sha256)


@given(ENTRIES, st.integers(0, 400))
def test_half_an_entry_never_names_another_blob(entry: ActionResult, length: int) -> None:
    half = parse_action_result(entry.to_bytes()[:length])
    assert half is None or half.blob in (None, entry.blob)
