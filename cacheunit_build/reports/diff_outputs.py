"""The result of `diff` as outputs of a step in a GitHub workflow, for the jobs that come after it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from cacheunit_build.domain.escaping import one_line
from cacheunit_build.reports.diff_summary import summary

if TYPE_CHECKING:
    from cacheunit_build.diff.results import DiffResult


def diff_outputs(diff: DiffResult) -> dict[str, str]:
    """Returns the outputs by name; a number that is not known is empty.

    | output | value |
    | --- | --- |
    | changed | true or false |
    | affected | a JSON list of the prefixes that changed and still exist |
    | still-cached, recomputed | tokens of all changed artifacts together |
    | cost | what changes, as in the line to decide by: `+0.0031 USD per 1,000 requests to each at 10 hits per miss` |
    """
    sums = summary(diff)
    still_cached, recomputed = (sums.still_cached, sums.recomputed) if sums.changed else (None, None)
    return {
        "changed": "true" if diff.differences else "false",
        "affected": json.dumps(diff.affected),
        "still-cached": "" if still_cached is None else str(still_cached),
        "recomputed": "" if recomputed is None else str(recomputed),
        "cost": one_line(sums.cost_text),
    }
