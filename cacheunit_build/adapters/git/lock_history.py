"""Lists the commits that changed the lock, and reads the lock of each."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.adapters.git.command import git_message, run_git
from cacheunit_build.adapters.git.revision import Repository
from cacheunit_build.adapters.git.revision_files import BlobReader
from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.version_history import LockCommit

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

_FORMAT = "%H%x00%P%x00%cs%x00%s"
"""The output format of git: commit id, parent ids, date in the committer's time zone, subject."""
_RAW = ("--no-ext-diff", "--no-textconv", "-r", "--raw", "-z", "--no-abbrev")
"""Arguments of `git diff-tree`: only ids and paths, so that no program of the repository's settings runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    """A commit of `git rev-list`.

    Attributes:
        commit: its id.
        parent: the id of its first parent; None for the first commit.
        date: the day it was made.
        subject: the first line of its message.
    """

    commit: str
    parent: str | None
    date: str
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """What a commit did to the lock.

    Attributes:
        blob: the id of its content; None where it was removed.
        path: its path from the top of the work tree.
    """

    blob: str | None
    path: bytes


class GitLockHistory:
    """The history of a lock on the current branch; implements the protocol `LockHistory`.

    It follows first parents: each version of the lock is one that the branch itself had, so that a change is compared
    with the version that it replaced. It follows the lock where a commit renames the folder of the project.

    Args:
        root: the project root, in a git work tree.
        lock: the path of the lock, relative to the root.
    """

    def __init__(self, root: Path, lock: str) -> None:
        self._root = root
        self._lock = lock
        self._repository = Repository(root)
        self._blobs = BlobReader(root, "the history")

    def commits(self) -> Sequence[LockCommit]:
        """Returns the commits that changed the lock, newest first: of a merged branch, the merge.

        Raises:
            CacheunitError: there is no repository, or no commit.
        """
        _ = self._repository.prefix  # raises outside of a repository
        if run_git(self._root, "rev-parse", "--verify", "--quiet", "HEAD").returncode != 0:
            raise fail("there is no commit yet", hint=f'run "cacheunit build" and commit {self._lock}')
        commits: list[LockCommit] = []
        start: str | None = "HEAD"
        pathspec = f":(literal){self._lock}"
        while start is not None:
            listed = self._listed(start, pathspec)
            changes = self._changes(listed, pathspec)
            commits += (self._lock_commit(item, changes[item.commit].blob) for item in listed)
            start = listed[-1].parent if listed else None
            if start is not None:  # where the lock was added, it may have been renamed
                former = self._former_path(listed[-1].commit, start, changes[listed[-1].commit].path)
                start = None if former is None else start
                pathspec = f":(top,literal){former}"
        return commits

    def _lock_commit(self, listed: _Listed, blob: str | None) -> LockCommit:
        is_boundary = listed.parent is None and self._repository.is_shallow
        date, subject = listed.date, listed.subject
        return LockCommit(commit=listed.commit, date=date, subject=subject, blob=blob, is_boundary=is_boundary)

    def commits_after(self, revision: str) -> Collection[str]:
        """Returns the ids of the commits of the branch that are not in a revision.

        Raises:
            CacheunitError: there is no such revision.
        """
        found = self._repository.revision(revision, "revision or date", "a branch, a tag, a commit, or YYYY-MM-DD")
        return frozenset(self._git("rev-list", "--first-parent", f"{found.commit}..HEAD").decode().split())

    def read(self, blob: str) -> bytes | None:
        """Returns the content with that id, by one process of `git cat-file --batch`; None where the clone lacks it."""
        return self._blobs.find(blob)

    def _listed(self, start: str, pathspec: str) -> list[_Listed]:
        """Returns the commits that changed a file, from the newest to the oldest."""
        # Not `git log`, which may run a program to verify signatures.
        arguments = ("--first-parent", "--encoding=UTF-8", f"--format={_FORMAT}", start, "--", pathspec)
        lines = self._git("rev-list", *arguments).split(b"\n")
        listed = []
        for line in lines:
            if b"\0" in line:  # between them are lines such as "commit 3f2a1bc…"
                commit, parents, date, subject = line.decode("utf-8", "backslashreplace").split("\0", 3)
                parent = next(iter(parents.split(" ")), "") or None
                listed.append(_Listed(commit=commit, parent=parent, date=date, subject=subject))
        return listed

    def _changes(self, listed: Sequence[_Listed], pathspec: str) -> dict[str, _Change]:
        """Returns by the id of each commit what it changed, compared with its first parent."""
        asked = "".join(f"{item.commit} {item.parent or ''}".rstrip() + "\n" for item in listed)
        output = self._git("diff-tree", "--stdin", "--root", *_RAW, "--no-renames", "--", pathspec, data=asked.encode())
        changes: dict[str, _Change] = {}
        commit = ""
        fields = iter(output.split(b"\0"))  # COMMIT, ":MODE MODE BLOB BLOB STATUS", PATH, COMMIT, …
        for field in fields:
            if field.startswith(b":"):
                blob, status = field.decode().split(" ")[3:5]
                changes[commit] = _Change(blob=None if status == "D" else blob, path=next(fields))
            else:
                commit = field.decode()
        return changes

    def _former_path(self, commit: str, parent: str, path: bytes) -> str | None:
        """Returns the path from which a commit renamed a lock; None where it was not renamed."""
        output = self._git("diff-tree", *_RAW, "-M", parent, commit, "--", f":(top,glob)**/{self._lock}")
        for former, new in _renames(output):
            if new == path:
                return os.fsdecode(former)
        return None

    def _git(self, *arguments: str, data: bytes = b"") -> bytes:
        """Runs git and returns its output.

        Raises:
            CacheunitError: it fails.
        """
        result = run_git(self._root, *arguments, data=data)
        if result.returncode != 0:
            raise fail(f"git cannot list the history of {self._lock}: {git_message(result)}")
        return result.stdout


def _renames(output: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields the former and the new path of each renamed file in the output of `git diff-tree --raw -z -M`."""
    fields = iter(output.split(b"\0"))
    for field in fields:
        if field.startswith(b":"):
            status, path = field.split(b" ")[4], next(fields)
            if status.startswith((b"R", b"C")):
                new = next(fields)
                if status.startswith(b"R"):
                    yield path, new
