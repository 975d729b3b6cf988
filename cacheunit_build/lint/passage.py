"""What the text rules read and give: a passage, and hits in it."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from cacheunit_build.codes import CODES
from cacheunit_build.finding import SEVERITIES, Severity

Kind = Literal["system", "example", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A part of a passage that a rule objects to, by offsets in characters.

    `subject` is the matched text as messages show it; equal ones at one place of a source are one finding.
    """

    code: str
    severity: Severity
    message: str
    start: int
    end: int
    subject: str


_FENCE = re.compile(r"^[ \t>]*(`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t>]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)(`{1,2})(?!`)[^`\n]+\1(?!`)")
_EXAMPLE = re.compile(
    r"\be\.?g\.|\bexamples?\b|\bfor instance\b|\bsuch as\b|\bformat(?:ted|s)?\b|\blike\b|\bplaceholder|\bsample\b"
    r"|\bz\. ?B\.|\bISO[ -]?8601\b|例",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Passage:
    """One text that the model reads: the system text, a worked turn, or a text of a tool.

    `keys` say which text of a tool file it is, or which example.
    """

    kind: Kind
    text: str
    path: str | None = None
    keys: tuple[str | int, ...] = ()

    @cached_property
    def _code(self) -> tuple[list[int], list[int]]:
        """Starts and ends of what stands in fences and in backticks."""
        found = [match.span() for match in _FENCE.finditer(self.text)]
        starts, ends = [start for start, _ in found], [end for _, end in found]
        spans = (match.span() for match in _SPAN.finditer(self.text))
        found += [span for span in spans if not _within(span[0], starts, ends)]
        found.sort()
        return [start for start, _ in found], [end for _, end in found]

    def in_code(self, offset: int) -> bool:
        """Whether that character stands in a fence or in backticks."""
        return _within(offset, *self._code)

    def before(self, offset: int) -> str:
        """The line as far as that character."""
        return self.text[self.text.rfind("\n", 0, offset) + 1 : offset]

    def line(self, offset: int) -> str:
        """The whole line that the character stands on."""
        end = self.text.find("\n", offset)
        return self.before(offset) + self.text[offset : len(self.text) if end < 0 else end]

    def is_example(self, offset: int) -> bool:
        """Whether what stands there looks meant as an example: in code, or on a line that says so."""
        return self.in_code(offset) or _EXAMPLE.search(self.line(offset)) is not None

    def hit(self, code: str, start: int, end: int, message: str, severity: Severity | None = None) -> Hit:
        """A hit of a code, as severe as usual if nothing else is said."""
        subject = self.text[start:end]
        return Hit(
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


def _within(offset: int, starts: list[int], ends: list[int]) -> bool:
    index = bisect_right(starts, offset) - 1
    return index >= 0 and offset < ends[index]
