"""Records of builds that are stored when there is time: what a build did is shown first."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cacheunit_build.domain.build_record import BuildRecord
    from cacheunit_build.domain.protocols import RecordStore


class DeferredRecords:
    """A store of records that saves when `flush` is called; implements the protocol `RecordStore`.

    A record that is lost makes the next build slower, and nothing else.

    Args:
        records: the store.
    """

    def __init__(self, records: RecordStore) -> None:
        self._records = records
        self._save: Callable[[], None] | None = None
        self._record: BuildRecord | None = None
        self.start = records.start

    def valid_record(self) -> BuildRecord | None:
        """Returns the record that was kept, else the last one of the store, if it is valid."""
        return self._record or self._records.valid_record()

    def last_record(self) -> BuildRecord | None:
        """Returns the record that was kept, else the last one of the store."""
        return self._record or self._records.last_record()

    def save(
        self, record: BuildRecord, vocabularies: Mapping[str, str], observed: Mapping[str, tuple[str, list[int]]]
    ) -> None:
        """Keeps the record of a build, to be stored by `flush`."""
        self._record = record
        self._save = partial(self._records.save, record, vocabularies, observed)

    def flush(self) -> None:
        """Stores the record that was kept, if there is one."""
        save, self._save = self._save, None
        if save is not None:
            save()
