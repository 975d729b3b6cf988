"""What a response reports of a prefix, compared with what a warm cache serves of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from cacheunit_build.domain.cache_results import Prediction

Verdict = Literal["warm", "partial", "cold", "uncached", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a response reports of the prefix.

    Attributes:
        hit: tokens that were read from the cache; None where the server does not report them, or contradicts itself.
        written: tokens that were written to the cache; None where the server does not report them.
        predicted: tokens that a warm cache serves; None where unknown, or unknown whether anything is cached.
        verdict: `warm` where all that was predicted was served, `partial` where less was, `cold` where nothing was,
            `uncached` where nothing was and nothing is ever cached of the prefix, `unknown` where the server does not
            report, or nothing can be predicted.
        contradictions: a sentence for each two fields of the response that contradict each other.
    """

    hit: int | None
    written: int | None
    predicted: int | None
    verdict: Verdict
    contradictions: tuple[str, ...] = ()


def verdict_of(hit: int | None, prediction: Prediction) -> Verdict:
    """Returns what a number of cached tokens says of a prefix.

    hit    predicted        verdict
    None   any              unknown
    any    None             unknown
    0      0                uncached
    0      1,280            cold
    640    1,280            partial
    1,280  1,280            warm
    900    1,280 +- 35 %    warm
    """
    if hit is None or prediction.tokens is None:
        return "unknown"
    if hit == 0:
        return "cold" if prediction.tokens else "uncached"
    return "warm" if hit >= prediction.low else "partial"
