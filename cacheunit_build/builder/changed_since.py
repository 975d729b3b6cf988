"""Narrows a selection to the prefixes whose inputs changed since an older version of the project."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING

from cacheunit_build.builder.up_to_date import reusable_records
from cacheunit_build.compiler.project import compile_or_fail
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.file_names import COUNTS_FILE, SETTINGS_FILES
from cacheunit_build.domain.selection import Selection
from cacheunit_build.domain.settings import SettingsKeys
from cacheunit_build.lockfile.counts import read_counts
from cacheunit_build.parsing.settings import parse_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from cacheunit_build.domain.artifact import ArtifactRecord
    from cacheunit_build.domain.lock import ArtifactKey
    from cacheunit_build.domain.protocols import Adapters, SourceFiles
    from cacheunit_build.domain.recorded_count import RecordedCount

_WITHOUT_EFFECT = ("build", "gate", "lint")
"""The settings that change no artifact."""


def changed_since(adapters: Adapters, selection: Selection, old: SourceFiles) -> Selection | None:
    """Returns a selection of the variants of which an input changed; None where no input changed.

    A change of the settings changes all of them.

    Args:
        adapters: the project.
        selection: the variants to look at.
        old: the files of the older version.

    Raises:
        CacheunitError: every fault in the sources and the selection.
    """
    reuse = reusable_records(adapters.records, adapters.files.fingerprint)
    records = compile_or_fail(adapters, selection, reuse=reuse).records
    if _settings_of(old) == _settings_of(adapters.files):
        changes = _InputChanges(old, adapters.files)
        records = tuple(record for record in records if changes.affect(record))
    names = tuple(dict.fromkeys(record.prefix for record in records))
    return Selection(names=names, targets=selection.targets) if names else None


def _settings_of(files: SourceFiles) -> dict[str, object] | None:
    """Returns the settings that have an effect on artifacts; None where they have faults."""
    try:
        settings = parse_settings(*map(files.read, SETTINGS_FILES))
    except CacheunitError:
        return None
    keys = (key.name for key in fields(SettingsKeys))
    return {key: getattr(settings, key) for key in keys if key not in _WITHOUT_EFFECT}


class _InputChanges:
    """The inputs that differ between two versions of a project."""

    def __init__(self, old: SourceFiles, new: SourceFiles) -> None:
        self._old_counts, self._new_counts = _counts_by_artifact(old), _counts_by_artifact(new)
        self._fingerprint_of = cache(_fingerprints(old))

    def affect(self, record: ArtifactRecord) -> bool:
        """Returns whether an input of an artifact is not as it was; of the recorded counts, its own are one."""
        for lookup in record.lookups:
            if lookup.path == COUNTS_FILE:
                if self._old_counts.get(record.key) != self._new_counts.get(record.key):
                    return True
            elif self._fingerprint_of(lookup.path) != lookup.fingerprint:
                return True
        return False


def _counts_by_artifact(files: SourceFiles) -> dict[ArtifactKey, set[RecordedCount]]:
    """Returns the recorded counts of each artifact; none where they have faults."""
    counts: dict[ArtifactKey, set[RecordedCount]] = {}
    try:
        recorded = read_counts(files).counts.values()
    except CacheunitError:
        return counts
    for count in recorded:
        counts.setdefault((count.prefix, count.target), set()).add(count)
    return counts


def _fingerprints(files: SourceFiles) -> Callable[[str], str | None]:
    """Returns a function from a path to the fingerprint of the file; of one that cannot be read, it is another text."""

    def fingerprint_of(path: str) -> str | None:
        try:
            return files.fingerprint(path)
        except CacheunitError:
            return "unreadable"

    return fingerprint_of
