"""Formats the result of `lint` as text, JSON, Markdown, and annotations of GitHub workflows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.escaping import code_span, markdown_text
from cacheunit_build.lint.registry import RULES
from cacheunit_build.lint.replacements import FIXABLE
from cacheunit_build.reports.formatting import markdown_table, plural
from cacheunit_build.reports.github import Level, annotation
from cacheunit_build.reports.layout import Block, Table
from cacheunit_build.reports.lint_rows import Row, first_rows, folded_rows, prefixes_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cacheunit_build.lint.results import LintResult, Violation
    from cacheunit_build.lint.rule import Severity

_LEVELS: dict[Severity, Level] = {"error": "error", "warning": "warning", "info": "notice"}


Reasons = Mapping[tuple[str, str, int], Sequence[str]]
"""Code, path and line of violations -> why `--fix` left them alone."""


def lint_blocks(result: LintResult, *, verbose: bool = False, reasons: Reasons | None = None) -> list[Block]:
    """Returns one line for each cause, the hint for each rule, and a summary.

    Args:
        result: what to show.
        verbose: whether to show every violation on a line of its own.
        reasons: why violations were not fixed; None where no fix was asked for.
    """
    rows = [Row(violations=(item,)) for item in result.violations] if verbose else folded_rows(result.violations)
    hints = _table_hints(result.violations)
    shown: set[str] = set()
    lines: list[str] = []
    for row in rows if verbose else first_rows(rows):
        lines.append(str(row))
        for note in _notes(row, hints, reasons or {}) if isinstance(row, Row) else ():
            if note not in shown or verbose:
                lines.append(f"  {note}")
            shown.add(note)
    table = Table(rows=[(code, RULES[code].name, hint) for code, hint in hints.items()])
    return [lines, table, [summary(result), *(_fixable(result) if reasons is None else ())]]


def _fixable(result: LintResult) -> list[str]:
    """Returns a line that says for which violations `--fix` may help; none where it cannot."""
    codes = sorted({violation.code for violation in result.violations} & FIXABLE)
    return [f'"cacheunit lint --fix" fixes what is certain of {", ".join(codes)}'] if codes else []


def _notes(row: Row, hints: Mapping[str, str], reasons: Reasons) -> list[str]:
    """Returns the hints of a row that the table below does not have, and why it was not fixed, each once."""
    violations = row.violations
    own = [f"hint: {item.hint}" for item in violations if item.hint != hints.get(item.code)]
    left = [
        f"not fixed: {reason}" for item in violations for reason in reasons.get((item.code, item.path, item.line), ())
    ]
    return list(dict.fromkeys([*own, *left]))


def _table_hints(violations: Iterable[Violation]) -> dict[str, str]:
    """Returns code -> the hint that is shown once, below all violations: the only one of the rule, or its usual one."""
    hints: dict[str, set[str]] = {}
    for violation in violations:
        hints.setdefault(violation.code, set()).add(violation.hint)
    return {
        code: hint
        for code, own in sorted(hints.items())
        if (hint := next(iter(own)) if len(own) == 1 else RULES[code].hint) in own
    }


def summary(result: LintResult) -> str:
    """Returns how many violations of each severity there are: `1 error, 2 warnings, 0 info`.

    Where only warnings make the run fail, that is said.
    """
    if not result.violations:
        return "ok: no violations"
    counts = [plural(result.count("error"), "error"), plural(result.count("warning"), "warning")]
    fail = "; warnings fail (strict)" if not result.ok and not result.count("error") else ""
    return ", ".join([*counts, f"{result.count('info'):,} info"]) + fail


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


def _position(violation: Violation) -> str:
    """Returns path, line and column, as terminals and editors link them."""
    return f"{violation.path}:{violation.line}:{violation.column}"


def _message(violation: Violation) -> str:
    """Returns the message, with the folded names of the prefixes where several have the violation."""
    return f"{violation.message}{prefixes_text([violation])}"
