"""The command line: the options of every command, the table of commands, and exit codes."""

from __future__ import annotations

import io
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click

from cacheunit_build.cli.context import BUG, INTERRUPTED, OK, WRONG_INPUT
from cacheunit_build.cli.global_options import GLOBAL_OPTIONS, add_global_options
from cacheunit_build.cli.output import print_faults, print_remark
from cacheunit_build.cli.project_code import help_line
from cacheunit_build.cli.streams import exit_code, write_output
from cacheunit_build.domain.errors import CacheunitError, Fault, did_you_mean, fail

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "build": "Compile what changed, write artifacts, then the lock.",
    "calibrate": "Record how many tokens the provider counts in estimated artifacts.",
    "check": "Compile in memory and compare with the lock and build/.",
    "clean": "Remove what builds of this project cached.",
    "count": "Count the tokens of a text.",
    "diff": "Show what a change does to the cache.",
    "explain": "Explain artifacts: inputs, plan, changes since the lock.",
    "git": "Set git up to merge and show locks by entry.",
    "init": "Create a project, with a prefix for each existing prompt.",
    "lint": "Show what would break the cache or leak information.",
    "log": "Show how tokens, padding and cached share changed by commit.",
    "pad": "Print a text with padding up to a cache-unit boundary.",
    "probe": "Measure the cache rule of a live endpoint.",
    "schema": "Print the JSON Schema of a manifest or of the settings.",
    "show": "Print the exact bytes of an artifact.",
    "targets": "List the known targets and those of the project.",
    "verify": "Send artifacts to a live endpoint and compare its cache hits.",
    "watch": "Build again whenever a source changes.",
}
"""Every command with its line in the help. `commands/NAME.py` has the command NAME, and is imported when it runs."""


class CommandTable(click.Group):
    """A group of the commands in `COMMANDS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Returns the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        """Imports a command; None where there is none of that name."""
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"cacheunit_build.cli.commands.{name}"), name)
        command.epilog = help_line(name)
        return add_global_options(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Returns the command that the arguments begin with.

        Raises:
            CacheunitError: there is none of that name.
        """
        if args[0] not in COMMANDS and not ctx.resilient_parsing:  # a shell that completes a command asks for no error
            hint = did_you_mean(args[0], COMMANDS) or '"cacheunit --help" lists the commands'
            raise fail(f'there is no command "{args[0]}"', hint=hint)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Writes the list of commands into the help, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def main() -> None:
    """Runs the command line and exits."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
    sys.exit(exit_code(run(sys.argv[1:])))


def run(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit code."""
    try:
        code = cacheunit.main(list(arguments), prog_name="cacheunit", standalone_mode=False)
        return int(code or OK)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        print_remark(*error.format_message().split("\n"))
        return WRONG_INPUT
    except click.ClickException as error:
        print_faults([Fault(message=error.format_message(), hint=_usage_hint(error))])
        return WRONG_INPUT
    except CacheunitError as error:
        print_faults(error.faults)
        return WRONG_INPUT
    except SystemExit:  # click's own, where it prints help and the reader closed the pipe
        write_output(b"")
        return OK
    except Exception as error:  # noqa: BLE001 - a bug, shown with its traceback
        return _unexpected(error)


def _unexpected(error: Exception) -> int:
    """Reports an exception that no command expects, and returns the exit code."""
    # An interrupt between two steps of a lock of `threading` raises "release unlocked lock" on its way out.
    if isinstance(error.__context__, KeyboardInterrupt):
        return INTERRUPTED
    # Click prints help itself. What it could not write is still buffered, and cannot be written now either.
    reason = write_output(b"") if isinstance(error, OSError) else None
    if reason is not None:
        print_faults([Fault(message=f"cannot write to standard output: {reason}")])
        return WRONG_INPUT
    import traceback

    print_remark(*"".join(traceback.format_exception(error)).rstrip("\n").split("\n"))
    return BUG


def _usage_hint(error: click.ClickException) -> str | None:
    context = getattr(error, "ctx", None)
    return None if context is None else f'"{context.command_path} --help" shows its usage'


@click.group(cls=CommandTable, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="cacheunit-build", prog_name="cacheunit")
def cacheunit() -> None:
    """Build system for the static prefix of LLM requests.

    Exit codes: 0 success, 1 a check failed or differences were found, 2 the input is wrong, 130 interrupted, 70 a bug.
    """


cacheunit.params = [*GLOBAL_OPTIONS, *cacheunit.params]
