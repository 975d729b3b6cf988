"""The command `calibrate`: records how many tokens a provider counts in estimated artifacts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cacheunit_build.cli.context import OK, Context, with_context
from cacheunit_build.cli.endpoint_options import key_option, open_endpoint, requests_option, timeout_option, today
from cacheunit_build.cli.gate import lint_gate
from cacheunit_build.cli.options import format_option, selection_options
from cacheunit_build.cli.output import print_blocks, print_json
from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.file_names import readable_name

if TYPE_CHECKING:
    from cacheunit_build.domain.recorded_count import RecordedCount
    from cacheunit_build.domain.selection import Selection
    from cacheunit_build.endpoints.calibrate import Calibration


@click.command()
@selection_options
@click.option("--url", metavar="URL", help="Base URL of the API. Default: that of the provider of the target's format.")
@key_option
@click.option("--dry-run", is_flag=True, help="Show what would be counted. Send nothing, write nothing.")
@requests_option(default=1000)
@timeout_option
@format_option
@with_context
def calibrate(
    context: Context,
    selection: Selection,
    url: str | None,
    key_env: str | None,
    form: str,
    *,
    dry_run: bool,
    max_requests: int,
    timeout: float,
) -> int:
    """Record how many tokens the provider counts in estimated artifacts.

    Providers count for free, and no model is run. The counts go into cacheunit.counts, to be committed: builds take
    them while the bytes are the same. A run that fails records nothing.
    """
    from cacheunit_build.cli.prices import prices_by_model
    from cacheunit_build.endpoints.calibrate import plan_calibration, record
    from cacheunit_build.reports.calibrate import calibrate_blocks, calibrate_json

    calibration = plan_calibration(context.adapters(), selection, lint_gate())
    counts: tuple[RecordedCount, ...] = ()
    if calibration.questions and not dry_run:
        counts = _ask(context, calibration, url, key_env, max_requests, timeout)
        record(context.adapters(), counts)  # opened again, since others may have written meanwhile
    prices = prices_by_model(context, [(item.target, item.model) for item in calibration.questions])
    if form == "json":
        print_json(calibrate_json(calibration, counts, prices))
    else:
        print_blocks(calibrate_blocks(calibration, counts, prices, dry_run=dry_run))
    return OK


def _ask(
    context: Context, calibration: Calibration, url: str | None, key_env: str | None, max_requests: int, timeout: float
) -> tuple[RecordedCount, ...]:
    """Returns the counts that the provider gives; with `--verbose`, prints each as it comes.

    Raises:
        CacheunitError: the base URL is not known, more requests are needed than are allowed, or the provider does not
            answer.
    """
    from cacheunit_build.endpoints.calibrate import calibrate as ask_provider
    from cacheunit_build.reports.calibrate import recorded_cell

    base = url if url is not None or calibration.route is None else calibration.route.url
    if base is None:
        raise fail("the base URL of the API depends on region and account", hint="give it with --url")
    if calibration.requests > max_requests:
        message = f"{calibration.requests:,} requests are needed, but --max-requests allows {max_requests:,}"
        raise fail(message, hint="raise --max-requests, or name fewer prefixes")

    def show(count: RecordedCount) -> None:
        if context.verbose:
            context.remark(f"{readable_name(count.prefix)} for {count.target}: {recorded_cell(count)} tokens")

    with open_endpoint(base, key_env, max_requests, timeout) as endpoint:
        return ask_provider(endpoint, calibration, today(), show)
