"""Makes the gate that builds and checks are handed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cacheunit_build.builder.results import Gate


def lint_gate() -> Gate:
    """Returns the gate: secrets of a certain form, and the lint rules that the settings add."""
    from cacheunit_build.adapters.system.secret_scanner import secret_scanner
    from cacheunit_build.lint.gate import LintGate

    return LintGate(secret_scanner)
