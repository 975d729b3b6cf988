"""The command `verify`: compares the cache hits of a live endpoint with the predicted ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cacheunit_build.cli.changed_since import narrowed
from cacheunit_build.cli.context import DIFFERENT, OK, Context, with_context
from cacheunit_build.cli.endpoint_options import (
    LONGEST_WAIT,
    key_option,
    open_endpoint,
    requests_option,
    timeout_option,
    today,
)
from cacheunit_build.cli.options import FiniteRange, format_options, selection_options, since_option
from cacheunit_build.cli.output_file import check_output, output_option, write_blocks, write_report
from cacheunit_build.domain.escaping import json_text
from cacheunit_build.domain.file_names import COUNTS_FILE, readable_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cacheunit_build.domain.selection import Selection
    from cacheunit_build.endpoints.verify import VerifyResult


@click.command()
@click.argument("url")
@selection_options
@since_option
@click.option("--model", metavar="M", help="Model to send requests to. Default: the first one that the endpoint lists.")
@key_option
@click.option("--warm", is_flag=True, help="Fill the cache before a release; report when each artifact is cached.")
@click.option(
    "--attempts",
    type=click.IntRange(min=1, max=20),
    default=3,
    show_default=True,
    help="Maximum number of requests per artifact after the first one. For a best-effort target: the number of "
    "requests after the warm-up requests, at least 5.",
)
@click.option(
    "--min-share",
    type=FiniteRange(min=0, max=1),
    default=0.5,
    show_default=True,
    help="Share of requests to a best-effort target that must hit as predicted.",
)
@click.option(
    "--wait",
    type=FiniteRange(min=0, max=LONGEST_WAIT),
    default=1.0,
    show_default=True,
    help="Seconds to wait before each of these requests.",
)
@click.option(
    "--record", is_flag=True, help="Record the tokens that responses report at the last marker in cacheunit.counts."
)
@requests_option(default=200)
@timeout_option
@output_option
@format_options("text", "json", "html")
@with_context
def verify(
    context: Context,
    url: str,
    selection: Selection,
    since: str | None,
    model: str | None,
    key_env: str | None,
    output: str | None,
    form: str,
    *,
    warm: bool,
    record: bool,
    attempts: int,
    min_share: float,
    wait: float,
    max_requests: int,
    timeout: float,
) -> int:
    """Send artifacts to a live endpoint and compare its cache hits with the prediction.

    Each artifact is sent several times, with different user messages. If the provider does not guarantee hits, the
    share of requests that hit decides.
    """
    from cacheunit_build.endpoints.verify import VerifySettings, has_passed
    from cacheunit_build.endpoints.verify import verify as verify_artifacts

    check_output(context, output)
    settings = VerifySettings(
        attempts=attempts,
        wait=wait,
        min_share=min_share,
        warm=warm,
        model=model,
        record_day=today() if record else None,
    )
    changed = narrowed(context, selection, since)
    results: list[VerifyResult] = []
    with open_endpoint(url, key_env, max_requests, timeout) as endpoint:
        for result in () if changed is None else verify_artifacts(context.adapters(), endpoint, changed, settings):
            _report_progress(context, result)
            results.append(result)
    if record:
        _record(context, results)
    if changed is not None or form != "text":
        _report(context, results, output, form, warm=warm)
    return OK if has_passed(results) else DIFFERENT


def _report(context: Context, results: Sequence[VerifyResult], output: str | None, form: str, *, warm: bool) -> None:
    """Prints the report, or writes it to a file."""
    from cacheunit_build.reports.verify import verify_blocks, verify_json, warm_up_blocks

    if form == "json":
        write_report(context, json_text(verify_json(results)), output)
    elif form == "html":
        from cacheunit_build.reports.verify_html import verify_html

        write_report(context, verify_html(results, warm=warm), output)
    else:
        write_blocks(context, warm_up_blocks(results) if warm else verify_blocks(results), output)


def _record(context: Context, results: Sequence[VerifyResult]) -> None:
    """Writes the counts that responses reported into the counts file."""
    from cacheunit_build.endpoints.calibrate import record

    counts = [result.recorded for result in results if result.recorded is not None]
    record(context.adapters(), counts)  # opened again, since others may have written meanwhile
    for result in results:
        if result.recorded is None and result.verdict != "warm-up":
            name = f"{readable_name(result.prefix)} for {result.target}"
            context.remark(
                f"note: {name}: not recorded, since no two responses report the same tokens at the last marker"
            )
    if counts:
        context.remark(f'{len(counts):,} recorded in {COUNTS_FILE}: run "cacheunit build"')


def _report_progress(context: Context, result: VerifyResult) -> None:
    """With `--verbose`, prints the hit of one request."""
    if context.verbose:
        observed = "no cached tokens reported" if result.observed is None else f"{result.observed:,} tokens cached"
        context.remark(
            f"{readable_name(result.prefix)} for {result.target}, request {result.continuation + 1}: {observed}"
        )
