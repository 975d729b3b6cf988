"""A real terminal of a given size, in which a program runs while a test looks at its screen."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyte

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

PROGRAMS = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


class Terminal:
    """A program in a terminal; its screen is that of a VT100.

    Args:
        program: the program and its arguments.
        folder: where it runs.
        columns: the width of the terminal.
        lines: the height of the terminal.
        environment: variables to set; without NO_COLOR and COLUMNS of the tests.
    """

    def __init__(
        self,
        program: Sequence[str],
        folder: Path,
        *,
        columns: int = 100,
        lines: int = 40,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._screen = pyte.HistoryScreen(columns, lines, history=10_000, ratio=1)
        self._stream = pyte.ByteStream(self._screen)
        self.shown = b""
        self._terminal, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        variables = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS", "LINES")}
        variables |= {"TERM": "xterm-256color", "PATH": PROGRAMS, **(environment or {})}
        self.process = subprocess.Popen(
            program, cwd=folder, env=variables, stdin=end, stdout=end, stderr=end, start_new_session=True
        )
        os.close(end)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(60)
        os.close(self._terminal)

    @property
    def screen(self) -> str:
        """The lines of the screen, without spaces at their ends and without empty ones at the end."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    def wait_for(self, condition: Callable[[str], bool], seconds: float = 30) -> str:
        """Reads what is shown until the screen is as wanted; returns the screen then.

        Raises:
            TimeoutError: that does not happen in time.
        """
        deadline = time.monotonic() + seconds
        while not condition(self.screen):
            if time.monotonic() > deadline or not self._read(0.1):
                raise TimeoutError(self.screen)
        return self.screen

    def finish(self, seconds: float = 60) -> bytes:
        """Reads until the program ends; returns everything that it showed."""
        deadline = time.monotonic() + seconds
        while self._read(0.1):
            if time.monotonic() > deadline:
                raise TimeoutError(self.screen)
        self.process.wait(60)
        return self.shown

    def type(self, text: str) -> None:
        """Types characters."""
        os.write(self._terminal, text.encode())

    def _read(self, seconds: float) -> bool:
        """Reads what is there, and waits for it so long; returns False once the program has ended."""
        if not select.select([self._terminal], [], [], seconds)[0]:
            return self.process.poll() is None
        try:
            data = os.read(self._terminal, 65536)
        except OSError:  # the terminal ends with the process
            return False
        self.shown += data
        self._stream.feed(data)
        return bool(data)
