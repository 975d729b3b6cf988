"""Commands for a live endpoint: `verify` holds what it reports against the prediction, `probe` measures its rule."""

from __future__ import annotations

import datetime as dt
import os
import secrets
from typing import TYPE_CHECKING

import click

from cacheunit_build.cli.context import NO, OK, Session, format_option, put, put_json, target_option, with_session
from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.protocols import Selection

if TYPE_CHECKING:
    from cacheunit_build.adapters.system.http_endpoint import HttpEndpoint
    from cacheunit_build.domain.target import FormatName, Target
    from cacheunit_build.endpoints.verify import VerifyResult
    from cacheunit_build.reports.probe import Most

key_option = click.option("--key-env", metavar="NAME", help="Variable that holds the key. Default: CACHEUNIT_API_KEY.")
model_option = click.option("--model", metavar="M", help="Default: the first that the endpoint serves.")
requests_option = click.option(
    "--max-requests", type=click.IntRange(min=1), default=200, show_default=True, help="Send no more; retries count."
)
timeout_option = click.option(
    "--timeout", type=click.FloatRange(min=0.1), default=120.0, show_default=True, help="Seconds for one answer."
)


def endpoint(url: str, key_env: str | None, max_requests: int, timeout: float) -> HttpEndpoint:
    """The endpoint of the command line; the key comes from the environment only."""
    from cacheunit_build.adapters.system.http_endpoint import KEY_VARIABLE, Bounds, HttpEndpoint

    key = os.environ.get(key_env or KEY_VARIABLE)
    if key_env is not None and not key:
        raise fail(f'there is no key in the environment variable "{key_env}"', hint=f"export {key_env}=…")
    return HttpEndpoint(url, Bounds(requests=max_requests, seconds=timeout), key=key)


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
    from cacheunit_build.endpoints import verify as story
    from cacheunit_build.reports.verify import verified_data, verified_text, warmed_text

    with endpoint(url, key_env, max_requests, timeout) as server:
        results = story.verify(
            session.adapters(),
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


@click.command()
@click.argument("url")
@click.option("--model", metavar="M", required=True, help="The model to ask.")
@click.option(
    "--request",
    "request_form",
    type=click.Choice(("openai-chat", "openai-responses", "anthropic-messages", "text")),
    default="openai-chat",
    show_default=True,
    help="The format of requests.",
)
@key_option
@click.option(
    "--max-requests", type=click.IntRange(min=1), default=80, show_default=True, help="Send no more; retries count."
)
@click.option(
    "--max-tokens", type=click.IntRange(min=1), default=300_000, show_default=True, help="Send no more input, in all."
)
@timeout_option
@click.option(
    "--wait", type=click.FloatRange(min=0), default=1.0, show_default=True, help="Seconds, where a hit may come late."
)
@click.option("--dry-run", is_flag=True, help="Send nothing; say what would be sent at most, and what it would cost.")
@format_option
@with_session
def probe(
    session: Session,
    url: str,
    model: str,
    request_form: FormatName,
    key_env: str | None,
    form: str,
    *,
    max_requests: int,
    max_tokens: int,
    timeout: float,
    wait: float,
    dry_run: bool,
) -> int:
    """Measure the cache rule of a live endpoint with few requests that mean nothing; needs no project."""
    from cacheunit_build.endpoints import probe as story
    from cacheunit_build.endpoints.probe_session import Subject
    from cacheunit_build.reports import probe as report

    with endpoint(url, key_env, max_requests, timeout) as server:
        known = _known_target(session, model)
        if dry_run:
            most = _most(server, known, request_form, max_requests, max_tokens)
            put_json(report.dry_data(most)) if form == "json" else put(report.dry_text(most, _EXAMPLE))
            return OK
        nonce = secrets.token_hex(8)
        subject = Subject(model=model, form=request_form, nonce=nonce, tokens=max_tokens, wait=wait)
        probed = story.probe(server, subject)
        day = dt.datetime.now(dt.UTC).date().isoformat()
        place = report.ProbeContext(host=server.host, model=model, form=request_form, day=day, known=known)
    if form == "json":
        put_json(report.probed_data(probed, place))
    else:
        put(report.probed_text(probed, place))
    return NO if probed.kind == "unknown" else OK


_EXAMPLE = "words drawn at random, one word of filler over and over, an odd word at the end; nothing of a project"


def _known_target(session: Session, model: str) -> Target | None:
    """The target that has this model: one of the package, or of the project around, if there is one."""
    from cacheunit_build.compiler.project import read_project
    from cacheunit_build.targets.loader import find_target

    _, known = read_project(session.files())
    return find_target(model, known)


def _most(server: HttpEndpoint, known: Target | None, form: FormatName, requests: int, tokens: int) -> Most:
    """What is sent at most, at the prices of the known target."""
    from cacheunit_build.reports.probe import Most

    write = 1.0 if known is None or known.cache.write is None else max(1.0, known.cache.write)
    price = None if known is None else known.price
    return Most(requests=requests, tokens=tokens, output=server.output(form), write=write, price=price)


def _tell(session: Session, result: VerifyResult) -> None:
    if session.verbose:
        observed = "nothing reported" if result.observed is None else f"{result.observed:,} tokens from the cache"
        session.say(f"{result.prefix} for {result.target}, request {result.continuation + 1}: {observed}")


COMMANDS = (probe, verify)
