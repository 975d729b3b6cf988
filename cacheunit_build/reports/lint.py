"""Findings -> text, Markdown, annotations of GitHub, and the JSON report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cacheunit_build.lint.registry import CODES
from cacheunit_build.reports.github import Level, annotation
from cacheunit_build.reports.table import columns, markdown_table
from cacheunit_build.reports.text import escaped

if TYPE_CHECKING:
    from collections.abc import Callable

    from cacheunit_build.lint.results import LintResult, Severity, Violation

_COLOURS: dict[Severity, str] = {"error": "31;1", "warning": "33;1", "info": "36"}
_LEVELS: dict[Severity, Level] = {"error": "error", "warning": "warning", "info": "notice"}


def linted_text(linted: LintResult, *, colour: bool) -> str:
    """One line a finding, what to do about each code, and a summary."""
    lines = []
    for finding in linted.findings:
        word = f"\x1b[{_COLOURS[finding.severity]}m{finding.severity}\x1b[0m" if colour else finding.severity
        lines.append(f"{_place(finding)}: {word} {finding.code}: {_told(finding)}")
        if finding.hint != CODES[finding.code].hint:
            lines.append(f"  hint: {finding.hint}")
    legend = [(code, CODES[code].name, CODES[code].hint) for code in sorted({f.code for f in linted.findings})]
    return "\n".join([*lines, "", columns(legend), "", summary(linted)] if lines else [summary(linted)])


def summary(linted: LintResult) -> str:
    """How many findings of each severity."""
    if not linted.findings:
        return "ok: nothing was found"
    counts = [_plural(linted.count("error"), "error"), _plural(linted.count("warning"), "warning")]
    return ", ".join([*counts, f"{linted.count('info'):,} info"])


def linted_data(linted: LintResult) -> dict[str, Any]:
    """The report of `lint`."""
    return {"findings": [_data(finding) for finding in linted.findings]}


def _data(finding: Violation) -> dict[str, Any]:
    return {
        "code": finding.code,
        "severity": finding.severity,
        "message": finding.message,
        "prefix": finding.prefix,
        "path": finding.path,
        "line": finding.line,
        "column": finding.column,
        "hint": finding.hint,
        "prefixes": list(finding.prefixes),
    }


def linted_markdown(linted: LintResult) -> str:
    """A table for a comment on a pull request; empty where nothing was found."""
    if not linted.findings:
        return ""
    rows = [(f.severity, f.code, _code_span(_place(f)), _escaped(_told(f)), _escaped(f.hint)) for f in linted.findings]
    head = ("severity", "code", "place", "finding", "hint")
    return f"{markdown_table([head, *rows])}\n\n{summary(linted)}"


def linted_github(linted: LintResult, locate: Callable[[str], str]) -> str:
    """Workflow commands that annotate the source lines; `locate` gives a path in the repository."""
    return "\n".join(
        annotation(
            _LEVELS[finding.severity],
            "\n\nhint: ".join((_told(finding), finding.hint)),
            path=locate(finding.path),
            line=finding.line,
            column=finding.column,
            title=f"{finding.code} {CODES[finding.code].name}",
        )
        for finding in linted.findings
    )


def codes_text() -> str:
    """Every code with its severity, name and meaning."""
    return columns([(code.code, code.severity, code.name, code.meaning) for code in CODES.values()])


def codes_data() -> dict[str, Any]:
    """Every code, as JSON."""
    keys = ("code", "severity", "name", "meaning", "hint")
    return {"codes": [{key: getattr(code, key) for key in keys} for code in CODES.values()]}


def _place(finding: Violation) -> str:
    return f"{finding.path}:{finding.line}:{finding.column}"


def _told(finding: Violation) -> str:
    """The message, with the number of further prefixes that have it."""
    message = visible(finding.message)
    others = len(finding.prefixes) - 1
    return f"{message} (in {_plural(others + 1, 'prefix', 'prefixes')})" if others > 0 else message


def visible(text: str) -> str:
    """A text on one line, with what is not seen spelt out."""
    return "".join(map(escaped, text))


def _code_span(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}"


def _escaped(text: str) -> str:
    """Text as Markdown shows it; what would be a mark, a mention or HTML is none."""
    special = {c: f"\\{c}" for c in "\\`*_{}[]<>#~"} | {"@": "@<!-- -->", "&": "&amp;"}
    return "".join(special.get(c, c) for c in text)


def _plural(count: int, noun: str, several: str | None = None) -> str:
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"
