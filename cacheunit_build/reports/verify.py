"""Formats the results of `verify` as text and JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cacheunit_build.endpoints.verify import nothing_differs
from cacheunit_build.reports.formatting import columns, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cacheunit_build.endpoints.verify import VerifyResult


def verify_json(results: Sequence[VerifyResult]) -> dict[str, Any]:
    """Returns the JSON report of `verify`."""
    return {"ok": nothing_differs(results), "results": [asdict(result) for result in results]}


def verify_text(results: Sequence[VerifyResult]) -> str:
    """Returns a table with a row for each artifact, and the number of results with each verdict."""
    compared = _compared(results)
    header = ("prefix", "target", "requests", "predicted", "observed", "verdict", "")
    rows = [
        (
            result.prefix,
            result.target,
            f"{result.continuation + 1}",
            _tokens(result.predicted),
            _tokens(result.observed),
            result.verdict,
            result.cause or "",
        )
        for result in compared
    ]
    counts = Counter(result.verdict for result in compared)
    summary = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items())
    return f"{columns([header, *rows], right=(2, 3, 4))}\n\n{summary}"


def warm_up_text(results: Sequence[VerifyResult]) -> str:
    """Returns a line for each artifact, with the number of requests after which it is cached."""
    rows = [(result.prefix, result.target, _warm_up_state(result), result.cause or "") for result in _compared(results)]
    return columns(rows)


def _compared(results: Sequence[VerifyResult]) -> list[VerifyResult]:
    """Returns the results with a prediction: all but the first request of each artifact."""
    return [result for result in results if result.verdict != "primed"]


def _warm_up_state(result: VerifyResult) -> str:
    """Returns after how many requests an artifact is cached, or that it is not."""
    if result.verdict == "as predicted":
        return f"cached after {plural(result.continuation, 'request')}"
    if result.verdict == "unknown":
        return "sent, but it is unknown whether it is cached"
    return f"not cached after {plural(result.continuation + 1, 'request')}"


def _tokens(count: int | None) -> str:
    """Returns a number of tokens as text."""
    return "unknown" if count is None else f"{count:,}"
