"""The URL of an API, and where its key comes from."""

from __future__ import annotations

from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.web_address import has_valid_host

KEY_VARIABLE = "CACHEUNIT_API_KEY"
"""The environment variable that holds the API key, where no other is named."""

KEY_HINT = f"set the API key in {KEY_VARIABLE}, or name another variable with --key-env"


def base_url(url: str) -> str:
    """Validates the URL of an API and returns it without a final slash.

    http://127.0.0.1:8000       http://127.0.0.1:8000
    https://api.example.com/x/  https://api.example.com/x

    Raises:
        CacheunitError: it is not a valid URL, or it holds a password or a query.
    """
    scheme, _, rest = url.partition("://")
    # An invalid URL is not shown: it may be a key that was given in its place.
    if scheme not in ("http", "https") or not url.isprintable() or not has_valid_host(url):
        raise fail("the URL is not a valid API URL", hint="give the full URL, such as http://127.0.0.1:8000/v1")
    if "@" in rest.partition("/")[0] or "?" in rest or "#" in rest:
        message = "a URL with a password, a query or a fragment is refused, since it would be printed"
        raise fail(message, hint=KEY_HINT)
    return url.rstrip("/")
