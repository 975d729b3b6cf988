"""Findings -> SARIF 2.1.0, for code scanning."""

from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.lint.registry import CODES
from cacheunit_build.reports.lint import visible

if TYPE_CHECKING:
    from cacheunit_build.lint.registry import Code
    from cacheunit_build.lint.results import LintResult, Severity, Violation

_LEVELS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}
_ROOT = "SRCROOT"


def linted_sarif(linted: LintResult, folder: str, version: str) -> dict[str, Any]:
    """One run; `folder` is the project's in the repository, which is the base of all places."""
    used = sorted({finding.code for finding in linted.findings})
    driver = {
        "name": "cacheunit",
        "semanticVersion": version,
        "rules": [_rule(CODES[code]) for code in used],
    }
    results = [_result(finding, used.index(finding.code), folder) for finding in linted.findings]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}


def _rule(code: Code) -> dict[str, Any]:
    return {
        "id": code.code,
        "name": code.name,
        "shortDescription": {"text": code.meaning},
        "help": {"text": code.hint},
        "defaultConfiguration": {"level": _LEVELS[code.severity]},
    }


def _result(finding: Violation, index: int, folder: str) -> dict[str, Any]:
    path = f"{folder}/{finding.path}" if folder else finding.path
    place = {"uri": urllib.parse.quote(path), "uriBaseId": _ROOT}
    region = {"startLine": finding.line, "startColumn": finding.column}
    # Lines move; a message at a path is what the same finding is known by.
    known = fingerprint(f"{finding.code}\n{finding.path}\n{finding.message}".encode())
    return {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{visible(finding.message)}. {finding.hint}"},
        "locations": [{"physicalLocation": {"artifactLocation": place, "region": region}}],
        "partialFingerprints": {"codePathMessage/v1": known},
        "properties": {"prefixes": list(finding.prefixes)},
    }
