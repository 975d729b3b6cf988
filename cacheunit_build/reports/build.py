"""The report of `build`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.escaping import code_span, markdown_text
from cacheunit_build.domain.file_names import readable_name
from cacheunit_build.reports.check import drift_json, problems_markdown
from cacheunit_build.reports.formatting import faults_json, markdown_table, plural, tokens_cell, unit_cells
from cacheunit_build.reports.layout import Block, Table

if TYPE_CHECKING:
    from cacheunit_build.builder.results import BuildResult
    from cacheunit_build.domain.artifact import ArtifactRecord

_HEADER = ("prefix", "target", "tokens", "units", "not cached", "padding", "state", "plan")
_RIGHT = (2, 3, 4, 5)


def build_blocks(result: BuildResult, *, verbose: bool = False) -> list[Block]:
    """Returns a row for each artifact that was built or removed, and a summary of all.

    Args:
        result: the result of a build that wrote something, or had nothing to do.
        verbose: whether to show what did not change too, and the reason of each plan instead of its name.
    """
    rows = [
        (
            *_numbers(record),
            _status(record, result),
            record.plan.reason if verbose else record.plan.action,
        )
        for record in result.records
        if verbose or record.key in result.written
    ]
    rows += [(readable_name(prefix), target, "", "", "", "", "removed", "") for prefix, target in result.removed]
    table: list[Block] = [Table(header=_HEADER, rows=rows, right=_RIGHT)] if rows else []
    return [*table, [_summary(result)]]


def _numbers(record: ArtifactRecord) -> tuple[str, str, str, str, str, str]:
    """Returns prefix, target, tokens, units, uncached tokens and padding of an artifact."""
    tokens = tokens_cell(record.entry.tokens, record.margin, record.entry.counted)
    return readable_name(record.prefix), record.target, tokens, *unit_cells(record), f"{record.entry.padding:,}"


def _status(record: ArtifactRecord, result: BuildResult) -> str:
    """Returns what the build did with an artifact: `built`, `unchanged` or `refused`."""
    return "built" if record.key in result.written else "refused" if result.lock == "refused" else "unchanged"


def _summary(result: BuildResult) -> str:
    """Returns the number of artifacts, of their tokens, and what was done."""
    count = len(result.records)
    exact = sum(record.entry.tokens for record in result.records if not record.entry.is_estimate)
    estimated = sum(record.entry.tokens for record in result.records if record.entry.is_estimate)
    tokens = f"{exact:,} static tokens" if exact or not estimated else f"~{estimated:,} static tokens, estimated"
    tokens += f" and ~{estimated:,} estimated" if exact and estimated else ""
    states = [f"{len(result.written):,} built", f"{count - len(result.written):,} unchanged"]
    states += [f"{len(result.removed):,} removed"] if result.removed else []
    return f"{plural(count, 'artifact')}, {tokens}: {', '.join(states)}; lock {result.lock}"


def build_json(result: BuildResult) -> dict[str, Any]:
    """Returns the report as JSON values; `drift` is there only if `--locked` refused."""
    report: dict[str, Any] = {
        "artifacts": [
            {"prefix": record.prefix, "target": record.target, "status": _status(record, result)}
            | artifact_json(record)
            for record in result.records
        ],
        "removed": [{"prefix": prefix, "target": target} for prefix, target in result.removed],
        "orphans": [drift.path for drift in result.orphans],
        "errors": faults_json(result.faults),
        "lock": result.lock,
    }
    return report | ({"drift": [drift_json(drift) for drift in result.drift]} if result.drift else {})


def artifact_json(record: ArtifactRecord) -> dict[str, Any]:
    """Returns the numbers and the plan of an artifact as JSON values."""
    entry = record.entry
    return {
        "tokens": entry.tokens,
        "counted": entry.counted,
        "margin": entry.margin,
        "markers": list(entry.markers),
        "lifetimes": list(entry.lifetimes),
        "unit": record.unit,
        "padding": entry.padding,
        "plan": record.plan.action,
        "reason": record.plan.reason,
    }


def build_markdown(result: BuildResult) -> str:
    """Returns a table of the artifacts that were built or removed, or why none was; empty where nothing changed."""
    if result.faults or result.drift:
        return problems_markdown(result.faults, result.drift)
    rows = [
        (code_span(prefix), code_span(target), *numbers, _status(record, result), markdown_text(record.plan.reason))
        for record in result.records
        if record.key in result.written
        for prefix, target, *numbers in [_numbers(record)]
    ]
    rows += [
        (code_span(readable_name(prefix)), code_span(target), "", "", "", "", "removed", "")
        for prefix, target in result.removed
    ]
    header = (*_HEADER[:-1], "why")
    return markdown_table([header, *rows], right=_RIGHT) if rows else ""
