"""Several prefixes in few words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_NAMES = 8


def names_together(prefixes: Iterable[str]) -> str:
    """The prefixes, each once, with the number of their variants where there are several."""
    variants: dict[str, dict[str, None]] = {}
    for prefix in prefixes:
        variants.setdefault(prefix.partition("@")[0], {})[prefix] = None
    names = [next(iter(own)) if len(own) == 1 else f"{name} ({len(own)} variants)" for name, own in variants.items()]
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more
