"""Finds the source line that made a change: from the source lines of the first different character in both versions.

With a template that includes a partial, and a change in line 4 of the partial:

    first different character comes from            changed lines          result
    new: partial:4 <- template:2                    partial 4              partial:4   the line itself changed
    new: partial:6 <- template:2                    partial 4              partial:4   nearest change at or above it
    new: template:3, old: template:2                template 2 (removed)   template:2  the old line is gone
    new: template:3                                 data.yaml 7            data.yaml:7 only another input changed
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Literal

from cacheunit_build.diff.changed_lines import hunks_between, split_lines
from cacheunit_build.domain.source_map import SourceLine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from cacheunit_build.diff.changed_lines import Hunk
    from cacheunit_build.diff.results import ChangedLines
    from cacheunit_build.domain.source_map import SourceChain


class SourceChanges:
    """The changes between two versions of the sources.

    Args:
        read_old: returns the bytes of a file in the old version, None where there is no such file.
        read_new: returns the bytes of a file in the new version, None where there is no such file.
        moved: the files that were moved, new path -> old path: they are compared with the former ones.
    """

    def __init__(
        self,
        read_old: Callable[[str], bytes | None],
        read_new: Callable[[str], bytes | None],
        moved: Mapping[str, str] | None = None,
    ) -> None:
        self.moved = moved or {}
        self._former = frozenset(self.moved.values())
        self._read_former = read_old
        self._read_new = read_new
        self.hunks = cache(self._hunks)
        self.changed = cache(self._changed)

    def _read_old(self, path: str) -> bytes | None:
        return self._read_former(self.moved.get(path, path))

    def _changed(self, path: str) -> bool:
        """Returns whether a file changed; not for the former path of a moved one, whose changes are at the new path."""
        return path not in self._former and self._read_old(path) != self._read_new(path)

    def places(self, path: str) -> dict[SourceLine, ChangedLines]:
        """Returns the lines that changed in a file by the place of each hunk; a removed file has line 1 only."""
        old, new = (split_lines(_text(read(path))) for read in (self._read_old, self._read_new))
        return {self._start(path, hunk): hunk.lines(old, new) for hunk in self.hunks(path)}

    def hunk_place(self, line: SourceLine) -> SourceLine | None:
        """Returns the place of the hunk that a line of the new sources is in; None where it did not change."""
        hunks = self.hunks(line.path)
        starts = {self._start(line.path, hunk): hunk for hunk in hunks}
        if line in starts:
            return line
        hunk = self._hunk_at(line, "new")
        return None if hunk is None else self._start(line.path, hunk)

    def replaced_lines(self, place: SourceLine) -> tuple[range, range]:
        """Returns the line numbers that were replaced at a place, in the old and in the new file."""
        hunk = next((hunk for hunk in self.hunks(place.path) if self._start(place.path, hunk) == place), None)
        return (range(0), range(0)) if hunk is None else (hunk.old, hunk.new)

    def in_both(self, path: str) -> bool:
        """Returns whether both versions have a file."""
        return self._read_old(path) is not None and self._read_new(path) is not None

    def is_new(self, path: str) -> bool:
        """Returns whether a file is in the new sources only."""
        return self._read_old(path) is None and self._read_new(path) is not None

    def locate(
        self, new: SourceChain, old: SourceChain, others: Iterable[str], *, below: bool = False
    ) -> SourceLine | None:
        """Returns the line of the new sources where a change was made; None where no source changed.

        Args:
            new: the source lines of the first different character of the new text.
            old: the source lines of the first different character of the old text.
            others: further files that the text depends on.
            below: whether to prefer a change at or after these lines, as in a tool that begins there, to one at or
                before them, as in the condition around a text.
        """
        return self._exact(new, old) or self._nearest(new, old, below=below) or self._elsewhere(others)

    def _exact(self, new: SourceChain, old: SourceChain) -> SourceLine | None:
        """Returns the first line of the chains that changed itself, or is in a new file."""
        for line in new:
            if self.is_new(line.path):
                return line
            if (hunk := self._hunk_at(line, "new")) is not None:
                return self._start(line.path, hunk)
        for line in old:
            if (hunk := self._hunk_at(line, "old")) is not None and self._read_new(line.path) is not None:
                return self._start(line.path, hunk)
        return None

    def _nearest(self, new: SourceChain, old: SourceChain, *, below: bool) -> SourceLine | None:
        """Returns the nearest change in the first file of the chains that changed."""
        for line in (*new, *old):
            hunks = self.hunks(line.path)
            if hunks and self._read_new(line.path) is not None:
                return self._start(line.path, _nearest_hunk(hunks, line.line, below=below))
        return None

    def _elsewhere(self, others: Iterable[str]) -> SourceLine | None:
        """Returns the first change in the first of `others` that changed."""
        for path in others:
            hunks = self.hunks(path)
            if hunks and self._read_new(path) is not None:
                return self._start(path, hunks[0])
        return None

    def _hunk_at(self, line: SourceLine, side: Literal["new", "old"]) -> Hunk | None:
        hunks = self.hunks(line.path)
        return next((hunk for hunk in hunks if _contains(hunk.new if side == "new" else hunk.old, line.line)), None)

    def _start(self, path: str, hunk: Hunk) -> SourceLine:
        """Returns the first line of a hunk; the last line of the file where its end was removed."""
        lines = (self._read_new(path) or b"").rstrip(b"\r\n").count(b"\n") + 1
        return SourceLine(path=path, line=max(1, min(hunk.new.start, lines)))

    def _hunks(self, path: str) -> tuple[Hunk, ...]:
        if not self.changed(path):
            return ()
        old, new = (split_lines(_text(data)) for data in (self._read_old(path), self._read_new(path)))
        return tuple(hunks_between(old, new))


def _contains(lines: range, line: int) -> bool:
    """Returns whether a range of lines has that line; an empty range is in front of the line where it starts."""
    return line in lines or (not lines and line == lines.start)


def _nearest_hunk(hunks: tuple[Hunk, ...], line: int, *, below: bool) -> Hunk:
    if below:
        return next((hunk for hunk in hunks if hunk.new.stop > line), hunks[-1])
    return next((hunk for hunk in reversed(hunks) if hunk.new.start <= line), hunks[0])


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace").replace("\r\n", "\n")
