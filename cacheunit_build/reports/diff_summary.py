"""The sums over all artifacts that a change of the sources changes, and the line to decide by.

Tokens are those of all changed artifacts together, one request to each. The cost is that of as many requests to each of
them, of which one in `hits_per_miss + 1` writes the cache: in money by currency where there is a price, else in prices
of one uncached input token.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.cache_rule import MILLION
from cacheunit_build.reports.formatting import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cacheunit_build.diff.results import Difference, DiffResult

REQUESTS = 1_000
"""The requests to each changed artifact whose cost is summed up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """A sum of costs: in money, and in prices of an uncached input token where there is no price.

    Attributes:
        money: the sum in each currency.
        input_tokens: the sum of what has no price in money; None where everything has one.
        unknown: how many artifacts are left out, since their cost is unknown.
    """

    money: Mapping[str, float] = field(default_factory=dict)
    input_tokens: float | None = None
    unknown: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a change does to all artifacts together.

    Attributes:
        changed: the artifacts that were added, removed, renamed or changed.
        counts: the further artifacts of which only the count changed; they are not among the sums.
        old_tokens: the static tokens of the old versions.
        new_tokens: the static tokens of the new versions.
        still_cached: static tokens of the new versions that old cache entries serve; None where unknown of one.
        recomputed: the other static tokens of the new versions; None where unknown of one.
        cost: the change of the cost of `REQUESTS` requests to each.
        estimated: whether one of the counts is an estimate.
        hits_per_miss: how many requests a cache entry serves for each one that writes it.
    """

    changed: int
    counts: int
    old_tokens: int
    new_tokens: int
    still_cached: int | None
    recomputed: int | None
    cost: Amount
    estimated: bool
    hits_per_miss: int

    @property
    def decision(self) -> str:
        """The line to decide by: `+12 tokens in 2 artifacts, +0.0031 USD per 1,000 requests to each at 10 hits …`."""
        if not self.changed:
            return "no request changes, only counts do" if self.counts else "no request changes"
        sign = "~" if self.estimated else ""
        tokens = self.new_tokens - self.old_tokens
        counted = f"{sign}{tokens:+,} {'token' if abs(tokens) == 1 else 'tokens'} in {plural(self.changed, 'artifact')}"
        return f"{counted}, {self.cost_text}"

    @property
    def cost_text(self) -> str:
        """How the cost of requests changes: `+0.0031 USD per 1,000 requests to each at 10 hits per miss`."""
        if not self.changed:
            return ""
        if self.cost.unknown == self.changed:
            return f"cost per {REQUESTS:,} requests unknown"
        sign = "~" if self.estimated else ""
        to_each = "" if self.changed == 1 else " to each"
        rate = f"at {plural(self.hits_per_miss, 'hit')} per miss"
        left_out = f" ({self.cost.unknown:,} of unknown cost left out)" if self.cost.unknown else ""
        return f"{amounts_text(self.cost, sign)} per {REQUESTS:,} requests{to_each} {rate}{left_out}"


def summary(diff: DiffResult) -> Summary:
    """Returns what a change does to all artifacts together."""
    changed = [item for item in diff.differences if not item.is_count_only]
    present = [item for item in changed if item.new is not None]
    return Summary(
        changed=len(changed),
        counts=len(diff.differences) - len(changed),
        old_tokens=sum(item.old.tokens for item in changed if item.old is not None),
        new_tokens=sum(item.new.tokens for item in present if item.new is not None),
        still_cached=_sum(item.still_cached for item in present),
        recomputed=_sum(item.recomputed for item in present),
        cost=amount((item, _of_requests(item)) for item in changed),
        estimated=any(entry.is_estimate for item in changed for entry in (item.old, item.new) if entry is not None),
        hits_per_miss=diff.hits_per_miss,
    )


def _of_requests(item: Difference) -> float | None:
    return None if item.mean_price is None else item.mean_price * REQUESTS


def _sum(values: Iterable[int | None]) -> int | None:
    numbers = list(values)
    return None if None in numbers else sum(number or 0 for number in numbers)


def amount(costs: Iterable[tuple[Difference, float | None]]) -> Amount:
    """Returns the sum of the costs of differences, in prices of an uncached input token; None is an unknown cost."""
    money: dict[str, float] = {}
    tokens: float | None = None
    unknown = 0
    for item, cost in costs:
        if cost is None:
            unknown += 1
        elif item.price is None:
            tokens = cost + (tokens or 0.0)
        else:
            value = cost * item.price.input / MILLION
            money[item.price.currency] = money.get(item.price.currency, 0.0) + value
    return Amount(money=dict(sorted(money.items())), input_tokens=tokens, unknown=unknown)


def amounts_text(cost: Amount, sign: str) -> str:
    """Returns `+0.0031 USD`, or `the cost of +310 input tokens`; several amounts are joined by `and`."""
    parts = [f"{sign}{money_text(value)} {currency}" for currency, value in cost.money.items()]
    if cost.input_tokens is not None:
        parts.append(f"the cost of {sign}{round(cost.input_tokens):+,} input tokens")
    return " and ".join(parts)


def money_text(value: float) -> str:
    """Returns an amount of money with its sign, in four digits: `+0.0031`, `-12.5`, `+0`."""
    return f"{0.0 if abs(value) < 1e-12 else value:+,.4g}"  # noqa: PLR2004 - below it, a sum of rounding errors


def summary_json(diff: DiffResult) -> dict[str, Any]:
    """Returns the summary as JSON values, with the line to decide by."""
    sums = summary(diff)
    tokens = sums.cost.input_tokens
    return {
        "changed": sums.changed,
        "tokens": {"old": sums.old_tokens, "new": sums.new_tokens},
        "still_cached": sums.still_cached,
        "recomputed": sums.recomputed,
        "cost": {
            "requests": REQUESTS,
            "hits_per_miss": sums.hits_per_miss,
            "money": {currency: round(value, 9) for currency, value in sums.cost.money.items()},
            "input_tokens": None if tokens is None else round(tokens, 6),
            "unknown": sums.cost.unknown,
        },
        "decision": sums.decision,
    }
