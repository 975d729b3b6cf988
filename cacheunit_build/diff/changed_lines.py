"""Compares two lists of lines: the hunks in which they differ, with their lines."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from cacheunit_build.diff.results import ChangedLines
from cacheunit_build.domain.sequences import common_ends

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MOST_COMPARED = 4_000_000
"""The most pairs of lines that are compared: above, everything between the common ends is one hunk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """Lines that were replaced. Both are ranges of line numbers from 1, and may be empty."""

    old: range
    new: range

    def lines(self, old: Sequence[str], new: Sequence[str]) -> ChangedLines:
        """Returns the lines of a hunk, from all lines of both versions."""
        return ChangedLines(
            old=tuple(old[self.old.start - 1 : self.old.stop - 1]),
            new=tuple(new[self.new.start - 1 : self.new.stop - 1]),
        )


def split_lines(text: str | None) -> list[str]:
    """Returns the lines of a text, the last one empty where it ends in a line end, or where there is no text."""
    return (text or "").split("\n")


def changed_lines(old: str, new: str) -> tuple[ChangedLines, ...]:
    """Returns the lines that differ between two texts, hunk by hunk."""
    lines = split_lines(old), split_lines(new)
    return tuple(hunk.lines(*lines) for hunk in hunks_between(*lines))


def hunks_between(old: list[str], new: list[str]) -> Iterator[Hunk]:
    """Yields the hunks between two lists of lines, in order."""
    head, tail = common_ends(old, new)
    old_middle, new_middle = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(old_middle) * len(new_middle) > _MOST_COMPARED:
        yield _hunk(head, (0, len(old_middle)), (0, len(new_middle)))
        return
    for tag, old_start, old_end, new_start, new_end in SequenceMatcher(
        None, old_middle, new_middle, autojunk=False
    ).get_opcodes():
        if tag != "equal":
            yield _hunk(head, (old_start, old_end), (new_start, new_end))


def _hunk(head: int, old: tuple[int, int], new: tuple[int, int]) -> Hunk:
    """Returns a hunk of lines from 1; `head` lines are in front of both."""
    first = head + 1
    return Hunk(old=range(first + old[0], first + old[1]), new=range(first + new[0], first + new[1]))
