"""The standard streams where they are closed or cannot be written. Imports next to nothing, for the fast path."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

_WRONG_INPUT = 2
_lost_errors: list[str] = []
"""Why something could not be written to standard error, each time."""


def open_closed_streams() -> None:
    """Opens a stream that fails when it is used in place of each standard stream that the caller closed.

    Otherwise, the next file that is opened would get its number, and what is printed would go there.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDONLY if number else os.O_WRONLY)
            if null != number:
                os.dup2(null, number)
                os.close(null)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - by its number
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def write_output(data: bytes) -> str | None:
    """Writes to standard output; returns the error where that fails. A reader that closed the pipe is no error."""
    return _write(sys.stdout, data)


def write_errors(text: str) -> None:
    """Writes to standard error; where that fails, `exit_code` says so, since nothing else can."""
    reason = _write(sys.stderr, text.encode("utf-8", "backslashreplace"))
    if reason is not None:
        _lost_errors.append(reason)


def exit_code(code: int) -> int:
    """Returns the exit code of a run: 2 where it answers with a lower one, and a part of that could not be written."""
    return max(code, _WRONG_INPUT) if _lost_errors else code


def _write(stream: TextIO, data: bytes) -> str | None:
    try:
        stream.flush()
        stream.buffer.write(data)
        stream.buffer.flush()
    except OSError as error:
        null = os.open(os.devnull, os.O_WRONLY)  # for what is still buffered, and all that follows
        os.dup2(null, stream.fileno())
        os.close(null)
        return None if isinstance(error, BrokenPipeError) else str(error.strerror)
    return None
