"""Finds the inputs that changed since the lock was made: by the record of the last build, else by version control."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.builder.results import InputChange
from cacheunit_build.domain.fingerprint import fingerprint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cacheunit_build.compiler.project import ProjectRecords
    from cacheunit_build.domain.lock import ArtifactKey, Lock
    from cacheunit_build.domain.protocols import Adapters


class ChangedInputs:
    """The inputs that changed since `lock` was made.

    Args:
        adapters: the project.
        compiled: what its sources give now.
        lock: the lock.
    """

    def __init__(self, adapters: Adapters, compiled: ProjectRecords, lock: Lock) -> None:
        record = adapters.records.last_record()
        self._adapters = adapters
        self._lock = lock
        self._now = {artifact.key: artifact for artifact in compiled.records}
        self._recorded = {artifact.key: artifact for artifact in ([] if record is None else record.artifacts)}

    def of(self, key: ArtifactKey) -> tuple[InputChange, ...]:
        """Returns the inputs of an artifact that are not what its lock entry was made from; none where unknown."""
        entry = self._lock.entries.get(key)
        if entry is None:
            return ()
        artifact, recorded = self._now.get(key), self._recorded.get(key)
        now = {} if artifact is None else {lookup.path: lookup.fingerprint for lookup in artifact.lookups}
        if recorded is not None and recorded.entry == entry:
            then: Mapping[str, str | None] = {lookup.path: lookup.fingerprint for lookup in recorded.lookups}
        else:
            then = self._committed(now)
        fingerprint_of = self._adapters.files.fingerprint
        changes = (
            InputChange(path=path, old=then.get(path), new=now[path] if path in now else fingerprint_of(path))
            for path in sorted({*then, *now})
        )
        return tuple(change for change in changes if change.old != change.new)

    def _committed(self, now: Mapping[str, str | None]) -> Mapping[str, str | None]:
        """Returns the fingerprints of these files as they were committed with the lock.

        Where version control does not know that, they are returned as they are now.
        """
        then = dict(now)
        for path in now:
            committed = self._adapters.history.committed_with_lock(path)
            if committed is None:
                return now
            then[path] = None if committed.data is None else _as_checked_out(committed.data, now[path])
        return then


def _as_checked_out(data: bytes, present: str | None) -> str:
    """Returns the fingerprint of committed bytes; that of their CRLF form if it is the `present` fingerprint."""
    with_crlf = fingerprint(data.replace(b"\n", b"\r\n"))
    return with_crlf if with_crlf == present else fingerprint(data)
