"""The layout of the package: layers, short modules, and what is imported to start quickly."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "cacheunit_build"
MODULES = sorted(PACKAGE.rglob("*.py"))
PACKAGES = [path for path in MODULES if path.name == "__init__.py" and path.parent != PACKAGE]

MOST_LINES = 360
THIRD_PARTY = {"jinja2", "yaml", "pydantic", "tiktoken", "tokenizers", "click", "rich", "filelock"}
NOT_FOR_HELP = {"rich", "filelock", "pydantic", "jinja2", "yaml", "cacheunit_build.compiler"}


def loaded_modules(code: str) -> set[str]:
    """Runs code in a process of its own; returns the modules it loads, and the packages that contain them."""
    program = f"import atexit, sys\natexit.register(lambda: print(*sys.modules, file=sys.stderr))\n{code}"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    names = process.stderr.split()
    return {".".join(parts[:end]) for parts in (name.split(".") for name in names) for end in range(1, len(parts) + 1)}


def relative(path: Path) -> str:
    """Returns a path relative to the package, as the id of a test."""
    return path.relative_to(PACKAGE).as_posix()


def test_importing_the_package_loads_only_the_standard_library() -> None:
    loaded = loaded_modules("import cacheunit_build")
    assert "cacheunit_build" in loaded
    assert loaded & THIRD_PARTY == set()


def test_help_loads_no_package_that_it_does_not_need() -> None:
    loaded = loaded_modules("sys.argv = ['cacheunit', '--help']\nfrom cacheunit_build.cli.entry import main\nmain()")
    assert "click" in loaded
    assert loaded & NOT_FOR_HELP == set()


def test_modules_are_short() -> None:
    lengths = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {path: lines for path, lines in lengths.items() if lines > MOST_LINES} == {}


@pytest.mark.parametrize("path", PACKAGES, ids=relative)
def test_the_init_module_of_a_package_has_only_a_docstring(path: Path) -> None:
    module = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(module)
    assert len(module.body) == 1


@pytest.mark.slow
def test_imports_follow_the_contracts_of_import_linter() -> None:
    program = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    process = subprocess.run([*program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
