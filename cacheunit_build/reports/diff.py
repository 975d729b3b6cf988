"""The report of `diff`: text and JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.cache_rule import MILLION
from cacheunit_build.domain.file_names import readable_name
from cacheunit_build.reports.diff_cells import COLUMNS, RIGHT
from cacheunit_build.reports.diff_page import BRIEF, EVERYTHING, diff_page
from cacheunit_build.reports.diff_summary import summary_json
from cacheunit_build.reports.formatting import faults_json, plural, with_former_keys
from cacheunit_build.reports.layout import Block, Table, Verbatim
from cacheunit_build.reports.text_diff import diff_lines
from cacheunit_build.reports.word_diff import plain_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.diff.results import Cause, Difference, DiffResult
    from cacheunit_build.reports.diff_page import CauseView

_FORMER_KEYS = {"warm": "still_cached", "rewritten": "recomputed"}
_FORMER_COST_KEYS = {"once": "one_time"}


def diff_json(diff: DiffResult) -> dict[str, Any]:
    """Returns the report as JSON values."""
    return {
        "against": diff.against,
        "changes": [_difference_json(item) for item in diff.differences],
        "sources": [
            {"path": path, "artifacts": [{"prefix": prefix, "target": target} for prefix, target in keys]}
            for path, keys in diff.sources.items()
        ],
        "causes": [_cause_json(cause) for cause in diff.causes],
        "summary": summary_json(diff),
        "affected": list(diff.affected),
        "errors": faults_json(diff.faults),
        "notes": list(diff.notes),
    }


def _cause_json(cause: Cause) -> dict[str, Any]:
    return {
        "source": None if cause.source is None else asdict(cause.source),
        "what": cause.what,
        "lines": [{"old": list(change.old), "new": list(change.new)} for change in cause.changes],
        "artifacts": [{"prefix": item.prefix, "target": item.target} for item in cause.differences],
    }


def _difference_json(item: Difference) -> dict[str, Any]:
    entry = item.new or item.old
    report = {
        "prefix": item.prefix,
        "target": item.target,
        "kind": item.kind,
        "what": item.what,
        "was": item.was,
        "counted": None if entry is None else entry.counted,
        "tokens": {"old": item.old.tokens if item.old else None, "new": item.new.tokens if item.new else None},
        "padding": {"old": item.old.padding if item.old else None, "new": item.new.padding if item.new else None},
        "still_cached": item.still_cached,
        "recomputed": item.recomputed,
        "shares": item.shares,
        "first_change": None if item.first is None else asdict(item.first),
        "cost": _cost_json(item),
        "unknown": item.why,
    }
    return with_former_keys(report, _FORMER_KEYS)


def _cost_json(item: Difference) -> dict[str, Any] | None:
    """Returns a cost in input-token prices, and in money where there is a price."""
    cost, price = item.cost, item.price
    if cost is None:
        return None
    values = asdict(cost)
    numbers = {name: None if value is None else round(value, 6) for name, value in values.items()}
    report = with_former_keys(numbers, _FORMER_COST_KEYS)
    if price is None:
        return {**report, "money": None}
    money = {name: None if value is None else round(value * price.input / MILLION, 9) for name, value in values.items()}
    origin = {} if item.price_origin is None else asdict(item.price_origin)
    return {**report, "money": {**with_former_keys(money, _FORMER_COST_KEYS), "currency": price.currency, **origin}}


def diff_blocks(diff: DiffResult, *, texts: bool = False, everything: bool = False) -> list[Block]:
    """Returns the page: each cause with its changed lines and a row, and the line to decide by at the end.

    Args:
        diff: the result.
        texts: whether to show the rendered texts line by line too.
        everything: whether to show all causes and lines, and a row for each artifact.
    """
    if not diff.differences:
        return [[f"no difference from {diff.against}"]]
    page = diff_page(diff, EVERYTHING if everything else BRIEF)
    return [
        [f"against {page.against}"],
        *(block for cause in page.causes for block in _cause_blocks(cause)),
        [page.hidden and f"{page.hidden}; -v shows everything"],
        list(page.remarks),
        *(_text_diffs(diff) if texts else ()),
        [page.counts, page.summary.decision],
    ]


def _cause_blocks(cause: CauseView) -> Iterator[Block]:
    """Yields place and words of a cause with its changed lines, then its rows."""
    more = [f"    … and {plural(cause.hidden_lines, 'more line')}"] if cause.hidden_lines else []
    yield [cause.title, *(f"    {plain_line(line)}" for line in cause.lines), *more]
    used = [column for column in range(len(COLUMNS)) if any(row.cells[column] for row in cause.rows)]
    yield Table(
        header=[COLUMNS[column] for column in used],
        rows=[[row.cells[column] for column in used] for row in cause.rows],
        right=[index for index, column in enumerate(used) if column in RIGHT],
        indent=2,
        notes={index: row.note for index, row in enumerate(cause.rows) if row.note},
    )


def _text_diffs(diff: DiffResult) -> Iterator[Block]:
    """Yields the diff of each artifact's text; targets with the same texts share one."""
    seen: set[tuple[str, tuple[str, str]]] = set()
    for item in diff.differences:
        if item.text is not None and item.text[0] != item.text[1] and (item.prefix, item.text) not in seen:
            seen.add((item.prefix, item.text))
            yield Verbatim(diff_lines(*item.text, name=readable_name(item.prefix)))
