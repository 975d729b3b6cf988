"""Draws numbers over time as a line of block characters."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_BARS = "▁▂▃▄▅▆▇█"
_ABSENT = "·"


def sparkline(values: Sequence[float | None], width: int) -> str:
    """Returns numbers as bars, from the least of them at the bottom to the greatest at the top; dots for None.

    1, 2, 3, 4, 8    ▁▂▃▄█
    5, 5, None       ▁▁·

    Args:
        values: the numbers; empty gives an empty text.
        width: the most bars; of more numbers, each bar shows the last one of its share.
    """
    shown = sampled(values, width)
    known = [value for value in shown if value is not None]
    least, most = min(known, default=0), max(known, default=0)
    scale = (len(_BARS) - 1) / (most - least) if most > least else 0.0
    return "".join(_ABSENT if value is None else _BARS[round((value - least) * scale)] for value in shown)


def sampled(values: Sequence[float | None], count: int) -> list[float | None]:
    """Returns at most `count` of these values, evenly spaced, the last one included."""
    if len(values) <= count:
        return list(values)
    return [values[(index + 1) * len(values) // count - 1] for index in range(count)]


def means(series: Sequence[Sequence[int | None]]) -> list[float | None]:
    """Returns the mean of several series at each time, of those that have a number; None where none has one."""
    found: list[float | None] = []
    for values in zip(*series, strict=True):
        known = [value for value in values if value is not None]
        found.append(sum(known) / len(known) if known else None)
    return found
