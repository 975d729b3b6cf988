"""Reads files as they were committed together with the present lock."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from cacheunit_build.adapters.git.command import git_output
from cacheunit_build.domain.protocols import CommittedFile

if TYPE_CHECKING:
    from pathlib import Path


class GitHistory:
    """The git history of a project; implements the protocol `History`.

    Args:
        root: the project root, in a git work tree or not.
        lock: the path of the lock, relative to the root.
    """

    def __init__(self, root: Path, lock: str) -> None:
        self._root = root
        self._lock = lock

    def committed_with_lock(self, path: str) -> CommittedFile | None:
        """Returns a file as it is in the last commit that changed the lock.

        Args:
            path: the file, relative to the project root.

        Returns:
            None if that commit is unknown: there is no git, the lock was never committed, or it was changed since.
        """
        if self._lock_commit is None:
            return None
        return CommittedFile(data=git_output(self._root, "cat-file", "blob", f"{self._lock_commit}:./{path}"))

    @cached_property
    def _lock_commit(self) -> str | None:
        """The last commit that changed the lock; None if there is none, or if the lock was changed since."""
        commit = (git_output(self._root, "log", "-1", "--format=%H", "--", self._lock) or b"").decode().strip()
        # With --quiet, git diff fails if there is a difference: the lock was rebuilt, but not committed.
        if not commit or git_output(self._root, "diff", "--quiet", commit, "--", self._lock) is None:
            return None
        return commit
