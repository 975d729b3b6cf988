"""Finds the YAML front matter of a text: the lines between two lines `---` at its very start.

---                        the first line of the file
title: Reviewer
---                        or ...
blank lines are a part of it
You review code.           the text
"""

from __future__ import annotations

import re

from cacheunit_build.domain.errors import fail

_START = re.compile(r"---[ \t]*(?:\n|\Z)")
_END = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.MULTILINE)
_BLANK_LINES = re.compile(r"(?:[ \t]*\n)*")
_SKIPPED_LINES = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*")
"""Blank lines and comments."""
_KEY = re.compile(r"(?:\w[^\n:]*|\"[^\n\"]*\"|'[^\n']*')[ \t]*:(?:[ \t]|$)", re.MULTILINE)


def front_matter_end(text: str, path: str) -> int:
    """Returns the offset behind the front matter of a text and the blank lines that follow; 0 where it has none.

    Args:
        text: the text, without a byte-order mark and with LF line ends.
        path: its file, for messages.

    Raises:
        CacheunitError: the front matter does not end, or what stands there is none.
    """
    start = _START.match(text)
    if start is None:
        return 0
    end = _END.search(text, start.end())
    if end is None:
        hint = 'end it with a line "---"; a text that begins with a rule can write it as "***"'
        raise fail('the front matter does not end: there is no second line "---"', path=path, line=1, hint=hint)
    skipped = _SKIPPED_LINES.match(text, start.end(), end.start())
    first = start.end() if skipped is None else skipped.end()
    has_text = bool(text[start.end() : end.start()].strip())
    if has_text and (first == end.start() or _KEY.match(text, first, end.start()) is None):
        line = text.count("\n", 0, first if first < end.start() else start.end()) + 1
        hint = 'write the first line of a text that begins with a rule as "***"'
        raise fail("not the front matter of a file: the line is no YAML key", path=path, line=line, hint=hint)
    blank = _BLANK_LINES.match(text, end.end())
    return end.end() if blank is None else blank.end()


def template_without_front_matter(text: str, path: str) -> str:
    """Returns a template with a comment of as many lines in place of its front matter: lines keep their numbers.

    Args:
        text: the text, without a byte-order mark and with LF line ends.
        path: its file, for messages.

    Raises:
        CacheunitError: the front matter does not end, or what stands there is none.
    """
    end = front_matter_end(text, path)
    line_ends = "\n" * text.count("\n", 0, end)
    return f"{{#{line_ends}#}}{text[end:]}" if end else text
