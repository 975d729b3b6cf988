"""Measures the cache rule of a live endpoint with generated requests, or reports why it cannot be determined.

The steps are: calibrate the filler, find a prefix that is served (`warmup`), search the lengths that decide about the
rule (`boundary_search`), repeat two requests exactly, compare with the server's own metrics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.domain.endpoint import LimitReachedError
from cacheunit_build.endpoints.boundary_search import BoundarySearch
from cacheunit_build.endpoints.metrics import parse_metrics
from cacheunit_build.endpoints.probe_session import ProbeSession, UnknownRuleError
from cacheunit_build.endpoints.repeats import RepeatResult, measure_repeats
from cacheunit_build.endpoints.warmup import find_warmup

if TYPE_CHECKING:
    from cacheunit_build.domain.cache_rule import CacheKind, MarkerName
    from cacheunit_build.domain.endpoint import Endpoint
    from cacheunit_build.endpoints.metrics import ServerMetrics
    from cacheunit_build.endpoints.probe_request import ProbeSettings
    from cacheunit_build.endpoints.repeats import LastToken, RepeatHit
    from cacheunit_build.endpoints.rule_fit import CacheGrid
    from cacheunit_build.endpoints.warmup import WarmupResult


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthObservation:
    """What was served of one prefix length.

    Attributes:
        shared: tokens that two requests with this prefix share; None where that is unknown.
        total: tokens of the request.
        hit: tokens served from the cache.
    """

    shared: int | None
    total: int
    hit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """The measured rule of an endpoint. None means unknown.

    Attributes:
        kind: how the cache reuses a prefix; `unknown` where no rule was found.
        unit: tokens in one cache unit, for `blocks`.
        minimum: the fewest shared tokens that are served; 0 where the first unit or the shortest prefix is.
        offset: tokens in front of everything that the server does not count, modulo the unit.
        warm_up_requests: requests with different continuations until a further one is served.
        delay: seconds after which a write was readable, at the latest.
        dropped_units: see `RepeatResult`.
        last_token: see `RepeatResult`.
        verbatim: see `RepeatResult`.
        marker: the marker that a request must carry.
        requests: requests that were sent, retries included.
        tokens_sent: input tokens of these.
        observations: what was served at each length, shortest first.
        notes: remarks on what happened on the way.
        reason: why the rule, or a part of it, is unknown.
    """

    kind: CacheKind
    unit: int | None
    minimum: int | None
    offset: int | None
    warm_up_requests: int | None
    delay: float | None
    dropped_units: int | None
    last_token: LastToken | None
    verbatim: RepeatHit | None
    marker: MarkerName | None
    requests: int
    tokens_sent: int
    observations: tuple[LengthObservation, ...]
    notes: tuple[str, ...]
    reason: str | None


def probe(endpoint: Endpoint, settings: ProbeSettings) -> ProbeResult:
    """Measures the cache rule of an endpoint; where a limit is reached, returns what is known by then.

    Raises:
        CacheunitError: the endpoint cannot be reached, refuses the requests, or does not answer with JSON.
    """
    return _Probe(endpoint, settings).run()


class _Probe:
    """One measurement, with its results so far."""

    def __init__(self, endpoint: Endpoint, settings: ProbeSettings) -> None:
        self._endpoint = endpoint
        self._session = ProbeSession(endpoint, settings)
        self._warmup: WarmupResult | None = None
        self._search: BoundarySearch | None = None
        self._repeats = RepeatResult()

    def run(self) -> ProbeResult:
        """Measures until the rule is known, cannot be found, or a limit is reached."""
        before = parse_metrics(self._endpoint.metrics())
        reasons = []
        try:
            self._measure()
        except LimitReachedError as error:
            reasons.append(f"stopped: {error.faults[0].message}")
        except UnknownRuleError as error:
            reasons.append(error.faults[0].message)
        after = parse_metrics(self._endpoint.metrics())
        grid = self._grid()
        if grid is not None and grid.minimum is None:
            reasons.append("the minimum was not found")
        notes = [*self._session.notes, *_metrics_notes(before, after, self._session.tokens_served, grid)]
        return self._result(grid, notes, "; ".join(reasons) or None)

    def _measure(self) -> None:
        """Runs the steps; the results of finished steps are kept if a later one raises."""
        self._session.calibrate()
        self._warmup = find_warmup(self._session)
        self._search = BoundarySearch(self._session, self._warmup)
        self._search.run()
        self._repeats = measure_repeats(self._search)

    def _grid(self) -> CacheGrid | None:
        """Returns the grid that explains all hits, with the units that the server drops; None where there is none."""
        grid = None if self._search is None else self._search.fit().grid
        return None if grid is None else grid.with_dropped_units(self._repeats.dropped_units or 0)

    def _result(self, grid: CacheGrid | None, notes: list[str], reason: str | None) -> ProbeResult:
        """Returns what is known, with `grid` as the rule."""
        kind = self._kind(grid)
        warmup = self._warmup
        return ProbeResult(
            kind=kind,
            unit=grid.unit if grid is not None and kind == "blocks" else None,
            minimum=None if grid is None else grid.minimum,
            offset=None if grid is None else grid.offset,
            warm_up_requests=None if warmup is None else warmup.warm_up_requests,
            delay=None if warmup is None else warmup.delay,
            dropped_units=self._repeats.dropped_units,
            last_token=self._repeats.last_token,
            verbatim=self._repeats.verbatim,
            marker=None if warmup is None else warmup.prefix.marker,
            requests=self._endpoint.requests_sent,
            tokens_sent=self._session.tokens_sent,
            observations=self._observations(grid),
            notes=tuple(notes),
            reason=reason,
        )

    def _kind(self, grid: CacheGrid | None) -> CacheKind:
        """Returns the kind of rule that a grid belongs to."""
        if grid is None or self._search is None:
            return "unknown"
        if self._search.whole_prefixes_only:
            return "breakpoints"
        return "tokens" if grid.unit == 1 else "blocks"

    def _observations(self, grid: CacheGrid | None) -> tuple[LengthObservation, ...]:
        """Returns all measured lengths, shortest first."""
        if self._search is None:
            return ()
        return tuple(
            LengthObservation(
                shared=None if grid is None else measurement.length + grid.leading_tokens,
                total=measurement.total,
                hit=measurement.hit,
            )
            for _, measurement in sorted(self._search.measurements.items())
        )


def _metrics_notes(
    before: ServerMetrics, after: ServerMetrics, tokens_served: int, grid: CacheGrid | None
) -> list[str]:
    """Returns a note for each number in the server's metrics that contradicts the measurement.

    Args:
        before: the metrics before the first request.
        after: the metrics after the last one.
        tokens_served: cached tokens that the responses reported in between.
        grid: the measured rule; None where there is none.
    """
    notes = []
    unit = after.unit or before.unit
    if unit is not None and grid is None:
        notes.append(f"/metrics reports a unit of {unit:,} tokens, which could not be measured")
    elif unit is not None and grid is not None and unit != grid.unit:
        notes.append(f"/metrics reports a unit of {unit:,} tokens, but {grid.unit:,} were measured")
    if before.hit_tokens is not None and after.hit_tokens is not None:
        counted = after.hit_tokens - before.hit_tokens
        if counted < tokens_served:
            notes.append(f"/metrics counts {counted:,} cached tokens, but the responses report {tokens_served:,}")
    return notes
