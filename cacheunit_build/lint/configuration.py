"""Reads what a project's settings and the command line decide about a lint run: rules, severities and strictness."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.lint.gate_rules import gate_codes
from cacheunit_build.lint.registry import RULES, RuleSelection, code_prefix, unknown_rule_hint
from cacheunit_build.lint.rule import relative_severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.settings import Settings
    from cacheunit_build.lint.results import Violation
    from cacheunit_build.lint.rule import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class LintOptions:
    """What the command line decides.

    Attributes:
        rules: the rules to report.
        strict: whether warnings too are a failure; None leaves that to the settings.
    """

    rules: RuleSelection = RuleSelection()  # noqa: RUF009 - a frozen value
    strict: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LintConfiguration:
    """What settings and command line decide together.

    Attributes:
        rules: the rules to report.
        strict: whether warnings too are a failure.
        severities: code -> the usual severity of that rule in this project, where it is not the rule's own.
    """

    rules: RuleSelection
    strict: bool
    severities: Mapping[str, Severity]

    def with_severities(self, violations: Iterable[Violation]) -> tuple[Violation, ...]:
        """Returns violations with the severities of this project; what is milder than usual stays milder."""
        return tuple(
            replace(
                violation,
                severity=relative_severity(
                    violation.severity, RULES[violation.code].severity, self.severities[violation.code]
                ),
            )
            if violation.code in self.severities
            else violation
            for violation in violations
        )


def lint_configuration(settings: Settings, options: LintOptions) -> LintConfiguration:
    """Returns what settings and command line decide; the command line wins.

    Raises:
        CacheunitError: every word of the settings that names no rule, in the gate too.
    """
    faults = [*_unknown_rules(settings), *_repeated_severities(settings)]
    try:
        gate_codes(settings)
    except CacheunitError as error:
        faults += error.faults
    if faults:
        raise CacheunitError(*faults)
    lint = settings.lint
    select, ignore = (tuple(filter(None, map(code_prefix, words))) for words in (lint.select, lint.ignore))
    return LintConfiguration(
        rules=options.rules.over(RuleSelection(select=select, ignore=ignore)),
        strict=lint.strict if options.strict is None else options.strict,
        severities=_severities(settings),
    )


def _unknown_rules(settings: Settings) -> Iterator[Fault]:
    """Yields a fault for each word of the table `lint` that names no rule."""
    lint = settings.lint
    words: list[tuple[str, str, str | int]] = [("select", word, index) for index, word in enumerate(lint.select)]
    words += [("ignore", word, index) for index, word in enumerate(lint.ignore)]
    words += [("severity", word, word) for word in lint.severity]
    for key, word, position in words:
        if code_prefix(word) is None:
            message = f'unknown rule "{word}" in "lint.{key}"'
            yield settings.fault(message, "lint", key, position, hint=unknown_rule_hint(word))


def _repeated_severities(settings: Settings) -> Iterator[Fault]:
    """Yields a fault for each word of `severity` that names the same rule or group as one before it."""
    first: dict[str, str] = {}
    for word in settings.lint.severity:
        prefix = code_prefix(word)
        if prefix is not None and first.setdefault(prefix, word) != word:
            message = f'"{word}" and "{first[prefix]}" in "lint.severity" are the same rule'
            yield settings.fault(message, "lint", "severity", word, hint="keep one of them")


def _severities(settings: Settings) -> dict[str, Severity]:
    """Returns code -> severity; where several words name a rule, the most specific one decides."""
    by_prefix = {code_prefix(word) or "": severity for word, severity in settings.lint.severity.items()}
    return {
        code: by_prefix[max(prefixes, key=len)]
        for code in RULES
        if (prefixes := [prefix for prefix in by_prefix if code.startswith(prefix)])
    }
