"""Runs git."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from cacheunit_build.domain.errors import CacheunitError, fail

if TYPE_CHECKING:
    from pathlib import Path


def run_git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Runs git in a folder, and returns its exit code and output.

    Raises:
        CacheunitError: git cannot be run.
    """
    try:
        return subprocess.run(  # noqa: S603 - own arguments, and names that follow --end-of-options or --
            ["git", *arguments],  # noqa: S607 - the user's git
            cwd=folder,
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except OSError as error:
        raise cannot_run_git(error) from None


def git_output(folder: Path, *arguments: str) -> bytes | None:
    """Runs git in a folder, and returns its standard output; None if git fails or cannot be run."""
    try:
        result = run_git(folder, *arguments)
    except CacheunitError:
        return None
    return result.stdout if result.returncode == 0 else None


def cannot_run_git(error: OSError) -> CacheunitError:
    """Returns the error to report if git cannot be started, or has stopped."""
    hint = "install git" if isinstance(error, FileNotFoundError) else None
    return fail(f"cannot run git: {error.strerror}", hint=hint)


def git_message(result: subprocess.CompletedProcess[bytes]) -> str:
    """Returns the first line of git's error output."""
    return result.stderr.decode("utf-8", "replace").strip().partition("\n")[0].removeprefix("fatal: ")
