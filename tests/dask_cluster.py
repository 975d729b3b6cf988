"""A dask cluster of separate programs on this machine: a scheduler and workers, each in a folder of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PACKAGE_FOLDERS = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]


class DaskCluster:
    """A scheduler, and the workers that are started for it; all of them end with the `with` statement.

    Args:
        folder: an empty folder.
        allowed_failures: after how many lost workers the scheduler still gives a task to another one.
    """

    def __init__(self, folder: Path, *, allowed_failures: int = 3) -> None:
        self._folder = folder
        self._allowed_failures = allowed_failures
        self._processes: list[subprocess.Popen[str]] = []
        self._drains: list[threading.Thread] = []
        self.scheduler, line = self._start("scheduler", ("--host", "127.0.0.1", "--port", "0"), "Scheduler at:")
        self.address = line.split()[-1]

    def start_worker(
        self, name: str, *options: str, python_path: Path | None = None, ready: str = "Registered to:"
    ) -> subprocess.Popen[str]:
        """Starts a worker; returns when the scheduler knows it.

        Args:
            name: the name of its folder.
            options: options of its command line.
            python_path: a folder whose packages it prefers.
            ready: what its log has to contain.
        """
        folders = ([] if python_path is None else [str(python_path)]) + PACKAGE_FOLDERS
        environment = {"PYTHONPATH": os.pathsep.join(folders)}
        arguments = ("--name", name, self.address, "--nthreads", "1", *options)
        return self._start(name, arguments, ready, module="worker", changed=environment)[0]

    def _start(
        self,
        name: str,
        options: tuple[str, ...],
        ready: str,
        *,
        module: str = "scheduler",
        changed: Mapping[str, str] | None = None,
    ) -> tuple[subprocess.Popen[str], str]:
        """Starts a program of dask; returns it and the line of its log that shows that it is ready."""
        folder = self._folder / name
        folder.mkdir(parents=True)
        environment = {
            **os.environ,
            "CACHEUNIT_CACHE_DIR": str(folder / "cache"),
            "DASK_TEMPORARY_DIRECTORY": str(folder),
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(self._allowed_failures),
            **(changed or {}),
        }
        program = [sys.executable, "-P", "-m", f"distributed.cli.dask_{module}", "--no-dashboard", *options]
        process = subprocess.Popen(
            program,
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # so that a worker ends with its nanny
        )
        self._processes.append(process)
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if ready in line:
                drain = threading.Thread(target=process.stderr.read)  # a full pipe would stop the process
                drain.start()
                self._drains.append(drain)
                return process, line
        raise AssertionError("".join(lines))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for process, drain in zip(self._processes, self._drains, strict=False):
            process.wait(timeout=20)
            drain.join(timeout=20)
            assert process.stderr is not None
            process.stderr.close()
