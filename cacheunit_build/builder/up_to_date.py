"""Decides from the record of the last build whether there is anything to do, for the whole project or one manifest.

Wherever something changed, or nothing is known, the answer is None, and the project is compiled. Nothing heavy is
imported here.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from cacheunit_build.builder.results import BuildResult, CheckResult
from cacheunit_build.domain.artifact import locked_files
from cacheunit_build.domain.drift import Drift
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.file_names import LOCK_FILE, files_of_artifacts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cacheunit_build.domain.artifact import ArtifactRecord
    from cacheunit_build.domain.build_record import BuildRecord, PrefixRecord
    from cacheunit_build.domain.protocols import ProjectFiles, RecordStore

    Fingerprints = Callable[[str], str | None]

_MANIFESTS = (".yaml", ".yml")
"""Extensions of files that must be compiled, or refused since `.yml` is not allowed."""


def unchanged_build(files: ProjectFiles, records: RecordStore) -> BuildResult | None:
    """Returns the result of a build that has nothing to do; None where it may have something to do."""
    try:
        record = _unchanged_record(files, records, files.known_fingerprint)
        paths = None if record is None else _orphans(files, record)
    except CacheunitError:  # the build reports it
        return None
    if record is None or paths is None:
        return None
    orphans = tuple(Drift(prefix="", target="", kind="orphan", path=path) for path in paths)
    return BuildResult(records=_sorted(record), orphans=orphans, lock="unchanged")


def unchanged_check(files: ProjectFiles, records: RecordStore) -> CheckResult | None:
    """Returns the result of a check that finds no difference, reading every file; None where there may be one."""
    try:
        record = _unchanged_record(files, records, cache(files.fingerprint))
        if record is None or _orphans(files, record) != []:
            return None
    except CacheunitError:  # the check reports it
        return None
    estimates = tuple(artifact for artifact in _sorted(record) if artifact.entry.is_estimate)
    return CheckResult(verified=len(record.artifacts), estimates=estimates)


def reusable_records(
    records: RecordStore, fingerprint_of: Callable[[str], str | None], written_in: ProjectFiles | None = None
) -> Callable[[str], PrefixRecord | None] | None:
    """Returns a function from the path of a manifest to its record, where none of its inputs changed.

    Args:
        records: the store of the last build's record.
        fingerprint_of: returns the present fingerprint of a file.
        written_in: reuse a record only where its files in the build folder of this project are complete, since nothing
            could write them again without compiling.

    Returns:
        None where there is no record, or the settings changed.
    """
    record = records.valid_record()
    fingerprint_of = cache(fingerprint_of)
    unchanged = None if record is None else record.reusable(fingerprint_of)
    if record is None or unchanged is None or written_in is None:
        return unchanged
    build = record.folders[2]
    written_fingerprint = listed_only(fingerprint_of, written_in.walk(build))

    def with_files(path: str) -> PrefixRecord | None:
        prefix = unchanged(path)
        written = prefix is not None and all(_is_written(item, build, written_fingerprint) for item in prefix.artifacts)
        return prefix if written else None

    return with_files


def listed_only(fingerprint_of: Fingerprints, files: Iterable[str]) -> Fingerprints:
    """Returns a function from the path of a file to its fingerprint, None where it is not among the listed files.

    Some file systems find `build/agent` by the name `build/Agent` too, so that only the list tells which one is there.
    """
    listed = frozenset(files)
    return lambda path: fingerprint_of(path) if path in listed else None


def _unchanged_record(
    files: ProjectFiles, records: RecordStore, fingerprint_of: Callable[[str], str | None]
) -> BuildRecord | None:
    """Returns the last record if settings, manifests, inputs, lock and artifacts still match it, else None."""
    record = records.valid_record()
    if record is None or record.lock is None or fingerprint_of(LOCK_FILE) != record.lock:
        return None
    prefixes, build = record.prefixes.values(), record.folders[2]
    # What people edit is looked at first: most changes are found before a folder is listed.
    if not record.settings_match(fingerprint_of) or not all(prefix.matches(fingerprint_of) for prefix in prefixes):
        return None
    if not _same_manifests(files, record):
        return None
    files.walk(record.folders[1])  # raises where a build would report a name or a link
    inputs = (item for prefix in prefixes for item in prefix.inputs.items())
    if files.twins({path for path, fingerprint in inputs if fingerprint is not None}):
        return None
    return record if all(_is_written(artifact, build, fingerprint_of) for artifact in record.artifacts) else None


def _same_manifests(files: ProjectFiles, record: BuildRecord) -> bool:
    """Returns whether the project has exactly the recorded manifests, and a build folder."""
    prefixes, _, build = record.folders
    manifests = {path for path in files.walk(prefixes) if path.lower().endswith(_MANIFESTS)}
    return manifests == record.prefixes.keys() and files.has_folder(build)


def _is_written(artifact: ArtifactRecord, build: str, fingerprint_of: Callable[[str], str | None]) -> bool:
    """Returns whether the artifact's files in the build folder have exactly the recorded bytes."""
    files = locked_files(artifact.key, artifact.entry, build)
    return all(fingerprint_of(path) == expected for path, expected in files.items())


def _orphans(files: ProjectFiles, record: BuildRecord) -> list[str] | None:
    """Returns the artifacts in the build folder that are not in the record; None where one of the record is missing."""
    recorded, build = record.artifact_files(), record.folders[2]
    listed = files.walk(build)
    if not recorded.keys() <= set(listed):
        return None
    artifacts = files_of_artifacts(listed, build, {artifact.target for artifact in record.artifacts})
    return sorted(path for path in artifacts if path not in recorded)


def _sorted(record: BuildRecord) -> tuple[ArtifactRecord, ...]:
    return tuple(sorted(record.artifacts, key=lambda artifact: artifact.key))
