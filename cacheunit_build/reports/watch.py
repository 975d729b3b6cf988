"""The report of `watch`: lines of a log, JSON values, and the part of a screen that does not depend on its size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cacheunit_build.reports.diff import diff_json
from cacheunit_build.reports.formatting import faults_json, plural
from cacheunit_build.reports.watch_cells import cause_cells, content_tokens, folded_names, total_cost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.diff.results import Cause, DiffResult
    from cacheunit_build.watching.session import WatchedBuild


def watch_lines(build: WatchedBuild) -> Iterator[str]:
    """Yields the lines of a log: one for each change of the sources, and the difference from the last commit.

    A build that changed nothing has none.
    """
    milliseconds = f"{build.seconds * 1000:,.0f} ms"
    changed = build.since_save is not None and build.since_save.differences
    if build.since_save is not None and changed:
        for cause in build.since_save.causes:
            yield f"{_cause_line(cause)}, {milliseconds}"
    elif build.result.written or build.result.removed or (build.since_save is None and not build.result.faults):
        count = len(build.result.written) + len(build.result.removed)
        yield f"built: {plural(len(build.result.records), 'artifact')}, {count:,} written, {milliseconds}"
    if build.since_save is None or changed:
        if build.since_commit is not None:
            yield commit_line(build.since_commit)
        elif build.no_commit is not None and not changed:
            yield f"not compared with HEAD: {build.no_commit}"


def _cause_line(cause: Cause) -> str:
    cells = cause_cells(cause)
    parts = [f"{cells.title}: {cells.users}"]
    if cells.names:
        parts += [f"content {cells.content}", f"padding {cells.padding}"]
    if cells.still_cached:
        parts.append(f"{cells.still_cached} still cached")
    if cells.cost:
        parts.append(f"one-time cost {cells.cost}")
    return ", ".join(parts)


def commit_line(result: DiffResult) -> str:
    """Returns the difference from the last commit in one line."""
    items = result.differences
    if not items:
        return f"against {result.against}: no difference"
    old, new = (
        sum(content_tokens(entry) for entry in entries if entry is not None)
        for entries in ([item.old for item in items], [item.new for item in items])
    )
    names = folded_names(items)
    cost = total_cost(item for item in items if item.new is not None)
    return ", ".join(
        part
        for part in (
            f"against {result.against}: {plural(len(items), 'artifact')} of {names}",
            f"content {'~' if any(item.estimated for item in items) else ''}{new - old:+,}",
            f"one-time cost {cost}" if cost else "",
        )
        if part
    )


def watch_json(build: WatchedBuild, at: str) -> dict[str, Any]:
    """Returns the report of one build as JSON values.

    Args:
        build: the build.
        at: when it ended, in ISO 8601.
    """
    result = build.result
    return {
        "at": at,
        "milliseconds": round(build.seconds * 1000),
        "ok": not result.faults,
        "artifacts": len(result.records),
        "written": [{"prefix": prefix, "target": target} for prefix, target in sorted(result.written)],
        "removed": [{"prefix": prefix, "target": target} for prefix, target in result.removed],
        "errors": faults_json(result.faults),
        "since_save": None if build.since_save is None else diff_json(build.since_save),
        "since_commit": None if build.since_commit is None else diff_json(build.since_commit),
        "no_commit": build.no_commit,
        "budgets": [
            {"prefix": use.prefix, "target": use.target, "tokens": use.tokens, "budget": use.budget}
            for use in build.budgets
        ],
    }
