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
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cacheunit_build.adapters.system.garbage import collect_garbage_rarely
from cacheunit_build.domain.errors import fail

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkContext, SpawnContext

    from cacheunit_build.domain.workers import Chunk, WorkerInputs

    T = TypeVar("T")
    Task = Callable[[WorkerInputs], Callable[[Chunk], Any]]

LEAST_MANIFESTS = 50
"""Fewer are built faster in one process than others are started."""

FIRST_HERE = 1
"""Chunks that are built in this process, so that forked ones take over what is loaded by then."""

_CANNOT_START = (OSError, RuntimeError, ImportError, NotImplementedError)
"""What Python raises where a system starts no more processes or threads, or has no semaphores."""

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
    ) -> Generator[T, None, None]:
        """Yields the result of each chunk, the first ones from this process; all of them, if it cannot start others.

        Args:
            task: returns what builds a chunk, from the files and loaders of a process.
            inputs: the files and loaders of this process.
            chunks: the chunks.

        Raises:
            CacheunitError: a process was killed.
        """
        build_chunk = task(inputs)
        split = len(chunks) if sum(map(len, chunks)) < LEAST_MANIFESTS else FIRST_HERE
        yield from map(build_chunk, chunks[:split])
        rest: Sequence[Chunk] = chunks[split:]
        while rest:
            count = min(self.count, len(rest))
            run = _PoolRun(partial(self._pool, task, build_chunk, count), rest, 2 * count)
            yield from run.results()
            if run.not_started:
                yield from map(build_chunk, run.not_started)
                return
            yield from self._one_by_one(task, build_chunk, run.interrupted)
            rest = run.waiting

    def _one_by_one(self, task: Task, build_chunk: Callable[[Chunk], T], chunks: Sequence[Chunk]) -> Iterator[T]:
        """Yields the results of chunks during which a process was killed, manifest by manifest.

        Raises:
            CacheunitError: it is killed again; the fault is at the manifest.
        """
        if not chunks:
            return
        manifests = [[manifest] for chunk in chunks for manifest in chunk]
        run = _PoolRun(partial(self._pool, task, build_chunk, 1), manifests, 1)
        yield from run.results()
        yield from map(build_chunk, run.not_started)
        for chunk in run.interrupted:
            hint = "perhaps it needs more memory than there is"
            raise fail("the process that compiles it was killed, twice", path=chunk[0][1], hint=hint)

    def _pool(self, task: Task, build_chunk: Callable[[Chunk], Any], count: int) -> _Pool:
        if _can_fork():
            gc.freeze()  # what exists now is not looked at, and so not copied, in the forked processes
            return _Pool(count, get_context("fork"), _start_forked, build_chunk)
        return _Pool(count, get_context("spawn"), _start_spawned, task, self._open_inputs)


class _Pool:
    """Worker processes, which end when the pool is closed, or when this process ends in whatever way.

    Args:
        count: how many.
        context: how they are started.
        start: called first in each of them, with both ends of a pipe (for a process that was not forked, only with the
            one to read from) and `arguments`.
        arguments: further arguments of `start`.
    """

    def __init__(
        self, count: int, context: ForkContext | SpawnContext, start: Callable[..., None], *arguments: Any
    ) -> None:
        self._reader, self._writer = context.Pipe(duplex=False)
        writer = self._writer if context.get_start_method() == "fork" else None
        self.executor = ProcessPoolExecutor(count, context, start, (self._reader, writer, *arguments))

    def close(self, *, finished: bool) -> None:
        """Ends the processes: after the chunks that they have, or, if not `finished`, at once."""
        if not finished:
            self._writer.close()
        self.executor.shutdown()
        self._writer.close()
        self._reader.close()


class _PoolRun:
    """Runs chunks in a pool of processes, until one of these is killed.

    Args:
        open_pool: starts the pool, which is closed at the end.
        chunks: the chunks.
        at_once: how many chunks the pool has at a time.

    Attributes:
        interrupted: the chunks that the pool had when a process was killed.
        waiting: the chunks that it had not begun then.
        not_started: the chunks that are left where this system starts no processes.
    """

    def __init__(self, open_pool: Callable[[], _Pool], chunks: Sequence[Chunk], at_once: int) -> None:
        self.interrupted: list[Chunk] = []
        self.not_started: list[Chunk] = []
        self.waiting = deque(chunks)
        self._running: dict[Future[Any], Chunk] = {}
        self._open_pool = open_pool
        self._at_once = at_once

    def results(self) -> Iterator[Any]:
        """Yields the results of chunks, in any order."""
        try:
            pool = self._open_pool()
        except _CANNOT_START:
            self.not_started = list(self.waiting)
            return
        finished = False
        try:
            while (self.waiting or self._running) and self._submit(pool):
                for future in wait(self._running, return_when=FIRST_COMPLETED).done:
                    result = future.result()
                    del self._running[future]
                    yield result
            finished = True
        except BrokenProcessPool:
            self.interrupted = list(self._running.values())
        finally:
            pool.close(finished=finished and not self.not_started)

    def _submit(self, pool: _Pool) -> bool:
        """Hands chunks to the pool; returns whether it could, or had been handed some before."""
        try:
            while self.waiting and len(self._running) < self._at_once:
                with _interrupts_blocked():
                    future = pool.executor.submit(_run_chunk, self.waiting[0])
                self._running[future] = self.waiting.popleft()
        except BrokenProcessPool:
            raise
        except _CANNOT_START:
            if not self._running:
                self.not_started = list(self.waiting)
        return not self.not_started


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Lets processes start with interrupts blocked, until they are prepared for them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def _can_fork() -> bool:
    """Returns whether this process can be forked: on Linux, while it has one thread, which therefore holds no lock."""
    if sys.platform != "linux" or threading.active_count() > 1:
        return False
    try:
        return len(list(Path("/proc/self/task").iterdir())) == 1  # threads of libraries too
    except OSError:
        return False


def _start_forked(reader: Connection, writer: Connection, build_chunk: Callable[[Chunk], Any]) -> None:
    """Prepares a forked process; its arguments are not sent, but the same objects."""
    global _build_chunk  # noqa: PLW0603 - one for each process
    writer.close()  # only that of the process that forked is to be open
    _end_with(reader)
    _build_chunk = build_chunk


def _start_spawned(reader: Connection, _: None, task: Task, open_inputs: Callable[[], WorkerInputs]) -> None:
    """Prepares a process that was not forked."""
    global _build_chunk  # noqa: PLW0603 - one for each process
    _end_with(reader)
    collect_garbage_rarely()
    _build_chunk = task(open_inputs())


def _run_chunk(chunk: Chunk) -> Any:  # noqa: ANN401 - what the task returns
    return _build_chunk(chunk)


def _end_with(reader: Connection) -> None:
    """Ends this process when it is interrupted, or when nobody can write to a pipe any more."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def wait_for_end() -> None:
        reader.poll(None)
        os._exit(1)

    threading.Thread(target=wait_for_end, daemon=True).start()
