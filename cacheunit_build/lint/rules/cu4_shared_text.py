"""CU405 and CU406: variants and prefixes that share text, but not their beginning."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cacheunit_build.domain.file_names import readable_name
from cacheunit_build.lint.divergence import find_divergence
from cacheunit_build.lint.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cacheunit_build.domain.artifact import Artifact
    from cacheunit_build.domain.cache_rule import CacheRule
    from cacheunit_build.lint.divergence import Divergence
    from cacheunit_build.lint.rule import Severity
    from cacheunit_build.lint.segment import Match, Segment

VARIANTS_DIVERGE_EARLY = Rule(
    code="CU405",
    name="variants-diverge-early",
    severity="info",
    meaning="variants differ before text that they share; a warning in the first unit, or if they share most text",
    hint="move the text that all variants share to the front",
    why=(
        "Variants share a cache entry only up to the first word in which they differ. Text that all of them have, "
        "but behind that word, is computed and stored once for each variant instead of once for all."
    ),
    bad={
        "prefixes/agent.yaml": "system: agent.md.j2\nmatrix:\n  language: [French, German]\n",
        "templates/agent.md.j2": "Answer in {{ language }}.\n\n{% include 'guide.md.j2' %}\n",
    },
    good={
        "prefixes/agent.yaml": "system: agent.md.j2\nmatrix:\n  language: [French, German]\n",
        "templates/agent.md.j2": "{% include 'guide.md.j2' %}\n\nAnswer in {{ language }}.\n",
    },
)
PREFIXES_DIVERGE_EARLY = Rule(
    code="CU406",
    name="prefixes-diverge-early",
    severity="info",
    meaning="two prefixes of a target share much text, but not their beginning",
    hint="move the shared text to the front, in the same order",
    why=(
        "Prefixes share a cache entry only as far as they begin with the same tokens. Text that both have, but "
        "not at their beginning, is computed for each of them; at the front, requests of one would be served from "
        "the entry of the other."
    ),
    bad={
        "prefixes/repair.yaml": "system: repair.md.j2\n",
        "prefixes/sell.yaml": "system: sell.md.j2\n",
        "templates/repair.md.j2": "You repair bicycles.\n\n{% include 'guide.md.j2' %}\n",
        "templates/sell.md.j2": "You sell bicycles.\n\n{% include 'guide.md.j2' %}\n",
    },
    good={
        "prefixes/repair.yaml": "system: repair.md.j2\n",
        "prefixes/sell.yaml": "system: sell.md.j2\n",
        "templates/repair.md.j2": "{% include 'guide.md.j2' %}\n\nYou repair bicycles.\n",
        "templates/sell.md.j2": "{% include 'guide.md.j2' %}\n\nYou sell bicycles.\n",
    },
)

MAJORITY = 0.5
"""The share of a text, from 0 to 1, that counts as most of it."""

LONG = 128
"""Tokens that are worth a message where the unit is unknown."""


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
    in_first_unit = divergence.common_tokens < (unit or LONG)
    is_most = divergence.shared_tokens >= MAJORITY * artifact.entry.tokens
    shared_units = f" ({plural(divergence.common_tokens // unit, 'unit')} shared)" if unit else ""
    message = (
        f"{len(others) + 1} variants diverge here, after {plural(divergence.common_tokens, 'token')}{shared_units}, "
        f"but share {plural(divergence.shared_tokens, 'token')} further on"
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
        f"after {plural(divergence.common_tokens, 'token')}, "
        f"but share {plural(divergence.shared_tokens, 'token')} further on"
    )
    match = first.system.match(PREFIXES_DIVERGE_EARLY, first.system.word_at(divergence.offset), message)
    return replace(match, hint=f"begin both with {divergence.title_list}")


def _is_worth_moving(divergence: Divergence, cache: CacheRule) -> bool:
    """Returns whether the shared text would fill a unit at the front."""
    return divergence.shared_tokens >= max(cache.unit or 0, LONG)


def plural(count: int, noun: str) -> str:
    """Returns a count with its noun: `1 token`, `1,024 tokens`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
