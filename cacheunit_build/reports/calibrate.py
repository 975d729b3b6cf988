"""The report of `calibrate`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.file_names import COUNTS_FILE
from cacheunit_build.reports.formatting import Block, Table, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cacheunit_build.domain.recorded_count import RecordedCount
    from cacheunit_build.endpoints.calibrate import Calibration

_RIGHT = (3, 4)


def calibrate_blocks(calibration: Calibration, counts: Sequence[RecordedCount], *, dry_run: bool) -> list[Block]:
    """Returns a row for each artifact that was counted, or with `dry_run` would be, and a summary."""
    header = ("prefix", "target", "model", "estimate", "recorded")
    answers = {(count.prefix, count.target): recorded_cell(count) for count in counts}
    rows = [
        (item.prefix, item.target, item.model, f"~{item.estimate:,}", answers.get((item.prefix, item.target), "-"))
        for item in calibration.questions
    ]
    table: list[Block] = [Table(header=header, rows=rows, right=_RIGHT)] if rows else []
    return [*table, [_summary(calibration, dry_run=dry_run)]]


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
        models = len({item.model for item in calibration.questions})
        return f"{plural(asked + models, 'request')} for {plural(asked, 'artifact')}{rest}; nothing was sent"
    return f'{plural(asked, "artifact")} counted{rest}; {COUNTS_FILE} written: run "cacheunit build"'


def calibrate_json(calibration: Calibration, counts: Sequence[RecordedCount]) -> dict[str, Any]:
    """Returns the report as JSON values."""
    keys = ("prefix", "target", "model", "estimate", "request")
    return {
        "counts": [asdict(count) for count in counts],
        "asked": [{key: getattr(item, key) for key in keys} for item in calibration.questions],
        "unchanged": [asdict(item.recorded) for item in calibration.unchanged if item.recorded is not None],
        "exact": calibration.exact,
        "uncountable": calibration.uncountable,
    }
