"""What git remembers of a project's files. Where there is no git, or no history, it remembers nothing."""

from __future__ import annotations

import subprocess
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class History:
    """The sources as they were when the lock was last committed.

    Args:
        root: the project's root, anywhere inside a work tree.
        lock: the lock's path, relative to the root.
    """

    def __init__(self, root: Path, lock: str) -> None:
        self._root = root
        self._lock = lock

    def before(self, path: str) -> tuple[bytes | None] | None:
        """The file as committed with the present lock: its bytes, None inside where it was absent.

        None altogether where that cannot be told: no git, no commit of the lock, or a lock that differs from it.
        """
        if self._revision is None:
            return None
        return (git_output(self._root, "cat-file", "blob", f"{self._revision}:./{path}"),)

    @cached_property
    def _revision(self) -> str | None:
        """The last commit that touched the lock, if the lock is still as it was there."""
        found = git_output(self._root, "log", "-1", "--format=%H", "--", self._lock)
        revision = (found or b"").decode().strip()
        if not revision or git_output(self._root, "diff", "--quiet", revision, "--", self._lock) is None:
            return None
        return revision


def git_output(root: Path, *arguments: str) -> bytes | None:
    """The standard output of git in that folder, None where it fails or is missing."""
    try:
        done = run_git(root, *arguments)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def run_git(root: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """What git did in that folder.

    Raises:
        OSError: it does not start.
    """
    return subprocess.run(  # noqa: S603 - words of this program, and names that stand behind --end-of-options or --
        ["git", *arguments],  # noqa: S607 - the user's git
        cwd=root,
        capture_output=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
