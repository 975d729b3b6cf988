"""Builds miniature projects in this process and in worker processes, and prints where the results differ.

It is a program of its own, since a process with one thread can be forked.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from cacheunit_build.adapters.system import worker_processes
from cacheunit_build.adapters.system.worker_processes import WorkerProcesses
from cacheunit_build.cli.main import run
from cacheunit_build.domain.file_names import LOCK_FILE

Result = tuple[object, ...]


def build(source: Path, jobs: int) -> Result:
    """Returns what builds and checks of a copy of a project print, and the files that it has then."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CACHEUNIT_CACHE_DIR"] = f"{folder}/cache"
        root = Path(folder, "project")
        shutil.copytree(source, root, ignore=shutil.ignore_patterns("expected"), symlinks=True)
        runs = [_run(root, command, "-j", str(jobs)) for command in ("build", "check")]
        paths = [root / LOCK_FILE, *sorted((root / "build").rglob("*"))]
        files = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths if path.is_file()}
    return (*runs, files)


def _run(root: Path, *arguments: str) -> Result:
    """Returns the exit code, and what is printed."""
    out, err = io.BytesIO(), io.BytesIO()
    with redirect_stdout(io.TextIOWrapper(out)) as stdout, redirect_stderr(io.TextIOWrapper(err)) as stderr:
        code = run(["-C", str(root), *arguments])
        stdout.flush()
        stderr.flush()
        return code, out.getvalue(), err.getvalue()


def main() -> int:
    """Compares the projects in the folders that the arguments name; returns the exit code."""
    worker_processes.LEAST_MANIFESTS = worker_processes.FIRST_HERE = 0
    started: list[WorkerProcesses] = []
    original = WorkerProcesses.run
    WorkerProcesses.run = lambda self, *arguments: started.append(self) or original(self, *arguments)  # type: ignore[func-returns-value, method-assign]
    folders = [Path(argument) for argument in sys.argv[1:]]
    different = [folder.name for folder in folders if build(folder, 1) != build(folder, 2)]
    sys.stdout.write(f"{len(started)} of {len(folders)} in worker processes, different: {different}\n")
    return 1 if different or len(started) < len(folders) else 0


if __name__ == "__main__":
    sys.exit(main())
