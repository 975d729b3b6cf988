"""Runs the server of the live page beside a watch: on the loopback interface, in a thread of its own."""

from __future__ import annotations

import errno
import logging
import secrets
import socket
import threading
from typing import TYPE_CHECKING, Self

from cacheunit_build.domain.errors import CacheunitError, Fault, fail

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from cacheunit_build.watching.state import WatchState

HOST = "127.0.0.1"
_TOKEN_BYTES = 16
_SECONDS_TO_END = 5.0


class PageServer:
    """The server of the live page, until the block ends.

    Args:
        root: the root of the project.
        port: the port to listen at; 0 for any that is free.
        report: called with what goes wrong in the server.

    Raises:
        CacheunitError: the extra is not installed, or the port is taken.
    """

    def __init__(self, root: Path, port: int, report: Callable[[str], None]) -> None:
        try:
            import uvicorn

            from cacheunit_build.serve.app import live_app
            from cacheunit_build.serve.live_state import LiveState
            from cacheunit_build.serve.security import Access
        except ModuleNotFoundError as error:
            hint = 'pip install "cacheunit-build[serve]"'
            raise fail(f"--serve needs the package {error.name}, which is not installed", hint=hint) from None
        from cacheunit_build.adapters.system.secret_scanner import secret_scanner

        self._socket = _listen(port)
        self._access = Access(port=self._socket.getsockname()[1], token=secrets.token_urlsafe(_TOKEN_BYTES))
        self._state = LiveState(root.as_posix(), secrets.token_hex(8), secret_scanner)
        self._changes = 0
        self._change: object = None
        app = live_app(self._state, self._access)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)
        self._handler = _Report(report)

    @property
    def address(self) -> str:
        """The address of the page, with its token."""
        return self._access.address

    def __enter__(self) -> Self:
        logger = logging.getLogger("uvicorn")
        logger.addHandler(self._handler)
        logger.propagate = False
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._state.end()
        self._server.should_exit = True
        self._thread.join(_SECONDS_TO_END)
        self._socket.close()
        logging.getLogger("uvicorn").removeHandler(self._handler)

    def building(self) -> AbstractContextManager[None]:
        """Returns a block in which the watch builds."""
        return self._state.building()

    def publish(self, state: WatchState) -> None:
        """Shows another state of the watch."""
        if state.change is not self._change:
            self._change = state.change
            self._changes += 1
        self._state.publish(state, self._changes)


class _Report(logging.Handler):
    """Reports what the server logs: warnings and errors, each on one line."""

    def __init__(self, report: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._report = report

    def emit(self, record: logging.LogRecord) -> None:
        """Reports one record."""
        error = record.exc_info[1] if record.exc_info else None
        self._report(f"live page: {record.getMessage() if error is None else repr(error)}")


def _listen(port: int) -> socket.socket:
    """Returns a socket that listens on the loopback interface.

    Raises:
        CacheunitError: the port is taken, or must not be used.
    """
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        problem = "is already in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror}"
        hint = "--serve 0 uses any free port; --serve PORT another one"
        raise CacheunitError(Fault(message=f"port {port} {problem}", hint=hint)) from error
