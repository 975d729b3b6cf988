"""Defines the texts that text rules read, and the matches that they report in them."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Literal

from cacheunit_build.lint.rule import Problem, milder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cacheunit_build.domain.source_map import SourceLine
    from cacheunit_build.lint.rule import Rule, Severity

SegmentKind = Literal["system", "example", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match(Problem):
    """A problem with a part of a segment.

    Attributes:
        start: offset of the first character of that part.
        end: offset after its last character.
        subject: the text of that part; equal subjects at one location are reported once.
        is_example: whether the text presents it as an example, so that it is no real timestamp, id or the like.
    """

    start: int
    end: int
    subject: str
    is_example: bool = False

    def overlaps_any(self, others: Sequence[Match]) -> bool:
        """Returns whether it shares a character with one of these matches of its segment, which are in order."""
        index = bisect_right(others, self.start, key=lambda other: other.end)
        return index < len(others) and others[index].start < self.end


# From ``` or ~~~ to the same fence, or to the end of the text.
_FENCED_BLOCK = re.compile(r"^[ \t>]*(`{3,}+|~{3,}+)[^\n]*\n.*?(?:^[ \t>]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_BLANK_LINES = r"[ \t]*\n(?:[ \t]*\n)+"
# Indented code in Markdown; group 1 is the code. What follows an item of a list only continues that item.
_INDENTED_BLOCK = re.compile(
    rf"^(?!(?:[-*+\u2022]|\d+[.)]|\s)[^\n]*)[^\n]*\S{_BLANK_LINES}((?:(?: {{4}}|\t)[^\n]*(?:\n|\Z)|[ \t]*\n)+)",
    re.MULTILINE,
)
# A literal block in reStructuredText: indented lines after "::".
_LITERAL_BLOCK = re.compile(rf"::{_BLANK_LINES}((?:(?: {{2}}|\t)[^\n]*(?:\n|\Z)|[ \t]*\n)+)")
# `code` or ``code``, on one line.
_INLINE_CODE = re.compile(r"(?<!`)(`{1,2})(?!`)[^`\n]+\1(?!`)")
# <example>, <badexamples lang="de">, </example>; group 1 is the slash, group 2 the name.
_EXAMPLE_TAG = re.compile(r"<(/?)([a-z]*examples?)\b([^<>]*)>", re.IGNORECASE)
# "## Example answers"; group 1 is the level.
_EXAMPLE_HEADING = re.compile(r"^(#{1,6}) [^\n]*\bexamples?\b[^\n]*$", re.MULTILINE | re.IGNORECASE)
# The text before a match that makes it an argument or a part of a URL: `call("`, `https://x.test/`.
_ARGUMENT_OR_URL = re.compile(r"\w\(\\?[\"']$|https?://\S*$")
# "z. B." and 例 are "e.g." in German, and in Chinese and Japanese.
_EXAMPLE_WORD = re.compile(
    r"\be\.?g\.|\bexamples?\b|\bfor instance\b|\bsuch as\b|\bformat(?:ted|s)?\b|\blike\b|\bplaceholder|\bsample\b"
    r"|\bz\. ?B\.|\bISO[ -]?8601\b|例",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d|[年月]")
_MOST_MATCHES = 500
_LINE_CONTEXT = 160
"""Characters of a line that are read on each side of a match, since a line may be a whole document."""


_ZEROS = "\u0660\u06f0\u0966\u09e6\u0e50"
"""The digits zero of Arabic, Persian, Hindi, Bengali and Thai; the others follow."""


@cache
def _plain_characters() -> dict[int, str]:
    """Returns what stands for digits, spaces, hyphens and commas of other scripts, and for full-width forms."""
    digits = {ord(zero) + value: str(value) for zero in _ZEROS for value in range(10)}
    full_width = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    return {**digits, **full_width, **dict.fromkeys(map(ord, "\u00a0\u2007\u2009\u202f\u3000"), " ")} | {
        **dict.fromkeys(map(ord, "\u2010\u2011\u2212"), "-"),
        **dict.fromkeys(map(ord, "\u060c\u3001"), ","),
    }


@dataclass(frozen=True, slots=True)
class Spans:
    """Sorted spans that do not overlap, for quick look-up.

    Attributes:
        starts: offsets of the first characters.
        ends: offsets after the last characters.
    """

    starts: tuple[int, ...]
    ends: tuple[int, ...]

    @classmethod
    def joined(cls, spans: list[tuple[int, int]]) -> Spans:
        """Joins spans that overlap or touch: (0, 4), (2, 6), (9, 12) become (0, 6), (9, 12)."""
        starts: list[int] = []
        ends: list[int] = []
        for start, end in sorted(spans):
            if ends and start <= ends[-1]:
                ends[-1] = max(ends[-1], end)
            else:
                starts.append(start)
                ends.append(end)
        return cls(tuple(starts), tuple(ends))

    def __contains__(self, offset: int) -> bool:
        index = bisect_right(self.starts, offset) - 1
        return index >= 0 and offset < self.ends[index]

    def overlaps(self, span: tuple[int, int]) -> bool:
        """Returns whether a span shares a character with one of these."""
        index = bisect_left(self.starts, span[1]) - 1
        return index >= 0 and span[0] < self.ends[index]


def first_of_each_place(stages: Iterable[Iterable[Match]]) -> Iterator[Match]:
    """Yields the matches of each stage that share no character with those of an earlier stage."""
    taken: list[tuple[int, int]] = []
    for stage in stages:
        earlier = Spans.joined(taken)
        for match in stage:
            if not earlier.overlaps((match.start, match.end)):
                taken.append((match.start, match.end))
                yield match


def _example_elements(text: str) -> list[tuple[int, int]]:
    """Returns the spans from the start of each example element to the next end of one with the same name."""
    tags = list(_EXAMPLE_TAG.finditer(text))
    ends: dict[str, list[int]] = {}
    for tag in tags:
        if tag[1] and not tag[3]:
            ends.setdefault(tag[2].lower(), []).append(tag.end())
    spans: list[tuple[int, int]] = []
    for tag in tags:
        closing = ends.get(tag[2].lower(), [])
        index = bisect_right(closing, tag.end())
        if not tag[1] and index < len(closing) and not (spans and tag.start() < spans[-1][1]):
            spans.append((tag.start(), closing[index]))
    return spans


@dataclass(frozen=True, kw_only=True)
class Segment:
    """One text that the model reads: the system text, an example turn, or a text of a tool.

    Attributes:
        kind: what it is part of.
        text: the rendered text; for a tool, the value in the tool file.
        turn: for an example, the index of its turn in the manifest; else None.
        tool_line: for a tool, the file and line that hold the text; else None.
        is_value: whether a program reads it, such as a value of an enum or an argument of a call.
    """

    kind: SegmentKind
    text: str
    turn: int | None = None
    tool_line: SourceLine | None = None
    is_value: bool = False

    @cached_property
    def _example_spans(self) -> Spans:
        """The parts that are marked as examples, by an element or by the heading above them."""
        spans = _example_elements(self.text)
        for heading in _EXAMPLE_HEADING.finditer(self.text):
            next_heading = re.compile(rf"^#{{1,{len(heading[1])}}} ", re.MULTILINE).search(self.text, heading.end())
            spans.append((heading.start(), next_heading.start() if next_heading else len(self.text)))
        return Spans.joined(spans)

    @cached_property
    def _code_spans(self) -> Spans:
        """The parts that are code: fenced, indented, or in backticks."""
        blocks = [match.span() for match in _FENCED_BLOCK.finditer(self.text)]
        blocks += [
            match.span(1) for pattern in (_INDENTED_BLOCK, _LITERAL_BLOCK) for match in pattern.finditer(self.text)
        ]
        in_blocks = Spans.joined(blocks)
        inline = [match.span() for match in _INLINE_CODE.finditer(self.text) if match.start() not in in_blocks]
        return Spans.joined(blocks + inline)

    def is_cut(self, count: int) -> bool:
        """Returns whether so many matches of a pattern may not be all that there are."""
        return count >= _MOST_MATCHES

    @cached_property
    def _plain(self) -> str:
        """The text with plain digits and spaces: a narrow space in "3:22 PM" and the full-width 2026 are no others."""
        return self.text if self.text.isascii() else self.text.translate(_plain_characters())

    def finditer(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """Yields the matches of a pattern, the first 500 at most: what is repeated so often is one problem."""
        return islice(pattern.finditer(self.text), _MOST_MATCHES)

    @cached_property
    def _numeric_lines(self) -> tuple[tuple[int, int], ...]:
        """The spans of the lines with a digit, or the East Asian sign for a year or a month."""
        lines: list[tuple[int, int]] = []
        end = 0
        while number := _NUMBER.search(self._plain, end):
            start = self._plain.rfind("\n", end, number.start()) + 1
            end = self._plain.find("\n", number.end()) + 1 or len(self._plain)
            lines.append((max(start, lines[-1][1] if lines else 0), end))
        return tuple(lines)

    def finditer_plain(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """Yields the matches of a pattern as `finditer`, in the text with plain characters; offsets are the same."""
        return islice(pattern.finditer(self._plain), _MOST_MATCHES)

    def finditer_numeric(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """Yields the same, but searches only lines with numbers, which are few: for patterns that need one."""
        lines = (pattern.finditer(self._plain, start, end) for start, end in self._numeric_lines)
        return islice(chain.from_iterable(lines), _MOST_MATCHES)

    def in_code(self, offset: int) -> bool:
        """Returns whether a character is in a code block or in backticks."""
        return offset in self._code_spans

    def line_before(self, offset: int) -> str:
        """Returns the text before a character on its line, 160 characters at most."""
        begin = max(0, offset - _LINE_CONTEXT)
        return self.text[max(self.text.rfind("\n", begin, offset) + 1, begin) : offset]

    def line_around(self, offset: int) -> str:
        """Returns the line of a character, 160 characters at most on each side of it."""
        end = self.text.find("\n", offset, offset + _LINE_CONTEXT)
        return self.line_before(offset) + self.text[offset : offset + _LINE_CONTEXT if end < 0 else end]

    def word_at(self, offset: int) -> tuple[int, int]:
        """Returns the span of the rest of the word at an offset, or of one character where there is no word."""
        end = offset
        while end < len(self.text) and self.text[end].isalnum():
            end += 1
        return offset, max(end, min(offset + 1, len(self.text)))

    def in_example(self, offset: int) -> bool:
        """Returns whether a character is in code, in a URL, in an argument, or in a part marked as an example."""
        is_argument = _ARGUMENT_OR_URL.search(self.line_before(offset)) is not None
        return is_argument or self.in_code(offset) or offset in self._example_spans

    def looks_like_example(self, offset: int) -> bool:
        """Returns whether a character is in an example, in a table, or on a line with words such as "e.g."."""
        line = self.line_around(offset)
        in_table = max(line.count("\t"), line.count("|") - 1) > 1
        return in_table or self.in_example(offset) or _EXAMPLE_WORD.search(line) is not None

    def match(self, rule: Rule, span: tuple[int, int], message: str, severity: Severity | None = None) -> Match:
        """Returns a match of a rule at a span, with the rule's own severity where none is passed."""
        start, end = span
        return Match(
            rule=rule,
            severity=severity or rule.severity,
            message=message,
            hint=rule.hint,
            start=start,
            end=end,
            subject=self.text[start:end],
        )

    def volatile_match(
        self, rule: Rule, span: tuple[int, int], message: str, severity: Severity | None = None
    ) -> Match:
        """Returns a match of a rule about text that changes, one step milder where it looks like an example.

        Args:
            rule: the rule.
            span: offsets of the first character and after the last.
            message: what is wrong.
            severity: a severity that holds for what the text presents as current. Words such as "format" on the same
                line then do not make it an example.
        """
        result = self.match(rule, span, message, severity)
        start = span[0]
        is_example = self.looks_like_example(start) if severity is None else self.in_example(start)
        if not is_example:
            return result
        where = "in code" if self.in_code(start) else "in an example"
        return replace(result, message=f"{message} ({where})", severity=milder(result.severity), is_example=True)
