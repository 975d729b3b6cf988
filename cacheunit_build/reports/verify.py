"""Formats the results of `verify` as text and JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.file_names import readable_name
from cacheunit_build.endpoints.verify import has_passed
from cacheunit_build.reports.formatting import plural
from cacheunit_build.reports.layout import Block, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cacheunit_build.endpoints.verify import VerifyResult


def verify_json(results: Sequence[VerifyResult]) -> dict[str, Any]:
    """Returns the JSON report of `verify`."""
    return {"ok": has_passed(results), "results": [asdict(result) for result in results]}


def verify_blocks(results: Sequence[VerifyResult]) -> list[Block]:
    """Returns a table with a row for each artifact, the number of results with each verdict, and hints."""
    compared = compared_results(results)
    header = ("prefix", "target", "requests", "predicted", "observed", "verdict", "")
    rows = [
        (
            readable_name(result.prefix),
            result.target,
            f"{result.continuation + 1}",
            tokens_text(result.predicted),
            tokens_text(result.observed),
            result.verdict,
            remark_text(result),
        )
        for result in compared
    ]
    return [Table(header=header, rows=rows, right=(2, 3, 4)), [verdict_counts(compared)], *_hints(compared)]


def verdict_counts(results: Sequence[VerifyResult]) -> str:
    """Returns the number of results with each verdict: `2 as predicted, 1 differs`."""
    counts = Counter(result.verdict for result in results)
    return ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items())


def warm_up_blocks(results: Sequence[VerifyResult]) -> list[Block]:
    """Returns a line for each artifact, with the number of requests after which it is cached, and hints."""
    compared = compared_results(results)
    rows = [
        (readable_name(result.prefix), result.target, warm_up_state(result), _warm_up_remark(result))
        for result in compared
    ]
    return [Table(rows=rows), *_hints(compared)]


def remark_text(result: VerifyResult) -> str:
    """Returns the cause of a verdict and the number of hits, or else the facts."""
    if result.cause is None:
        return "; ".join(result.facts)
    return result.cause if result.share is None else f"{result.cause}; {result.facts[0]}"


def _warm_up_remark(result: VerifyResult) -> str:
    """Returns the remark about an artifact that is not cached as predicted; nothing for one that is."""
    return "" if result.verdict == "as predicted" else remark_text(result)


def _hints(results: Sequence[VerifyResult]) -> list[list[str]]:
    """Returns each hint of the results once."""
    return [[f"hint: {hint}"] for hint in dict.fromkeys(result.hint for result in results) if hint is not None]


def compared_results(results: Sequence[VerifyResult]) -> list[VerifyResult]:
    """Returns the results with a prediction: all but the first request of each artifact."""
    return [result for result in results if result.verdict != "warm-up"]


def warm_up_state(result: VerifyResult) -> str:
    """Returns after how many requests an artifact is cached, or that it is not or only in part."""
    if result.verdict == "as predicted":
        return f"cached after {plural(result.continuation, 'request')}"
    if result.verdict == "unknown":
        return "sent, but it is unknown whether it is cached"
    state = "cached in part" if result.observed else "not cached"
    return f"{state} after {plural(result.continuation + 1, 'request')}"


def tokens_text(count: int | None) -> str:
    """Returns a number of tokens as text."""
    return "unknown" if count is None else f"{count:,}"
