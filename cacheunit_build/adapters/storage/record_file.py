"""The file of a build's record in the user's cache: lines of JSON, read and written in blocks, as there may be many.

line            content
first           the fingerprint of the lock
second          the header: software, vocabularies, settings, identities of targets
further ones    the records of some manifests, or the stats of some files
last            the hash of all lines before
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from cacheunit_build.adapters.storage.cache_file import write_cache_parts
from cacheunit_build.domain.build_record import RecordParser, header_data, prefixes_data

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path
    from typing import BinaryIO

    from cacheunit_build.adapters.storage.file_stat import Stat
    from cacheunit_build.adapters.storage.toolchain import VocabularyState
    from cacheunit_build.domain.build_record import BuildRecord

_BLOCK = 500
"""Manifests or files in one line."""
_READ = 1 << 20
_DIGEST = 2 * hashlib.sha256().digest_size
_STAT = [int] * 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFile:
    """The contents of a record's file.

    Attributes:
        record: the record of a build; None where there is none.
        software: the identity of the software that made it.
        vocabularies: the state of each vocabulary file that it used, by source.
        begun: when the build began, in nanoseconds.
        files: path -> fingerprint and stat of the files that the build read or wrote.
        digest: the hash of the file.
        of_other_checkout: whether another checkout wrote it.
    """

    record: BuildRecord | None = None
    software: Mapping[str, str] | None = None
    vocabularies: Mapping[str, VocabularyState] = field(default_factory=dict)
    begun: int = 0
    files: Mapping[str, tuple[str, Stat]] = field(default_factory=dict)
    digest: str = ""
    of_other_checkout: bool = False


def write_record_file(path: Path, contents: RecordFile, record: BuildRecord) -> RecordFile:
    """Writes a record with the other contents of its file; returns them with their hash."""
    digest = hashlib.sha256()

    def lines() -> Iterator[bytes]:
        for line in _lines(contents, record):
            digest.update(line)
            yield line
        yield digest.hexdigest().encode()

    write_cache_parts(str(path), lines())
    return replace(contents, record=record, digest=digest.hexdigest())


def _lines(contents: RecordFile, record: BuildRecord) -> Iterator[bytes]:
    yield f"{record.lock}\n".encode()
    header = {"software": contents.software, "vocabularies": contents.vocabularies, "begun": contents.begun}
    yield _line({**header, **header_data(record)})
    yield from _blocks("prefixes", prefixes_data(record))
    files = ((path, [fingerprint, *stat]) for path, (fingerprint, stat) in sorted(contents.files.items()))
    yield from _blocks("files", files)


def _blocks(kind: str, items: Iterable[tuple[str, object]]) -> Iterator[bytes]:
    items = iter(items)
    while block := dict(islice(items, _BLOCK)):
        yield _line({kind: block})


def _line(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def read_record_file(path: Path, known: RecordFile | None) -> RecordFile | None:
    """Returns the contents of a record's file, None where its hash or its shape is wrong.

    Args:
        path: the file.
        known: what was read before; it is returned if the hash is the same.
    """
    try:
        with path.open("rb") as handle:
            digest = _valid_digest(handle)
            if digest is None or (known is not None and known.digest == digest):
                return None if digest is None else known
            handle.seek(0)
            return replace(_parse(handle), digest=digest)
    except (OSError, LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return None


def locked_by(path: Path) -> bytes:
    """Returns the first line of a record's file: the fingerprint of the lock."""
    with path.open("rb") as handle:
        return handle.readline().strip()


def _valid_digest(handle: BinaryIO) -> str | None:
    """Returns the hash in the last line; None if it is not that of the lines before."""
    left = handle.seek(0, os.SEEK_END) - _DIGEST
    if left < 0:
        return None
    handle.seek(0)
    digest = hashlib.sha256()
    while left:
        data = handle.read(min(left, _READ))
        if not data:
            return None
        digest.update(data)
        left -= len(data)
    return digest.hexdigest() if handle.read().decode() == digest.hexdigest() else None


def _parse(handle: BinaryIO) -> RecordFile:
    """Returns the contents of lines that anybody may have written; raises one of many errors if they are wrong."""
    handle.readline()
    header = json.loads(handle.readline())
    parser = RecordParser(header)
    files: dict[str, tuple[str, Stat]] = {}
    for line in handle:
        if not line.endswith(b"\n"):
            break
        block = json.loads(line)
        for path, data in block.get("prefixes", {}).items():
            parser.add(path, data)
        for path, (fingerprint, *stat) in block.get("files", {}).items():
            if list(map(type, stat)) != _STAT or not isinstance(fingerprint, str):
                raise TypeError("not the fingerprint and the stat of a file")
            files[parser.shared(path)] = (parser.shared(fingerprint), stat)
    if type(header["begun"]) is not int or not all(map(_is_vocabulary_state, header["vocabularies"].values())):
        raise TypeError("not the header of a record")
    return RecordFile(
        record=parser.record(),
        software=header["software"],
        vocabularies=header["vocabularies"],
        begun=header["begun"],
        files=files,
    )


def _is_vocabulary_state(value: Any) -> bool:  # noqa: ANN401 - JSON that anybody may have written
    """Returns whether a value is a path, a stat or None, and a sha256."""
    match value:
        case [str(), None | [int(), int(), int(), int(), int()], str()]:
            return True
        case _:
            return False
