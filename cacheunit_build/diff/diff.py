"""Compares a project with an older version of itself: both are compiled in memory, or the older one is only a lock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from cacheunit_build.compiler.project import compile_or_fail, compile_project, read_project
from cacheunit_build.diff.artifact_diff import ArtifactDiff
from cacheunit_build.diff.change_words import ADDED, REMOVED, RENAMED, UNKNOWN, entry_words, target_words
from cacheunit_build.diff.known_version import KnownVersion
from cacheunit_build.diff.results import Difference, DiffResult
from cacheunit_build.diff.snapshot import Snapshot
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.file_names import LOCK_VERSION
from cacheunit_build.domain.lock import Lock
from cacheunit_build.domain.selection import Selection
from cacheunit_build.domain.source_map import SourceLine
from cacheunit_build.lockfile.drift import drift_between
from cacheunit_build.lockfile.format import EMPTY_LOCK, read_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from cacheunit_build.compiler.project import Reuse
    from cacheunit_build.diff.results import ChangedLines, DifferenceKind
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.lock import ArtifactKey, LockEntry
    from cacheunit_build.domain.protocols import Adapters, OldVersion, ProgressCallback, SourceFiles
    from cacheunit_build.domain.selection import SelectedArtifacts


_KINDS: dict[str, DifferenceKind] = {
    "added": "added",
    "removed": "removed",
    "changed": "changed",
    "tokenizer": "tokenizer",
    "profile": "profile",
}
"""The kind of a difference, by the kind of drift between two locks."""


_NOT_COMPARED = "it was not compared with all artifacts of the older version; cacheunit diff does that"
"""Why it is unknown what an added artifact shares with others."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two versions.

    Attributes:
        snapshot: what was compiled; None where it is a lock alone.
        locked: the lock, which replaces what does not compile.
        faults: the faults of the sources.
        notes: further remarks.
        is_partial: whether artifacts were left out that an added one could share its beginning with.
    """

    snapshot: Snapshot | None
    locked: Lock = EMPTY_LOCK
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()
    is_partial: bool = False

    @property
    def lock(self) -> Lock:
        """What a build of this version would lock; entries of what does not compile are those of its lock."""
        if self.snapshot is None:
            return self.locked
        compiled = {key: record.entry for key, record in self.snapshot.records.items()}
        kept = self.locked.entries if self.faults else {}
        targets = {**self.locked.targets, **self.snapshot.compiled.identities}
        return Lock(
            targets=targets, entries={**kept, **compiled}, version=self.locked.version if kept else LOCK_VERSION
        )


def diff(
    adapters: Adapters,
    baseline: Baseline,
    selection: Selection | None = None,
    *,
    progress: ProgressCallback | None = None,
    jobs: int = 1,
) -> DiffResult:
    """Returns what the present sources do to a cache that was filled from the baseline. Nothing is written.

    Args:
        adapters: the project.
        baseline: what it is compared with.
        selection: which artifacts.
        progress: called with the number of compiled manifests and the number of all.
        jobs: the number of threads; the result does not depend on it.

    Raises:
        CacheunitError: every fault in the present sources, or in the selection.
    """
    selection = selection or Selection()
    old_version = None if baseline.old_version is None else baseline.old_version()
    reuse = None if old_version is None else _reuse(adapters, old_version)
    compiled = compile_or_fail(adapters, selection, progress, reuse=reuse, jobs=jobs)
    new = Side(snapshot=Snapshot(compiled, adapters.files))
    old = old_side(old_version, baseline, reuse, jobs)
    comparison = _Comparison(new, old, compiled.selection)
    if reuse is not None and comparison.has_added:  # which cache entry serves these is seen on compiled artifacts only
        old = old_side(old_version, baseline, None, jobs)
        comparison = _Comparison(new, old, compiled.selection)
    return _result(comparison, old, baseline, compiled.settings.hits_per_miss)


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
    comparison = _Comparison(Side(snapshot=new), old, new.compiled.selection, known or {})
    return _result(comparison, old, baseline, new.compiled.settings.hits_per_miss)


def _result(comparison: _Comparison, old: Side, baseline: Baseline, hits_per_miss: int) -> DiffResult:
    differences = tuple(sorted(comparison.differences(), key=lambda item: item.key))
    sources = comparison.sources(differences)
    return DiffResult(
        against=baseline.label,
        differences=differences,
        sources=sources,
        lines=comparison.lines(differences, sources),
        hits_per_miss=hits_per_miss,
        faults=old.faults,
        notes=(*baseline.notes, *old.notes, *_lock_note(old), *_version_note(old.locked)),
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


def old_side(old: OldVersion | None, baseline: Baseline, reuse: Reuse | None, jobs: int) -> Side:
    """Returns the older version, as far as it compiles under today's rules."""
    if old is None:
        return Side(snapshot=None, locked=baseline.lock or EMPTY_LOCK)
    locked, notes = _old_lock(old.files)
    try:
        settings, _ = read_project(old.files)
        if not any(path.endswith(".yaml") for path in old.files.walk(settings.prefixes)):
            return Side(snapshot=None, notes=(*notes, f"there are no manifests at {baseline.label}"))
        compiled = compile_project(old, reuse=reuse, jobs=jobs)
    except CacheunitError as error:
        return Side(snapshot=None, locked=locked, faults=error.faults, notes=notes)
    return Side(snapshot=KnownVersion(compiled, old), locked=locked, faults=compiled.faults, notes=notes)


def _old_lock(files: SourceFiles) -> tuple[Lock, tuple[str, ...]]:
    """Returns the lock of the older version, and a note where it cannot be read."""
    try:
        return read_lock(files), ()
    except CacheunitError as error:
        return EMPTY_LOCK, (f"the old lock is not used: {error.faults[0].message}",)


class _Comparison:
    """The comparison of the two versions, artifact by artifact.

    Attributes:
        has_added: whether an artifact was added, and not only renamed.
    """

    def __init__(
        self,
        new: Side,
        old: Side,
        selection: SelectedArtifacts,
        known: Mapping[ArtifactKey, Difference] = MappingProxyType({}),
    ) -> None:
        self._known = known
        self._new = new
        self._old = old
        self._old_lock, self._new_lock = old.lock, new.lock
        selected = {key: entry for key, entry in self._old_lock.entries.items() if selection.includes_key(key)}
        self._renamed = self._renames(set(selected))
        former_keys = set(self._renamed.values())
        drift = drift_between(replace(self._old_lock, entries=selected), self._new_lock)
        kinds = {(item.prefix, item.target): _KINDS[item.kind] for item in drift if item.kind in _KINDS}
        self._kinds = {key: kind for key, kind in kinds.items() if key not in former_keys}
        self.has_added = any(kind == "added" and key not in self._renamed for key, kind in self._kinds.items())
        self._artifact_diff = (
            None if new.snapshot is None or old.snapshot is None else ArtifactDiff(new.snapshot, old.snapshot)
        )

    def _renames(self, old_keys: set[ArtifactKey]) -> dict[ArtifactKey, ArtifactKey]:
        """Returns the renamed artifacts, which have another name and the same bytes: new key -> old key."""
        removed: dict[tuple[object, ...], list[ArtifactKey]] = {}
        for key in sorted(old_keys - self._new_lock.entries.keys()):
            removed.setdefault(_contents(key, self._old_lock.entries[key]), []).append(key)
        renamed: dict[ArtifactKey, ArtifactKey] = {}
        for key in sorted(self._new_lock.entries.keys() - self._old_lock.entries.keys()):
            same = removed.get(_contents(key, self._new_lock.entries[key]))
            if same:
                renamed[key] = same.pop(0)
        return renamed

    def differences(self) -> Iterator[Difference]:
        """Yields the differences in the order of names."""
        for key, kind in self._kinds.items():
            yield self._rename(key) if key in self._renamed else self._difference(key, kind)

    def sources(self, differences: tuple[Difference, ...]) -> dict[str, tuple[ArtifactKey, ...]]:
        """Returns the changed sources with the artifacts that use them."""
        return {} if self._artifact_diff is None else self._artifact_diff.sources([item.key for item in differences])

    def lines(
        self, differences: tuple[Difference, ...], sources: Mapping[str, tuple[ArtifactKey, ...]]
    ) -> dict[SourceLine, ChangedLines]:
        """Returns the lines that changed at each place of the sources."""
        return {} if self._artifact_diff is None else self._artifact_diff.lines(differences, sources)

    def _rename(self, key: ArtifactKey) -> Difference:
        former = self._renamed[key]
        entry = self._new_lock.entries[key]
        return Difference(
            prefix=key[0],
            target=key[1],
            kind="renamed",
            what=RENAMED,
            place=self._place(key),
            was=former[0],
            old=self._old_lock.entries[former],
            new=entry,
            still_cached=entry.tokens,
            recomputed=0,
        )

    def _difference(self, key: ArtifactKey, kind: DifferenceKind) -> Difference:
        known = self._known.get(key)
        if known is not None and known.kind == kind:
            return known
        old, new = self._old_lock.entries.get(key), self._new_lock.entries.get(key)
        difference = Difference(prefix=key[0], target=key[1], kind=kind, old=old, new=new)
        if new is None:
            return replace(difference, what=REMOVED, place=self._place(key))
        if old is None:
            return self._addition(difference, new)
        return self._change(difference, old, new)

    def _addition(self, difference: Difference, new: LockEntry) -> Difference:
        """Returns the difference of an artifact that the older version does not have."""
        difference = replace(difference, what=ADDED, place=self._place(difference.key))
        fault = self._old_fault(difference.key)
        if fault is not None:
            why = f"the old sources do not compile under today's rules: {fault.message}"
            return replace(difference, kind="unknown", what=UNKNOWN, why=why)
        if self._old.is_partial:
            return replace(difference, why=_NOT_COMPARED)
        if self._artifact_diff is not None:
            return self._artifact_diff.added(difference)
        return difference if self._old_lock.entries else replace(difference, still_cached=0, recomputed=new.tokens)

    def _change(self, difference: Difference, old: LockEntry, new: LockEntry) -> Difference:
        """Returns the difference of an artifact that both versions have."""
        sides = self._old.snapshot, self._new.snapshot
        before, after = (None if side is None else side.artifacts.get(difference.key) for side in sides)
        if self._artifact_diff is None or before is None or after is None:
            difference = replace(difference, what=self._words_of_locks(difference.key, old, new))
            return _of_entries_alone(difference, old, new, sources_failed=bool(self._old.faults))
        return self._artifact_diff.changed(difference, before, after)

    def _words_of_locks(self, key: ArtifactKey, old: LockEntry, new: LockEntry) -> str:
        """Returns how an artifact changed, as far as the locks show it."""
        was, now = self._old_lock.targets.get(key[1]), self._new_lock.targets[key[1]]
        is_known = was is not None and self._old_lock.version == self._new_lock.version
        return (target_words(was, now) if was is not None and is_known else None) or entry_words(old, new)

    def _place(self, key: ArtifactKey) -> SourceLine:
        """Returns the line that adds, removes or renames an artifact: its manifest, where only a lock is known."""
        if self._artifact_diff is not None:
            return self._artifact_diff.place(key)
        side = self._new.snapshot or self._old.snapshot
        folder = "prefixes" if side is None else side.compiled.settings.prefixes
        return SourceLine(path=f"{folder}/{key[0].partition('@')[0]}.yaml", line=1)

    def _old_fault(self, key: ArtifactKey) -> Fault | None:
        """Returns why the older version has no artifact of that key, where its manifest was there."""
        faults = self._old.faults
        if self._old.snapshot is None:
            return next(iter(faults), None)
        compiled = self._old.snapshot.compiled
        path = f"{compiled.settings.prefixes}/{key[0].partition('@')[0]}.yaml"
        if path not in compiled.manifests or path in compiled.complete:
            return None
        return next((fault for fault in faults if fault.path == path), next(iter(faults), None))


def _contents(key: ArtifactKey, entry: LockEntry) -> tuple[object, ...]:
    """Returns what an artifact and its renamed copy have in common: target and fingerprints."""
    return key[1], entry.text, entry.request, entry.cached_content, entry.token_ids


def _of_entries_alone(difference: Difference, old: LockEntry, new: LockEntry, *, sources_failed: bool) -> Difference:
    """Compares two lock entries without sources: with equal token ids all tokens stay cached, else it is unknown."""
    same_ids = old.token_ids is not None and old.token_ids == new.token_ids
    if difference.kind == "changed" and (same_ids or _contents(difference.key, old) == _contents(difference.key, new)):
        return replace(difference, still_cached=new.tokens, recomputed=0)
    reason = "it is compared with a lock, which has"
    if sources_failed:
        reason = "the old sources do not compile under today's rules, and their lock has"
    why = f"{reason} no text, so the first change and the tokens that stay cached are unknown"
    return replace(difference, why=why)
