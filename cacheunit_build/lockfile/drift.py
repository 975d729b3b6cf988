"""Finds drift: the differences between two locks, and between a lock and the files of the build folder.

before        after         drift
-             a for t       added
a for t       -             removed
t.tokenizer   another one   tokenizer   for every artifact of t
t             another one   profile     for every artifact of t: another format, frame, cache rule, options or models
a.token_ids   another one   tokenizer   where text and request are the same
a             another one   changed     for any other change of the entry

A lock of version 1 has no format, cache rule, options and markers: they are not compared, and the version itself is one
difference.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cacheunit_build.domain.artifact import locked_files
from cacheunit_build.domain.drift import Drift
from cacheunit_build.domain.file_names import LOCK_FILE, files_of_artifacts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from cacheunit_build.domain.drift import DriftKind
    from cacheunit_build.domain.lock import ArtifactKey, Lock


def drift_between(before: Lock, after: Lock) -> Iterator[Drift]:
    """Yields what a build would change in the lock `before` to make it `after`, by prefix and target."""
    if before.version != after.version:
        yield Drift(prefix="", target="", kind="lock version", path=LOCK_FILE)
    for key in sorted({*before.entries, *after.entries}):
        kind = _kind_of_change(before, after, key)
        if kind is not None:
            prefix, target = key
            yield Drift(prefix=prefix, target=target, kind=kind)


def _kind_of_change(before: Lock, after: Lock, key: ArtifactKey) -> DriftKind | None:
    """Returns what changed of an artifact, None where nothing did."""
    old, new = before.entries.get(key), after.entries.get(key)
    if old is None or new is None:
        return "added" if old is None else "removed"
    was, now = before.targets.get(key[1]), after.targets[key[1]]
    if was is None or was.tokenizer != now.tokenizer:
        return "tokenizer"
    if before.version != after.version:
        old, now = replace(old, margin=new.margin, markers=new.markers), was
    if was != now:
        return "profile"
    files = [(entry.text, entry.request, entry.cached_content) for entry in (old, new)]
    if files[0] == files[1] and old.token_ids != new.token_ids:
        return "tokenizer"
    return "changed" if old != new else None


def drift_on_disk(
    lock: Lock, folder: str, fingerprint_of: Callable[[str], str | None], files: Collection[str]
) -> Iterator[Drift]:
    """Yields what in the build folder differs from the lock: edited and missing files, and orphans.

    An orphan is an artifact that the lock does not name. Other files may share the folder.

    Args:
        lock: the lock.
        folder: the build folder.
        fingerprint_of: returns the fingerprint of a file, None where there is no such file.
        files: every file in the build folder.
    """
    listed: set[str] = set()
    for (prefix, target), entry in sorted(lock.entries.items()):
        expected_files = locked_files((prefix, target), entry, folder)
        listed.update(expected_files)
        for path, expected in expected_files.items():
            actual = fingerprint_of(path)
            if actual is None:
                yield Drift(prefix=prefix, target=target, kind="missing", path=path)
            elif actual != expected:
                yield Drift(prefix=prefix, target=target, kind="edited", path=path)
    artifacts = files_of_artifacts(files, folder, {target for _, target in lock.entries})
    for path in sorted(set(artifacts) - listed):
        yield Drift(prefix="", target="", kind="orphan", path=path)
