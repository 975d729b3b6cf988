"""Where in the sources a part of a text was written."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.domain.document import decode
from cacheunit_build.domain.errors import CacheunitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NEAR = 200
_LEAST = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A line of a source and a column in it, both from 1."""

    path: str
    line: int
    column: int


class SourceTexts:
    """The texts of a project's sources, read once.

    Args:
        read: root-relative path -> bytes, None where there is no such file.
    """

    def __init__(self, read: Callable[[str], bytes | None]) -> None:
        self._read = read
        self._texts: dict[str, str] = {}

    def text(self, path: str) -> str:
        """The text of a source; empty where it has none."""
        if path not in self._texts:
            try:
                self._texts[path] = decode(self._read(path) or b"", path)
            except CacheunitError:  # a vocabulary, or what a frame is made of
                self._texts[path] = ""
        return self._texts[path]

    def written_in(self, path: str, first_line: int, text: str, span: tuple[int, int]) -> Location | None:
        """The place in one file, from a line on, that spells `text[start:end]`; None where none does."""
        above = "".join(f"{line}\n" for line in self.text(path).split("\n")[: first_line - 1])
        source = re.sub(r"[^\n]", "\x00", above) + self.text(path)[len(above) :]
        spelt = (_likest(path, source, text, span, spelling) for spelling in _spellings(text[slice(*span)]))
        return next((place for place in spelt if place is not None), None)

    def line(self, path: str, line: int) -> str:
        """A line of a source, from 1; empty where there is none."""
        lines = self.text(path).split("\n")
        return lines[line - 1] if line <= len(lines) else ""

    def column(self, path: str, line: int, text: str, span: tuple[int, int]) -> int:
        """The column of `text[start:end]` on a line of a source, 1 where it is not spelt there."""
        source = self.line(path, line)
        first = text[slice(*span)].partition("\n")[0]
        for spelling in _spellings(first):
            found = _likest(path, source, text, span, spelling)
            if found is not None:
                return found.column
        return 1


def _spellings(part: str) -> Iterator[str]:
    """A text as templates, JSON and YAML may spell it; the text itself first."""
    yield part
    forms = (json.dumps(part, ensure_ascii=False)[1:-1], json.dumps(part)[1:-1])
    escapes = "".join(c if " " <= c <= "~" else f"\\x{ord(c):02x}" if ord(c) <= 0xFF else c for c in part)  # noqa: PLR2004
    wide = "".join(c if " " <= c <= "~" else f"\\U{ord(c):08x}" for c in part)
    yield from (form for form in dict.fromkeys((*forms, *(f.upper().replace("\\U", "\\u") for f in forms[1:]))) if form)
    yield from (form for form in (escapes, wide) if form != part)
    if "\n" in part:
        yield from (line for line in part.split("\n") if len(line) >= _LEAST)


def _likest(path: str, source: str, text: str, span: tuple[int, int], spelling: str) -> Location | None:
    """Of the places that spell a part of a text, the one that is most like the text around it."""
    best, found = -1, None
    offset = source.find(spelling) if spelling else -1
    while offset >= 0:
        alike = _alike(source, offset, offset + len(spelling), text, span)
        if alike > best:
            best, found = alike, _place(path, source, offset)
        offset = source.find(spelling, offset + 1)
    return found


def _alike(source: str, start: int, end: int, text: str, span: tuple[int, int]) -> int:
    """How many characters on both sides are the same."""
    before, after = 0, 0
    most = min(_NEAR, start, span[0])
    while before < most and source[start - before - 1] == text[span[0] - before - 1]:
        before += 1
    most = min(_NEAR, len(source) - end, len(text) - span[1])
    while after < most and source[end + after] == text[span[1] + after]:
        after += 1
    return before + after


def _place(path: str, source: str, offset: int) -> Location:
    start = source.rfind("\n", 0, offset) + 1
    return Location(path=path, line=source.count("\n", 0, offset) + 1, column=offset - start + 1)
