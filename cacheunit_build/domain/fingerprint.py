"""Fingerprints: `sha256:` and 64 hex digits over exact bytes."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PREFIX = "sha256:"
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def fingerprint(data: bytes) -> str:
    """Returns the fingerprint of exactly these bytes."""
    return PREFIX + hashlib.sha256(data).hexdigest()


def fingerprint_ids(ids: Sequence[int]) -> str:
    """Returns the fingerprint of token ids, each as four bytes, least significant first."""
    return fingerprint(struct.pack(f"<{len(ids)}I", *ids))


def fingerprint_json(value: object) -> str:
    """Returns the fingerprint of a JSON value, whatever the order of its keys."""
    return fingerprint(json.dumps(value, sort_keys=True, allow_nan=False).encode())


def cache_key(project: str, prefix: str) -> str:
    """Returns the value by which all requests of a prefix choose the same cache: 64 hexadecimal digits.

    It is made of names alone, so that neither variants nor versions of a prefix are kept apart: requests with different
    keys share no cache. Providers take 64 characters at most.

    Args:
        project: the name of the project; empty for none.
        prefix: the name of the manifest.
    """
    return hashlib.sha256(f"{project}\n{prefix}".encode()).hexdigest()


def compact_json(value: object) -> bytes:
    """Returns a value as JSON without spaces: keys in their order, UTF-8 without escapes, one final newline."""
    return _COMPACT.encode(value).encode() + b"\n"


def joined_json(values: Mapping[str, bytes]) -> bytes:
    r"""Returns the mapping of these values, each of which is compact JSON already, as compact JSON.

    {"a": b"[1]\n", "b": b"2\n"}  ->  b'{"a":[1],"b":2}\n'
    """
    members = (compact_json(key)[:-1] + b":" + value[:-1] for key, value in values.items())
    return b"{" + b",".join(members) + b"}\n"
