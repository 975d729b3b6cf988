"""CU4xx: token counts against the cache rule of a target, and the order of volatile and stable text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.domain.token_count import TokenCount
from cacheunit_build.lint.rule import Rule, milder, template_example
from cacheunit_build.lint.rules.cu4_shared_text import LONG, PREFIXES_DIVERGE_EARLY, VARIANTS_DIVERGE_EARLY, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cacheunit_build.domain.artifact import Artifact
    from cacheunit_build.domain.cache_rule import CacheRule
    from cacheunit_build.lint.rule import Problem, Severity

VOLATILE_BEFORE_STABLE = Rule(
    code="CU401",
    name="volatile-before-stable",
    severity="warning",
    meaning="volatile text in front of a long stable part; most severe in the first unit",
    hint="move it behind the stable part, or out of the prefix",
    why=(
        "A cache serves tokens up to the first difference. Each time the volatile text changes, all stable text "
        "behind it is computed again, and in the first unit nothing is left that can be served. The same text "
        "behind the stable part costs only itself."
    ),
    bad=template_example("Prices hold until 2026-11-30.\n\n{% include 'guide.md.j2' %}\n"),
    good=template_example("{% include 'guide.md.j2' %}\n\nPrices hold until 2026-11-30.\n"),
    sources=("https://developers.openai.com/api/docs/guides/prompt-caching",),
)
JUST_OVER_A_UNIT = Rule(
    code="CU402",
    name="just-over-a-unit",
    severity="info",
    meaning="a few tokens past the last full unit, not padded: every request computes them again",
    hint="remove that many tokens",
    why=(
        "This target caches whole units only. The few tokens behind the last full unit are computed again in "
        "every request; remove them, and nothing is left over. Often a shorter sentence is enough."
    ),
    bad={
        "prefixes/agent.yaml": 'system: agent.md.j2\npadding: "off"\n',
        "templates/agent.md.j2": "{% include 'guide.md.j2' %}\nBe brief and polite.\n",
    },
    good={
        "prefixes/agent.yaml": 'system: agent.md.j2\npadding: "off"\n',
        "templates/agent.md.j2": "{% include 'guide.md.j2' %}\n",
    },
)
BELOW_MINIMUM = Rule(
    code="CU403",
    name="below-minimum",
    severity="warning",
    meaning="fewer tokens than the target caches at all; info if an estimate cannot tell",
    hint='join prefixes, or pad an exact count: "padding: always" to a unit, "padding: {floor: true}" to the minimum',
    why=(
        "The provider or engine caches nothing below this number of tokens, so every request pays the full price "
        "for the whole prefix. Join prefixes that are sent together, or see whether padding up to the minimum "
        "pays."
    ),
    bad={
        "prefixes/agent.yaml": 'system: agent.md.j2\npadding: "off"\n',
        "templates/agent.md.j2": "Sell frames and forks.\n",
    },
    good={
        "prefixes/agent.yaml": "system: agent.md.j2\npadding: always\n",
        "templates/agent.md.j2": "Sell frames and forks.\n",
    },
)
UNSTABLE_BOUNDARY = Rule(
    code="CU404",
    name="unstable-boundary",
    severity="info",
    meaning="the last tokens change with the text that follows and are not cached; a warning if that costs a unit",
    hint="end the frame of the target with a control token; plain text may merge with what follows, a blank line too",
    why=(
        "A tokenizer may join the end of the prefix with the first letters of what follows, be it letters, spaces "
        "or line ends. The last tokens are then not the same in all requests and cannot be cached. If they were "
        "the last ones of a unit, that whole unit is lost, and the rule warns."
    ),
    bad={
        "cacheunit.toml": '[target.own]\nextends = "deepseek-v4"\nframe = {before = "", after = "Question: "}\n',
        "prefixes/agent.yaml": "system: agent.md.j2\ntargets: [own]\n",
        "templates/agent.md.j2": "{% include 'guide.md.j2' %}\n",
    },
    good={
        "cacheunit.toml": (
            '[target.own]\nextends = "deepseek-v4"\nframe = {before = "", after = "<\uff5cUser\uff5c>"}\n'
        ),
        "prefixes/agent.yaml": "system: agent.md.j2\ntargets: [own]\n",
        "templates/agent.md.j2": "{% include 'guide.md.j2' %}\n",
    },
)
LATER_TURNS = Rule(
    code="CU407",
    name="later-turns",
    severity="warning",
    meaning="later turns change the prefix in the chat template, so that only what stands before the change is cached",
    hint="print the system text and tools at the front in every turn, whatever follows",
    why=(
        "In a conversation, each turn sends the earlier ones again. This chat template prints the front of a "
        "request in another way once there are more turns, for example with the number of messages. The second "
        "turn is then not served what the first one computed."
    ),
    bad={
        "cacheunit.toml": '[target.own]\nextends = "deepseek-v4"\nframe = {chat_template = "own.jinja"}\n',
        "prefixes/agent.yaml": "system: agent.md.j2\ntargets: [own]\n",
        "templates/agent.md.j2": "{% include 'guide.md.j2' %}\n",
        "own.jinja": (
            "{{ messages[0].content }}<\uff5cAssistant\uff5c>{{ messages | length }} messages\n"
            "{%- for message in messages[1:] %}\n"
            "{{- '<\uff5cUser\uff5c>' if message.role == 'user' else '<\uff5cAssistant\uff5c>' -}}\n"
            "{{ message.content }}\n"
            "{%- endfor %}\n"
        ),
    },
    good={
        "cacheunit.toml": '[target.own]\nextends = "deepseek-v4"\nframe = {chat_template = "own.jinja"}\n',
        "prefixes/agent.yaml": "system: agent.md.j2\ntargets: [own]\n",
        "templates/agent.md.j2": "{% include 'guide.md.j2' %}\n",
        "own.jinja": (
            "{{ messages[0].content }}<\uff5cAssistant\uff5c>The messages\n"
            "{%- for message in messages[1:] %}\n"
            "{{- '<\uff5cUser\uff5c>' if message.role == 'user' else '<\uff5cAssistant\uff5c>' -}}\n"
            "{{ message.content }}\n"
            "{%- endfor %}\n"
        ),
    },
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

_FEW_PER_UNIT = 16
"""A few tokens are at most a unit divided by this."""


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
    if after < (unit or LONG):
        return None
    is_first = before < (unit or LONG)
    units = f" ({tokens // unit - before // unit:,} of {plural(tokens // unit, 'unit')})" if unit else ""
    recomputed = f"{_approximate(artifact)}{plural(after, 'token')}{units}"
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
    extra = plural(past, "token")
    return JUST_OVER_A_UNIT.problem(
        f"{extra} past {plural(tokens // unit, 'unit')} of {unit:,}, not padded",
        hint=f"remove {extra}, or add {unit - past:,} more",
    )


def unstable_boundary(artifact: Artifact, cache: CacheRule) -> Problem | None:
    """Checks CU404: tokens at the end that may change with the text that follows."""
    if not artifact.unstable or artifact.margin:
        return None
    tokens, unit = artifact.entry.tokens, cache.unit_or_none(artifact.margin)
    one = artifact.unstable == 1
    message = f"the last {'token' if one else plural(artifact.unstable, 'token')} may change with the text that follows"
    if unit and (tokens + artifact.unstable) // unit > tokens // unit:
        return UNSTABLE_BOUNDARY.problem(f"{message}, so 1 more unit of {unit:,} is not cached", severity="warning")
    return UNSTABLE_BOUNDARY.problem(f"{message}, and {'is' if one else 'are'} not cached")


def later_turns(artifact: Artifact) -> Problem | None:
    """Checks CU407: static tokens of the first turn that later turns change."""
    turns = artifact.later_turns
    if turns is None or turns.shape is None:
        return None
    lost, first = turns.first_turn - artifact.entry.tokens, turns.first_turn
    changed = f"{lost:,} of the {plural(first, 'token')} that requests of one turn share"
    return LATER_TURNS.problem(f"a later turn ({turns.shape}) changes {changed}")


def _approximate(artifact: Artifact) -> str:
    """Returns the mark in front of a number of tokens: `~` for an estimate."""
    return "~" if artifact.margin else ""
