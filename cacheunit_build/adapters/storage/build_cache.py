"""`.cacheunit/`: what the last build remembered. It can be deleted, broken or shared at any time: then it is a miss."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cacheunit_build.adapters.storage.build_stamp import SEAL, seal_of
from cacheunit_build.adapters.storage.cache_file import clock_of, write_cache_file
from cacheunit_build.adapters.storage.file_stat import Stat, stat_of, surely_before
from cacheunit_build.adapters.system.toolchain import software
from cacheunit_build.domain.build_record import parse_record, record_data

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from cacheunit_build.domain.build_record import BuildRecord
    from cacheunit_build.domain.models import ArtifactRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parsed:
    """What a record file with the hash `digest` says: the value of its JSON, and the record in it."""

    digest: str
    value: Any
    record: BuildRecord | None


class BuildCache:
    """The record of the last build in one file, headed by the hash of what follows.

    A stat stands in for a file only if the file last changed before the build that recorded it began: by the clock of
    the file system, which is read off a file that is touched.

    Args:
        folder: the cache folder, which need not exist.
        texts: what a build and a check print where these outcomes are as they were; a seal is made if that is given.
    """

    def __init__(
        self, folder: Path, texts: Callable[[Sequence[ArtifactRecord]], Mapping[str, str]] | None = None
    ) -> None:
        self._folder = folder
        self._texts = texts
        self._path = folder / "record.json"
        self._begun = 0
        self._digest = ""
        self._parsed: _Parsed | None = None

    def again(self) -> BuildCache:
        """The same cache as it is now; what it says is parsed only if it is not what was parsed or written last."""
        fresh = BuildCache(self._folder, self._texts)
        fresh._parsed = self._parsed
        return fresh

    def begin(self) -> None:
        """A build begins to read; what it saw since it began the first time."""
        if self._begun:
            return
        self._begun = clock_of(str(self._folder))

    def recall(self) -> BuildRecord | None:
        """The last record, if package, interpreter, libraries and vocabularies are as they were."""
        loaded = self._loaded
        if not loaded or loaded["software"] != self._software:
            return None
        if any(stat_of(path) != stat for path, stat in loaded["vocabularies"].items()):
            return None
        return self.before()

    def before(self) -> BuildRecord | None:
        """The last record, whatever made it."""
        return self._latest.record

    def stats(self) -> Mapping[str, tuple[str, Stat]]:
        """Path -> fingerprint and stat of the files that the last build saw."""
        found: Mapping[str, tuple[str, Stat]] = self._loaded.get("stats", {})
        return found

    def trusted_before(self) -> int:
        """Nanoseconds: a file that changed then or later is to be read, whatever its stat."""
        return surely_before(max(self._loaded.get("begun", 0), self._refreshed()))

    def keep(self, record: BuildRecord, vocabularies: Collection[str], seen: Mapping[str, tuple[str, Stat]]) -> None:
        """Writes the record, if it says anything new. Failing to is no fault."""
        known = self._loaded["vocabularies"] if self.recall() is not None else {}
        value: dict[str, Any] = {
            "software": self._software,
            "vocabularies": known | {path: stat_of(path) for path in sorted(vocabularies)},
            "record": record_data(record),
            "stats": {path: [fingerprint, stat] for path, (fingerprint, stat) in sorted(seen.items())},
        }
        if {**value, "begun": 0} == {**self._loaded, "begun": 0}:
            self.refresh(seen)
            return
        value["begun"] = self._begun
        body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        digest = hashlib.sha256(body).hexdigest()
        write_cache_file(str(self._path), digest.encode() + b"\n" + body)
        self._parsed = _Parsed(digest=digest, value=value, record=record)
        self._seal(record, seen, value["vocabularies"])

    def refresh(self, seen: Mapping[str, tuple[str, Stat]]) -> None:
        """All is as recorded, as was seen since `begin`: files that had to be read need not be the next time."""
        write_cache_file(str(self._folder / "seen.json"), json.dumps([self._digest, self._begun]).encode())
        record = self.before()
        if record is not None:
            self._seal(record, seen, self._loaded["vocabularies"])

    def _seal(
        self, record: BuildRecord, seen: Mapping[str, tuple[str, Stat]], vocabularies: Mapping[str, Stat | None]
    ) -> None:
        if self._texts is None:
            return
        made = {"software": self._software, "vocabularies": vocabularies, "begun": self._begun}
        data = seal_of(record, seen, made, self._texts(sorted(record.outcomes, key=lambda outcome: outcome.key)))
        if data is not None:
            write_cache_file(str(self._folder / SEAL), data)

    def _refreshed(self) -> int:
        """When the present record was last seen to hold."""
        try:
            digest, begun = json.loads((self._folder / "seen.json").read_bytes())
        except (OSError, ValueError, TypeError):
            return 0
        return begun if digest == self._digest and isinstance(begun, int) else 0

    @property
    def _loaded(self) -> Any:  # noqa: ANN401
        return self._latest.value

    @cached_property
    def _latest(self) -> _Parsed:
        """What the file says; nothing where its hash or its shape does not fit."""
        nothing = _Parsed(digest="", value={}, record=None)
        try:
            digest, _, body = self._path.read_bytes().partition(b"\n")
            self._digest = digest.decode()
            if hashlib.sha256(body).hexdigest() != self._digest:
                return nothing
            if self._parsed is None or self._parsed.digest != self._digest:
                value = json.loads(body)
                if not _well_formed(value):
                    return nothing
                self._parsed = _Parsed(digest=self._digest, value=value, record=parse_record(value.get("record")))
        except (OSError, ValueError):
            return nothing
        return self._parsed

    @cached_property
    def _software(self) -> list[Any]:
        return software()


def _well_formed(value: Any) -> bool:  # noqa: ANN401
    """Whether a loaded record has the shape that this version writes."""
    if not isinstance(value, dict) or not isinstance(value.get("begun"), int) or "software" not in value:
        return False
    stats, vocabularies = value.get("stats"), value.get("vocabularies")
    if not isinstance(stats, dict) or not isinstance(vocabularies, dict):
        return False
    return all(map(_is_known, stats.values()))


def _is_known(known: object) -> bool:
    """Whether it is a fingerprint and a stat."""
    match known:
        case [str(), [int(), int(), int(), int(), int()]]:
            return True
        case _:
            return False
