"""Three locks -> one: by entry and by the identity of targets, where a merge of text knows lines only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from cacheunit_build.model import Lock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cacheunit_build.model import Entry, TargetIdentity

Key = tuple[str, str]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """One thing that the two sides did not agree on.

    It is the entry of `prefix` for `target`, or where `prefix` is None, the identity of the target; `what` says what
    each side did.
    """

    prefix: str | None
    target: str
    what: str

    def __str__(self) -> str:
        """One line, without its end."""
        return f"{self.target if self.prefix is None else f'{self.prefix} for {self.target}'}: {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The merged lock, and what is left to decide; what clashes stands in `lock` as our side has it."""

    lock: Lock
    clashes: tuple[Clash, ...]

    def decided_by(self, side: Lock) -> Lock:
        """The merged lock with everything that clashes as `side` has it."""
        entries, targets = dict(self.lock.entries), dict(self.lock.targets)
        for clash in self.clashes:
            if clash.prefix is None:
                targets[clash.target] = side.targets.get(clash.target, targets[clash.target])
            else:
                _put(entries, (clash.prefix, clash.target), side.entries.get((clash.prefix, clash.target)))
        return Lock(targets=targets, entries=entries)


def merge_locks(base: Lock, ours: Lock, theirs: Lock) -> Merged:
    """What both sides did to `base`, together. The order of the sides matters only to what clashes.

    An entry belongs to the identity of its target: what one side made under rules or a vocabulary that the other side
    replaced would hold for neither, and clashes.
    """
    targets, rivals = _merged_targets(base, ours, theirs)
    entries: dict[Key, Entry] = {}
    clashes: list[Clash] = []
    for key in sorted({*base.entries, *ours.entries, *theirs.entries}):
        before, mine, yours = (lock.entries.get(key) for lock in (base, ours, theirs))
        agreed = _agreed(before, mine, yours)
        if agreed is None:
            clashes.append(Clash(prefix=key[0], target=key[1], what=_what(before, mine, yours)))
        elif agreed[0] is not None and not any(_holds(key, agreed[0], targets, side) for side in (ours, theirs)):
            clashes.append(Clash(prefix=key[0], target=key[1], what=f"made for a {key[1]} that the other side changed"))
            agreed = None
        _put(entries, key, mine if agreed is None else agreed[0])
    used = {key[1] for key in entries} | {clash.target for clash in clashes}
    clashes = [*(clash for clash in rivals if clash.target in used), *clashes]
    return Merged(lock=Lock(targets=targets, entries=entries), clashes=tuple(clashes))


def _merged_targets(base: Lock, ours: Lock, theirs: Lock) -> tuple[dict[str, TargetIdentity], list[Clash]]:
    """The identities; a side that names a target nowhere has no entry for it, and so nothing to say of it."""
    targets = {**theirs.targets, **ours.targets}
    clashes: list[Clash] = []
    for name in sorted(ours.targets.keys() & theirs.targets.keys()):
        before, mine, yours = base.targets.get(name), ours.targets[name], theirs.targets[name]
        agreed = _agreed(before, mine, yours)
        if agreed is None:
            clashes.append(Clash(prefix=None, target=name, what=_what(before, mine, yours)))
        elif agreed[0] is not None:
            targets[name] = agreed[0]
    return targets, clashes


def _agreed(before: T | None, mine: T | None, yours: T | None) -> tuple[T | None] | None:
    """What both sides' changes come to, None inside where it is gone; None altogether where they clash."""
    if yours in (mine, before):
        return (mine,)
    return (yours,) if mine == before else None


def _holds(key: Key, entry: Entry, targets: Mapping[str, TargetIdentity], side: Lock) -> bool:
    """Whether that side has the entry, for the target as it is now."""
    return side.entries.get(key) == entry and side.targets.get(key[1]) == targets.get(key[1])


def _put(entries: dict[Key, Entry], key: Key, entry: Entry | None) -> None:
    if entry is None:
        entries.pop(key, None)
    else:
        entries[key] = entry


def _what(before: object, mine: object, yours: object) -> str:
    if mine is None or yours is None:
        return (
            f"ours {'removed' if mine is None else 'changed'} it, theirs {'removed' if yours is None else 'changed'} it"
        )
    return "both sides added it, not alike" if before is None else "both sides changed it, not alike"
