"""Finds comments in a YAML text that seem to cut the text in front of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.parsing.yaml_nodes import compose, scalars

if TYPE_CHECKING:
    from collections.abc import Iterator

_NEXT_COMMENT = re.compile(r"[ \t]+(#[^\n]*)")
_ANY_COMMENT = re.compile(r"\S[ \t]#")
_EMPTY_VALUE = re.compile(r"(?<=:)[ \t]+(#[^\n]*)")
_PAIRS = {"(": ")", "[": "]", "{": "}", "\u201c": "\u201d", "\u201e": "\u201c", "\u00ab": "\u00bb"}
_QUOTES = ('"', "`")
_OPEN_END = re.compile(
    r"[\s(\"'](?:an?|the|this|of|to|with|and|or|by|for|from|in|on|as|at|is|are|use|using|see|press|type|write|key"
    r"|heading|issue|ticket|channel|number|no\.|nr\.?|pr)$",
    re.IGNORECASE,
)
"""The last word of a text that is not complete: `Press the` of `Press the # key`."""
_LONGEST_WORD = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class CutText:
    """A text without quotes that ends where a comment begins, although the comment may be a part of it.

    Attributes:
        offset: where the comment begins in the file.
        text: the text in front of it; empty where there is none.
        comment: the comment, with its `#`.
    """

    offset: int
    text: str
    comment: str


def cut_texts(text: str, path: str) -> Iterator[CutText]:
    """Yields each scalar without quotes that seems to go on in the comment behind it, in the order of the file.

    written                              cut, since
    note: You are helper (issue #12)     the comment closes what the text opens
    note: Mention issue #12 in replies   the comment begins without a space, behind several words
    note: Press the # key                the text ends in the middle of a sentence
    color: #fff                          there is no text, and the comment begins without a space
    size: 12  # in pixels                no: this is how comments are written

    Raises:
        CacheunitError: a syntax error, or a limit that is exceeded.
    """
    if not _ANY_COMMENT.search(text):
        return
    end = 0
    for scalar in scalars(compose(text, path)):
        start, former_end, end = scalar.start_mark.index, end, scalar.end_mark.index
        match = None if scalar.style else _NEXT_COMMENT.match(text, end)
        if match is None and start == end:  # in brackets, an empty value has the place of what follows its comment
            match = _EMPTY_VALUE.search(text, former_end, start)
        if match is not None and _seems_cut(scalar.value, match[1], match.start(1) - match.start()):
            yield CutText(offset=match.start(1), text=scalar.value, comment=match[1].rstrip())


def _seems_cut(text: str, comment: str, spaces: int) -> bool:
    """Returns whether a text without quotes seems to go on in the comment that follows after so many spaces."""
    if spaces > 1 or comment.startswith("# cacheunit:"):
        return False
    joined = comment[1:2].isalnum()
    if not text:
        return joined
    closes = any(text.count(first) > text.count(last) and last in comment for first, last in _PAIRS.items())
    closes = closes or any(text.count(quote) % 2 and quote in comment for quote in _QUOTES)
    return closes or (" " in text and (joined or _OPEN_END.search(text[-_LONGEST_WORD:]) is not None))
