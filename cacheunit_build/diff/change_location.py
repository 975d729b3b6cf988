"""Where in the sources a change of the text was made: chains of places + both versions of the sources -> one line."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from typing import TYPE_CHECKING, Literal

from cacheunit_build.domain.sequences import common_ends
from cacheunit_build.domain.source_map import SourceLine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from cacheunit_build.domain.source_map import SourceChain

_MOST_COMPARED = 4_000_000  # lines of one side times lines of the other: beyond, the middle is one hunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """Lines that were replaced: `old` and `new` are ranges of line numbers from 1, either of which may be empty."""

    old: range
    new: range


class SourceChanges:
    """What is different between two versions of the sources.

    Args:
        before: path -> bytes of the old version, None where absent.
        now: the same of the new version.
    """

    def __init__(self, before: Callable[[str], bytes | None], now: Callable[[str], bytes | None]) -> None:
        self._before = before
        self._now = now
        self.hunks = cache(self._hunks)

    def changed(self, path: str) -> bool:
        """Whether the file is not as it was."""
        return self._before(path) != self._now(path)

    def place(
        self, new: SourceChain, old: SourceChain, others: Iterable[str], *, below: bool = False
    ) -> SourceLine | None:
        """The line of the new sources at which a change was made that shows at text of these chains.

        Args:
            new: where the first different character of the new text came from.
            old: the same of the old text.
            others: further files that the text depends on.
            below: whether the change is at or after the places of the chains, as in a tool that begins there; it is at
                or before them otherwise, as is a condition.
        """
        for place in new:
            if self._before(place.path) is None and self._now(place.path) is not None:
                return place  # all of the file is new
            if (hunk := self._hunk_at(place, "new")) is not None:
                return self._start(place.path, hunk)
        for place in old:
            if (hunk := self._hunk_at(place, "old")) is not None and self._now(place.path) is not None:
                return self._start(place.path, hunk)
        for place in (*new, *old):
            hunks = self.hunks(place.path)
            if hunks and self._now(place.path) is not None:
                return self._start(place.path, _nearest(hunks, place.line, below=below))
        for path in others:
            hunks = self.hunks(path)
            if hunks and self._now(path) is not None:
                return self._start(path, hunks[0])
        return None

    def _hunk_at(self, place: SourceLine, side: Literal["new", "old"]) -> Hunk | None:
        hunks = self.hunks(place.path)
        return next((hunk for hunk in hunks if _has(hunk.new if side == "new" else hunk.old, place.line)), None)

    def _start(self, path: str, hunk: Hunk) -> SourceLine:
        """Where a hunk begins; what was cut off at the end of a file, at its last line."""
        lines = (self._now(path) or b"").rstrip(b"\r\n").count(b"\n") + 1
        return SourceLine(path=path, line=max(1, min(hunk.new.start, lines)))

    def _hunks(self, path: str) -> tuple[Hunk, ...]:
        if not self.changed(path):
            return ()
        before, now = (_lines(data) for data in (self._before(path), self._now(path)))
        return tuple(_compared(before, now))


def _has(lines: range, line: int) -> bool:
    """Whether a hunk has that line; where it has none, it stands in front of the line at which it begins."""
    return line in lines or (not lines and line == lines.start)


def _nearest(hunks: tuple[Hunk, ...], line: int, *, below: bool) -> Hunk:
    if below:
        return next((hunk for hunk in hunks if hunk.new.stop > line), hunks[-1])
    return next((hunk for hunk in reversed(hunks) if hunk.new.start <= line), hunks[0])


def _lines(data: bytes | None) -> list[str]:
    return [] if data is None else data.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")


def _compared(before: list[str], now: list[str]) -> Iterator[Hunk]:
    """The hunks between two lists of lines, in order."""
    head, tail = common_ends(before, now)
    old, new = before[head : len(before) - tail], now[head : len(now) - tail]
    if len(old) * len(new) > _MOST_COMPARED:
        yield _hunk(head, 0, len(old), 0, len(new))
        return
    for tag, old_start, old_end, new_start, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield _hunk(head, old_start, old_end, new_start, new_end)


def _hunk(head: int, old_start: int, old_end: int, new_start: int, new_end: int) -> Hunk:
    first = head + 1
    return Hunk(old=range(first + old_start, first + old_end), new=range(first + new_start, first + new_end))
