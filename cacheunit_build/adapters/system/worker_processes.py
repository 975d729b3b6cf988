"""Builds chunks of manifests in processes of this machine, so that several cores work at once.

Where that is safe, they are forked once the first chunk is built, and take over the vocabularies and templates that are
loaded by then; elsewhere, each loads them again.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cacheunit_build.domain.errors import fail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cacheunit_build.domain.workers import Chunk, WorkerInputs

    T = TypeVar("T")
    Task = Callable[[WorkerInputs], Callable[[Chunk], Any]]

LEAST_MANIFESTS = 50
"""Fewer are built faster in one process than others are started."""

_build_chunk: Callable[[Chunk], Any]
"""Builds a chunk in a worker process."""


class WorkerProcesses:
    """Builds chunks in processes of this machine.

    Args:
        count: how many.
        open_inputs: opens the project in a process that was not forked; it is sent there.
    """

    def __init__(self, count: int, open_inputs: Callable[[], WorkerInputs]) -> None:
        self.count = count
        self._open_inputs = open_inputs

    def run(
        self, task: Callable[[WorkerInputs], Callable[[Chunk], T]], inputs: WorkerInputs, chunks: Sequence[Chunk]
    ) -> Iterator[T]:
        """Yields the result of each chunk, the first ones from this process.

        Args:
            task: returns what builds a chunk, from the files and loaders of a process.
            inputs: the files and loaders of this process.
            chunks: the chunks.

        Raises:
            CacheunitError: a process was killed.
        """
        build_chunk = task(inputs)
        is_small = sum(map(len, chunks)) < LEAST_MANIFESTS
        here, elsewhere = (chunks, ()) if is_small else (chunks[:1], chunks[1:])
        yield from map(build_chunk, here)
        if elsewhere:
            yield from self._run_elsewhere(task, build_chunk, elsewhere)

    def _run_elsewhere(self, task: Task, build_chunk: Callable[[Chunk], T], chunks: Sequence[Chunk]) -> Iterator[T]:
        executor = self._executor(task, build_chunk)
        try:
            futures = [executor.submit(_run_chunk, chunk) for chunk in chunks]
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool:
            hint = "perhaps memory ran out: build with fewer --jobs"
            raise fail("a worker process was killed; nothing was written", hint=hint) from None
        finally:
            executor.shutdown(cancel_futures=True)

    def _executor(self, task: Task, build_chunk: Callable[[Chunk], Any]) -> ProcessPoolExecutor:
        if _can_fork():
            gc.freeze()  # what exists now is not looked at, and so not copied, in the forked processes
            return ProcessPoolExecutor(self.count, get_context("fork"), _start_forked, (build_chunk,))
        return ProcessPoolExecutor(self.count, get_context("spawn"), _start_spawned, (task, self._open_inputs))


def _can_fork() -> bool:
    """Returns whether this process can be forked: on Linux, while it has one thread, which therefore holds no lock."""
    if sys.platform != "linux" or threading.active_count() > 1:
        return False
    try:
        return len(list(Path("/proc/self/task").iterdir())) == 1  # threads of libraries too
    except OSError:
        return False


def _start_forked(build_chunk: Callable[[Chunk], Any]) -> None:
    """Prepares a forked process; its arguments are not sent, but the same objects."""
    global _build_chunk  # noqa: PLW0603 - one for each process
    _end_with_parent()
    _build_chunk = build_chunk


def _start_spawned(task: Task, open_inputs: Callable[[], WorkerInputs]) -> None:
    """Prepares a process that was not forked."""
    global _build_chunk  # noqa: PLW0603 - one for each process
    _end_with_parent()
    _build_chunk = task(open_inputs())


def _run_chunk(chunk: Chunk) -> Any:  # noqa: ANN401 - what the task returns
    return _build_chunk(chunk)


def _end_with_parent() -> None:
    """Ends this process when it is interrupted, or when the process that started it no longer exists."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
