"""Fingerprints: `sha256:` and 64 hex digits over exact bytes."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

PREFIX = "sha256:"


def fingerprint(data: bytes) -> str:
    """Returns the fingerprint of exactly these bytes."""
    return PREFIX + hashlib.sha256(data).hexdigest()


def fingerprint_ids(ids: Sequence[int]) -> str:
    """Returns the fingerprint of token ids, each as four bytes, least significant first."""
    return fingerprint(struct.pack(f"<{len(ids)}I", *ids))


def fingerprint_json(value: object) -> str:
    """Returns the fingerprint of a JSON value, whatever the order of its keys."""
    return fingerprint(json.dumps(value, sort_keys=True, allow_nan=False).encode())


def compact_json(value: object) -> bytes:
    """Returns a value as JSON without spaces: keys in their order, UTF-8 without escapes, one final newline."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode() + b"\n"
