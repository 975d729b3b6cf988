"""Checks URLs of servers that settings, options and the environment name."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_LOOPBACK = re.compile(r"localhost|127(?:\.\d{1,3}){3}|::1")
_EXAMPLE = "give an address such as https://cache.example.com/cacheunit"


def has_valid_host(url: str) -> bool:
    """Returns whether a URL names a host, and a valid port if it names one."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0 and not re.search(r"\s", url)
    except ValueError:
        return False


def remote_cache_problem(url: str) -> tuple[str, str] | None:
    """Returns what is wrong with the URL of a remote cache, and a hint; None where nothing is.

    An invalid URL is not shown: it may hold a password, or be one that was given in its place.
    """
    if not url.isascii() or not url.isprintable() or "\\" in url or not has_valid_host(url):
        return "the remote cache is not a valid URL", _EXAMPLE
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http"):
        return "the URL of the remote cache must begin with https://", _EXAMPLE
    if "@" in parts.netloc or "?" in url or "#" in url:
        hint = "credentials belong into the environment or netrc: docs/remote.md"
        return "the URL of the remote cache must have no user, password, query or fragment", hint
    if parts.scheme == "http" and not is_loopback(url):
        hint = "use https://; http:// is for servers on this machine, such as http://127.0.0.1:8080"
        return "the remote cache must not be read without encryption", hint
    if any(part in (".", "..") for part in parts.path.split("/")) or "//" in parts.path or "%" in parts.path:
        return "the path of the remote cache must have no empty, relative or encoded parts", _EXAMPLE
    return None


def is_loopback(url: str) -> bool:
    """Returns whether the host of a valid URL is this machine, by its name."""
    return _LOOPBACK.fullmatch(urlsplit(url).hostname or "") is not None
