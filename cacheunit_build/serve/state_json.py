"""What the list, the faults and the comparisons of the live page show, as JSON values.

Every text is one to look at: characters that are invisible or move a cursor are shown as their escapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cacheunit_build.diff.results import DiffResult
from cacheunit_build.domain.editors import DEFAULT_EDITOR, editor_address, editor_link
from cacheunit_build.domain.escaping import one_line
from cacheunit_build.domain.file_names import readable_name
from cacheunit_build.reports.diff_cells import row_of
from cacheunit_build.reports.diff_summary import summary
from cacheunit_build.reports.folding import fold_faults
from cacheunit_build.reports.formatting import tokens_cell
from cacheunit_build.reports.watch import old_errors
from cacheunit_build.reports.word_diff import marked_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cacheunit_build.diff.results import ChangedLines, Difference
    from cacheunit_build.domain.artifact import ArtifactRecord
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.source_map import SourceLine
    from cacheunit_build.lint.results import Violation
    from cacheunit_build.watching.state import WatchState

NO_CHANGE = "no artifact changed since the watch began"


def state_json(state: WatchState, root: str) -> dict[str, Any]:
    """Returns what a watch knows as JSON values.

    Args:
        state: what it knows.
        root: the root of the project, an absolute path with forward slashes, for links to an editor.
    """
    settings = None if state.version is None else state.version.compiled.settings
    budgets = {(use.prefix, use.target): use.budget for use in state.budgets}
    records = [] if state.version is None else state.version.records.values()
    return {
        "project": one_line(settings.project) if settings else "",
        "editor": editor_link(editor_address(settings.watch.editor if settings else DEFAULT_EDITOR), root),
        "at": state.at,
        "milliseconds": state.milliseconds,
        "good_at": state.good_at,
        "faults": [_fault_json(fault) for fault in fold_faults(state.faults)],
        "faults_since": state.faults_since,
        "remark": one_line(state.remark),
        "rows": [_row_json(record, budgets.get(record.key)) for record in records],
        "comparisons": list(_comparisons(state)),
    }


def _row_json(record: ArtifactRecord, budget: int | None) -> dict[str, Any]:
    entry = record.entry
    has_units = record.unit > 1 and not entry.is_estimate
    return {
        "prefix": record.prefix,
        "target": record.target,
        "name": one_line(readable_name(record.prefix)),
        "tokens": tokens_cell(entry.tokens, record.margin, entry.counted),
        "units": entry.tokens // record.unit if has_units else None,
        "rest": entry.tokens % record.unit if has_units else None,
        "padding": entry.padding,
        "budget": budget,
    }


def _comparisons(state: WatchState) -> Iterator[dict[str, Any]]:
    """Yields what the last good build is compared with: the save before, the last commit, the main branch."""
    change = state.change
    title = "last save" if change is None else f"last save, {change.at}"
    yield _comparison("save", title, DiffResult(against=title) if change is None else change.difference, None)
    yield _comparison("head", "HEAD", state.since_commit, state.no_commit)
    is_same = state.since_main and state.since_commit and state.since_main.against == state.since_commit.against
    if not is_same:  # on the main branch, the last commit is where the branch was left
        yield _comparison("main", "main branch", state.since_main, state.no_main)


def _comparison(name: str, title: str, result: DiffResult | None, problem: str | None) -> dict[str, Any]:
    if result is None:
        reason = problem or "there is no build without faults yet"
        return {"name": name, "title": title, "problem": one_line(f"not compared: {reason}"), "items": []}
    return {
        "name": name,
        "title": title if name == "save" else one_line(result.against),
        "problem": None,
        "errors": old_errors(result) if result.faults else None,
        "summary": summary(result).decision if result.differences else NO_CHANGE if name == "save" else "no difference",
        "items": [_difference_json(item) for item in result.differences],
        "changes": {
            _place_json(place)["text"]: _changes_json(result.lines[place])
            for place in {item.place for item in result.differences}
            if place is not None and place in result.lines
        },
    }


def _difference_json(item: Difference) -> dict[str, Any]:
    row = row_of([item], name="", target="", with_note=False)
    return {
        "prefix": item.prefix,
        "target": item.target,
        "name": one_line(readable_name(item.prefix)),
        "kind": item.kind,
        "what": one_line(item.what),
        "why": None if item.why is None else one_line(item.why),
        "place": None if item.place is None else _place_json(item.place),
        "token": None if item.first is None else item.first.token,
        "cached": item.still_cached,
        "tokens": row.tokens,
        "still_cached": row.still_cached,
        "recomputed": row.recomputed,
        "cost": row.one_time,
        "running_cost": row.running,
    }


def _changes_json(changes: ChangedLines) -> list[list[dict[str, str]]]:
    """Returns the lines of a change with its words marked, as JSON values."""
    return [[{"kind": piece.kind, "text": piece.text} for piece in line] for line in marked_lines([changes])]


def _place_json(place: SourceLine) -> dict[str, Any]:
    return {"path": place.path, "line": place.line, "text": one_line(f"{place.path}:{place.line}")}


def _fault_json(fault: Fault) -> dict[str, Any]:
    place = None if fault.path is None else f"{fault.path}:{fault.line}" if fault.line else fault.path
    return {
        "message": one_line(fault.message),
        "path": fault.path,
        "line": fault.line,
        "place": None if place is None else one_line(place),
        "hint": None if fault.hint is None else one_line(fault.hint),
    }


def violations_json(violations: Iterable[Violation]) -> list[dict[str, Any]]:
    """Returns what lint finds as JSON values."""
    return [
        {
            "code": item.code,
            "severity": item.severity,
            "message": one_line(item.message),
            "hint": one_line(item.hint),
            "path": item.path,
            "line": item.line,
            "place": one_line(f"{item.path}:{item.line}"),
            "target": item.target,
            "variants": item.variants,
        }
        for item in violations
    ]
