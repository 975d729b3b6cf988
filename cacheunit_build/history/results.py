"""The result of `log`: commits that changed the lock, and the points at which each artifact changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cacheunit_build.domain.lock import ArtifactKey, LockEntry
    from cacheunit_build.domain.version_history import LockCommit

PointKind = Literal["start", "added", "changed", "recounted", "rule changed", "renamed", "removed"]
"""What a commit did to an artifact. `start` is its state where the log begins; `recounted`: the same text has another
number of tokens, by another vocabulary, count or padding; `rule changed`: only the cache rule of its target changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryCommit:
    """A commit that changed the lock.

    Attributes:
        commit: the commit.
        problem: why its lock is not known, such as merge-conflict markers; None where it is.
    """

    commit: LockCommit
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """An artifact after a commit that changed it.

    Attributes:
        index: the index of the commit.
        kind: what the commit did.
        prefix: the name of the prefix or variant at that time.
        entry: its entry in the lock; the last one, where the commit removed it.
        cached: the tokens that a warm cache serves, by the rule in the same lock; None where that is unknown.
        growth: the tokens that it has more than before; 0 where it did not exist.
    """

    index: int
    kind: PointKind
    prefix: str
    entry: LockEntry
    cached: int | None
    growth: int = 0

    @property
    def content_tokens(self) -> int:
        """The tokens without padding."""
        return self.entry.tokens - self.entry.padding

    @property
    def cached_share(self) -> float | None:
        """The share of the tokens that a warm cache serves; None where it is unknown."""
        if self.cached is None:
            return None
        return self.cached / self.entry.tokens if self.entry.tokens else 0.0

    @property
    def is_growth(self) -> bool:
        """Whether the prompt grew, and not only its count."""
        return self.growth > 0 and self.kind != "recounted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactHistory:
    """The history of one artifact, under all names that it had.

    Attributes:
        prefix: its last name.
        target: its target.
        points: the points at which it changed, from the oldest to the newest.
    """

    prefix: str
    target: str
    points: tuple[Point, ...]

    @property
    def key(self) -> ArtifactKey:
        """The prefix and the target."""
        return self.prefix, self.target

    @property
    def names(self) -> frozenset[str]:
        """All names that it had."""
        return frozenset(point.prefix for point in self.points)

    @property
    def first(self) -> Point:
        """The first point."""
        return self.points[0]

    @property
    def last(self) -> Point:
        """The last point."""
        return self.points[-1]

    @property
    def is_removed(self) -> bool:
        """Whether the last version of the lock does not have it."""
        return self.last.kind == "removed"

    @property
    def largest_growth(self) -> Point | None:
        """The point at which it grew by the most tokens, of several the last; None where it never grew."""
        grown = [point for point in self.points if point.is_growth]
        return max(reversed(grown), key=lambda point: point.growth) if grown else None

    @property
    def is_added(self) -> bool:
        """Whether a later commit than the first one added it."""
        return self.first.kind == "added" and self.first.index > 0

    @property
    def is_changed(self) -> bool:
        """Whether it was added or removed, or its tokens, padding or cached share ever changed."""
        values = {(point.entry.tokens, point.entry.padding, point.cached) for point in self.points}
        return len(values) > 1 or self.is_added or self.is_removed

    def tokens_at(self, count: int) -> list[int | None]:
        """Returns the tokens after each of the first `count` commits; None where it did not exist."""
        tokens: list[int | None] = [None] * count
        ends = [point.index for point in self.points[1:]] + [count]
        for point, end in zip(self.points, ends, strict=True):
            if point.kind != "removed":
                tokens[point.index : end] = [point.entry.tokens] * (end - point.index)
        return tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class LogResult:
    """The history of the selected artifacts.

    Attributes:
        commits: the commits that changed the lock, from the oldest to the newest.
        artifacts: the histories, by name.
        start: the index of the first commit that is shown.
        has_start: whether this commit only gives the state before the others.
        is_shallow: whether the clone is shallow, so that older commits are missing.
    """

    commits: Sequence[HistoryCommit]
    artifacts: tuple[ArtifactHistory, ...]
    start: int = 0
    has_start: bool = False
    is_shallow: bool = False

    @property
    def problems(self) -> list[HistoryCommit]:
        """The shown commits whose lock is not known."""
        return [commit for commit in self.commits[self.start :] if commit.problem is not None]
