"""Finds the user's cache, one for all projects, and decides whether it can be believed. Imports next to nothing.

The cache is never in a project, since nothing in a checkout may vouch for itself:

    CACHE/projects/KEY/     what the builds of one project recorded; KEY is a hash of its real path
    CACHE/locks/KEY         excludes other builds of that project
    CACHE/vocabularies/     parsed vocabularies
    CACHE/cacheunit-cache.txt   marks the folder as a cache, so that no other folder is used, swept or cleaned as one

CACHE is `$CACHEUNIT_CACHE_DIR`, else the folder `cacheunit` in the place that the system has for caches.
"""

from __future__ import annotations

import hashlib
import os
import sys
from stat import S_ISDIR

VARIABLE = "CACHEUNIT_CACHE_DIR"
"""The environment variable that names the cache folder."""

MARK = "cacheunit-cache.txt"
"""The name of the file that marks the cache folder."""
_MARK_TEXT = b"A cache of cacheunit: what builds recorded. It can be deleted at any time.\n"
_NOT_OURS = frozenset(("lost+found",))
"""What may be in a folder that is to become the cache: file systems put it into their root."""
_WRITABLE_BY_OTHERS = 0o022
_PRIVATE = 0o700


class CacheFolder:
    """The parts of the user's cache that one project uses. Nothing is created before `prepare`.

    Args:
        root: the root of the project.

    Attributes:
        root: its real path.
        project: the folder of what its builds recorded.
        projects: the folder of the former.
        locks: the folder of locks.
        lock: the file that excludes other builds of the project.
        vocabularies: the folder of parsed vocabularies.
    """

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self._cache = _user_cache()
        key = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:32]
        self.projects = f"{self._cache}/projects"
        self.project = f"{self.projects}/{key}"
        self.locks = f"{self._cache}/locks"
        self.lock = f"{self.locks}/{key}"
        self.vocabularies = f"{self._cache}/vocabularies"

    def problem(self) -> str | None:
        """Returns why the cache must not be used, None where it may be; folders that do not exist are no problem."""
        try:
            cache = os.path.realpath(self._cache)
            if f"{cache}/".startswith(f"{self.root.rstrip('/')}/"):
                return f'"{self._cache}" is inside of the project'
            if f"{self.root}/".startswith(f"{cache.rstrip('/')}/"):
                return f'the project is inside of "{self._cache}"'
            if not os.path.lexists(f"{self._cache}/{MARK}") and _has_files(self._cache):
                return f'"{self._cache}" has other files and no {MARK}: it is not a cache of cacheunit'
            folders = (self._cache, self.projects, self.project, self.locks, self.vocabularies)
            return next(filter(None, map(_distrust, folders)), None)
        except (OSError, ValueError) as error:
            return f'cannot read "{self._cache}": {error}'

    def removable(self, *, everything: bool) -> tuple[str, ...]:
        """Returns the folders that may be removed at any time: those of the project, or of all projects."""
        return (self.projects, self.vocabularies) if everything else (self.project,)

    def prepare(self) -> str | None:
        """Creates the folders; returns why the cache cannot be used, None where it can be."""
        problem = self.problem()
        if problem is not None:
            return problem
        try:
            os.makedirs(os.path.dirname(self._cache), exist_ok=True)
            for folder in (self._cache, self.projects, self.project, self.locks, self.vocabularies):
                if not os.path.isdir(folder):
                    _create(folder)
                if folder == self._cache and not os.path.lexists(f"{folder}/{MARK}"):
                    with open(f"{folder}/{MARK}", "wb") as handle:
                        handle.write(_MARK_TEXT)
        except OSError as error:
            return f'cannot create "{error.filename}": {error.strerror}'
        if not os.access(self.project, os.W_OK):
            return f'"{self.project}" is read-only'
        return self.problem()


def _create(folder: str) -> None:
    """Creates a folder that only the user can use; another process may do so at the same time."""
    try:
        os.mkdir(folder, _PRIVATE)
    except FileExistsError:
        return


def _has_files(folder: str) -> bool:
    """Returns whether there is anything in a folder that it does not have by itself."""
    try:
        return not _NOT_OURS.issuperset(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return False


def _user_cache() -> str:
    """Returns the absolute path of the user's cache folder."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return os.path.abspath(os.path.expanduser(chosen))
    if sys.platform == "linux":  # as platformdirs does, whose import takes as long as a whole build with nothing to do
        parent = os.environ.get("XDG_CACHE_HOME", "")
        return os.path.join(parent if os.path.isabs(parent) else os.path.expanduser("~/.cache"), "cacheunit")
    from platformdirs import user_cache_dir

    return user_cache_dir("cacheunit", appauthor=False)


def _distrust(folder: str) -> str | None:
    """Returns why a folder of the cache must not be believed, None where it may be or does not exist."""
    try:
        status = os.lstat(folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not S_ISDIR(status.st_mode):
        return f'"{folder}" is a link or a file'
    if hasattr(os, "geteuid"):
        if status.st_uid != os.geteuid():
            return f'"{folder}" belongs to another user'
        if status.st_mode & _WRITABLE_BY_OTHERS:
            return f'other users may write to "{folder}"'
    return None
