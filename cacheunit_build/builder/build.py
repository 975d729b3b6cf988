"""The story's last steps: what is compiled is written and locked (`build`), or held against what was (`check`)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from cacheunit_build.builder.changed_inputs import ChangedInputs
from cacheunit_build.builder.results import BuildResult, CheckResult
from cacheunit_build.builder.up_to_date import on_disk
from cacheunit_build.compiler.project import compile_project
from cacheunit_build.domain.build_record import BuildRecord, trace_of
from cacheunit_build.domain.errors import CacheunitError, fail
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.models import Artifact, Drift, Lock, artifact_paths
from cacheunit_build.domain.protocols import LOCK_FILE, Selection
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

    from cacheunit_build.compiler.project import CompiledProject
    from cacheunit_build.domain.build_record import PrefixRecord
    from cacheunit_build.domain.models import ArtifactRecord, LockEntry
    from cacheunit_build.domain.protocols import Adapters, ArtifactKey, ProgressCallback, ProjectFiles


def build(
    adapters: Adapters,
    selection: Selection | None = None,
    *,
    locked: bool = False,
    progress: ProgressCallback | None = None,
    jobs: int = 1,
) -> BuildResult:
    """Compiles, writes the artifacts that differ, then the lock. With faults, writes nothing.

    Args:
        adapters: the outside world.
        selection: which artifacts; entries of others stay in the lock as they are.
        locked: write artifacts only, and only if they match the lock and no file was edited.
        progress: called with the number of manifests done and of all.
        jobs: how many threads compile; the result does not depend on it.
    """
    selection = selection or Selection()
    try:
        with adapters.files.exclusive():
            adapters.memory.begin()
            before, notes = _lock_to_replace(adapters, selection, locked=locked)
            reuse = None if locked else _reuse(adapters, adapters.files.known_fingerprint, artifacts=True)
            compiled = compile_project(adapters, selection, progress, reuse=reuse, jobs=jobs)
            if compiled.faults:
                return BuildResult(faults=compiled.faults, notes=notes)
            finish = _write_locked if locked else _write
            return replace(finish(adapters, compiled, before, selection), notes=notes)
    except CacheunitError as error:
        return BuildResult(faults=error.faults)


def old_lock(files: ProjectFiles) -> Lock:
    """The lock as it is; empty where there is none.

    Raises:
        LockUnknownError: it is broken or in the middle of a merge.
        CacheunitError: a newer version wrote it.
    """
    data = files.read(LOCK_FILE)
    return EMPTY if data is None else parse_lock(data, LOCK_FILE)


def _lock_to_replace(adapters: Adapters, selection: Selection, *, locked: bool) -> tuple[Lock, tuple[str, ...]]:
    """The lock as it is; one that says nothing reliable is made anew by a whole build, and only by that."""
    data, record = adapters.files.read(LOCK_FILE), adapters.memory.recall()
    if locked and data is None:
        raise fail(f"there is no {LOCK_FILE} to hold the build to", hint='run "cacheunit build" and commit the lock')
    if data is not None and record is not None and record.lock == fingerprint(data):
        told = record.locked()  # which takes less time than to parse the same
        if told is not None:
            return told, ()
    try:
        return old_lock(adapters.files), ()
    except LockUnknownError as error:
        if locked or selection:
            raise
        return EMPTY, (f"{error.faults[0].message}; it is made anew from the sources",)


def _write(adapters: Adapters, compiled: CompiledProject, before: Lock, selection: Selection) -> BuildResult:
    files, folder = adapters.files, compiled.config.build
    kept = {key: entry for key, entry in before.entries.items() if selection and not selection.includes_key(key)}
    after = _merged(compiled, before, kept)
    removed = tuple(sorted(before.entries.keys() - after.entries.keys()))
    wanted = _artifact_files(compiled.artifacts, folder)
    changed = {path: data for path, (data, found) in wanted.items() if files.fingerprint(path) != found}
    lock = write_lock(after)
    new_lock = None if files.read(LOCK_FILE) == lock else lock
    gone = [path for key in removed for path in artifact_paths(*key, folder) if files.fingerprint(path) is not None]
    replaced = {
        artifact.key: (before.entries[artifact.key], files.read(artifact_paths(*artifact.key, folder)[0]) or b"")
        for artifact in compiled.artifacts
        if artifact.key in before.entries and artifact_paths(*artifact.key, folder)[0] in changed
    }
    if changed or gone or new_lock is not None:
        _commit(files, changed, gone, new_lock, folder)
    files.sweep(folder)
    _remember(adapters, compiled, after, lock)
    written = {
        artifact.key
        for artifact in compiled.artifacts
        if before.entries.get(artifact.key) != artifact.entry
        or any(path in changed for path in artifact_paths(*artifact.key, folder))
    }
    return BuildResult(
        artifacts=compiled.artifacts,
        written=frozenset(written),
        removed=removed,
        orphans=tuple(_orphans(files, after, folder)),
        lock="unchanged" if new_lock is None else "written",
        replaced=replaced,
        targets=compiled.targets,
    )


def _commit(
    files: ProjectFiles, changed: Mapping[str, bytes], gone: Sequence[str], new_lock: bytes | None, folder: str
) -> None:
    """Writes. If that fails, what a killed build left is removed all the same: it may be what fills the disk."""
    try:
        files.commit(changed, gone, new_lock)
    except CacheunitError:
        files.sweep(folder)
        raise


def _write_locked(adapters: Adapters, compiled: CompiledProject, before: Lock, selection: Selection) -> BuildResult:
    """Writes what is missing in `build/`, if everything matches the lock and nothing there was edited."""
    files, folder = adapters.files, compiled.config.build
    drift = [
        item for item in _all_drift(adapters, compiled, before, selection) if item.kind not in ("missing", "orphan")
    ]
    if drift:
        return BuildResult(artifacts=compiled.artifacts, drift=tuple(drift))
    wanted = _artifact_files(compiled.artifacts, folder)
    missing = {path: data for path, (data, _) in wanted.items() if files.fingerprint(path) is None}
    files.sweep(folder)
    if missing:
        files.commit(missing, (), None)
    written = {a.key for a in compiled.artifacts if any(path in missing for path in artifact_paths(*a.key, folder))}
    return BuildResult(
        artifacts=compiled.artifacts,
        written=frozenset(written),
        orphans=tuple(_orphans(files, before, folder)),
        lock="unchanged",
    )


def _reuse(
    adapters: Adapters, fingerprint_now: Callable[[str], str | None], *, artifacts: bool
) -> Callable[[str], PrefixRecord | None] | None:
    """What gives the trace of a manifest, instead of compiling it, while it holds; None where nothing is known.

    With `artifacts`, only where its files in `build/` are there and whole, since nothing could make them anew.
    """
    record = adapters.memory.recall()
    found = cache(fingerprint_now)
    if record is None or not record.settled(found):
        return None

    def holding(path: str) -> PrefixRecord | None:
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


def _remember(adapters: Adapters, compiled: CompiledProject, after: Lock, lock: bytes) -> None:
    """Keeps the traces of what was compiled whole, beside those of what was not meant."""
    old = adapters.memory.recall()
    config = compiled.config
    settings = ("pyproject.toml", "cacheunit.toml")
    read = {path: adapters.files.read(path) for path in settings}
    same = {path: None if data is None else fingerprint(data) for path, data in read.items()}
    known = old.traces if old is not None and old.settings == same else {}
    fresh = {path: trace_of(outcomes, compiled.identities) for path, outcomes in compiled.whole.items()}
    traces = {path: trace for path, trace in {**known, **fresh}.items() if path in compiled.manifests}
    record = BuildRecord(
        settings=same,
        folders=(config.prefixes, config.templates, config.build),
        lock=fingerprint(lock),
        traces=traces,
    )
    used = {target: after.targets[target] for _, target in after.entries}
    if record.locked() != replace(after, targets=used):
        record = replace(record, lock=None)
    adapters.memory.keep(record, compiled.vocabularies, adapters.files.seen())
    adapters.tokenizers.keep()


def check(
    adapters: Adapters, selection: Selection | None = None, *, progress: ProgressCallback | None = None, jobs: int = 1
) -> CheckResult:
    """Compiles in memory and compares with the lock and with `build/`. Writes nothing at all."""
    selection = selection or Selection()
    try:
        before = old_lock(adapters.files)
        reuse = _reuse(adapters, adapters.files.fingerprint, artifacts=False)
        compiled = compile_project(adapters, selection, progress, reuse=reuse, jobs=jobs)
        return _checked(adapters, compiled, before, selection)
    except CacheunitError as error:
        return CheckResult(faults=error.faults)


def _checked(adapters: Adapters, compiled: CompiledProject, before: Lock, selection: Selection) -> CheckResult:
    notes = [] if adapters.files.read(LOCK_FILE) is not None else [f"there is no {LOCK_FILE}"]
    if not adapters.files.exists(compiled.config.build):
        notes.append(f"there is no {compiled.config.build}/: compared with the lock alone")
    if compiled.faults:
        return CheckResult(faults=compiled.faults, notes=tuple(notes))
    drift = tuple(_all_drift(adapters, compiled, before, selection))
    return CheckResult(verified=len(compiled.artifacts), drift=drift, notes=tuple(notes))


def _all_drift(adapters: Adapters, compiled: CompiledProject, before: Lock, selection: Selection) -> Iterator[Drift]:
    """What is different between sources and lock, then between lock and `build/`, with the inputs that explain it."""
    files, folder = adapters.files, compiled.config.build
    kept = {key: entry for key, entry in before.entries.items() if selection and not selection.includes_key(key)}
    after = Lock(
        targets={**before.targets, **compiled.identities},
        entries={**kept, **{artifact.key: artifact.entry for artifact in compiled.artifacts}},
    )
    since = ChangedInputs(adapters, compiled, before)
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
        outside = bool(selection) and (
            drift.kind == "orphan" or not selection.includes_key((drift.prefix, drift.target))
        )
        if not outside and (drift.kind == "orphan" or known not in told):
            told.add(known)
            yield drift


def _merged(compiled: CompiledProject, before: Lock, kept: Mapping[ArtifactKey, LockEntry]) -> Lock:
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


def _artifact_files(outcomes: Iterable[ArtifactRecord], folder: str) -> dict[str, tuple[bytes, str]]:
    """The bytes and fingerprints of what was compiled; the files of reused outcomes are there already."""
    found: dict[str, tuple[bytes, str]] = {}
    for artifact in outcomes:
        if isinstance(artifact, Artifact):
            text, request = artifact_paths(*artifact.key, folder)
            found[text] = (artifact.text, artifact.entry.text)
            found[request] = (artifact.request, artifact.entry.request)
    return found


def _orphans(files: ProjectFiles, lock: Lock, folder: str) -> list[Drift]:
    listed = {path for key in lock.entries for path in artifact_paths(*key, folder)}
    return [Drift(prefix="", target="", kind="orphan", path=p) for p in files.walk(folder) if p not in listed]
