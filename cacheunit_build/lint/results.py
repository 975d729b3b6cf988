"""Defines the results of a lint run: violations with their locations in the sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cacheunit_build.lint.rule import Problem, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A place in a source file.

    Attributes:
        path: the file, relative to the project root.
        line: counts from 1.
        column: counts characters from 1; 1 also where the line does not contain the text literally.
    """

    path: str
    line: int
    column: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One problem at one location in the sources.

    Attributes:
        code: the code of the rule.
        severity: how bad it is here.
        message: what is wrong.
        prefixes: the prefixes or variants that have it; empty where it concerns the whole project.
        path: the file, relative to the project root.
        line: counts from 1.
        column: counts from 1.
        hint: what to do about it.
        subject: what the rule objects to. Violations of one rule at one location with equal subjects are one.
        variants: `prefixes` with each variant by its own name.
        target: the target that it is about; None where it is about a text.
    """

    code: str
    severity: Severity
    message: str
    prefixes: tuple[str, ...]
    path: str
    line: int
    column: int
    hint: str
    subject: str = ""
    variants: tuple[str, ...] = ()
    target: str | None = None

    @classmethod
    def of(
        cls,
        problem: Problem,
        location: Location,
        prefix: str | None = None,
        subject: str = "",
        *,
        target: str | None = None,
    ) -> Violation:
        """Returns the violation for a problem at a location.

        Its subject is that which is passed, or else the target, or else the message.
        """
        return cls(
            code=problem.rule.code,
            severity=problem.severity,
            message=problem.message,
            prefixes=() if prefix is None else (prefix,),
            path=location.path,
            line=location.line,
            column=location.column,
            hint=problem.hint,
            subject=subject or target or problem.message,
            target=target,
        )

    @property
    def location(self) -> Location:
        """Path, line and column as one value."""
        return Location(path=self.path, line=self.line, column=self.column)

    @property
    def prefix(self) -> str | None:
        """The first prefix that has it; None for a violation of the whole project."""
        return self.prefixes[0] if self.prefixes else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LintResult:
    """The result of a lint run.

    Attributes:
        violations: in the order of their locations.
        notes: checks that were skipped, one sentence each.
        strict: whether warnings too are a failure.
    """

    violations: tuple[Violation, ...]
    notes: tuple[str, ...] = ()
    strict: bool = False

    @property
    def ok(self) -> bool:
        """Whether no violation is an error, or a warning where that is a failure too."""
        failures = ("error", "warning") if self.strict else ("error",)
        return all(violation.severity not in failures for violation in self.violations)

    def count(self, severity: Severity) -> int:
        """Returns the number of violations with this severity."""
        return sum(violation.severity == severity for violation in self.violations)
