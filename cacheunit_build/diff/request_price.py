"""The mean price of the static tokens of a prefix in a request, in prices of an uncached input token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.domain.cache_rule import MILLION

if TYPE_CHECKING:
    from cacheunit_build.domain.cache_rule import CacheRule
    from cacheunit_build.domain.lock import LockEntry


def request_price(rule: CacheRule, entry: LockEntry, hits_per_miss: int) -> float | None:
    """Returns the mean price of a prefix over requests of which one writes the cache, and the others are served by it.

    1,000 cached tokens at a read price of 0.1 and a write price of 1.25, at 9 hits per miss:

        (9 * 1,000 * 0.1 + 1 * 1,000 * 1.25) / 10 = 215

    Args:
        rule: the cache rule of the target.
        entry: the lock entry of the prefix.
        hits_per_miss: how many requests a cache entry serves for each one that writes it.

    Returns:
        The price; None where it is unknown.
    """
    if rule.predict(entry).tokens == 0:  # nothing is cached, so nothing is written either
        return float(entry.tokens)
    cost = rule.cost(0, None, entry)
    if cost.per_million is None or cost.one_time is None:
        return None
    return cost.per_million / MILLION + cost.one_time / (hits_per_miss + 1)


def why_unpriced(rule: CacheRule, entry: LockEntry) -> str:
    """Returns why `request_price` is unknown."""
    if not rule.is_known:
        return "the cost is unknown, since the target's cache rule is"
    if rule.predict(entry).tokens is None:
        return "the cost is unknown: the minimum is within the margin of the estimate, so it may be cached or not"
    return "the cost is unknown, since prices of the target's cache are"
