"""The result of `diff` as outputs of a step in a GitHub workflow, for the jobs that come after it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from cacheunit_build.domain.escaping import one_line
from cacheunit_build.reports.diff_summary import amount, amounts_text, summary

if TYPE_CHECKING:
    from cacheunit_build.diff.results import DiffResult


def diff_outputs(diff: DiffResult) -> dict[str, str]:
    """Returns the outputs by name; a number that is not known is empty.

    | output | value |
    | --- | --- |
    | changed | true or false |
    | affected | a JSON list of the prefixes that changed and still exist |
    | still-cached, recomputed | tokens of all changed artifacts together |
    | cost | `one-time +0.5 USD, +1.2 USD per 1M requests` |
    """
    sums = summary(diff)
    still_cached, recomputed = (sums.still_cached, sums.recomputed) if sums.changed else (None, None)
    return {
        "changed": "true" if diff.differences else "false",
        "affected": json.dumps(diff.affected),
        "still-cached": "" if still_cached is None else str(still_cached),
        "recomputed": "" if recomputed is None else str(recomputed),
        "cost": one_line(_cost_text(diff)),
    }


def _cost_text(diff: DiffResult) -> str:
    """Returns the sums of the costs that are known, with `~` where a count is an estimate; empty where none is."""
    known = [(item, item.cost) for item in diff.differences if item.cost is not None and item.cost.is_known]
    if not known:
        return ""
    sign = "~" if any(item.estimated for item, _ in known) else ""
    one_time = amounts_text(amount((item, cost.one_time) for item, cost in known), sign)
    running = amounts_text(amount((item, cost.per_million) for item, cost in known), sign)
    return f"one-time {one_time or 'unknown'}, {running or 'unknown'} per 1M requests"
