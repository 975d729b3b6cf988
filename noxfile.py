"""Every check of this repository as one session each; `.ci/run` and the workflows run these.

Sessions run in the environment that nox is installed in: `pip install -e '.[test]'` has everything they need.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "types", "imports", "prefixes", "tests"]

BIN = Path(sys.executable).parent
PYTEST = ("pytest", "-n", "auto", "--dist", "loadgroup")


def run(session: nox.Session, program: str, *arguments: str) -> None:
    """Runs a program of this environment."""
    session.run(str(BIN / program), *arguments)


@nox.session
def tests(session: nox.Session) -> None:
    """Run all tests, in parallel; arguments after "--" go to pytest."""
    run(session, *PYTEST, *session.posargs)


@nox.session
def quick(session: nox.Session) -> None:
    """Run the tests that take less than a second."""
    run(session, *PYTEST, "-m", "not slow", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check the style and the format of the code."""
    run(session, "ruff", "check", ".")
    run(session, "ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Check the types of the code, tests and benchmarks included."""
    run(session, "mypy")


@nox.session
def imports(session: nox.Session) -> None:
    """Check that packages import only what the contracts in pyproject.toml allow."""
    run(session, "lint-imports")


@nox.session
def prefixes(session: nox.Session) -> None:
    """Check this repository's own prefixes: they match the lock, also elsewhere, and lint finds no error."""
    run(session, "cacheunit", "build", "--locked")
    run(session, "cacheunit", "check", "--prove")
    run(session, "cacheunit", "lint")
    session.run("git", "diff", "--exit-code", "--", "build", "cacheunit.lock", external=True)
