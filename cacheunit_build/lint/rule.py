"""Defines what a lint rule is, and the problem that a rule reports before its location is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cacheunit_build.domain import settings

Severity = settings.Severity
"""How bad a violation is."""

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""All severities, the worst first."""


Example = Mapping[str, str]
"""The sources of a small project: path -> text.

What they do not have is as usual: `prefixes/agent.yaml` is the manifest, `templates/agent.md.j2` its system text, and
`guide.md.j2` a long template. `…` stands for the generated part of a secret, which no example shows.
"""


def template_example(text: str) -> Example:
    """Returns an example that is one template."""
    return {"templates/agent.md.j2": text}


def tool_example(text: str) -> Example:
    """Returns an example that is the JSON file of a tool."""
    return {"tools/find.json": text}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One lint rule, and its documentation; all that shows rules is made from it.

    Attributes:
        code: the stable code, `CU` and three digits; the first digit is the group.
        name: the readable name, accepted wherever the code is.
        severity: the usual severity; a check may report a problem as more or less severe.
        meaning: what the rule objects to.
        hint: what to do about it.
        why: what the violation costs or risks, in two or three sentences for somebody who does not know the rule.
        bad: an example that only this rule reports.
        good: the same example, with the violation fixed.
        sources: addresses of pages on which `why` is based.
    """

    code: str
    name: str
    severity: Severity
    meaning: str
    hint: str
    why: str = field(compare=False)
    bad: Example = field(compare=False)
    good: Example = field(compare=False)
    sources: tuple[str, ...] = field(default=(), compare=False)

    def problem(self, message: str, *, severity: Severity | None = None, hint: str | None = None) -> Problem:
        """Returns a problem of this rule, with the rule's own severity and hint where none is passed."""
        return Problem(rule=self, severity=severity or self.severity, message=message, hint=hint or self.hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What a rule objects to, before its location in the sources is known.

    Attributes:
        rule: the rule that objects.
        severity: how bad it is here.
        message: what is wrong, without a location.
        hint: what to do about it.
    """

    rule: Rule
    severity: Severity
    message: str
    hint: str


def milder(severity: Severity) -> Severity:
    """Returns the next lower severity; `info` stays `info`."""
    return SEVERITIES[min(SEVERITIES.index(severity) + 1, len(SEVERITIES) - 1)]


def relative_severity(severity: Severity, usual: Severity, new: Severity) -> Severity:
    """Returns a severity that differs from `new` by as many steps as `severity` does from `usual`.

    | severity | usual   | new     | result  |
    | -------- | ------- | ------- | ------- |
    | warning  | warning | error   | error   |
    | info     | warning | error   | warning |
    | error    | warning | info    | warning |
    | info     | warning | info    | info    |
    """
    index = SEVERITIES.index(severity) - SEVERITIES.index(usual) + SEVERITIES.index(new)
    return SEVERITIES[min(max(index, 0), len(SEVERITIES) - 1)]
