"""Draws the static tokens of an artifact as a strip of marks, one for each cache unit: still cached or recomputed.

A mark has cells: tokens of one state. An artifact of 300 tokens in units of 128, of which 128 are still cached and the
last 90 are padding, is two marks and a tail:

    mark 1   128 tokens still cached
    mark 2   82 tokens recomputed, 46 of them padding
    tail     44 tokens behind the last unit
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from cacheunit_build.reports.formatting import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MarkState = Literal["cached", "recomputed", "unknown"]

MOST_MARKS = 1_000
"""The most marks of a strip: a longer prefix has several units a mark."""
_MARKS_A_ROW = 50
_MARKS_WITHOUT_UNITS = 100
"""About as many marks has a strip of an artifact whose target has no units."""
_WIDTH, _HEIGHT, _GAP = 11, 16, 2
_LABELS = {"cached": "still cached", "recomputed": "recomputed", "unknown": "unknown"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """All cells of one kind in a strip.

    Attributes:
        kind: their state, with ` padding` or ` tail` behind it: the names of their style.
        label: their meaning in the legend.
        path: their outlines as SVG writes them.
    """

    kind: str
    label: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitStrip:
    """The strip of one artifact.

    Attributes:
        width: its width, in pixels.
        height: its height.
        cells: its cells of each kind.
        marks: the number of its marks, without the tail.
        scale: what one mark stands for, such as `1 mark = 1 unit of 128 tokens`.
        text: what it shows, in words.
    """

    width: int
    height: int
    cells: tuple[Cells, ...]
    marks: int
    scale: str
    text: str


def unit_strip(tokens: int, unit: int, still_cached: int | None, padding: range = range(0)) -> UnitStrip:
    """Returns the strip of an artifact whose tokens are known.

    Args:
        tokens: its static tokens.
        unit: tokens in one cache unit; 0 or 1 where its target has none.
        still_cached: how many static tokens an old cache entry serves; None where that is unknown.
        padding: the indexes of its tokens that are padding.
    """
    size = _mark_size(tokens, unit)
    full = tokens // size
    edges = {0, tokens, still_cached or 0, padding.start, padding.stop, full * size, *range(0, tokens, size)}
    paths: dict[str, list[str]] = {}
    for start, end in pairwise(sorted(edge for edge in edges if 0 <= edge <= tokens)):
        state = "unknown" if still_cached is None else "cached" if start < still_cached else "recomputed"
        is_tail = unit > 1 and start >= full * size
        kind = state + (" tail" if is_tail else " padding" if start in padding else "")
        paths.setdefault(kind, []).append(_outline(start, end, size, kind))
    marks = -(-tokens // size)
    return UnitStrip(
        width=max(1, min(marks, _MARKS_A_ROW)) * (_WIDTH + _GAP) - _GAP + 1,
        height=max(1, -(-marks // _MARKS_A_ROW)) * (_HEIGHT + _GAP) - _GAP + 1,
        cells=tuple(Cells(kind=kind, label=_label(kind), path="".join(path)) for kind, path in paths.items()),
        marks=full,
        scale=_scale_text(size, unit),
        text="; ".join(_words(tokens, unit, still_cached, len(padding))),
    )


def _mark_size(tokens: int, unit: int) -> int:
    """Returns how many tokens one mark stands for: a unit, several units, or a round number."""
    if unit > 1:
        return unit * max(1, -(-tokens // (unit * MOST_MARKS)))
    size, factors = 1, (2, 2.5, 2)
    for step in range(30):
        if tokens <= size * _MARKS_WITHOUT_UNITS:
            break
        size = int(size * factors[step % len(factors)])
    return size


def _outline(start: int, end: int, size: int, kind: str) -> str:
    """Returns a rectangle for the tokens from `start` to `end`, which are in one mark; hatched where recomputed."""
    mark = start // size
    x = round(mark % _MARKS_A_ROW * (_WIDTH + _GAP) + (start - mark * size) / size * _WIDTH + 0.5, 1)
    y = mark // _MARKS_A_ROW * (_HEIGHT + _GAP) + 0.5
    width = (end - start) / size * _WIDTH
    hatch = f"m0 {_HEIGHT // 2}l{width:.3g}-{_HEIGHT // 2}m0 {_HEIGHT // 2}l-{width:.3g} {_HEIGHT // 2}"
    box = f"M{x:g} {y:g}h{width:.3g}v{_HEIGHT}h-{width:.3g}z"
    return box + hatch if kind in ("recomputed", "recomputed padding") else box


def _label(kind: str) -> str:
    state, _, extra = kind.partition(" ")
    suffix = {"": "", "padding": ", padding", "tail": ", behind the last full unit"}[extra]
    return _LABELS[state] + suffix


def _scale_text(size: int, unit: int) -> str:
    if unit > 1:
        return f"1 mark = {plural(size // unit, 'unit')} of {unit:,} tokens"
    return f"1 mark = {plural(size, 'token')}; this target reuses single tokens or has no known unit"


def _words(tokens: int, unit: int, still_cached: int | None, padding: int) -> Iterator[str]:
    """Yields what a strip shows: `12 of 19 units still cached`, then what is behind them."""
    noun, size = ("unit", unit) if unit > 1 else ("token", 1)
    full = tokens // size
    if still_cached is None:
        yield f"{plural(full, noun)}, unknown how many are still cached"
    else:
        yield f"{still_cached // size:,} of {plural(full, noun)} still cached"
    if tokens % size:
        yield f"{plural(tokens % size, 'token')} behind the last full unit"
    if padding:
        yield f"{plural(padding, 'token')} of padding"


def legend(strips: Sequence[UnitStrip]) -> tuple[Cells, ...]:
    """Returns one cell of each kind that strips have, for a legend."""
    kinds = dict.fromkeys((cells.kind, cells.label) for strip in strips for cells in strip.cells)
    return tuple(Cells(kind=kind, label=label, path=_outline(0, 1, 1, kind)) for kind, label in sorted(kinds))
