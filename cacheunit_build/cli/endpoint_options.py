"""The options of commands that talk to a live endpoint, and the client that they configure."""

from __future__ import annotations

import datetime as dt
import os
from typing import TYPE_CHECKING

import click

from cacheunit_build.cli.options import FiniteRange
from cacheunit_build.domain.errors import fail

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cacheunit_build.adapters.system.http_endpoint import HttpEndpoint

LONGEST_WAIT = 86_400
"""The most seconds that an option can ask to wait: a day."""

key_option = click.option(
    "--key-env", metavar="NAME", help="Environment variable that holds the API key. Default: CACHEUNIT_API_KEY."
)
timeout_option = click.option(
    "--timeout",
    type=FiniteRange(min=0.1, max=LONGEST_WAIT),
    default=120.0,
    show_default=True,
    help="Seconds in which one whole response must arrive.",
)


def requests_option(default: int) -> Callable[[Any], Any]:
    """Returns the option that limits the number of requests."""
    return click.option(
        "--max-requests",
        type=click.IntRange(min=1),
        default=default,
        show_default=True,
        help="Maximum number of requests, retries included.",
    )


def open_endpoint(url: str, key_env: str | None, max_requests: int, timeout: float) -> HttpEndpoint:
    """Returns a client for the endpoint at a URL. The key comes from the environment only.

    Args:
        url: base URL of the API.
        key_env: environment variable that holds the key; None for the default one, which may be unset.
        max_requests: the most requests to send.
        timeout: seconds in which one whole response must arrive.

    Raises:
        CacheunitError: the URL or the key is not valid, the named variable is not set, or httpx is not installed.
    """
    from cacheunit_build.adapters.system.api_url import KEY_VARIABLE
    from cacheunit_build.adapters.system.http_endpoint import EndpointLimits, HttpEndpoint

    key = os.environ.get(key_env or KEY_VARIABLE)
    if key_env is not None and not key:
        # Its name is not shown: it may be the key itself, given in place of a name.
        raise fail("the environment variable that --key-env names is not set", hint="give the name of a variable")
    return HttpEndpoint(url, EndpointLimits(max_requests=max_requests, timeout=timeout), key=key)


def today() -> str:
    """Returns the present day in UTC, for what an endpoint answers today; builds read no clock."""
    return dt.datetime.now(dt.UTC).date().isoformat()
