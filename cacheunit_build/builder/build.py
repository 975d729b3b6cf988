"""Builds a project: compiles it, writes the artifacts that differ, and then the lock."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from cacheunit_build.builder.check import all_drift
from cacheunit_build.builder.chunks import BuildOptions, build_chunks
from cacheunit_build.builder.results import BuildResult
from cacheunit_build.builder.up_to_date import listed_only, reusable_records
from cacheunit_build.domain.artifact import locked_files
from cacheunit_build.domain.build_record import BuildRecord, prefix_record
from cacheunit_build.domain.drift import Drift
from cacheunit_build.domain.errors import CacheunitError, PartlyWrittenError, fail
from cacheunit_build.domain.file_names import LOCK_FILE, LOCK_VERSION, MOST_BYTES, SETTINGS_FILES, files_of_artifacts
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.lock import Lock
from cacheunit_build.domain.selection import Selection
from cacheunit_build.lockfile.format import EMPTY_LOCK, LockUnknownError, lock_bytes, read_lock

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from cacheunit_build.builder.chunks import BuiltProject
    from cacheunit_build.builder.up_to_date import Fingerprints
    from cacheunit_build.compiler.project import ProjectRecords
    from cacheunit_build.domain.artifact import Artifact, ArtifactRecord
    from cacheunit_build.domain.lock import ArtifactKey, LockEntry
    from cacheunit_build.domain.protocols import Adapters, ProjectFiles


def build(
    adapters: Adapters, selection: Selection | None = None, options: BuildOptions | None = None, *, locked: bool = False
) -> BuildResult:
    """Compiles, writes the artifacts that differ, then the lock. With any fault, nothing is written.

    Args:
        adapters: the project.
        selection: which artifacts; entries of others stay in the lock as they are.
        options: how to build.
        locked: write artifacts only, and only if they match the lock and no file was edited.
    """
    selection, options = selection or Selection(), options or BuildOptions()
    try:
        with adapters.files.exclusive():
            adapters.records.start()
            return (_build_locked if locked else _build)(adapters, selection, options)
    except CacheunitError as error:
        return BuildResult(faults=error.faults, is_partly_written=isinstance(error, PartlyWrittenError))


def _build(adapters: Adapters, selection: Selection, options: BuildOptions) -> BuildResult:
    old, notes = _lock_to_replace(adapters, selection)
    reuse = reusable_records(adapters.records, adapters.files.known_fingerprint, adapters.files)
    known = adapters.files.known_fingerprint
    built = build_chunks(adapters, selection, options, stages=True, fingerprint_of=known, reuse=reuse)
    if built.records.faults:
        return BuildResult(faults=built.records.faults, notes=notes)
    result = replace(_write(adapters, built, old), notes=notes)
    _share(adapters, built, options)
    return result


def _build_locked(adapters: Adapters, selection: Selection, options: BuildOptions) -> BuildResult:
    if adapters.files.read(LOCK_FILE) is None:
        raise fail(f"there is no {LOCK_FILE} to compare with", hint='run "cacheunit build" and commit the lock')
    lock = read_lock(adapters.files)
    built = build_chunks(adapters, selection, options, stages=True, fingerprint_of=adapters.files.fingerprint)
    if built.records.faults:
        return BuildResult(faults=built.records.faults)
    result = _write_missing(adapters, built, lock)
    if not result.drift:
        _share(adapters, built, options)
    return result


def _share(adapters: Adapters, built: BuiltProject, options: BuildOptions) -> None:
    """Stores in the remote cache what was compiled; its files are in the build folder now."""
    if options.remote is not None:
        options.remote.store(built.plan, built.compiler, built.records, adapters.files.read_now)


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


def _write(adapters: Adapters, built: BuiltProject, old: Lock) -> BuildResult:
    """Moves the artifacts that changed into place, removes those that no longer exist, and writes the lock."""
    files, project, folder = adapters.files, built.records, built.records.settings.build
    with _discarded_on_failure(files, built):
        new = _new_lock(project, old)
        removed = tuple(sorted(old.entries.keys() - new.entries.keys()))
        lock = lock_bytes(new)
        _refuse_unreadable(lock)
        lock_changed = files.read(LOCK_FILE) != lock
        listed = files.walk(folder)
        removed_files = _unedited_files(listed_only(files.fingerprint, listed), old, new, folder)
        # Listed before anything is moved, since a link to a folder in the build folder is refused.
        orphans = tuple(_orphans(listed, new, folder, removed_files))
        _commit(files, built, removed_files, lock if lock_changed else None)
    changed = built.staged_paths
    _save_record(adapters, project, new, lock)
    return BuildResult(
        records=project.records,
        written=frozenset(
            record.key
            for record in project.records
            if old.entries.get(record.key) != record.entry or _has_file(record, folder, changed)
        ),
        removed=removed,
        orphans=orphans,
        lock="written" if lock_changed else "unchanged",
        project=built.compiled,
    )


def _refuse_unreadable(lock: bytes) -> None:
    """Raises a fault for a lock that is larger than any file that is read."""
    if len(lock) > MOST_BYTES:
        size, most = (f"{number / 2**20:,.0f} MiB" for number in (len(lock), MOST_BYTES))
        message = f"the lock would have {size}, and a file is read up to {most}"
        raise fail(message, path=LOCK_FILE, hint="split the project, or give its manifests fewer targets")


@contextmanager
def _discarded_on_failure(files: ProjectFiles, built: BuiltProject) -> Iterator[None]:
    """Removes what was staged if anything fails."""
    try:
        yield
    except BaseException:
        files.discard(built.staged)
        raise


def _commit(files: ProjectFiles, built: BuiltProject, removed: Sequence[str], lock: bytes | None) -> None:
    """Writes and removes files, then writes the lock. Temporary files of a killed build are removed at the end.

    That is done after a failure too, since these files may be what fills the disk.
    """
    try:
        if built.staged_paths or removed or lock is not None:
            files.commit({}, removed, lock, built.staged)
            files.note_written(built.fingerprints_of_staged())
    finally:
        files.remove_leftovers(built.records.settings.build)


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


def _write_missing(adapters: Adapters, built: BuiltProject, lock: Lock) -> BuildResult:
    """Moves what is missing in the build folder into place, if all matches the lock and no file there was edited.

    Then what differs from the build folder is what is missing there.
    """
    files, project, folder = adapters.files, built.records, built.records.settings.build
    with _discarded_on_failure(files, built):
        drift = [item for item in all_drift(adapters, project, lock) if item.kind not in ("missing", "orphan")]
        if drift:
            files.discard(built.staged)
            return BuildResult(records=project.records, drift=tuple(drift))
        orphans = tuple(_orphans(files.walk(folder), lock, folder))
        _commit(files, built, (), None)
    missing = built.staged_paths
    return BuildResult(
        records=project.records,
        written=frozenset(record.key for record in project.records if _has_file(record, folder, missing)),
        orphans=orphans,
        lock="unchanged",
    )


def _new_lock(compiled: ProjectRecords, old: Lock) -> Lock:
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


def _has_file(record: ArtifactRecord, folder: str, files: Collection[str]) -> bool:
    """Returns whether a file of that artifact is among `files`."""
    return any(path in files for path in locked_files(record.key, record.entry, folder))


def _orphans(built: Sequence[str], lock: Lock, folder: str, removed: Sequence[str] = ()) -> list[Drift]:
    """Returns the artifacts in the build folder that no lock entry names, without those that are to be removed.

    Args:
        built: all files in the build folder.
        lock: the lock.
        folder: the build folder.
        removed: the files to be removed.
    """
    listed = {path for key, entry in lock.entries.items() for path in locked_files(key, entry, folder)}.union(removed)
    artifacts = files_of_artifacts(built, folder, {target for _, target in lock.entries})
    paths = sorted(path for path in artifacts if path not in listed)
    return [Drift(prefix="", target="", kind="orphan", path=path) for path in paths]


def _save_record(adapters: Adapters, compiled: ProjectRecords, new: Lock, lock: bytes) -> None:
    """Stores the record of this build, with the records of manifests that were not compiled and still hold."""
    last = adapters.records.valid_record()
    contents = {path: adapters.files.read(path) for path in SETTINGS_FILES}
    settings = {path: None if data is None else fingerprint(data) for path, data in contents.items()}
    kept = last.prefixes if last is not None and last.settings == settings else {}
    compiled_now = {
        path: replace(prefix_record(records, compiled.identities), remote=compiled.remotes.get(path))
        for path, records in compiled.complete.items()
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
