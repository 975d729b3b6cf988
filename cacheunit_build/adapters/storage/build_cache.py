"""The local cache of a project: the record of its last build, and the stats of the files that the build saw.

The cache can be deleted, damaged or shared at any time: then there is no record.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cacheunit_build.adapters.storage.build_stamp import read_stamp, write_stamp
from cacheunit_build.adapters.storage.cache_file import file_system_time, write_cache_file
from cacheunit_build.adapters.storage.file_stat import Stat, stat_of, surely_before
from cacheunit_build.adapters.storage.toolchain import software
from cacheunit_build.domain.build_record import parse_record, record_data

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from cacheunit_build.domain.artifact import ArtifactRecord
    from cacheunit_build.domain.build_record import BuildRecord

    Outputs = Callable[[Sequence[ArtifactRecord]], Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ParsedFile:
    """The parsed file of the cache: its digest, its JSON, and the record in it."""

    digest: str
    value: Any
    record: BuildRecord | None


class BuildCache:
    """The record of the last build in one file, which begins with the hash of what follows.

    An unchanged stat means unchanged content only if the file last changed before the build that recorded it began, by
    the clock of the file system.

    Args:
        folder: the cache folder, which need not exist.
        outputs: returns what a build and a check print that have nothing to do; without it, no stamp is written.
        parsed: the cache file as it was parsed before, used while its digest is the same.
    """

    def __init__(self, folder: Path, outputs: Outputs | None = None, parsed: _ParsedFile | None = None) -> None:
        self._folder = folder
        self._outputs = outputs
        self._path = folder / "record.json"
        self._begun = 0
        self._digest = ""
        self._parsed = parsed

    def reopened(self) -> BuildCache:
        """Returns the cache as it is now on disk; its file is parsed only if it changed since it was last parsed."""
        return BuildCache(self._folder, self._outputs, self._parsed)

    @property
    def has_stamp(self) -> bool:
        """Whether there is a stamp of the last build."""
        return read_stamp(str(self._folder.parent), str(self._folder)) is not None

    def start(self) -> None:
        """Marks the time at which a build begins to read; later calls change nothing."""
        if not self._begun:
            self._begun = file_system_time(str(self._folder))

    def valid_record(self) -> BuildRecord | None:
        """Returns the last record, if package, interpreter, libraries and vocabularies did not change."""
        value = self._value
        if not value or value["software"] != self._software:
            return None
        if any(stat_of(path) != stat for path, stat in value["vocabularies"].items()):
            return None
        return self.last_record()

    def last_record(self) -> BuildRecord | None:
        """Returns the last record, even if the software or a vocabulary has changed since."""
        return self._latest.record

    def recorded_files(self) -> Mapping[str, tuple[str, Stat]]:
        """Returns path -> fingerprint and stat of the files that the last build saw."""
        files: Mapping[str, tuple[str, Stat]] = self._value.get("stats", {})
        return files

    def trusted_before(self) -> int:
        """Returns the time, in nanoseconds, from which on a changed file must be read, whatever its stat."""
        return surely_before(max(self._value.get("begun", 0), self._confirmed()))

    def save(
        self, record: BuildRecord, vocabularies: Collection[str], observed: Mapping[str, tuple[str, Stat]]
    ) -> None:
        """Writes the record, if it is new. A failure is ignored.

        Args:
            record: the record of a build.
            vocabularies: the vocabulary files outside of the project that it used.
            observed: path -> fingerprint and stat of the project's files that it read or wrote.
        """
        kept = self._value["vocabularies"] if self.valid_record() is not None else {}
        value: dict[str, Any] = {
            "software": self._software,
            "vocabularies": kept | {path: stat_of(path) for path in sorted(vocabularies)},
            "record": record_data(record),
            "stats": {path: [fingerprint, stat] for path, (fingerprint, stat) in sorted(observed.items())},
        }
        if {**value, "begun": 0} == {**self._value, "begun": 0}:
            self.confirm(observed)
            return
        value["begun"] = self._begun
        body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        digest = hashlib.sha256(body).hexdigest()
        write_cache_file(str(self._path), digest.encode() + b"\n" + body)
        self._parsed = _ParsedFile(digest=digest, value=value, record=record)
        self._write_stamp(record, observed, value["vocabularies"])

    def confirm(self, observed: Mapping[str, tuple[str, Stat]]) -> None:
        """Records that all files match the record, so that the next build need not read those read now."""
        write_cache_file(str(self._folder / "seen.json"), json.dumps([self._digest, self._begun]).encode())
        record = self.last_record()
        if record is not None:
            self._write_stamp(record, observed, self._value["vocabularies"])

    def _write_stamp(
        self,
        record: BuildRecord,
        observed: Mapping[str, tuple[str, Stat]],
        vocabularies: Mapping[str, Stat | None],
    ) -> None:
        if self._outputs is None:
            return
        made_with = {"software": self._software, "vocabularies": vocabularies, "begun": self._begun}
        outputs = self._outputs(sorted(record.artifacts, key=lambda artifact: artifact.key))
        write_stamp(str(self._folder), record, observed, made_with, outputs)

    def _confirmed(self) -> int:
        """Returns the time at which all files were last seen to be as in the present record."""
        try:
            digest, begun = json.loads((self._folder / "seen.json").read_bytes())
        except (OSError, ValueError, TypeError):
            return 0
        return begun if digest == self._digest and isinstance(begun, int) else 0

    @property
    def _value(self) -> Any:  # noqa: ANN401 - JSON whose shape was checked
        return self._latest.value

    @cached_property
    def _latest(self) -> _ParsedFile:
        """The parsed file; an empty one where its hash or its shape is wrong."""
        empty = _ParsedFile(digest="", value={}, record=None)
        try:
            digest, _, body = self._path.read_bytes().partition(b"\n")
            self._digest = digest.decode()
            if hashlib.sha256(body).hexdigest() != self._digest:
                return empty
            if self._parsed is None or self._parsed.digest != self._digest:
                value = json.loads(body)
                if not _is_well_formed(value):
                    return empty
                record = parse_record(value.get("record"))
                self._parsed = _ParsedFile(digest=self._digest, value=value, record=record)
        except (OSError, ValueError):
            return empty
        return self._parsed

    @cached_property
    def _software(self) -> list[Any]:
        return software()


def _is_well_formed(value: Any) -> bool:  # noqa: ANN401 - JSON that anybody may have written
    """Returns whether the JSON of a cache file has the shape that this version writes."""
    if not isinstance(value, dict) or not isinstance(value.get("begun"), int) or "software" not in value:
        return False
    stats, vocabularies = value.get("stats"), value.get("vocabularies")
    if not isinstance(stats, dict) or not isinstance(vocabularies, dict):
        return False
    return all(map(_is_observed_file, stats.values()))


def _is_observed_file(value: object) -> bool:
    """Returns whether a value is a fingerprint and a stat."""
    match value:
        case [str(), [int(), int(), int(), int(), int()]]:
            return True
        case _:
            return False
