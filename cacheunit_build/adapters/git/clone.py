"""Reads and changes what git knows about a project in one clone: its settings and the attributes of files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.adapters.git.command import git_message, run_git, trust_hint
from cacheunit_build.domain.errors import fail

if TYPE_CHECKING:
    from pathlib import Path

_NOT_SET = 1
"""The exit code of `git config --get` for a setting that is not set."""


class Clone:
    """A clone of a git repository. Its settings, in `.git/config`, apply to all of its work trees.

    Args:
        folder: a folder of its work tree.

    Raises:
        CacheunitError: the folder is not in a work tree, or there is no git.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        result = run_git(folder, "rev-parse", "--is-inside-work-tree")
        if result.returncode != 0 or result.stdout.strip() != b"true":
            reason = git_message(result) or "a repository without files"
            trust = trust_hint(result)
            subject = f'git does not read "{folder}"' if trust else f'"{folder}" is not in a git work tree'
            raise fail(f"{subject}: {reason}", hint=trust or 'run "git init", or run this in a clone')

    def setting(self, name: str) -> str | None:
        """Returns the value of a setting of this clone; None if it is not set.

        Raises:
            CacheunitError: git cannot read it.
        """
        result = run_git(self._folder, "config", "--local", "--get", name)
        if result.returncode not in (0, _NOT_SET):
            raise fail(f'git cannot read the setting "{name}": {git_message(result)}')
        return result.stdout.decode("utf-8", "replace").removesuffix("\n") if result.returncode == 0 else None

    def set(self, name: str, value: str) -> None:
        """Writes a setting, and replaces all values that it has.

        Raises:
            CacheunitError: the settings cannot be written.
        """
        self._change(name, "--replace-all", name, value)

    def unset(self, name: str) -> None:
        """Removes a setting that is set.

        Raises:
            CacheunitError: the settings cannot be written.
        """
        self._change(name, "--unset-all", name)

    def _change(self, name: str, *arguments: str) -> None:
        result = run_git(self._folder, "config", "--local", *arguments)
        if result.returncode != 0:
            raise fail(f'git cannot change the setting "{name}": {git_message(result)}')

    def attributes(self, path: str, *names: str) -> dict[str, str]:
        """Returns git attributes of a file by name, from all attribute files together.

        Args:
            path: the file, relative to the folder.
            names: the attributes, such as "merge".

        Returns:
            The value of each attribute, "unspecified" if it has none.

        Raises:
            CacheunitError: git cannot read them.
        """
        result = run_git(self._folder, "check-attr", "-z", *names, "--", path)
        if result.returncode != 0:
            raise fail(f'git cannot read the attributes of "{path}": {git_message(result)}')
        fields = result.stdout.decode("utf-8", "replace").split("\0")  # path, name, value, path, name, value, …
        return dict(zip(fields[1::3], fields[2::3], strict=True))
