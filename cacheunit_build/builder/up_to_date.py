"""The build that has nothing to do, and the check that finds nothing: told from the last record alone.

Nothing heavy is loaded here. Wherever something is not as it was, the answer is None, and the whole story is run.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from cacheunit_build.builder.results import BuildResult, CheckResult
from cacheunit_build.domain.models import Drift, artifact_paths
from cacheunit_build.domain.protocols import LOCK_FILE

if TYPE_CHECKING:
    from collections.abc import Callable

    from cacheunit_build.domain.models import ArtifactRecord
    from cacheunit_build.domain.protocols import ProjectFiles, RecordStore

_MANIFESTS = (".yaml", ".yml")


def quick_build(files: ProjectFiles, memory: RecordStore) -> BuildResult | None:
    """The build of a project in which everything is as the last build left it."""
    known = _unchanged(files, memory, files.known_fingerprint)
    if known is None:
        return None
    outcomes, unlisted = known
    orphans = tuple(Drift(prefix="", target="", kind="orphan", path=path) for path in unlisted)
    return BuildResult(artifacts=outcomes, orphans=orphans, lock="unchanged")


def quick_check(files: ProjectFiles, memory: RecordStore) -> CheckResult | None:
    """The check of such a project: every file is read."""
    known = _unchanged(files, memory, cache(files.fingerprint))
    return None if known is None or known[1] else CheckResult(verified=len(known[0]))


def _unchanged(
    files: ProjectFiles, memory: RecordStore, found: Callable[[str], str | None]
) -> tuple[tuple[ArtifactRecord, ...], list[str]] | None:
    """All outcomes in order, and the files in `build/` that are of none of them.

    None unless settings, manifests, inputs, lock and artifacts are as the last record says.
    """
    record = memory.recall()
    if record is None or record.lock is None or found(LOCK_FILE) != record.lock or not record.settled(found):
        return None
    prefixes, _, build = record.folders
    manifests = {path for path in files.walk(prefixes) if path.lower().endswith(_MANIFESTS)}
    if manifests != record.traces.keys() or not files.exists(build):
        return None
    if not all(trace.holds(found) for trace in record.traces.values()):
        return None
    outcomes = sorted(record.outcomes, key=lambda outcome: outcome.key)
    if not all(on_disk(outcome, build, found) for outcome in outcomes):
        return None
    listed = {path for outcome in outcomes for path in artifact_paths(*outcome.key, build)}
    return tuple(outcomes), [path for path in files.walk(build) if path not in listed]


def on_disk(outcome: ArtifactRecord, build: str, found: Callable[[str], str | None]) -> bool:
    """Whether the artifact's files hold exactly what its entry says."""
    text, request = artifact_paths(*outcome.key, build)
    return found(text) == outcome.entry.text and found(request) == outcome.entry.request
