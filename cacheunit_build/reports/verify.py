"""What was predicted and what an endpoint reports -> text and JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cacheunit_build.endpoints.verify import agreed
from cacheunit_build.reports.table import columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cacheunit_build.endpoints.verify import VerifyResult


def verified_data(results: Sequence[VerifyResult]) -> dict[str, Any]:
    """The report of `verify`."""
    return {"ok": agreed(results), "results": [asdict(result) for result in results]}


def verified_text(results: Sequence[VerifyResult]) -> str:
    """A line a request that was compared, and a summary."""
    compared = [result for result in results if result.verdict != "primed"]
    header = ("prefix", "target", "requests", "predicted", "observed", "verdict", "")
    rows = [
        (
            result.prefix,
            result.target,
            f"{result.continuation + 1}",
            _count(result.predicted),
            _count(result.observed),
            result.verdict,
            result.cause or "",
        )
        for result in compared
    ]
    counts: dict[str, int] = {}
    for result in compared:
        counts[result.verdict] = counts.get(result.verdict, 0) + 1
    summary = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items())
    return f"{columns([header, *rows], right=(2, 3, 4))}\n\n{summary}"


def _count(tokens: int | None) -> str:
    return "unknown" if tokens is None else f"{tokens:,}"


def warmed_text(results: Sequence[VerifyResult]) -> str:
    """A line an artifact: after how many requests it was warm."""
    rows = []
    for result in results:
        if result.verdict == "primed":
            continue
        told = {"as predicted": f"warm after {result.continuation} requests", "unknown": "sent; not known to be warm"}
        state = told.get(result.verdict, f"not warm after {result.continuation + 1} requests")
        rows.append((result.prefix, result.target, state, result.cause or ""))
    return columns(rows)
