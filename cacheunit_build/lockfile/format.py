"""Parses the lockfile, and formats a lock as its bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from cacheunit_build.domain.constraints import VALIDATION, Limits
from cacheunit_build.domain.document import MEBIBYTE
from cacheunit_build.domain.errors import CacheunitError, Fault, fail
from cacheunit_build.domain.file_names import LOCK_FILE, LOCK_VERSION, is_artifact_name
from cacheunit_build.domain.lock import Lock, LockEntry, TargetIdentity, entry_data, identity_data
from cacheunit_build.lockfile.version_1 import from_version_1
from cacheunit_build.parsing.json import read_json
from cacheunit_build.parsing.validation import validate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from cacheunit_build.domain.document import Document, Keys
    from cacheunit_build.domain.protocols import SourceFiles

MOST_LOCK_BYTES = 256 * MEBIBYTE
EMPTY_LOCK = Lock(targets={}, entries={})
_MARKERS = ("<<<<<<<", "=======", ">>>>>>>", "|||||||")
_CONFLICT_MARKERS = re.compile(r"^(<{7}|={7}|>{7}|\|{7})", re.MULTILINE)
_FIRST_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _LockFile:
    """The JSON of a lockfile: the entries by prefix, then by target."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    version: Annotated[int, Limits(ge=LOCK_VERSION, le=LOCK_VERSION)]
    targets: Mapping[str, TargetIdentity]
    prefixes: Mapping[str, Mapping[str, LockEntry]]


class LockUnknownError(CacheunitError):
    """The lock is broken, or has conflict markers of a merge. A build of the whole project replaces it."""


class NewerLockError(CacheunitError):
    """A newer version of cacheunit wrote the lock: it is neither read nor replaced."""


def read_lock(files: SourceFiles) -> Lock:
    """Returns the lock of a project; an empty one where there is none.

    Raises:
        LockUnknownError: it is broken, or in the middle of a merge.
        NewerLockError: a newer version of cacheunit wrote it.
    """
    data = files.read(LOCK_FILE)
    return EMPTY_LOCK if data is None else parse_lock(data, LOCK_FILE)


def parse_lock(data: bytes, path: str) -> Lock:
    """Returns the lock in `data`.

    Args:
        data: the bytes of a lockfile.
        path: the file, for messages.

    Raises:
        LockUnknownError: it has conflict markers, or is not a lock.
        NewerLockError: it has a newer version than `LOCK_VERSION`.
    """
    return LockReader().read(data, path)


class LockReader:
    """Reads versions of a lock one after another: what is the same as in the version before is validated only once.

    Entries that are equal in both versions are the same object.
    """

    def __init__(self) -> None:
        self._value: Any = None  # of the version before: its JSON, and what it was validated to
        self._lock_file = _LockFile(version=LOCK_VERSION, targets={}, prefixes={})

    def read(self, data: bytes, path: str) -> Lock:
        """Returns the lock in `data`, or raises, as `parse_lock` does."""
        _refuse_conflict_markers(data, path)
        try:
            document = read_json(data, path, lines=False, most_bytes=MOST_LOCK_BYTES)
            version = _version(document, data)
            lock_file = self._validated(document, data, version)
        except NewerLockError:
            raise
        except CacheunitError as error:
            raise _unknown(f"the lock is broken: {error.faults[0].message}", path, error.faults[0].line) from None
        entries = {
            (prefix, target): entry
            for prefix, by_target in lock_file.prefixes.items()
            for target, entry in by_target.items()
        }
        return Lock(targets=lock_file.targets, entries=entries, version=version)

    def _validated(self, document: Document, data: bytes, version: int) -> _LockFile:
        """Returns the lockfile, of which only what changed is validated.

        The lines of keys are searched only if something is wrong, since that takes long.

        Raises:
            CacheunitError: it is not a lock that `lock_bytes` can have written.
        """
        upgrade = from_version_1 if version == _FIRST_VERSION else _unchanged
        upgraded = upgrade(document)
        try:
            changed = validate(_LockFile, replace(upgraded, value=_changed_values(self._value, upgraded.value)))
        except CacheunitError:
            return validate(_LockFile, upgrade(read_json(data, document.path, most_bytes=MOST_LOCK_BYTES)))
        lock_file = _completed(changed, self._lock_file, upgraded.value)
        for message, keys in _misplaced(lock_file, self._lock_file):
            line = read_json(data, document.path, most_bytes=MOST_LOCK_BYTES).line(keys)
            raise fail(message, path=document.path, line=line)
        self._value, self._lock_file = upgraded.value, lock_file
        return lock_file


def _refuse_conflict_markers(data: bytes, path: str) -> None:
    """Raises an error for a lock in the middle of a merge."""
    text = data.decode("utf-8", "replace")
    marker = _CONFLICT_MARKERS.search(text) if any(mark in text for mark in _MARKERS) else None
    if marker is not None:
        line = text.count("\n", 0, marker.start()) + 1
        raise _unknown("the lock has merge-conflict markers", path, line)


def _changed_values(old: Any, new: Any) -> Any:  # noqa: ANN401 - JSON that anybody may have written
    """Returns the JSON of a lock with only those targets and entries that the version before did not have equally.

    What is not a mapping stays as it is, to be refused.
    """
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    targets = _changed_items(old["targets"], new.get("targets"))
    prefixes = _changed_items(old["prefixes"], new.get("prefixes"))
    if isinstance(prefixes, dict):
        prefixes = {
            prefix: _changed_items(old["prefixes"].get(prefix, {}), by_target) for prefix, by_target in prefixes.items()
        }
    return {**new, **{key: value for key, value in (("targets", targets), ("prefixes", prefixes)) if key in new}}


def _changed_items(old: Mapping[str, Any], new: Any) -> Any:  # noqa: ANN401 - as above
    """Returns the items of a mapping that another one does not have equally; what is not a mapping unchanged."""
    return {key: item for key, item in new.items() if old.get(key) != item} if isinstance(new, dict) else new


def _completed(changed: _LockFile, old: _LockFile, value: Any) -> _LockFile:  # noqa: ANN401 - as above
    """Returns a lockfile in the order of its JSON, with what is unchanged from the version before.

    Args:
        changed: what was validated of it.
        old: the version before.
        value: its JSON.
    """
    prefixes = {
        prefix: old.prefixes[prefix]
        if prefix not in changed.prefixes
        else {
            target: changed.prefixes[prefix].get(target) or old.prefixes[prefix][target]
            for target in value["prefixes"][prefix]
        }
        for prefix in value["prefixes"]
    }
    targets = {name: changed.targets.get(name) or old.targets[name] for name in value["targets"]}
    return _LockFile(version=changed.version, targets=targets, prefixes=prefixes)


def _unknown(message: str, path: str, line: int | None) -> LockUnknownError:
    hint = 'run "cacheunit build" to rebuild it from the sources'
    return LockUnknownError(Fault(message=message, path=path, line=line, hint=hint))


def _version(document: Document, data: bytes) -> int:
    """Returns the version of a lock; the present one where there is none, which validation then refuses.

    Raises:
        NewerLockError: a newer version of cacheunit wrote it.
    """
    version = document.value.get("version") if isinstance(document.value, dict) else None
    if not isinstance(version, int) or isinstance(version, bool):
        return LOCK_VERSION
    if version > LOCK_VERSION:
        message = f"the lock has version {version}; this cacheunit reads versions up to {LOCK_VERSION}"
        line = read_json(data, document.path, most_bytes=MOST_LOCK_BYTES).line(("version",))
        hint = "use the cacheunit that wrote it, or a newer one"
        raise NewerLockError(Fault(message=message, path=document.path, line=line, hint=hint))
    return version


def _unchanged(document: Document) -> Document:
    return document


def _misplaced(lock_file: _LockFile, known: _LockFile) -> Iterator[tuple[str, Keys]]:
    """Yields what a merge by line can leave, but `lock_bytes` never writes: a message, and the keys of the place.

    Args:
        lock_file: the lockfile.
        known: another one, whose artifacts have names that an artifact may have.
    """
    blocks: list[tuple[Keys, Collection[str]]] = [
        (("targets",), lock_file.targets),
        (("prefixes",), lock_file.prefixes),
        *((("prefixes", prefix), by_target) for prefix, by_target in lock_file.prefixes.items()),
    ]
    for keys, block in blocks:
        if not block and len(keys) > 1:
            yield f'"{keys[1]}" has no target', keys
        for before, after in pairwise(block):
            if before > after:
                yield f'"{after}" is after "{before}"', (*keys, after)
    keys_of_artifacts = [(prefix, target) for prefix, found in lock_file.prefixes.items() for target in found]
    for prefix, target in keys_of_artifacts:
        if target not in known.prefixes.get(prefix, ()) and not is_artifact_name(prefix, target):
            yield f"{prefix!r} and {target!r} cannot name an artifact", ("prefixes", prefix, target)
    used = {target for _, target in keys_of_artifacts}
    for target in sorted(used ^ lock_file.targets.keys()):
        if target in used:
            yield f'the target "{target}" is not listed', ("targets",)
        else:
            yield f'the target "{target}" is not used', ("targets", target)


def lock_bytes(lock: Lock) -> bytes:
    """Returns a lock as JSON: two-space indent, sorted keys with `tokens` first in an entry, LF, final newline.

    Equal locks give equal bytes.
    """
    prefixes: dict[str, dict[str, dict[str, Any]]] = {}
    for (prefix, target), entry in sorted(lock.entries.items()):
        prefixes.setdefault(prefix, {})[target] = entry_data(entry)
    targets = {name: identity_data(lock.targets[name]) for name in sorted({target for _, target in lock.entries})}
    value = {"version": LOCK_VERSION, "targets": targets, "prefixes": prefixes}
    return json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n"
