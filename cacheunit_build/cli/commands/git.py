"""`git setup`, and the two programs that it tells git of: `git merge` for locks, `git textconv` for diffs of them."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cacheunit_build.cli.context import NO, OK, Session, put, put_bytes, read_file, say_faults, with_session
from cacheunit_build.domain.errors import CacheunitError, Fault, fail
from cacheunit_build.domain.file_names import LOCK_FILE

if TYPE_CHECKING:
    from cacheunit_build.adapters.git.merge_driver import Clone
    from cacheunit_build.adapters.storage.project_files import DiskFiles
    from cacheunit_build.domain.lock import Lock

_ATTRIBUTES = ".gitattributes"
_LINE = f"{LOCK_FILE} merge=cacheunit diff=cacheunit".encode()


@click.group()
def git() -> None:
    """Let git merge locks by entry, and show them as one line an entry."""


@git.command()
@click.option("--remove", is_flag=True, help="Take back what it set up, in all projects of the clone.")
@with_session
def setup(session: Session, *, remove: bool) -> int:
    """Set up merge driver and textconv: in the settings of this clone, and in .gitattributes for all clones."""
    from cacheunit_build.adapters.git.merge_driver import Clone

    files = session.files()
    clone = Clone(files.root)
    if remove:
        _remove(clone, files)
        return OK
    done = _attribute(clone, files)
    for name, value in _settings().items():
        before = clone.setting(name)
        if before != value:
            clone.set(name, value)
        put(f"{'kept' if before == value else 'set'}  {name}")
    put(f"{done}  {_ATTRIBUTES}")
    if done != "kept":
        session.say(f"\nnext: commit {_ATTRIBUTES}, and run this once in each clone; one without it merges by line")
    return OK


def _settings() -> dict[str, str]:
    """The settings of a clone, by name.

    Git runs them by a shell, from editors and hooks too, where no virtual environment is active: so they name the
    running interpreter by its whole path, which has this package. They stay in this clone, so a path of this machine
    is no harm; where it is gone, they fall back to what git does without them. `-P`, since git runs them inside the
    work tree, whose files are not to be imported.
    """
    python = f"{shlex.quote(Path(sys.executable).as_posix())} -P"
    plain = "git merge-file -L ours -L base -L theirs %A %O %B"
    known = f"{python.replace('%', '%%')} -c 'import cacheunit_build' 2>/dev/null"
    driver = f"{python.replace('%', '%%')} -m cacheunit_build git merge -- %O %A %B %P"
    return {
        "merge.cacheunit.name": "cacheunit.lock, by entry",
        "merge.cacheunit.driver": f"if {known}; then {driver}; else {plain}; fi",
        "diff.cacheunit.textconv": (
            f'f() {{ {python} -m cacheunit_build git textconv -- "$1" 2>/dev/null || cat -- "$1"; }}; f'
        ),
    }


def _attribute(clone: Clone, files: DiskFiles) -> str:
    """Has the attributes of the lock name both; says whether the file was kept, added to or made."""
    wanted = {"merge": "cacheunit", "diff": "cacheunit"}
    if clone.attributes(LOCK_FILE, *wanted) == wanted:
        return "kept"
    before = files.read(_ATTRIBUTES)
    start = before or b""
    start += b"" if start.endswith(b"\n") or not start else b"\n"
    files.commit({_ATTRIBUTES: start + _LINE + b"\n"}, (), None)
    if clone.attributes(LOCK_FILE, *wanted) != wanted:
        gone = (_ATTRIBUTES,) if before is None else ()
        files.commit({} if before is None else {_ATTRIBUTES: before}, gone, None)
        hint = 'look for its name in .git/info/attributes, which goes before ".gitattributes"'
        raise fail("other attributes of git overrule those of the lock", hint=hint)
    return "made" if before is None else "added to"


def _remove(clone: Clone, files: DiskFiles) -> None:
    for name in _settings():
        before = clone.setting(name)
        if before is not None:
            clone.unset(name)
        put(f"{'absent' if before is None else 'removed'}  {name}")
    lines = (files.read(_ATTRIBUTES) or b"").splitlines(keepends=True)
    left = b"".join(line for line in lines if line.strip() != _LINE)
    if left != b"".join(lines):
        files.commit({_ATTRIBUTES: left} if left else {}, () if left else (_ATTRIBUTES,), None)
        put(f"removed  {_ATTRIBUTES}: {_LINE.decode()}")


_file = click.Path(path_type=Path)


@git.command()
@click.argument("base", type=_file)
@click.argument("ours", type=_file)
@click.argument("theirs", type=_file)
@click.argument("path", default=LOCK_FILE)
@with_session
def merge(session: Session, base: Path, ours: Path, theirs: Path, path: str) -> int:
    """Merge three locks by entry into OURS, as git's merge driver; PATH is the lock's name in messages.

    Exit code 1: both sides changed one thing differently, and OURS has markers there.
    """
    from cacheunit_build.adapters.git.merge_driver import merge_texts
    from cacheunit_build.lockfile.format import write_lock
    from cacheunit_build.lockfile.merge import merge_locks

    texts = [read_file(session.folder / file) for file in (base, ours, theirs)]
    locks, faults = _read_sides(texts, path)
    if faults:
        merged, _ = merge_texts(session.folder, *texts)
        (session.folder / ours).write_bytes(merged)
        say_faults(faults)
        return NO
    result = merge_locks(*locks)
    if not result.clashes:
        (session.folder / ours).write_bytes(write_lock(result.lock))
        return OK
    texts = [write_lock(result.decided_by(lock)) for lock in locks]
    merged, marked = merge_texts(session.folder, *texts)
    # Two changes of one entry may merge by line, into an entry that nobody made: without a base, all are marked.
    (session.folder / ours).write_bytes(merged if marked else merge_texts(session.folder, None, *texts[1:])[0])
    say_faults(Fault(message=str(clash), path=path) for clash in result.clashes)
    session.say('\nhint: merge the sources, then "cacheunit build" makes the lock anew from them')
    return NO


def _read_sides(texts: list[bytes], path: str) -> tuple[list[Lock], list[Fault]]:
    """Base, ours and theirs as locks, and what is wrong with those that are none; git has no base for a new file."""
    from cacheunit_build.lockfile.format import EMPTY, LockUnknownError, parse_lock

    locks: list[Lock] = []
    faults: list[Fault] = []
    for side, data in zip(("base", "ours", "theirs"), texts, strict=True):
        try:
            locks.append(EMPTY if side == "base" and not data else parse_lock(data, f"{path} ({side})"))
        except LockUnknownError as error:
            faults += error.faults
    return locks, faults


@git.command()
@click.argument("file", type=_file)
@with_session
def textconv(session: Session, file: Path) -> int:
    """Print a lock as one line a target and an entry; print what is no lock as it is."""
    from cacheunit_build.lockfile.format import parse_lock
    from cacheunit_build.reports.lock import lock_text

    data = read_file(session.folder / file)
    try:
        put(lock_text(parse_lock(data, LOCK_FILE)))
    except CacheunitError:
        put_bytes(data)
    return OK


COMMANDS = (git,)
