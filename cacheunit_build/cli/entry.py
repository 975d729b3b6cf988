"""Where the program starts: a `build` or `check` that finds nothing to do needs no more than this."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Runs the command line and exits."""
    if sys.argv[1:] in (["build"], ["check"]):
        from cacheunit_build.cli.fast_path import sealed_output

        output = sealed_output(os.getcwd(), sys.argv[1])  # noqa: PTH109 - as the whole command line finds it
        if output is not None:
            _put(f"{output}\n".encode())
            return
    from cacheunit_build.cli.main import main as whole

    whole()


def _put(data: bytes) -> None:
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
