"""Runs jobs in threads with a connection each, and stops waiting for what takes too long."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cacheunit_build.adapters.remote_cache.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from cacheunit_build.adapters.remote_cache.connection import Server

    Job = Callable[[Connection], None]

CONNECTIONS = 16
"""How many connections are open at most."""

_TICK = 0.05
"""Seconds between two looks at what takes too long."""
_MOMENT = 0.0005
"""Seconds between two looks at whether threads are gone."""
_GRACE = 1.0
"""Seconds that an aborted request may need to fail, in seconds; a name server, for one, cannot be interrupted."""


class ConnectionPool:
    """Connections to one server, which stay open between runs.

    Threads that cannot be interrupted are left behind: they are daemons, and end with the process at the latest.

    Args:
        server: the server.
    """

    def __init__(self, server: Server) -> None:
        self._connections = [Connection(server) for _ in range(CONNECTIONS)]
        self._is_left_behind = False

    def run(self, jobs: Iterable[Job], may_go_on: Callable[[], bool], count: int = CONNECTIONS) -> bool:
        """Runs each job with one of the connections; returns whether all threads ended.

        Args:
            jobs: taken one by one.
            may_go_on: asked all the time; where it returns False, requests are aborted and no further job is begun.
            count: the number of jobs, where it is known to be small.

        Raises:
            Exception: what a job, or taking one, raised.
        """
        run = _Run(iter(jobs), may_go_on)
        connections = self._connections[:count]
        run.start(connections)
        while run.wait(_TICK):
            now, goes_on = time.monotonic(), may_go_on()
            for connection in connections:
                if not goes_on or connection.overdue(now):
                    connection.abort()
            if any(connection.overdue(now) > _GRACE for connection in connections) or run.stopped_for(now) > _GRACE:
                self._is_left_behind = True
                return False
        run.join()
        if run.error is not None:
            raise run.error
        return True

    def close(self) -> None:
        """Closes all connections, unless a thread that was left behind may still use one. No run may be going on."""
        for connection in () if self._is_left_behind else self._connections:
            connection.close()


def _exists(thread: threading.Thread) -> bool:
    """Returns whether Linux still lists a thread; False on other systems."""
    return Path(f"/proc/self/task/{thread.native_id}").exists()


class _Run:
    """The threads of one run.

    Args:
        jobs: the jobs.
        may_go_on: whether another job may begin.
    """

    def __init__(self, jobs: Iterator[Job], may_go_on: Callable[[], bool]) -> None:
        self._jobs = jobs
        self._may_go_on = may_go_on
        self._next = threading.Lock()
        self._ended = threading.Condition()
        self._alive = 0
        self._threads: list[threading.Thread] = []
        self._stopped: float | None = None
        self.error: BaseException | None = None

    def start(self, connections: list[Connection]) -> None:
        """Starts a thread for each connection."""
        self._alive = len(connections)
        self._threads = [threading.Thread(target=self._work, args=(item,), daemon=True) for item in connections]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Waits until all threads, which have no further job, are gone: with one of them, no process can be forked.

        Before Python 3.13, `Thread.join` returns a moment before the system has ended a thread.
        """
        for thread in self._threads:
            thread.join()
        end = time.monotonic() + _GRACE
        while any(map(_exists, self._threads)) and time.monotonic() < end:
            time.sleep(_MOMENT)

    def wait(self, seconds: float) -> bool:
        """Waits until all threads end, at most for these seconds; returns whether some go on."""
        with self._ended:
            return not self._ended.wait_for(lambda: not self._alive, seconds)

    def stopped_for(self, now: float) -> float:
        """Returns for how many seconds no further job may begin."""
        if self._may_go_on():
            return 0.0
        if self._stopped is None:
            self._stopped = now
        return now - self._stopped

    def _work(self, connection: Connection) -> None:
        try:
            while self._may_go_on() and self.error is None:
                with self._next:
                    job = next(self._jobs, None)
                if job is None:
                    return
                job(connection)
        except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
            self.error = error
        finally:
            with self._ended:
                self._alive -= 1
                self._ended.notify_all()
