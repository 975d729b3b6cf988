"""Where the differences that `diff` finds are shown in the sources, and their annotations in a GitHub workflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.domain.file_names import LOCK_FILE
from cacheunit_build.domain.source_map import SourceLine
from cacheunit_build.reports.diff_summary import summary
from cacheunit_build.reports.folding import fold_names, fold_targets, number_range
from cacheunit_build.reports.github import annotation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cacheunit_build.diff.results import Difference, DiffResult


def diff_annotations(diff: DiffResult, repository_path: Callable[[str], str]) -> str:
    """Returns a notice on the source line of each cause, the line to decide by, and warnings for faults of old sources.

    Args:
        diff: the result.
        repository_path: returns the path in the repository of a path in the project.
    """
    by_line: dict[tuple[str, int], list[str]] = {}
    for place, items in differences_by_cause(diff):
        if place is not None:
            by_line.setdefault((repository_path(place.path), place.line), []).append(cause_sentence(items))
    notices = [
        annotation("notice", *sentences, path=path, line=line, title="prompt cache")
        for (path, line), sentences in sorted(by_line.items())
    ]
    decision = [annotation("notice", summary(diff).decision, title="prompt cache")] if diff.differences else []
    # Without a place: their lines are those of the older version.
    warnings = [
        annotation("warning", str(fault).partition("\n")[0], title=f"error in {diff.against} under today's rules")
        for fault in diff.faults
    ]
    return "\n".join([*notices, *decision, *warnings])


def differences_by_cause(diff: DiffResult) -> list[tuple[SourceLine | None, list[Difference]]]:
    """Returns the differences with one place and one kind of change, each list with its place; None where unknown."""
    causes: dict[tuple[SourceLine | None, str], list[Difference]] = {}
    for item in diff.differences:
        causes.setdefault((_place(item), item.what), []).append(item)
    return [(place, items) for (place, _), items in causes.items()]


def _place(item: Difference) -> SourceLine | None:
    """Returns the source line at which a difference is shown; None where it is not known.

    That of a removed artifact is the start of the lock, since its manifest may be gone.
    """
    return SourceLine(path=LOCK_FILE, line=1) if item.kind == "removed" else item.place


def cause_sentence(items: Sequence[Difference]) -> str:
    """Returns what a change does to the cache, in one sentence: the kind of change, the artifacts, the tokens.

    text edited: support/agent ×6 for deepseek-v4: 640…1,280 tokens still cached, 384…1,152 recomputed
    """
    artifacts = f"{fold_names(item.prefix for item in items)} for {fold_targets(item.target for item in items)}"
    sentence = f"{items[0].what}: {artifacts}"
    if items[0].kind == "removed":
        return sentence
    if all(item.still_cached is None for item in items):
        return f"{sentence}: unknown how many tokens are still cached"
    estimated = any(item.estimated for item in items)
    still_cached = number_range((item.still_cached for item in items), estimated=estimated)
    recomputed = number_range((item.recomputed for item in items), estimated=estimated)
    return f"{sentence}: {still_cached} tokens still cached, {recomputed} recomputed"
