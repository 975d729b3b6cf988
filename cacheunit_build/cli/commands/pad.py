"""The command `pad`."""

from __future__ import annotations

import click

from cacheunit_build.cli.context import OK, Context
from cacheunit_build.cli.output import print_bytes, print_json
from cacheunit_build.cli.text_input import read_text, text_counter, text_options


@click.command()
@text_options
def pad(context: Context, file: str, target: str | None, tokenizer: str | None, unit: int | None, form: str) -> int:
    """Print a text with the padding that ends it on a cache-unit boundary."""
    from cacheunit_build.compiler.count import count_text, padding_for
    from cacheunit_build.reports.count import count_json, count_lines

    text = read_text(context, file)
    counter = text_counter(context, target, tokenizer, unit)
    padding = padding_for(text, counter.tokenizer, target=counter.target, unit=counter.unit)
    result = count_text(text + padding, counter.tokenizer, target=counter.target, unit=counter.unit)
    if form == "json":
        print_json({**count_json(result, counter.left_out), "text": text + padding, "padding_text": padding})
    else:
        print_bytes((text + padding).encode())
        context.remark(*count_lines(result, counter.left_out))
    return OK
