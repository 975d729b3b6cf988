"""Where a remote cache is, and what a run may do there: from settings, environment and netrc.

Credentials of the environment are sent only to the URL that the environment names, and those of netrc only to the host
that they are for: a checkout cannot have them sent elsewhere by changing its settings.
"""

from __future__ import annotations

import base64
import re
import ssl
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from cacheunit_build.adapters.remote_cache.connection import Proxy, Server
from cacheunit_build.adapters.system.secret_mask import SecretMask, proxy_secrets
from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.web_address import has_valid_host, is_loopback, remote_cache_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

URL_VARIABLE = "CACHEUNIT_REMOTE_CACHE"
WRITE_VARIABLE = "CACHEUNIT_CACHE_WRITE"
TOKEN_VARIABLE = "CACHEUNIT_CACHE_TOKEN"  # noqa: S105 - the name of a variable
USER_VARIABLE = "CACHEUNIT_CACHE_USER"
PASSWORD_VARIABLE = "CACHEUNIT_CACHE_PASSWORD"  # noqa: S105 - the name of a variable

TIMEOUT = 10.0
"""Seconds in which a whole answer must arrive."""

_HTTPS_PORT, _HTTP_PORT = 443, 80
_NETRC = "_netrc" if sys.platform == "win32" else ".netrc"
_TOKEN = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteAccess:
    """Where a remote cache is, and what a run may do there.

    Attributes:
        url: its URL, without a final slash and without secrets.
        server: how it is reached, with credentials.
        writes: whether results may be stored.
        without_secrets: masks the credentials in any text.
        remarks: what the user should know about it.
    """

    url: str
    server: Server
    writes: bool
    without_secrets: SecretMask
    remarks: tuple[str, ...] = ()


def remote_access(setting: str, environment: Mapping[str, str], timeout: float = TIMEOUT) -> RemoteAccess | None:
    """Returns how the remote cache is reached; None where there is none.

    Args:
        setting: its URL in the settings, which is valid; empty for none.
        environment: the environment variables.
        timeout: seconds in which a whole answer must arrive.

    Raises:
        CacheunitError: a variable is not valid.
    """
    named = environment.get(URL_VARIABLE)
    url = (setting if named is None else named.strip()).rstrip("/")
    if not url:
        return None
    problem = remote_cache_problem(url)
    if problem is not None:
        raise fail(f"{URL_VARIABLE}: {problem[0]}", hint=problem[1])
    secrets = _Secrets.of_environment(environment)
    remarks = []
    if named is None and secrets is not None:
        remarks.append(
            f"{secrets.variable} is not sent to {{remote}}, which only the settings name: set {URL_VARIABLE}"
        )
        secrets = None
    if secrets is None:
        secrets = _netrc_secrets(url, environment, any_port=named is not None)
    hidden = [] if secrets is None else secrets.hidden
    without_secrets = SecretMask([*hidden, *proxy_secrets()])
    if without_secrets.is_in(url):
        raise fail("the URL of the remote cache has a password or token in it", hint="see docs/remote.md")
    return RemoteAccess(
        url=url,
        server=_server(url, {} if secrets is None else {"Authorization": secrets.header}, timeout),
        writes=_writes(environment),
        without_secrets=without_secrets,
        remarks=tuple(remarks),
    )


def _writes(environment: Mapping[str, str]) -> bool:
    """Returns whether results are stored; raises a fault if the variable is neither 0, 1 nor empty."""
    value = environment.get(WRITE_VARIABLE, "").strip()
    if value not in ("", "0", "1"):
        raise fail(f'{WRITE_VARIABLE} must be 1 or 0, not "{value}"', hint="leave it empty to read only")
    return value == "1"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Secrets:
    """Credentials for a server.

    Attributes:
        variable: the environment variable that they are from; empty for netrc.
        header: the value of the header `Authorization`.
        hidden: what must not be shown.
    """

    variable: str
    header: str
    hidden: tuple[str, ...]

    @staticmethod
    def of_environment(environment: Mapping[str, str]) -> _Secrets | None:
        """Returns the credentials in environment variables; None where there are none.

        Raises:
            CacheunitError: they are incomplete, too many, or not valid in a header.
        """
        token, user, password = (environment.get(name) for name in (TOKEN_VARIABLE, USER_VARIABLE, PASSWORD_VARIABLE))
        if token and (user or password):
            raise fail(f"{TOKEN_VARIABLE} and {USER_VARIABLE} are both set", hint="keep one of them")
        if token:
            if _TOKEN.fullmatch(token) is None:
                raise fail(f"{TOKEN_VARIABLE} has a space, a line end or a character that is not ASCII")
            return _Secrets(variable=TOKEN_VARIABLE, header=f"Bearer {token}", hidden=(token,))
        if bool(user) != bool(password):
            raise fail(f"{USER_VARIABLE} and {PASSWORD_VARIABLE} must be set together")
        return None if not user or not password else _Secrets.basic(user, password, USER_VARIABLE)

    @staticmethod
    def basic(user: str, password: str, variable: str = "") -> _Secrets:
        """Returns the credentials of a user, for HTTP basic authentication."""
        encoded = base64.b64encode(f"{user}:{password}".encode("utf-8", "surrogateescape")).decode()
        return _Secrets(variable=variable, header=f"Basic {encoded}", hidden=(password, encoded))


def _netrc_secrets(url: str, environment: Mapping[str, str], *, any_port: bool) -> _Secrets | None:
    """Returns the credentials that netrc has for exactly the host of a URL; its default entry is for no host.

    Args:
        url: the URL.
        environment: the environment variables, of which `NETRC` names the file.
        any_port: whether they are meant for other ports than that of HTTPS too.
    """
    import netrc

    parts = urlsplit(url)
    if not any_port and (parts.scheme != "https" or parts.port not in (None, _HTTPS_PORT)):
        return None
    file = Path(environment["NETRC"]) if environment.get("NETRC") else Path.home() / _NETRC
    try:
        entry = netrc.netrc(str(file)).hosts.get(parts.hostname or "")
    except (OSError, ValueError, netrc.NetrcParseError):
        return None
    return None if entry is None or not entry[2] else _Secrets.basic(entry[0] or "", entry[2])


def _server(url: str, headers: Mapping[str, str], timeout: float) -> Server:
    """Returns how the server of a valid URL is reached."""
    parts = urlsplit(url)
    host, is_encrypted = parts.hostname or "", parts.scheme == "https"
    return Server(
        host=host,
        port=parts.port or (_HTTPS_PORT if is_encrypted else _HTTP_PORT),
        path=parts.path.rstrip("/"),
        headers=headers,
        tls=ssl.create_default_context() if is_encrypted else None,
        proxy=None if is_loopback(url) else _proxy(host),
        timeout=timeout,
    )


def _proxy(host: str) -> Proxy | None:
    """Returns the proxy that the environment names for encrypted connections to a host; None where it names none.

    Raises:
        CacheunitError: it is of a kind that is not supported.
    """
    proxies = getproxies()
    url = proxies.get("https") or proxies.get("all")
    if not url or proxy_bypass(host):
        return None
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme != "http" or not has_valid_host(parts.geturl()):
        hint = "use an http:// proxy, add the host to NO_PROXY, or build with --no-remote"
        raise fail("the proxy of the environment is of a kind that the remote cache does not support", hint=hint)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    headers = {"Proxy-Authorization": _Secrets.basic(user, password).header} if user or password else {}
    return Proxy(host=parts.hostname or "", port=parts.port or _HTTP_PORT, headers=headers)
