"""Writes and reads the few fields of `ActionResult` messages that a remote cache needs, in protobuf's wire format.

Servers such as bazel-remote accept nothing else below `/ac/`, and hold it against the blobs that it names. The fields
(documented: build/bazel/remote/execution/v2/remote_execution.proto of https://github.com/bazelbuild/remote-apis):

ActionResult  output_files = 2 (OutputFile, repeated)   stdout_raw = 5 (bytes)
OutputFile    path = 1 (string)                         digest = 2 (Digest)
Digest        hash = 1 (string)                         size_bytes = 2 (int64)

The package `protobuf` would read the same fields from a descriptor as long as this module, and is pinned to a range of
versions by many other packages; tests compare both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.domain.remote_cache import BlobDigest, is_digest

if TYPE_CHECKING:
    from collections.abc import Iterator

_VARINT, _I64, _BYTES, _I32 = 0, 1, 2, 5
"""Wire types: https://protobuf.dev/programming-guides/encoding/#structure (documented)."""
_LONGEST_VARINT = 10
_OUTPUT_FILES, _STDOUT_RAW = 2, 5
_PATH, _DIGEST = 1, 2
_HASH, _SIZE = 1, 2
_MOST_SIZE = (1 << 63) - 1

_BLOB_PATH = b"manifest"
"""The path of the one output file: servers want one, and nothing is written there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionResult:
    """The contents of an entry below `/ac/`.

    Attributes:
        stdout: the bytes that it has itself; empty for none.
        blob: the blob that it names; None for none.
    """

    stdout: bytes = b""
    blob: BlobDigest | None = None

    def to_bytes(self) -> bytes:
        """Returns it in wire format, with its fields in the order of their numbers."""
        data = b""
        if self.blob is not None:
            digest = _field(_HASH, self.blob.sha256.encode())
            if self.blob.size:  # a number of 0 is left out
                digest += _varint(_SIZE << 3 | _VARINT) + _varint(self.blob.size)
            data += _field(_OUTPUT_FILES, _field(_PATH, _BLOB_PATH) + _field(_DIGEST, digest))
        return data + _field(_STDOUT_RAW, self.stdout) if self.stdout else data


def parse_action_result(data: bytes) -> ActionResult | None:
    """Parses an entry; of several blobs, the first is returned. None where it is no such message.

    Fields that others add, as bazel-remote adds the address of a client, are left out.
    """
    try:
        stdout, files = _bytes_fields(data, _STDOUT_RAW), _bytes_fields(data, _OUTPUT_FILES)
        return ActionResult(stdout=stdout[-1] if stdout else b"", blob=_blob(files[0]) if files else None)
    except (ValueError, IndexError):
        return None


def _blob(output_file: bytes) -> BlobDigest:
    """Returns the digest of an output file; raises ValueError or IndexError where it has none."""
    digest = _bytes_fields(output_file, _DIGEST)[-1]
    sha256 = _bytes_fields(digest, _HASH)[-1].decode("ascii")
    size = [0, *(value for number, value in _fields(digest) if number == _SIZE and isinstance(value, int))][-1]
    if not is_digest(sha256) or size > _MOST_SIZE:
        raise ValueError("not a digest")
    return BlobDigest(sha256=sha256, size=size)


def _bytes_fields(message: bytes, number: int) -> list[bytes]:
    """Returns the values of a field of bytes, text or messages, in their order."""
    return [value for found, value in _fields(message) if found == number and isinstance(value, bytes)]


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yields number and value of each field of a message; raises ValueError or IndexError where it is none."""
    position = 0
    while position < len(data):
        tag, position = _read_varint(data, position)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, position = _read_varint(data, position)
            yield number, value
            continue
        if kind == _BYTES:
            size, position = _read_varint(data, position)
        elif kind in (_I64, _I32):
            size = 8 if kind == _I64 else 4
        else:
            raise ValueError("a wire type that is no longer in use")
        if number == 0 or position + size > len(data):
            raise ValueError("not a field")
        yield number, data[position : position + size]
        position += size


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Returns the number at a position, and the position behind it."""
    value = 0
    for index in range(_LONGEST_VARINT):
        byte = data[position + index]
        value |= (byte & 127) << (7 * index)
        if byte < 128:  # noqa: PLR2004 - the bit that says that more bytes follow
            return value & ((1 << 64) - 1), position + index + 1
    raise ValueError("a number that is too long")


def _varint(value: int) -> bytes:
    data = bytearray()
    while value > 127:  # noqa: PLR2004 - as above
        data.append(value & 127 | 128)
        value >>= 7
    return bytes([*data, value])


def _field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value
