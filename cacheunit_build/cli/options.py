"""The options that several commands share."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable


def format_options(*forms: str) -> Callable[[Any], Any]:
    """Returns the option for the report format; the first of `forms` is the default."""
    return click.option(
        "--format", "form", type=click.Choice(forms), default=forms[0], show_default=True, help="Report format."
    )


class FiniteRange(click.FloatRange):
    """A range of numbers, without `nan`, which is in every range of click."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - click's signature
        """Returns the number that an option has."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


names_argument = click.argument("names", metavar="[NAME]...", nargs=-1)
format_option = format_options("text", "json")
jobs_option = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    default=os.cpu_count() or 1,
    help="Number of threads that compile. Default: number of CPU cores.",
)
price_option = click.option(
    "--model", metavar="MODEL", help="Show money by the price of this model. Needs the extra prices, and no network."
)
target_option = click.option("--target", metavar="T", help="Only this target, by its name or the name of a model.")
