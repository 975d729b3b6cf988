"""Sends the requests of a probe within its limits, and adds up the tokens that were sent and served."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cacheunit_build.domain.endpoint import LimitReachedError
from cacheunit_build.domain.errors import CacheunitError, Fault
from cacheunit_build.endpoints.probe_request import FILLERS, ProbeRequest, probe_body

if TYPE_CHECKING:
    from cacheunit_build.domain.endpoint import Endpoint
    from cacheunit_build.domain.usage import Usage
    from cacheunit_build.endpoints.probe_request import ProbeSettings

_ASSUMED_BASE_TOKENS = 64
"""Tokens of a request without filler, assumed until the endpoint has counted one."""
_CALIBRATION_LENGTH = 64
"""Repeats of the filler in the request that tests it."""


class UnknownRuleError(CacheunitError):
    """The endpoint works, but its cache rule cannot be determined; the message has the reason."""


def unknown_rule(reason: str) -> UnknownRuleError:
    """Returns the error for a rule that cannot be determined; the caller raises it."""
    return UnknownRuleError(Fault(message=reason))


class ProbeSession:
    """One run of `probe` against one endpoint.

    Attributes:
        endpoint: where requests are sent.
        settings: settings of the run.
        tokens_sent: input tokens sent so far, as counted by the endpoint where it reports them.
        tokens_served: input tokens that the endpoint reported as read from its cache so far.
        reports_hits: whether any response reported tokens read from the cache, zero included.
        base_tokens: tokens of a request without filler.
        last_request: the last request that was answered; None before the first.
        notes: remarks for the report.
    """

    def __init__(self, endpoint: Endpoint, settings: ProbeSettings) -> None:
        self.endpoint = endpoint
        self.settings = settings
        self.tokens_sent = 0
        self.tokens_served = 0
        self.reports_hits = False
        self.base_tokens = _ASSUMED_BASE_TOKENS
        self.last_request: ProbeRequest | None = None
        self.notes: list[str] = []
        self._filler = FILLERS[0]
        self._continuations: dict[tuple[int, int], int] = {}

    def send(self, request: ProbeRequest) -> Usage:
        """Sends one request and returns the usage that the endpoint reports.

        Raises:
            LimitReachedError: the request would exceed the limit of tokens or of requests.
            UnknownRuleError: the reported usage contradicts itself, so a number is missing.
            CacheunitError: the endpoint does not answer it.
        """
        expected = self.base_tokens + request.length
        if self.tokens_sent + expected > self.settings.max_tokens:
            message = f"more than {self.settings.max_tokens:,} tokens are needed"
            raise LimitReachedError(Fault(message=message, hint="raise --max-tokens"))
        body = probe_body(request, self.settings, self._filler)
        requests_before = self.endpoint.requests_sent
        try:
            usage = self.endpoint.send(self.settings.request_format.route, body)
        finally:  # retries cost tokens too
            self.tokens_sent += (self.endpoint.requests_sent - requests_before) * expected
        if usage.prompt is not None:
            self.tokens_sent += usage.prompt - expected
        self.reports_hits = self.reports_hits or usage.hit is not None
        self.tokens_served += usage.hit or 0
        self.last_request = request
        if usage.contradictions and (usage.hit is None or usage.prompt is None):
            raise unknown_rule(f"the usage that the endpoint reports contradicts itself: {usage.contradictions[0]}")
        return usage

    def send_new(self, request: ProbeRequest) -> Usage:
        """Sends a request with a continuation that its prefix was not sent with before; returns the reported usage.

        Raises:
            LimitReachedError: the request would exceed the limit of tokens or of requests.
            UnknownRuleError: the reported usage contradicts itself.
            CacheunitError: the endpoint does not answer it.
        """
        return self.send(self.with_new_continuation(request))

    def with_new_continuation(self, request: ProbeRequest) -> ProbeRequest:
        """Returns the request with a continuation that no earlier request of its prefix and length had."""
        key = (request.prefix_id, request.length)
        self._continuations[key] = self._continuations.get(key, -1) + 1
        return replace(request, continuation=self._continuations[key])

    def calibrate(self) -> None:
        """Picks the first filler of which each repeat adds one token, by the endpoint's own counts.

        Raises:
            UnknownRuleError: the endpoint does not report the tokens of a prompt, or no filler fits.
            LimitReachedError: a limit of the session is reached first.
        """
        for prefix_id, filler in enumerate(FILLERS):
            self._filler = filler
            base = self._count_tokens(prefix_id, 0)
            filled = self._count_tokens(prefix_id, _CALIBRATION_LENGTH)
            if filled - base == _CALIBRATION_LENGTH:
                self.base_tokens = base
                return
        raise unknown_rule("no filler adds exactly one token per repeat, so prefix lengths cannot be controlled")

    def _count_tokens(self, prefix_id: int, length: int) -> int:
        """Sends a request with `length` repeats of the filler; returns its tokens as the endpoint counts them."""
        request = ProbeRequest(prefix_id=prefix_id, length=length, continuation=0, continuation_in_system=True)
        count = self.send(request).prompt
        if count is None:
            raise unknown_rule("the endpoint does not report the tokens of a prompt")
        return count

    def length_for(self, tokens: int) -> int:
        """Returns the number of filler words in a request of `tokens` tokens; at least 1."""
        return max(1, tokens - self.base_tokens)
