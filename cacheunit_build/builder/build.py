"""Builds a project: compiles it, writes the artifacts that differ, and then the lock."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cacheunit_build.builder.check import all_drift
from cacheunit_build.builder.results import BuildResult
from cacheunit_build.builder.up_to_date import listed_only, reusable_records
from cacheunit_build.compiler.project import compile_project
from cacheunit_build.domain.artifact import locked_files
from cacheunit_build.domain.build_record import BuildRecord, prefix_record
from cacheunit_build.domain.drift import Drift
from cacheunit_build.domain.errors import CacheunitError, fail
from cacheunit_build.domain.file_names import LOCK_FILE, LOCK_VERSION, SETTINGS_FILES, files_of_artifacts
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.lock import Lock
from cacheunit_build.domain.selection import Selection
from cacheunit_build.lockfile.format import EMPTY_LOCK, LockUnknownError, lock_bytes, read_lock

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cacheunit_build.builder.results import Gate
    from cacheunit_build.builder.up_to_date import Fingerprints
    from cacheunit_build.compiler.project import CompiledProject
    from cacheunit_build.domain.artifact import Artifact, ArtifactRecord
    from cacheunit_build.domain.lock import ArtifactKey, LockEntry
    from cacheunit_build.domain.protocols import Adapters, ProgressCallback, ProjectFiles


def build(  # noqa: PLR0913 - each is passed by name
    adapters: Adapters,
    selection: Selection | None = None,
    *,
    locked: bool = False,
    progress: ProgressCallback | None = None,
    jobs: int = 1,
    gate: Gate | None = None,
) -> BuildResult:
    """Compiles, writes the artifacts that differ, then the lock. With any fault, nothing is written.

    Args:
        adapters: the project.
        selection: which artifacts; entries of others stay in the lock as they are.
        locked: write artifacts only, and only if they match the lock and no file was edited.
        progress: called with the number of compiled manifests and the number of all.
        jobs: the number of threads; the result does not depend on it.
        gate: finds what must not be frozen; artifacts that are reused passed it when they were compiled.
    """
    selection = selection or Selection()
    try:
        with adapters.files.exclusive():
            adapters.records.start()
            if locked:
                return _build_locked(adapters, selection, progress, jobs, gate)
            return _build(adapters, selection, progress, jobs, gate)
    except CacheunitError as error:
        return BuildResult(faults=error.faults)


def _build(
    adapters: Adapters, selection: Selection, progress: ProgressCallback | None, jobs: int, gate: Gate | None
) -> BuildResult:
    old, notes = _lock_to_replace(adapters, selection)
    reuse = reusable_records(adapters.records, adapters.files.known_fingerprint, adapters.files)
    compiled = compile_project(adapters, selection, progress, reuse=reuse, jobs=jobs)
    faults = compiled.faults or (gate(adapters, compiled) if gate else ())
    if faults:
        return BuildResult(faults=faults, notes=notes)
    return replace(_write(adapters, compiled, old), notes=notes)


def _build_locked(
    adapters: Adapters, selection: Selection, progress: ProgressCallback | None, jobs: int, gate: Gate | None
) -> BuildResult:
    if adapters.files.read(LOCK_FILE) is None:
        raise fail(f"there is no {LOCK_FILE} to compare with", hint='run "cacheunit build" and commit the lock')
    lock = read_lock(adapters.files)
    compiled = compile_project(adapters, selection, progress, jobs=jobs)
    faults = compiled.faults or (gate(adapters, compiled) if gate else ())
    if faults:
        return BuildResult(faults=faults)
    return _write_missing(adapters, compiled, lock)


def _lock_to_replace(adapters: Adapters, selection: Selection) -> tuple[Lock, tuple[str, ...]]:
    """Returns the present lock, and notes. A broken lock counts as empty if the whole project is built.

    Raises:
        CacheunitError: the lock is broken and only a part is built, or a newer version wrote it.
    """
    data, record = adapters.files.read(LOCK_FILE), adapters.records.valid_record()
    if data is not None and record is not None and record.lock == fingerprint(data):
        contents = record.lock_contents()  # quicker than parsing the lock, which has the same contents
        if contents is not None:
            return contents, ()
    try:
        return read_lock(adapters.files), ()
    except LockUnknownError as error:
        if selection:
            raise
        return EMPTY_LOCK, (f"{error.faults[0].message}; it is rebuilt from the sources",)


def _write(adapters: Adapters, compiled: CompiledProject, old: Lock) -> BuildResult:
    """Writes the artifacts that changed, removes those that no longer exist, and writes the lock."""
    files, folder = adapters.files, compiled.settings.build
    new = _new_lock(compiled, old)
    removed = tuple(sorted(old.entries.keys() - new.entries.keys()))
    fingerprint_of = listed_only(files.fingerprint, files.walk(folder))
    changed = _changed_files(fingerprint_of, compiled.artifacts, folder)
    lock = lock_bytes(new)
    lock_changed = files.read(LOCK_FILE) != lock
    removed_files = _unedited_files(fingerprint_of, old, new, folder)
    # Listed before anything is written, since a link to a folder in the build folder is refused.
    orphans = tuple(_orphans(files, new, folder, removed_files))
    _commit(files, changed, removed_files, lock if lock_changed else None, folder)
    _save_record(adapters, compiled, new, lock)
    return BuildResult(
        records=compiled.records,
        compiled=compiled.artifacts,
        written=frozenset(
            record.key
            for record in compiled.records
            if old.entries.get(record.key) != record.entry or _has_file(record, folder, changed)
        ),
        removed=removed,
        orphans=orphans,
        lock="written" if lock_changed else "unchanged",
        project=compiled,
    )


def _commit(
    files: ProjectFiles, changed: Mapping[str, bytes], removed: Sequence[str], lock: bytes | None, folder: str
) -> None:
    """Writes and removes files, then writes the lock. Temporary files of a killed build are removed at the end.

    That is done after a failure too, since these files may be what fills the disk.
    """
    try:
        if changed or removed or lock is not None:
            files.commit(changed, removed, lock)
    finally:
        files.remove_leftovers(folder)


def _unedited_files(fingerprint_of: Fingerprints, old: Lock, new: Lock, folder: str) -> list[str]:
    """Returns the artifact files that only the old lock names and that still match it; edited ones are not removed."""
    wanted = {path for key, entry in new.entries.items() for path in locked_files(key, entry, folder)}
    unedited: list[str] = []
    for key, entry in old.entries.items():
        former = {path: locked for path, locked in locked_files(key, entry, folder).items() if path not in wanted}
        found = {path: fingerprint_of(path) for path in former}
        if all(now in (None, former[path]) for path, now in found.items()):
            unedited += [path for path, now in found.items() if now is not None]
    return unedited


def _write_missing(adapters: Adapters, compiled: CompiledProject, lock: Lock) -> BuildResult:
    """Writes what is missing in the build folder, if everything matches the lock and no file there was edited."""
    files, folder = adapters.files, compiled.settings.build
    drift = [item for item in all_drift(adapters, compiled, lock) if item.kind not in ("missing", "orphan")]
    if drift:
        return BuildResult(records=compiled.records, drift=tuple(drift))
    fingerprint_of = listed_only(files.fingerprint, files.walk(folder))
    missing = {
        path: data for path, data in artifact_files(compiled.artifacts, folder).items() if fingerprint_of(path) is None
    }
    files.remove_leftovers(folder)
    if missing:
        files.commit(missing, (), None)
    return BuildResult(
        records=compiled.records,
        compiled=compiled.artifacts,
        written=frozenset(item.key for item in compiled.artifacts if _has_file(item.record, folder, missing)),
        orphans=tuple(_orphans(files, lock, folder)),
        lock="unchanged",
    )


def _new_lock(compiled: CompiledProject, old: Lock) -> Lock:
    """Returns the lock with what was compiled, and the old entries of what was not selected.

    Raises:
        CacheunitError: a target changed, and some of its artifacts were not selected.
    """
    selection = compiled.selection
    kept = {key: entry for key, entry in old.entries.items() if selection and not selection.includes_key(key)}
    if kept and old.version != LOCK_VERSION:
        raise fail(
            f"the lock has version {old.version}, which a build of a part cannot rewrite",
            path=LOCK_FILE,
            hint='run "cacheunit build" without names',
        )
    for _, target in sorted(kept):
        identity = compiled.identities.get(target)
        if identity is not None and old.targets.get(target) != identity:
            raise fail(
                f'target "{target}" changed since the lock was made',
                hint='run "cacheunit build" without names, so that all its artifacts change together',
            )
    entries: dict[ArtifactKey, LockEntry] = {**kept, **{record.key: record.entry for record in compiled.records}}
    return Lock(targets={**old.targets, **compiled.identities}, entries=entries)


def artifact_files(artifacts: Iterable[Artifact], folder: str) -> dict[str, bytes]:
    """Returns path -> bytes of the files of compiled artifacts."""
    return {path: data for artifact in artifacts for path, data in artifact.files(folder).items()}


def _changed_files(fingerprint_of: Fingerprints, artifacts: Iterable[Artifact], folder: str) -> dict[str, bytes]:
    """Returns path -> new bytes of the artifact files that differ or are missing."""
    changed: dict[str, bytes] = {}
    for artifact in artifacts:
        expected = locked_files(artifact.key, artifact.entry, folder)
        contents = artifact.files(folder)
        changed |= {path: data for path, data in contents.items() if fingerprint_of(path) != expected[path]}
    return changed


def _has_file(record: ArtifactRecord, folder: str, files: Mapping[str, bytes]) -> bool:
    """Returns whether a file of that artifact is among `files`."""
    return any(path in files for path in locked_files(record.key, record.entry, folder))


def _orphans(files: ProjectFiles, lock: Lock, folder: str, removed: Sequence[str] = ()) -> list[Drift]:
    """Returns the artifacts in the build folder that no lock entry names, without those that are to be removed."""
    listed = {path for key, entry in lock.entries.items() for path in locked_files(key, entry, folder)}.union(removed)
    artifacts = files_of_artifacts(files.walk(folder), folder, {target for _, target in lock.entries})
    paths = sorted(path for path in artifacts if path not in listed)
    return [Drift(prefix="", target="", kind="orphan", path=path) for path in paths]


def _save_record(adapters: Adapters, compiled: CompiledProject, new: Lock, lock: bytes) -> None:
    """Stores the record of this build, with the records of manifests that were not compiled and still hold."""
    last = adapters.records.valid_record()
    contents = {path: adapters.files.read(path) for path in SETTINGS_FILES}
    settings = {path: None if data is None else fingerprint(data) for path, data in contents.items()}
    kept = last.prefixes if last is not None and last.settings == settings else {}
    compiled_now = {
        path: prefix_record([artifact.record for artifact in artifacts], compiled.identities)
        for path, artifacts in compiled.complete.items()
    }
    record = BuildRecord(
        settings=settings,
        folders=(compiled.settings.prefixes, compiled.settings.templates, compiled.settings.build),
        lock=fingerprint(lock),
        prefixes={path: prefix for path, prefix in {**kept, **compiled_now}.items() if path in compiled.manifests},
    )
    used = {target: new.targets[target] for _, target in new.entries}
    if record.lock_contents() != replace(new, targets=used):
        record = replace(record, lock=None)
    adapters.records.save(record, compiled.package_files, adapters.files.observed())
    adapters.tokenizers.save_cache()
