"""The screen of `watch`: the lines of one frame, never more than the terminal has, and never wider.

ok: built at 12:03:11 in 412 ms      the state, or the faults and the last good state
last change at 12:03:11              what the last save did
against HEAD (1a2b3c4)               what differs from the last commit
budgets                              how full they are
watching · q or Ctrl-C to quit       the filters, what the watcher reports, and how to leave
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.domain.file_names import readable_name
from cacheunit_build.reports.diff_page import diff_page
from cacheunit_build.reports.folding import fold_faults
from cacheunit_build.reports.formatting import plural
from cacheunit_build.reports.layout import PLAIN, Table, layout, text_width
from cacheunit_build.reports.watch import not_compared, old_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cacheunit_build.diff.results import DiffResult
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.reports.diff_cells import Row
    from cacheunit_build.reports.diff_page import CauseView, DiffPage
    from cacheunit_build.reports.layout import Painter
    from cacheunit_build.watching.budgets import BudgetUse
    from cacheunit_build.watching.state import WatchState

    Section = Callable[[int], list[str]]
    """Returns the lines of a part of the screen, at most as many as the argument."""

_HEADER = ("change", "content tokens", "padding", "still cached", "one-time cost")
_NARROW_HEADER = ("change", "content", "padding", "cached", "cost")
_NARROW = 100
"""Columns below which the header is short, so that it stays one line."""
_RIGHT = (1, 2, 3, 4)
_BAR = 20


def screen_lines(state: WatchState, width: int, height: int, painter: Painter = PLAIN) -> list[str]:
    """Returns the lines of a frame: exactly as many as the terminal has.

    Args:
        state: what is shown.
        width: the columns of the terminal.
        height: its lines.
        painter: adds colours.
    """
    view = _Screen(width, painter)
    top = view.state(state, max(3, height // 3))
    footer = view.footer(state)
    sections: list[Section] = []
    if state.change is not None:
        sections.append(view.changes(f"last change at {state.change.at}", state.change.difference))
    if state.since_commit is not None:
        sections.append(view.changes(f"against {state.since_commit.against}", state.since_commit))
    elif state.no_commit is not None:
        sections.append(view.paragraph(not_compared(state.no_commit)))
    if state.budgets:
        sections.append(view.budgets(state.budgets))
    lines = [*top, *_fitted(sections, height - len(top) - len(footer))]
    lines = lines[: max(0, height - len(footer))]
    return [*lines, *[""] * (height - len(lines) - len(footer)), *footer][:height]


def _fitted(sections: Sequence[Section], height: int) -> list[str]:
    """Returns the lines of all parts with a blank line in front of each; what one does not need, the others get."""
    wanted = [len(section(height)) for section in sections]
    given = [0] * len(sections)
    left = height - len(sections)
    while left > 0 and given != wanted:
        for index, want in enumerate(wanted):
            if given[index] < want and left > 0:
                given[index] += 1
                left -= 1
    return [line for section, limit in zip(sections, given, strict=True) for line in ("", *section(limit))]


class _Screen:
    """Makes the parts of a frame.

    Args:
        width: the columns of the terminal.
        painter: adds colours.
    """

    def __init__(self, width: int, painter: Painter) -> None:
        self._width = width
        self._painter = painter

    def state(self, state: WatchState, limit: int) -> list[str]:
        """Returns the state of the project: `ok`, or the faults with the last good state."""
        if state.at is None:
            return self._paragraphs("building")
        if not state.faults:
            built = f"ok: built at {state.at} in {state.milliseconds:,} ms"
            written = f"{state.written:,} written" if state.written else "nothing written"
            return self._paragraphs(f"{built}, {plural(state.artifacts, 'artifact')}, {written}")
        faults = tuple(fold_faults(state.faults))
        return [
            *self._paragraphs(f"error: {plural(len(faults), 'fault')} since {state.faults_since}"),
            *self._faults(faults, limit - 2),
            *self._paragraphs(
                "no build without faults yet"
                if state.good_at is None
                else f"last good build at {state.good_at}; build/ and the lock are as it left them"
            ),
        ]

    def _faults(self, faults: Sequence[Fault], limit: int) -> list[str]:
        """Returns the faults, each with its place and hint; as many as fit, at least one line of the first."""
        lines: list[str] = []
        for index, fault in enumerate(faults):
            shown = self._paragraphs(*(f"  {part}" for part in str(fault).split("\n\n")))
            left = len(faults) - index
            if lines and len(lines) + len(shown) + (left > 1) > limit:
                return [*lines, f"  … and {plural(left, 'more fault', 'more faults')}"]
            lines += shown
        return lines[: max(1, limit)]

    def changes(self, title: str, result: DiffResult) -> Section:
        """Returns the part about the differences from an older version, with the line to decide by if it fits."""
        if not result.differences:
            return self.paragraph(f"{title}: no difference")
        page = diff_page(result)
        head = self._heading(f"{title}: {plural(len(result.differences), 'artifact')} changed")
        head += self._paragraphs(f"  {old_errors(result)}") if result.faults else []
        decision = self._paragraphs(f"  {page.summary.decision}")

        def lines(limit: int) -> list[str]:
            rows = self._rows(page, limit - len(head))
            fits = len(head) + len(rows) + len(decision) <= limit
            return [*head, *rows, *(decision if fits else [])][:limit]

        return lines

    def _rows(self, page: DiffPage, limit: int) -> list[str]:
        """Returns two lines or more for each change of the sources, as many of them as fit."""
        total = len(page.causes) + page.hidden_causes
        for count in range(min(len(page.causes), limit), -1, -1):
            shown = page.causes[:count]
            table = Table(
                header=_HEADER if self._width >= _NARROW else _NARROW_HEADER,
                rows=list(map(_cause_cells, shown)),
                right=_RIGHT,
                indent=2,
                notes={
                    index: f"{row.name} for {row.target}" for index, cause in enumerate(shown) for row in cause.rows
                },
            )
            left = total - count
            lines = [*layout([table], self._width, self._painter), *([f"  … and {left:,} more"] if left else [])]
            if len(lines) <= limit:
                return lines
        return []

    def budgets(self, uses: Sequence[BudgetUse]) -> Section:
        """Returns the part about budgets, the fullest first."""

        def lines(limit: int) -> list[str]:
            shown = uses if len(uses) < limit else uses[: max(0, limit - 2)]
            left = len(uses) - len(shown)
            table = Table(rows=list(map(_budget_row, shown)), right=(3,), indent=2)
            rows = [line[: self._width] for line in layout([table], self._width, self._painter)]
            return [*self._heading("budgets"), *rows, *([f"  … and {left:,} more"] if left else [])][:limit]

        return lines

    def paragraph(self, text: str) -> Section:
        """Returns a part that is one paragraph."""
        return lambda limit: self._paragraphs(text)[:limit]

    def footer(self, state: WatchState) -> list[str]:
        """Returns the last lines: the address of the page, the filters, what the watcher reported, and how to leave."""
        parts = [*state.selection.names, *(f"--target {target}" for target in state.selection.targets)]
        shown = [f"only {' '.join(parts)}" if parts else "", state.remark, "q or Ctrl-C to quit"]
        page = [] if state.page is None else self._paragraphs(f"page: {state.page}")
        texts = [" · ".join(filter(None, shown[start:])) for start in range(len(shown))]
        fitting = next((text for text in texts if text_width(text) <= self._width), texts[-1])
        return [*page, *self._paragraphs(fitting)]

    def _heading(self, text: str) -> list[str]:
        lines = layout([[text]], self._width)
        return list(map(self._painter.header, lines))

    def _paragraphs(self, *texts: str) -> list[str]:
        return layout([list(texts)], self._width, self._painter)


def _cause_cells(cause: CauseView) -> tuple[str, ...]:
    """Returns the cells of a change of the sources; only the first one where no artifact differs here first."""
    for row in cause.rows:
        return cause.title, row.content, row.padding, row.still_cached, row.one_time
    return cause.title, "", "", "", ""


def _users(row: Row) -> str:
    return f"{row.name} for {row.target}"


def _budget_row(use: BudgetUse) -> tuple[str, str, str, str]:
    full = min(_BAR, round(use.share * _BAR))
    sign = "~" if use.estimated else ""
    count = f"{sign}{use.tokens:,} of {use.budget:,}"
    return readable_name(use.prefix), use.target, "█" * full + "░" * (_BAR - full), count
