"""`cacheunit git setup`: configures git to merge and show locks with `git merge` and `git textconv` of this program."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cacheunit_build.cli.context import OK, Context, with_context
from cacheunit_build.cli.output import print_text
from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.file_names import LOCK_FILE

if TYPE_CHECKING:
    from cacheunit_build.adapters.git.clone import Clone
    from cacheunit_build.adapters.storage.project_files import DiskFiles

_ATTRIBUTES_FILE = ".gitattributes"
_ATTRIBUTES = {"merge": "cacheunit", "diff": "cacheunit"}
_ATTRIBUTES_LINE = f"{LOCK_FILE} merge=cacheunit diff=cacheunit".encode()


@click.command()
@click.option("--remove", is_flag=True, help="Remove what setup added, for all projects of the clone.")
@with_context
def setup(context: Context, *, remove: bool) -> int:
    """Set up git for locks.

    Writes the settings of this clone, and .gitattributes, which applies to all clones that have these settings.
    """
    from cacheunit_build.adapters.git.clone import Clone

    files = context.files()
    clone = Clone(files.root)
    if remove:
        _remove(clone, files)
        return OK
    change = _add_attributes(clone, files)
    for name, value in _settings().items():
        unchanged = clone.setting(name) == value
        if not unchanged:
            clone.set(name, value)
        print_text(f"{'unchanged' if unchanged else 'set'}  {name}")
    print_text(f"{change}  {_ATTRIBUTES_FILE}")
    if change != "unchanged":
        context.remark(
            f"\nnext: commit {_ATTRIBUTES_FILE}, and run this once in each clone; "
            "a clone without it merges the lock by line"
        )
    return OK


def _settings() -> dict[str, str]:
    """Returns the settings of the clone by name.

    Git runs both commands in a shell, and also from editors and hooks, where no virtual environment is active. So they
    name the running interpreter by its absolute path; the settings are not shared, so the path of this machine does no
    harm. If that interpreter is gone, locks are merged by line and shown unchanged. `-P` keeps Python from importing
    files of the work tree, in which git runs the commands.
    """
    python = f"{shlex.quote(Path(sys.executable).as_posix())} -P"
    merge_by_line = "git merge-file -L ours -L base -L theirs %A %O %B"
    installed = f"{python.replace('%', '%%')} -c 'import cacheunit_build' 2>/dev/null"
    merge_by_entry = f"{python.replace('%', '%%')} -m cacheunit_build git merge -- %O %A %B %P"
    return {
        "merge.cacheunit.name": "cacheunit.lock, by entry",
        "merge.cacheunit.driver": f"if {installed}; then {merge_by_entry}; else {merge_by_line}; fi",
        "diff.cacheunit.textconv": (
            f'f() {{ {python} -m cacheunit_build git textconv -- "$1" 2>/dev/null || cat -- "$1"; }}; f'
        ),
    }


def _add_attributes(clone: Clone, files: DiskFiles) -> str:
    """Adds the lock's attributes to `.gitattributes`; returns "created", "updated" or "unchanged".

    Raises:
        CacheunitError: the file cannot be written, or other attribute files override it, and it is left as it was.
    """
    if clone.attributes(LOCK_FILE, *_ATTRIBUTES) == _ATTRIBUTES:
        return "unchanged"
    before = files.read(_ATTRIBUTES_FILE)
    start = before or b""
    # "*.png binary" without a newline stays a line of its own.
    start += b"" if start.endswith(b"\n") or not start else b"\n"
    files.commit({_ATTRIBUTES_FILE: start + _ATTRIBUTES_LINE + b"\n"}, (), None)
    if clone.attributes(LOCK_FILE, *_ATTRIBUTES) != _ATTRIBUTES:
        _write_or_remove(files, before)
        hint = 'look for it in .git/info/attributes, which takes precedence over ".gitattributes"'
        raise fail(f'other git attributes override those of "{LOCK_FILE}"', hint=hint)
    return "created" if before is None else "updated"


def _remove(clone: Clone, files: DiskFiles) -> None:
    """Removes the settings, and the lock's line in `.gitattributes`."""
    for name in _settings():
        exists = clone.setting(name) is not None
        if exists:
            clone.unset(name)
        print_text(f"{'removed' if exists else 'not set'}  {name}")
    lines = (files.read(_ATTRIBUTES_FILE) or b"").splitlines(keepends=True)
    others = [line for line in lines if line.strip() != _ATTRIBUTES_LINE]
    if others != lines:
        _write_or_remove(files, b"".join(others) or None)
        print_text(f"removed  {_ATTRIBUTES_FILE}: {_ATTRIBUTES_LINE.decode()}")


def _write_or_remove(files: DiskFiles, data: bytes | None) -> None:
    """Writes `.gitattributes`, or removes it if there is nothing to write."""
    if data is None:
        files.commit({}, (_ATTRIBUTES_FILE,), None)
    else:
        files.commit({_ATTRIBUTES_FILE: data}, (), None)
