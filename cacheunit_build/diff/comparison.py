"""Compares two versions of a project, compiled or locked, artifact by artifact."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from cacheunit_build.diff.artifact_diff import ArtifactDiff
from cacheunit_build.diff.change_words import ADDED, REMOVED, RENAMED, UNKNOWN, entry_words, target_words
from cacheunit_build.diff.renames import bytes_of, same_bytes, similar
from cacheunit_build.diff.request_price import request_price, why_unpriced
from cacheunit_build.diff.results import Difference
from cacheunit_build.domain.file_names import LOCK_VERSION, manifest_path
from cacheunit_build.domain.lock import Lock
from cacheunit_build.domain.source_map import SourceLine
from cacheunit_build.lockfile.drift import drift_between
from cacheunit_build.lockfile.format import EMPTY_LOCK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from cacheunit_build.diff.results import ChangedLines, DifferenceKind
    from cacheunit_build.diff.snapshot import Snapshot
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.lock import ArtifactKey, LockEntry
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
class Side:
    """One of the two versions.

    Attributes:
        snapshot: what was compiled; None where it is a lock alone.
        locked: the lock, which replaces what does not compile.
        faults: the faults of the sources.
        notes: further remarks.
        is_partial: whether artifacts were left out that an added one could share its beginning with.
        only: the artifacts that are compared; None for all.
    """

    snapshot: Snapshot | None
    locked: Lock = EMPTY_LOCK
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()
    is_partial: bool = False
    only: AbstractSet[ArtifactKey] | None = None

    @property
    def lock(self) -> Lock:
        """What a build of this version would lock; entries of what does not compile are those of its lock."""
        if self.snapshot is None:
            return self.locked
        records = self.snapshot.records
        keys = records.keys() if self.only is None else self.only & records.keys()
        compiled = {key: records[key].entry for key in keys}
        kept = self.locked.entries if self.faults else {}
        targets = {**self.locked.targets, **self.snapshot.compiled.identities}
        return Lock(
            targets=targets, entries={**kept, **compiled}, version=self.locked.version if kept else LOCK_VERSION
        )


class Comparison:
    """The comparison of the two versions, artifact by artifact.

    Args:
        new: the newer version.
        old: the older version.
        selection: which artifacts.
        hits_per_miss: how many requests a cache entry serves for each one that writes it.
        known: differences of artifacts that are the same as when they were compared before.

    Attributes:
        hits_per_miss: as above.
        has_added: whether an artifact was added, and not only renamed.
    """

    def __init__(
        self,
        new: Side,
        old: Side,
        selection: SelectedArtifacts,
        hits_per_miss: int,
        known: Mapping[ArtifactKey, Difference] = MappingProxyType({}),
    ) -> None:
        self._known = known
        self.hits_per_miss = hits_per_miss
        self._new = new
        self._old = old
        self._old_lock, self._new_lock = old.lock, new.lock
        selected = {key: entry for key, entry in self._old_lock.entries.items() if selection.includes_key(key)}
        self._renamed = same_bytes(selected, self._new_lock.entries)
        drift = drift_between(replace(self._old_lock, entries=selected), self._new_lock)
        kinds = {(item.prefix, item.target): _KINDS[item.kind] for item in drift if item.kind in _KINDS}
        former_keys = set(self._renamed.values())
        self._kinds = {key: kind for key, kind in kinds.items() if key not in former_keys}
        self.has_added = any(kind == "added" and key not in self._renamed for key, kind in self._kinds.items())
        self._artifact_diff = (
            None if new.snapshot is None or old.snapshot is None else ArtifactDiff(new.snapshot, old.snapshot)
        )

    def differences(self) -> Iterator[Difference]:
        """Yields the differences in the order of names."""
        edited = self._edited_renames()
        former_keys = set(edited.values())
        for key, kind in self._kinds.items():
            if key in self._renamed:
                yield self._rename(key)
            elif key in edited:
                yield self._with_price(self._edited_rename(key, edited[key]))
            elif key not in former_keys:
                known = self._known.get(key)
                if known is None or known.kind != kind:
                    known = self._with_price(self._difference(key, kind))
                yield known

    def _edited_renames(self) -> dict[ArtifactKey, ArtifactKey]:
        """Returns the artifacts that were renamed and edited: new key -> old key."""
        if self._old.snapshot is None or self._new.snapshot is None:
            return {}
        removed = [self._old.snapshot.artifacts.get(key) for key, kind in self._kinds.items() if kind == "removed"]
        added = [
            self._new.snapshot.artifacts.get(key)
            for key, kind in self._kinds.items()
            if kind == "added" and key not in self._renamed
        ]
        return similar([item for item in removed if item is not None], [item for item in added if item is not None])

    def _with_price(self, difference: Difference) -> Difference:
        """Returns a difference with the change of the mean price of a request; none where only the count changed."""
        if difference.is_count_only:
            return difference
        old = self._price(self._old_lock, difference.target, difference.old)
        new = self._price(self._new_lock, difference.target, difference.new)
        if old is not None and new is not None:
            return replace(difference, mean_price=new - old)
        lock, entry = (self._new_lock, difference.new) if new is None else (self._old_lock, difference.old)
        if entry is None or difference.why is not None:
            return difference
        return replace(difference, why=why_unpriced(lock.targets[difference.target].cache, entry))

    def _price(self, lock: Lock, target: str, entry: LockEntry | None) -> float | None:
        """Returns the mean price of an artifact in a request; 0 for one that does not exist, None where unknown."""
        return 0.0 if entry is None else request_price(lock.targets[target].cache, entry, self.hits_per_miss)

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
            mean_price=0.0,
        )

    def _edited_rename(self, key: ArtifactKey, former: ArtifactKey) -> Difference:
        old, new = self._old_lock.entries[former], self._new_lock.entries[key]
        renamed = Difference(prefix=key[0], target=key[1], kind="renamed", was=former[0], old=old, new=new)
        if self._artifact_diff is None or self._old.snapshot is None or self._new.snapshot is None:
            return renamed
        return self._artifact_diff.renamed(
            renamed, self._old.snapshot.artifacts[former], self._new.snapshot.artifacts[key]
        )

    def _difference(self, key: ArtifactKey, kind: DifferenceKind) -> Difference:
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
        path = manifest_path("prefixes", key[0]) if side is None else side.manifest_path(key)
        return SourceLine(path=path, line=1)

    def _old_fault(self, key: ArtifactKey) -> Fault | None:
        """Returns why the older version has no artifact of that key, where its manifest was there."""
        faults = self._old.faults
        if self._old.snapshot is None:
            return next(iter(faults), None)
        compiled = self._old.snapshot.compiled
        path = self._old.snapshot.manifest_path(key)
        if path not in compiled.manifests or path in compiled.complete:
            return None
        return next((fault for fault in faults if fault.path == path), next(iter(faults), None))


def _of_entries_alone(difference: Difference, old: LockEntry, new: LockEntry, *, sources_failed: bool) -> Difference:
    """Compares two lock entries without sources: with equal token ids all tokens stay cached, else it is unknown."""
    same_ids = old.token_ids is not None and old.token_ids == new.token_ids
    if difference.kind == "changed" and (same_ids or bytes_of(difference.key, old) == bytes_of(difference.key, new)):
        return replace(difference, still_cached=new.tokens, recomputed=0)
    reason = "it is compared with a lock, which has"
    if sources_failed:
        reason = "the old sources do not compile under today's rules, and their lock has"
    why = f"{reason} no text, so the first change and the tokens that stay cached are unknown"
    return replace(difference, why=why)
