"""Where the differences that `diff` finds are shown in the sources, and their annotations in a GitHub workflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.domain.file_names import LOCK_FILE, readable_name
from cacheunit_build.domain.source_map import SourceLine
from cacheunit_build.reports.github import annotation

if TYPE_CHECKING:
    from collections.abc import Callable

    from cacheunit_build.diff.results import Difference, DiffResult


def diff_annotations(diff: DiffResult, repository_path: Callable[[str], str]) -> str:
    """Returns a notice on each source line that `difference_place` names, and a warning for each fault of old sources.

    Args:
        diff: the result.
        repository_path: returns the path in the repository of a path in the project.
    """
    by_line: dict[tuple[str, int], list[Difference]] = {}
    for item in diff.differences:
        place = difference_place(item)
        if place is not None:
            by_line.setdefault((repository_path(place.path), place.line), []).append(item)
    notices = [
        annotation("notice", *map(difference_sentence, items), path=path, line=line, title="prompt cache")
        for (path, line), items in sorted(by_line.items())
    ]
    # Without a place: their lines are those of the older version.
    warnings = [
        annotation("warning", str(fault).partition("\n")[0], title=f"error in {diff.against} under today's rules")
        for fault in diff.faults
    ]
    return "\n".join([*notices, *warnings])


def difference_place(item: Difference) -> SourceLine | None:
    """Returns the source line at which a difference is shown; None where it is not known.

    That of a removed artifact is the start of the lock, since its manifest may be gone.
    """
    return SourceLine(path=LOCK_FILE, line=1) if item.kind == "removed" else item.place


def difference_sentence(item: Difference) -> str:
    """Returns what a change does to the cache, in one sentence."""
    name = f"{readable_name(item.prefix)} for {item.target}"
    if item.kind == "removed":
        return f"{name}, removed"
    if item.still_cached is None or item.recomputed is None:
        return f"{name}: unknown how many tokens are still cached"
    if item.kind in ("added", "renamed"):
        name = f"{name}, {item.kind}"
    estimate = "~" if item.estimated else ""
    return f"{name}: {estimate}{item.still_cached:,} tokens still cached, {estimate}{item.recomputed:,} recomputed"
