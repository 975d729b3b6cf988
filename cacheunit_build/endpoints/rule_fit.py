"""Fits a cache rule to measured hits, or reports why no rule explains all of them. It never guesses.

A cache of whole units serves `unit` tokens more from a certain length on. Two neighbouring lengths with different hits
therefore show the unit, and where units begin. Every other hit must then be what this grid gives:

    filler length   hit     conclusion
    1,489           1,499   the boundary: one token less is served less, so 1,499 - 1,489 = 10 tokens precede the filler
    1,488           1,371   1,499 - 1,371 = 128 tokens are one unit
                            -1,499 mod 128 = 37: units begin 37 tokens in front of what the server counts
    977             987     on the grid (1,499 - 4 units)
    976             0       977 is served and 976 is not: the minimum is 987 shared tokens
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheGrid:
    """The lengths at which a server's cache can serve a prefix.

    Attributes:
        unit: tokens in one unit; 1 where every length is served.
        leading_tokens: tokens that two requests share in front of the filler.
        offset: tokens in front of everything that the server does not count, modulo the unit.
        minimum: the fewest shared tokens that are served; 0 where the shortest prefix that was sent, or the first unit,
            is served; None where it was not found.
        dropped_units: the last units that two requests share and that are computed again all the same. The hits of
            prefixes do not show them, so a fitted grid has none, and fewer leading tokens instead.
    """

    unit: int
    leading_tokens: int
    offset: int
    minimum: int | None
    dropped_units: int = 0

    def hit(self, length: int) -> int:
        """Returns the tokens served of a prefix with `length` tokens of filler, if it reaches the minimum."""
        shared = length + self.leading_tokens + self.offset
        return shared - shared % self.unit - self.offset - self.dropped_units * self.unit

    def with_dropped_units(self, units: int) -> CacheGrid:
        """Returns the grid of a server that drops `units` units and reports the same hits.

        Its requests share that many units more than the hits show.
        """
        more = units * self.unit
        minimum = self.minimum + more if self.minimum else self.minimum
        return replace(self, leading_tokens=self.leading_tokens + more, minimum=minimum, dropped_units=units)


@dataclass(frozen=True, slots=True, kw_only=True)
class FitResult:
    """The outcome of a fit.

    Attributes:
        grid: the grid that explains all hits; None where there is none.
        reason: why there is none; empty where there is one.
    """

    grid: CacheGrid | None = None
    reason: str = ""


def fit_grid(hits: Mapping[int, int]) -> FitResult:
    """Fits a cache that serves whole units, or every token, of a common prefix.

    Args:
        hits: filler length -> tokens served of a prefix of that length.
    """
    served = _served_lengths(hits)
    boundary = next((one for one in served if hits.get(one - 1, 0) and hits[one - 1] != hits[one]), None)
    if boundary is None:
        return FitResult(reason="the unit is unknown: no two neighbouring lengths were served differently")
    unit = hits[boundary] - hits[boundary - 1]
    if unit < 1:
        shorter, longer = hits[boundary - 1], hits[boundary]
        return FitResult(reason=f"the longer of two prefixes was served less: {shorter:,} tokens, then {longer:,}")
    grid = CacheGrid(unit=unit, leading_tokens=hits[boundary] - boundary, offset=-hits[boundary] % unit, minimum=None)
    return _with_minimum(grid, hits, served)


def fit_whole_prefixes(hits: Mapping[int, int]) -> FitResult:
    """Fits a cache that serves a marked prefix as a whole, to the token, or not at all.

    Args:
        hits: filler length -> tokens served of a prefix of that length.
    """
    served = _served_lengths(hits)
    if len(served) < 2:  # noqa: PLR2004 - a single length may be a multiple of any unit
        return FitResult(reason="fewer than two lengths were served: prefixes may be served to the token, or in units")
    grid = CacheGrid(unit=1, leading_tokens=hits[served[-1]] - served[-1], offset=0, minimum=None)
    return _with_minimum(grid, hits, served)


def _served_lengths(hits: Mapping[int, int]) -> list[int]:
    """Returns the lengths with a hit, shortest first."""
    return sorted(length for length, hit in hits.items() if hit)


def _with_minimum(grid: CacheGrid, hits: Mapping[int, int], served: list[int]) -> FitResult:
    """Adds the minimum to a grid, if every hit is on the grid and no length is served below one that is not."""
    for length in served:
        expected = grid.hit(length)
        if hits[length] != expected:
            difference = f"{hits[length]:,} tokens were served where units of {grid.unit} give {expected:,}"
            return FitResult(reason=f"the hits contradict each other: {difference}")
    unserved = [length for length, hit in hits.items() if not hit and grid.hit(length) > 0]
    shortest = served[0]
    if unserved and max(unserved) > shortest:
        return FitResult(
            reason="the hits contradict each other: a shorter prefix was served where a longer one was not"
        )
    shared = shortest + grid.leading_tokens
    is_first_unit = hits[shortest] == shared and shared <= grid.unit
    if shortest == 0 or is_first_unit:
        return FitResult(grid=replace(grid, minimum=0))
    return FitResult(grid=replace(grid, minimum=shared if shortest - 1 in hits else None))
