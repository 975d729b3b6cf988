"""The command `probe`: measures the cache rule of a live endpoint."""

from __future__ import annotations

import datetime as dt
import secrets
from typing import TYPE_CHECKING

import click

from cacheunit_build.cli.context import DIFFERENT, OK, Context, with_context
from cacheunit_build.cli.endpoint_options import (
    LONGEST_WAIT,
    key_option,
    open_endpoint,
    requests_option,
    timeout_option,
)
from cacheunit_build.cli.options import FiniteRange, format_option
from cacheunit_build.cli.output import print_blocks, print_json
from cacheunit_build.request_formats.formats import FORMATS

if TYPE_CHECKING:
    from cacheunit_build.domain.target import FormatName, Target
    from cacheunit_build.reports.probe import ProbeBudget

_CONTENT = "random words, then one word repeated, then a different word at the end; no text of the project"


@click.command()
@click.argument("url")
@click.option("--model", metavar="M", required=True, help="Model to send requests to.")
@click.option(
    "--request",
    "request_format",
    type=click.Choice(tuple(FORMATS)),
    default="openai-chat",
    show_default=True,
    help="Request format.",
)
@key_option
@requests_option(default=80)
@click.option(
    "--max-tokens",
    type=click.IntRange(min=1),
    default=300_000,
    show_default=True,
    help="Maximum number of input tokens, in all requests together.",
)
@timeout_option
@click.option(
    "--wait",
    type=FiniteRange(min=0, max=LONGEST_WAIT),
    default=1.0,
    show_default=True,
    help="Seconds to wait before a prefix that was not served is sent again.",
)
@click.option("--dry-run", is_flag=True, help="Send nothing; show what would be sent at most, and its cost.")
@format_option
@with_context
def probe(
    context: Context,
    url: str,
    model: str,
    request_format: FormatName,
    key_env: str | None,
    form: str,
    *,
    max_requests: int,
    max_tokens: int,
    timeout: float,
    wait: float,
    dry_run: bool,
) -> int:
    """Measure the cache rule of a live endpoint with a few generated requests.

    Needs no project, and sends none of its text.
    """
    from cacheunit_build.endpoints.probe import probe as measure_rule
    from cacheunit_build.endpoints.probe_request import ProbeSettings
    from cacheunit_build.reports import probe as report

    with open_endpoint(url, key_env, max_requests, timeout) as endpoint:
        known_target = _known_target(context, model)
        if dry_run:
            output = FORMATS[request_format].route.output_tokens
            budget = _budget(known_target, max_requests, max_tokens, output)
            print_json(report.dry_run_json(budget)) if form == "json" else print_blocks(
                report.dry_run_blocks(budget, _CONTENT)
            )
            return OK
        settings = ProbeSettings(
            model=model,
            request_format=FORMATS[request_format],
            nonce=secrets.token_hex(8),
            max_tokens=max_tokens,
            wait=wait,
        )
        result = measure_rule(endpoint, settings)
        measured = report.ProbeContext(
            host=endpoint.host,
            model=model,
            request_format=request_format,
            date=dt.datetime.now(dt.UTC).date().isoformat(),
            known_target=known_target,
        )
    print_json(report.probe_json(result, measured)) if form == "json" else print_blocks(
        report.probe_blocks(result, measured)
    )
    return DIFFERENT if result.kind == "unknown" else OK


def _known_target(context: Context, model: str) -> Target | None:
    """Returns the target that lists a model, of the package or else of the project around; None where there is none.

    One of the project may be what an earlier run measured, and printed to be pasted.
    """
    from cacheunit_build.compiler.project import read_project
    from cacheunit_build.targets.loader import known_targets
    from cacheunit_build.targets.lookup import find_target

    _, targets = read_project(context.files())
    return find_target(model, {name: targets[name] for name in known_targets()}) or find_target(model, targets)


def _budget(known_target: Target | None, requests: int, tokens: int, output: int) -> ProbeBudget:
    """Returns the most that is sent, at the prices of the known target; at the plain price where a price is unknown."""
    from cacheunit_build.reports.probe import ProbeBudget

    write = None if known_target is None else known_target.cache.write
    price = None if known_target is None else known_target.price
    return ProbeBudget(requests=requests, tokens=tokens, output=output, write=max(1.0, write or 1.0), price=price)
