"""Formats the result of `lint` as SARIF 2.1.0, for code scanning."""

from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.escaping import markdown_text, one_line
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.lint.registry import RULES
from cacheunit_build.reports.lint_rules import rule_markdown, rule_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.lint.results import LintResult, Violation
    from cacheunit_build.lint.rule import Rule, Severity

_LEVELS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}
_ROOT = "SRCROOT"
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def lint_sarif(result: LintResult, folder: str, version: str) -> dict[str, Any]:
    """Returns a SARIF log with one run.

    Args:
        result: what to show.
        folder: the folder of the project in its repository, empty for the root; paths begin with it.
        version: the version of cacheunit.
    """
    codes = sorted({violation.code for violation in result.violations})
    driver = {
        "name": "cacheunit",
        "semanticVersion": version,
        "rules": [_rule_data(RULES[code]) for code in codes],
    }
    results = [_result_data(violation, codes.index(violation.code), folder) for violation in result.violations]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def faults_sarif(faults: Iterable[Fault], folder: str, version: str) -> dict[str, Any]:
    """Returns a SARIF log with one run that could not be finished, and the faults of the input as notifications.

    For the arguments, see `lint_sarif`.
    """
    notifications = []
    for fault in faults:
        notification: dict[str, Any] = {"level": "error", "message": {"text": one_line(fault.message)}}
        if fault.path is not None:
            location: dict[str, Any] = {"artifactLocation": _artifact_location(fault.path, folder)}
            location |= {} if fault.line is None else {"region": {"startLine": fault.line}}
            notification["locations"] = [{"physicalLocation": location}]
        notifications.append(notification)
    invocation = {"executionSuccessful": False, "toolExecutionNotifications": notifications}
    driver = {"name": "cacheunit", "semanticVersion": version}
    run = {"tool": {"driver": driver}, "invocations": [invocation], "results": []}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _artifact_location(path: str, folder: str) -> dict[str, str]:
    """Returns where a file is, relative to the root of the repository."""
    full = f"{folder}/{path}" if folder else path
    return {"uri": urllib.parse.quote(full, errors="surrogatepass"), "uriBaseId": _ROOT}


def _rule_data(rule: Rule) -> dict[str, Any]:
    """Returns a rule as a SARIF `reportingDescriptor`; without `helpUri`, since its page is in `help`."""
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.meaning},
        "fullDescription": {"text": rule.why},
        "help": {"text": rule_text(rule), "markdown": rule_markdown(rule)},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _result_data(violation: Violation, rule_index: int, folder: str) -> dict[str, Any]:
    """Returns a violation as a SARIF `result`; `rule_index` is the position of its rule in the driver's list."""
    artifact_location = _artifact_location(violation.path, folder)
    region = {"startLine": violation.line, "startColumn": violation.column}
    # Code scanning recognizes a violation by this value from one commit to the next: no line number, since lines move.
    identity = fingerprint(f"{violation.code}\n{violation.path}\n{violation.message}".encode("utf-8", "surrogatepass"))
    return {
        "ruleId": violation.code,
        "ruleIndex": rule_index,
        "level": _LEVELS[violation.severity],
        "message": _message_data(f"{violation.message}. {violation.hint}"),
        "locations": [{"physicalLocation": {"artifactLocation": artifact_location, "region": region}}],
        "partialFingerprints": {"codePathMessage/v1": identity},
        "properties": {"prefixes": list(violation.prefixes)},
    }


def _message_data(text: str) -> dict[str, str]:
    """Returns a SARIF `message` for viewers of plain text, where `[…](…)` is a link too, and for those of Markdown."""
    return {"text": one_line(text).replace("](", "]\\("), "markdown": markdown_text(text)}
