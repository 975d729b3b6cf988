"""The command line: the options of every command, and exit codes."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cacheunit_build.cli.commands import count as texts
from cacheunit_build.cli.commands import diff as review
from cacheunit_build.cli.commands import git, lint, probe, project, setup, verify, watch
from cacheunit_build.cli.context import BUG, INTERRUPTED, OK, WRONG, Session, say_faults
from cacheunit_build.domain.errors import CacheunitError, Fault

if TYPE_CHECKING:
    from collections.abc import Sequence


def main() -> None:
    """Runs the command line and exits."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Runs one command; gives its exit code."""
    try:
        code = cacheunit.main(list(arguments), prog_name="cacheunit", standalone_mode=False)
        return int(code or OK)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.ClickException as error:
        say_faults([Fault(message=error.format_message(), hint=_usage(error))])
        return WRONG
    except CacheunitError as error:
        say_faults(error.faults)
        return WRONG
    except Exception:  # noqa: BLE001 - a bug, shown whole
        import traceback

        traceback.print_exc()
        return BUG


def _usage(error: click.ClickException) -> str | None:
    context = getattr(error, "ctx", None)
    return None if context is None else f'"{context.command_path} --help" lists what it takes'


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-C",
    "folder",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    default=".",
    help="Run in that folder.",
)
@click.option("-q", "--quiet", is_flag=True, help="No talk, only data and errors.")
@click.option("-v", "--verbose", is_flag=True, help="Say why, too.")
@click.version_option(package_name="cacheunit-build", prog_name="cacheunit")
@click.pass_context
def cacheunit(context: click.Context, folder: str, *, quiet: bool, verbose: bool) -> None:
    """Build system for the static prefix of LLM requests.

    Exit codes: 0 yes, 1 the answer is no, 2 the input is wrong, 130 interrupted, 70 a bug.
    """
    context.obj = Session(Path(folder).resolve(), quiet=quiet, verbose=verbose)


_ROOMS = (project, review, lint, texts, setup, watch, verify, probe, git)
for command in (command for room in _ROOMS for command in room.COMMANDS):
    cacheunit.add_command(command)
