"""Formats the result of `lint` as text, JSON, Markdown, and annotations of GitHub workflows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.escaping import code_span, markdown_text
from cacheunit_build.lint.registry import RULES
from cacheunit_build.reports.formatting import markdown_table, plural
from cacheunit_build.reports.github import Level, annotation
from cacheunit_build.reports.layout import Block, Table, columns

if TYPE_CHECKING:
    from collections.abc import Callable

    from cacheunit_build.lint.results import LintResult, Violation
    from cacheunit_build.lint.rule import Severity

_LEVELS: dict[Severity, Level] = {"error": "error", "warning": "warning", "info": "notice"}


def lint_blocks(result: LintResult) -> list[Block]:
    """Returns one line for each violation, the hint for each rule, and a summary.

    A hint of a violation that differs from that of its rule is on a line of its own below it.
    """
    lines = []
    for violation in result.violations:
        lines.append(f"{_position(violation)}: {violation.severity} {violation.code}: {_message(violation)}")
        if violation.hint != RULES[violation.code].hint:
            lines.append(f"  hint: {violation.hint}")
    rules = [RULES[code] for code in sorted({violation.code for violation in result.violations})]
    hints = Table(rows=[(rule.code, rule.name, rule.hint) for rule in rules])
    return [lines, hints, [summary(result)]]


def summary(result: LintResult) -> str:
    """Returns how many violations of each severity there are: `1 error, 2 warnings, 0 info`."""
    if not result.violations:
        return "ok: no violations"
    counts = [plural(result.count("error"), "error"), plural(result.count("warning"), "warning")]
    return ", ".join([*counts, f"{result.count('info'):,} info"])


def lint_json(result: LintResult) -> dict[str, Any]:
    """Returns the JSON report."""
    return {"findings": [_violation_json(violation) for violation in result.violations]}


def _violation_json(violation: Violation) -> dict[str, Any]:
    """Returns one violation of the JSON report."""
    return {
        "code": violation.code,
        "severity": violation.severity,
        "message": violation.message,
        "prefix": violation.prefix,
        "path": violation.path,
        "line": violation.line,
        "column": violation.column,
        "hint": violation.hint,
        "prefixes": list(violation.prefixes),
    }


def lint_markdown(result: LintResult) -> str:
    """Returns a table for a comment on a pull request; empty where there are no violations."""
    if not result.violations:
        return ""
    header = ("severity", "code", "location", "message", "hint")
    rows = [
        (
            violation.severity,
            violation.code,
            code_span(_position(violation)),
            markdown_text(_message(violation)),
            markdown_text(violation.hint),
        )
        for violation in result.violations
    ]
    return f"{markdown_table([header, *rows])}\n\n{summary(result)}"


def lint_github(result: LintResult, repository_path: Callable[[str], str]) -> str:
    """Returns workflow commands that annotate the source lines.

    Args:
        result: what to show.
        repository_path: path in the project -> path in the repository.
    """
    return "\n".join(
        annotation(
            _LEVELS[violation.severity],
            *(_message(violation), "", f"hint: {violation.hint}"),
            path=repository_path(violation.path),
            line=violation.line,
            column=violation.column,
            title=f"{violation.code} {RULES[violation.code].name}",
        )
        for violation in result.violations
    )


def rules_lines() -> list[str]:
    """Returns a line for each rule: code, severity, name, meaning."""
    return columns([(rule.code, rule.severity, rule.name, rule.meaning) for rule in RULES.values()])


def rules_json() -> dict[str, Any]:
    """Returns all rules as JSON."""
    return {
        "codes": [
            {
                "code": rule.code,
                "severity": rule.severity,
                "name": rule.name,
                "meaning": rule.meaning,
                "hint": rule.hint,
            }
            for rule in RULES.values()
        ]
    }


def _position(violation: Violation) -> str:
    """Returns path, line and column, as terminals and editors link them."""
    return f"{violation.path}:{violation.line}:{violation.column}"


def _message(violation: Violation) -> str:
    """Returns the message, with the number of prefixes where several have the violation."""
    prefixes = len(violation.prefixes)
    return f"{violation.message} (in {prefixes:,} prefixes)" if prefixes > 1 else violation.message
