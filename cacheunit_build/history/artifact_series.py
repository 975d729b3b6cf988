"""Follows each artifact through the versions of a lock.

lock 1           lock 2           lock 3            history of
a: 100 tokens    a: 120 tokens    c: 120 tokens     c: added 100, changed 120, renamed 120
b: 50 tokens     b: 50 tokens     -                 b: added 50, removed

In lock 3, c has the text and the token ids that a had, so that it is a under another name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cacheunit_build.domain.lock import Lock
from cacheunit_build.history.results import ArtifactHistory, Point

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from cacheunit_build.domain.lock import ArtifactKey, LockEntry
    from cacheunit_build.history.results import PointKind


class ArtifactSeries:
    """Collects the points of all artifacts, version by version, from the oldest to the newest."""

    def __init__(self) -> None:
        self._lock: Lock = Lock(targets={}, entries={})
        self._series: list[list[Point]] = []
        self._targets: list[str] = []
        self._indexes: dict[ArtifactKey, int] = {}  # present name -> index in these lists

    def add(self, index: int, lock: Lock, *, is_start: bool = False) -> None:
        """Adds the version of a commit.

        Args:
            index: the index of the commit.
            lock: its lock.
            is_start: whether it is unknown what the commit changed.
        """
        before, self._lock = self._lock, lock
        renamed = _renamed(before, lock)
        for former, key in renamed.items():
            self._indexes[key] = self._indexes.pop(former)
        former_keys = {key: former for former, key in renamed.items()}
        for key, entry in lock.entries.items():
            former = former_keys.get(key, key)
            old = before.entries.get(former)
            if old is None:
                self._append(key, _point(index, "start" if is_start else "added", key, lock))
            elif old != entry or former != key or lock.targets[key[1]] != before.targets[key[1]]:
                self._change(index, key, old, is_renamed=former != key)
        for key in before.entries.keys() - lock.entries.keys() - renamed.keys():
            self._append(key, replace(self._series[self._indexes[key]][-1], index=index, kind="removed", growth=0))

    def _change(self, index: int, key: ArtifactKey, old: LockEntry, *, is_renamed: bool) -> None:
        """Adds a point where an artifact has another name, or its numbers or bytes changed."""
        new = self._lock.entries[key]
        point = _point(index, _kind(old, new, is_renamed=is_renamed), key, self._lock, new.tokens - old.tokens)
        last = self._series[self._indexes[key]][-1]
        if point.kind != "rule changed" or point.cached != last.cached:
            self._append(key, point)

    def _append(self, key: ArtifactKey, point: Point) -> None:
        if key not in self._indexes:
            self._indexes[key] = len(self._series)
            self._series.append([])
            self._targets.append(key[1])
        self._series[self._indexes[key]].append(point)

    def histories(self) -> list[ArtifactHistory]:
        """Returns the history of each artifact, by name."""
        histories = [
            ArtifactHistory(prefix=points[-1].prefix, target=target, points=tuple(points))
            for target, points in zip(self._targets, self._series, strict=True)
        ]
        return sorted(histories, key=lambda history: history.key)


def starting_at(history: ArtifactHistory, index: int) -> ArtifactHistory | None:
    """Returns a history from a commit on, with the state before as its start; None where it ended before."""
    later = [point for point in history.points if point.index > index]
    before = next((point for point in reversed(history.points) if point.index <= index), None)
    exists = before is not None and before.kind != "removed"
    start = [replace(before, index=index, kind="start", growth=0)] if before is not None and exists else []
    return replace(history, points=(*start, *later)) if start or later else None


def _point(index: int, kind: PointKind, key: ArtifactKey, lock: Lock, growth: int = 0) -> Point:
    """Returns the point of an artifact in a version of the lock."""
    prefix, target = key
    entry = lock.entries[key]
    cached = lock.targets[target].cache.predict(entry).tokens
    return Point(index=index, kind=kind, prefix=prefix, entry=entry, cached=cached, growth=growth)


def _kind(old: LockEntry, new: LockEntry, *, is_renamed: bool) -> PointKind:
    """Returns what happened to an artifact that is in both versions."""
    if is_renamed:
        return "renamed"
    if old == new:
        return "rule changed"
    same_bytes = (old.text, old.request) == (new.text, new.request)
    return "recounted" if same_bytes and old.tokens != new.tokens else "changed"


def _renamed(before: Lock, after: Lock) -> Mapping[ArtifactKey, ArtifactKey]:
    """Returns the artifacts that have another name but the same text: old key -> new key."""
    removed = _by_text(before, before.entries.keys() - after.entries.keys())
    added = _by_text(after, after.entries.keys() - before.entries.keys()) if removed else {}
    return {
        former: key
        for text, formers in removed.items()
        for former, key in zip(formers, added.get(text, ()), strict=False)
    }


def _by_text(lock: Lock, keys: Collection[ArtifactKey]) -> dict[tuple[object, ...], list[ArtifactKey]]:
    """Returns artifacts by their target and what they say to the model, each list in the order of names.

    Not by the request: for some targets it has a key that is made of the name.
    """
    artifacts: dict[tuple[object, ...], list[ArtifactKey]] = {}
    for key in sorted(keys):
        entry = lock.entries[key]
        artifacts.setdefault((key[1], entry.text, entry.token_ids, entry.tokens), []).append(key)
    return artifacts
