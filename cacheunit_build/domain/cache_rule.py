"""Old tokens + new tokens + cache rule -> what an old cache entry still serves after a change, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.domain.sequences import common_prefix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cacheunit_build.domain.target import CacheRule

MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """Static tokens that stay warm, and those computed anew; both None where the cache rule is unknown.

    `first` is the index of the first token that is different, or how many tokens both have where none is.
    """

    first: int
    warm: int | None
    rewritten: int | None


def impact(old: Sequence[int], new: Sequence[int], rule: CacheRule, *, on_block: bool = True) -> Impact:
    """What a change from `old` to `new` static token ids does to a cache that holds the old ones.

    Blocks serve whole units of what both begin with; breakpoints serve the old prefix whole or not at all; a cache by
    tokens serves every token that both begin with.

    Args:
        old: ids that the cache holds.
        new: ids that are asked for.
        rule: the target's.
        on_block: whether the old prefix, where the new one begins with it, ends where a content block of the new one
            ends. Breakpoints serve it only then: what is marked is a whole block.
    """
    first = common_prefix(old, new)
    if rule.kind == "tokens":
        warm: int | None = first
    elif rule.kind == "breakpoints":
        warm = len(old) if first == len(old) and (on_block or len(new) == len(old)) else 0
    elif rule.kind == "blocks" and rule.unit is not None:
        warm = first - first % rule.unit
    else:
        warm = None
    if warm is not None and warm < (rule.minimum or 0):
        warm = 0
    return Impact(first=first, warm=warm, rewritten=None if warm is None else len(new) - warm)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a change costs, in prices of one uncached input token; None where the target's prices are unknown.

    `once`: what the first request pays more than later ones, because the cache is cold. `per_million`: what a million
    later requests pay for the prefix more than before; negative where they pay less.
    """

    once: float | None
    per_million: float | None


def cost(warm: int | None, old_tokens: int, new_tokens: int, rule: CacheRule) -> Cost:
    """The cost of a change from `old_tokens` to `new_tokens` static tokens, of which `warm` stay warm.

    Of no use is what the rule never serves: tokens past the last full unit, a prefix below the minimum.
    """
    before, after = (reusable(tokens, rule) for tokens in (old_tokens, new_tokens))
    if rule.read is None or before is None or after is None:
        return Cost(once=None, per_million=None)
    cold = None if warm is None else max(0, after - warm)
    once = None if cold is None or rule.write is None else cold * (rule.write - rule.read)
    running = [served * rule.read + (tokens - served) for tokens, served in ((old_tokens, before), (new_tokens, after))]
    return Cost(once=once, per_million=(running[1] - running[0]) * MILLION)


def reusable(tokens: int, rule: CacheRule) -> int | None:
    """How many of a prefix's static tokens later requests read from a warm cache; None where the rule is unknown."""
    if tokens < (rule.minimum or 0):
        return 0
    if rule.kind == "blocks" and rule.unit is not None:
        return tokens - tokens % rule.unit
    return tokens if rule.kind in ("tokens", "breakpoints") else None
