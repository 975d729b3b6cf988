"""Finds the characters of a source file that a part of a rendered text is copied from, literally."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.lint.source_locator import context_length, occurrences
from cacheunit_build.parsing.text_values import TextValue, text_values
from cacheunit_build.templating.literal_text import literal_spans

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cacheunit_build.domain.source_map import SourceLine
    from cacheunit_build.lint.source_locator import SourceTexts

_MOST_COMPARED = 200
"""Places in one file that are compared to tell equal texts apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Characters of a source file.

    Attributes:
        path: the file, relative to the project root.
        start: the offset of the first character in the text of the file.
        end: the offset behind the last one.
    """

    path: str
    start: int
    end: int


class _Same(NamedTuple):
    """How often a line of a text has the same part, and how many of these stand in front of one of them."""

    number: int
    position: int


def _same_on_line(text: str, span: tuple[int, int]) -> _Same:
    """Returns how often the line around `text[start:end]` has the same characters, and which of these they are."""
    start, end = span
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", end)
    part = text[start:end]
    before = text.count(part, first, start)
    return _Same(before + 1 + text.count(part, end, len(text) if last < 0 else last), before)


class LiteralPlaces:
    """Finds places in the parts of source files that hold text: no code, no comments, no keys.

    Args:
        sources: the source files.
        templates: the folder of templates.
    """

    def __init__(self, sources: SourceTexts, templates: str) -> None:
        self._sources = sources
        self._templates = templates
        self._values: dict[str, list[TextValue]] = {}
        self._line_starts: dict[str, list[int]] = {}
        self._found: dict[tuple[SourceLine, str], list[tuple[TextValue, int, int]]] = {}

    def find(self, line: SourceLine, text: str, span: tuple[int, int]) -> tuple[Place, TextValue] | None:
        """Returns where `text[start:end]` is written, and the part of the file that it is in; None where it is not.

        Args:
            line: the source line that it comes from; in YAML and JSON, that of the key of its text is enough.
            text: the rendered text, whose characters around `span` tell equal places apart.
            span: start and end of the part in `text`.
        """
        candidates = self._candidates(line, text[slice(*span)])
        same = _same_on_line(text, span)
        if len(candidates) == same.number:  # the first in the text is the first in the source, and so on
            candidates = candidates[same.position : same.position + 1]
        source = self._sources.text(line.path)
        best: tuple[int, Place, TextValue] | None = None
        for value, start, end in candidates[:_MOST_COMPARED]:
            context = context_length(source, value.start, (start, end), text, span)
            if best is None or context > best[0]:
                best = context, Place(path=line.path, start=start, end=end), value
        return None if best is None else best[1:]

    def line_of(self, place: Place) -> tuple[int, int]:
        """Returns line and column of a place, both from 1."""
        starts = self._starts_of_lines(place.path)
        line = bisect_right(starts, place.start)
        return line, place.start - starts[line - 1] + 1

    def _candidates(self, line: SourceLine, part: str) -> list[tuple[TextValue, int, int]]:
        """Returns each place on a line that spells a part; else each in the texts that begin there or next."""
        key = (line, part)
        if key not in self._found:
            self._found[key] = self._places_near(line, part) if part else []
        return self._found[key]

    def _places_near(self, line: SourceLine, part: str) -> list[tuple[TextValue, int, int]]:
        starts = self._starts_of_lines(line.path)
        if line.line > len(starts):
            return []
        start = starts[line.line - 1]
        last = len(self._sources.text(line.path))
        end = starts[line.line] if line.line < len(starts) else last
        values = self._values_of(line.path)
        on_line = [value for value in values if value.start < end and value.end > start]
        found = [*self._spelled(line.path, part, on_line, start, end)]
        if found or self._is_template(line.path):
            return found
        around = on_line or [value for value in values if value.start >= end][:1]
        return [*self._spelled(line.path, part, around, start, last)]

    def _spelled(
        self, path: str, part: str, values: Sequence[TextValue], start: int, end: int
    ) -> Iterator[tuple[TextValue, int, int]]:
        """Yields each place between two offsets in some parts of a file at which they spell a text."""
        source = self._sources.text(path)
        for value in values:
            spelled = value.spelled(part)
            last = min(value.end, end)
            for offset in occurrences(source, spelled, max(value.start, start)):
                if offset + len(spelled) > last:
                    break
                yield value, offset, offset + len(spelled)

    def _values_of(self, path: str) -> list[TextValue]:
        """Returns the parts of a file that hold text; none where the file cannot be read as what its name says."""
        if path not in self._values:
            text = self._sources.text(path)
            try:
                self._values[path] = (
                    [TextValue(start=start, end=end) for start, end in literal_spans(text)]
                    if self._is_template(path)
                    else list(text_values(text, path))
                )
            except CacheunitError:
                self._values[path] = []
        return self._values[path]

    def _is_template(self, path: str) -> bool:
        return path.startswith(f"{self._templates}/")

    def _starts_of_lines(self, path: str) -> list[int]:
        if path not in self._line_starts:
            text = self._sources.text(path)
            self._line_starts[path] = [0, *(offset + 1 for offset in occurrences(text, "\n", 0))]
        return self._line_starts[path]
