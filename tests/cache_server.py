"""A cache server in memory that answers as a test wants: late, half, never, wrong, or elsewhere."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass
class CacheServer:
    """A server that stores what is put there.

    Attributes:
        stored: path -> bytes.
        requests: method, path and headers of all requests so far.
        fault: answers a request in place of the server, and returns whether it did.
        stopped: set at the end of the test, so that no answer waits longer.
        url: its URL while it is served.
    """

    stored: dict[str, bytes] = field(default_factory=dict)
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    fault: Callable[[Request], bool] = lambda _: False
    stopped: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def paths(self, method: str) -> list[str]:
        """Returns the paths of all requests with a method, in their order."""
        return [path for asked, path, _ in self.requests if asked == method]


class Request(BaseHTTPRequestHandler):
    """One request to the server."""

    protocol_version = "HTTP/1.1"
    state: CacheServer

    def do_GET(self) -> None:
        """Answers with what is stored."""
        self.state.requests.append(("GET", self.path, dict(self.headers)))
        if self.state.fault(self):
            return
        data = self.state.stored.get(self.path)
        self.answer(404 if data is None else 200, data or b"")

    def do_PUT(self) -> None:
        """Stores a body."""
        self.state.requests.append(("PUT", self.path, dict(self.headers)))
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.state.fault(self):
            return
        self.state.stored[self.path] = body
        self.answer(201)

    def answer(self, status: int, data: bytes = b"", **headers: str) -> None:
        """Sends a whole answer."""
        self.send_response(status, headers.pop("reason", None))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def send(self, data: bytes) -> None:
        """Sends any bytes."""
        self.wfile.write(data)
        self.wfile.flush()

    def reset(self) -> None:
        """Breaks the connection off."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def wait(self, seconds: float | None = None) -> None:
        """Waits for the end of the test, or for some seconds."""
        self.state.stopped.wait(seconds)
        self.close_connection = seconds is None

    def log_message(self, *_: Any) -> None:
        """Prints nothing."""

    def handle(self) -> None:
        """Answers the requests of one connection, until either side breaks it off."""
        with suppress(OSError, ValueError):
            super().handle()

    def finish(self) -> None:
        """Ends one connection."""
        with suppress(OSError, ValueError):
            super().finish()


class _Server(ThreadingHTTPServer):
    request_queue_size = 64
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: Any) -> None:
        """Prints nothing: broken connections are what is tested."""


@contextmanager
def serving(state: CacheServer | None = None) -> Iterator[CacheServer]:
    """Serves a cache on a local port."""
    state = CacheServer() if state is None else state
    server = _Server(("127.0.0.1", 0), type("Handler", (Request,), {"state": state}))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        state.stopped.set()
        server.shutdown()
        server.server_close()
