"""The story's last steps: what is compiled is written and locked (`build`), or held against what was (`check`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from cacheunit_build.compiler import compile_project
from cacheunit_build.errors import CacheunitError, Fault, fail
from cacheunit_build.fingerprint import fingerprint
from cacheunit_build.lock import (
    EMPTY,
    LockUnknownError,
    artifact_paths,
    drift_between,
    drift_on_disk,
    parse_lock,
    write_lock,
)
from cacheunit_build.model import Drift, Lock
from cacheunit_build.ports import LOCK, Selection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from cacheunit_build.compiler import Compiled
    from cacheunit_build.model import Artifact, Entry
    from cacheunit_build.ports import Edges, Files, Key, Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What a build did. `written` are the artifacts whose files or entry changed; `drift` is why `--locked` refused."""

    artifacts: tuple[Artifact, ...] = ()
    written: frozenset[Key] = frozenset()
    removed: tuple[Key, ...] = ()
    orphans: tuple[Drift, ...] = ()
    drift: tuple[Drift, ...] = ()
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()
    lock: Literal["written", "unchanged", "refused"] = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An input whose fingerprint is not what it was; None where the file was, or is, absent."""

    path: str
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What `check` found: every drift, every fault; with neither, `verified` artifacts are as locked."""

    verified: int = 0
    drift: tuple[Drift, ...] = ()
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether sources, lock and `build/` agree."""
        return not self.drift and not self.faults


def build(
    edges: Edges, selection: Selection | None = None, *, locked: bool = False, progress: Progress | None = None
) -> Built:
    """Compiles, writes the artifacts that differ, then the lock. With faults, writes nothing.

    Args:
        edges: the outside world.
        selection: which artifacts; entries of others stay in the lock as they are.
        locked: write artifacts only, and only if they match the lock and no file was edited.
        progress: called with the number of manifests done and of all.
    """
    selection = selection or Selection()
    try:
        with edges.files.exclusive():
            before, notes = _lock_to_replace(edges.files, selection, locked=locked)
            compiled = compile_project(edges, selection, progress)
            if compiled.faults:
                return Built(faults=compiled.faults, notes=notes)
            finish = _write_locked if locked else _write
            return replace(finish(edges, compiled, before, selection), notes=notes)
    except CacheunitError as error:
        return Built(faults=error.faults)


def old_lock(files: Files) -> Lock:
    """The lock as it is; empty where there is none.

    Raises:
        LockUnknownError: it is broken or in the middle of a merge.
        CacheunitError: a newer version wrote it.
    """
    data = files.read(LOCK)
    return EMPTY if data is None else parse_lock(data, LOCK)


def _lock_to_replace(files: Files, selection: Selection, *, locked: bool) -> tuple[Lock, tuple[str, ...]]:
    """The lock as it is; one that says nothing reliable is made anew by a whole build, and only by that."""
    if locked and files.read(LOCK) is None:
        raise fail(f"there is no {LOCK} to hold the build to", hint='run "cacheunit build" and commit the lock')
    try:
        return old_lock(files), ()
    except LockUnknownError as error:
        if locked or selection:
            raise
        return EMPTY, (f"{error.faults[0].message}; it is made anew from the sources",)


def _write(edges: Edges, compiled: Compiled, before: Lock, selection: Selection) -> Built:
    files, folder = edges.files, compiled.config.build
    kept = {key: entry for key, entry in before.entries.items() if selection and not selection.takes_key(key)}
    after = _merged(compiled, before, kept)
    removed = tuple(sorted(before.entries.keys() - after.entries.keys()))
    wanted = _artifact_files(compiled.artifacts, folder)
    changed = {path: data for path, data in wanted.items() if files.fingerprint(path) != fingerprint(data)}
    lock = write_lock(after)
    new_lock = None if files.read(LOCK) == lock else lock
    gone = [path for key in removed for path in artifact_paths(*key, folder) if files.fingerprint(path) is not None]
    files.sweep(folder)
    if changed or gone or new_lock is not None:
        files.commit(changed, gone, new_lock)
    edges.memory.note(compiled.artifacts, kept)
    written = {
        artifact.key
        for artifact in compiled.artifacts
        if before.entries.get(artifact.key) != artifact.entry
        or any(path in changed for path in artifact_paths(*artifact.key, folder))
    }
    return Built(
        artifacts=compiled.artifacts,
        written=frozenset(written),
        removed=removed,
        orphans=tuple(_orphans(files, after, folder)),
        lock="unchanged" if new_lock is None else "written",
    )


def _write_locked(edges: Edges, compiled: Compiled, before: Lock, selection: Selection) -> Built:
    """Writes what is missing in `build/`, if everything matches the lock and nothing there was edited."""
    files, folder = edges.files, compiled.config.build
    drift = [item for item in _all_drift(edges, compiled, before, selection) if item.kind not in ("missing", "orphan")]
    if drift:
        return Built(artifacts=compiled.artifacts, drift=tuple(drift))
    wanted = _artifact_files(compiled.artifacts, folder)
    missing = {path: data for path, data in wanted.items() if files.fingerprint(path) is None}
    files.sweep(folder)
    if missing:
        files.commit(missing, (), None)
    written = {a.key for a in compiled.artifacts if any(path in missing for path in artifact_paths(*a.key, folder))}
    return Built(
        artifacts=compiled.artifacts,
        written=frozenset(written),
        orphans=tuple(_orphans(files, before, folder)),
        lock="unchanged",
    )


def check(edges: Edges, selection: Selection | None = None, *, progress: Progress | None = None) -> Checked:
    """Compiles in memory and compares with the lock and with `build/`. Writes nothing at all."""
    selection = selection or Selection()
    try:
        before = old_lock(edges.files)
        compiled = compile_project(edges, selection, progress)
        return _checked(edges, compiled, before, selection)
    except CacheunitError as error:
        return Checked(faults=error.faults)


def _checked(edges: Edges, compiled: Compiled, before: Lock, selection: Selection) -> Checked:
    notes = [] if edges.files.read(LOCK) is not None else [f"there is no {LOCK}"]
    if not edges.files.exists(compiled.config.build):
        notes.append(f"there is no {compiled.config.build}/: compared with the lock alone")
    if compiled.faults:
        return Checked(faults=compiled.faults, notes=tuple(notes))
    drift = tuple(_all_drift(edges, compiled, before, selection))
    return Checked(verified=len(compiled.artifacts), drift=drift, notes=tuple(notes))


def _all_drift(edges: Edges, compiled: Compiled, before: Lock, selection: Selection) -> Iterator[Drift]:
    """What is different between sources and lock, then between lock and `build/`, with the inputs that explain it."""
    files, folder = edges.files, compiled.config.build
    kept = {key: entry for key, entry in before.entries.items() if selection and not selection.takes_key(key)}
    after = Lock(
        targets={**before.targets, **compiled.identities},
        entries={**kept, **{artifact.key: artifact.entry for artifact in compiled.artifacts}},
    )
    for drift in drift_between(before, after):
        changed = changed_inputs(edges, compiled, before, (drift.prefix, drift.target))
        yield replace(drift, because=tuple(change.path for change in changed))
    if not files.exists(folder):
        return
    unlocked = {path for key in compiled.keys - before.entries.keys() for path in artifact_paths(*key, folder)}
    listed = [path for path in files.walk(folder) if path not in unlocked]
    told: set[tuple[str, str, str]] = set()
    for drift in drift_on_disk(before, folder, files.fingerprint, listed):
        known = (drift.prefix, drift.target, drift.kind)
        outside = bool(selection) and (drift.kind == "orphan" or not selection.takes_key((drift.prefix, drift.target)))
        if not outside and (drift.kind == "orphan" or known not in told):
            told.add(known)
            yield drift


def changed_inputs(edges: Edges, compiled: Compiled, before: Lock, key: Key) -> tuple[Change, ...]:
    """The files that differ from what made the lock's entry of `key`: as the cache recorded it, else as git has it.

    Empty where neither knows.
    """
    entry = before.entries.get(key)
    if entry is None:
        return ()
    artifact = compiled.find(key)
    now = {} if artifact is None else {lookup.path: lookup.found for lookup in artifact.lookups}
    then = edges.memory.of(*key, entry)
    if then is None:
        then = _committed(edges, now)
    changes = (
        Change(path=path, old=then.get(path), new=now[path] if path in now else edges.files.fingerprint(path))
        for path in sorted({*then, *now})
    )
    return tuple(change for change in changes if change.old != change.new)


def _committed(edges: Edges, now: Mapping[str, str | None]) -> Mapping[str, str | None]:
    """The same files as they were committed with the lock; as they are now where git does not know."""
    then = dict(now)
    for path in now:
        committed = edges.history.before(path)
        if committed is None:
            return now
        data = committed[0]
        then[path] = None if data is None else _as_checked_out(data, now[path])
    return then


def _as_checked_out(data: bytes, found: str | None) -> str:
    """The fingerprint of committed bytes, or of these with CRLF if that is what git made of them in the work tree."""
    with_crlf = fingerprint(data.replace(b"\n", b"\r\n"))
    return with_crlf if with_crlf == found else fingerprint(data)


def _merged(compiled: Compiled, before: Lock, kept: Mapping[Key, Entry]) -> Lock:
    """The new lock: what was compiled, and the entries that were not meant."""
    for _, target in sorted(kept):
        identity = compiled.identities.get(target)
        if identity is not None and before.targets.get(target) != identity:
            raise fail(
                f'target "{target}" is not the one that the lock was made for',
                hint='run "cacheunit build" without names, so that all its artifacts change together',
            )
    return Lock(
        targets={**before.targets, **compiled.identities},
        entries={
            **kept,
            **{artifact.key: artifact.entry for artifact in compiled.artifacts},
        },
    )


def _artifact_files(artifacts: Iterable[Artifact], folder: str) -> dict[str, bytes]:
    return {
        path: data
        for artifact in artifacts
        for path, data in zip(artifact_paths(*artifact.key, folder), (artifact.text, artifact.request), strict=True)
    }


def _orphans(files: Files, lock: Lock, folder: str) -> list[Drift]:
    listed = {path for key in lock.entries for path in artifact_paths(*key, folder)}
    return [Drift(prefix="", target="", kind="orphan", path=p) for p in files.walk(folder) if p not in listed]
