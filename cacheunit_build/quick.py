"""The build that has nothing to do, and the check that finds nothing: told from the last record alone.

Nothing heavy is loaded here. Wherever something is not as it was, the answer is None, and the whole story is run.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from cacheunit_build.model import Drift, artifact_paths
from cacheunit_build.ports import LOCK
from cacheunit_build.result import Built, Checked

if TYPE_CHECKING:
    from collections.abc import Callable

    from cacheunit_build.model import Outcome
    from cacheunit_build.ports import Files, Memory
    from cacheunit_build.trace import Record

_MANIFESTS = (".yaml", ".yml")


def quick_build(files: Files, memory: Memory) -> Built | None:
    """The build of a project in which everything is as the last build left it."""
    found = cache(files.known_fingerprint)
    record = memory.recall()
    outcomes = None if record is None else _unchanged(record, files, found)
    if record is None or outcomes is None:
        return None
    build = record.folders[2]
    listed = {path for outcome in outcomes for path in artifact_paths(*outcome.key, build)}
    orphans = [
        Drift(prefix="", target="", kind="orphan", path=path) for path in files.walk(build) if path not in listed
    ]
    return Built(artifacts=outcomes, orphans=tuple(orphans), lock="unchanged")


def quick_check(files: Files, memory: Memory) -> Checked | None:
    """The check of such a project: every file is read."""
    found = cache(files.fingerprint)
    record = memory.recall()
    outcomes = None if record is None else _unchanged(record, files, found)
    if record is None or outcomes is None:
        return None
    build = record.folders[2]
    listed = {path for outcome in outcomes for path in artifact_paths(*outcome.key, build)}
    return Checked(verified=len(outcomes)) if set(files.walk(build)) == listed else None


def _unchanged(record: Record, files: Files, found: Callable[[str], str | None]) -> tuple[Outcome, ...] | None:
    """All outcomes in order, if settings, manifests, inputs, lock and artifacts are as recorded."""
    prefixes, _, build = record.folders
    if record.lock is None or found(LOCK) != record.lock or not record.settled(found) or not files.exists(build):
        return None
    manifests = {path for path in files.walk(prefixes) if path.lower().endswith(_MANIFESTS)}
    if manifests != record.traces.keys() or not all(trace.holds(found) for trace in record.traces.values()):
        return None
    outcomes = [outcome for trace in record.traces.values() for outcome in trace.outcomes]
    if not all(on_disk(outcome, build, found) for outcome in outcomes):
        return None
    return tuple(sorted(outcomes, key=lambda outcome: outcome.key))


def on_disk(outcome: Outcome, build: str, found: Callable[[str], str | None]) -> bool:
    """Whether the artifact's files hold exactly what its entry says."""
    text, request = artifact_paths(*outcome.key, build)
    return found(text) == outcome.entry.text and found(request) == outcome.entry.request
