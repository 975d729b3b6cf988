"""The command `count`."""

from __future__ import annotations

import click

from cacheunit_build.cli.context import OK, Context
from cacheunit_build.cli.output import print_json, print_text
from cacheunit_build.cli.text_input import read_text, text_counter, text_options


@click.command()
@text_options
def count(context: Context, file: str, target: str | None, tokenizer: str | None, unit: int | None, form: str) -> int:
    """Count the tokens of a text: its static tokens in a target's frame, or all of them with --tokenizer."""
    from cacheunit_build.compiler.count import count_text
    from cacheunit_build.reports.count import count_json, count_lines

    text = read_text(context, file)
    counter = text_counter(context, target, tokenizer, unit)
    result = count_text(text, counter.tokenizer, target=counter.target, unit=counter.unit)
    if form == "json":
        print_json(count_json(result, counter.left_out))
    else:
        print_text(str(result.tokens))
        context.remark(*count_lines(result, counter.left_out))
    return OK
