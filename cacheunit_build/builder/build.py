"""The story's last steps: what is compiled is written and locked (`build`), or held against what was (`check`)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from cacheunit_build.builder.changed_inputs import SinceLock
from cacheunit_build.builder.results import Built, Checked
from cacheunit_build.builder.up_to_date import on_disk
from cacheunit_build.compiler.project import compile_project
from cacheunit_build.domain.build_record import Record, trace_of
from cacheunit_build.domain.errors import CacheunitError, fail
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.models import Artifact, Drift, Lock, artifact_paths
from cacheunit_build.domain.protocols import LOCK, Selection
from cacheunit_build.lockfile.format import (
    EMPTY,
    LockUnknownError,
    drift_between,
    drift_on_disk,
    parse_lock,
    write_lock,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from cacheunit_build.compiler.project import Compiled
    from cacheunit_build.domain.build_record import Trace
    from cacheunit_build.domain.models import Entry, Outcome
    from cacheunit_build.domain.protocols import Edges, Files, Key, Progress


def build(
    edges: Edges,
    selection: Selection | None = None,
    *,
    locked: bool = False,
    progress: Progress | None = None,
    jobs: int = 1,
) -> Built:
    """Compiles, writes the artifacts that differ, then the lock. With faults, writes nothing.

    Args:
        edges: the outside world.
        selection: which artifacts; entries of others stay in the lock as they are.
        locked: write artifacts only, and only if they match the lock and no file was edited.
        progress: called with the number of manifests done and of all.
        jobs: how many threads compile; the result does not depend on it.
    """
    selection = selection or Selection()
    try:
        with edges.files.exclusive():
            edges.memory.begin()
            before, notes = _lock_to_replace(edges, selection, locked=locked)
            reuse = None if locked else _reuse(edges, edges.files.known_fingerprint, artifacts=True)
            compiled = compile_project(edges, selection, progress, reuse=reuse, jobs=jobs)
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


def _lock_to_replace(edges: Edges, selection: Selection, *, locked: bool) -> tuple[Lock, tuple[str, ...]]:
    """The lock as it is; one that says nothing reliable is made anew by a whole build, and only by that."""
    data, record = edges.files.read(LOCK), edges.memory.recall()
    if locked and data is None:
        raise fail(f"there is no {LOCK} to hold the build to", hint='run "cacheunit build" and commit the lock')
    if data is not None and record is not None and record.lock == fingerprint(data):
        told = record.locked()  # which takes less time than to parse the same
        if told is not None:
            return told, ()
    try:
        return old_lock(edges.files), ()
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
    changed = {path: data for path, (data, found) in wanted.items() if files.fingerprint(path) != found}
    lock = write_lock(after)
    new_lock = None if files.read(LOCK) == lock else lock
    gone = [path for key in removed for path in artifact_paths(*key, folder) if files.fingerprint(path) is not None]
    replaced = {
        artifact.key: (before.entries[artifact.key], files.read(artifact_paths(*artifact.key, folder)[0]) or b"")
        for artifact in compiled.artifacts
        if artifact.key in before.entries and artifact_paths(*artifact.key, folder)[0] in changed
    }
    if changed or gone or new_lock is not None:
        _commit(files, changed, gone, new_lock, folder)
    files.sweep(folder)
    _remember(edges, compiled, after, lock)
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
        replaced=replaced,
        targets=compiled.targets,
    )


def _commit(
    files: Files, changed: Mapping[str, bytes], gone: Sequence[str], new_lock: bytes | None, folder: str
) -> None:
    """Writes. If that fails, what a killed build left is removed all the same: it may be what fills the disk."""
    try:
        files.commit(changed, gone, new_lock)
    except CacheunitError:
        files.sweep(folder)
        raise


def _write_locked(edges: Edges, compiled: Compiled, before: Lock, selection: Selection) -> Built:
    """Writes what is missing in `build/`, if everything matches the lock and nothing there was edited."""
    files, folder = edges.files, compiled.config.build
    drift = [item for item in _all_drift(edges, compiled, before, selection) if item.kind not in ("missing", "orphan")]
    if drift:
        return Built(artifacts=compiled.artifacts, drift=tuple(drift))
    wanted = _artifact_files(compiled.artifacts, folder)
    missing = {path: data for path, (data, _) in wanted.items() if files.fingerprint(path) is None}
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


def _reuse(
    edges: Edges, fingerprint_now: Callable[[str], str | None], *, artifacts: bool
) -> Callable[[str], Trace | None] | None:
    """What gives the trace of a manifest, instead of compiling it, while it holds; None where nothing is known.

    With `artifacts`, only where its files in `build/` are there and whole, since nothing could make them anew.
    """
    record = edges.memory.recall()
    found = cache(fingerprint_now)
    if record is None or not record.settled(found):
        return None

    def holding(path: str) -> Trace | None:
        trace = record.traces.get(path)
        try:
            if trace is None or not trace.holds(found):
                return None
        except CacheunitError:  # the whole story tells it, with its place
            return None
        if artifacts and not all(on_disk(outcome, record.folders[2], found) for outcome in trace.outcomes):
            return None
        return trace

    return holding


def _remember(edges: Edges, compiled: Compiled, after: Lock, lock: bytes) -> None:
    """Keeps the traces of what was compiled whole, beside those of what was not meant."""
    old = edges.memory.recall()
    config = compiled.config
    settings = ("pyproject.toml", "cacheunit.toml")
    read = {path: edges.files.read(path) for path in settings}
    same = {path: None if data is None else fingerprint(data) for path, data in read.items()}
    known = old.traces if old is not None and old.settings == same else {}
    fresh = {path: trace_of(outcomes, compiled.identities) for path, outcomes in compiled.whole.items()}
    traces = {path: trace for path, trace in {**known, **fresh}.items() if path in compiled.manifests}
    record = Record(
        settings=same,
        folders=(config.prefixes, config.templates, config.build),
        lock=fingerprint(lock),
        traces=traces,
    )
    used = {target: after.targets[target] for _, target in after.entries}
    if record.locked() != replace(after, targets=used):
        record = replace(record, lock=None)
    edges.memory.keep(record, compiled.vocabularies, edges.files.seen())
    edges.tokenizers.keep()


def check(
    edges: Edges, selection: Selection | None = None, *, progress: Progress | None = None, jobs: int = 1
) -> Checked:
    """Compiles in memory and compares with the lock and with `build/`. Writes nothing at all."""
    selection = selection or Selection()
    try:
        before = old_lock(edges.files)
        reuse = _reuse(edges, edges.files.fingerprint, artifacts=False)
        compiled = compile_project(edges, selection, progress, reuse=reuse, jobs=jobs)
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
    since = SinceLock(edges, compiled, before)
    for drift in drift_between(before, after):
        changed = since.changed((drift.prefix, drift.target))
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


def _artifact_files(outcomes: Iterable[Outcome], folder: str) -> dict[str, tuple[bytes, str]]:
    """The bytes and fingerprints of what was compiled; the files of reused outcomes are there already."""
    found: dict[str, tuple[bytes, str]] = {}
    for artifact in outcomes:
        if isinstance(artifact, Artifact):
            text, request = artifact_paths(*artifact.key, folder)
            found[text] = (artifact.text, artifact.entry.text)
            found[request] = (artifact.request, artifact.entry.request)
    return found


def _orphans(files: Files, lock: Lock, folder: str) -> list[Drift]:
    listed = {path for key in lock.entries for path in artifact_paths(*key, folder)}
    return [Drift(prefix="", target="", kind="orphan", path=p) for p in files.walk(folder) if p not in listed]
