"""Reads the history of the lock and returns how the selected artifacts changed."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.compiler.selection import select_from_history, unmatched_faults
from cacheunit_build.domain.errors import CacheunitError, fail
from cacheunit_build.domain.file_names import LOCK_FILE
from cacheunit_build.domain.lock import Lock
from cacheunit_build.history.artifact_series import ArtifactSeries, starting_at
from cacheunit_build.history.results import HistoryCommit, LogResult
from cacheunit_build.lockfile.format import LockReader

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from cacheunit_build.domain.selection import Selection
    from cacheunit_build.domain.target import Target
    from cacheunit_build.domain.version_history import LockCommit, LockHistory
    from cacheunit_build.history.results import ArtifactHistory

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange:
    """Which commits are shown.

    Attributes:
        since: a revision, whose commits are left out, or a day such as 2026-10-02; None for all.
        limit: the most commits that changed a selected artifact, of which the newest are shown; None for all.
    """

    since: str | None = None
    limit: int | None = None


def log(history: LockHistory, selection: Selection, targets: Mapping[str, Target], log_range: LogRange) -> LogResult:
    """Returns the history of the selected artifacts.

    Args:
        history: the versions of the lock.
        selection: the names of prefixes and targets, present or former ones.
        targets: the known targets and those of the project, by name.
        log_range: which commits are shown.

    Raises:
        CacheunitError: there is no history, no such revision, or a name that no version of the lock has.
    """
    newest_first = history.commits()
    if not newest_first:
        raise fail(f"{LOCK_FILE} was never committed", hint='run "cacheunit build" and commit what it writes')
    commits, has_start = _since(newest_first, history, log_range.since)
    series = ArtifactSeries()
    listed: list[HistoryCommit] = []
    is_start = has_start or commits[0].is_boundary
    for index, (commit, lock) in enumerate(_versions(history, commits)):
        if isinstance(lock, Lock):
            series.add(index, lock, is_start=is_start)
            is_start = False
            listed.append(HistoryCommit(commit=commit))
        else:
            is_start = is_start or index == 0  # what the next one changed is unknown
            listed.append(HistoryCommit(commit=commit, problem=lock))
    artifacts = _selected(series.histories(), selection, targets)
    start = 0 if log_range.limit is None else _start_of_last(artifacts, log_range.limit)
    shown = tuple(item for history in artifacts if (item := starting_at(history, start)) is not None)
    return LogResult(
        commits=tuple(listed),
        artifacts=shown if start else tuple(artifacts),
        start=start,
        has_start=has_start or start > 0,
        is_shallow=newest_first[-1].is_boundary,
    )


def _since(
    newest_first: Sequence[LockCommit], history: LockHistory, since: str | None
) -> tuple[list[LockCommit], bool]:
    """Returns the commits from the oldest to the newest; with `since`, those after it and the one before them.

    Returns:
        The commits, and whether the first of them only gives the state before the others.
    """
    if since is None:
        return list(reversed(newest_first)), False
    if _DATE.fullmatch(since):
        count = next((index for index, item in enumerate(newest_first) if item.date < since), len(newest_first))
    else:
        later = history.commits_after(since)
        count = sum(item.commit in later for item in newest_first)
    return list(reversed(newest_first[: count + 1])), count < len(newest_first)


def _versions(history: LockHistory, commits: Sequence[LockCommit]) -> Iterator[tuple[LockCommit, Lock | str]]:
    """Yields each commit with its lock, or with the reason why that is not known. Equal locks are read once."""
    uses = Counter(commit.blob for commit in commits)
    known: dict[str, Lock | str] = {}  # locks that several commits have, such as a change and its revert
    reader = LockReader()
    for commit in commits:
        if commit.blob is None:
            yield commit, Lock(targets={}, entries={})
            continue
        lock = known.get(commit.blob) or _read(history, commit.blob, reader)
        if uses[commit.blob] > 1:
            known[commit.blob] = lock
        yield commit, lock


def _read(history: LockHistory, blob: str, reader: LockReader) -> Lock | str:
    """Returns a lock, or the reason why it is not known."""
    data = history.read(blob)
    if data is None:
        return "this clone does not contain it"
    try:
        return reader.read(data, LOCK_FILE)
    except CacheunitError as error:
        fault = error.faults[0]
        return fault.message if fault.line is None else f"{fault.message} (line {fault.line:,})"


def _selected(
    histories: Sequence[ArtifactHistory], selection: Selection, targets: Mapping[str, Target]
) -> list[ArtifactHistory]:
    """Returns the selected histories: those of which a name, present or former, and the target are selected.

    Raises:
        CacheunitError: a name or a target selects none.
    """
    names = {name for history in histories for name in history.names}
    prefixes = {name.partition("@")[0] for name in names}
    selected = select_from_history(selection, prefixes, {history.target for history in histories}, targets)
    found = [
        history
        for history in histories
        if selected.includes_target(history.target) and any(map(selected.includes, history.names))
    ]
    if selection:
        variants = {name for name in names if selected.includes_manifest(name.partition("@")[0])}
        keys = {(name, history.target) for history in found for name in history.names}
        faults = tuple(unmatched_faults(selected, variants, keys))
        if faults:
            raise CacheunitError(*faults)
    return found


def _start_of_last(histories: Collection[ArtifactHistory], limit: int) -> int:
    """Returns the index of the commit before the last `limit` ones that changed one of these artifacts, or 0."""
    changed = sorted({point.index for history in histories for point in history.points if point.kind != "start"})
    return max(0, changed[-limit] - 1) if len(changed) > limit else 0
