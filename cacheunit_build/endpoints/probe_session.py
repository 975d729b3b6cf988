"""An endpoint under trial: specimens are sent within bounds of requests and tokens, and what is served is kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cacheunit_build.domain.errors import CacheunitError, Fault
from cacheunit_build.domain.protocols import LimitReachedError
from cacheunit_build.endpoints.probe_request import FILLERS, Specimen, specimen_body

if TYPE_CHECKING:
    from cacheunit_build.domain.protocols import Endpoint
    from cacheunit_build.domain.target import FormatName
    from cacheunit_build.domain.usage import Usage

_FIRST_GUESS = 64
"""Tokens of a specimen without filler, before the first was counted."""
_CALIBRATION = 64


class UnknownRuleError(CacheunitError):
    """The endpoint works, and its rule cannot be found; the message says why."""


def unknown(reason: str) -> UnknownRuleError:
    """The error with this reason."""
    return UnknownRuleError(Fault(message=reason))


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is probed, and how far: the most tokens in all, and the seconds to wait where a hit may come late."""

    model: str
    form: FormatName
    nonce: str
    tokens: int
    wait: float


class Trial:
    """One endpoint, and what was sent to it."""

    def __init__(self, server: Endpoint, subject: Subject) -> None:
        self.server = server
        self.subject = subject
        self.tokens = 0
        self.served = 0
        self.reported = False
        self.base = _FIRST_GUESS
        self.last: Specimen | None = None
        self.notes: list[str] = []
        self._filler = FILLERS[0]
        self._parts: dict[tuple[int, int], int] = {}

    def send(self, specimen: Specimen) -> Usage:
        """Sends one request.

        Raises:
            LimitReachedError: it would go over the bounds.
        """
        subject = self.subject
        if self.tokens + self.base + specimen.length > subject.tokens:
            message = f"more than {subject.tokens:,} tokens are needed"
            raise LimitReachedError(Fault(message=message, hint="--max-tokens allows more"))
        body = specimen_body(specimen, subject.form, subject.model, subject.nonce, self._filler)
        before = self.server.sent
        try:
            usage = self.server.ask(subject.form, body)
        finally:
            self.tokens += (self.server.sent - before) * (self.base + specimen.length)
        if usage.prompt is not None:
            self.tokens += usage.prompt - self.base - specimen.length
        self.reported = self.reported or usage.hit is not None
        self.served += usage.hit or 0
        self.last = specimen
        return usage

    def parted(self, specimen: Specimen) -> Specimen:
        """The specimen with words that none of its family and length was sent with."""
        key = (specimen.family, specimen.length)
        self._parts[key] = self._parts.get(key, -1) + 1
        return replace(specimen, part=self._parts[key])

    def calibrate(self) -> None:
        """Finds a filler of which each repeat is one token, by the server's own counts.

        Raises:
            UnknownRuleError: it does not count, or no filler does that.
        """
        for family, filler in enumerate(FILLERS):
            self._filler = filler
            counts = []
            for length in (0, _CALIBRATION):
                count = self.send(Specimen(family=family, length=length, part=0, inside=True)).prompt
                if count is None:
                    raise unknown("the endpoint does not report the tokens of a prompt")
                counts.append(count)
            if counts[1] - counts[0] == _CALIBRATION:
                self.base = counts[0]
                return
        raise unknown("no filler adds one token a repeat: lengths cannot be stepped by tokens")

    def length_for(self, tokens: int) -> int:
        """The filler of a specimen that has so many tokens in all."""
        return max(1, tokens - self.base)
