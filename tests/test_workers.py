"""Builds in worker processes give what a build in one process gives, or one clear fault and no file."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cacheunit_build.adapters.system import worker_processes
from cacheunit_build.adapters.system.worker_processes import WorkerProcesses
from cacheunit_build.builder import chunks
from cacheunit_build.builder.build import build
from cacheunit_build.builder.chunks import BuildOptions, chunks_of
from cacheunit_build.cli.context import Context
from cacheunit_build.domain.file_names import LOCK_FILE, TEMPORARY

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from conftest import Project

    from cacheunit_build.domain.workers import Chunk, WorkerInputs

PROJECTS = Path(__file__).parent / "projects"
DRIVER = Path(__file__).with_name("worker_driver.py")
PROGRAM = (sys.executable, "-c", "from cacheunit_build.cli.entry import main; main()")
MANY = 60
ENCODER_SETTINGS = """\
targets = ["mine"]

[target.mine]
extends = "deepseek-v4"

[target.mine.frame]
encoder = "model/encode.py:encode"
"""
ENCODER = """\
import os, signal

PARENT = {parent}


def encode(messages, **options):
    text = messages[0]["content"]
    if "poison" in text and os.getpid() != PARENT:
        {action}
    return "".join(f"<{{message['role']}}>{{message['content']}}" for message in messages)
"""


def write_many(project: Project, number: int = MANY) -> None:
    """Writes a project with many prefixes; the text of the last one but four is poison to a special encoder."""
    project.write({"templates/a.md.j2": "You are {{ name }}.\n{% include 'shared.md.j2' %}"})
    project.write({"templates/shared.md.j2": "Answer in the language of the question.\n" * 10})
    for index in range(number):
        name = "poison" if index == number - 5 else f"agent {index}"
        project.write({f"prefixes/p{index:03}.yaml": f"system: a.md.j2\nvariables: {{name: {name}}}\n"})


def with_encoder(project: Project, action: str) -> None:
    """Writes many prefixes for a target whose encoder does something to its process when it meets the poison."""
    encoder = ENCODER.format(parent=os.getpid(), action=action)
    project.write({"cacheunit.toml": ENCODER_SETTINGS, "model/encode.py": encoder})
    write_many(project)


def left_behind(project: Project) -> list[str]:
    """Returns what a build that wrote nothing must not leave: artifacts, temporary files, folders and a lock."""
    paths = [*project.root.glob("build/**/*"), *project.root.rglob(f"*{TEMPORARY}"), *project.root.glob(LOCK_FILE)]
    return [path.relative_to(project.root).as_posix() for path in paths]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list to which each start of worker processes adds their number."""
    started: list[int] = []

    def start(count: int, *arguments: Any) -> Any:  # noqa: ANN401 - the executor
        started.append(count)
        return ProcessPoolExecutor(count, *arguments)

    monkeypatch.setattr(worker_processes, "ProcessPoolExecutor", start)
    return started


@pytest.mark.slow
def test_the_miniature_projects_are_built_alike_in_forked_processes() -> None:
    folders = [lock.parent.parent for lock in sorted(PROJECTS.glob("*/expected/cacheunit.lock"))]
    broken = [PROJECTS / name for name in ("good-and-bad-manifest", "template-misspelt", "manifests-link-out")]
    ran = subprocess.run([sys.executable, DRIVER, *folders, *broken], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout


@pytest.mark.slow
def test_processes_that_were_not_forked_build_the_same(
    project: Project, runs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_processes, "_can_fork", lambda: False)
    write_many(project)
    alone = project.build("--jobs", "1", "--format", "json")
    files = project.files()
    assert runs == []
    shutil.rmtree(project.path("build"))
    shutil.rmtree(project.cache)
    project.path(LOCK_FILE).unlink()
    together = project.build("--jobs", "2", "--format", "json")
    assert (runs, together.json, project.files()) == ([2], alone.json, files)
    shutil.rmtree(project.cache)
    assert project.check("--jobs", "2")["ok"]
    assert runs == [2, 2]
    assert project.run("build").out.endswith("0 built, 60 unchanged; lock unchanged\n")


def test_few_prefixes_are_built_in_this_process(project: Project, runs: list[int]) -> None:
    write_many(project, worker_processes.LEAST_MANIFESTS - 1)
    project.build("--jobs", "8")
    assert runs == []


@pytest.mark.slow
def test_a_prefix_that_kills_its_process_is_named_and_nothing_is_written(project: Project) -> None:
    with_encoder(project, "os.kill(os.getpid(), signal.SIGKILL)")
    ran = run_program(project, "build", "-j", "2")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        "error: prefixes/p055.yaml: the process that compiles it was killed, twice\n\n"
        "hint: perhaps it needs more memory than there is\n\n1 error; nothing was written\n"
    )
    assert left_behind(project) == []


@pytest.mark.slow
def test_a_process_that_is_killed_once_does_not_fail_the_build(project: Project) -> None:
    mark = project.root.parent / "killed"
    once = f"open({str(mark)!r}, 'x'); os.kill(os.getpid(), signal.SIGKILL)"
    with_encoder(project, f"if not os.path.exists({str(mark)!r}): {once}")
    ran = run_program(project, "build", "-j", "2")
    assert (ran.returncode, ran.stderr, mark.exists()) == (0, "", True)
    built = project.files("build"), project.read(LOCK_FILE)
    assert not list(project.root.rglob(f"*{TEMPORARY}"))
    shutil.rmtree(project.path("build"))
    project.path(LOCK_FILE).unlink()
    project.build("--jobs", "1")
    assert (project.files("build"), project.read(LOCK_FILE)) == built


@pytest.mark.slow
def test_an_interrupt_ends_all_processes_and_leaves_nothing(project: Project) -> None:
    with_encoder(project, "os.kill(os.getppid(), signal.SIGINT); signal.pause()")
    ran = run_program(project, "build", "-j", "2")
    assert (ran.returncode, "Traceback" in ran.stderr) == (130, False)
    assert left_behind(project) == []


@pytest.mark.slow
def test_processes_end_with_the_one_that_started_them(project: Project) -> None:
    with_encoder(project, "os.kill(os.getppid(), signal.SIGKILL); signal.pause()")
    process = subprocess.Popen(
        [*PROGRAM, "build", "-j", "2"], cwd=project.root, start_new_session=True, stderr=subprocess.DEVNULL
    )
    assert process.wait(30) == -signal.SIGKILL
    deadline = time.monotonic() + 30
    with suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.killpg(process.pid, 0)
            time.sleep(0.01)
        pytest.fail("processes of the build are left")
    project.edit("model/encode.py", "SIGKILL", "SIG_IGN")
    project.edit("model/encode.py", "os.getpid() != PARENT", "False")
    assert run_program(project, "build", "-j", "1").returncode == 0
    assert not list(project.root.rglob(f"*{TEMPORARY}"))


def test_a_fault_in_one_process_leaves_nothing_of_the_others(project: Project) -> None:
    write_many(project)
    project.write({"prefixes/p050.yaml": "system: missing.md.j2\n"})
    ran = project.run("build", "--jobs", "2")
    assert (ran.code, ran.err.count("error: ")) == (2, 1)
    assert left_behind(project) == []


def test_a_file_that_cannot_be_written_is_one_fault_and_leaves_nothing(project: Project) -> None:
    write_many(project)
    project.path("build").write_bytes(b"a file\n")
    ran = project.run("build", "--jobs", "2")
    assert (ran.code, ran.err.count("error: "), 'cannot write "build/p0' in ran.err) == (2, 1, True)
    assert "hint: everything is as it was before" in ran.err
    assert project.read("build") == b"a file\n"
    assert not project.path(LOCK_FILE).exists()


class FreshEyes:
    """Workers each of which reads the project anew for each chunk, and edits the shared template after the first."""

    count = 2

    def __init__(self, project: Project) -> None:
        self.chunks = 0
        self._project = project

    def run(
        self, task: Callable[[WorkerInputs], Callable[[Chunk], Any]], _: WorkerInputs, parts: Sequence[Chunk]
    ) -> Generator[Any, None, None]:
        for chunk in parts:
            self.chunks += 1
            yield task(Context(self._project.root, quiet=True, verbose=False).adapters())(chunk)
            self._project.write({"templates/shared.md.j2": "Edited.\n"})


def test_workers_that_read_different_states_of_a_file_do_not_build_from_both(project: Project) -> None:
    write_many(project, 20)
    workers = FreshEyes(project)
    adapters = Context(project.root, quiet=True, verbose=False).project_to_build().adapters
    result = build(adapters, None, BuildOptions(workers=workers))
    assert (result.faults, workers.chunks > 1) == ((), True)
    texts = {data.partition(b"\n")[2][:8] for path, data in project.files("build").items() if path.endswith(".txt")}
    assert texts == {b"Edited.\n"}
    assert project.check()["ok"]
    assert not list(project.root.rglob(f"*{TEMPORARY}"))


def cannot(*_: object) -> None:
    raise OSError(30, "Read-only file system")


@pytest.mark.parametrize("refused", ["_pool", "submit"])
def test_where_no_process_can_be_started_this_one_builds(
    project: Project, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """As where `/dev/shm` is read-only, or a user may have no more processes."""
    owner = WorkerProcesses if refused == "_pool" else ProcessPoolExecutor
    monkeypatch.setattr(owner, refused, cannot)
    write_many(project)
    assert project.build("--jobs", "2").out.endswith("60 built, 0 unchanged; lock written\n")
    assert project.check("--jobs", "2")["ok"]


def test_an_interrupt_while_results_are_merged_ends_the_workers_before_their_files_are_removed(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_many(project, 100)
    add = chunks._MergedChunks.add  # noqa: SLF001 - where the third result arrives
    calls: list[object] = []

    def interrupted(merged: Any, chunk: Any) -> None:  # noqa: ANN401
        calls.append(chunk)
        if len(calls) == 3:
            raise KeyboardInterrupt
        add(merged, chunk)

    monkeypatch.setattr(chunks._MergedChunks, "add", interrupted)  # noqa: SLF001
    assert project.run("build", "--jobs", "2").code == 130
    assert left_behind(project) == []


@pytest.mark.parametrize("workers", [1, 2, 3, 64])
@pytest.mark.parametrize("number", [0, 1, 8, 9, 63, 1000])
def test_chunks_have_every_manifest_once_and_in_order(number: int, workers: int) -> None:
    work = [(f"p{index}", f"prefixes/p{index}.yaml") for index in range(number)]
    parts = chunks_of(work, workers)
    assert [manifest for part in parts for manifest in part] == work
    assert all(parts)
    assert max(map(len, parts), default=0) <= 64


def run_program(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the program in a process of its own, which has one thread."""
    return subprocess.run(
        [*PROGRAM, *arguments], cwd=project.root, capture_output=True, text=True, check=False, start_new_session=True
    )
