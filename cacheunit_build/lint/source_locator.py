"""Finds the line and column of a source file that a part of a rendered text was written in."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import TYPE_CHECKING

from cacheunit_build.domain.document import decode
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.lint.results import Location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MAX_CONTEXT = 200
"""Characters on each side that are compared to tell equal texts in one file apart."""

_MIN_LINE = 6
"""Shorter lines of a text with several lines are too common to locate it by."""

_MOST_COMPARED = 200
"""Places in one file that are compared to tell equal texts apart."""

_LATIN_1 = 0xFF


class SourceTexts:
    """The source files of a project as text, each read once.

    Args:
        read: root-relative path -> bytes, None where there is no such file.
    """

    def __init__(self, read: Callable[[str], bytes | None]) -> None:
        self._read = read
        self._texts: dict[str, str] = {}

    def text(self, path: str) -> str:
        """Returns the text of a file; empty where there is none, or where the file is not text."""
        if path not in self._texts:
            try:
                self._texts[path] = decode(self._read(path) or b"", path)
            except CacheunitError:  # not UTF-8, such as the vocabulary file of a tokenizer
                self._texts[path] = ""
        return self._texts[path]

    def line(self, path: str, line: int) -> str:
        """Returns one line of a file, counted from 1; empty where there is none."""
        lines = self.text(path).split("\n")
        return lines[line - 1] if line <= len(lines) else ""

    def locate(self, path: str, first_line: int, text: str, span: tuple[int, int]) -> Location | None:
        """Returns where a file, from a line on, spells `text[start:end]`; None where it does not."""
        source = self.text(path)
        begin = sum(len(line) + 1 for line in source.split("\n")[: first_line - 1])
        offset = _find(source, begin, text, span, text[slice(*span)])
        if offset is None:
            return None
        column = offset - source.rfind("\n", 0, offset)
        return Location(path=path, line=source.count("\n", 0, offset) + 1, column=column)

    def column(self, path: str, line: int, text: str, span: tuple[int, int]) -> int:
        """Returns the column where a line of a file spells the first line of `text[start:end]`; 1 where it does not."""
        first_line = text[slice(*span)].partition("\n")[0]
        offset = _find(self.line(path, line), 0, text, span, first_line)
        return 1 if offset is None else offset + 1


def _find(source: str, begin: int, text: str, span: tuple[int, int], part: str) -> int | None:
    """Returns the offset in `source`, from `begin` on, that `text[start:end]` was most likely written at.

    Args:
        source: the source text to search.
        begin: the first offset to search.
        text: the rendered text, whose characters around `span` decide where the source has the part several times.
        span: start and end of the part in `text`.
        part: what to search for: the part, or its first line.
    """
    for spelling in _spellings(part):
        offsets = islice(occurrences(source, spelling, begin), _MOST_COMPARED)
        spans = [(offset, offset + len(spelling)) for offset in offsets]
        if spans:
            return max(spans, key=lambda found: context_length(source, begin, found, text, span))[0]
    return None


def occurrences(source: str, spelling: str, begin: int) -> Iterator[int]:
    """Yields every offset from `begin` on at which the source has the spelling, overlapping ones too."""
    offset = source.find(spelling, begin)
    while offset >= 0:
        yield offset
        offset = source.find(spelling, offset + 1)


def _spellings(text: str) -> Iterator[str]:
    r"""Yields the ways in which a source may spell a text, the likely ones first.

    | text         | spelling              | used in                                     |
    | ------------ | --------------------- | ------------------------------------------- |
    | é            | é                     | every file                                  |
    | say "é"      | say \"é\"             | JSON, templates, YAML in double quotes      |
    | é            | \u00e9, then \u00E9   | the same                                    |
    | é            | \xe9                  | templates, YAML in double quotes            |
    | é            | \U000000e9            | templates, YAML in double quotes            |
    | several lines | each line of it      | YAML blocks and macros, which are indented  |
    """
    ascii_json = json.dumps(text)[1:-1]
    upper_json = re.sub(r"\\u[0-9a-f]{4}", lambda escape: f"\\u{escape[0][2:].upper()}", ascii_json)
    short = "".join(_escape(character, short=True) for character in text)
    long = "".join(_escape(character, short=False) for character in text)
    spellings = (text, json.dumps(text, ensure_ascii=False)[1:-1], ascii_json, upper_json, short, long)
    yield from dict.fromkeys(spelling for spelling in spellings if spelling)
    if "\n" in text:
        yield from (line for line in text.split("\n") if len(line) >= _MIN_LINE)


def _escape(character: str, *, short: bool) -> str:
    r"""Returns a character as Python and YAML escape it: `\xe9`, or the long form `\U000000e9`; ASCII as it is.

    A character beyond Latin-1 has no short form, and is returned as it is.
    """
    if " " <= character <= "~":
        return character
    if not short:
        return f"\\U{ord(character):08x}"
    return f"\\x{ord(character):02x}" if ord(character) <= _LATIN_1 else character


def context_length(source: str, begin: int, found: tuple[int, int], text: str, span: tuple[int, int]) -> int:
    """Returns how many characters next to a part are equal in the source and in the text, on both sides together.

    Args:
        source: the source text.
        begin: the first offset in it that counts.
        found: start and end of a spelling of the part in the source.
        text: the rendered text.
        span: start and end of the part in it.
    """
    before, limit = 0, min(_MAX_CONTEXT, found[0] - begin, span[0])
    while before < limit and source[found[0] - before - 1] == text[span[0] - before - 1]:
        before += 1
    after, limit = 0, min(_MAX_CONTEXT, len(source) - found[1], len(text) - span[1])
    while after < limit and source[found[1] + after] == text[span[1] + after]:
        after += 1
    return before + after
