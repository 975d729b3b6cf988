"""Counts the failures of a remote cache, decides when it is no longer used, and collects remarks for the user."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from cacheunit_build.adapters.system.secret_mask import SecretMask

MOST_FAILURES = 3
"""The failures in a row after which a remote is no longer asked."""
MOST_SECONDS = 30.0
"""Seconds that a run waits for a remote cache, beside a share for each result."""
SECONDS_A_RESULT = 0.01
"""The seconds that a run waits for each result, since compiling takes about as long."""

Subject = Literal["access", "read", "content", "write", "dropped"]


class Health:
    """The state of one remote cache in one run; several threads use it.

    Args:
        url: its URL, for remarks.
        without_secrets: masks secrets in remarks.
    """

    def __init__(self, url: str, without_secrets: SecretMask) -> None:
        self._url = url
        self._without_secrets = without_secrets
        self._lock = threading.Lock()
        self._failures_in_row = 0
        self._seconds = 0.0
        self._remarks: dict[Subject, str] = {}
        self.is_dropped = False
        self.may_write = True

    @property
    def remarks(self) -> tuple[str, ...]:
        """The remarks for the user: the first one on each subject."""
        return tuple(self._remarks.values())

    def remark(self, subject: Subject, text: str) -> None:
        """Keeps a remark, if it is the first one on its subject; `{remote}` in it stands for the remote."""
        shown = text.replace("{remote}", f"the remote cache {self._url}", 1)
        self._remarks.setdefault(subject, self._without_secrets(shown))

    def succeeded(self) -> None:
        """Resets the count of failures in a row, after an answer that is a result or says that there is none."""
        self._failures_in_row = 0

    def failed(self, reason: str, subject: Subject = "read") -> None:
        """Notes a lookup without a usable answer; drops the remote after some of them in a row."""
        with self._lock:
            if self.is_dropped:  # which aborts the requests that are going on
                return
            self._failures_in_row += 1
            self.remark(subject, f"{{remote}} failed: {reason}")
            if self._failures_in_row >= MOST_FAILURES:
                self._drop(f"{MOST_FAILURES} failures in a row: {reason}", subject)

    def unstoppable(self) -> None:
        """Notes a request that cannot be stopped, and drops the remote."""
        with self._lock:
            self._drop("it does not answer")

    def stop_writing(self, reason: str) -> None:
        """Notes a refused request to store something; nothing more is stored."""
        if self.is_dropped:
            return
        self.may_write = False
        self.remark("write", f"nothing more is stored in {{remote}}: {reason}")

    def clock(self, results: Callable[[], int]) -> Callable[[], bool]:
        """Starts measuring time; returns a function that returns whether to go on.

        Args:
            results: returns how many results there are since then.
        """
        begun, before = time.monotonic(), self._seconds

        def goes_on() -> bool:
            self._seconds = max(0.0, before + time.monotonic() - begun - results() * SECONDS_A_RESULT)
            if self._seconds > MOST_SECONDS:
                with self._lock:
                    self._drop(f"it is too slow: {MOST_SECONDS:g} s more were spent than its results are worth")
            return not self.is_dropped

        return goes_on

    def _drop(self, reason: str, subject: Subject = "read") -> None:
        if not self.is_dropped:
            self.is_dropped = True
            self._remarks.pop(subject, None)  # the reason says as much
            self.remark("dropped", f"{{remote}} is not used any more in this run: {reason}")
