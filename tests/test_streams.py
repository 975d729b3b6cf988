"""Standard streams that are closed or full: one line where that can still be written, exit code 2, and no traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Project

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")

FULL = b"error: cannot write to standard output: No space left on device\n"
CLOSED = b"error: cannot write to standard output: Bad file descriptor\n"


def run_in_shell(folder: Path, command: str, redirections: str) -> tuple[int, bytes]:
    """Runs the program in a shell with redirections; returns its exit code, and what it wrote to standard error."""
    script = f'"$0" -m cacheunit_build {command} {redirections}'
    ran = subprocess.run(["sh", "-c", script, sys.executable], cwd=folder, capture_output=True, check=False)
    return ran.returncode, ran.stderr


@pytest.mark.parametrize(
    ("command", "redirections", "expected"),
    [
        ("build", ">/dev/full", (2, FULL)),  # the fast path: nothing is to be built
        ("build", ">&-", (2, CLOSED)),
        ("check", ">/dev/full 2>&-", (2, b"")),
        ("check", "<&- >&- 2>&-", (2, b"")),
        ("check", "2>&-", (0, b"")),  # it has nothing to say there
        ("--help", ">/dev/full", (2, FULL)),
        ("schema", ">&-", (2, CLOSED)),
        ("nothing", "2>/dev/full", (2, b"")),
        ("nothing", "2>&-", (2, b"")),
        ("clean --help", "| true", (0, b"")),
        ("count -", "<&-", (2, b"error: cannot read standard input: Bad file descriptor\n")),
    ],
)
def test_a_stream_that_is_closed_or_full_ends_with_exit_code_2(
    project: Project, command: str, redirections: str, expected: tuple[int, bytes]
) -> None:
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": "One.\n"})
    project.build()
    assert run_in_shell(project.root, command, redirections) == expected


def test_a_remark_that_cannot_be_written_ends_with_exit_code_2(project: Project) -> None:
    assert run_in_shell(project.root, "init", "2>/dev/full") == (2, b"")
    project.build()


def test_a_file_never_gets_the_number_of_a_closed_stream(project: Project) -> None:
    assert run_in_shell(project.root, "init", "<&- >&- 2>&-")[0] == 2
    assert b"created" not in b"".join(project.files().values())
    project.build()


def test_a_working_folder_that_was_removed_is_an_error(tmp_path: Path) -> None:
    script = 'mkdir gone; cd gone; rmdir ../gone; "$0" -m cacheunit_build build'
    ran = subprocess.run(["sh", "-c", script, sys.executable], cwd=tmp_path, capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (2, b'error: cannot open the folder ".": No such file or directory\n')


def test_a_traceback_is_shown_escaped(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        message = "\x1b[2J\n::error::x\n##[add-mask]x"
        raise RuntimeError(message)

    monkeypatch.setattr("cacheunit_build.cli.commands.schema.print_json", fail)
    ran = project.run("schema")
    assert (ran.code, "RuntimeError: \\x1b[2J\n\\x3a:error::x\n#\\x23[add-mask]x\n" in ran.err) == (70, True)
