"""Old tokens + new tokens + cache rule -> what an old cache entry still serves after a change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.sequences import common_prefix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cacheunit_build.target import CacheRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """Static tokens that stay warm, and those computed anew; both None where the cache rule is unknown.

    `first` is the index of the first token that is different, or how many tokens both have where none is.
    """

    first: int
    warm: int | None
    rewritten: int | None


def impact(old: Sequence[int], new: Sequence[int], rule: CacheRule) -> Impact:
    """What a change from `old` to `new` static token ids does to a cache that holds the old ones.

    Blocks serve whole units of what both begin with; breakpoints serve the old prefix whole or not at all; a cache by
    tokens serves every token that both begin with.
    """
    first = common_prefix(old, new)
    if rule.kind == "tokens":
        warm: int | None = first
    elif rule.kind == "breakpoints":
        warm = len(old) if first == len(old) else 0
    elif rule.kind == "blocks" and rule.unit is not None:
        warm = first - first % rule.unit
    else:
        warm = None
    if warm is not None and warm < (rule.minimum or 0):
        warm = 0
    return Impact(first=first, warm=warm, rewritten=None if warm is None else len(new) - warm)
