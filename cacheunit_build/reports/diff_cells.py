"""The cells of a row of `diff`, which is about one artifact or several: numbers of tokens as ranges, and costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.domain.cache_rule import MILLION
from cacheunit_build.reports.diff_summary import amount
from cacheunit_build.reports.folding import number_range

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from cacheunit_build.diff.results import Difference, FirstChange
    from cacheunit_build.domain.lock import LockEntry

COLUMNS = ("prefix", "target", "tokens", "still cached", "recomputed", "one-time cost", "cost per 1M requests")
RIGHT = (3, 4, 5, 6)
"""The columns of a row, and the indexes of those that are aligned right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a change does to the cache of one artifact, or of several.

    Attributes:
        name: the prefix, or the folded names of several, with the former ones in front where they were renamed.
        target: the target, or the folded names of several.
        tokens: the static tokens, old → new, with the change in brackets.
        still_cached: the tokens that old cache entries still serve; a question mark where that is unknown.
        recomputed: the other tokens.
        one_time: the one-time cost, of all artifacts of the row together.
        running: the cost per 1M requests, of each artifact.
        content: the static tokens without padding, old → new, or by how much they changed for several artifacts.
        padding: the tokens of padding, in the same form.
        note: further numbers of a single artifact; empty for several.
    """

    name: str
    target: str
    tokens: str
    still_cached: str
    recomputed: str
    one_time: str
    running: str
    content: str
    padding: str
    note: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells in the order of `COLUMNS`."""
        return (
            *(self.name, self.target, self.tokens, self.still_cached, self.recomputed),
            *(self.one_time, self.running),
        )


def row_of(items: Sequence[Difference], *, name: str, target: str, with_note: bool) -> Row:
    """Returns the row of some differences.

    Args:
        items: the differences, at least one.
        name: the folded names of their prefixes.
        target: the folded names of their targets.
        with_note: whether the row has the offsets of the first change and the padding, for one difference.
    """
    present = [item for item in items if item.new is not None]
    estimated = any(item.estimated for item in items)
    return Row(
        name=name,
        target=target,
        tokens=_tokens(items),
        still_cached=number_range([item.still_cached for item in present], estimated=estimated),
        recomputed=number_range([item.recomputed for item in present], estimated=estimated),
        one_time=_one_time(items),
        running=_running(items),
        content=_old_and_new(items, lambda entry: entry.tokens - entry.padding, estimated=estimated),
        padding=_old_and_new(items, lambda entry: entry.padding, estimated=False),
        note="; ".join(_notes(items[0])) if with_note else "",
    )


def _tokens(items: Sequence[Difference]) -> str:
    """Returns `1,024 → 1,152 (+128)`, in ranges for several artifacts; one number where nothing changed."""
    sides = [[item.old for item in items if item.old], [item.new for item in items if item.new]]
    old, new = (
        number_range([entry.tokens for entry in entries], estimated=any(entry.is_estimate for entry in entries)) or "0"
        for entries in sides
    )
    deltas = sorted({item.new.tokens - item.old.tokens for item in items if item.old and item.new})
    if not deltas:
        return f"{old} → {new}"
    if deltas == [0] and old == new:
        return new
    return f"{old} → {new} ({_change(deltas)})"


def _old_and_new(items: Sequence[Difference], count: Callable[[LockEntry], int], *, estimated: bool) -> str:
    """Returns how a number of tokens changed.

    of one artifact       1,204, 1,204 → 1,210
    of several artifacts  +5…+7, or 1,204…1,380 where it changed in none
    """
    sign = "~" if estimated else ""
    pairs = {tuple(None if entry is None else count(entry) for entry in (item.old, item.new)) for item in items}
    both = [(old, new) for old, new in pairs if old is not None and new is not None]
    if len(both) < len(pairs) or all(old == new for old, new in both):
        return number_range([new if old is None else old for old, new in pairs], estimated=estimated)
    if len(pairs) == 1:
        ((old, new),) = both
        return f"{sign}{old:,} → {sign}{new:,}"
    return sign + _change({new - old for old, new in both})


def _change(deltas: Collection[int]) -> str:
    """Returns `+5`, or `+5…+7` where the change is not the same everywhere."""
    least, most = min(deltas), max(deltas)
    return f"{least:+,}" if least == most else f"{least:+,}…{most:+,}"


def _one_time(items: Sequence[Difference]) -> str:
    """Returns the one-time cost of all, in each currency: `1,114`, `~0.0012 USD`, `1,114 + 0.2 EUR + ?`."""
    costs = [(item, item.cost.one_time) for item in items if item.cost is not None]
    if not costs:
        return ""
    total = amount(costs)
    parts = [] if total.input_tokens is None else [f"{total.input_tokens:,.0f}"]
    parts += [f"{value:,.4g} {currency}" for currency, value in total.money.items()]
    sign = "~" if parts and any(item.estimated for item, _ in costs) else ""
    return sign + " + ".join([*parts, *(["?"] if total.unknown else [])])


def _running(items: Sequence[Difference]) -> str:
    """Returns the cost per 1M requests as a range in each currency: `+0`, `+12…+128`, `~+0.12 USD or ?`."""
    costs = [(item, item.cost.per_million) for item in items if item.cost is not None]
    values: dict[str, list[float]] = {}
    for item, cost in costs:
        if cost is not None:
            price, unit = (1.0, "") if item.price is None else (item.price.input / MILLION, item.price.currency)
            values.setdefault(unit, []).append(cost * price)
    parts = [_cost_range(own, unit) for unit, own in sorted(values.items())]
    sign = "~" if parts and any(item.estimated for item, _ in costs) else ""
    unknown = ["?"] if any(cost is None for _, cost in costs) else []
    return sign + " or ".join([*parts, *unknown])


def _cost_range(values: Sequence[float], currency: str) -> str:
    shown = [f"{value:+,.4g}" if currency else f"{value:+,.0f}" for value in (min(values), max(values))]
    text = shown[0] if shown[0] == shown[1] else "…".join(shown)
    return f"{text} {currency}" if currency else text


def _notes(item: Difference) -> Iterator[str]:
    """Yields the offsets of the first change, a changed padding, and the artifact whose entry serves an added one."""
    if item.first is not None:
        yield _offsets(item.first)
    if item.old is not None and item.new is not None and item.old.padding != item.new.padding:
        yield f"padding {item.old.padding:,} → {item.new.padding:,}"
    if item.shares is not None:
        yield f"shares its beginning with {item.shares}"


def _offsets(first: FirstChange) -> str:
    counts = [("byte", first.byte), ("token", first.token), ("unit", first.unit)]
    offsets = [f"{name} {value:,}" for name, value in counts if value is not None]
    return ", ".join([first.part, *offsets] if first.part != "system" or not offsets else offsets)
