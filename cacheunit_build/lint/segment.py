"""What the text rules read and give: a passage, and hits in it."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from cacheunit_build.lint.registry import CODES
from cacheunit_build.lint.results import SEVERITIES, Severity

Kind = Literal["system", "example", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A part of a passage that a rule objects to, by offsets in characters.

    `subject` is the matched text: equal ones at one place of a source are one finding. `example`: it looks meant.
    """

    code: str
    severity: Severity
    message: str
    start: int
    end: int
    subject: str
    example: bool = False


_FENCE = re.compile(r"^[ \t>]*(`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t>]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_BLANK = r"[ \t]*\n(?:[ \t]*\n)+"
# Markdown's blocks of code, not what goes on with an item of a list; and those of reStructuredText.
_INDENTED = re.compile(
    rf"^(?!(?:[-*+\u2022]|\d+[.)]|\s)[^\n]*)[^\n]*\S{_BLANK}((?:(?: {{4}}|\t)[^\n]*(?:\n|\Z)|[ \t]*\n)+)", re.MULTILINE
)
_LITERAL = re.compile(rf"::{_BLANK}((?:(?: {{2}}|\t)[^\n]*(?:\n|\Z)|[ \t]*\n)+)")
_SPAN = re.compile(r"(?<!`)(`{1,2})(?!`)[^`\n]+\1(?!`)")
_ELEMENT = re.compile(r"<([a-z]*examples?)\b[^<>]*>.*?</\1>", re.DOTALL | re.IGNORECASE)
_HEADING = re.compile(r"^(#{1,6}) [^\n]*\bexamples?\b[^\n]*$", re.MULTILINE | re.IGNORECASE)
_ARGUMENT = re.compile(r"\w\(\\?[\"']$|https?://\S*$")
_NEAR = 160
_EXAMPLE = re.compile(
    r"\be\.?g\.|\bexamples?\b|\bfor instance\b|\bsuch as\b|\bformat(?:ted|s)?\b|\blike\b|\bplaceholder|\bsample\b"
    r"|\bz\. ?B\.|\bISO[ -]?8601\b|例",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Segment:
    """One text that the model reads: the system text, a worked turn, or a text of a tool.

    `keys` say which text of a tool file it is, or which example.
    """

    kind: Kind
    text: str
    path: str | None = None
    keys: tuple[str | int, ...] = ()

    @cached_property
    def _examples(self) -> tuple[list[int], list[int]]:
        """Starts and ends of what stands in elements and under headings that are called examples."""
        found = [match.span() for match in _ELEMENT.finditer(self.text)]
        for match in _HEADING.finditer(self.text):
            end = re.compile(rf"^#{{1,{len(match[1])}}} ", re.MULTILINE).search(self.text, match.end())
            found.append((match.start(), end.start() if end else len(self.text)))
        return _joined(found)

    @cached_property
    def _code(self) -> tuple[list[int], list[int]]:
        """Starts and ends of what stands in fences, indented, and in backticks."""
        found = [match.span() for match in _FENCE.finditer(self.text)]
        found += [match.span(1) for pattern in (_INDENTED, _LITERAL) for match in pattern.finditer(self.text)]
        starts, ends = _joined(found)
        spans = (match.span() for match in _SPAN.finditer(self.text))
        found += [span for span in spans if not _within(span[0], starts, ends)]
        return _joined(found)

    def in_code(self, offset: int) -> bool:
        """Whether that character stands in a block of code or in backticks."""
        return _within(offset, *self._code)

    def before(self, offset: int) -> str:
        """What stands in front of that character on its line, as far as a reader looks back."""
        return self.text[max(self.text.rfind("\n", 0, offset) + 1, offset - _NEAR) : offset]

    def line(self, offset: int) -> str:
        """The line around that character, as far as a reader looks."""
        end = self.text.find("\n", offset, offset + _NEAR)
        return self.before(offset) + self.text[offset : offset + _NEAR if end < 0 else end]

    def in_example(self, offset: int) -> bool:
        """Whether that character stands in code, in a URL or an argument, or in a part that is called examples."""
        beside = _ARGUMENT.search(self.before(offset)) is not None
        return beside or self.in_code(offset) or _within(offset, *self._examples)

    def is_example(self, offset: int) -> bool:
        """Whether what stands there looks meant: in an example, in a table, or on a line that says so."""
        line = self.line(offset)
        table = max(line.count("\t"), line.count("|") - 1) > 1
        return table or self.in_example(offset) or _EXAMPLE.search(line) is not None

    def hit(self, code: str, start: int, end: int, message: str, severity: Severity | None = None) -> Match:
        """A hit of a code, as severe as usual if nothing else is said."""
        subject = self.text[start:end]
        return Match(
            code=code,
            severity=severity or CODES[code].severity,
            message=message,
            start=start,
            end=end,
            subject=subject,
        )


def milder(severity: Severity) -> Severity:
    """One step less severe; info stays info."""
    return SEVERITIES[min(SEVERITIES.index(severity) + 1, len(SEVERITIES) - 1)]


def _joined(spans: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Starts and ends of spans, those that overlap made one."""
    starts: list[int] = []
    ends: list[int] = []
    for start, end in sorted(spans):
        if ends and start <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            starts.append(start)
            ends.append(end)
    return starts, ends


def _within(offset: int, starts: list[int], ends: list[int]) -> bool:
    index = bisect_right(starts, offset) - 1
    return index >= 0 and offset < ends[index]
