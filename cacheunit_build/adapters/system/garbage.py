"""Sets how often Python's garbage collector runs."""

from __future__ import annotations

import gc

_THRESHOLDS = (50_000, 50, 100)
"""New objects until it runs, and runs until it searches older ones."""


def collect_garbage_rarely() -> None:
    """Lets the collector run rarely while this process compiles.

    Compiling makes many values that live to the end, and no cycles. By default, Python searches them again and again,
    for a third of the time of a build with 10,000 prefixes. Commands that may live long keep the default.
    """
    gc.set_threshold(*_THRESHOLDS)
