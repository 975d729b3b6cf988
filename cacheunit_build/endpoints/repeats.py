"""Repeats and extends requests, which shows how many of the last units of a prefix a server computes again.

Units of 128 tokens. All requests share everything that the reported number of tokens covers, so that what is shared is
known to the token, whatever the server puts in front:

    request                                tokens  hit    conclusion
    repeated exactly, whole units          1,536   1,536  last_token `served`
                                                   1,408  last_token `recomputed`: at least one token is always computed
    repeated exactly, one token less       1,535   1,408  verbatim `same`, no unit is dropped
                                                   1,535  verbatim `more`
                                                   1,280  a unit is missing: only of repeats, or of every prefix?
    the last one, with more text behind it 1,538   1,408  no unit is dropped: repeats are served `less`
                                                   1,280  one unit is dropped

A server that drops a unit serves each unit only once the next one is shared too. So the lengths at which its hits
change must be larger by one unit than the hits: this is compared as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from cacheunit_build.endpoints.boundary_search import BoundarySearch
    from cacheunit_build.endpoints.probe_request import ProbeRequest
    from cacheunit_build.endpoints.rule_fit import CacheGrid

RepeatHit = Literal["same", "more", "less"]
LastToken = Literal["recomputed", "served"]

_MAX_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatResult:
    """What is served of a request that is repeated exactly.

    Attributes:
        last_token: whether a request of whole units is served to its end, or its last unit is recomputed; None where
            that is unknown.
        verbatim: whether any other repeat is served as much as a request with another continuation; None where that is
            unknown.
        dropped_units: the last units of a common prefix that are computed again all the same; None where unknown.
    """

    last_token: LastToken | None = None
    verbatim: RepeatHit | None = None
    dropped_units: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _SentRequest:
    """A request that was sent, and how many tokens it has."""

    request: ProbeRequest
    total: int


def measure_repeats(search: BoundarySearch) -> RepeatResult:
    """Repeats requests exactly, and compares their hits with the measured rule."""
    grid = search.fit().grid
    if grid is None:
        return RepeatResult()
    longest = search.measurements[max(search.measurements)]
    if search.whole_prefixes_only:
        sent = _send(search, longest.length, continuation_in_system=False)
        hit = _repeat(search, sent.request)
        return RepeatResult(verbatim=_compare(hit, longest.length + grid.leading_tokens), dropped_units=0)
    whole = _send_with_rest(search, grid, 0)
    hit = _repeat(search, whole.request)
    if grid.unit == 1:
        last_token: LastToken = "served" if hit >= whole.total else "recomputed"
        verbatim: RepeatHit = "same" if hit in (whole.total, whole.total - 1) else "less"
        return RepeatResult(last_token=last_token, verbatim=verbatim, dropped_units=0)
    shorter = _send_with_rest(search, grid, grid.unit - 1)
    shorter_hit, full = _repeat(search, shorter.request), shorter.total - (grid.unit - 1)
    dropped = _dropped_units(search, grid, shorter.request, (full, shorter_hit))
    missing = (dropped or 0) * grid.unit
    return RepeatResult(
        last_token="served" if hit >= whole.total - missing else "recomputed",
        verbatim=_compare(shorter_hit, full - missing),
        dropped_units=dropped,
    )


def _dropped_units(
    search: BoundarySearch, grid: CacheGrid, request: ProbeRequest, repeat: tuple[int, int]
) -> int | None:
    """Returns how many of the last units of a common prefix are computed again; None where that is unknown.

    Args:
        search: the search that measured the grid.
        grid: the measured grid; where units are dropped, its leading tokens are too few by as many units.
        request: a request of one token less than whole units, which was repeated exactly.
        repeat: the tokens in its whole units, and the hit of its repeat.
    """
    full, hit = repeat
    if hit == full and grid.leading_tokens >= 0:
        return 0
    extended_hit = _send_extended(search, request, full)
    missing = full - extended_hit if hit > full else full - max(hit, extended_hit)
    units, rest = divmod(missing, grid.unit)
    leading_tokens = grid.leading_tokens + missing
    is_consistent = extended_hit > search.warmup.baseline_hit and rest == 0
    if is_consistent and 0 <= leading_tokens < search.session.base_tokens:
        return units
    search.session.notes.append("it could not be measured whether the last units of a prefix are computed again")
    return None


def _compare(hit: int, expected: int) -> RepeatHit:
    """Returns how a hit compares with the expected one."""
    return "same" if hit == expected else "more" if hit > expected else "less"


def _send(search: BoundarySearch, length: int, *, continuation_in_system: bool) -> _SentRequest:
    """Sends a request with `length` tokens of filler, and a continuation that was not sent yet."""
    prefix = replace(search.warmup.prefix, length=length, continuation_in_system=continuation_in_system)
    request = search.session.with_new_continuation(prefix)
    return _SentRequest(request=request, total=search.session.send(request).prompt or 0)


def _send_with_rest(search: BoundarySearch, grid: CacheGrid, rest: int) -> _SentRequest:
    """Sends a request that ends `rest` tokens behind its last whole unit.

    Not every continuation has as many tokens, so the first try may miss that by a few tokens.
    """
    longest = search.measurements[max(search.measurements)]
    length, total = longest.length, longest.total
    for _ in range(_MAX_TRIES):
        length = max(0, length - (total + grid.offset - rest) % grid.unit)
        sent = _send(search, length, continuation_in_system=True)
        total = sent.total
        if (total + grid.offset - rest) % grid.unit == 0:
            break
    return sent


def _repeat(search: BoundarySearch, request: ProbeRequest) -> int:
    """Sends a request exactly again until it is served; returns the hit of the last repeat."""
    session, warmup = search.session, search.warmup
    for _ in range(warmup.warm_up_requests + 1):
        session.endpoint.wait(warmup.delay)
        hit = session.send(request).hit or 0
        if hit > warmup.baseline_hit:
            break
    return hit


def _send_extended(search: BoundarySearch, request: ProbeRequest, most: int) -> int:
    """Sends a request with more text behind it, each time another one; returns the best hit, at most `most`.

    What a chat template puts behind the user message is not shared. The request ends one token in front of the next
    unit, so that it may be up to a unit without changing the shared whole units.
    """
    best = 0
    for extension in range(search.warmup.warm_up_requests + 1):
        search.session.endpoint.wait(search.warmup.delay)
        best = max(best, search.session.send(replace(request, extension=extension)).hit or 0)
        if best >= most:
            break
    return min(best, most)
