"""CU4xx: token counts against the cache rule of a target, and the order of volatile, shared and stable text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cacheunit_build.domain.file_names import readable_name
from cacheunit_build.domain.token_count import TokenCount
from cacheunit_build.lint.divergence import find_divergence
from cacheunit_build.lint.rule import Rule, milder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cacheunit_build.domain.artifact import Artifact
    from cacheunit_build.domain.cache_rule import CacheRule
    from cacheunit_build.lint.divergence import Divergence
    from cacheunit_build.lint.rule import Problem, Severity
    from cacheunit_build.lint.segment import Match, Segment

VOLATILE_BEFORE_STABLE = Rule(
    code="CU401",
    name="volatile-before-stable",
    severity="warning",
    meaning="volatile text in front of a long stable part; most severe in the first unit",
    hint="move it behind the stable part, or out of the prefix",
)
JUST_OVER_A_UNIT = Rule(
    code="CU402",
    name="just-over-a-unit",
    severity="info",
    meaning="a few tokens past the last full unit, not padded: every request computes them again",
    hint="remove that many tokens",
)
BELOW_MINIMUM = Rule(
    code="CU403",
    name="below-minimum",
    severity="warning",
    meaning="fewer tokens than the target caches at all; info if an estimate cannot tell",
    hint='join prefixes, or pad an exact count: "padding: always" to a unit, "padding: {floor: true}" to the minimum',
)
UNSTABLE_BOUNDARY = Rule(
    code="CU404",
    name="unstable-boundary",
    severity="info",
    meaning="the last tokens change with the text that follows and are not cached; a warning if that costs a unit",
    hint="end the text so that nothing merges with it, for example with a blank line and a marker",
)
VARIANTS_DIVERGE_EARLY = Rule(
    code="CU405",
    name="variants-diverge-early",
    severity="info",
    meaning="variants differ before text that they share; a warning in the first unit, or if they share most text",
    hint="move the text that all variants share to the front",
)
PREFIXES_DIVERGE_EARLY = Rule(
    code="CU406",
    name="prefixes-diverge-early",
    severity="info",
    meaning="two prefixes of a target share much text, but not their beginning",
    hint="move the shared text to the front, in the same order",
)
LATER_TURNS = Rule(
    code="CU407",
    name="later-turns",
    severity="warning",
    meaning="later turns change the prefix in the chat template, so that only what stands before the change is cached",
    hint="print the system text and tools at the front in every turn, whatever follows",
)
RULES = (
    VOLATILE_BEFORE_STABLE,
    JUST_OVER_A_UNIT,
    BELOW_MINIMUM,
    UNSTABLE_BOUNDARY,
    VARIANTS_DIVERGE_EARLY,
    PREFIXES_DIVERGE_EARLY,
    LATER_TURNS,
)

MAJORITY = 0.5
"""The share of a text, from 0 to 1, that counts as most of it."""

_FEW_PER_UNIT = 16
"""A few tokens are at most a unit divided by this."""

_LONG = 128
"""Tokens that are worth a message where the unit is unknown."""


def volatile_before_stable(
    artifact: Artifact, cache: CacheRule, severity: Severity, offset: int, count: Callable[[str], int]
) -> Problem | None:
    """Checks CU401: a unit or more of stable text behind volatile text.

    Args:
        artifact: the artifact that contains the text.
        cache: the cache rule of its target.
        severity: that of the volatile text itself; it is kept in the first unit, and one step milder behind it.
        offset: where the text begins in the artifact's framed prefix.
        count: text -> number of tokens.
    """
    tokens, unit = artifact.entry.tokens, cache.unit_or_none(artifact.margin)
    before = artifact.scale(count(artifact.framed_prefix[:offset]))
    after = tokens - before
    if after < (unit or _LONG):
        return None
    is_first = before < (unit or _LONG)
    units = f" ({tokens // unit - before // unit:,} of {_plural(tokens // unit, 'unit')})" if unit else ""
    recomputed = f"{_approximate(artifact)}{_plural(after, 'token')}{units}"
    message = f"a change here recomputes {recomputed}{'; nothing stays cached' if is_first else ''}"
    return VOLATILE_BEFORE_STABLE.problem(message, severity=severity if is_first else milder(severity))


def token_count_problems(artifact: Artifact, cache: CacheRule) -> Iterator[Problem]:
    """Yields what is wrong with the number of static tokens of an artifact."""
    for check in (below_minimum, just_over_a_unit, unstable_boundary):
        problem = check(artifact, cache)
        if problem is not None:
            yield problem


def below_minimum(artifact: Artifact, cache: CacheRule) -> Problem | None:
    """Checks CU403: fewer tokens than one unit, or than the target's minimum."""
    tokens, least = TokenCount(tokens=artifact.entry.tokens, margin=artifact.margin), cache.fewest_cached
    cached = cache.caches(tokens)
    name = f"{cache.fewest_name} of {least:,}"
    if cached is False:
        at_most = "at most " if artifact.margin else ""
        return BELOW_MINIMUM.problem(
            f"{at_most}{tokens.high:,} static tokens, {least - tokens.high:,} below {name}: nothing is cached"
        )
    if cached is None:
        off = f"{tokens.high - tokens.tokens:,} tokens" if artifact.entry.counted == "recorded" else ""
        estimate = f"~{tokens.tokens:,} static tokens (±{off or f'{artifact.margin * 100:.0f} %'})"
        message = f"{estimate}, too close to {name} to tell whether anything is cached"
        return BELOW_MINIMUM.problem(message, severity="info")
    if cache.marker is not None and not artifact.entry.markers:
        return BELOW_MINIMUM.problem(
            "no part with enough tokens in front can carry the cache marker: nothing is cached"
        )
    return None


def just_over_a_unit(artifact: Artifact, cache: CacheRule) -> Problem | None:
    """Checks CU402: a few tokens past the last full unit that padding did not complete."""
    tokens, unit = artifact.entry.tokens, cache.unit_or_none(artifact.margin)
    if unit is None or tokens < cache.fewest_cached or artifact.entry.padding:
        return None
    past = tokens % unit
    if past == 0 or past > max(2, unit // _FEW_PER_UNIT):
        return None
    extra = _plural(past, "token")
    return JUST_OVER_A_UNIT.problem(
        f"{extra} past {_plural(tokens // unit, 'unit')} of {unit:,}, not padded",
        hint=f"remove {extra}, or add {unit - past:,} more",
    )


def unstable_boundary(artifact: Artifact, cache: CacheRule) -> Problem | None:
    """Checks CU404: tokens at the end that may change with the text that follows."""
    if not artifact.unstable or artifact.margin:
        return None
    tokens, unit = artifact.entry.tokens, cache.unit_or_none(artifact.margin)
    one = artifact.unstable == 1
    message = (
        f"the last {'token' if one else _plural(artifact.unstable, 'token')} may change with the text that follows"
    )
    if unit and (tokens + artifact.unstable) // unit > tokens // unit:
        return UNSTABLE_BOUNDARY.problem(f"{message}, so 1 more unit of {unit:,} is not cached", severity="warning")
    return UNSTABLE_BOUNDARY.problem(f"{message}, and {'is' if one else 'are'} not cached")


def later_turns(artifact: Artifact) -> Problem | None:
    """Checks CU407: static tokens of the first turn that later turns change."""
    turns = artifact.later_turns
    if turns is None or turns.shape is None:
        return None
    lost, first = turns.first_turn - artifact.entry.tokens, turns.first_turn
    changed = f"{lost:,} of the {_plural(first, 'token')} that requests of one turn share"
    return LATER_TURNS.problem(f"a later turn ({turns.shape}) changes {changed}")


def variants_diverge_early(
    system: Segment, others: Sequence[str], artifact: Artifact, cache: CacheRule, count: Callable[[str], int]
) -> Match | None:
    """Checks CU405: text that all variants share behind the point where they diverge.

    Args:
        system: the system text of the first variant.
        others: the system texts of the other variants.
        artifact: the artifact of the first variant.
        cache: the cache rule of its target.
        count: text -> number of tokens.

    Returns:
        A match of the first word in `system` that differs; None where nothing worth moving is shared behind it.
    """
    divergence = find_divergence((system.text, *others), count)
    if divergence is None or not _is_worth_moving(divergence, cache):
        return None
    unit = cache.unit_or_none(artifact.margin)
    in_first_unit = divergence.common_tokens < (unit or _LONG)
    is_most = divergence.shared_tokens >= MAJORITY * artifact.entry.tokens
    shared_units = f" ({_plural(divergence.common_tokens // unit, 'unit')} shared)" if unit else ""
    message = (
        f"{len(others) + 1} variants diverge here, after {_plural(divergence.common_tokens, 'token')}{shared_units}, "
        f"but share {_plural(divergence.shared_tokens, 'token')} further on"
    )
    severity: Severity = "warning" if in_first_unit or is_most else "info"
    match = system.match(VARIANTS_DIVERGE_EARLY, system.word_at(divergence.offset), message, severity)
    return replace(match, hint=f"move to the front: {divergence.title_list}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixText:
    """A prefix at one target, as it is compared with others.

    Attributes:
        system: its system text, without padding.
        artifact: its artifact.
    """

    system: Segment
    artifact: Artifact


def prefixes_diverge_early(
    first: PrefixText, second: PrefixText, cache: CacheRule, count: Callable[[str], int]
) -> Match | None:
    """Checks CU406: two prefixes of one target share most of their text, but behind the point where they diverge.

    Returns:
        A match of the first word in the text of `first` that differs; None where too little is shared behind it.
    """
    divergence = find_divergence((first.system.text, second.system.text), count)
    shorter = min(first.artifact.entry.tokens, second.artifact.entry.tokens)
    if divergence is None or not _is_worth_moving(divergence, cache) or divergence.shared_tokens < MAJORITY * shorter:
        return None
    message = (
        f"{readable_name(first.artifact.prefix)} and {readable_name(second.artifact.prefix)} diverge here, "
        f"after {_plural(divergence.common_tokens, 'token')}, "
        f"but share {_plural(divergence.shared_tokens, 'token')} further on"
    )
    match = first.system.match(PREFIXES_DIVERGE_EARLY, first.system.word_at(divergence.offset), message)
    return replace(match, hint=f"begin both with {divergence.title_list}")


def _is_worth_moving(divergence: Divergence, cache: CacheRule) -> bool:
    """Returns whether the shared text would fill a unit at the front."""
    return divergence.shared_tokens >= max(cache.unit or 0, _LONG)


def _approximate(artifact: Artifact) -> str:
    """Returns the mark in front of a number of tokens: `~` for an estimate."""
    return "~" if artifact.margin else ""


def _plural(count: int, noun: str) -> str:
    """Returns a count with its noun: `1 token`, `1,024 tokens`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
