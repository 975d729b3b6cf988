"""The only hashing: a fingerprint is `sha256:` and 64 hex digits over exact bytes."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

PREFIX = "sha256:"


def fingerprint(data: bytes) -> str:
    """The fingerprint of exactly these bytes."""
    return PREFIX + hashlib.sha256(data).hexdigest()


def fingerprint_ids(ids: Sequence[int]) -> str:
    """The fingerprint of token ids, each written as four bytes, least significant first."""
    return fingerprint(b"".join(token.to_bytes(4, "little") for token in ids))


def fingerprint_json(value: object) -> str:
    """The fingerprint of `canonical_json(value)`."""
    return fingerprint(canonical_json(value))


def canonical_json(value: object) -> bytes:
    """`value` as the one JSON text that stands for it: keys sorted, no spaces, UTF-8 unescaped, one final newline."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode() + b"\n"
