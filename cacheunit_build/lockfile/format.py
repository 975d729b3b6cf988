"""Lock <-> JSON, and drift: what is different between two locks, and between a lock and the files in `build/`."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from cacheunit_build.domain.errors import CacheunitError, Fault, fail
from cacheunit_build.domain.models import Drift, Lock, LockEntry, TargetIdentity, artifact_paths
from cacheunit_build.parsing.document import read_json
from cacheunit_build.parsing.validation import Strict, validate

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from cacheunit_build.domain.document import Document

VERSION = 1
"""The version of the lock's format that this code reads and writes."""

EMPTY = Lock(targets={}, entries={})
_MARKERS = re.compile(r"^(<{7}|={7}|>{7}|\|{7})", re.MULTILINE)
_FIELDS = ("tokens", *sorted({field.name for field in fields(LockEntry)} - {"tokens"}))
_SHA = r"^sha256:[0-9a-f]{64}$"


class _Identity(Strict):
    profile: str = Field(pattern=_SHA)
    tokenizer: str = Field(pattern=_SHA)


class _Entry(Strict):
    tokens: int = Field(ge=0)
    counted: Literal["exact", "estimate"]
    padding: int = Field(ge=0)
    unit: int = Field(ge=0)
    text: str = Field(pattern=_SHA)
    request: str = Field(pattern=_SHA)
    token_ids: str | None = Field(default=None, pattern=_SHA)


class _Lock(Strict):
    version: int = Field(ge=VERSION, le=VERSION)
    targets: dict[str, _Identity]
    prefixes: dict[str, dict[str, _Entry]]


class LockUnknownError(CacheunitError):
    """The lock says nothing that can be relied on: it is broken, or in the middle of a merge. `build` makes it anew."""


class NewerLockError(CacheunitError):
    """A newer version wrote the lock: it is neither read nor replaced."""


def parse_lock(data: bytes, path: str) -> Lock:
    """The lock in `data`.

    Raises:
        LockUnknownError: it has conflict markers, or is no lock.
        NewerLockError: a newer version than `VERSION` wrote it.
    """
    marker = _MARKERS.search(data.decode("utf-8", "replace"))
    if marker is not None:
        line = data.decode("utf-8", "replace").count("\n", 0, marker.start()) + 1
        raise _unknown("the lock has merge-conflict markers", path, line)
    try:
        document = read_json(data, path, lines=False)
        _refuse_newer(document, data)
        read = _validated(document, data)
    except NewerLockError:
        raise
    except CacheunitError as error:
        raise _unknown(f"the lock is broken: {error.faults[0].message}", path, error.faults[0].line) from None
    return Lock(
        targets={name: TargetIdentity(**identity.model_dump()) for name, identity in read.targets.items()},
        entries={
            (prefix, target): LockEntry(**entry.model_dump())
            for prefix, by_target in read.prefixes.items()
            for target, entry in by_target.items()
        },
    )


def _unknown(message: str, path: str, line: int | None) -> LockUnknownError:
    hint = 'run "cacheunit build" to make it anew from the sources'
    return LockUnknownError(Fault(message=message, path=path, line=line, hint=hint))


def _refuse_newer(document: Document, data: bytes) -> None:
    version = document.value.get("version") if isinstance(document.value, dict) else None
    if isinstance(version, int) and not isinstance(version, bool) and version > VERSION:
        message = f"the lock has version {version}; this cacheunit reads version {VERSION}"
        line = read_json(data, document.path).line(("version",))
        hint = "use the cacheunit that wrote it, or a newer one"
        raise NewerLockError(Fault(message=message, path=document.path, line=line, hint=hint))


def _validated(document: Document, data: bytes) -> _Lock:
    """The lock as its schema has it; lines are looked for only where something is wrong."""
    try:
        read = validate(_Lock, document)
    except CacheunitError:
        return validate(_Lock, read_json(data, document.path))
    wrong = next(_misplaced(read), None)
    if wrong is not None:
        raise fail(wrong[0], path=document.path, line=read_json(data, document.path).line(wrong[1:]))
    return read


def _misplaced(read: _Lock) -> Iterator[tuple[str, ...]]:
    """What `write_lock` would not write, and yet a merge by line may: message, and the keys where it stands."""
    used = {target for by_target in read.prefixes.values() for target in by_target}
    blocks: list[tuple[tuple[str, ...], Collection[str]]] = [
        (("targets",), read.targets),
        (("prefixes",), read.prefixes),
    ]
    blocks += [(("prefixes", prefix), by_target) for prefix, by_target in read.prefixes.items()]
    for keys, block in blocks:
        if not block and len(keys) > 1:
            yield f'"{keys[1]}" has no target', *keys
        for before, after in pairwise(block):
            if before > after:
                yield f'"{after}" stands after "{before}"', *keys, after
    for target in sorted(used ^ read.targets.keys()):
        if target in used:
            yield f'the target "{target}" is not listed', "targets"
        else:
            yield f'nothing uses the target "{target}"', "targets", target


def write_lock(lock: Lock) -> bytes:
    """The one JSON text of a lock: two-space indent, sorted keys with `tokens` first in an entry, LF, final newline."""
    prefixes: dict[str, dict[str, dict[str, str | int]]] = {}
    for (prefix, target), entry in sorted(lock.entries.items()):
        said = {name: value for name in _FIELDS if (value := getattr(entry, name)) is not None}
        prefixes.setdefault(prefix, {})[target] = said
    targets = {
        name: {"profile": lock.targets[name].profile, "tokenizer": lock.targets[name].tokenizer}
        for name in sorted({target for _, target in lock.entries})
    }
    value = {"version": VERSION, "targets": targets, "prefixes": prefixes}
    return json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n"


def drift_between(before: Lock, after: Lock) -> Iterator[Drift]:
    """What a build would change in the lock `before`, by prefix and target.

    Another vocabulary, or the same text with other token ids, is `tokenizer`; other rules of the target are `profile`.
    """
    for key in sorted({*before.entries, *after.entries}):
        prefix, target = key
        old, new = before.entries.get(key), after.entries.get(key)
        if old is None or new is None:
            yield Drift(prefix=prefix, target=target, kind="added" if old is None else "removed")
            continue
        was, now = before.targets.get(target), after.targets[target]
        same_bytes = (old.text, old.request) == (new.text, new.request)
        if was is None or was.tokenizer != now.tokenizer:
            yield Drift(prefix=prefix, target=target, kind="tokenizer")
        elif was.profile != now.profile:
            yield Drift(prefix=prefix, target=target, kind="profile")
        elif same_bytes and old.token_ids != new.token_ids:
            yield Drift(prefix=prefix, target=target, kind="tokenizer")
        elif old != new:
            yield Drift(prefix=prefix, target=target, kind="changed")


def drift_on_disk(
    lock: Lock, folder: str, found: Callable[[str], str | None], files: Collection[str]
) -> Iterator[Drift]:
    """What in `build/` is not what the lock says.

    Args:
        lock: the lock.
        folder: the build folder.
        found: root-relative path -> fingerprint of its bytes, None where there is no such file.
        files: every file in the build folder.
    """
    listed: set[str] = set()
    for (prefix, target), entry in sorted(lock.entries.items()):
        paths = artifact_paths(prefix, target, folder)
        listed.update(paths)
        for path, wanted in zip(paths, (entry.text, entry.request), strict=True):
            actual = found(path)
            if actual != wanted:
                kind: Literal["missing", "edited"] = "missing" if actual is None else "edited"
                yield Drift(prefix=prefix, target=target, kind=kind, path=path)
    for path in sorted(set(files) - listed):
        yield Drift(prefix="", target="", kind="orphan", path=path)
