"""The cells that the reports of `log` share: tokens, changes, cached shares and commits as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.domain.document import shortened
from cacheunit_build.domain.file_names import readable_name
from cacheunit_build.reports.folding import Group, fold, fold_names, number_range
from cacheunit_build.reports.formatting import plural
from cacheunit_build.reports.sparkline import means

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cacheunit_build.domain.version_history import LockCommit
    from cacheunit_build.history.results import ArtifactHistory, LogResult, Point

_SHORT = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """Artifacts that one row shows: variants of a prefix, or more.

    Attributes:
        name: the folded names of their prefixes.
        target: the folded names of their targets.
        members: their histories.
    """

    name: str
    target: str
    members: tuple[ArtifactHistory, ...]

    @property
    def tokens(self) -> str:
        """The tokens at the start and at the end: `1,024 → 2,228`, or only one of them where they are the same."""
        first, last = (
            number_range((point.entry.tokens for point in points), estimated=_is_estimated(points))
            for points in (self._firsts, self._lasts)
        )
        return last if first == last else f"{first} → {last}"

    @property
    def change(self) -> str:
        """The tokens that were added from the start to the end: `+1,204`, `-3…+1,204`; empty for none."""
        changes = sorted({item.last.entry.tokens - item.first.entry.tokens for item in self.members})
        if changes == [0]:
            return ""
        shown = signed(changes[0]) if len(changes) == 1 else f"{signed(changes[0])}…{signed(changes[-1])}"
        return f"~{shown}" if _is_estimated((*self._firsts, *self._lasts)) else shown

    @property
    def padding(self) -> str:
        """The tokens of padding at the end."""
        return number_range(point.entry.padding for point in self._lasts)

    @property
    def cached(self) -> str:
        """The cached share at the end."""
        return share_range(self._lasts)

    def mean_tokens(self, result: LogResult) -> list[float | None]:
        """Returns the mean of the artifacts' tokens after each shown commit; None where there was none of them."""
        return means([item.tokens_at(len(result.commits))[result.start :] for item in self.members])

    def growth_text(self, result: LogResult) -> str | None:
        """Returns the largest growth with its commit, of several the last; where nothing grew, what added it all.

        The artifact is named where others of the row did not grow as much by the same commit. None where one commit
        did neither.
        """
        grown = [(item, point) for item in self.members if (point := item.largest_growth) is not None]
        if not grown:
            added = {item.first.index if item.is_added else None for item in self.members}
            index = added.pop()
            return None if added or index is None else f"added in {commit_text(result.commits[index].commit)}"
        history, point = max(grown, key=lambda found: (found[1].growth, found[1].index))
        alike = [item for item, other in grown if (other.growth, other.index) == (point.growth, point.index)]
        name = "" if len(alike) == len(self.members) else f" of {readable_name(history.prefix)} for {history.target}"
        sign = "~" if point.entry.is_estimate else ""
        return f"{sign}{signed(point.growth)}{name} in {commit_text(result.commits[point.index].commit)}"

    @property
    def _firsts(self) -> list[Point]:
        return [item.first for item in self.members]

    @property
    def _lasts(self) -> list[Point]:
        return [item.last for item in self.members]


def history_rows(histories: Iterable[ArtifactHistory], *, is_folded: bool = True) -> list[HistoryRow]:
    """Returns the rows for some histories: folded as in other reports, or one for each."""
    by_key: dict[tuple[str, str], list[ArtifactHistory]] = {}
    for history in histories:
        by_key.setdefault(history.key, []).append(history)
    groups = fold(by_key) if is_folded else [_single(key) for key in by_key]
    return [
        HistoryRow(
            name=group.name, target=group.target, members=tuple(item for key in group.keys for item in by_key[key])
        )
        for group in groups
    ]


def _single(key: tuple[str, str]) -> Group:
    return Group(name=readable_name(key[0]), target=key[1], keys=(key,))


def signed(number: int) -> str:
    """Returns a number with its sign: `+1,204`, `-3`, `0`."""
    return f"{number:+,}" if number else "0"


def tokens_text(point: Point) -> str:
    """Returns the tokens at a point, with a tilde for an estimate."""
    return f"{'~' if point.entry.is_estimate else ''}{point.entry.tokens:,}"


def share_range(points: Sequence[Point]) -> str:
    """Returns the cached shares at some points in percent, rounded down: `96 %`, `90…96 %`, `?` for unknown ones."""
    shares = [None if point.cached_share is None else int(point.cached_share * 100) for point in points]
    shown = number_range(shares, estimated=_is_estimated(points))
    return shown if shown in ("", "?") else shown.replace(" or ?", " % or ?") if "or" in shown else f"{shown} %"


def _is_estimated(points: Iterable[Point]) -> bool:
    return any(point.entry.is_estimate for point in points)


def short_id(commit: LockCommit) -> str:
    """Returns the first digits of a commit's id."""
    return commit.commit[:_SHORT]


def commit_text(commit: LockCommit) -> str:
    """Returns a commit in words: `3f2a1bc 2026-10-02 "Add refund policy"`."""
    return f'{short_id(commit)} {commit.date} "{subject_text(commit)}"'


def subject_text(commit: LockCommit) -> str:
    """Returns the subject of a commit, of a very long one the beginning."""
    return shortened(commit.subject)


def change_text(point: Point) -> str:
    """Returns what a commit did to the tokens of an artifact, or to the artifact: `+1,204`, `0`, `added`."""
    if point.kind == "start":
        return ""
    if point.kind in ("changed", "recounted") or point.growth:
        return signed(point.growth)
    return point.kind


def point_note(history: ArtifactHistory, point: Point) -> str | None:
    """Returns what the numbers of a point do not show: a former name, or that only the count changed."""
    if point.kind == "renamed":
        before = history.points[history.points.index(point) - 1]
        return f"renamed from {readable_name(before.prefix)}"
    return "the same text, counted or padded differently" if point.kind == "recounted" else None


def present(result: LogResult) -> list[ArtifactHistory]:
    """Returns the histories of the artifacts that the last version of the lock has."""
    return [item for item in result.artifacts if not item.is_removed]


def unchanged_line(result: LogResult) -> list[str]:
    """Returns a line with the prefixes whose numbers never changed; none where there is no such prefix."""
    names = fold_names(item.prefix for item in present(result) if not item.is_changed)
    return [f"tokens unchanged: {names}"] if names else []


def history_remarks(result: LogResult, most: int | None) -> list[str]:
    """Returns a line for each commit that removed artifacts, and for each whose lock is not known, the newest first.

    Args:
        result: the histories.
        most: the most lines of each kind, of which the others are counted; None for all.
    """
    removed: dict[int, list[str]] = {}
    for item in result.artifacts:
        if item.is_removed:
            removed.setdefault(item.last.index, []).append(item.prefix)
    removals = [
        f"removed: {fold_names(removed[index])} in {commit_text(result.commits[index].commit)}"
        for index in sorted(removed, reverse=True)
    ]
    problems = [
        f"not read: the lock in {commit_text(item.commit)}: {item.problem}" for item in reversed(result.problems)
    ]
    return [*_first_lines(removals, most), *_first_lines(problems, most)]


def _first_lines(lines: list[str], most: int | None) -> list[str]:
    """Returns the first of some lines, and the number of the others."""
    if most is None or len(lines) <= most:
        return lines
    return [*lines[:most], f"and {len(lines) - most:,} more commits"]


def summary_text(result: LogResult) -> str:
    """Returns how many commits changed the artifacts, and when: `12 commits from 2026-01-03 to 2026-10-02`."""
    indexes = {point.index for item in result.artifacts for point in item.points if point.kind != "start"}
    if not indexes:
        return f"no change since {result.commits[result.start].commit.date}"
    dates = [result.commits[index].commit.date for index in indexes]
    first, last = min(dates), max(dates)
    days = f"on {first}" if first == last else f"from {first} to {last}"
    what = "this artifact" if len(result.artifacts) == 1 else "these artifacts"
    return f"{plural(len(indexes), 'commit')} changed {what} {days}"


def shallow_note(result: LogResult) -> str | None:
    """Returns a note where a shallow clone lacks the older commits; None otherwise."""
    first = result.commits[0].commit
    if not first.is_boundary or result.has_start:
        return None
    return f'this clone is shallow: commits before {short_id(first)} are missing; run "git fetch --unshallow"'
