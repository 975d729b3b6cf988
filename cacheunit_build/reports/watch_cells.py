"""What one change of the sources does, as the cells of a row of `watch`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.domain.cache_rule import MILLION
from cacheunit_build.reports.folding import fold, fold_names, fold_targets, number_range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cacheunit_build.diff.results import Cause, Difference
    from cacheunit_build.domain.lock import LockEntry

_MOST_NAMES = 4
_UNIT = "input tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseCells:
    """One change of the sources and what it does.

    Attributes:
        place: the line of the sources; empty where it is not known.
        what: the kind of change in words.
        names: the folded names of the prefixes that differ; empty where no artifact differs here first.
        targets: the folded names of their targets.
        content: the static tokens without padding: `1,204 → 1,210`, or `+5…+7` for several artifacts.
        padding: the tokens of padding, in the same form.
        still_cached: the least and the most tokens of an artifact that stay cached.
        cost: the one-time cost of all artifacts together.
    """

    place: str
    what: str
    names: str
    targets: str
    content: str
    padding: str
    still_cached: str
    cost: str

    @property
    def title(self) -> str:
        """The place and the words."""
        return f"{self.place} {self.what}" if self.place else self.what

    @property
    def users(self) -> str:
        """The names of prefixes and targets."""
        return f"{self.names} for {self.targets}" if self.names else "no artifact differs here first"


def cause_cells(cause: Cause) -> CauseCells:
    """Returns the cells of one change of the sources."""
    items = cause.differences
    left = [item for item in items if item.new is not None]
    estimated = any(item.estimated for item in items)
    return CauseCells(
        place="" if cause.source is None else f"{cause.source.path}:{cause.source.line}",
        what=cause.what,
        names=folded_names(items),
        targets=fold_targets(item.target for item in items),
        content=_old_and_new(items, content_tokens, estimated=estimated),
        padding=_old_and_new(items, _padding, estimated=False),
        still_cached=number_range((item.still_cached for item in left), estimated=estimated),
        cost=total_cost(left),
    )


def content_tokens(entry: LockEntry) -> int:
    """Returns the static tokens of an artifact that are no padding."""
    return entry.tokens - entry.padding


def _padding(entry: LockEntry) -> int:
    return entry.padding


def folded_names(items: Sequence[Difference]) -> str:
    """Returns the names of a few prefixes, with former names; of many, their number and the folder around them."""
    renamed = [item for item in items if item.was is not None]
    if renamed and len({item.prefix for item in renamed}) == 1 == len({item.prefix for item in items}):
        return f"{fold_names([renamed[0].was or ''])} → {fold_names([renamed[0].prefix])}"
    if len({item.prefix.partition("@")[0] for item in items}) <= _MOST_NAMES:
        return fold_names(item.prefix for item in items)
    return fold((item.key for item in items), 1)[0].name


def _old_and_new(items: Iterable[Difference], count: Callable[[LockEntry], int], *, estimated: bool) -> str:
    """Returns how a number of tokens changed.

    one number:       1,204, 1,204 → 1,210
    several of them:  +5…+7, or 1,204…1,380 where no artifact's number changed
    """
    sign = "~" if estimated else ""
    pairs = {tuple(None if entry is None else count(entry) for entry in (item.old, item.new)) for item in items}
    if not pairs:
        return ""
    both = [(old, new) for old, new in pairs if old is not None and new is not None]
    if len(both) < len(pairs) or all(old == new for old, new in both):
        return number_range((new if old is None else old for old, new in pairs), estimated=estimated)
    if len(pairs) == 1:
        ((old, new),) = both
        return f"{sign}{old:,} → {sign}{new:,}"
    deltas = sorted({new - old for old, new in both})
    shown = f"{deltas[0]:+,}" if len(deltas) == 1 else f"{deltas[0]:+,}…{deltas[-1]:+,}"
    return f"{sign}{shown}"


def total_cost(items: Iterable[Difference]) -> str:
    """Returns the one-time cost of artifacts together: in money where there is a price, else in input tokens."""
    sums: dict[str, float] = {}
    known, estimated = True, False
    for item in items:
        if item.cost is None:
            continue
        estimated = estimated or item.estimated
        if item.cost.one_time is None:
            known = False
        elif item.price is None:
            sums[_UNIT] = sums.get(_UNIT, 0.0) + item.cost.one_time
        else:
            money = item.cost.one_time * item.price.input / MILLION
            sums[item.price.currency] = sums.get(item.price.currency, 0.0) + money
    if not known:
        return "?"
    sign = "~" if estimated else ""
    return " + ".join(f"{sign}{_amount(value, unit)}" for unit, value in sorted(sums.items()))


def _amount(value: float, unit: str) -> str:
    return f"{value:,.0f}" if unit == _UNIT else f"{value:,.4g} {unit}"
