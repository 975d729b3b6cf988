"""Where a prefix stands against its target's units and minimum, and what stands in what order: CU4xx."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.lint.registry import CODES
from cacheunit_build.lint.rules.sections import parting
from cacheunit_build.lint.segment import milder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cacheunit_build.domain.artifact import Artifact
    from cacheunit_build.domain.cache_rule import CacheRule
    from cacheunit_build.lint.results import Severity
    from cacheunit_build.lint.rules.sections import Parting
    from cacheunit_build.lint.segment import Match

_FEW = 16
"""A unit has this many times what is a few tokens."""

_LONG = 128
"""Tokens that are worth a word where the unit is unknown."""

MOST = 0.5
"""The share of a text from which on it is most of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What a rule says, wherever it is; `offset` is a character of the system text, if one is meant."""

    code: str
    severity: Severity
    message: str
    hint: str
    offset: int | None = None


def advise(
    code: str, message: str, *, severity: Severity | None = None, hint: str | None = None, offset: int | None = None
) -> Advice:
    """What a rule says of a code, as severe and with the hint as usual if nothing else is said."""
    usual = CODES[code]
    return Advice(
        code=code, severity=severity or usual.severity, message=message, hint=hint or usual.hint, offset=offset
    )


def standing(artifact: Artifact, rule: CacheRule) -> Iterator[Advice]:
    """What its number of tokens means at its target."""
    tokens, unit = artifact.entry.tokens, rule.unit if rule.kind == "blocks" else None
    low, high = _bounds(artifact)
    least = max(rule.minimum or 0, unit or 0)
    what = f"the minimum of {rule.minimum:,}" if rule.minimum and rule.minimum >= (unit or 0) else f"one unit of {unit}"
    if high < least:
        about = "at most " if artifact.margin else ""
        yield advise("CU403", f"{about}{high:,} static tokens, {least - high:,} below {what}: nothing is cached")
    elif low < least:
        message = f"about {tokens:,} static tokens, by an estimate too near {what} to say whether anything is cached"
        yield advise("CU403", message, severity="info")
    if unit is None or artifact.margin or high < least:
        return
    past = tokens % unit
    if past and not artifact.entry.padding and past <= max(2, unit // _FEW):
        message = f"{_tokens(past)} past {_units(tokens // unit)} of {unit:,}, not padded"
        yield advise("CU402", message, hint=f"cut {_tokens(past)}, or write {unit - past:,} more")


def soft_end(artifact: Artifact, rule: CacheRule) -> Iterator[Advice]:
    """Tokens at the end that may change with what follows."""
    if not artifact.unstable or artifact.margin:
        return
    tokens, unit = artifact.entry.tokens, rule.unit if rule.kind == "blocks" else None
    last = "token" if artifact.unstable == 1 else _tokens(artifact.unstable)
    message = f"the last {last} may change with what follows"
    if unit and (tokens + artifact.unstable) // unit > tokens // unit:
        yield advise("CU404", f"{message}: {_units(1)} of {unit:,} less is cached", severity="warning")
    else:
        yield advise("CU404", f"{message}, and {'is' if artifact.unstable == 1 else 'are'} not cached")


def exposed(artifact: Artifact, rule: CacheRule, hit: Match, offset: int, count: Callable[[str], int]) -> Advice | None:
    """What a volatile hit at a character of the framed_prefix makes the model read anew; None where little stands after it.

    An error-grade hit in the first unit is an error, and what is milder stays one step milder.
    """
    tokens, unit = artifact.entry.tokens, rule.unit if rule.kind == "blocks" and not artifact.margin else None
    before = count(artifact.framed_prefix[:offset])
    after = tokens - before
    if after < (unit or _LONG):
        return None
    first = before < (unit or _LONG)
    about = "about " if artifact.margin else ""
    lost = f"{about}{_tokens(after)} from here on are read anew"
    if unit:
        lost += f", {tokens // unit - before // unit:,} of {_units(tokens // unit)}"
    message = f"when this changes, {lost}{'; nothing stays cached' if first else ''}"
    severity = hit.severity if first else milder(hit.severity)
    return advise("CU401", message, severity=severity)


def variants_part(
    texts: Sequence[str], artifact: Artifact, rule: CacheRule, count: Callable[[str], int]
) -> Advice | None:
    """Text that all variants share, behind the place where they part; `artifact` is that of the first."""
    found = parting(texts, count)
    if found is None or not _worth(found, rule):
        return None
    unit = rule.unit if rule.kind == "blocks" and not artifact.margin else None
    apart = found.head < (unit or _LONG)
    severity: Severity = "warning" if apart or found.later >= MOST * artifact.entry.tokens else "info"
    shared = f" ({_units(found.head // unit)} shared)" if unit else ""
    message = (
        f"{len(texts)} variants part here, after {_tokens(found.head)}{shared}; "
        f"{_tokens(found.later)} further on stand in all"
    )
    hint = f"move to the front: {found.order}"
    return advise("CU405", message, severity=severity, hint=hint, offset=found.offset)


def prefixes_part(
    first: tuple[str, Artifact], second: tuple[str, Artifact], rule: CacheRule, count: Callable[[str], int]
) -> Advice | None:
    """Most of a text shared by two prefixes of a target, behind the place where they part.

    Each prefix is its system text without padding, and its artifact.
    """
    found = parting((first[0], second[0]), count)
    shorter = min(first[1].entry.tokens, second[1].entry.tokens)
    if found is None or not _worth(found, rule) or found.later < MOST * shorter:
        return None
    message = (
        f"{first[1].prefix} and {second[1].prefix} part here, after {_tokens(found.head)}; "
        f"{_tokens(found.later)} further on stand in both"
    )
    hint = f"in both, begin with {found.order}"
    return advise("CU406", message, hint=hint, offset=found.offset)


def _worth(found: Parting, rule: CacheRule) -> bool:
    return found.later >= max(rule.unit or 0, _LONG)


def _bounds(artifact: Artifact) -> tuple[int, int]:
    """The fewest and the most static tokens that it may have."""
    tokens, off = artifact.entry.tokens, int(artifact.entry.tokens * artifact.margin)
    return tokens - off, tokens + off


def _tokens(count: int) -> str:
    return f"{count:,} token{'' if count == 1 else 's'}"


def _units(count: int) -> str:
    return f"{count:,} unit{'' if count == 1 else 's'}"
