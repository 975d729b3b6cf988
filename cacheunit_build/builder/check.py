"""Checks a project: compiles it in memory, and compares the result with the lock and the build folder."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cacheunit_build.builder.changed_inputs import ChangedInputs
from cacheunit_build.builder.chunks import BuildOptions, build_chunks
from cacheunit_build.builder.results import CheckResult
from cacheunit_build.builder.up_to_date import listed_only, reusable_records
from cacheunit_build.domain.artifact import locked_files
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.file_names import LOCK_FILE, manifest_path
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.lock import Lock
from cacheunit_build.domain.selection import Selection
from cacheunit_build.lockfile.drift import drift_between, drift_on_disk
from cacheunit_build.lockfile.format import read_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.compiler.project import ProjectRecords
    from cacheunit_build.domain.drift import Drift
    from cacheunit_build.domain.protocols import Adapters, ProjectFiles


def check(
    adapters: Adapters,
    selection: Selection | None = None,
    options: BuildOptions | None = None,
) -> CheckResult:
    """Compiles in memory and compares with the lock and the build folder. Nothing is written.

    Args:
        adapters: the project.
        selection: which artifacts.
        options: how to compile, and what a build would refuse to freeze.
    """
    selection = selection or Selection()
    files = adapters.files
    try:
        lock = read_lock(files)
        reuse = reusable_records(adapters.records, files.fingerprint)
        compiled = build_chunks(
            adapters, selection, options or BuildOptions(), stages=False, fingerprint_of=files.fingerprint, reuse=reuse
        ).records
        notes = [] if files.read(LOCK_FILE) is not None else [f"there is no {LOCK_FILE}"]
        if not files.has_folder(compiled.settings.build):
            notes.append(f"there is no {compiled.settings.build}/: only the lock was compared")
        if compiled.faults:
            return CheckResult(faults=compiled.faults, notes=tuple(notes))
        drift = tuple(all_drift(adapters, compiled, lock))
        estimates = tuple(record for record in compiled.records if record.entry.is_estimate)
        return CheckResult(verified=len(compiled.records), drift=drift, notes=tuple(notes), estimates=estimates)
    except CacheunitError as error:
        return CheckResult(faults=error.faults)


def all_drift(adapters: Adapters, compiled: ProjectRecords, lock: Lock) -> Iterator[Drift]:
    """Yields every difference between sources and lock, then between lock and build folder.

    A difference between sources and lock names the inputs that explain it.
    """
    changed, selection = ChangedInputs(adapters, compiled, lock), compiled.selection
    kept = {key: entry for key, entry in lock.entries.items() if selection and not selection.includes_key(key)}
    now = Lock(
        targets={**lock.targets, **compiled.identities},
        entries={**kept, **{record.key: record.entry for record in compiled.records}},
    )
    for drift in drift_between(lock, now):
        inputs = changed.of((drift.prefix, drift.target))
        manifest = manifest_path(compiled.settings.prefixes, drift.prefix) if drift.kind == "added" else None
        yield replace(drift, because=tuple(change.path for change in inputs), manifest=manifest)
    if adapters.files.has_folder(compiled.settings.build):
        yield from _build_folder_drift(adapters, compiled, lock)


def _build_folder_drift(adapters: Adapters, compiled: ProjectRecords, lock: Lock) -> Iterator[Drift]:
    """Yields the selected differences between lock and build folder, one for each artifact and kind."""
    files, folder, selection = adapters.files, compiled.settings.build, compiled.selection
    unlocked = [record for record in compiled.records if record.key not in lock.entries]
    unlocked_files = {path for record in unlocked for path in locked_files(record.key, record.entry, folder)}
    listed = [path for path in files.walk(folder) if path not in unlocked_files]
    reported: set[tuple[str, str, str]] = set()
    for drift in drift_on_disk(lock, folder, listed_only(files.fingerprint, listed), listed):
        if drift.kind == "orphan":
            if not selection:
                yield drift
            continue
        subject = (drift.prefix, drift.target, drift.kind)
        selected = not selection or selection.includes_key((drift.prefix, drift.target))
        if selected and subject not in reported:
            reported.add(subject)
            yield replace(drift, line_ends=_only_line_ends_differ(files, drift, lock))


def _only_line_ends_differ(files: ProjectFiles, drift: Drift, lock: Lock) -> bool:
    """Returns whether an edited file has the locked bytes once CRLF is replaced by LF."""
    key = drift.prefix, drift.target
    data = (files.read(str(drift.path)) or b"") if drift.kind == "edited" else b""
    if b"\r\n" not in data:
        return False
    return fingerprint(data.replace(b"\r\n", b"\n")) in locked_files(key, lock.entries[key], "").values()
