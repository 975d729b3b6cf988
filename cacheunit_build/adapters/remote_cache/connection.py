"""One connection to a remote cache, which stays open between requests.

It is `http.client` of the standard library, not httpx: 2,000 answers of nginx on the same machine took 0.2 s with 16 of
these connections, and 2 s with httpx, which needs a millisecond of Python for each of them (measured, httpx 0.28).
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING

from cacheunit_build.adapters.system.http_answer import Answer, AnswerError, too_long, unpacked

if TYPE_CHECKING:
    from collections.abc import Mapping

_STALE = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError, ConnectionAbortedError)
"""What a request meets on a connection that the server closed since the one before."""


class RequestFailedError(Exception):
    """Raised for a request without a usable answer; its text is the reason and has nothing that a server wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A proxy that leads to servers by `CONNECT`.

    Attributes:
        host: its host.
        port: its port.
        headers: further headers for it.
    """

    host: str
    port: int
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The server of a remote cache.

    Attributes:
        host: its host.
        port: its port.
        path: the path in front of `/ac/` and `/cas/`, without a final slash.
        headers: further headers for each request.
        tls: how its certificate is verified; None for one on this machine that is reached without encryption.
        proxy: the proxy to it; None for none.
        timeout: seconds in which a whole answer must arrive, from connecting to its last byte.
    """

    host: str
    port: int
    path: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None
    proxy: Proxy | None = None
    timeout: float


class Connection:
    """A connection to a server, opened at the first request. Redirects are not followed.

    A socket limits each of its operations, and a server could need a thousand of them: whoever waits for this
    connection stops it by `abort` at the end of the time.

    Args:
        server: the server.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._http = _opened_later(server)
        self._lock = threading.Lock()
        self._end: float | None = None
        self._aborted = False

    def exchange(self, method: str, path: str, body: bytes | None = None, *, most_bytes: int) -> Answer:
        """Sends a request and returns its answer, whatever its status.

        Args:
            method: the HTTP method.
            path: the path behind that of the server.
            body: the bytes to send; None for none.
            most_bytes: the longest body of an answer that is read.

        Raises:
            RequestFailedError: there is no whole answer in time.
        """
        with self._lock:
            self._end, self._aborted = time.monotonic() + self._server.timeout, False
        try:
            return self._exchange(method, path, body, most_bytes)
        except (http.client.HTTPException, OSError, ValueError, AnswerError) as error:
            self._http.close()
            reason = self._late if self._aborted else _reason(error, self._late)
        finally:
            with self._lock:
                self._end = None
        raise RequestFailedError(reason)  # without the exception, whose text a server may have written

    def _exchange(self, method: str, path: str, body: bytes | None, most_bytes: int) -> Answer:
        is_reused = self._http.sock is not None
        try:
            response = self._sent(method, path, body)
        except _STALE:
            if not is_reused or self._aborted:
                raise
            self._http.close()
            response = self._sent(method, path, body)
        data = response.read(most_bytes + 1)
        if len(data) > most_bytes:
            raise too_long(most_bytes)
        if response.length:  # what is missing of the length that was promised
            raise http.client.IncompleteRead(data, response.length)
        if not response.isclosed():
            response.read()  # the end of a chunked body
        headers = {name.lower(): value for name, value in response.getheaders()}
        data = unpacked(data, headers.get("content-encoding", "identity"), most_bytes)
        return Answer(status=response.status, headers=headers, data=data)

    def _sent(self, method: str, path: str, body: bytes | None) -> http.client.HTTPResponse:
        self._http.request(method, self._server.path + path, body=body, headers=dict(self._server.headers))
        return self._http.getresponse()

    def overdue(self, now: float) -> float:
        """Returns for how many seconds an answer should have been complete; 0 where it still has time."""
        with self._lock:
            return 0.0 if self._end is None else max(0.0, now - self._end)

    def abort(self) -> None:
        """Makes the request that another thread waits for fail, if there is one."""
        with self._lock:
            if self._end is None:
                return
            self._aborted = True
            connected = self._http.sock
        if connected is not None:
            with suppress(OSError):
                socket.socket.shutdown(connected, socket.SHUT_RDWR)  # not that of TLS, which would change its state

    def close(self) -> None:
        """Closes the connection; no thread may be waiting for it."""
        self._http.close()

    @property
    def _late(self) -> str:
        return f"no whole answer within {self._server.timeout:g} s"


def _opened_later(server: Server) -> http.client.HTTPConnection:
    """Returns a connection that is opened by its first request."""
    proxy = server.proxy
    host, port = (server.host, server.port) if proxy is None else (proxy.host, proxy.port)
    if server.tls is None:
        return http.client.HTTPConnection(host, port, timeout=server.timeout)
    connection = http.client.HTTPSConnection(host, port, timeout=server.timeout, context=server.tls)
    if proxy is not None:
        connection.set_tunnel(server.host, server.port, headers=dict(proxy.headers))
    return connection


def _reason(error: Exception, late: str) -> str:
    """Returns why a request failed, without a text that a server or a proxy wrote."""
    if isinstance(error, AnswerError):
        return f"it {error}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return "encryption failed"
    if isinstance(error, TimeoutError):
        return late
    if isinstance(error, http.client.RemoteDisconnected | http.client.IncompleteRead):
        return "it closed the connection before the end of an answer"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[0].lower() + error.strerror[1:]
    return "its answer is not valid HTTP" if isinstance(error, http.client.HTTPException) else "the connection failed"


def status_text(status: int) -> str:
    """Returns a status with its usual name: `507 Insufficient Storage`."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
