"""Alignment: how many tokens are missing to the next unit, and the text that adds exactly that many.

Padding is not arithmetic on text: one more filler can add no token, one or two, and the first may merge with the end
of the prefix. So every answer here is measured on the joined text by the very `count` that the caller relies on, and
is either exact or an `AlignmentError`. The same input gives the same padding for ever: a change to the filler set below
changes every artifact, and is a breaking change.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.domain.errors import CacheunitError, Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST_CALLS = 16
"""The most calls of `count` that one alignment makes."""

_LABEL = "[padding]"
_LABEL_TOKENS = 3  # a first guess only: what a label costs is measured
_LABEL_FROM = 12  # fewer missing tokens than this leave no room for a label
_FILLERS = (" .", " -", "\n.", ".")
_ENDS = ("", ".", "-", "\n")
_TRIES_A_STYLE = 6
_MOST_REPEATS = 1 << 20
_GROWTH = 8  # how much more filler is tried where the count did not move


class AlignmentError(CacheunitError):
    """No filler of the stated set reaches the multiple; the message says what was tried."""


def align_padding(prefix_tokens: int, unit: int) -> int:
    """How many tokens a prefix lacks to end on a multiple of `unit`.

    Args:
        prefix_tokens: tokens of the prefix.
        unit: tokens in one cache unit.

    Returns:
        Tokens, from 0 to `unit - 1`. 0 where the unit is unknown (`unit <= 0`) and for an empty prefix.
    """
    if unit <= 0 or prefix_tokens <= 0:
        return 0
    return -prefix_tokens % unit


def pad_text_concat(prefix: str, unit: int, count: Callable[[str], int]) -> str:
    """The padding that makes `count(prefix + padding)` the next multiple of `unit`.

    Args:
        prefix: the text to be aligned.
        unit: tokens in one cache unit.
        count: tokens of a text; called with the joined text, at most `MOST_CALLS` times.

    Returns:
        Content-free text, the same for the same input for ever. "" where the unit is unknown (`unit <= 0`), and where
        the prefix is empty or aligned already.

    Raises:
        AlignmentError: no filler reaches the multiple.
    """
    if unit <= 0 or not prefix:
        return ""
    meter = _Meter(count, prefix)
    tokens = meter("")
    return _reach(meter, tokens + align_padding(tokens, unit))


def pad_text_to(prefix: str, goal: int, count: Callable[[str], int]) -> str:
    """The padding that makes `count(prefix + padding)` exactly `goal` tokens; otherwise as `pad_text_concat`.

    Raises:
        AlignmentError: the prefix has more than `goal` tokens, or no filler reaches it.
    """
    return _reach(_Meter(count, prefix), goal)


def pad_text(prefix_tokens: int, unit: int, count: Callable[[str], int]) -> str:
    """Filler whose own count is `align_padding(prefix_tokens, unit)`. Deprecated: use `pad_text_concat`.

    The filler is measured alone. Joined to a text, its first token may merge with the last one of the text, and the
    sum is then not a multiple of the unit.

    Raises:
        AlignmentError: no filler has exactly that many tokens.
    """
    warnings.warn(
        "pad_text measures the filler alone, but tokens merge where it is joined to the prefix; use pad_text_concat",
        DeprecationWarning,
        stacklevel=2,
    )
    missing = align_padding(prefix_tokens, unit)
    return _reach(_Meter(count, ""), missing) if missing else ""


class _Meter:
    """Counts prefix + padding, each padding once, at most `MOST_CALLS` times, and keeps what it saw."""

    def __init__(self, count: Callable[[str], int], prefix: str) -> None:
        self._count = count
        self._prefix = prefix
        self.seen: dict[str, int] = {}

    @property
    def spent(self) -> bool:
        return len(self.seen) >= MOST_CALLS

    @property
    def blank_line(self) -> str:
        """What sets a label apart from the prefix by one blank line."""
        return "\n\n"[min(2, len(self._prefix) - len(self._prefix.rstrip("\n"))) :]

    def __call__(self, padding: str) -> int:
        if padding not in self.seen:
            tokens = self._count(self._prefix + padding)
            if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0:
                raise AlignmentError(Fault(message=f"count returned {tokens!r}, which is not a number of tokens"))
            self.seen[padding] = tokens
        return self.seen[padding]


@dataclass(frozen=True, slots=True)
class _Style:
    """One family of paddings: a head, a filler repeated, an end."""

    head: str
    filler: str
    end: str

    @property
    def fixed(self) -> int:
        """A first guess at the tokens of head and end."""
        return (_LABEL_TOKENS if self.head else 0) + (1 if self.end else 0)

    def text(self, repeats: int) -> str:
        return self.head + self.filler * repeats + self.end


def _styles(missing: int, blank_line: str) -> Iterator[_Style]:
    """The stated filler set, in the order in which it is tried."""
    if missing >= _LABEL_FROM:
        yield _Style(f"{blank_line}{_LABEL}", _FILLERS[0], "")
    for end in _ENDS:
        yield _Style("", _FILLERS[0], end)
    for filler in _FILLERS[1:]:
        yield _Style("", filler, "")


def _reach(meter: _Meter, goal: int) -> str:
    tokens = meter("")
    if tokens == goal:
        return ""
    if tokens > goal:
        raise AlignmentError(Fault(message=f"the text has {tokens} tokens, more than the {goal} it is to be padded to"))
    for style in _styles(goal - tokens, meter.blank_line):
        padding = _reach_with(style, meter, tokens, goal)
        if padding is not None:
            return padding
    tried = ", ".join(f"{gained - tokens:+} for {len(padding)} characters ending {padding[-2:]!r}"
                      for padding, gained in meter.seen.items() if padding)  # fmt: skip
    raise AlignmentError(
        Fault(message=f"no padding adds exactly {goal - tokens} tokens to the text's {tokens}; tried: {tried}")
    )


def _reach_with(style: _Style, meter: _Meter, tokens: int, goal: int) -> str | None:
    """Jump by what is missing, count, correct by what was measured; None where this style steps over the goal."""
    low, high = -1 if style.end else 0, _MOST_REPEATS  # repeats known to give too few and too many
    last = (0, tokens + style.fixed)
    repeats = max(goal - tokens - style.fixed, low + 1)
    for _ in range(_TRIES_A_STYLE):
        if meter.spent:
            return None
        padding = style.text(repeats)
        reached = meter(padding)
        if reached == goal:
            return padding
        if reached < goal:
            low = max(low, repeats)
        else:
            high = min(high, repeats)
        here = (repeats, reached)
        repeats = _next_repeats(last, here, goal)
        last = here
        if not low < repeats < high:
            repeats = (low + high) // 2 if high < _MOST_REPEATS else low * 2 + 1
        if not low < repeats < high or (reached < tokens):
            return None
    return None


def _next_repeats(last: tuple[int, int], here: tuple[int, int], goal: int) -> int:
    """Where the line through two measurements (repeats, tokens) meets the goal."""
    (last_repeats, last_tokens), (repeats, tokens) = last, here
    rate = (tokens - last_tokens) / (repeats - last_repeats) if repeats != last_repeats else 1.0
    if rate <= 0:
        return repeats * _GROWTH + 1 if tokens < goal else repeats - 1
    step = round((goal - tokens) / rate)
    return repeats + (step or (1 if tokens < goal else -1))
