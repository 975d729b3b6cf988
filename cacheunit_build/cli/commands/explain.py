"""The command `explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cacheunit_build.cli.changed_since import narrowed
from cacheunit_build.cli.context import OK, Context, with_context
from cacheunit_build.cli.options import format_options, price_option, selection_options, since_option
from cacheunit_build.cli.output_file import output_option, write_blocks, write_report
from cacheunit_build.domain.escaping import json_text

if TYPE_CHECKING:
    from cacheunit_build.domain.selection import Selection


@click.command()
@selection_options
@since_option
@click.option(
    "--sharing",
    "--family",  # the former name
    "show_sharing",
    is_flag=True,
    help="Show which leading units artifacts share, and what would make them share more.",
)
@price_option
@output_option
@format_options("text", "json", "html")
@with_context
def explain(
    context: Context,
    selection: Selection,
    since: str | None,
    model: str | None,
    output: str | None,
    form: str,
    *,
    show_sharing: bool,
) -> int:
    """Explain artifacts: their inputs, their plan with the reason, and what changed since the lock.

    With several targets or variants, what an artifact has in common with one before it is printed once.
    """
    if not selection.names and since is None and not show_sharing:
        raise click.UsageError("Missing argument 'NAME': the prefix to explain; or use --changed-since, or --sharing")
    if show_sharing and model is not None:
        raise click.UsageError("--sharing shows no money: it excludes --model")
    if form == "html" and not show_sharing:
        raise click.UsageError("--format html is for --sharing")
    changed = narrowed(context, selection, since)
    if show_sharing:
        return _explain_sharing(context, changed, output, form)
    from cacheunit_build.builder.explain import explain as explain_artifacts
    from cacheunit_build.cli.prices import targets_with_prices
    from cacheunit_build.reports.explain import explain_blocks, explain_json

    explanations = () if changed is None else explain_artifacts(context.adapters(), changed)
    targets, target_prices = targets_with_prices(context, {item.artifact.target for item in explanations}, model)
    prices = {name: price for name, found in targets.items() if (price := target_prices.of(found)) is not None}
    for note in target_prices.notes(targets.values()):
        context.remark(f"note: {note}")
    if form == "json":
        write_report(context, json_text(explain_json(explanations, prices)), output)
    else:
        write_blocks(context, explain_blocks(explanations, prices, verbose=context.verbose), output)
    return OK


def _explain_sharing(context: Context, selection: Selection | None, output: str | None, form: str) -> int:
    from cacheunit_build.diff.sharing import sharing
    from cacheunit_build.reports.sharing import sharing_blocks, sharing_json

    targets = () if selection is None else sharing(context.adapters(), selection)
    if form == "json":
        write_report(context, json_text(sharing_json(targets)), output)
    elif form == "html":
        from cacheunit_build.reports.sharing_html import sharing_html

        write_report(context, sharing_html(targets), output)
    else:
        write_blocks(context, sharing_blocks(targets, verbose=context.verbose), output)
    return OK
