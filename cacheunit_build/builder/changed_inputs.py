"""Which inputs differ from what made the lock: as the local cache recorded it, else as git has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.builder.results import InputChange
from cacheunit_build.domain.fingerprint import fingerprint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cacheunit_build.compiler.project import CompiledProject
    from cacheunit_build.domain.models import Lock
    from cacheunit_build.domain.protocols import Adapters, ArtifactKey


class ChangedInputs:
    """What has changed since `before` was locked."""

    def __init__(self, adapters: Adapters, compiled: CompiledProject, before: Lock) -> None:
        record = adapters.memory.before()
        self._adapters = adapters
        self._before = before
        self._now = {outcome.key: outcome for outcome in compiled.artifacts}
        self._then = {outcome.key: outcome for outcome in ([] if record is None else record.outcomes)}

    def changed(self, key: ArtifactKey) -> tuple[InputChange, ...]:
        """The inputs of an artifact that are not what its locked entry was made from; none where nobody knows."""
        entry = self._before.entries.get(key)
        if entry is None:
            return ()
        outcome, recorded = self._now.get(key), self._then.get(key)
        now = {} if outcome is None else {lookup.path: lookup.found for lookup in outcome.lookups}
        if recorded is not None and recorded.entry == entry:
            then: Mapping[str, str | None] = {lookup.path: lookup.found for lookup in recorded.lookups}
        else:
            then = self._committed(now)
        fingerprint_now = self._adapters.files.fingerprint
        changes = (
            InputChange(path=path, old=then.get(path), new=now[path] if path in now else fingerprint_now(path))
            for path in sorted({*then, *now})
        )
        return tuple(change for change in changes if change.old != change.new)

    def _committed(self, now: Mapping[str, str | None]) -> Mapping[str, str | None]:
        """The same files as they were committed with the lock; as they are now where git does not know."""
        then = dict(now)
        for path in now:
            committed = self._adapters.history.before(path)
            if committed is None:
                return now
            data = committed[0]
            then[path] = None if data is None else _as_checked_out(data, now[path])
        return then


def _as_checked_out(data: bytes, found: str | None) -> str:
    """The fingerprint of committed bytes, or of these with CRLF if that is what git made of them in the work tree."""
    with_crlf = fingerprint(data.replace(b"\n", b"\r\n"))
    return with_crlf if with_crlf == found else fingerprint(data)
