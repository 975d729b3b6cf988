"""Reported hits at known lengths -> the rule that gives all of them, or why there is none. Never a guess.

A server that serves whole units serves `unit` tokens more at certain lengths, and only there: two neighbouring lengths
whose hits differ show the unit, and where its grid stands. All other hits must then be as that grid says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Where a server's cache serves a prefix from.

    `unit`: tokens in one unit; 1 where any length is served. `ahead`: tokens that two requests share in front of the
    filler. `offset`: tokens in front of all that the server does not count, as far as the grid shows them: less than
    a unit. `minimum`: the fewest shared tokens that are served, 0 if all that were sent are, or all from the first unit
    on; None if it was not found.
    """

    unit: int
    ahead: int
    offset: int
    minimum: int | None

    def hit(self, length: int) -> int:
        """What is served of a filler of `length` tokens, if the minimum is reached."""
        shared = length + self.ahead + self.offset
        return shared - shared % self.unit - self.offset


def fit_grid(hits: Mapping[int, int]) -> Grid | str:
    """The grid that gives these hits, or why they show none."""
    lengths = sorted(length for length, hit in hits.items() if hit)
    edge = next((one for one in lengths if hits.get(one - 1, 0) and hits[one - 1] != hits[one]), None)
    if edge is None:
        return "no two neighbouring lengths were served differently: the unit is not known"
    unit = hits[edge] - hits[edge - 1]
    if unit < 1:
        return f"the longer of two prefixes was served less: {hits[edge - 1]:,} tokens, then {hits[edge]:,}"
    grid = Grid(unit=unit, ahead=hits[edge] - edge, offset=-hits[edge] % unit, minimum=None)
    return _with_minimum(grid, hits, lengths)


def fit_exact(hits: Mapping[int, int]) -> Grid | str:
    """The same for a server that serves a marked prefix whole, or nothing."""
    lengths = sorted(length for length, hit in hits.items() if hit)
    if len(lengths) < 2:  # noqa: PLR2004 - one length could be a multiple of anything
        return "fewer than two lengths were served: whether they are served to the token is not known"
    grid = Grid(unit=1, ahead=hits[lengths[-1]] - lengths[-1], offset=0, minimum=None)
    return _with_minimum(grid, hits, lengths)


def _with_minimum(grid: Grid, hits: Mapping[int, int], lengths: list[int]) -> Grid | str:
    """The grid with its minimum, if every hit is on it and nothing is served below a length that is not."""
    for length in lengths:
        if hits[length] != grid.hit(length):
            was, rule = hits[length], grid.hit(length)
            told = f"{was:,} tokens were served where units of {grid.unit} give {rule:,}"
            return f"the numbers contradict one another: {told}"
    lowest = lengths[0]
    empty = [length for length, hit in hits.items() if not hit and grid.hit(length) > 0]
    if empty and max(empty) > lowest:
        return "the numbers contradict one another: a shorter prefix was served where a longer one was not"
    shared = lowest + grid.ahead
    if lowest == 0 or (hits[lowest] == shared and shared <= grid.unit):
        minimum: int | None = 0
    else:
        minimum = shared if lowest - 1 in hits else None
    return Grid(unit=grid.unit, ahead=grid.ahead, offset=grid.offset, minimum=minimum)
