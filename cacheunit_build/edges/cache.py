"""`.cacheunit/`: what the last build remembered. It can be deleted, broken or shared at any time: then it is a miss."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cacheunit_build.edges.stat import Stat, stat_of
from cacheunit_build.trace import parse_record, record_data

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from cacheunit_build.trace import Record

_SOFTWARE = ("jinja2", "yaml", "tiktoken", "tokenizers", "jsonschema")
_COARSE = 2_000_000_000  # some file systems keep times to two seconds only
_FINE = 100_000_000


class BuildMemory:
    """The record of the last build in one file, headed by the hash of what follows.

    Args:
        folder: the cache folder, which need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "record.json"

    def recall(self) -> Record | None:
        """The last record, if package, interpreter, libraries and vocabularies are as they were."""
        loaded = self._loaded
        if loaded.get("software") != self._software:
            return None
        if any(stat_of(path) != stat for path, stat in loaded["vocabularies"].items()):
            return None
        return self.before()

    def before(self) -> Record | None:
        """The last record, whatever made it."""
        return self._record

    def stats(self) -> Mapping[str, tuple[str, Stat]]:
        """Path -> fingerprint and stat of the files that the last build saw."""
        return self._loaded.get("stats", {}) if self._loaded else {}

    def trusted_before(self) -> int:
        """Files that changed at this time (nanoseconds) or later are to be read, whatever their stat."""
        status = stat_of(self._path)
        if status is None:
            return 0
        return status[3] - (_FINE if status[3] % 1_000_000_000 else _COARSE)

    def keep(self, record: Record, vocabularies: Collection[str], seen: Mapping[str, tuple[str, Stat]]) -> None:
        """Writes the record, if it says anything new. Failing to is no fault."""
        known = self._loaded.get("vocabularies", {}) if self.recall() is not None else {}
        value = {
            "software": self._software,
            "vocabularies": known | {path: stat_of(path) for path in sorted(vocabularies)},
            "record": record_data(record),
            "stats": {path: [fingerprint, stat] for path, (fingerprint, stat) in sorted(seen.items())},
        }
        if value == self._loaded:
            return
        body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        temporary = self._path.with_name(f"record.{os.getpid()}.tmp")
        try:
            temporary.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
            temporary.replace(self._path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)

    def refresh(self) -> None:
        """Says that all is as recorded, as of now: files that were read to be sure need not be the next time."""
        with contextlib.suppress(OSError):
            os.utime(self._path)

    @cached_property
    def _loaded(self) -> Any:  # noqa: ANN401
        """What the file says; nothing where its hash does not fit."""
        try:
            digest, _, body = self._path.read_bytes().partition(b"\n")
            return json.loads(body) if hashlib.sha256(body).hexdigest().encode() == digest else {}
        except (OSError, ValueError):
            return {}

    @cached_property
    def _record(self) -> Record | None:
        return parse_record(self._loaded.get("record"))

    @cached_property
    def _software(self) -> list[Any]:
        """The package's own files and the libraries that decide bytes, by stat; and the interpreter."""
        package = Path(__file__).parent.parent
        own = [stat_of(path) for path in sorted(package.rglob("*")) if path.suffix in {".py", ".toml"}]
        libraries = [stat_of(spec.origin) for name in _SOFTWARE if (spec := find_spec(name)) and spec.origin]
        return [sys.version, own, libraries]
