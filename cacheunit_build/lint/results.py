"""What lint says of one place in a source, as a frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""From the worst on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One thing that would break a cache or leak.

    `prefixes` are the manifests, or the variants, that it was found in, none where it is about the whole project;
    `path` is relative to the project root; `line` and `column` count from 1.
    """

    code: str
    severity: Severity
    message: str
    prefixes: tuple[str, ...]
    path: str
    line: int
    column: int
    hint: str

    @property
    def prefix(self) -> str | None:
        """The first prefix that has it."""
        return self.prefixes[0] if self.prefixes else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LintResult:
    """What `lint` found, in the order of places; `notes` say what was not looked at."""

    findings: tuple[Violation, ...]
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing that was found is an error."""
        return all(finding.severity != "error" for finding in self.findings)

    def count(self, severity: Severity) -> int:
        """How many findings are that severe."""
        return sum(finding.severity == severity for finding in self.findings)
