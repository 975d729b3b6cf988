"""The page that `diff` shows, as data: its causes with their changed lines and rows, for text, Markdown and HTML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.diff.results import ALSO_CHANGED
from cacheunit_build.reports.diff_cells import Row, row_of
from cacheunit_build.reports.diff_summary import Summary, summary
from cacheunit_build.reports.folding import fold, fold_names, fold_targets
from cacheunit_build.reports.formatting import plural, price_text
from cacheunit_build.reports.word_diff import marked_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cacheunit_build.diff.results import Cause, Difference, DiffResult
    from cacheunit_build.domain.source_map import SourceLine
    from cacheunit_build.reports.word_diff import MarkedLine

_MOST_NAMES = 8
"""The most prefixes of a row that are named one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLimits:
    """How much of a diff its page shows.

    Attributes:
        causes: the most causes, of those with rows and of the others; None for all.
        lines: the most changed lines of a cause; None for all.
        whole: whether lines are in full; else with the words around those that differ, and the start of long ones.
        each: whether there is a row for each artifact; else one for each cause.
    """

    causes: int | None = None
    lines: int | None = None
    whole: bool = False
    each: bool = False


BRIEF = PageLimits(causes=12, lines=3)
EVERYTHING = PageLimits(whole=True, each=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseView:
    """A change of the sources as it is shown.

    Attributes:
        place: its place, and how many others have the same change; empty where none is known.
        what: the kind of change in words.
        lines: the changed lines, with the words that differ marked.
        hidden_lines: how many changed lines are left out.
        rows: what the change does to the cache: one row, or one for each artifact; none where it also changed only.
        differences: those of the artifacts in which it is the first change.
    """

    place: str
    what: str
    lines: tuple[MarkedLine, ...]
    hidden_lines: int
    rows: tuple[Row, ...]
    differences: tuple[Difference, ...]

    @property
    def artifacts(self) -> int:
        """The number of artifacts in which it is the first change."""
        return len(self.differences)

    @property
    def title(self) -> str:
        """Place and words on one line."""
        return "  ".join(part for part in (self.place, self.what) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffPage:
    """The page of a diff that has differences.

    Attributes:
        against: the name of the older version.
        causes: the changes of the sources, what they do first, then what also changed.
        hidden_causes: how many causes are left out.
        hidden_artifacts: how many artifacts their rows are about.
        remarks: why something is unknown, and where prices come from.
        counts: the number of differences of each kind, with the tokens of all.
        summary: the sums over all artifacts, with the line to decide by.
    """

    against: str
    causes: tuple[CauseView, ...]
    hidden_causes: int
    hidden_artifacts: int
    remarks: tuple[str, ...]
    counts: str
    summary: Summary

    @property
    def hidden(self) -> str:
        """The line about what is left out; empty where nothing is."""
        if not self.hidden_causes:
            return ""
        return f"… and {plural(self.hidden_causes, 'cause')} more ({plural(self.hidden_artifacts, 'artifact')})"


def diff_page(diff: DiffResult, limits: PageLimits = BRIEF) -> DiffPage:
    """Returns the page of a diff.

    Args:
        diff: the result.
        limits: how much of it is shown.
    """
    causes = _merged(diff.causes)
    first = sorted((own for own in causes if own[0].differences), key=_recomputed)
    further = [own for own in causes if not own[0].differences]
    most = len(causes) if limits.causes is None else limits.causes
    shown = [*first[:most], *further[:most]]
    hidden = [*first[most:], *further[most:]]
    sums = summary(diff)
    return DiffPage(
        against=diff.against,
        causes=tuple(_view(own, diff, limits) for own in shown),
        hidden_causes=len(hidden),
        hidden_artifacts=sum(len(cause.differences) for own in hidden for cause in own),
        remarks=(*_unknown_lines(diff), *_price_lines(diff)),
        counts=_counts(diff, sums),
        summary=sums,
    )


def _merged(causes: Iterable[Cause]) -> list[list[Cause]]:
    """Returns the causes with those together whose words and changed lines are the same, at whatever place."""
    groups: dict[object, list[Cause]] = {}
    for index, cause in enumerate(causes):
        key = (cause.what, cause.changes) if cause.differences else index
        groups.setdefault(key, []).append(cause)
    return list(groups.values())


def _recomputed(causes: Sequence[Cause]) -> int:
    """Returns the order of causes: first what makes the most tokens be computed again; unknown ones count as all."""
    items = [item for cause in causes for item in cause.differences]
    return -sum(
        item.recomputed if item.recomputed is not None else item.new.tokens if item.new is not None else 0
        for item in items
    )


def _view(causes: Sequence[Cause], diff: DiffResult, limits: PageLimits) -> CauseView:
    first = causes[0]
    items = [item for cause in causes for item in cause.differences]
    lines = marked_lines(first.changes, whole=limits.whole)
    most = len(lines) if limits.lines is None else limits.lines
    places = [cause.source for cause in causes if cause.source is not None]
    what = first.what if items else f"{ALSO_CHANGED} ({_users(first, diff)})"
    return CauseView(
        place=_places(places),
        what=what,
        lines=tuple(lines[:most]),
        hidden_lines=len(lines[most:]),
        rows=tuple(artifact_rows(items) if limits.each else _folded_row(items)),
        differences=tuple(items),
    )


def _places(places: Sequence[SourceLine]) -> str:
    """Returns `templates/a.j2:4`, or `prefixes/a.yaml:1 and 2 more places`."""
    if not places:
        return ""
    more = f" and {plural(len(places) - 1, 'more place')}" if len(places) > 1 else ""
    return f"{places[0].path}:{places[0].line}{more}"


def _users(cause: Cause, diff: DiffResult) -> str:
    """Returns the folded names of the prefixes that use the source of a cause."""
    keys = () if cause.source is None else diff.sources.get(cause.source.path, ())
    return _names([prefix for prefix, _ in keys]) or "not used"


def artifact_rows(items: Iterable[Difference]) -> Iterator[Row]:
    """Yields a row for each difference, with its note."""
    for item in items:
        yield _row([item], with_note=True)


def _folded_row(items: Sequence[Difference]) -> Iterator[Row]:
    """Yields one row for some differences; none where there are none."""
    if items:
        yield _row(items, with_note=False)


def _row(items: Sequence[Difference], *, with_note: bool) -> Row:
    names = _names([item.prefix for item in items])
    former = [item.was for item in items if item.was is not None]
    name = f"{_names(former)} → {names}" if former else names
    return row_of(items, name=name, target=fold_targets(item.target for item in items), with_note=with_note)


def _names(prefixes: Sequence[str]) -> str:
    """Returns the folded names of prefixes: `support/agent ×6, review`, `support/ (12 prefixes)`."""
    if len({prefix.partition("@")[0] for prefix in prefixes}) <= _MOST_NAMES:
        return fold_names(prefixes)
    return fold([(prefix, "") for prefix in prefixes], 1)[0].name


def _unknown_lines(diff: DiffResult) -> Iterator[str]:
    """Yields each reason why something is unknown, with the artifacts that it is about."""
    reasons: dict[str, list[Difference]] = {}
    for item in diff.differences:
        if item.why is not None:
            reasons.setdefault(item.why, []).append(item)
    for why, items in reasons.items():
        yield f"{_names([item.prefix for item in items])} for {fold_targets(item.target for item in items)}: {why}"


def _price_lines(diff: DiffResult) -> Iterator[str]:
    """Yields the prices that are not the targets' own, each once, with the day of the data."""
    targets: dict[str, list[str]] = {}
    for item in diff.differences:
        has_cost = item.mean_price is not None or (item.cost is not None and item.cost.is_known)
        if item.price is not None and item.price_origin is not None and has_cost:
            targets.setdefault(price_text(item.price, item.price_origin), []).append(item.target)
    yield from (f"{fold_targets(own)}: {text}" for text, own in targets.items())


def _counts(diff: DiffResult, sums: Summary) -> str:
    """Returns the number of differences of each kind, and what they do to the cache."""
    kinds: dict[str, int] = {}
    for item in diff.differences:
        kind = "changed" if item.kind in ("tokenizer", "profile") else item.kind
        kinds[kind] = kinds.get(kind, 0) + 1
    counts = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
    present = [item for item in diff.differences if item.new is not None]
    if sums.still_cached is None or sums.recomputed is None or not present:
        return counts
    sign = "~" if any(item.estimated for item in present) else ""
    return f"{counts}: {sign}{sums.still_cached:,} tokens still cached, {sign}{sums.recomputed:,} recomputed"
