"""`verify`: what a live endpoint reports, held against what was predicted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from cacheunit_build.commands.session import (
    NO,
    OK,
    Session,
    format_option,
    put,
    put_json,
    target_option,
    with_session,
)
from cacheunit_build.errors import fail
from cacheunit_build.ports import Selection

if TYPE_CHECKING:
    from cacheunit_build.edges.endpoint import Endpoint
    from cacheunit_build.verify import Verified

key_option = click.option("--key-env", metavar="NAME", help="Variable that holds the key. Default: CACHEUNIT_API_KEY.")
model_option = click.option("--model", metavar="M", help="Default: the first that the endpoint serves.")
requests_option = click.option(
    "--max-requests", type=click.IntRange(min=1), default=200, show_default=True, help="Send no more; retries count."
)
timeout_option = click.option(
    "--timeout", type=click.FloatRange(min=0.1), default=120.0, show_default=True, help="Seconds for one answer."
)


def endpoint(url: str, key_env: str | None, max_requests: int, timeout: float) -> Endpoint:
    """The endpoint of the command line; the key comes from the environment only."""
    from cacheunit_build.edges.endpoint import KEY_VARIABLE, Bounds, Endpoint

    key = os.environ.get(key_env or KEY_VARIABLE)
    if key_env is not None and not key:
        raise fail(f'there is no key in the environment variable "{key_env}"', hint=f"export {key_env}=…")
    return Endpoint(url, Bounds(requests=max_requests, seconds=timeout), key=key)


@click.command()
@click.argument("url")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@target_option
@model_option
@key_option
@click.option("--warm", is_flag=True, help="Fill the cache only, before a release; say when it is warm.")
@click.option(
    "--attempts", type=click.IntRange(min=1, max=5), default=3, show_default=True, help="Further requests of a prefix."
)
@click.option(
    "--wait", type=click.FloatRange(min=0), default=1.0, show_default=True, help="Seconds before each further request."
)
@requests_option
@timeout_option
@format_option
@with_session
def verify(
    session: Session,
    url: str,
    names: tuple[str, ...],
    target: str | None,
    model: str | None,
    key_env: str | None,
    form: str,
    *,
    warm: bool,
    attempts: int,
    wait: float,
    max_requests: int,
    timeout: float,
) -> int:
    """Send each artifact to a live endpoint with different continuations; compare its hits with the prediction."""
    from cacheunit_build import verify as story
    from cacheunit_build.report.verify import verified_data, verified_text, warmed_text

    with endpoint(url, key_env, max_requests, timeout) as server:
        results = story.verify(
            session.edges(),
            server,
            Selection(names=names, target=target),
            story.Patience(attempts=attempts, wait=wait),
            model=model,
            told=lambda result: _tell(session, result),
        )
    if form == "json":
        put_json(verified_data(results))
    else:
        put(warmed_text(results) if warm else verified_text(results))
    return OK if story.agreed(results) else NO


def _tell(session: Session, result: Verified) -> None:
    if session.verbose:
        observed = "nothing reported" if result.observed is None else f"{result.observed:,} tokens from the cache"
        session.say(f"{result.prefix} for {result.target}, request {result.continuation + 1}: {observed}")


COMMANDS = (verify,)
