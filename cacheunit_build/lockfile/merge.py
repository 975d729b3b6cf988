"""Merges three locks by entry and by target, where a merge of text would only know lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from cacheunit_build.domain.lock import Lock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cacheunit_build.domain.lock import ArtifactKey, LockEntry, TargetIdentity

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeConflict:
    """An entry of the lock, or the identity of a target, that both sides changed in different ways.

    Attributes:
        prefix: the prefix of the entry; None for the identity of the target.
        target: the target.
        reason: what each side did.
    """

    prefix: str | None
    target: str
    reason: str

    def __str__(self) -> str:
        """The conflict as one line, without a newline."""
        subject = self.target if self.prefix is None else f"{self.prefix} for {self.target}"
        return f"{subject}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedLock:
    """The result of a merge.

    Attributes:
        lock: the merged lock, with our side of each conflict.
        conflicts: what is left to resolve.
    """

    lock: Lock
    conflicts: tuple[MergeConflict, ...]

    def resolved_with(self, side: Lock) -> Lock:
        """Returns the merged lock with the version of `side` for each conflict."""
        entries, targets = dict(self.lock.entries), dict(self.lock.targets)
        for conflict in self.conflicts:
            if conflict.prefix is None:
                targets[conflict.target] = side.targets.get(conflict.target, targets[conflict.target])
                continue
            key = conflict.prefix, conflict.target
            entries.pop(key, None)
            if key in side.entries:
                entries[key] = side.entries[key]
        return Lock(targets=targets, entries=entries)


def merge_locks(base: Lock, ours: Lock, theirs: Lock) -> MergedLock:
    """Merges the changes that two sides made to `base`. The order of the sides matters only for conflicts.

    An entry belongs to the identity of its target. If one side changed an entry, and the other side the rules or the
    vocabulary of its target, the merged lock would contain an entry that no build makes: that is a conflict too.
    """
    merged_targets = _merge_targets(base, ours, theirs)
    entries: dict[ArtifactKey, LockEntry] = {}
    conflicts: list[MergeConflict] = []
    for key in sorted({*base.entries, *ours.entries, *theirs.entries}):
        change = _Change(base=base.entries.get(key), ours=ours.entries.get(key), theirs=theirs.entries.get(key))
        reason = change.conflict or _changed_target(change, key[1], merged_targets, ours, theirs)
        if reason is not None:
            conflicts.append(MergeConflict(prefix=key[0], target=key[1], reason=reason))
        entry = change.merged if reason is None else change.ours
        if entry is not None:
            entries[key] = entry
    # A target that no entry is left for is not written to the lock, so its identity cannot be in conflict.
    used = {target for _, target in entries} | {conflict.target for conflict in conflicts}
    conflicts = [*(conflict for target, conflict in merged_targets.conflicts.items() if target in used), *conflicts]
    return MergedLock(lock=Lock(targets=dict(merged_targets.targets), entries=entries), conflicts=tuple(conflicts))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change(Generic[T]):
    """One thing in the three locks; None where a lock does not have it.

    | base | ours | theirs | merged | conflict |
    | --- | --- | --- | --- | --- |
    | A | A | B | B | |
    | A | B | A | B | |
    | A | B | B | B | |
    | A | None | A | None | |
    | A | B | C | | both sides changed it differently |
    | None | B | C | | both sides added it differently |
    | A | None | C | | ours removed it, theirs changed it |
    """

    base: T | None
    ours: T | None
    theirs: T | None

    @property
    def merged(self) -> T | None:
        """The value that both changes lead to, if there is no conflict; None if it is removed."""
        return self.ours if self.theirs in (self.ours, self.base) else self.theirs

    @property
    def conflict(self) -> str | None:
        """What each side did, if their changes differ; None if there is no conflict."""
        if self.theirs in (self.ours, self.base) or self.ours == self.base:
            return None
        if self.ours is None:
            return "ours removed it, theirs changed it"
        if self.theirs is None:
            return "ours changed it, theirs removed it"
        return f"both sides {'added' if self.base is None else 'changed'} it differently"


@dataclass(frozen=True, slots=True, kw_only=True)
class _MergedTargets:
    """The merged identities of targets (ours where there is a conflict) and the conflicts, by name of target."""

    targets: Mapping[str, TargetIdentity]
    conflicts: Mapping[str, MergeConflict]


def _merge_targets(base: Lock, ours: Lock, theirs: Lock) -> _MergedTargets:
    """Merges the identities of targets; a target that only one side lists has no entries on the other."""
    targets = {**theirs.targets, **ours.targets}
    conflicts: dict[str, MergeConflict] = {}
    for name in sorted(ours.targets.keys() & theirs.targets.keys()):
        change = _Change(base=base.targets.get(name), ours=ours.targets[name], theirs=theirs.targets[name])
        if change.conflict is not None:
            conflicts[name] = MergeConflict(prefix=None, target=name, reason=change.conflict)
        elif change.merged is not None:
            targets[name] = change.merged
    return _MergedTargets(targets=targets, conflicts=conflicts)


def _changed_target(
    change: _Change[LockEntry], target: str, merged: _MergedTargets, ours: Lock, theirs: Lock
) -> str | None:
    """Returns a reason if only one side has the merged entry, and the other side changed the identity of its target."""
    if change.merged is None or change.ours == change.theirs:
        return None
    # Ours changed the rules of "t", theirs added "b for t" with the old rules: "b" has the tokens of no build.
    side = ours if change.ours == change.merged else theirs
    if target not in merged.conflicts and side.targets.get(target) == merged.targets.get(target):
        return None
    return f'made with rules or a vocabulary of "{target}" that the other side changed'
