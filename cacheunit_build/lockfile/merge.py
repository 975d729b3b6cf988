"""Three locks -> one: by entry and by the identity of targets, where a merge of text knows lines only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from cacheunit_build.domain.lock import Lock

if TYPE_CHECKING:
    from cacheunit_build.domain.lock import LockEntry, TargetIdentity

ArtifactKey = tuple[str, str]
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
                continue
            entries.pop((clash.prefix, clash.target), None)
            if (clash.prefix, clash.target) in side.entries:
                entries[clash.prefix, clash.target] = side.entries[clash.prefix, clash.target]
        return Lock(targets=targets, entries=entries)


def merge_locks(base: Lock, ours: Lock, theirs: Lock) -> Merged:
    """What both sides did to `base`, together. The order of the sides matters only to what clashes.

    An entry belongs to the identity of its target: what one side made under rules or a vocabulary that the other side
    replaced would hold for neither, and clashes.
    """
    targets, rivals = _merged_targets(base, ours, theirs)
    entries: dict[ArtifactKey, LockEntry] = {}
    clashes: list[Clash] = []
    for key in sorted({*base.entries, *ours.entries, *theirs.entries}):
        before, mine, yours = (lock.entries.get(key) for lock in (base, ours, theirs))
        agreed = _agreed(before, mine, yours)
        if agreed is None:
            clashes.append(Clash(prefix=key[0], target=key[1], what=_what(before, mine, yours)))
        elif agreed[0] is not None and mine != yours:
            maker = ours if mine == agreed[0] else theirs
            if key[1] in rivals or maker.targets.get(key[1]) != targets.get(key[1]):
                what = f'made for rules or a vocabulary of "{key[1]}" that the other side replaced'
                clashes.append(Clash(prefix=key[0], target=key[1], what=what))
                agreed = None
        entry = mine if agreed is None else agreed[0]
        if entry is not None:
            entries[key] = entry
    used = {key[1] for key in entries} | {clash.target for clash in clashes}
    clashes = [*(clash for name, clash in rivals.items() if name in used), *clashes]
    return Merged(lock=Lock(targets=targets, entries=entries), clashes=tuple(clashes))


def _merged_targets(base: Lock, ours: Lock, theirs: Lock) -> tuple[dict[str, TargetIdentity], dict[str, Clash]]:
    """The identities, and those that clash; a side that lists no such target has no entry for it, and no say."""
    targets = {**theirs.targets, **ours.targets}
    rivals: dict[str, Clash] = {}
    for name in sorted(ours.targets.keys() & theirs.targets.keys()):
        before, mine, yours = base.targets.get(name), ours.targets[name], theirs.targets[name]
        agreed = _agreed(before, mine, yours)
        if agreed is None:
            rivals[name] = Clash(prefix=None, target=name, what=_what(before, mine, yours))
        elif agreed[0] is not None:
            targets[name] = agreed[0]
    return targets, rivals


def _agreed(before: T | None, mine: T | None, yours: T | None) -> tuple[T | None] | None:
    """What both sides' changes come to, None inside where it is gone; None altogether where they clash."""
    if yours in (mine, before):
        return (mine,)
    return (yours,) if mine == before else None


def _what(before: object, mine: object, yours: object) -> str:
    if mine is None or yours is None:
        return (
            f"ours {'removed' if mine is None else 'changed'} it, theirs {'removed' if yours is None else 'changed'} it"
        )
    return "both sides added it, not alike" if before is None else "both sides changed it, not alike"
