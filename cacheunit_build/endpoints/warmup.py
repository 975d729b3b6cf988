"""What it takes until a prefix is served at all: its length, a marker, how many requests, how much time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cacheunit_build.domain.protocols import RequestRefusedError
from cacheunit_build.endpoints.probe_request import Specimen
from cacheunit_build.endpoints.probe_session import unknown

if TYPE_CHECKING:
    from cacheunit_build.domain.cache_rule import MarkerName
    from cacheunit_build.domain.target import FormatName
    from cacheunit_build.endpoints.probe_session import Trial, UnknownRuleError

SIZES = (1_600, 3_200, 6_400)
"""Tokens of the prefixes that are tried: each more than a minimum that a provider documents."""

_FAMILY = 10
"""The first nonce that calibration does not use."""
_WAITS = (0, 1, 4)
"""Before each further request, in units of the wait that was asked for: at once, then twice more."""
_LAST = SIZES[-1:]
_PLANS: dict[FormatName, tuple[tuple[MarkerName | None, tuple[int, ...]], ...]] = {
    "openai-chat": ((None, SIZES), ("cache_control", _LAST), ("prompt_cache_breakpoint", _LAST)),
    "openai-responses": ((None, SIZES), ("prompt_cache_breakpoint", _LAST)),
    "anthropic-messages": (("cache_control", SIZES), (None, _LAST)),
    "text": ((None, SIZES),),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """A prefix that is served to requests that go on differently.

    `hit` of `total` tokens were served, `cold` of them before anything was sent. `warm_up_requests`: requests until a further one
    is served. `delay`: seconds after which a write was readable at the latest. `written`: whether the endpoint reports
    what it writes.
    """

    prefix: Specimen
    hit: int
    total: int
    cold: int
    warm_up_requests: int
    delay: float
    written: bool


class _Climb:
    """Prefixes of one marker, in the order in which they are tried."""

    def __init__(self, trial: Trial, family: int) -> None:
        self.trial = trial
        self.family = family
        self.stopped = False

    def served(self, size: int, marker: MarkerName | None) -> Reach | None:
        """The reach of prefixes of that size; None if none is served."""
        prefix = self._prefix(size, marker)
        wait = self.trial.subject.wait
        waits = [factor * wait for factor in _WAITS]
        found = self._after(prefix, waits)
        if found is None:
            return None
        tries, reach = found
        return reach if tries == 0 else self._timed(prefix, reach, sum(waits[: tries + 1]), tries)

    def _prefix(self, size: int, marker: MarkerName | None) -> Specimen:
        self.family += 1
        length = self.trial.length_for(size)
        return Specimen(family=self.family, length=length, part=0, inside=False, marker=marker)

    def _after(self, prefix: Specimen, waits: list[float]) -> tuple[int, Reach] | None:
        """Which of the further requests, each after its wait, is the first one that is served."""
        first = self.trial.send(self.trial.parted(prefix))
        for index, wait in enumerate(waits):
            if wait:
                self.trial.server.wait(wait)
            usage = self.trial.send(self.trial.parted(prefix))
            hit, cold = usage.hit or 0, first.hit or 0
            if hit > cold:
                total = usage.prompt or 0
                written = bool(first.written)
                reach = Reach(
                    prefix=prefix,
                    hit=hit,
                    total=total,
                    cold=cold,
                    warm_up_requests=index + 1,
                    delay=0.0,
                    written=written,
                )
                return index, reach
        return None

    def _timed(self, prefix: Specimen, reach: Reach, waited: float, tries: int) -> Reach:
        """Whether it took requests or time: anew with time before each, then without it before the last."""
        again = [self._prefix(reach.total, prefix.marker) for _ in range(2)]
        patient = self._after(again[0], [waited] * (tries + 3))
        if patient is None:
            raise unknown("what was served once is not served again: its cache is full, or many machines share it")
        asked, found = patient
        hasty = self._after(again[1], [waited] * asked + [0.0])
        if hasty is None:
            return replace(found, delay=waited)
        return hasty[1] if hasty[0] == asked else replace(hasty[1], delay=waited)


def find_warmup(trial: Trial) -> Reach:
    """The shortest prefix that is served, without a marker where none is needed.

    Raises:
        UnknownRuleError: none is, with the reason.
    """
    climb = _Climb(trial, _FAMILY)
    found = _first(trial, climb)
    if found is None:
        raise _reason(trial)
    if found.prefix.marker is not None and trial.subject.form == "anthropic-messages":
        return _try(trial, climb, found.total, None) or found
    return found


def _first(trial: Trial, climb: _Climb) -> Reach | None:
    for marker, sizes in _PLANS[trial.subject.form]:
        climb.stopped = False
        for size in sizes:
            silent = not trial.reported and size != sizes[0] and size != sizes[-1]
            if climb.stopped or silent or (marker is not None and not trial.reported):
                continue
            found = _try(trial, climb, size, marker)
            if found is not None:
                return found
    return None


def _try(trial: Trial, climb: _Climb, size: int, marker: MarkerName | None) -> Reach | None:
    """The reach; None where nothing is served, or the endpoint does not take such requests."""
    try:
        return climb.served(size, marker)
    except RequestRefusedError as error:
        if size == SIZES[0] and marker is None:
            raise
        what = f"requests of {size:,} tokens" if marker is None else f'requests with the marker "{marker}"'
        trial.notes.append(f"{what} are refused: {error.faults[0].message}")
        climb.stopped = True
        return None


def _reason(trial: Trial) -> UnknownRuleError:
    """Why nothing is served."""
    if not trial.reported:
        hint = " (vLLM: --enable-prompt-tokens-details; SGLang: --enable-cache-report)"
        return unknown(f"the endpoint does not report tokens that come from a cache{hint}")
    if trial.last is not None:
        trial.server.wait(trial.subject.wait)
        usage = trial.send(trial.last)
        if usage.prompt and (usage.hit or 0) > usage.prompt // 2:
            return unknown("only a request that is repeated word for word is served, none that goes on differently")
    return unknown("nothing was ever served: there is no cache, or its minimum is higher than what was sent")
