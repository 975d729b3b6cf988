"""What a clone's git is told of locks, in its own settings and in `.gitattributes`; and git's merge of texts."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from cacheunit_build.adapters.git.history import run_git
from cacheunit_build.domain.errors import fail

if TYPE_CHECKING:
    import subprocess

_NOT_SET = 1
_CONFLICTS = range(1, 128)
"""The exit codes by which `git merge-file` counts conflicts; what is above is a failure."""


class Clone:
    """The clone of a repository that a folder is in. Its settings are shared by all its work trees.

    Args:
        folder: a folder of its work tree.

    Raises:
        CacheunitError: the folder is in no work tree, or there is no git.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        done = _git(folder, "rev-parse", "--is-inside-work-tree")
        if done.returncode != 0 or done.stdout.strip() != b"true":
            said = _said(done) or "a repository without files"
            hint = 'run it in a clone, or make one by "git init"'
            raise fail(f'"{folder}" is in no work tree of git: {said}', hint=hint)

    def setting(self, name: str) -> str | None:
        """What this clone's own settings say of `name`, None where nothing."""
        done = _git(self._folder, "config", "--local", "--get", name)
        if done.returncode not in (0, _NOT_SET):
            raise fail(f'git cannot read "{name}": {_said(done)}')
        return done.stdout.decode().removesuffix("\n") if done.returncode == 0 else None

    def set(self, name: str, value: str) -> None:
        """Writes a setting, in place of all that were there by that name."""
        self._change(name, "--replace-all", name, value)

    def unset(self, name: str) -> None:
        """Removes a setting that is there."""
        self._change(name, "--unset-all", name)

    def _change(self, name: str, *arguments: str) -> None:
        done = _git(self._folder, "config", "--local", *arguments)
        if done.returncode != 0:
            raise fail(f'git cannot change "{name}": {_said(done)}')

    def attributes(self, path: str, *names: str) -> dict[str, str]:
        """What all of git's attribute files together say of the file; `unspecified` where nothing.

        `path` is relative to the folder.
        """
        done = _git(self._folder, "check-attr", "-z", *names, "--", path)
        if done.returncode != 0:
            raise fail(f'git cannot tell the attributes of "{path}": {_said(done)}')
        fields = done.stdout.decode().split("\0")
        return dict(zip(fields[1::3], fields[2::3], strict=True))


def merge_texts(folder: Path, base: bytes | None, ours: bytes, theirs: bytes) -> tuple[bytes, bool]:
    """What git makes of three texts, and whether conflicts are left in it, marked in the style that is set.

    Args:
        folder: where git looks for that setting.
        base: what both sides had; None marks all that differs, and shows no base in the markers.
        ours: our side.
        theirs: their side.
    """
    with tempfile.TemporaryDirectory() as made:
        files = [Path(made, name) for name in ("ours", "base", "theirs")]
        for file, data in zip(files, (ours, base or b"", theirs), strict=True):
            file.write_bytes(data)
        labels = [word for file in files for word in ("-L", file.name)]
        style = [] if base is not None else ["-c", "merge.conflictStyle=merge"]
        done = _git(folder, *style, "merge-file", "-p", "-q", *labels, *map(str, files))
    if done.returncode != 0 and done.returncode not in _CONFLICTS:
        raise fail(f"git cannot merge the texts: {_said(done)}")
    return done.stdout, done.returncode != 0


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return run_git(folder, *arguments)
    except OSError as error:
        raise fail(f"git does not start: {error.strerror}", hint="install git") from None


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    """The first line of what git complained of."""
    return done.stderr.decode("utf-8", "replace").strip().partition("\n")[0].removeprefix("fatal: ")
