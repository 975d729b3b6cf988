"""The report of `calibrate`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.cache_rule import MILLION
from cacheunit_build.domain.file_names import COUNTS_FILE, readable_name
from cacheunit_build.reports.formatting import plural, price_text
from cacheunit_build.reports.layout import Block, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cacheunit_build.domain.prices import FoundPrice
    from cacheunit_build.domain.recorded_count import RecordedCount
    from cacheunit_build.endpoints.calibrate import Calibration, Question

    PricesByModel = Mapping[tuple[str, str], FoundPrice]

_RIGHT = (3, 4, 5)


def calibrate_blocks(
    calibration: Calibration, counts: Sequence[RecordedCount], prices: PricesByModel, *, dry_run: bool
) -> list[Block]:
    """Returns a row for each artifact that was counted, or with `dry_run` would be, the prices, and a summary.

    Args:
        calibration: what was asked.
        counts: the answers.
        prices: the prices that are known, by target and model.
        dry_run: whether nothing was sent.
    """
    header = ("prefix", "target", "model", "estimate", "recorded", *(("cost per request",) if prices else ()))
    answers = {(count.prefix, count.target): recorded_cell(count) for count in counts}
    tokens = {(count.prefix, count.target): count.tokens for count in counts}
    rows = [
        (
            *(readable_name(item.prefix), item.target, item.model, f"~{item.estimate:,}"),
            answers.get((item.prefix, item.target), "-"),
            *((_money(item, tokens.get((item.prefix, item.target)), prices),) if prices else ()),
        )
        for item in calibration.questions
    ]
    table: list[Block] = [Table(header=header, rows=rows, right=_RIGHT[: len(header) - 3])] if rows else []
    lines = [f"{target}: {price_text(*price)}" for (target, _), price in prices.items()]
    return [*table, *([lines] if lines else []), [_summary(calibration, dry_run=dry_run)]]


def _money(question: Question, recorded: int | None, prices: PricesByModel) -> str:
    """Returns what a prefix costs in a request without a cache, `~` in front of an estimate; `-` without a price."""
    found = prices.get((question.target, question.model))
    if found is None:
        return "-"
    tokens, estimate = (question.estimate, "~") if recorded is None else (recorded, "")
    return f"{estimate}{tokens * found[0].input / MILLION:.4g} {found[0].currency}"


def recorded_cell(count: RecordedCount) -> str:
    """Returns a recorded count with its margin: `1,236 ±4`."""
    return f"{count.tokens:,} ±{count.margin:,}" if count.margin else f"{count.tokens:,}"


def _summary(calibration: Calibration, *, dry_run: bool) -> str:
    """Returns how many artifacts were counted, and why others were not."""
    asked = len(calibration.questions)
    others = [f"{len(calibration.unchanged):,} recorded already"] if calibration.unchanged else []
    others += [f"{calibration.exact:,} exact without a provider"] if calibration.exact else []
    others += [f"{calibration.uncountable:,} of an API without such a route"] if calibration.uncountable else []
    rest = f"; {', '.join(others)}" if others else ""
    if not asked:
        return f"nothing to count{rest}"
    if dry_run:
        return f"{plural(calibration.requests, 'request')} for {plural(asked, 'artifact')}{rest}; nothing was sent"
    return f'{plural(asked, "artifact")} counted{rest}; {COUNTS_FILE} written: run "cacheunit build"'


def calibrate_json(calibration: Calibration, counts: Sequence[RecordedCount], prices: PricesByModel) -> dict[str, Any]:
    """Returns the report as JSON values; for the arguments, see `calibrate_blocks`."""
    keys = ("prefix", "target", "model", "estimate", "request")
    return {
        "counts": [asdict(count) for count in counts],
        "asked": [{key: getattr(item, key) for key in keys} for item in calibration.questions],
        "unchanged": [asdict(item.recorded) for item in calibration.unchanged if item.recorded is not None],
        "exact": calibration.exact,
        "uncountable": calibration.uncountable,
        "prices": [
            {"target": target, "model": model, **asdict(price), "source": None if origin is None else origin.source}
            for (target, model), (price, origin) in prices.items()
        ],
    }
