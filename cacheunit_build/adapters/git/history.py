"""Reads files as they were committed together with the present lock.

Git's modules are imported where a file is asked for: most builds ask for none.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.version_history import CommittedFile

if TYPE_CHECKING:
    from pathlib import Path

    from cacheunit_build.adapters.git.revision_files import RevisionFiles


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
        if self._files is None:
            return None
        try:
            return CommittedFile(data=self._files.read(path))
        except CacheunitError:  # a link that is not followed, or the clone lacks the content
            return CommittedFile(data=None)

    @cached_property
    def _files(self) -> RevisionFiles | None:
        """The files of the last commit that changed the lock; None if there is none, or the lock was changed since."""
        from cacheunit_build.adapters.git.command import git_output
        from cacheunit_build.adapters.git.revision import Repository, Revision

        # Not `git log`, which may run a program to verify signatures, nor `git diff`, which runs filters.
        commit = (git_output(self._root, "rev-list", "-1", "HEAD", "--", self._lock) or b"").decode().strip()
        if not commit:
            return None
        try:
            files = Repository(self._root).files(Revision(commit=commit, label=commit[:7]))
            committed, present = files.read(self._lock), (self._root / self._lock).read_bytes()
        except (CacheunitError, OSError):
            return None
        if committed is None or committed.replace(b"\r\n", b"\n") != present.replace(b"\r\n", b"\n"):
            return None  # the lock was built again, but not committed
        return files
