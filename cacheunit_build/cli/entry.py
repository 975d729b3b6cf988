"""The start of the program: a build or check with nothing to do is answered without importing the command line."""

from __future__ import annotations

import os
import sys

from cacheunit_build.cli.fast_path import unchanged_output


def main() -> None:
    """Runs the command line and exits."""
    if sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode:
        # By the locale, Python would read and write the names of files in another encoding.
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606 - this same program
    output = unchanged_output(os.getcwd(), sys.argv[1:])
    if output is not None:
        _print(f"{output}\n".encode())
        return
    from cacheunit_build.cli.main import main as run_command_line

    run_command_line()


def _print(data: bytes) -> None:
    """Writes to standard output as `output.print_bytes` does, whose imports would take longer than the answer."""
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            sys.stderr.write(f"error: cannot write to standard output: {error.strerror}\n")
            sys.exit(2)
