"""The differences between sources, lockfile and build folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DriftKind = Literal[
    "added", "removed", "changed", "edited", "missing", "orphan", "tokenizer", "profile", "lock version"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One difference between what the sources give now and what the lock or the build folder holds.

    Attributes:
        prefix: the prefix or variant; empty for an orphan, and for the version of the lock.
        target: the target; empty for these.
        kind: what differs. `orphan` is a file in the build folder that no lock entry names; `lock version` is a lock
            that an earlier cacheunit wrote.
        path: the file in the build folder, where the difference is there.
        because: the sources that changed since the lock was made, where they are known.
        manifest: the manifest of an artifact that the lock does not have.
        line_ends: whether an edited file differs from the lock only by line ends, which git may have converted.
    """

    prefix: str
    target: str
    kind: DriftKind
    path: str | None = None
    because: tuple[str, ...] = ()
    manifest: str | None = None
    line_ends: bool = False
