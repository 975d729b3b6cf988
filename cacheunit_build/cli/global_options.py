"""The options of every command. They stand before or behind its name, and are stored for the whole run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cacheunit_build.cli.project_code import OPTION, VARIABLE
from cacheunit_build.domain.errors import fail

_KEY = "cacheunit_build.cli."


def _store(context: click.Context, parameter: click.Parameter, value: Any) -> None:  # noqa: ANN401 - click's signature
    """Stores the value of an option that is given; behind the command, it replaces one before it."""
    if value:
        context.meta[f"{_KEY}{parameter.name}"] = value


def _option(*declarations: str, **keywords: Any) -> click.Option:
    return click.Option(declarations, callback=_store, expose_value=False, **keywords)


GLOBAL_OPTIONS = (
    _option("-C", "folder", metavar="DIR", type=click.Path(exists=True, file_okay=False), help="Run in this folder."),
    _option("-q", "--quiet", is_flag=True, help="Print only data and errors."),
    _option("-v", "--verbose", is_flag=True, help="Print reasons too."),
    _option(
        OPTION,
        is_flag=True,
        envvar=VARIABLE,
        help=f"Run no Python of the project: refuse the encoders that its targets name. Or set {VARIABLE}=1.",
    ),
)


def add_global_options(command: click.Command) -> click.Command:
    """Returns a command that takes the options of every command too, and so do the commands of a group."""
    own = [parameter for parameter in command.params if parameter not in GLOBAL_OPTIONS]
    command.params = [*own, *GLOBAL_OPTIONS]
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            add_global_options(inner)
    return command


def is_set(context: click.Context, name: str) -> bool:
    """Returns whether a flag is given, by its long name."""
    return bool(context.meta.get(f"{_KEY}{name}"))


def working_folder(context: click.Context) -> Path:
    """Returns the folder that the command runs in.

    Raises:
        CacheunitError: it cannot be opened.
    """
    folder = context.meta.get(f"{_KEY}folder", ".")
    try:
        return Path(folder).resolve()
    except OSError as error:
        raise fail(f'cannot open the folder "{folder}": {error.strerror}') from None
