"""The report of `check`, and of drift in general."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.escaping import code_span, markdown_text
from cacheunit_build.domain.file_names import LINE_ENDS_HINT, LOCK_FILE, readable_name
from cacheunit_build.reports.folding import MOST_ROWS, fold, fold_names, fold_targets
from cacheunit_build.reports.formatting import faults_json, markdown_table, plural, tokens_range
from cacheunit_build.reports.github import annotation, fault_annotations
from cacheunit_build.reports.layout import Block, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from cacheunit_build.builder.results import CheckResult, Deviation, Proof
    from cacheunit_build.domain.drift import Drift
    from cacheunit_build.domain.errors import Fault

_BUILD_HINT = 'run "cacheunit build" and commit the result'


def check_blocks(result: CheckResult, *, verbose: bool = False) -> list[Block]:
    """Returns what differs, and of how many artifacts, or how many match the lock.

    Args:
        result: the result.
        verbose: whether to show a row for each difference and not only for each cause.
    """
    blocks: list[Block] = []
    if result.drift:
        blocks += [drift_table(result.drift, verbose=verbose), [plural(len(result.drift), "difference")]]
    else:
        verb = "matches" if result.verified == 1 else "match"
        blocks.append([f"ok: {plural(result.verified, 'artifact')} {verb} the lock"])
    if result.counts_required and result.estimates:
        by_key = {item.key: item for item in result.estimates}
        groups = fold(by_key, len(by_key) if verbose else MOST_ROWS)
        rows = [
            ("estimate", group.name, group.target, tokens_range([by_key[key] for key in group.keys]))
            for group in groups
        ]
        blocks += [Table(rows=rows), [plural(len(by_key), "estimate")]]
    if result.proof is not None:
        blocks.append(list(_proof_lines(result.proof)))
    return blocks


def _proof_lines(proof: Proof) -> Iterator[str]:
    """Yields a line for each rebuild that differs, or how many gave the same bytes."""
    for deviation in proof.deviations:
        yield f"differs: {deviation_text(deviation)}"
        yield f"  with {deviation.conditions}"
    if not proof.deviations:
        rebuilds = plural(len(proof.rebuilds), "rebuild")
        yield f"ok: {rebuilds} under other conditions, without a cache, gave the same bytes"


def deviation_text(deviation: Deviation) -> str:
    """Returns where a rebuild differs first, or why it failed."""
    if deviation.path is None:
        return f"a rebuild failed: {deviation.reason}"
    source = f", from {deviation.source.path}:{deviation.source.line}" if deviation.source else ""
    return f"{deviation.path} at byte {deviation.offset}{source}"


def proof_json(proof: Proof) -> dict[str, Any]:
    """Returns the result of rebuilds as JSON values."""
    return {
        "rebuilds": list(proof.rebuilds),
        "deviations": [
            {
                "conditions": item.conditions,
                "path": item.path,
                "byte": item.offset,
                "source": None if item.source is None else {"path": item.source.path, "line": item.source.line},
                "reason": item.reason,
            }
            for item in proof.deviations
        ],
    }


def drift_table(drift: Sequence[Drift], *, verbose: bool = False) -> Table:
    """Returns a row for each cause: kind, prefixes or file, targets, and what explains it.

    Args:
        drift: the differences.
        verbose: whether each difference has a row of its own.
    """
    return Table(rows=[_drift_row(items) for items in _causes(drift, verbose=verbose)])


def _causes(drift: Sequence[Drift], *, verbose: bool) -> list[list[Drift]]:
    """Returns the differences by what they have in common: kind and changed sources. Files stand alone."""
    causes: dict[object, list[Drift]] = {}
    for index, item in enumerate(drift):
        cause = (item.kind, item.because, item.line_ends)
        causes.setdefault(index if verbose or not item.prefix else cause, []).append(item)
    return list(causes.values())


def _drift_row(drift: Sequence[Drift]) -> tuple[str, str, str, str]:
    """Returns the row of differences of one kind that have one explanation."""
    first = drift[0]
    if len(drift) == 1:
        return first.kind, _name(first), first.target, _explanation(first)
    files = plural(len({item.path for item in drift}), "file") if first.path and not first.because else ""
    explanation = f"{files} (only line ends: CRLF)" if first.line_ends else files or _explanation(first)
    names, targets = fold_names(item.prefix for item in drift), fold_targets(item.target for item in drift)
    return first.kind, names, targets, explanation


def _name(drift: Drift) -> str:
    """Returns the prefix or variant that differs, or else the file."""
    return readable_name(drift.prefix) or drift.path or ""


def _explanation(drift: Drift) -> str:
    if drift.kind == "lock version":
        return 'written by an earlier cacheunit: "cacheunit build" rewrites it'
    if drift.because:
        return f"({', '.join(drift.because)} changed)"
    place = drift.path if drift.path and drift.prefix else ""
    return f"{place} (only line ends: CRLF)" if drift.line_ends else place


def drift_hint(drift: Sequence[Drift]) -> str:
    """Returns what to do about differences."""
    if all(item.line_ends for item in drift):
        return LINE_ENDS_HINT
    return '"cacheunit build" updates artifacts and lock from the sources'


def check_json(result: CheckResult) -> dict[str, Any]:
    """Returns the report as JSON values."""
    report = {
        "ok": result.ok,
        "verified": result.verified,
        "drift": [drift_json(drift) for drift in result.drift],
        "errors": faults_json(result.faults),
        **({} if result.proof is None else {"proof": proof_json(result.proof)}),
    }
    if result.counts_required:
        report["estimates"] = [
            {"prefix": item.prefix, "target": item.target, "tokens": item.entry.tokens, "margin": item.margin}
            for item in result.estimates
        ]
    return report


def drift_json(drift: Drift) -> dict[str, Any]:
    """Returns one difference as JSON values; `path` is there for a file in the build folder.

    `line_ends` is there where only the line ends of that file differ.
    """
    report: dict[str, Any] = {"prefix": drift.prefix, "target": drift.target, "kind": drift.kind}
    report |= {"because": list(drift.because)} | ({"path": drift.path} if drift.path else {})
    return report | ({"line_ends": True} if drift.line_ends else {})


def check_markdown(result: CheckResult) -> str:
    """Returns every difference and every fault; empty where everything matches."""
    parts = [problems_markdown(result.faults, result.drift), _deviations_markdown(result.proof)]
    parts.append(_estimates_markdown(result))
    return "\n\n".join(part for part in parts if part)


def _estimates_markdown(result: CheckResult) -> str:
    """Returns a table of the estimates with a heading; empty where there are none, or they do not fail the check."""
    if not result.counts_required or not result.estimates:
        return ""
    rows = [
        (code_span(readable_name(item.prefix)), code_span(item.target), tokens_range([item]))
        for item in result.estimates
    ]
    return f"### {plural(len(rows), 'estimate')}\n\n{markdown_table([('prefix', 'target', 'tokens'), *rows])}"


def _deviations_markdown(proof: Proof | None) -> str:
    """Returns a list of the rebuilds that differ, with a heading; empty where there are none."""
    if proof is None or not proof.deviations:
        return ""
    lines = [f"- {markdown_text(f'{deviation_text(item)} (with {item.conditions})')}" for item in proof.deviations]
    return "\n".join([f"### {plural(len(lines), 'rebuild')} with other bytes", "", *lines])


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
        (kind, code_span(name), code_span(target), ", ".join(map(code_span, items[0].because)) or markdown_text(why))
        for items in _causes(drift, verbose=False)
        for kind, name, target, why in [_drift_row(items)]
    ]
    heading = f"### {plural(len(drift), 'difference')} from the lock"
    return f"{heading}\n\n{markdown_table([('', 'prefix', 'target', 'cause'), *rows])}"


def drift_place(drift: Drift) -> str:
    """Returns the file at which a difference is shown: the first source that explains it.

    For an added artifact, that is its manifest; for a removed one the lock, since its manifest may be gone. What no
    source explains is at its file in the build folder, or at the lock.
    """
    if drift.kind == "removed":
        return LOCK_FILE
    return drift.manifest or next(iter(drift.because), drift.path or LOCK_FILE)


def drift_sentence(drift: Drift) -> str:
    """Returns what differs: `changed: support/agent for deepseek-v4`."""
    return f"{drift.kind}: {f'{_name(drift)} for {drift.target}' if drift.prefix else drift.path}"


def review_annotations(faults: Iterable[Fault], drift: Sequence[Drift], repository_path: Callable[[str], str]) -> str:
    """Returns annotations: each fault at its place, each difference at the file that `drift_place` names.

    Args:
        faults: the faults.
        drift: the differences.
        repository_path: returns the path in the repository of a path in the project.
    """
    lines = [fault_annotations(faults, repository_path)]
    by_path: dict[str, list[str]] = {}
    for item in drift:
        by_path.setdefault(drift_place(item), []).append(drift_sentence(item))
    hint = LINE_ENDS_HINT if drift and all(item.line_ends for item in drift) else _BUILD_HINT
    lines += [
        annotation("error", *messages, hint, path=repository_path(path), line=1, title="does not match the lock")
        for path, messages in by_path.items()
    ]
    return "\n".join(line for line in lines if line)
