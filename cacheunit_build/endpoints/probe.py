"""The story of a measurement: what an endpoint's cache serves of requests that mean nothing -> its rule, or why not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from cacheunit_build.domain.protocols import LimitReachedError
from cacheunit_build.endpoints.boundary_search import Survey
from cacheunit_build.endpoints.metrics import Gauges, read_gauges
from cacheunit_build.endpoints.probe_session import Subject, Trial, UnknownRuleError
from cacheunit_build.endpoints.rule_fit import Grid
from cacheunit_build.endpoints.warmup import find_warmup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cacheunit_build.domain.cache_rule import CacheKind, MarkerName
    from cacheunit_build.domain.protocols import Endpoint
    from cacheunit_build.endpoints.boundary_search import Sighting
    from cacheunit_build.endpoints.warmup import Reach

Repeat = Literal["same", "more", "less"]
LastToken = Literal["recomputed", "served"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One length: tokens that two requests shared (None where not known), tokens of the request, tokens served."""

    shared: int | None
    total: int
    hit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """What word for word repeats are served: of one that is nothing but whole units, and of any other."""

    last_token: LastToken | None = None
    verbatim: Repeat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """The rule of an endpoint; None is not known, and `reason` says why, also of what is missing from a rule.

    `offset`: tokens that the server counts in front of all and does not report, modulo the unit. `ahead`: tokens of the
    shortest prefix that was sent. `marker`: what a request must carry. `warm_up_requests`: requests with different continuations
    until a further one is served. `delay`: seconds after which a write was readable, at the latest.
    """

    kind: CacheKind
    unit: int | None
    minimum: int | None
    offset: int | None
    warm_up_requests: int | None
    delay: float | None
    last_token: LastToken | None
    verbatim: Repeat | None
    marker: MarkerName | None
    ahead: int | None
    requests: int
    tokens_sent: int
    observations: tuple[Observed, ...]
    notes: tuple[str, ...]
    reason: str | None


def probe(server: Endpoint, subject: Subject) -> ProbeResult:
    """Measures the cache rule of an endpoint.

    Raises:
        CacheunitError: the endpoint is of no use.
    """
    trial = Trial(server, subject)
    before = read_gauges(server.metrics())
    reach: Reach | None = None
    survey: Survey | None = None
    repeated = Repeated()
    reason: str | None = None
    try:
        trial.calibrate()
        reach = find_warmup(trial)
        survey = Survey(trial, reach)
        survey.run()
        repeated = _repeated(survey)
    except LimitReachedError as bounds:
        reason = f"stopped: {bounds.faults[0].message}"
    except UnknownRuleError as error:
        reason = error.faults[0].message
    grid = survey.fitted() if survey is not None else None
    found = grid if isinstance(grid, Grid) else None
    notes = [*trial.notes, *_compared(before, read_gauges(server.metrics()), trial, found)]
    return _probed(trial, reach, survey, _with_minimum(reason, found), notes, repeated)


def _with_minimum(reason: str | None, grid: Grid | None) -> str | None:
    """The reason, and what is missing from a rule."""
    if grid is None or grid.minimum is not None:
        return reason
    return "; ".join(part for part in (reason, "the minimum was not found") if part)


def _probed(  # noqa: PLR0913, PLR0917 - what is known at the end
    trial: Trial,
    reach: Reach | None,
    survey: Survey | None,
    reason: str | None,
    notes: Sequence[str],
    repeated: Repeated,
) -> ProbeResult:
    rule = survey.fitted() if survey is not None else "nothing was measured"
    grid = rule if isinstance(rule, Grid) else None
    kind: CacheKind = "unknown"
    if grid is not None and survey is not None:
        kind = "breakpoints" if survey.exact else "tokens" if grid.unit == 1 else "blocks"
    sightings = sorted(survey.sightings.values(), key=lambda sighting: sighting.length) if survey is not None else []
    return ProbeResult(
        kind=kind,
        unit=grid.unit if grid is not None and kind == "blocks" else None,
        minimum=None if grid is None else grid.minimum,
        offset=None if grid is None else grid.offset,
        warm_up_requests=None if reach is None else reach.warm_up_requests,
        delay=None if reach is None else reach.delay,
        last_token=repeated.last_token,
        verbatim=repeated.verbatim,
        marker=None if reach is None else reach.prefix.marker,
        ahead=None if grid is None else grid.ahead,
        requests=trial.server.sent,
        tokens_sent=trial.tokens,
        observations=tuple(_observed(sighting, grid) for sighting in sightings),
        notes=tuple(notes),
        reason=reason if grid is not None or reason is not None else str(rule),
    )


def _observed(sighting: Sighting, grid: Grid | None) -> Observed:
    shared = None if grid is None else sighting.length + grid.ahead
    return Observed(shared=shared, total=sighting.total, hit=sighting.hit)


def _repeated(survey: Survey) -> Repeated:
    """Repeats requests word for word, by the rule that was found."""
    grid = survey.fitted()
    if not isinstance(grid, Grid):
        return Repeated()
    longest = max(survey.sightings.values(), key=lambda sighting: sighting.length)
    if survey.exact:
        total, hit = _twice(survey, longest.length, inside=False)
        return Repeated(verbatim=_than(hit, longest.length + grid.ahead))
    behind = longest.total - longest.length - grid.ahead
    whole = longest.length - (longest.total + grid.offset) % grid.unit
    total, hit = _twice(survey, whole, inside=True)
    last: LastToken = "served" if hit >= total else "recomputed"
    if grid.unit == 1:
        return Repeated(last_token=last, verbatim="same" if hit in (total, total - 1) else "less")
    total, hit = _twice(survey, whole - grid.unit // 2, inside=True)
    return Repeated(last_token=last, verbatim=_than(hit, grid.hit(whole - grid.unit // 2 + behind)))


def _than(hit: int, expected: int) -> Repeat:
    return "same" if hit == expected else "more" if hit > expected else "less"


def _twice(survey: Survey, length: int, *, inside: bool) -> tuple[int, int]:
    """The tokens of a request and what is served when it is sent again; once more where nothing is."""
    trial, reach = survey.trial, survey.reach
    specimen = trial.parted(replace(reach.prefix, length=length, inside=inside))
    total, hit = trial.send(specimen).prompt or 0, 0
    for _ in range(reach.warm_up_requests + 1):
        trial.server.wait(reach.delay)
        hit = trial.send(specimen).hit or 0
        if hit > reach.cold:
            break
    return total, hit


def _compared(before: Gauges, after: Gauges, trial: Trial, grid: Grid | None) -> list[str]:
    """Where the server's own metrics say something else than what was measured."""
    said = []
    unit = after.unit or before.unit
    if unit is not None and grid is None:
        said.append(f"/metrics names units of {unit:,} tokens, which was not measured")
    elif unit is not None and grid is not None and unit != grid.unit:
        said.append(f"/metrics names units of {unit:,} tokens, and {grid.unit:,} were measured")
    if before.hits is not None and after.hits is not None and after.hits - before.hits < trial.served:
        counted = after.hits - before.hits
        said.append(f"/metrics counts {counted:,} tokens served, and the answers report {trial.served:,}")
    return said
