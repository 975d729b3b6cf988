"""Sends one HTTP request, and reads its answer within limits of bytes and of time that hold for all of it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from cacheunit_build.adapters.system.http_answer import Answer, too_long, unpacked
from cacheunit_build.domain.errors import fail

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx

MOST_BYTES = 16 << 20
"""The longest body of an answer, before and after it is unpacked: twice the token ids of a million tokens."""


class HttpClient:
    """Sends requests over connections that stay open. Redirects are not followed.

    Args:
        timeout: seconds in which a whole answer must arrive, from connecting to its last byte.

    Raises:
        CacheunitError: httpx is not installed.
        Exception: httpx refuses a proxy or a certificate that the environment names.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        # The time limits of httpx are for one read each: only a task can be stopped wherever it waits.
        self._client = _async_client()
        self._runner = asyncio.Runner()

    def close(self) -> None:
        """Closes all connections."""
        self._runner.run(self._client.aclose())
        self._runner.close()

    def send(self, method: str, url: str, headers: Mapping[str, str], body: Mapping[str, Any] | None) -> Answer:
        """Sends a request and returns its answer.

        Args:
            method: the HTTP method.
            url: the URL.
            headers: further headers.
            body: the JSON to send; None for none.

        Raises:
            TimeoutError: the answer is not complete in time.
            AnswerError: the answer is too long or packed in a way that is not supported.
            httpx.HTTPError, httpx.InvalidURL: the server cannot be reached, or breaks off.
        """
        content = None
        if body is not None:
            # A lone surrogate, in the name of a model for example, becomes an escape of JSON.
            text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            content = text.encode("utf-8", "backslashreplace")
            headers = {**headers, "Content-Type": "application/json"}
        headers = {**headers, "Accept-Encoding": "identity"}
        return self._runner.run(self._send(self._client.build_request(method, url, headers=headers, content=content)))

    async def _send(self, request: httpx.Request) -> Answer:
        async with asyncio.timeout(self._timeout):
            response = await self._client.send(request, stream=True)
            try:
                body = bytearray()
                async for part in response.aiter_raw():
                    body += part
                    if len(body) > MOST_BYTES:
                        raise too_long(MOST_BYTES)
            finally:
                await response.aclose()
        headers = {name.lower(): value for name, value in response.headers.items()}
        data = unpacked(bytes(body), headers.get("content-encoding", "identity"), MOST_BYTES)
        return Answer(status=response.status_code, headers=headers, data=data)


def _async_client() -> httpx.AsyncClient:
    """Returns a client of httpx; tests replace this function."""
    try:
        import httpx
    except ImportError:
        raise fail("the package httpx is not installed", hint='pip install "cacheunit-build[live]"') from None
    return httpx.AsyncClient(timeout=httpx.Timeout(None), follow_redirects=False)
