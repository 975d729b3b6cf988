"""What a watch knows at one moment: the last build, the last good one, the last change, and the faults."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cacheunit_build.domain.selection import Selection

if TYPE_CHECKING:
    from cacheunit_build.diff.results import DiffResult
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.watching.budgets import BudgetUse
    from cacheunit_build.watching.session import WatchedBuild


@dataclass(frozen=True, slots=True, kw_only=True)
class LastChange:
    """The last good build that changed an artifact.

    Attributes:
        at: when, such as `12:03:11`.
        milliseconds: how long the build took.
        difference: what it changed.
    """

    at: str
    milliseconds: int
    difference: DiffResult


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchState:
    """What a watch shows. Times are texts such as `12:03:11`.

    Attributes:
        at: when the last build ended; None before the first one.
        milliseconds: how long it took.
        faults: its faults; with one, nothing was written.
        faults_since: when they were first there; None without faults.
        good_at: when the last build without faults ended; None where there was none.
        artifacts: how many artifacts that one had.
        written: how many of them it wrote or removed.
        change: the last change of an artifact; None where there was none since the start.
        since_commit: the differences of the last good build from the last commit; None where there is none.
        no_commit: why there is no last commit to compare with; None where there is one.
        budgets: the use of each budget; the fullest first.
        remark: what the watcher reported last.
        selection: the artifacts that are watched.
    """

    at: str | None = None
    milliseconds: int = 0
    faults: tuple[Fault, ...] = ()
    faults_since: str | None = None
    good_at: str | None = None
    artifacts: int = 0
    written: int = 0
    change: LastChange | None = None
    since_commit: DiffResult | None = None
    no_commit: str | None = None
    budgets: tuple[BudgetUse, ...] = ()
    remark: str = ""
    selection: Selection = field(default_factory=Selection)

    def after(self, build: WatchedBuild, at: str) -> WatchState:
        """Returns the state after a build that ended at a time; with faults, the last good state is kept."""
        state = replace(self, at=at, milliseconds=round(build.seconds * 1000))
        result = build.result
        if result.faults:
            return replace(state, faults=result.faults, faults_since=self.faults_since or at)
        change = self.change
        if build.since_save is not None and build.since_save.differences:
            change = LastChange(at=at, milliseconds=state.milliseconds, difference=build.since_save)
        return replace(
            state,
            faults=(),
            faults_since=None,
            good_at=at,
            artifacts=len(result.records),
            written=len(result.written) + len(result.removed),
            change=change,
            since_commit=build.since_commit,
            no_commit=build.no_commit,
            budgets=build.budgets,
        )
