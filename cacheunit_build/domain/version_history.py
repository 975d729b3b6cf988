"""The protocols of a version history: what was committed with a lock, and which commits changed it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedFile:
    """A file as it is in a commit.

    Attributes:
        data: its bytes; None if the commit does not contain it.
    """

    data: bytes | None


class History(Protocol):
    """The version history of a project."""

    def committed_with_lock(self, path: str) -> CommittedFile | None:
        """Returns a file as it was committed together with the present lock.

        Args:
            path: the file, relative to the project root.

        Returns:
            None if that is unknown: there is no history, or the lock was changed since it was committed.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class LockCommit:
    """A commit that changed the lock.

    Attributes:
        commit: its id.
        date: the day on which it was made, such as 2026-10-02.
        subject: the first line of its message.
        blob: the id of the content of the lock; None where the commit removed it.
        is_boundary: whether a shallow clone ends here, so that it is unknown what the commit changed.
    """

    commit: str
    date: str
    subject: str
    blob: str | None
    is_boundary: bool = False


class LockHistory(Protocol):
    """The versions of the lock that the current branch had."""

    def commits(self) -> Sequence[LockCommit]:
        """Returns the commits that changed the lock, newest first: of a merged branch, the merge.

        Raises:
            CacheunitError: there is no repository, or no commit.
        """

    def commits_after(self, revision: str) -> Collection[str]:
        """Returns the ids of the commits of the branch that are not in a revision.

        Raises:
            CacheunitError: there is no such revision.
        """

    def read(self, blob: str) -> bytes | None:
        """Returns the content with that id; None where the clone lacks it."""
