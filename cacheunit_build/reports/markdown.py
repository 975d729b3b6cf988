"""What `build` and `check` found -> Markdown for a pull request, and annotations. Nothing where all is as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.domain.protocols import LOCK_FILE
from cacheunit_build.reports.data import status_of
from cacheunit_build.reports.github import annotation, fault_annotations
from cacheunit_build.reports.table import markdown_table
from cacheunit_build.reports.text import units_cell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cacheunit_build.builder.results import BuildResult, CheckResult
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.models import Drift


def built_markdown(built: BuildResult) -> str:
    """The artifacts that were built or removed, or why none was."""
    if built.faults or built.drift:
        return "\n\n".join(part for part in (_faults(built.faults), _drift(built.drift)) if part)
    rows = [
        (
            f"`{artifact.prefix}`",
            f"`{artifact.target}`",
            f"{'about ' if artifact.margin else ''}{artifact.entry.tokens:,}",
            units_cell(artifact),
            f"{artifact.entry.padding:,}",
            status_of(artifact, built),
            artifact.plan.reason,
        )
        for artifact in built.artifacts
        if artifact.key in built.written
    ]
    rows += [(f"`{prefix}`", f"`{target}`", "", "", "", "removed", "") for prefix, target in built.removed]
    header = ("prefix", "target", "tokens", "units", "padding", "state", "why")
    return markdown_table([header, *rows], right=(2, 3, 4)) if rows else ""


def checked_markdown(checked: CheckResult) -> str:
    """Every difference, every fault."""
    return "\n\n".join(part for part in (_faults(checked.faults), _drift(checked.drift)) if part)


def _faults(faults: Sequence[Fault]) -> str:
    lines = [f"- {_place(fault)}{fault.message}" + (f" ({fault.hint})" if fault.hint else "") for fault in faults]
    return "\n".join([f"### {len(faults):,} error{'' if len(faults) == 1 else 's'}", "", *lines]) if faults else ""


def _place(fault: Fault) -> str:
    if fault.path is None:
        return ""
    return f"`{fault.path}`: " if fault.line is None else f"`{fault.path}:{fault.line}`: "


def _drift(drift: Sequence[Drift]) -> str:
    if not drift:
        return ""
    rows = [
        (
            item.kind,
            f"`{item.prefix or item.path}`",
            item.target and f"`{item.target}`",
            ", ".join(f"`{path}`" for path in item.because),
        )
        for item in drift
    ]
    head = f"### {len(drift):,} difference{'' if len(drift) == 1 else 's'} to the lock"
    return f"{head}\n\n{markdown_table([('', 'prefix', 'target', 'because of'), *rows])}"


def _code(name: str) -> str:
    return f"`{name}`" if name else ""


def review_annotations(faults: Iterable[Fault], drift: Iterable[Drift], locate: Callable[[str], str]) -> str:
    """Each fault at its place; each drift at the first source that explains it, else at the file or the lock."""
    lines = [fault_annotations(faults, locate)]
    places: dict[str, list[str]] = {}
    for item in drift:
        path = next(iter(item.because), item.path or LOCK_FILE)
        named = f"{item.prefix} for {item.target}" if item.prefix else str(item.path)
        places.setdefault(path, []).append(f"{item.kind}: {named}")
    hint = 'run "cacheunit build" and commit what it writes'
    lines += [
        annotation("error", "\n".join([*said, hint]), path=locate(path), line=1, title="not as locked")
        for path, said in places.items()
    ]
    return "\n".join(line for line in lines if line)
