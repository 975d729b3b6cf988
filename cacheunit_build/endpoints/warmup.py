"""Finds out what it takes until an endpoint serves a prefix from its cache: length, marker, number of requests, time.

Each prefix is sent several times, always with another continuation. The first response that reports more cached tokens
than the very first one did tells how many requests it took:

    request   waited before   hit     conclusion (prefix of 1,600 tokens, --wait 1)
    1         -               0
    2         0 s             0
    3         1 s             1,536   two requests or one second? A second series of requests decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cacheunit_build.domain.endpoint import RequestRefusedError
from cacheunit_build.endpoints.probe_request import ProbeRequest
from cacheunit_build.endpoints.probe_session import unknown_rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cacheunit_build.domain.cache_rule import MarkerName
    from cacheunit_build.endpoints.probe_session import ProbeSession, UnknownRuleError

PREFIX_SIZES = (1_600, 3_200, 6_400)
"""Tokens of the prefixes that are tried. The longest exceeds the minima that providers document (at most 4,096)."""

_FIRST_PREFIX_ID = 10
"""Numbers of prefixes below this one belong to the calibration."""
_WAIT_FACTORS = (0, 1, 4)
"""The wait before the second, third and fourth request, in multiples of the `--wait` option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmupResult:
    """A prefix that the endpoint serves to requests with other continuations, and what that took.

    Attributes:
        prefix: the prefix; its continuation has no meaning.
        hit: tokens that were served from the cache.
        total: tokens of the request that was served.
        baseline_hit: tokens that were served even to the first request. What many requests share anyway, such as the
            provider's own text in front, is no hit of this prefix.
        warm_up_requests: requests with different continuations until a further one is served.
        delay: seconds after which a write was readable at the latest; 0 is at once.
        reports_writes: whether the endpoint reports the tokens that it writes to its cache.
    """

    prefix: ProbeRequest
    hit: int
    total: int
    baseline_hit: int
    warm_up_requests: int
    delay: float
    reports_writes: bool


def find_warmup(session: ProbeSession) -> WarmupResult:
    """Returns the shortest prefix that is served, without a marker where none is needed.

    Raises:
        UnknownRuleError: no prefix is served; the message says why.
        LimitReachedError: the limits of the session are reached first.
    """
    return _WarmupSearch(session).run()


class _WarmupSearch:
    """Tries prefixes at one endpoint, each with a nonce of its own."""

    def __init__(self, session: ProbeSession) -> None:
        self._session = session
        self._format = session.settings.request_format
        self._prefix_id = _FIRST_PREFIX_ID
        self._refused = False

    def run(self) -> WarmupResult:
        """Returns the first prefix that is served; raises `UnknownRuleError` where none is."""
        result = self._first_served()
        if result is None:
            raise self._no_hit_error()
        if result.prefix.marker is not None and self._format.needs_marker:
            # Only the API that the format comes from needs a marker; other servers may cache without one.
            return self._attempt(result.total, None) or result
        return result

    def _first_served(self) -> WarmupResult | None:
        """Tries markers and prefix sizes until a prefix is served; returns None where none is.

        The likeliest way to mark a prefix is tried with every size, the others with the longest prefix only.

            format              order
            openai-chat         no marker, cache_control, prompt_cache_breakpoint
            anthropic-messages  cache_control, no marker
        """
        markers = self._format.markers
        for index, marker in enumerate((*markers, None) if self._format.needs_marker else (None, *markers)):
            if marker is not None and not self._session.reports_hits:
                continue
            self._refused = False
            sizes = PREFIX_SIZES if index == 0 else PREFIX_SIZES[-1:]
            for size in sizes:
                if not self._session.reports_hits and size not in (sizes[0], sizes[-1]):
                    continue  # the shortest and the longest prefix show whether hits are reported at all
                result = self._attempt(size, marker)
                if result is not None:
                    return result
                if self._refused:
                    break
        return None

    def _attempt(self, size: int, marker: MarkerName | None) -> WarmupResult | None:
        """Measures a prefix of `size` tokens; returns None where it is never served, or the request is refused.

        A refusal is noted for the report. Only that of the shortest prefix without a marker is an error: such an
        endpoint takes no request at all.
        """
        try:
            return self._measure(size, marker)
        except RequestRefusedError as error:
            if size == PREFIX_SIZES[0] and marker is None:
                raise
            what = f"requests of {size:,} tokens" if marker is None else f'requests with the marker "{marker}"'
            self._session.notes.append(f"{what} are refused: {error.faults[0].message}")
            self._refused = True
            return None

    def _measure(self, size: int, marker: MarkerName | None) -> WarmupResult | None:
        """Sends a new prefix of `size` tokens up to four times; returns None where it is never served."""
        prefix = self._new_prefix(size, marker)
        waits = [factor * self._session.settings.wait for factor in _WAIT_FACTORS]
        result = self._send_until_served(prefix, waits)
        if result is None or result.warm_up_requests == 1:
            return result
        return self._requests_or_time(result, sum(waits[: result.warm_up_requests]))

    def _new_prefix(self, size: int, marker: MarkerName | None) -> ProbeRequest:
        """Returns a prefix with a new nonce, for requests of `size` tokens."""
        self._prefix_id += 1
        return ProbeRequest(
            prefix_id=self._prefix_id,
            length=self._session.length_for(size),
            continuation=0,
            continuation_in_system=False,
            marker=marker,
        )

    def _send_until_served(self, prefix: ProbeRequest, waits: Sequence[float]) -> WarmupResult | None:
        """Sends a prefix once, then once after each wait in seconds, until it is served.

        Returns:
            The result with a `delay` of 0, whatever was waited; None where no request was served.
        """
        first = self._session.send_new(prefix)
        for further, wait in enumerate(waits, start=1):
            if wait:
                self._session.endpoint.wait(wait)
            usage = self._session.send_new(prefix)
            if (usage.hit or 0) > (first.hit or 0):
                return WarmupResult(
                    prefix=prefix,
                    hit=usage.hit or 0,
                    total=usage.prompt or 0,
                    baseline_hit=first.hit or 0,
                    warm_up_requests=further,
                    delay=0.0,
                    reports_writes=bool(first.written),
                )
        return None

    def _requests_or_time(self, result: WarmupResult, waited: float) -> WarmupResult:
        """Decides whether a prefix that was served late needed further requests, or only time.

        A second prefix is sent with the whole wait before each request, which gives the number of requests. A third one
        is sent that often, without a wait before its last request: where that one is not served, it takes time too.

        | second prefix, waiting 1 s | third prefix: waits, result | decision                     |
        | -------------------------- | --------------------------- | ---------------------------- |
        | served after 1 request     | 0 s, never                  | 1 request, delay of 1 s      |
        | served after 2 requests    | 1 s and 0 s, after 2        | 2 requests, no delay         |
        | served after 2 requests    | 1 s and 0 s, never          | 2 requests, delay of 1 s     |

        Args:
            result: the result of the first prefix, which took more than one request after the first.
            waited: seconds that passed until it was served.

        Raises:
            UnknownRuleError: the second prefix is never served.
        """
        marker = result.prefix.marker
        second, third = self._new_prefix(result.total, marker), self._new_prefix(result.total, marker)
        with_waits = self._send_until_served(second, [waited] * (result.warm_up_requests + 2))
        if with_waits is None:
            raise unknown_rule(
                "a prefix that was served once is not served again: the cache is full, or many machines share it"
            )
        needed = with_waits.warm_up_requests
        without_last_wait = self._send_until_served(third, [waited] * (needed - 1) + [0.0])
        if without_last_wait is None:
            return replace(with_waits, delay=waited)
        if without_last_wait.warm_up_requests == needed:
            return without_last_wait
        return replace(without_last_wait, delay=waited)

    def _no_hit_error(self) -> UnknownRuleError:
        """Returns the error with the reason why no prefix was served; repeats the last request to find it."""
        session = self._session
        if not session.reports_hits:
            options = "vLLM: --enable-prompt-tokens-details; SGLang: --enable-cache-report"
            return unknown_rule(f"the endpoint does not report cached tokens ({options})")
        if session.last_request is not None:
            session.endpoint.wait(session.settings.wait)
            usage = session.send(session.last_request)
            if usage.prompt and (usage.hit or 0) > usage.prompt // 2:
                return unknown_rule("only an exact repeat of a request is served, never one with another continuation")
        return unknown_rule(
            "nothing was served from a cache; there is none, or its minimum is higher than the longest prefix sent"
        )
