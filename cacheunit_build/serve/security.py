"""Decides which requests the live page answers: of the user's own browser, from the page itself, to read.

| request | answer |
| --- | --- |
| another method than GET and HEAD | 405 |
| a `Host` that is not this server on the loopback interface, as after DNS rebinding | 403 |
| an `Origin` that is not this server, or `Sec-Fetch-Site` of another site | 403 |
| no cookie, and no `token` in the address of the page | 403 |
| the page with the right `token` | a cookie for everything else |
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
PAGE = "/"
_OWN_SITES = ("", "same-origin", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may read the page.

    Attributes:
        port: the port of the server.
        token: what the address of the page has to contain.
    """

    port: int
    token: str

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of the server."""
        return tuple(f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]"))

    @property
    def cookie(self) -> str:
        """The name of the cookie; browsers send a cookie to all ports, so that each server has its own."""
        return f"cacheunit_{self.port}"

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://{self.hosts[0]}{PAGE}?token={self.token}"

    def is_token(self, value: str | None) -> bool:
        """Returns whether a value is the token; how long that takes tells nothing about it."""
        return value is not None and hmac.compare_digest(value.encode(), self.token.encode())

    def refusal(self, request: Request) -> Response | None:
        """Returns the answer to a request that is refused; None for one that is allowed."""
        headers = request.headers
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("The page can only be read.", 405, {"Allow": "GET, HEAD"})
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return PlainTextResponse("Wrong host.", 403)
        if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in origins):
            return PlainTextResponse("Wrong origin.", 403)
        if headers.get("sec-fetch-site", "") not in _OWN_SITES and request.url.path != PAGE:
            return PlainTextResponse("Wrong site.", 403)
        if self.is_token(request.cookies.get(self.cookie)) or self.has_token(request):
            return None
        return PlainTextResponse("Open the address that cacheunit watch printed.", 403)

    def has_token(self, request: Request) -> bool:
        """Returns whether a request is for the page, with the token in its address."""
        return request.url.path == PAGE and self.is_token(request.query_params.get("token"))


class AccessMiddleware:
    """Refuses requests that are not allowed, and adds the headers of security to every answer.

    Args:
        app: the application.
        access: who may read the page.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":  # a websocket: there are none
            return
        request = Request(scope)
        answer: ASGIApp = self._access.refusal(request) or self._app
        has_token = self._access.has_token(request)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                if has_token and answer is self._app:
                    cookie = f"{self._access.cookie}={self._access.token}; Path=/; HttpOnly; SameSite=Strict"
                    headers.append("Set-Cookie", cookie)
            await send(message)

        await answer(scope, receive, send_with_headers)
