"""Compares reported hits with what the cache rule of a target predicts for an artifact. Sends nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cacheunit_build.domain.token_count import TokenCount

if TYPE_CHECKING:
    from cacheunit_build.domain.artifact import Artifact
    from cacheunit_build.domain.cache_rule import CacheRule


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedHit:
    """The tokens that a warm cache may report for an artifact.

    Attributes:
        tokens: the predicted tokens; None where nothing is predicted.
        low: the fewest tokens that are as predicted.
        high: the most tokens that are as predicted.
        unit: the tokens of which every hit is a multiple; 1 where any number is possible.
        why_unknown: why nothing is predicted; None where something is.
    """

    tokens: int | None
    low: int
    high: int
    unit: int
    why_unknown: str | None

    def is_met(self, hit: int) -> bool:
        """Returns whether a hit is as predicted."""
        return self.low <= hit <= self.high and hit % self.unit == 0

    def allows(self, hit: int) -> bool:
        """Returns whether a best-effort cache may report a hit: the predicted one, a shorter prefix, or nothing."""
        return hit <= self.high and hit % self.unit == 0


def expected_hit(rule: CacheRule, artifact: Artifact) -> ExpectedHit:
    """Returns the hits that a cache rule predicts for requests of one turn with an artifact.

    Such requests share the static tokens, and those that only later turns change. Not every user message changes the
    unstable tokens behind them, so a request may hit those too: the upper bound includes them. With units of 128:

        shared  unstable  tokens  low    high
        1,200   0         1,152   1,152  1,152
        1,279   2         1,152   1,152  1,280
    """
    later_turns = artifact.later_turns
    shared = artifact.entry.tokens if later_turns is None else max(artifact.entry.tokens, later_turns.first_turn)
    prediction = rule.predict(replace(artifact.entry, tokens=shared))
    with_unstable = rule.predict(replace(artifact.entry, tokens=shared + artifact.unstable))
    return ExpectedHit(
        tokens=prediction.tokens,
        low=prediction.low,
        high=max(prediction.high, with_unstable.high),
        unit=rule.unit or 1,
        why_unknown=_why_unknown(rule, artifact) if prediction.tokens is None else None,
    )


def _why_unknown(rule: CacheRule, artifact: Artifact) -> str:
    """Returns why a rule predicts nothing for an artifact."""
    if not rule.is_known:
        what = "cache unit" if rule.has_units else "cache rule"
        return f"the {what} of the target is unknown, so nothing is predicted"
    count = TokenCount(tokens=artifact.entry.tokens, margin=artifact.margin)
    estimate = f"the estimate of {count.low:,} to {count.high:,} tokens"
    return f"{estimate} includes the minimum of {rule.fewest_cached:,}, so it is unknown whether anything is cached"
