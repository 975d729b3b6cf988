"""Narrows a selection to the prefixes whose inputs changed since an older version of the project."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING

from cacheunit_build.builder.up_to_date import reusable_records
from cacheunit_build.compiler.project import compile_or_fail
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.file_names import SETTINGS_FILES
from cacheunit_build.domain.selection import Selection
from cacheunit_build.domain.settings import SettingsKeys
from cacheunit_build.parsing.settings import parse_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from cacheunit_build.domain.artifact import ArtifactRecord
    from cacheunit_build.domain.protocols import Adapters, SourceFiles

_WITHOUT_EFFECT = ("build", "gate")
"""The settings that change no artifact."""


def changed_since(adapters: Adapters, selection: Selection, old: SourceFiles) -> Selection | None:
    """Returns a selection of those variants that an input has changed for; None if there are none.

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
        fingerprint_of = cache(_fingerprints(old))
        records = tuple(record for record in records if _has_changed(record, fingerprint_of))
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


def _fingerprints(files: SourceFiles) -> Callable[[str], str | None]:
    """Returns a function from a path to the fingerprint of the file; of one that cannot be read, it is another text."""

    def fingerprint_of(path: str) -> str | None:
        try:
            return files.fingerprint(path)
        except CacheunitError:
            return "unreadable"

    return fingerprint_of


def _has_changed(record: ArtifactRecord, fingerprint_of: Callable[[str], str | None]) -> bool:
    return any(fingerprint_of(lookup.path) != lookup.fingerprint for lookup in record.lookups)
