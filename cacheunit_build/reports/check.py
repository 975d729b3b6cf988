"""The report of `check`, and of drift in general."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.escaping import code_span, markdown_text
from cacheunit_build.domain.file_names import LOCK_FILE
from cacheunit_build.reports.formatting import Block, Table, faults_json, markdown_table, plural
from cacheunit_build.reports.github import annotation, fault_annotations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cacheunit_build.builder.results import CheckResult
    from cacheunit_build.domain.drift import Drift
    from cacheunit_build.domain.errors import Fault


def check_blocks(result: CheckResult) -> list[Block]:
    """Returns a row for each difference and their number, or how many artifacts match the lock."""
    if result.ok:
        verb = "matches" if result.verified == 1 else "match"
        return [[f"ok: {plural(result.verified, 'artifact')} {verb} the lock"]]
    return [drift_table(result.drift), [plural(len(result.drift), "difference")]]


def drift_table(drift: Sequence[Drift]) -> Table:
    """Returns a row for each difference: kind, prefix or file, target, and what explains it."""
    return Table(rows=[(item.kind, item.prefix or item.path or "", item.target, _explanation(item)) for item in drift])


def _explanation(drift: Drift) -> str:
    if drift.kind == "lock version":
        return 'written by an earlier cacheunit: "cacheunit build" rewrites it'
    if drift.because:
        return f"({', '.join(drift.because)} changed)"
    return drift.path if drift.path and drift.prefix else ""


def check_json(result: CheckResult) -> dict[str, Any]:
    """Returns the report as JSON values."""
    return {
        "ok": result.ok,
        "verified": result.verified,
        "drift": [drift_json(drift) for drift in result.drift],
        "errors": faults_json(result.faults),
    }


def drift_json(drift: Drift) -> dict[str, Any]:
    """Returns one difference as JSON values; `path` is there for a file in the build folder."""
    report: dict[str, Any] = {"prefix": drift.prefix, "target": drift.target, "kind": drift.kind}
    return report | {"because": list(drift.because)} | ({"path": drift.path} if drift.path else {})


def check_markdown(result: CheckResult) -> str:
    """Returns every difference and every fault; empty where everything matches."""
    return problems_markdown(result.faults, result.drift)


def problems_markdown(faults: Sequence[Fault], drift: Sequence[Drift]) -> str:
    """Returns every fault, then every difference; empty where there are none."""
    return "\n\n".join(part for part in (faults_markdown(faults), drift_markdown(drift)) if part)


def faults_markdown(faults: Sequence[Fault]) -> str:
    """Returns a list of faults; empty where there are none."""
    return "\n".join([f"### {plural(len(faults), 'error')}", "", *map(_fault_item, faults)]) if faults else ""


def _fault_item(fault: Fault) -> str:
    """Returns place, message and hint of a fault as an item of a list."""
    line = "" if fault.line is None else f":{fault.line}"
    place = "" if fault.path is None else f"{code_span(f'{fault.path}{line}')}: "
    return f"- {place}{markdown_text(fault.message)}" + (f" ({markdown_text(fault.hint)})" if fault.hint else "")


def drift_markdown(drift: Sequence[Drift]) -> str:
    """Returns a table of differences with a heading; empty where there are none."""
    if not drift:
        return ""
    rows = [
        (
            item.kind,
            code_span(item.prefix or item.path or ""),
            code_span(item.target),
            ", ".join(map(code_span, item.because)),
        )
        for item in drift
    ]
    heading = f"### {plural(len(drift), 'difference')} from the lock"
    return f"{heading}\n\n{markdown_table([('', 'prefix', 'target', 'changed sources'), *rows])}"


def review_annotations(faults: Iterable[Fault], drift: Iterable[Drift], repository_path: Callable[[str], str]) -> str:
    """Returns annotations: each fault at its place, each difference at the first source that explains it.

    A difference that no source explains is at its file in the build folder, or at the lock.

    Args:
        faults: the faults.
        drift: the differences.
        repository_path: returns the path in the repository of a path in the project.
    """
    lines = [fault_annotations(faults, repository_path)]
    by_path: dict[str, list[str]] = {}
    for item in drift:
        path = next(iter(item.because), item.path or LOCK_FILE)
        artifact = f"{item.prefix} for {item.target}" if item.prefix else str(item.path)
        by_path.setdefault(path, []).append(f"{item.kind}: {artifact}")
    hint = 'run "cacheunit build" and commit the result'
    lines += [
        annotation("error", *messages, hint, path=repository_path(path), line=1, title="does not match the lock")
        for path, messages in by_path.items()
    ]
    return "\n".join(line for line in lines if line)
