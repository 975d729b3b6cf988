"""Formats the result of `log` as text and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cacheunit_build.reports.layout import Block, Section, Table
from cacheunit_build.reports.log_cells import (
    change_text,
    history_remarks,
    history_rows,
    point_note,
    present,
    share_range,
    short_id,
    subject_text,
    summary_text,
    tokens_text,
    unchanged_line,
)
from cacheunit_build.reports.sparkline import sparkline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.history.results import ArtifactHistory, HistoryCommit, LogResult, Point

_BARS = 16
_LONG_BARS = 60
_MOST_LINES = 5


def log_blocks(result: LogResult, *, verbose: bool = False) -> list[Block]:
    """Returns the history of one artifact commit by commit, or a row for each prefix and target of several.

    Args:
        result: the histories.
        verbose: whether to show a row for each artifact, and every removed one.
    """
    if len(result.artifacts) == 1:
        return [*_artifact_blocks(result, result.artifacts[0]), [summary_text(result)]]
    changed = [item for item in present(result) if verbose or item.is_changed]
    remarks = history_remarks(result, most=None if verbose else _MOST_LINES)
    unchanged = [] if verbose else unchanged_line(result)
    return [_overview(result, changed, verbose=verbose), Section([unchanged, remarks]), [summary_text(result)]]


def _overview(result: LogResult, histories: list[ArtifactHistory], *, verbose: bool) -> Table:
    """Returns a table with a row for each prefix and target, and its largest growth below."""
    rows = history_rows(histories, is_folded=not verbose)
    cells = [
        (
            row.name,
            row.target,
            row.tokens,
            sparkline(row.mean_tokens(result), _BARS),
            row.change,
            row.padding,
            row.cached,
        )
        for row in rows
    ]
    notes = {index: text for index, row in enumerate(rows) if (text := row.growth_text(result)) is not None}
    header = ("prefix", "target", "tokens", "over time", "change", "padding", "cached")
    return Table(header=header, rows=cells, right=(2, 3, 4, 5, 6), notes=notes)


def _artifact_blocks(result: LogResult, history: ArtifactHistory) -> Iterator[Block]:
    """Yields the head of one artifact, and a table with a row for each commit that changed it, the newest first."""
    (row,) = history_rows([history])
    bars = sparkline(row.mean_tokens(result), _LONG_BARS)
    change = f" ({row.change})" if row.change else ""
    growth = row.growth_text(result)
    yield [f"{row.name} for {row.target}: {row.tokens} tokens{change}", f"  {bars}"]
    yield [] if growth is None else [f"largest growth: {growth}"]
    points = {point.index: point for point in history.points}
    rows: list[tuple[str, ...]] = []
    notes: dict[int, str] = {}
    for index in range(len(result.commits) - 1, result.start - 1, -1):
        commit, point = result.commits[index], points.get(index)
        if commit.problem is not None:
            notes[len(rows)] = commit.problem
            rows.append(
                (short_id(commit.commit), commit.commit.date, "", "not read", "", "", subject_text(commit.commit))
            )
        elif point is not None:
            note = point_note(history, point)
            notes |= {} if note is None else {len(rows): note}
            rows.append(_point_row(commit, point))
    header = ("commit", "date", "tokens", "change", "padding", "cached", "subject")
    yield Table(header=header, rows=rows, right=(2, 3, 4, 5), notes=notes)


def _point_row(commit: HistoryCommit, point: Point) -> tuple[str, ...]:
    values = (tokens_text(point), f"{point.entry.padding:,}", share_range([point]))
    tokens, padding, cached = ("", "", "") if point.kind == "removed" else values
    item = commit.commit
    return short_id(item), item.date, tokens, change_text(point), padding, cached, subject_text(item)


def log_json(result: LogResult) -> dict[str, Any]:
    """Returns the JSON report: every commit, and for every artifact the points at which it changed."""
    return {
        "commits": [
            {
                "commit": item.commit.commit,
                "date": item.commit.date,
                "subject": item.commit.subject,
                "problem": item.problem,
            }
            for item in result.commits[result.start :]
        ],
        "has_start": result.has_start,
        "shallow": result.is_shallow,
        "artifacts": [_artifact_json(result, item) for item in result.artifacts],
    }


def _artifact_json(result: LogResult, history: ArtifactHistory) -> dict[str, Any]:
    growth = history.largest_growth
    return {
        "prefix": history.prefix,
        "target": history.target,
        "removed": history.is_removed,
        "tokens": {"first": history.first.entry.tokens, "last": history.last.entry.tokens},
        "largest_growth": None if growth is None else _point_json(result, growth),
        "points": [_point_json(result, point) for point in history.points],
    }


def _point_json(result: LogResult, point: Point) -> dict[str, Any]:
    return {
        "commit": result.commits[point.index].commit.commit,
        "kind": point.kind,
        "prefix": point.prefix,
        "tokens": point.entry.tokens,
        "content_tokens": point.content_tokens,
        "padding": point.entry.padding,
        "counted": point.entry.counted,
        "margin": point.entry.margin,
        "cached": point.cached,
        "cached_share": None if point.cached_share is None else round(point.cached_share, 4),
        "growth": point.growth,
    }
