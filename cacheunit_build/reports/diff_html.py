"""The page of `diff` as HTML: each cause with its changed words, a strip of units, its artifacts and their texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.domain.file_names import readable_name
from cacheunit_build.reports.diff_cells import COLUMNS, RIGHT
from cacheunit_build.reports.diff_page import PageLimits, artifact_rows, diff_page
from cacheunit_build.reports.formatting import plural
from cacheunit_build.reports.html import TableView, render
from cacheunit_build.reports.shown_artifacts import ShownArtifacts, recomputed
from cacheunit_build.reports.unit_strip import legend

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cacheunit_build.diff.results import Difference, DiffResult
    from cacheunit_build.domain.lock import ArtifactKey
    from cacheunit_build.reports.diff_cells import Row
    from cacheunit_build.reports.diff_page import CauseView
    from cacheunit_build.reports.shown_artifacts import ShownText
    from cacheunit_build.reports.unit_strip import Cells, UnitStrip
    from cacheunit_build.reports.word_diff import MarkedLine

_LIMITS = PageLimits(causes=40, lines=40, whole=True)
_EVERYTHING = PageLimits(whole=True)
_MOST_ROWS = 1_000
"""The most artifacts of all causes that have a row of their own, if not everything is asked for."""
_MOST_OPEN = 3
"""Up to so many causes are open in the page; of more, the first one is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _CauseView:
    """A cause in the page.

    Attributes:
        id: its id in the page.
        place: its place; empty where none is known.
        what: the kind of change in words.
        count: the number of artifacts; empty where it also changed only.
        is_open: whether it is open at first.
        lines: the changed lines.
        hidden: what of them is left out; empty where nothing is.
        row: what it does to the cache of all its artifacts; None where it also changed only.
        strip: the units of the artifact with the most tokens to compute again; None where these are not known.
        strip_of: the name of that artifact, or why there is no strip.
        artifacts: a row for each artifact; None for a single one.
        more: how many rows are left out; empty where none is.
        texts: its artifacts whose texts are shown here.
    """

    id: str
    place: str
    what: str
    count: str
    is_open: bool
    lines: tuple[MarkedLine, ...]
    hidden: str
    row: TableView | None
    strip: UnitStrip | None
    strip_of: str
    artifacts: TableView | None
    more: str
    texts: tuple[ShownText, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _DiffView:
    """The page.

    Attributes:
        decision: the line to decide by.
        summary: the number of differences, and what they are compared with.
        notes: what limits the report.
        causes: the causes.
        hidden: how many causes are left out; empty where none is.
        legend: the meaning of the marks in the strips.
        texts: how many texts are shown; empty where there are none.
        faults: the faults of the older version.
    """

    decision: str
    summary: str
    notes: tuple[str, ...]
    causes: tuple[_CauseView, ...] = ()
    hidden: str = ""
    legend: tuple[Cells, ...] = ()
    texts: str = ""
    faults: tuple[str, ...] = ()


def diff_html(diff: DiffResult, *, everything: bool = False) -> str:
    """Returns the page.

    Args:
        diff: the result.
        everything: whether to show all causes, lines and texts.
    """
    faults = tuple(str(fault) for fault in diff.faults)
    if not diff.differences:
        view = _DiffView(decision=f"no difference from {diff.against}", summary="", notes=diff.notes, faults=faults)
        return render("diff.html.j2", view)
    page = diff_page(diff, _EVERYTHING if everything else _LIMITS)
    artifacts = ShownArtifacts(diff.snapshot)
    items = [item for cause in page.causes for item in cause.differences]
    ids = artifacts.ids(items, everything=everything)
    views = _Causes(artifacts, ids, len(items) if everything else _MOST_ROWS)
    causes = tuple(
        views.view(cause, f"cause-{index}", is_open=index == 1 or len(page.causes) <= _MOST_OPEN)
        for index, cause in enumerate(page.causes, 1)
    )
    view = _DiffView(
        decision=page.summary.decision,
        summary=f"Against {page.against}. {page.counts}.",
        notes=(*dict.fromkeys((*page.remarks, *diff.notes)),),
        causes=causes,
        hidden=page.hidden and f"{page.hidden}; -v shows everything",
        legend=legend([strip for cause in causes for strip in _strips(cause)]),
        texts=_texts_line(len(ids), sum(map(artifacts.is_compiled, items))),
        faults=faults,
    )
    return render("diff.html.j2", view)


def _strips(cause: _CauseView) -> list[UnitStrip]:
    return [strip for strip in (cause.strip, *(item.strip for item in cause.texts)) if strip is not None]


def _texts_line(shown: int, known: int) -> str:
    """Returns how many artifacts have their text in the page."""
    if shown == known:
        return ""
    rest = "those with the most recomputed tokens; -v shows all"
    return f"The texts of {shown:,} of {plural(known, 'artifact')} are in this page: {rest}."


class _Causes:
    """Makes the views of causes in order, so that each text is in the page once.

    Args:
        artifacts: their texts and units.
        ids: the ids of the texts that are shown.
        most_rows: the most artifacts of all causes that have a row of their own.
    """

    def __init__(self, artifacts: ShownArtifacts, ids: Mapping[ArtifactKey, str], most_rows: int) -> None:
        self._artifacts = artifacts
        self._ids = ids
        self._rows_left = most_rows
        self._shown: set[str] = set()

    def view(self, cause: CauseView, id_: str, *, is_open: bool) -> _CauseView:
        """Returns the view of a cause, with the texts that none before it shows."""
        items = sorted(cause.differences, key=recomputed, reverse=True)
        strip, strip_of = _worst(items, self._artifacts) if items else (None, "")
        rows, hidden = items[: self._rows_left], len(items[self._rows_left :])
        self._rows_left -= len(rows)
        return _CauseView(
            id=id_,
            place=cause.place,
            what=cause.what,
            count=plural(len(items), "artifact") if items else "",
            is_open=is_open,
            lines=cause.lines,
            hidden=f"… and {plural(cause.hidden_lines, 'more line')}; -v shows all" if cause.hidden_lines else "",
            row=_table(cause.rows, f"Cost of {id_}") if items else None,
            strip=strip,
            strip_of=strip_of,
            artifacts=self._rows(rows, f"Artifacts of {id_}") if len(items) > 1 else None,
            more=f"… and {plural(hidden, 'more artifact')}; -v shows all" if hidden else "",
            texts=tuple(self._texts(items)),
        )

    def _rows(self, items: Sequence[Difference], caption: str) -> TableView:
        """Returns a table with a row for each artifact, which leads to its text."""
        links = {index: self._ids[item.key] for index, item in enumerate(items) if item.key in self._ids}
        return _table(list(artifact_rows(items)), caption, links)

    def _texts(self, items: Sequence[Difference]) -> Iterator[ShownText]:
        for item in items:
            id_ = self._ids.get(item.key)
            if id_ is not None and id_ not in self._shown:
                self._shown.add(id_)
                yield self._artifacts.shown(item, id_)


def _worst(items: Sequence[Difference], artifacts: ShownArtifacts) -> tuple[UnitStrip | None, str]:
    """Returns the units of the first artifact, and its name and how many more there are; or why there are none."""
    item = items[0]
    strip = artifacts.strip(item)
    name = f"{readable_name(item.prefix)} for {item.target}"
    if strip is None:
        return None, f"{name}: {artifacts.remark(item)}"
    more = f", and {len(items) - 1:,} more" if len(items) > 1 else ""
    return strip, f"{name}{more}"


def _table(rows: Sequence[Row], caption: str, links: Mapping[int, str] | None = None) -> TableView:
    """Returns a table of rows, without columns that are empty in all of them."""
    used = [column for column in range(len(COLUMNS)) if any(row.cells[column] for row in rows)]
    return TableView(
        caption=caption,
        header=[COLUMNS[column] for column in used],
        rows=[[row.cells[column] for column in used] for row in rows],
        right=[index for index, column in enumerate(used) if column in RIGHT],
        links=links or {},
    )
