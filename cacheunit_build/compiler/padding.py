r"""The alignment library: how many tokens are missing to the next unit, and the text that adds exactly that many.

Padding is not arithmetic on text: one more filler can add no token, one or two, and the first may merge with the end
of the prefix. So each padding is counted on the joined text, by the very `count` that the caller relies on, and the
result is exact or an `AlignmentError`. "Be kind" has 2 tokens for DeepSeek; to add 20:

    padding                       tokens added   next
    "\n\n[padding]" + 17 * " ."   21             one too many: one filler less
    "\n\n[padding]" + 16 * " ."   20             done

The same input gives the same padding for ever: a change of the fillers below changes every artifact, and is breaking.
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

MOST_PADDING = 1 << 20
"""The most tokens that a padding may add."""

_MOST_TOKENS = 1 << 53
"""The most tokens that `count` may return, so that the search can compute with floats."""

_LABEL = "[padding]"
_LABEL_TOKENS = 3  # a first guess only: the tokens of the label are counted with the rest
_LABEL_FROM = 12  # with fewer missing tokens there is no room for a label
_FILLERS = (" .", " -", "\n.", ".")
_ENDS = ("", ".", "-", "\n")
_TRIES_PER_STYLE = 6
_MOST_REPEATS = MOST_PADDING
_GROWTH = 8  # the factor by which repeats grow where more of them did not change the count


class AlignmentError(CacheunitError):
    """No padding reaches the goal, or `count` did not return a number of tokens; the message says which."""


def align_padding(prefix_tokens: int, unit: int) -> int:
    """Returns how many tokens a prefix is short of a multiple of `unit`.

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
    """Returns the padding that makes `count(prefix + padding)` the next multiple of `unit`.

    Args:
        prefix: the text to be aligned.
        unit: tokens in one cache unit.
        count: returns the tokens of a text; called with the joined text, at most `MOST_CALLS` times.

    Returns:
        Text without content, the same for the same input for ever. "" where the unit is unknown (`unit <= 0`), and
        where the prefix is empty or aligned already.

    Raises:
        AlignmentError: no filler reaches the multiple, or more than `MOST_PADDING` tokens are missing.
    """
    if unit <= 0 or not prefix:
        return ""
    joined = _JoinedCount(count, prefix)
    tokens = joined("")
    return _reach(joined, tokens + align_padding(tokens, unit))


def pad_text_to(prefix: str, goal: int, count: Callable[[str], int]) -> str:
    """Returns the padding that makes `count(prefix + padding)` exactly `goal`.

    Args:
        prefix: the text to be padded.
        goal: tokens of the joined text.
        count: returns the tokens of a text; called with the joined text, at most `MOST_CALLS` times.

    Raises:
        AlignmentError: the prefix has more than `goal` tokens, no filler reaches it, or more than `MOST_PADDING` tokens
            are missing.
    """
    return _reach(_JoinedCount(count, prefix), goal)


def pad_text(prefix_tokens: int, unit: int, count: Callable[[str], int]) -> str:
    """Returns filler whose own count is `align_padding(prefix_tokens, unit)`. Deprecated: use `pad_text_concat`.

    The filler is counted alone. Joined to a text, its first token may merge with the last one of the text, and the
    sum is then not a multiple of the unit.

    Args:
        prefix_tokens: tokens of the prefix.
        unit: tokens in one cache unit.
        count: returns the tokens of a text.

    Raises:
        AlignmentError: no filler has exactly that many tokens.
    """
    warnings.warn(
        "pad_text counts the filler alone, but tokens merge where it is joined to the prefix; use pad_text_concat",
        DeprecationWarning,
        stacklevel=2,
    )
    missing = align_padding(prefix_tokens, unit)
    return _reach(_JoinedCount(count, ""), missing) if missing else ""


class _JoinedCount:
    """Counts prefix + padding, each padding once, at most `MOST_CALLS` times.

    Attributes:
        counts: the tokens of the joined text, by padding.
    """

    def __init__(self, count: Callable[[str], int], prefix: str) -> None:
        self._count = count
        self._prefix = prefix
        self.counts: dict[str, int] = {}

    @property
    def exhausted(self) -> bool:
        """Whether no further padding may be counted."""
        return len(self.counts) >= MOST_CALLS

    @property
    def blank_line(self) -> str:
        """The line ends that are missing for one blank line between the prefix and a label."""
        return "\n\n"[min(2, len(self._prefix) - len(self._prefix.rstrip("\n"))) :]

    def __call__(self, padding: str) -> int:
        """Returns the tokens of prefix + padding.

        Raises:
            AlignmentError: `count` returned something else than a number of tokens.
        """
        if padding not in self.counts:
            tokens = self._count(self._prefix + padding)
            if isinstance(tokens, bool) or not isinstance(tokens, int):
                raise AlignmentError(Fault(message=f"count returned {tokens!r}, which is not a number of tokens"))
            if not 0 <= tokens <= _MOST_TOKENS:
                what = "a negative number" if tokens < 0 else f"more than {_MOST_TOKENS:,}"
                raise AlignmentError(Fault(message=f"count returned {what}, which is not a number of tokens"))
            self.counts[padding] = tokens
        return self.counts[padding]


@dataclass(frozen=True, slots=True)
class _Style:
    """A style of padding: a head, a filler that is repeated, an end."""

    head: str
    filler: str
    end: str

    @property
    def fixed(self) -> int:
        """A first guess of the tokens of head and end."""
        return (_LABEL_TOKENS if self.head else 0) + (1 if self.end else 0)

    def text(self, repeats: int) -> str:
        """Returns the padding with that many fillers."""
        return self.head + self.filler * repeats + self.end


def _styles(missing: int, blank_line: str) -> Iterator[_Style]:
    """Yields the styles that are tried, in order, to add `missing` tokens."""
    if missing >= _LABEL_FROM:
        yield _Style(f"{blank_line}{_LABEL}", _FILLERS[0], "")
    for end in _ENDS:
        yield _Style("", _FILLERS[0], end)
    for filler in _FILLERS[1:]:
        yield _Style("", filler, "")


def _reach(joined: _JoinedCount, goal: int) -> str:
    """Returns the first padding that reaches exactly `goal` tokens.

    Raises:
        AlignmentError: the prefix has more tokens, more than `MOST_PADDING` are missing, or no style reaches it.
    """
    tokens = joined("")
    if tokens == goal:
        return ""
    if tokens > goal:
        goal = max(goal, 0)
        raise AlignmentError(Fault(message=f"the text has {tokens} tokens, more than the {goal} it is to be padded to"))
    if goal - tokens > MOST_PADDING:
        message = f"a padding adds at most {MOST_PADDING:,} tokens, and the text's {tokens} are further from the goal"
        raise AlignmentError(Fault(message=message))
    for style in _styles(goal - tokens, joined.blank_line):
        padding = _reach_with(style, joined, tokens, goal)
        if padding is not None:
            return padding
    tried = ", ".join(f"{total - tokens:+} for {len(padding)} characters ending {padding[-2:]!r}"
                      for padding, total in joined.counts.items() if padding)  # fmt: skip
    raise AlignmentError(
        Fault(message=f"no padding adds exactly {goal - tokens} tokens to the text's {tokens}; tried: {tried}")
    )


def _reach_with(style: _Style, joined: _JoinedCount, tokens: int, goal: int) -> str | None:
    """Returns the padding of one style that reaches the goal; None where the style steps over it.

    The number of repeats starts at the missing tokens, and is corrected by what was counted, within the bounds of
    those that are known to be too few and too many.
    """
    low, high = -1 if style.end else 0, _MOST_REPEATS  # repeats known to give too few and too many
    last = (0, tokens + style.fixed)
    repeats = max(goal - tokens - style.fixed, low + 1)
    for _ in range(_TRIES_PER_STYLE):
        if joined.exhausted:
            return None
        padding = style.text(repeats)
        reached = joined(padding)
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
    """Returns the repeats at which the line through two measurements (repeats, tokens) meets the goal."""
    (last_repeats, last_tokens), (repeats, tokens) = last, here
    rate = (tokens - last_tokens) / (repeats - last_repeats) if repeats != last_repeats else 1.0
    if rate <= 0:
        return repeats * _GROWTH + 1 if tokens < goal else repeats - 1
    step = round((goal - tokens) / rate)
    return repeats + (step or (1 if tokens < goal else -1))
