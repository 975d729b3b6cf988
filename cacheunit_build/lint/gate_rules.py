"""Reads which lint rules the settings of a project add to the gate in front of a build."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from cacheunit_build.domain.errors import CacheunitError, Fault
from cacheunit_build.lint.registry import RULES, code_prefix, unknown_rule_hint
from cacheunit_build.lint.rules.cu2_leaks import CREDENTIAL
from cacheunit_build.lint.rules.cu4_shared_text import PREFIXES_DIVERGE_EARLY
from cacheunit_build.lint.rules.cu5_project import IGNORE_COMMENT, LOOK_ALIKE, UNREACHABLE_TEMPLATE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.domain.settings import Settings

_OF_SEVERAL_PREFIXES = frozenset(
    rule.code for rule in (PREFIXES_DIVERGE_EARLY, UNREACHABLE_TEMPLATE, LOOK_ALIKE, IGNORE_COMMENT)
)
"""Rules that need the whole project, of which a build may compile a part."""

ALWAYS = (CREDENTIAL.code,)
"""The codes of the rules that are in the gate of every project."""

GateRole = Literal["always", "optional", "never"]
"""Whether a rule is in the gate of every project, in that of projects whose settings add it, or cannot be in it."""


def gate_role(code: str) -> GateRole:
    """Returns what the rule of a code can be in the gate."""
    return "always" if code in ALWAYS else "never" if code in _OF_SEVERAL_PREFIXES else "optional"


def gate_codes(settings: Settings) -> tuple[str, ...]:
    """Returns the codes of the rules that the settings add to the gate.

    Raises:
        CacheunitError: every word that names no rule, or one that needs the whole project.
    """
    faults = tuple(_gate_faults(settings))
    if faults:
        raise CacheunitError(*faults)
    prefixes = tuple(filter(None, map(code_prefix, settings.gate)))
    return tuple(code for code in RULES if code.startswith(prefixes))


def _gate_faults(settings: Settings) -> Iterator[Fault]:
    """Yields a fault for each word of the gate that names no rule, or one that needs the whole project."""
    for index, word in enumerate(settings.gate):
        prefix = code_prefix(word)
        if prefix is None:
            yield settings.fault(f'unknown rule "{word}"', "gate", index, hint=unknown_rule_hint(word))
            continue
        whole = sorted(code for code in _OF_SEVERAL_PREFIXES if code.startswith(prefix))
        if whole:
            message = f'"{word}" cannot be in the gate: {", ".join(whole)} needs the whole project'
            hint = f'a build compiles only what changed; run "cacheunit lint --select {word}" beside it'
            yield settings.fault(message, "gate", index, hint=hint)
