"""The gate in front of a build: what some lint rules find in compiled artifacts stops them from being frozen.

The rules are imported only where the settings name some, or there is a secret: that takes longer than the search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.domain.errors import CacheunitError, Fault
from cacheunit_build.lint.certain_secrets import SecretSearch

if TYPE_CHECKING:
    from collections.abc import Callable

    from cacheunit_build.compiler.project import CompiledProject
    from cacheunit_build.domain.protocols import CompileInputs, SecretScanner
    from cacheunit_build.domain.settings import Settings
    from cacheunit_build.lint.results import Violation


class LintGate:
    """Finds what must not be frozen: secrets of a certain form, and what the rules find that the settings name.

    Args:
        load_scanner: returns the scanner of the extra `secrets`; None where that is not installed.
    """

    def __init__(self, load_scanner: Callable[[], SecretScanner | None]) -> None:
        self._load_scanner = load_scanner

    def __call__(self, inputs: CompileInputs, compiled: CompiledProject) -> tuple[Fault, ...]:
        """Returns a fault for each violation in the artifacts that were compiled.

        Raises:
            CacheunitError: the settings name a rule that does not exist, or that cannot be checked.
        """
        search = SecretSearch()
        if not compiled.settings.gate and not any(
            search.finds_in(item, compiled.targets[item.target]) for item in compiled.artifacts
        ):
            return ()
        return self._faults_by_rules(inputs, compiled)

    def _faults_by_rules(self, inputs: CompileInputs, compiled: CompiledProject) -> tuple[Fault, ...]:
        """Returns a fault for each violation of the rules in the gate."""
        from cacheunit_build.lint.gate_rules import ALWAYS, gate_codes
        from cacheunit_build.lint.linter import lint_compiled
        from cacheunit_build.lint.registry import RuleSelection
        from cacheunit_build.lint.rules.cu2_leaks import SECRET

        codes = gate_codes(compiled.settings)
        scanner = self._scanner(compiled.settings, SECRET.code) if SECRET.code in codes else None
        violations = lint_compiled(inputs, compiled, RuleSelection(select=(*ALWAYS, *codes)), scanner)
        return tuple(_fault(violation) for violation in violations if _stops(violation))

    def _scanner(self, settings: Settings, code: str) -> SecretScanner:
        """Returns the scanner of the extra, which the rule with that code needs.

        Raises:
            CacheunitError: it is not installed.
        """
        scanner = self._load_scanner()
        if scanner is None:
            hint = 'pip install "cacheunit-build[secrets]"'
            raise CacheunitError(settings.fault(f"the gate has {code}, which needs an extra", "gate", hint=hint))
        return scanner


def _stops(violation: Violation) -> bool:
    """Returns whether a violation is as severe as its rule usually is; milder ones are examples, or uncertain."""
    from cacheunit_build.lint.registry import RULES
    from cacheunit_build.lint.rule import SEVERITIES

    return SEVERITIES.index(violation.severity) <= SEVERITIES.index(RULES[violation.code].severity)


def _fault(violation: Violation) -> Fault:
    message = f"{violation.code}: {violation.message}"
    return Fault(message=message, path=violation.path, line=violation.line, hint=violation.hint)
