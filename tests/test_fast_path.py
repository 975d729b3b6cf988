"""The fast path of an unchanged `build` or `check` prints what the full command line prints, and loads little."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from test_build_cache import age_sources

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Project

HEAVY = {
    *("click", "dataclasses", "typing", "pathlib"),
    *("jinja2", "yaml", "pydantic", "tiktoken", "tokenizers", "rich", "watchdog"),
}
PROGRAM = "import sys; from cacheunit_build.cli.entry import main; main_ = main; sys.argv[0] = 'cacheunit'; main_()"


def run_program(project: Project, *arguments: str, code: str = PROGRAM) -> tuple[int, str, str]:
    """Runs the program in a process of its own; returns exit code, standard output and standard error."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, *arguments]
    process = subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=False, env=environment)
    return process.returncode, process.stdout, process.stderr


@pytest.fixture
def shop(copy_project: Callable[[str], Project]) -> Project:
    """Returns the project "shared-partial", built."""
    project = copy_project("shared-partial")
    project.build()
    return project


@pytest.mark.parametrize("command", ["build", "check"])
def test_the_fast_path_prints_what_the_full_command_line_prints(shop: Project, command: str) -> None:
    full = shop.run(command)
    assert run_program(shop, command) == (full.code, full.out, full.err)


def test_the_last_of_several_folders_counts(shop: Project) -> None:
    inner = shop.root / "inner"
    shutil.copytree(shop.root, inner)
    assert shop.cacheunit("-C", inner, "build").code == 0
    shop.path("cacheunit.lock").unlink()
    assert run_program(shop, "-C", ".", "-C", "inner", "check")[0] == 0
    assert run_program(shop, "-C", "inner", "-C", ".", "check")[0] == 1


@pytest.mark.parametrize("command", ["build", "check"])
def test_the_fast_path_loads_no_heavy_package(shop: Project, command: str) -> None:
    age_sources(shop)
    code = (
        "import sys\ntry:\n    from cacheunit_build.cli.entry import main\n    main()\nfinally:\n"
        "    print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    loaded = set(run_program(shop, command, code=code)[2].split())
    assert loaded & HEAVY == set()


@pytest.mark.slow
def test_changed_sources_are_left_to_the_full_command_line(shop: Project) -> None:
    path = next(shop.path("templates").rglob("*.j2"))
    path.write_bytes(path.read_bytes() + b"More.\n")
    assert run_program(shop, "check")[0] == 1
    code, out, _ = run_program(shop, "build")
    assert (code, "built" in out) == (0, True)
    assert run_program(shop, "check")[0] == 0
    assert run_program(shop, "build", "--format", "json")[0] == 0
