"""Searches the prefix lengths at which an endpoint's hits change, and fits a cache rule to them.

While the cache holds one long prefix, each shorter request that leaves it in the middle is a measurement. An example: a
server with units of 128 tokens, a minimum of 1,024 and 37 tokens of its own in front; 10 tokens precede the filler:

    step                   filler length  hit    conclusion
    longest prefix         1,583          1,499  parts of a prefix are served
    one token less         1,582          1,499  not served to the token
    search the boundary    1,483          1,371  less than before: the boundary is in between
    up from there, steps   1,484  1,486   1,371
      of 1, 2, 4, ...      1,490          1,499  passed it
    halve                  1,488          1,371
                           1,489          1,499  boundary: 128 tokens are a unit, and units begin 37 tokens in front
    search the minimum     81             0      the first unit is not served: there is a minimum
    halve, unit by unit    849            0
                           1,233  1,105  1,243  1,115
                           977            987
    one token less         976            0      minimum: 987 tokens, of those that the server counts

A server that never serves a part of a prefix gets a new prefix, with a nonce of its own, for each length.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cacheunit_build.endpoints.probe_session import unknown_rule
from cacheunit_build.endpoints.rule_fit import fit_grid, fit_whole_prefixes

if TYPE_CHECKING:
    from collections.abc import Callable

    from cacheunit_build.endpoints.probe_request import ProbeRequest
    from cacheunit_build.endpoints.probe_session import ProbeSession
    from cacheunit_build.endpoints.rule_fit import CacheGrid, FitResult
    from cacheunit_build.endpoints.warmup import WarmupResult

_DOCUMENTED_MINIMA = (64, 128, 256, 512, 1024, 2048, 4096)
"""Minima that providers document; they are tried before others."""
_FIRST_PREFIX_ID = 1_000
"""Numbers of prefixes below this one belong to the calibration and the warm-up."""
_MAX_DOUBLINGS = 1
"""How often a prefix is made twice as long where it ends in the first unit."""
_MAX_RUNS = 2
_MAX_STEP_BEFORE_JUMP = 16
"""Once a search step is longer than this, the length one unit behind the hit is tried next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The hit of one prefix length.

    Attributes:
        length: tokens of filler in the prefix.
        total: tokens of the request.
        hit: tokens served from the cache.
    """

    length: int
    total: int
    hit: int


class BoundarySearch:
    """Measures the hits of one endpoint at the lengths that decide about its rule.

    Attributes:
        session: sends the requests.
        warmup: a prefix that the endpoint serves, and what that takes.
        whole_prefixes_only: whether it serves a prefix as a whole or not at all.
        measurements: filler length -> the best hit of that length.
    """

    def __init__(self, session: ProbeSession, warmup: WarmupResult) -> None:
        self.session = session
        self.warmup = warmup
        self.whole_prefixes_only = False
        self.measurements: dict[int, Measurement] = {}
        self._attempts = warmup.warm_up_requests
        self._prefix_id = _FIRST_PREFIX_ID

    def fit(self) -> FitResult:
        """Returns the rule that explains all measurements so far, or why there is none."""
        hits = {length: measurement.hit for length, measurement in self.measurements.items()}
        return fit_whole_prefixes(hits) if self.whole_prefixes_only else fit_grid(hits)

    def run(self) -> None:
        """Measures lengths until the rule is known; starts over once if the hits contradict each other.

        Raises:
            LimitReachedError: a limit of the session is reached; `measurements` keeps what was measured until then.
            UnknownRuleError: no rule explains the hits.
        """
        for run in range(_MAX_RUNS):
            if run:
                self.session.notes.append("the hits contradicted each other, so everything was measured again")
                self._start_over()
            self._search()
            fit = self.fit()
            if fit.grid is not None:
                return
        raise unknown_rule(fit.reason)

    def _start_over(self) -> None:
        """Drops all measurements, and fills the cache with a long prefix that has a new nonce."""
        self.measurements.clear()
        prefix = self._new_prefix(self.warmup.prefix.length)
        for _ in range(self.warmup.warm_up_requests + 1):
            self.session.send_new(prefix)
            self.session.endpoint.wait(self.warmup.delay)
        self.warmup = replace(self.warmup, prefix=prefix)

    def _search(self) -> None:
        """Finds out whether parts of a prefix are served, then searches the boundary and the minimum."""
        # A second attempt, since a cache that was emptied by chance would look like one that serves no parts.
        longest = self._measure_longest() or self._measure_longest()
        self.whole_prefixes_only = longest is None
        if longest is None:
            self._find_minimum_of_whole_prefixes()
            return
        boundary = longest if self._is_served_to_the_token(longest) else self._find_boundary(longest)
        if boundary is not None:
            self._find_minimum(boundary)
        self._recheck_minimum()

    # Caches that serve parts of a prefix

    def _measure_longest(self) -> Measurement | None:
        """Measures the long prefix with a continuation inside; returns None where no request is served.

        Sets how many requests a length needs: a cache that stores what two requests share needs more than one.
        """
        length = self.warmup.prefix.length
        hits = []
        # Caches that need several warm-up requests get one more, in case the cache is emptied during the first ones.
        spare = 1 if self.warmup.warm_up_requests == 1 else 2
        for attempt in range(self.warmup.warm_up_requests + spare):
            measurement = self._send(length, wait=attempt > 0)
            hits.append(measurement.hit)
            if measurement.hit > self.warmup.baseline_hit:
                self._record(measurement)
        if max(hits) <= self.warmup.baseline_hit:
            return None
        self._attempts = hits.index(max(hits)) + 1
        return self.measurements[length]

    def _is_served_to_the_token(self, longest: Measurement) -> bool:
        """Returns whether prefixes that are 1 and 3 tokens shorter have hits that are 1 and 3 tokens smaller."""
        return all(self._measure(longest.length - fewer, longest.hit).hit == longest.hit - fewer for fewer in (1, 3))

    def _find_boundary(self, longest: Measurement) -> Measurement | None:
        """Returns the shortest prefix that is served as much as the longest.

        Where a prefix of one token less is not served at all, this was the first unit, and the unit is still unknown:
        the search goes on in a prefix of twice the length. None where that does not help either.
        """
        for doublings in range(_MAX_DOUBLINGS + 1):
            if doublings:
                # One attempt more, since the cache does not hold the longer prefix yet.
                longest = self._measure(2 * longest.length, 2 * longest.total, more_attempts=1)
            boundary = self._find_boundary_up_to(longest)
            if self.measurements[boundary.length - 1].hit > self.warmup.baseline_hit:
                return boundary
        return None

    def _find_boundary_up_to(self, longest: Measurement) -> Measurement:
        """Returns the shortest prefix that is served as much as `longest`, by growing steps and then by halving.

        The search starts at the hit of `longest`. Requests of that length share a little less, since what they share
        ends before their last token, so they must be served less. The boundary is likely to be near, or one unit behind
        that: some servers compute the last unit of a prefix again.
        """
        start, high = max(0, longest.length - (longest.total - longest.hit)), longest
        below = self._measure(start, high.hit).hit
        if below >= high.hit:
            raise unknown_rule("the endpoint served more tokens than two requests have in common")
        low, one_unit_behind = start, start + high.hit - below
        step = 1  # 0 once the boundary is passed
        while high.length - low > 1:
            if step > _MAX_STEP_BEFORE_JUMP and low < one_unit_behind < high.length:
                length, step = one_unit_behind, 1
            else:
                length, step = (low + step, 2 * step) if step else ((low + high.length) // 2, 0)
            measurement = self._measure(min(length, high.length - 1), high.hit)
            if measurement.hit >= high.hit:
                high, step = measurement, 0
            else:
                low = measurement.length
        return high

    def _find_minimum(self, boundary: Measurement) -> None:
        """Measures the lengths that show the minimum: unit by unit below the boundary, then token by token."""
        grid = self.fit().grid
        if grid is None:
            return
        units = min(boundary.length, boundary.hit - 1) // grid.unit
        first_unit = boundary.length - units * grid.unit
        if self._is_served(first_unit, grid):
            if grid.hit(first_unit) > grid.unit:
                self._is_served(0, grid)
            return
        unserved, served = _bisect(units, 0, lambda fewer: self._is_served(boundary.length - fewer * grid.unit, grid))
        low, high = boundary.length - unserved * grid.unit, boundary.length - served * grid.unit
        # Mostly the minimum is a whole number of units. Else it is inside the unit below.
        if high > 0 and grid.unit > 1 and not self._is_served(high - 1, grid):
            return
        _bisect(low, high, lambda length: self._is_served(length, grid))

    def _recheck_minimum(self) -> None:
        """Measures the length below the minimum again: a server that forgets now and then would seem to have one."""
        grid = self.fit().grid
        if grid is not None and grid.minimum:
            below = grid.minimum - grid.leading_tokens - 1
            del self.measurements[below]
            self._measure(below, grid.hit(below), more_attempts=2)

    def _is_served(self, length: int, grid: CacheGrid) -> bool:
        """Whether any tokens of a prefix of this length are served."""
        return self._measure(length, grid.hit(length)).hit > 0

    def _measure(self, length: int, best: int, *, more_attempts: int = 0) -> Measurement:
        """Returns the hit of a prefix length; sends as many requests as a length needs, unless it is known.

        Args:
            length: tokens of filler.
            best: the highest hit that is possible; no further request is sent once it is reached.
            more_attempts: further requests where the hit stays below.
        """
        if length in self.measurements:
            return self.measurements[length]
        attempts = self._attempts + more_attempts
        hit = 0
        for attempt in range(attempts + 1):
            measurement = self._send(length, wait=attempt > 0)
            hit = max(hit, measurement.hit)
            if hit >= best or (attempt + 1 >= attempts and hit > self.warmup.baseline_hit):
                break
        return self._record(replace(measurement, hit=hit))

    def _send(self, length: int, *, wait: bool) -> Measurement:
        """Sends one request that leaves the long prefix after `length` tokens of filler."""
        if wait and self.warmup.delay:
            self.session.endpoint.wait(self.warmup.delay)
        request = replace(self.warmup.prefix, length=length, continuation_in_system=True)
        usage = self.session.send_new(request)
        return Measurement(length=length, total=usage.prompt or 0, hit=usage.hit or 0)

    def _record(self, measurement: Measurement) -> Measurement:
        """Keeps the better of this measurement and an earlier one of its length; returns it."""
        earlier = self.measurements.get(measurement.length)
        if earlier is None or earlier.hit <= measurement.hit:
            self.measurements[measurement.length] = measurement
        return self.measurements[measurement.length]

    # Caches that serve whole prefixes only

    def _find_minimum_of_whole_prefixes(self) -> None:
        """Measures the lengths that show the minimum: first the documented minima, then by halving."""
        length, hit = self.warmup.prefix.length, self.warmup.hit
        leading_tokens = hit - length
        self._record(Measurement(length=length, total=self.warmup.total, hit=hit))
        self._measure_whole_prefix(length - 1)
        low, high = 0, length - 1
        for minimum in reversed([minimum for minimum in _DOCUMENTED_MINIMA if leading_tokens < minimum < hit]):
            if not self._is_cached(minimum - leading_tokens):
                low = minimum - leading_tokens
                break
            high = minimum - leading_tokens
        if high > 1 and not self._is_cached(high - 1):
            low = high - 1
        if low == 0 and self._measure_whole_prefix(0).hit:
            return
        low, high = _bisect(low, high, self._is_cached)
        self._measure_whole_prefix(high)
        self._measure_whole_prefix(low)

    def _is_cached(self, length: int) -> bool:
        """Whether a prefix of this length is cached; takes one request where the endpoint reports its writes."""
        if not self.warmup.reports_writes:
            return self._measure_whole_prefix(length).hit > 0
        return bool(self.session.send(self._new_prefix(length)).written)

    def _measure_whole_prefix(self, length: int) -> Measurement:
        """Returns the hit of a prefix with a nonce of its own; sends nothing if it is known."""
        if length in self.measurements:
            return self.measurements[length]
        prefix = self._new_prefix(length)
        baseline_hit = self.session.send_new(prefix).hit or 0
        for _ in range(self.warmup.warm_up_requests + 1):
            self.session.endpoint.wait(self.warmup.delay)
            usage = self.session.send_new(prefix)
            if (usage.hit or 0) > baseline_hit:
                break
        hit = usage.hit or 0
        return self._record(Measurement(length=length, total=usage.prompt or 0, hit=hit if hit > baseline_hit else 0))

    def _new_prefix(self, length: int) -> ProbeRequest:
        """Returns a prefix of this length with a new nonce."""
        self._prefix_id += 1
        return replace(self.warmup.prefix, prefix_id=self._prefix_id, length=length)


def _bisect(unserved: int, served: int, is_served: Callable[[int], bool]) -> tuple[int, int]:
    """Moves two numbers towards each other until they are neighbours, and returns them.

    Args:
        unserved: a number for which `is_served` is false.
        served: a number for which it is true; may be the higher or the lower one.
        is_served: decides about a number in between.
    """
    while abs(served - unserved) > 1:
        middle = (unserved + served) // 2
        if is_served(middle):
            served = middle
        else:
            unserved = middle
    return unserved, served
