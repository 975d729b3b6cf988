"""A screen that is drawn again when what it shows changes, or the size of the terminal.

The alternate screen of the terminal is used, so that what was there before is back at the end, however that comes.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import ConsoleOptions

_DUMB = ("dumb", "unknown")
_KEY_SECONDS = 0.2
"""How often the thread that waits for a key looks whether it is to end."""


def has_screen() -> bool:
    """Returns whether standard output is a terminal on which a cursor can be moved."""
    return sys.stdout.isatty() and os.environ.get("TERM") not in _DUMB


class LiveScreen:
    """A screen on the terminal, until the block ends.

    Args:
        lines: returns the lines for a number of columns and lines, with escapes of colours.
        stop: called when the user presses q.
    """

    def __init__(self, lines: Callable[[int, int], list[str]], stop: Callable[[], None]) -> None:
        self._lines = lines
        self._stop = stop
        self._closing = ExitStack()
        self._live = Live(
            self,
            console=Console(highlight=False, markup=False, emoji=False),
            screen=True,
            auto_refresh=False,
            redirect_stderr=False,
        )

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Yields the lines for the size of the terminal as it is now."""
        text = Text.from_ansi("\n".join(self._lines(options.max_width, options.height or options.size.height)))
        text.no_wrap, text.overflow = True, "crop"
        yield text

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            opened.enter_context(_signal_handlers({"SIGWINCH": self.draw, "SIGTSTP": self._suspend}))
            opened.enter_context(_signal_handlers({"SIGTERM": _end, "SIGHUP": _end}))
            opened.enter_context(_key_pressed("q", self._stop))
            opened.enter_context(self._live)
            self._closing = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def draw(self) -> None:
        """Draws the lines as they are now."""
        self._live.refresh()

    def _suspend(self) -> None:
        """Leaves the screen while the program is stopped by Ctrl-Z, and draws it again afterwards."""
        self._live.stop()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._live.start()
        self.draw()


def _end() -> None:
    """Ends the program as Ctrl-C does, which leaves the screen first."""
    raise KeyboardInterrupt


@contextmanager
def _signal_handlers(handlers: dict[str, Callable[[], None]]) -> Iterator[None]:
    """Handles signals, as far as the system has them, until the block ends."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = {}
    for name, handle in handlers.items():
        number = getattr(signal, name, None)
        if number is not None:
            former[number] = signal.signal(number, lambda *_, handle=handle: handle())
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


@contextmanager
def _key_pressed(key: str, action: Callable[[], None]) -> Iterator[None]:
    """Calls a function when a key is pressed, until the block ends; keys are not shown meanwhile.

    Nothing is done where there is no keyboard, or the program runs in the background.
    """
    descriptor = _keyboard()
    if descriptor is None:
        yield
        return
    import termios
    import tty

    former = termios.tcgetattr(descriptor)
    ended = threading.Event()
    thread = threading.Thread(target=_wait_for_key, args=(descriptor, key, action, ended), daemon=True)
    tty.setcbreak(descriptor)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        termios.tcsetattr(descriptor, termios.TCSADRAIN, former)


def _keyboard() -> int | None:
    """Returns the file descriptor of a keyboard whose keys are this program's; None where there is none."""
    try:
        descriptor = sys.stdin.fileno()
        return descriptor if os.tcgetpgrp(descriptor) == os.getpgrp() else None
    except (AttributeError, OSError, ValueError):  # another system, or standard input is no terminal
        return None


def _wait_for_key(descriptor: int, key: str, action: Callable[[], None], ended: threading.Event) -> None:
    """Reads keys until the one that is waited for is pressed, or `ended` is set."""
    import select

    while not ended.is_set():
        ready, _, _ = select.select([descriptor], [], [], _KEY_SECONDS)
        data = os.read(descriptor, 64) if ready else b""
        if ready and not data:
            return
        if key.encode() in data:
            action()
            return
