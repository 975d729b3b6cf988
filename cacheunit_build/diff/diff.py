"""Compares a project with an older version of itself: both are compiled in memory, or the older one is only a lock."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from cacheunit_build.compiler.project import compile_or_fail, compile_project, read_project
from cacheunit_build.diff.comparison import Comparison, Side
from cacheunit_build.diff.known_version import KnownVersion
from cacheunit_build.diff.results import DiffResult
from cacheunit_build.diff.snapshot import Snapshot
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.file_names import LOCK_VERSION
from cacheunit_build.domain.selection import Selection
from cacheunit_build.lockfile.format import EMPTY_LOCK, read_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cacheunit_build.compiler.project import Reuse
    from cacheunit_build.diff.results import Difference
    from cacheunit_build.domain.lock import ArtifactKey, Lock
    from cacheunit_build.domain.protocols import Adapters, OldVersion, ProgressCallback, SourceFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What the project is compared with: an older version of it, or a lock alone.

    Attributes:
        label: its name for people.
        old_version: opens the older version; None where there is only a lock.
        lock: the lock, where there is no older version.
        notes: remarks on the choice.
    """

    label: str
    old_version: Callable[[], OldVersion] | None = None
    lock: Lock | None = None
    notes: tuple[str, ...] = ()


def diff(
    adapters: Adapters,
    baseline: Baseline,
    selection: Selection | None = None,
    *,
    progress: ProgressCallback | None = None,
) -> DiffResult:
    """Returns what the present sources do to a cache that was filled from the baseline. Nothing is written.

    Args:
        adapters: the project.
        baseline: what it is compared with.
        selection: which artifacts.
        progress: called with the number of compiled manifests and the number of all.

    Raises:
        CacheunitError: every fault in the present sources, or in the selection.
    """
    selection = selection or Selection()
    old_version = None if baseline.old_version is None else baseline.old_version()
    reuse = None if old_version is None else _reuse(adapters, old_version)
    compiled = compile_or_fail(adapters, selection, progress, reuse=reuse)
    new = Snapshot(compiled, adapters.files)
    old = old_side(old_version, baseline, reuse)
    comparison = Comparison(Side(snapshot=new), old, compiled.selection, compiled.settings.hits_per_miss)
    if reuse is not None and comparison.has_added:  # which cache entry serves these is seen on compiled artifacts only
        old = old_side(old_version, baseline, None)
        comparison = Comparison(Side(snapshot=new), old, compiled.selection, compiled.settings.hits_per_miss)
    return _result(comparison, new, old, baseline)


def compare(
    new: Snapshot, old: Side, baseline: Baseline, known: Mapping[ArtifactKey, Difference] | None = None
) -> DiffResult:
    """Returns the differences between two versions, of which what differs is compiled.

    Args:
        new: the newer version; it says which artifacts are selected.
        old: the older version.
        baseline: the name of the older version, and remarks on it.
        known: differences of artifacts that are the same as when they were compared before.
    """
    compiled = new.compiled
    side = Side(snapshot=new, only=old.only)
    comparison = Comparison(side, old, compiled.selection, compiled.settings.hits_per_miss, known or {})
    return _result(comparison, new, old, baseline)


def _result(comparison: Comparison, new: Snapshot, old: Side, baseline: Baseline) -> DiffResult:
    differences = tuple(sorted(comparison.differences(), key=lambda item: item.key))
    sources = comparison.sources(differences)
    return DiffResult(
        against=baseline.label,
        differences=differences,
        sources=sources,
        lines=comparison.lines(differences, sources),
        hits_per_miss=comparison.hits_per_miss,
        faults=old.faults,
        notes=(*baseline.notes, *old.notes, *_lock_note(old), *_version_note(old.locked)),
        snapshot=new,
    )


def _version_note(lock: Lock) -> tuple[str, ...]:
    """Returns a note where an earlier version of cacheunit wrote the lock."""
    if lock.version == LOCK_VERSION:
        return ()
    rewritten = f'"cacheunit build" rewrites it as version {LOCK_VERSION}'
    return (f"the old lock has version {lock.version}: its cache rules and markers are not compared; {rewritten}",)


def _lock_note(old: Side) -> tuple[str, ...]:
    """Returns a note where the lock replaces sources that do not compile."""
    if not old.faults or not old.locked.entries:
        return ()
    return ("the old lock is used for what does not compile: if it was out of date, a change may not show",)


def _reuse(adapters: Adapters, old: OldVersion) -> Reuse | None:
    """Returns a function from the path of a manifest to its record, where its inputs are as recorded in both versions.

    None where there is no record, or the settings changed.
    """
    record = adapters.records.valid_record()
    return None if record is None else record.reusable(cache(adapters.files.fingerprint), cache(old.files.fingerprint))


def old_side(old: OldVersion | None, baseline: Baseline, reuse: Reuse | None) -> Side:
    """Returns the older version, as far as it compiles under today's rules."""
    if old is None:
        return Side(snapshot=None, locked=baseline.lock or EMPTY_LOCK)
    locked, notes = _old_lock(old.files)
    try:
        settings, _ = read_project(old.files)
        if not any(path.endswith(".yaml") for path in old.files.walk(settings.prefixes)):
            return Side(snapshot=None, notes=(*notes, f"there are no manifests at {baseline.label}"))
        compiled = compile_project(old, reuse=reuse)
    except CacheunitError as error:
        return Side(snapshot=None, locked=locked, faults=error.faults, notes=notes)
    return Side(snapshot=KnownVersion(compiled, old), locked=locked, faults=compiled.faults, notes=notes)


def _old_lock(files: SourceFiles) -> tuple[Lock, tuple[str, ...]]:
    """Returns the lock of the older version, and a note where it cannot be read."""
    try:
        return read_lock(files), ()
    except CacheunitError as error:
        return EMPTY_LOCK, (f"the old lock is not used: {error.faults[0].message}",)
