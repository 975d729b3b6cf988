"""The report of `build`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.escaping import code_span, markdown_text
from cacheunit_build.domain.file_names import readable_name
from cacheunit_build.reports.check import drift_json, problems_markdown
from cacheunit_build.reports.folding import fold, number_range
from cacheunit_build.reports.formatting import faults_json, markdown_table, plural, tokens_range
from cacheunit_build.reports.layout import Block, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cacheunit_build.builder.results import BuildResult
    from cacheunit_build.domain.artifact import ArtifactRecord

_HEADER = ("prefix", "target", "tokens", "units", "not cached", "padding", "plan")
_RIGHT = (2, 3, 4, 5)


def build_blocks(result: BuildResult, *, verbose: bool = False) -> list[Block]:
    """Returns what was built or removed, variants folded, and a summary.

    Args:
        result: the result of a build that wrote something, or had nothing to do.
        verbose: whether to show a row for each artifact, what did not change too, and the reason of each plan.
    """
    built = [record for record in result.records if record.key in result.written]
    table = _full_table(result) if verbose else _folded_table(built)
    removed = [(group.name, group.target, "removed") for group in fold(result.removed)]
    return [table, Table(rows=removed), [_summary(result)]]


def _full_table(result: BuildResult) -> Table:
    """Returns a row for each artifact, with the reason of its plan below."""
    rows = [
        (readable_name(record.prefix), record.target, *number_cells([record]), _status(record, result))
        for record in result.records
    ]
    notes = {index: record.plan.reason for index, record in enumerate(result.records)}
    return Table(header=(*_HEADER[:-1], "state"), rows=rows, right=_RIGHT, notes=notes)


def _folded_table(records: Sequence[ArtifactRecord]) -> Table:
    """Returns a row for each prefix and target, or for more where these are many."""
    by_key = {record.key: record for record in records}
    rows = []
    for group in fold(by_key):
        members = [by_key[key] for key in group.keys]
        plans = dict.fromkeys(record.plan.action for record in members)
        rows.append((group.name, group.target, *number_cells(members), ", ".join(plans)))
    return Table(header=_HEADER, rows=rows, right=_RIGHT)


def number_cells(records: Sequence[ArtifactRecord]) -> tuple[str, str, str, str]:
    """Returns tokens, units, uncached tokens and padding of some artifacts, as ranges where they differ."""
    tokens = tokens_range(records)
    exact = [divmod(record.entry.tokens, record.unit) for record in records if record.unit and not record.margin]
    units = number_range(full for full, _ in exact) if exact else "-"
    uncached = number_range(past for _, past in exact) if exact else "-"
    return tokens, units, uncached, number_range(record.entry.padding for record in records)


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
    built = [record for record in result.records if record.key in result.written]
    rows = [
        (code_span(name), code_span(target), *map(markdown_text, cells))
        for name, target, *cells in _folded_table(built).rows
    ]
    rows += [
        (code_span(group.name), code_span(group.target), "", "", "", "", "removed") for group in fold(result.removed)
    ]
    return markdown_table([_HEADER, *rows], right=_RIGHT) if rows else ""
