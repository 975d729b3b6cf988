"""Vocabularies in a form that loads fast, kept in the local cache: nothing is parsed, and each token is cut out.

A form is found by the sha256 of the vocabulary file, which was read. It is believed only if it was made by this very
code, and if the hash at its head is that of all that follows; else the vocabulary is read anew, as without a cache.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from cacheunit_build.adapters.storage.cache_file import write_cache_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_DIGEST = hashlib.sha256().digest_size
_HEAD = struct.Struct("<I")
_MADE_BY = ("vocabulary_cache.py", "tiktoken_conversion.py", "loader.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """What a vocabulary file says: bytes -> id of each token, control tokens, and those of them that harm nobody."""

    tokens: dict[bytes, int]
    controls: Mapping[str, int]
    harmless: frozenset[str]


class CompiledVocabularies:
    """The compiled forms in a cache folder, which need not exist. Only `keep` writes.

    Args:
        folder: the cache folder; None where nothing is kept.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._made: dict[str, Ranks] = {}

    def ranks(self, digest: str, make: Callable[[], Ranks]) -> Ranks:
        """What the vocabulary file of that sha256 says: by its compiled form, else as `make` reads the file."""
        ranks = self._find(digest)
        if ranks is None:
            ranks = self._made[digest] = make()
        return ranks

    def keep(self) -> None:
        """Writes the forms that were not there. Failing to is no fault."""
        while self._made:
            digest, ranks = self._made.popitem()
            path = self._path(digest)
            if path is not None:
                body = _made_by() + _packed(ranks)
                write_cache_file(str(path), hashlib.sha256(body).digest() + body)

    def _path(self, digest: str) -> Path | None:
        return None if self._folder is None else self._folder / f"{digest}.ranks"

    def _find(self, digest: str) -> Ranks | None:
        path = self._path(digest)
        if path is None:
            return None
        try:
            data = path.read_bytes()
            body = memoryview(data)[_DIGEST:]
            if hashlib.sha256(body).digest() != data[:_DIGEST] or body[:_DIGEST] != _made_by():
                return None
            return _unpacked(body[_DIGEST:])
        except (OSError, ValueError, TypeError, KeyError, struct.error):
            return None


def _made_by() -> bytes:
    """The hash of the code that decides what a form says."""
    sources = [Path(__file__).with_name(name).read_bytes() for name in _MADE_BY]
    return hashlib.sha256(b"".join(hashlib.sha256(source).digest() for source in sources)).digest()


def _packed(ranks: Ranks) -> bytes:
    """A head of JSON after its length; then the length of each token, its id, and all tokens in a row."""
    count = len(ranks.tokens)
    words = {"tokens": count, "controls": dict(ranks.controls), "harmless": sorted(ranks.harmless)}
    head = json.dumps(words).encode()
    lengths = struct.pack(f"<{count}I", *map(len, ranks.tokens))
    ids = struct.pack(f"<{count}I", *ranks.tokens.values())
    return b"".join([_HEAD.pack(len(head)), head, lengths, ids, *ranks.tokens])


def _unpacked(data: memoryview) -> Ranks:
    (size,) = _HEAD.unpack_from(data)
    words = json.loads(bytes(data[_HEAD.size : _HEAD.size + size]))
    numbers = struct.Struct(f"<{words['tokens']}I")
    start = _HEAD.size + size
    ends = accumulate(numbers.unpack_from(data, start), initial=0)
    ids = numbers.unpack_from(data, start + numbers.size)
    tokens = bytes(data[start + 2 * numbers.size :])
    return Ranks(
        tokens=dict(zip((tokens[begin:end] for begin, end in pairwise(ends)), ids, strict=True)),
        controls=words["controls"],
        harmless=frozenset(words["harmless"]),
    )
