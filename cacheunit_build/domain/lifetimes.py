"""Lifetimes of cache entries, as providers write them: 5m, 1h, 3600s."""

from __future__ import annotations

import re

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LIFETIME = re.compile(r"([1-9][0-9]{0,8})([smhd])")

ANY_LIFETIME = "*"
"""The lifetime of a cache rule whose provider takes any."""


def lifetime_seconds(lifetime: str) -> int | None:
    """Returns a lifetime in seconds; None for a text that is no number with s, m, h or d."""
    match = _LIFETIME.fullmatch(lifetime)
    return int(match[1]) * _SECONDS[match[2]] if match else None
