"""Merges texts line by line, as git does."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from cacheunit_build.adapters.git.command import git_message, run_git
from cacheunit_build.domain.errors import fail

_CONFLICTS = range(1, 128)
"""The exit codes with which `git merge-file` counts conflicts; a higher one is a failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedText:
    """The result of merging two changes of a text.

    Attributes:
        data: the merged text; conflicts in it are marked.
        conflict: whether it contains a conflict.
    """

    data: bytes
    conflict: bool


def merge_texts(folder: Path, base: bytes | None, ours: bytes, theirs: bytes) -> MergedText:
    """Merges two changes of a text, with conflict markers in the style that git is set to.

    Args:
        folder: where git looks up that setting.
        base: the text that both sides changed. With None every difference is a conflict, and markers show no base.
        ours: the text on our side.
        theirs: the text on their side.

    Raises:
        CacheunitError: there is no git, it fails, or no temporary file can be written.
    """
    try:
        with tempfile.TemporaryDirectory() as temporary:
            files = [Path(temporary, name) for name in ("ours", "base", "theirs")]
            for file, data in zip(files, (ours, base or b"", theirs), strict=True):
                file.write_bytes(data)
            labels = [argument for file in files for argument in ("-L", file.name)]
            style = [] if base is not None else ["-c", "merge.conflictStyle=merge"]
            result = run_git(folder, *style, "merge-file", "-p", "-q", *labels, *map(str, files))
    except OSError as error:
        raise fail(f"cannot write a temporary file: {error.strerror}", path=error.filename) from None
    if result.returncode != 0 and result.returncode not in _CONFLICTS:
        raise fail(f"git cannot merge the texts: {git_message(result)}")
    return MergedText(data=result.stdout, conflict=result.returncode != 0)
