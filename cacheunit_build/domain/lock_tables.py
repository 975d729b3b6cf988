"""Reads a lockfile for `load`, with the standard library only: its tables, and one artifact in them as values.

A build reads it with `lockfile.format`, which validates all of it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.errors import CacheunitError, fail
from cacheunit_build.domain.file_names import LOCK_VERSION

if TYPE_CHECKING:
    from collections.abc import Collection

    from cacheunit_build.domain.lock import LockEntry, TargetIdentity


def lock_tables(data: bytes, path: str) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, dict[str, Any]]]]:
    """Returns the targets of a lock, and its entries by prefix and target, as JSON values.

    Args:
        data: the bytes of the lockfile.
        path: the file, for messages.

    Raises:
        CacheunitError: it is broken, or has another version.
    """
    try:
        lock = json.loads(data)
        version = lock["version"]
        if version != LOCK_VERSION:
            hint = 'run "cacheunit build" to rewrite it' if version < LOCK_VERSION else "use a newer cacheunit"
            raise fail(f"the lock has version {version}; load() reads version {LOCK_VERSION}", path=path, hint=hint)
        for entries in lock["prefixes"].values():
            for target, entry in entries.items():
                if not isinstance(entry, dict) or not isinstance(lock["targets"][target], dict):
                    raise _broken("the lock is broken", path)
        return lock["targets"], lock["prefixes"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _broken("the lock is broken", path) from None


def _broken(message: str, path: str) -> CacheunitError:
    return fail(message, path=path, hint='run "cacheunit build"')


def locked_artifact(
    entry: object, identity: object, formats: Collection[str], path: str
) -> tuple[LockEntry, TargetIdentity]:
    """Returns the entry of an artifact and the identity of its target.

    Args:
        entry: the entry, as JSON values.
        identity: the identity, as JSON values.
        formats: the names of all request formats.
        path: the lockfile, for messages.

    Raises:
        CacheunitError: a key or value is not one that a build writes.
    """
    from cacheunit_build.domain.lock import entry_from, identity_from

    try:
        locked = entry_from(entry), identity_from(identity)
    except ValueError as error:
        raise _broken(f"the lock is broken: {error}", path) from None
    if locked[1].format not in formats:
        raise _broken(f'the lock is broken: unknown format "{locked[1].format}"', path)
    if locked[1].cache.is_stored != (locked[0].cached_content is not None):
        raise _broken('the lock is broken: "cached_content" does not fit the cache rule', path)
    return locked
