"""Formats the result of `log` as an HTML page: an overview, and for each prefix a chart with its changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.domain.file_names import readable_name
from cacheunit_build.reports.formatting import plural
from cacheunit_build.reports.html import TableView, render
from cacheunit_build.reports.line_chart import ChartView, Line, line_chart
from cacheunit_build.reports.log_cells import (
    change_text,
    history_remarks,
    history_rows,
    point_note,
    present,
    shallow_note,
    share_range,
    short_id,
    subject_text,
    summary_text,
    tokens_text,
    unchanged_line,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cacheunit_build.history.results import ArtifactHistory, LogResult, Point
    from cacheunit_build.reports.log_cells import HistoryRow

_MOST_REMARKS = 50
_MOST_CHANGES = 50
"""The most changes of a prefix in the page; `--format json` has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PromptView:
    """One prefix in the page.

    Attributes:
        id: its id in the page.
        name: its name.
        chart: its tokens, with a line for each target.
        summary: the number of its changes.
        table: its changes, the newest first.
    """

    id: str
    name: str
    chart: ChartView
    summary: str
    table: TableView


@dataclass(frozen=True, slots=True, kw_only=True)
class _LogView:
    """The page of `log`.

    Attributes:
        summary: how many commits are shown.
        notes: what limits the report.
        overview: a row for each prefix and target.
        remarks: what was removed, did not change, or could not be read.
        prompts: the prefixes that changed.
    """

    summary: str
    notes: tuple[str, ...]
    overview: TableView
    remarks: tuple[str, ...]
    prompts: tuple[_PromptView, ...]


def log_page(result: LogResult) -> str:
    """Returns the page."""
    by_name: dict[str, list[ArtifactHistory]] = {}
    for item in result.artifacts:
        if item.is_changed:
            by_name.setdefault(item.prefix.partition("@")[0], []).append(item)
    ids = {name: f"prompt-{index}" for index, name in enumerate(by_name, 1)}
    note = shallow_note(result)
    view = _LogView(
        summary=f"{summary_text(result)}. Numbers are static tokens as locked.",
        notes=() if note is None else (note,),
        overview=_overview(result, ids),
        remarks=(*unchanged_line(result), *history_remarks(result, _MOST_REMARKS)),
        prompts=tuple(_prompt(result, ids[name], name, items) for name, items in by_name.items()),
    )
    return render("log.html.j2", view)


def _rows(items: Sequence[ArtifactHistory]) -> list[HistoryRow]:
    """Returns a row for each prefix and target, with the variants of the prefix folded, however many rows these are."""
    groups: dict[tuple[str, str], list[ArtifactHistory]] = {}
    for item in items:
        groups.setdefault((item.prefix.partition("@")[0], item.target), []).append(item)
    return [row for members in groups.values() for row in history_rows(members)]


def _overview(result: LogResult, ids: dict[str, str]) -> TableView:
    """Returns the table with a row for each prefix and target that changed, which leads to its chart."""
    rows = _rows([item for item in present(result) if item.is_changed])
    cells = [
        (row.name, row.target, row.tokens, row.change, row.padding, row.cached, row.growth_text(result) or "")
        for row in rows
    ]
    return TableView(
        caption="Prefixes and targets that changed",
        header=("prefix", "target", "tokens", "change", "padding", "cached", "largest growth"),
        rows=cells,
        right=(2, 3, 4, 5),
        links={index: ids[row.members[0].prefix.partition("@")[0]] for index, row in enumerate(rows)},
    )


def _prompt(result: LogResult, id_: str, name: str, items: Sequence[ArtifactHistory]) -> _PromptView:
    """Returns the chart and the table of one prefix."""
    rows = _rows(items)
    lines = [Line(label=_line_label(row), values=row.mean_tokens(result)) for row in rows]
    commits = result.commits
    changes = sorted(
        ((point, item) for item in items for point in item.points), key=lambda change: change[0].index, reverse=True
    )
    chart = line_chart(
        id_=f"{id_}-chart",
        title=f"Static tokens of {name} by commit",
        description="; ".join(line.label for line in lines),
        lines=lines,
        span=(commits[result.start].commit.date, commits[-1].commit.date),
    )
    older = len(changes) - _MOST_CHANGES
    summary = plural(len(changes), "change") if older <= 0 else f"the last {_MOST_CHANGES} of {len(changes):,} changes"
    table = TableView(
        caption=f"Changes of {name}",
        header=("commit", "date", "artifact", "tokens", "change", "padding", "cached", "subject"),
        rows=[_change_row(result, item, point) for point, item in changes[:_MOST_CHANGES]],
        right=(3, 4, 5, 6),
    )
    return _PromptView(id=id_, name=name, chart=chart, summary=f"Table: {summary}", table=table)


def _line_label(row: HistoryRow) -> str:
    """Returns the name of a line: its target, how many variants it is the mean of, and its tokens."""
    variants = f", mean of {len(row.members):,} variants" if len(row.members) > 1 else ""
    return f"{row.target}{variants}: {row.tokens} tokens"


def _change_row(result: LogResult, history: ArtifactHistory, point: Point) -> tuple[str, ...]:
    """Returns the cells of one change."""
    commit = result.commits[point.index].commit
    variant = readable_name(point.prefix).partition("@")[2]
    artifact = f"{history.target}, {variant}" if variant else history.target
    note = point_note(history, point)
    subject = subject_text(commit) if note is None else f"{subject_text(commit)} ({note})"
    numbers = (tokens_text(point), change_text(point), f"{point.entry.padding:,}", share_range([point]))
    return short_id(commit), commit.date, artifact, *numbers, subject
