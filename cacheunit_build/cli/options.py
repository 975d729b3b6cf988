"""The options that several commands share."""

from __future__ import annotations

import math
import os
from functools import wraps
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from cacheunit_build.cli.completion import complete_name, complete_target
from cacheunit_build.cli.fast_path import NO_REMOTE_VARIABLE
from cacheunit_build.domain.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Callable


"""The environment variable that refuses the remote cache."""


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


def _available_cores() -> int:
    """Returns the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


format_option = format_options("text", "json")
_jobs_option = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    default=_available_cores(),
    help="Number of processes that compile here; excludes --scheduler. Default: number of CPU cores.",
)
_SCHEDULER_VARIABLE = "CACHEUNIT_SCHEDULER"
_scheduler_option = click.option(
    "--scheduler",
    metavar="ADDRESS",
    envvar=_SCHEDULER_VARIABLE,
    help="Compile on the dask cluster with this scheduler, such as tcp://scheduler:8786. Needs the extra dask. "
    f"Or set {_SCHEDULER_VARIABLE}.",
)
no_remote_option = click.option(
    "--no-remote",
    is_flag=True,
    envvar=NO_REMOTE_VARIABLE,
    help="Compile everything, without the remote cache that the setting cache.remote or CACHEUNIT_REMOTE_CACHE names. "
    f"Or set {NO_REMOTE_VARIABLE}=1.",
)
price_option = click.option(
    "--model", metavar="MODEL", help="Show money by the price of this model. Needs the extra prices, and no network."
)
targets_option = click.option(
    "--target",
    "targets",
    metavar="T",
    multiple=True,
    shell_complete=complete_target,
    help="Only this target: its name, the name of a model, or a glob of names. Repeatable.",
)
since_option = click.option(
    "--changed-since", "since", metavar="REV", help="Only prefixes with inputs that changed since this revision of git."
)


def worker_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options `--jobs` and `--scheduler` to a command, of which only one can be given.

    `--jobs` on the command line wins over a scheduler of the environment.
    """

    @wraps(command)
    def run(*arguments: Any, scheduler: str | None, **options: Any) -> Any:  # noqa: ANN401 - what click passes
        source = click.get_current_context().get_parameter_source
        if source("jobs") is ParameterSource.COMMANDLINE and scheduler is not None:
            if source("scheduler") is ParameterSource.COMMANDLINE:
                raise click.UsageError("--jobs and --scheduler exclude one another")
            scheduler = None
        return command(*arguments, scheduler=scheduler, **options)

    return _jobs_option(_scheduler_option(run))


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the argument NAME and the option `--target` to a command, which gets them as one argument `selection`."""

    @wraps(command)
    def run(*arguments: Any, names: tuple[str, ...], targets: tuple[str, ...], **options: Any) -> Any:  # noqa: ANN401
        return command(*arguments, selection=Selection(names=names, targets=targets), **options)

    add_names = click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete_name)
    return add_names(targets_option(run))


def only_once(_: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> str | None:
    """Returns the value of an option that would be overridden silently if it were given again.

    Raises:
        click.BadParameter: it is given several times.
    """
    if len(values) > 1:
        raise click.BadParameter("can be given only once here", param=parameter)
    return values[0] if values else None
