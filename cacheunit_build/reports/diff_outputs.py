"""The result of `diff` as outputs of a step in a GitHub workflow, for the jobs that come after it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from cacheunit_build.domain.escaping import one_line
from cacheunit_build.reports.diff import amount_text, in_currency

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cacheunit_build.diff.results import Difference, DiffResult
    from cacheunit_build.domain.target import Price


def diff_outputs(diff: DiffResult) -> dict[str, str]:
    """Returns the outputs by name; a number that is not known is empty.

    | output | value |
    | --- | --- |
    | changed | true or false |
    | affected | a JSON list of the prefixes that changed and still exist |
    | still-cached, recomputed | tokens of all artifacts whose count is exact |
    | cost | `one-time 0.5 USD, +1.2 USD per 1M requests` |
    """
    exact = [item for item in diff.differences if not item.estimated and item.still_cached is not None]
    return {
        "changed": "true" if diff.differences else "false",
        "affected": json.dumps(diff.affected),
        "still-cached": str(sum(item.still_cached or 0 for item in exact)) if exact else "",
        "recomputed": str(sum(item.recomputed or 0 for item in exact)) if exact else "",
        "cost": one_line("; ".join(_costs(diff.differences))),
    }


def _costs(differences: Iterable[Difference]) -> Iterator[str]:
    """Yields the sum of known costs in each currency, then of those without a price."""
    by_currency: dict[str, list[Difference]] = {}
    for item in differences:
        if item.cost is not None and item.cost.is_known:
            by_currency.setdefault("" if item.price is None else item.price.currency, []).append(item)
    for currency, items in sorted(by_currency.items(), reverse=True):
        yield _sum_text(items) + ("" if currency else ", in prices of one uncached input token")


def _sum_text(items: list[Difference]) -> str:
    """Returns the sum of costs in one currency, with `~` where a count is an estimate."""
    estimate = "~" if any(item.estimated for item in items) else ""
    currency = items[0].price.currency if items[0].price else None
    one_time = _total((item.cost.one_time, item.price) for item in items if item.cost)
    running = _total((item.cost.per_million, item.price) for item in items if item.cost)
    return (
        f"one-time {estimate}{amount_text(one_time, '', currency)}, "
        f"{estimate}{amount_text(running, '+', currency)} per 1M requests"
    )


def _total(costs: Iterable[tuple[float | None, Price | None]]) -> float | None:
    """Returns the sum of those costs that are known, None where none is."""
    known = [in_currency(cost, price) for cost, price in costs if cost is not None]
    return sum(known) if known else None
