"""The connection to a dask cluster: every way in which it can fail is one fault, and distributed prints nothing."""

from __future__ import annotations

import asyncio
import logging
import re
import struct
import time
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from cacheunit_build.adapters.cluster.software_check import installed_software, other_software
from cacheunit_build.domain.errors import CacheunitError, fail

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Executor

    from distributed import Client

CONNECT_SECONDS = 5.0
"""How long a scheduler may take to answer."""
WORKER_SECONDS = 30.0
"""How long a cluster may be without a worker that works: pods take some time to start."""
_SECONDS_BETWEEN_LOOKS = 0.1

_ADDRESS = re.compile(r"(tcp|tls)://(\[[0-9a-fA-F:.]+\]|[^\s:/\[\]@]+):([0-9]{1,5})")
_TLS_HINT = "distributed reads certificates from its own configuration, distributed.comm.tls"


def check_address(address: str) -> None:
    """Raises a fault for what is no address of a scheduler."""
    if _ADDRESS.fullmatch(address) is None:
        hint = "an address is like tcp://scheduler:8786, or tls://scheduler:8786"
        raise fail(f'"{address}" is not the address of a dask scheduler', hint=hint)


class Cluster:
    """A cluster that this process is connected to.

    Args:
        address: the address of its scheduler.

    Raises:
        CacheunitError: nobody answers there, there is no worker, or a worker has other software.
    """

    def __init__(self, address: str) -> None:
        check_address(address)
        self.address = address
        self._idle_since: float | None = None
        self._client = _connect(address)
        try:
            self._wait_for_workers()
            self._check_software()
        except BaseException:
            self.close()
            raise

    @property
    def worker_count(self) -> int:
        """The number of its workers now."""
        return max(1, len(self._workers()))

    def executor(self) -> Executor:
        """Returns what runs functions on its workers."""
        executor: Executor = self._client.get_executor(pure=False)
        return executor

    def send(self, data: bytes, key: str) -> Any:  # noqa: ANN401 - a future of distributed
        """Sends bytes to the cluster once; returns a future of them, to be passed to functions that run there.

        They are the result of a task and not scattered: what is scattered is lost with the workers that have it.
        """
        return self._client.submit(bytes, data, key=key, pure=False)

    def close(self) -> None:
        """Closes the connection; what is still to be run is forgotten."""
        with suppress(OSError, RuntimeError):  # the cluster may be gone
            self._client.close(timeout=CONNECT_SECONDS)

    def refuse_if_idle(self) -> None:
        """Raises a fault if the scheduler is gone, or if for some time no worker could work."""
        workers = self._workers()
        if any(worker["status"] == "running" for worker in workers.values()):
            self._idle_since = None
            return
        now = time.monotonic()
        if self._idle_since is None:
            self._idle_since = now
        if now - self._idle_since < WORKER_SECONDS:
            return
        if not workers:
            message = f"the cluster at {self.address} has had no workers for {WORKER_SECONDS:g} s"
            raise fail(message, hint=f'start one: "dask worker {self.address}"')
        addresses = ", ".join(sorted(workers))
        message = f"no worker of the cluster at {self.address} takes more work: {addresses}"
        raise fail(message, hint="a worker pauses when its memory is used up, or when its disk is full")

    def lost(self) -> CacheunitError:
        """Returns the fault of a cluster that is gone."""
        return fail(f"the connection to the scheduler at {self.address} was lost")

    def suspects(self, keys: Sequence[str]) -> list[str]:
        """Returns the tasks that lost workers had most often when they were lost, of some tasks."""
        with suppress(OSError, TimeoutError, RuntimeError):
            story = self._client.sync(
                self._client.scheduler.get_story, keys_or_stimuli=list(keys), callback_timeout=CONNECT_SECONDS
            )
            lost = [entry[0] for entry in story if entry[1] == "processing" and entry[2] not in ("memory", "erred")]
            return [key for key in keys if key in lost and lost.count(key) == max(map(lost.count, lost))]
        return []

    def _workers(self) -> dict[str, dict[str, Any]]:
        """Returns what the scheduler knows of each worker, by its address."""
        if self._client.status != "running":
            raise self.lost()
        try:
            info = self._client.sync(self._client.scheduler.identity, n_workers=-1, callback_timeout=CONNECT_SECONDS)
        except (OSError, TimeoutError, RuntimeError):
            raise self.lost() from None
        workers: dict[str, dict[str, Any]] = info["workers"]
        return workers

    def _wait_for_workers(self) -> None:
        self.refuse_if_idle()
        while self._idle_since is not None:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            self.refuse_if_idle()

    def _check_software(self) -> None:
        """Raises a fault for the first worker that has other software; later ones are checked with each chunk."""
        found = self._client.run(installed_software, on_error="return")
        for worker, software in sorted(found.items()):
            if isinstance(software, BaseException):
                message = f"worker {worker} cannot run cacheunit: {type(software).__name__}: {software}"
                raise fail(message, hint="install the same release of cacheunit-build there")
            fault = other_software(worker, software)
            if fault is not None:
                raise CacheunitError(fault)


def _connect(address: str) -> Client:
    """Returns a client of distributed.

    Raises:
        CacheunitError: distributed is not installed, or nobody answers at the address.
    """
    try:
        import distributed
        from distributed.versions import VersionMismatchWarning
    except ImportError:
        raise fail("--scheduler needs an extra", hint='pip install "cacheunit-build[dask]"') from None
    _silence_logs()
    warnings.simplefilter("ignore", VersionMismatchWarning)  # what decides bytes is compared here, by content
    try:
        asyncio.run(asyncio.wait_for(_greet(address), CONNECT_SECONDS))
        return distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False, name="cacheunit")
    except (OSError, TimeoutError, MemoryError, struct.error) as error:  # what is no scheduler sends other bytes
        message = f"no dask scheduler answers at {address} within {CONNECT_SECONDS:g} s"
        raise fail(message, hint=_TLS_HINT if address.startswith("tls:") else None) from error
    except (TypeError, ValueError, RuntimeError, ImportError) as error:
        reason = " ".join(str(error).split())
        raise fail(f"cannot connect to {address}: {reason}", hint=_TLS_HINT) from error


async def _greet(address: str) -> None:
    """Exchanges greetings with a scheduler: a client of distributed would wait for them without end."""
    from distributed.comm import connect
    from distributed.security import Security

    comm = await connect(address, timeout=CONNECT_SECONDS, **Security().get_connection_args("client"))
    comm.abort()


@contextmanager
def large_messages() -> Iterator[None]:
    """Lets distributed send the sources of a large project without a warning."""
    import dask

    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
        yield


def _silence_logs() -> None:
    """Turns off the log output of distributed, since its failures are reported as faults."""
    for name in [*logging.root.manager.loggerDict, "distributed"]:
        if name.partition(".")[0] in ("distributed", "tornado"):
            logger = logging.getLogger(name)
            logger.handlers[:] = [logging.NullHandler()]
            logger.propagate = False
