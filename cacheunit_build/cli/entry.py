"""The start of the program: a build or check with nothing to do is answered without importing the command line."""

from __future__ import annotations

import atexit
import os
import sys

from cacheunit_build.cli.fast_path import unchanged_output
from cacheunit_build.cli.streams import exit_code, open_closed_streams, write_errors, write_output

_WRONG_INPUT = 2
_final_code: list[int] = []
"""The exit code of the process, where it ends without freeing what it loaded."""


def main() -> None:
    """Runs the command line and exits."""
    open_closed_streams()
    if sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode:
        # By the locale, Python would read and write the names of files in another encoding.
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606 - this same program
    folder = _working_folder()
    output = None if folder is None else unchanged_output(folder, sys.argv[1:])
    if output is not None:
        sys.exit(exit_code(_print(f"{output}\n".encode())))
    atexit.register(_end_process)  # before all others, so that it is called last
    from cacheunit_build.cli.main import main as run_command_line

    try:
        run_command_line()
    except SystemExit as stop:
        if "tiktoken" in sys.modules and isinstance(stop.code, int):
            _final_code.append(stop.code)
        raise


def _end_process() -> None:
    """Ends a process that loaded a vocabulary, as mypy does: to free each of its tokens takes a tenth of a short build.

    By now, all threads have ended, and files are closed.
    """
    if _final_code:
        for stream in (sys.stdout, sys.stderr):
            try:  # noqa: SIM105 - contextlib would be imported for each run
                stream.flush()
            except (OSError, ValueError):
                pass
        os._exit(_final_code[-1])


def _working_folder() -> str | None:
    """Returns the working folder; None where it was removed, which the command line reports."""
    try:
        return os.getcwd()
    except OSError:
        return None


def _print(data: bytes) -> int:
    """Writes to standard output as `output.print_escaped` does, whose imports would take longer than the answer."""
    reason = write_output(data)
    if reason is None:
        return 0
    write_errors(f"error: cannot write to standard output: {reason}\n")
    return _WRONG_INPUT
