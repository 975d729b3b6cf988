"""Computes the geometry of a line chart: steps over time as points of SVG lines, and the labels of its axes.

The plot is stretched to the width of the page, so it has lines only; its labels are text of the page, in one size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.reports.sparkline import sampled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WIDTH, HEIGHT = 1000, 300
"""The size of a plot, in units of SVG."""

STYLES = 6
"""The number of styles for lines, each with a colour and dashes of its own."""
_MOST_STEPS = 250
_INTERVALS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The numbers that one line shows.

    Attributes:
        label: its name in the legend.
        values: the number at each time; None where there is none.
    """

    label: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLine:
    """A line of a chart.

    Attributes:
        label: its name in the legend.
        style: the number of its style, from 1.
        parts: the points of each part as SVG writes them; there are several where numbers are missing in between.
    """

    label: str
    style: int
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartView:
    """A chart of a page.

    Attributes:
        id: its id in the page.
        title: what it shows.
        description: its contents in words.
        lines: its lines.
        ticks: the labels of the vertical axis from the top to the bottom, at equal distances.
        grid: the heights of the lines behind it.
        span: the labels at the start and at the end of the horizontal axis.
    """

    id: str
    title: str
    description: str
    lines: tuple[DrawnLine, ...]
    ticks: tuple[str, ...]
    grid: tuple[int, ...]
    span: tuple[str, str]


def line_chart(*, id_: str, title: str, description: str, lines: Sequence[Line], span: tuple[str, str]) -> ChartView:
    """Returns a chart of numbers that stay the same until they change.

    Args:
        id_: its id in the page.
        title: what it shows.
        description: its contents in words.
        lines: the numbers, of the same times.
        span: the labels of the first and of the last time.
    """
    known = [value for line in lines for value in line.values if value is not None]
    low, step = _scale(min(known, default=0), max(known, default=0))
    high = low + step * _INTERVALS
    drawn = tuple(
        DrawnLine(label=line.label, style=index % STYLES + 1, parts=tuple(_parts(line.values, low, high)))
        for index, line in enumerate(lines)
    )
    return ChartView(
        id=id_,
        title=title,
        description=description,
        lines=drawn,
        ticks=tuple(f"{low + step * count:,}" for count in range(_INTERVALS, -1, -1)),
        grid=tuple(HEIGHT * count // _INTERVALS for count in range(_INTERVALS + 1)),
        span=span,
    )


def _scale(least: float, most: float) -> tuple[int, int]:
    """Returns the lowest tick and the distance between ticks: round numbers, such that everything is in between.

    1,003 to 2,228  ->  1,000, 500: up to 3,000
    1,300 to 1,300  ->  1,300, 1: up to 1,304
    """
    power = 1
    while True:
        for factor in (1, 2, 5):
            step = power * factor
            low = int(least // step) * step
            if low + step * _INTERVALS >= most:
                return low, step
        power *= 10


def _parts(values: Sequence[float | None], low: int, high: int) -> Iterator[str]:
    """Yields the points of each part of a line without gaps: x and y of each corner of its steps."""
    shown = sampled(values, _MOST_STEPS)
    width = WIDTH / max(1, len(shown))
    points: list[str] = []
    for index, value in enumerate([*shown, None]):
        if value is not None:
            y = f"{HEIGHT - (value - low) / (high - low) * HEIGHT:.1f}"
            if not points or not points[-1].endswith(f",{y}"):
                points.append(f"{index * width:.1f},{y}")
            elif len(points) > 1 and points[-2].endswith(f",{y}"):
                points.pop()
            points.append(f"{(index + 1) * width:.1f},{y}")
        elif points:
            yield " ".join(points)
            points = []
