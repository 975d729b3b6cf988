"""The report of `watch` as lines of a log, and as JSON values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cacheunit_build.reports.diff import diff_json
from cacheunit_build.reports.diff_page import diff_page
from cacheunit_build.reports.formatting import faults_json, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.diff.results import DiffResult
    from cacheunit_build.reports.diff_page import CauseView
    from cacheunit_build.watching.session import WatchedBuild


def watch_lines(build: WatchedBuild) -> Iterator[str]:
    """Yields the lines of a log: one for each change of the sources, then the difference from the last commit.

    A build that changed nothing has none, but for the first one.
    """
    result, changes = build.result, build.since_save
    if result.faults:
        return
    is_first = changes is None
    count = len(result.written) + len(result.removed)
    milliseconds = f"{build.seconds * 1000:,.0f} ms"
    if changes is not None and changes.differences:
        page = diff_page(changes)
        yield from (f"{_cause_line(cause)}, {milliseconds}" for cause in page.causes)
        yield from filter(None, [page.hidden])
    elif count or is_first:
        yield f"built: {plural(len(result.records), 'artifact')}, {count:,} written, {milliseconds}"
        if build.no_commit is not None and is_first:
            yield not_compared(build.no_commit)
    else:
        return
    if build.since_commit is not None:
        yield _commit_line(build.since_commit)


def _cause_line(cause: CauseView) -> str:
    """Returns one change of the sources with what it does to its artifacts."""
    parts = [cause.title]
    for row in cause.rows:
        parts[0] += f": {row.name} for {row.target}"
        parts += [f"content {row.content}", f"padding {row.padding}"]
        parts += [f"{row.still_cached} still cached"] if row.still_cached else []
        parts += [f"one-time cost {row.one_time}"] if row.one_time else []
    return ", ".join(parts)


def not_compared(reason: str) -> str:
    """Returns the line that says why there is no last commit to compare with."""
    return f"not compared with HEAD: {reason}"


def _commit_line(result: DiffResult) -> str:
    decision = diff_page(result).summary.decision if result.differences else "no difference"
    errors = f" ({old_errors(result)})" if result.faults else ""
    return f"against {result.against}: {decision}{errors}"


def old_errors(result: DiffResult) -> str:
    """Returns how many errors there are in an older version."""
    return f"{plural(len(result.faults), 'error')} there under today's rules; what they affect is unknown"


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
