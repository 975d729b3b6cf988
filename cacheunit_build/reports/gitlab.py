"""Formats results as Code Quality reports, which GitLab shows in merge requests.

A report is a JSON array of issues with `description`, `check_name`, `fingerprint`, `severity`, `location.path` and
`location.lines.begin`; GitLab ignores everything else. Source:
https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format (documented).
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cacheunit_build.domain.escaping import one_line
from cacheunit_build.domain.file_names import LOCK_FILE, readable_name
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.reports.check import deviation_text, drift_place, drift_sentence
from cacheunit_build.reports.diff_places import cause_sentence, differences_by_cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from cacheunit_build.builder.results import CheckResult, Proof
    from cacheunit_build.diff.results import DiffResult
    from cacheunit_build.domain.drift import Drift
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.lint.results import LintResult
    from cacheunit_build.lint.rule import Severity

    RepositoryPath = Callable[[str], str]

Level = Literal["info", "minor", "major", "critical", "blocker"]
"""The severities of GitLab, the mildest first."""

_LEVELS: dict[Severity, Level] = {"error": "critical", "warning": "minor", "info": "info"}
_NUMBER = re.compile(r"[0-9][0-9,]*")
"""A number in a message, such as a count of tokens, which may change while the issue stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Issue:
    """One issue of a report.

    Attributes:
        check: the name of the check that reports it.
        description: what is wrong, in one line.
        level: how severe it is.
        path: the file, relative to the root of the repository.
        line: counts from 1.
        subject: what the issue is about. GitLab takes an issue with another subject for a new one.
    """

    check: str
    description: str
    level: Level
    path: str
    line: int
    subject: str


def lint_gitlab(result: LintResult, repository_path: RepositoryPath) -> list[dict[str, Any]]:
    """Returns an issue for each violation.

    Args:
        result: what to show.
        repository_path: path in the project -> path in the repository.
    """
    return _report(
        _Issue(
            check=violation.code,
            description=f"{violation.message}. {violation.hint}",
            level=_LEVELS[violation.severity],
            path=repository_path(violation.path),
            line=violation.line,
            subject=_NUMBER.sub("0", violation.message),
        )
        for violation in result.violations
    )


def check_gitlab(result: CheckResult, repository_path: RepositoryPath) -> list[dict[str, Any]]:
    """Returns an issue for everything that fails a check; what has no file of its own is shown at the lock.

    Args:
        result: what to show.
        repository_path: path in the project -> path in the repository.
    """
    return _report(
        [
            *_fault_issues(result.faults, repository_path),
            *_drift_issues(result.drift, repository_path),
            *_estimate_issues(result, repository_path(LOCK_FILE)),
            *_deviation_issues(result.proof, repository_path),
        ]
    )


def faults_gitlab(faults: Iterable[Fault], repository_path: RepositoryPath) -> list[dict[str, Any]]:
    """Returns an issue for each fault of the input; one without a file is shown at the lock."""
    return _report(_fault_issues(faults, repository_path))


def diff_gitlab(diff: DiffResult, repository_path: RepositoryPath) -> list[dict[str, Any]]:
    """Returns an issue for each cause; one whose source line is not known is shown at the lock.

    Args:
        diff: the result.
        repository_path: path in the project -> path in the repository.
    """
    return _report(
        _Issue(
            check=f"prompt-cache-{items[0].kind}",
            description=cause_sentence(items),
            level="info",
            path=repository_path(LOCK_FILE if place is None else place.path),
            line=1 if place is None else place.line,
            subject="\n".join(sorted({item.prefix.partition("@")[0] for item in items})),
        )
        for place, items in differences_by_cause(diff)
    )


def _fault_issues(faults: Iterable[Fault], repository_path: RepositoryPath) -> Iterator[_Issue]:
    for fault in faults:
        yield _Issue(
            check="input",
            description=f"{fault.message}. {fault.hint}" if fault.hint else fault.message,
            level="blocker",
            path=repository_path(fault.path or LOCK_FILE),
            line=fault.line or 1,
            subject=fault.message,
        )


def _drift_issues(drift: Iterable[Drift], repository_path: RepositoryPath) -> Iterator[_Issue]:
    for item in drift:
        yield _Issue(
            check=f"lock-{item.kind.replace(' ', '-')}",
            description=f"does not match the lock: {drift_sentence(item)}",
            level="major",
            path=repository_path(drift_place(item)),
            line=1,
            subject=f"{item.prefix}\n{item.target}\n{item.path}",
        )


def _estimate_issues(result: CheckResult, lock: str) -> Iterator[_Issue]:
    for item in result.estimates if result.counts_required else ():
        yield _Issue(
            check="estimate",
            description=f"the count is an estimate: {readable_name(item.prefix)} for {item.target}",
            level="major",
            path=lock,
            line=1,
            subject=f"{item.prefix}\n{item.target}",
        )


def _deviation_issues(proof: Proof | None, repository_path: RepositoryPath) -> Iterator[_Issue]:
    for item in () if proof is None else proof.deviations:
        yield _Issue(
            check="rebuild",
            description=f"{deviation_text(item)} (with {item.conditions})",
            level="critical",
            path=repository_path(item.source.path if item.source else item.path or LOCK_FILE),
            line=item.source.line if item.source else 1,
            subject=item.conditions,
        )


def _report(issues: Iterable[_Issue]) -> list[dict[str, Any]]:
    """Returns issues as JSON values. The fingerprint of equal issues in one file has their number, so that all show."""
    seen: Counter[tuple[str, str, str]] = Counter()
    report = []
    for issue in issues:
        identity = issue.check, issue.path, issue.subject
        text = "\n".join((*identity, str(seen[identity])))
        seen[identity] += 1
        report.append(
            {
                "description": one_line(issue.description),
                "check_name": issue.check,
                "fingerprint": fingerprint(text.encode("utf-8", "surrogatepass")),
                "severity": issue.level,
                "location": {"path": issue.path, "lines": {"begin": issue.line}},
            }
        )
    return report
