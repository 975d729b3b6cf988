"""The short way in says what the whole command line says."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from test_build_record import age_sources

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Project

START = "import sys; from cacheunit_build.cli.entry import main; main_ = main; sys.argv[0] = 'cacheunit'; main_()"


def started(project: Project, *arguments: str, code: str = START) -> tuple[int, str, str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=False, env=environment)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def shop(copied: Callable[[str], Project]) -> Project:
    project = copied("shared-partial")
    project.built()
    return project


@pytest.mark.parametrize("command", ["build", "check"])
def test_what_the_short_way_says_is_what_the_whole_command_line_says(shop: Project, command: str) -> None:
    whole = shop.run(command)
    assert started(shop, command) == (whole.code, whole.out, whole.err)


@pytest.mark.parametrize("command", ["build", "check"])
def test_the_short_way_loads_nothing_heavy(shop: Project, command: str) -> None:
    age_sources(shop)
    code = (
        "import sys\ntry:\n    from cacheunit_build.cli.entry import main\n    main()\nfinally:\n"
        "    print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    loaded = set(started(shop, command, code=code)[2].split())
    assert (
        loaded
        & {
            "click",
            "dataclasses",
            "typing",
            "pathlib",
            "jinja2",
            "yaml",
            "pydantic",
            "tiktoken",
            "tokenizers",
            "rich",
            "watchdog",
        }
        == set()
    )


@pytest.mark.slow
def test_where_there_is_something_to_do_the_whole_command_line_does_it(shop: Project) -> None:
    path = next(shop.path("templates").rglob("*.j2"))
    path.write_bytes(path.read_bytes() + b"More.\n")
    assert started(shop, "check")[0] == 1
    code, out, _ = started(shop, "build")
    assert (code, "built" in out) == (0, True)
    assert started(shop, "check")[0] == 0
    assert started(shop, "build", "--format", "json")[0] == 0
