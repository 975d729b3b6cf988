"""Caches parsed vocabularies in a format that loads fast: the tokens are sliced from one block of bytes, not parsed.

A cached vocabulary is looked up by the sha256 of its file, which has been read. It is used only if this very code wrote
it and its checksum is right; otherwise the vocabulary file is parsed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cacheunit_build.adapters.storage.cache_file import write_cache_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_DIGEST = hashlib.sha256().digest_size
_HEAD = struct.Struct("<I")
_MOST_ID = 2**32 - 1
_CODE = ("vocabulary_cache.py", "tiktoken_conversion.py", "loader.py")
"""The modules that decide what a cached vocabulary contains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """The contents of a vocabulary file; tiktoken calls token ids ranks, since lower ones are merged first.

    Attributes:
        tokens: bytes -> id of each token, control tokens excluded.
        controls: text -> id of each control token.
        ordinary: the control tokens that are ordinary text.
    """

    tokens: dict[bytes, int]
    controls: Mapping[str, int]
    ordinary: frozenset[str]


class VocabularyCache:
    """The parsed vocabularies in a cache folder, which need not exist. Only `save` writes.

    Args:
        folder: the cache folder; None to cache nothing.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._unsaved: dict[str, Ranks] = {}

    def ranks(self, digest: str, parse: Callable[[], Ranks]) -> Ranks:
        """Returns the vocabulary whose file has the sha256 `digest`, from the cache or else from `parse`."""
        ranks = self._load(digest)
        if ranks is None:
            ranks = self._unsaved[digest] = parse()
        return ranks

    def save(self) -> None:
        """Writes the vocabularies that had to be parsed. A failure is ignored: the cache is optional."""
        while self._unsaved:
            digest, ranks = self._unsaved.popitem()
            path = self._path(digest)
            if path is not None:
                with contextlib.suppress(OSError):  # the package may be installed without its source files
                    body = _code_digest() + _pack(ranks)
                    write_cache_file(str(path), hashlib.sha256(body).digest() + body)

    def _path(self, digest: str) -> Path | None:
        return None if self._folder is None else self._folder / f"{digest}.ranks"

    def _load(self, digest: str) -> Ranks | None:
        """Reads a cached vocabulary; returns None if there is none, or if it is damaged or written by other code."""
        path = self._path(digest)
        if path is None:
            return None
        try:
            data = path.read_bytes()
            # The file: checksum of all that follows, digest of the code, packed vocabulary.
            body = memoryview(data)[_DIGEST:]
            if hashlib.sha256(body).digest() != data[:_DIGEST] or body[:_DIGEST] != _code_digest():
                return None
            return _unpack(body[_DIGEST:])
        # A file with a right checksum may still have been written by hand, with any values.
        except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError, struct.error):
            return None


def _code_digest() -> bytes:
    """Returns the hash of the code that decides what a cached vocabulary contains."""
    sources = [Path(__file__).with_name(name).read_bytes() for name in _CODE]
    return hashlib.sha256(b"".join(hashlib.sha256(source).digest() for source in sources)).digest()


def _pack(ranks: Ranks) -> bytes:
    """Encodes a vocabulary as bytes; integers are 32-bit, little-endian.

    | bytes | content |
    | --- | --- |
    | 4 | size of the header |
    | size | header as JSON: number of tokens n, control tokens, ordinary ones |
    | 4 n | length of each token |
    | 4 n | id of each token |
    | the rest | all tokens in a row |
    """
    count = len(ranks.tokens)
    fields = {"tokens": count, "controls": dict(ranks.controls), "ordinary": sorted(ranks.ordinary)}
    header = json.dumps(fields).encode()
    lengths = struct.pack(f"<{count}I", *map(len, ranks.tokens))
    ids = struct.pack(f"<{count}I", *ranks.tokens.values())
    return b"".join([_HEAD.pack(len(header)), header, lengths, ids, *ranks.tokens])


def _unpack(data: memoryview) -> Ranks:
    """Decodes the bytes that `_pack` made; raises one of the errors that `_load` catches if they are incomplete."""
    (size,) = _HEAD.unpack_from(data)
    fields = json.loads(bytes(data[_HEAD.size : _HEAD.size + size]))
    numbers = struct.Struct(f"<{fields['tokens']:d}I")
    start = _HEAD.size + size
    # Lengths 1, 2, 2 -> the format "1s2s2s", which splits the block: three times faster than slices.
    lengths = numbers.unpack_from(data, start)
    formats = {length: f"{length}s" for length in set(lengths)}
    split = struct.Struct("".join(map(formats.__getitem__, lengths)))
    ids = numbers.unpack_from(data, start + numbers.size)
    tokens = dict(zip(split.unpack(data[start + 2 * numbers.size :]), ids, strict=True))
    controls, ordinary = fields["controls"], fields["ordinary"]
    distinct = len(tokens) == len(ids) and len({*ids, *controls.values()}) == len(ids) + len(controls)
    # tiktoken panics on two tokens with one id, and on ids of more than 32 bits.
    if not (distinct and all(type(token_id) is int and 0 <= token_id <= _MOST_ID for token_id in controls.values())):
        raise ValueError("the ids are not distinct numbers of 32 bits")
    if not (isinstance(ordinary, list) and all(isinstance(text, str) for text in ordinary)):
        raise TypeError("the ordinary tokens are not a list of texts")
    return Ranks(tokens=tokens, controls=controls, ordinary=frozenset(ordinary))
