"""A unified diff of two texts, with white space and other characters without a shape made visible."""

from __future__ import annotations

import difflib
import unicodedata
from typing import TYPE_CHECKING

from cacheunit_build.domain.sequences import common_ends

if TYPE_CHECKING:
    from collections.abc import Iterator

_CONTEXT = 3
_MOST_COMPARED = 4_000_000  # lines of one text times lines of the other
_SYMBOLS = {"\t": "→", "\r": "␍", "\u00a0": "⍽"}


def diff_lines(old: str, new: str, *, name: str) -> list[str]:
    """Returns a unified diff of two texts; spaces at the end of a line, tabs and characters without a shape are shown.

    Args:
        old: the old text.
        new: the new text.
        name: the name of both in the header.
    """
    return [f"--- {name} (before)", f"+++ {name} (now)", *_hunks(old.split("\n"), new.split("\n"))]


def _hunks(old: list[str], new: list[str]) -> Iterator[str]:
    """Yields the lines of all hunks; everything between the common ends is one hunk where comparing takes too long."""
    head, tail = common_ends(old, new)
    first, rest = max(0, head - _CONTEXT), max(0, tail - _CONTEXT)
    before, after = old[first : len(old) - rest], new[first : len(new) - rest]
    if len(before) * len(after) > _MOST_COMPARED:
        yield f"@@ -{first + 1},{len(before)} +{first + 1},{len(after)} @@"
        yield from (f"-{show_white_space(line)}" for line in before)
        yield from (f"+{show_white_space(line)}" for line in after)
        return
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        start, end = group[0], group[-1]
        yield f"@@ -{first + start[1] + 1},{end[2] - start[1]} +{first + start[3] + 1},{end[4] - start[3]} @@"
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                yield from (f" {show_white_space(line)}" for line in before[old_start:old_end])
                continue
            yield from (f"-{show_white_space(line)}" for line in before[old_start:old_end])
            yield from (f"+{show_white_space(line)}" for line in after[new_start:new_end])


def show_white_space(line: str) -> str:
    """Returns a line with trailing spaces as `·`, tabs as `→`, and characters without a shape as their code point."""
    body = line.rstrip(" ")
    return show_characters(body) + "·" * (len(line) - len(body))


def show_characters(text: str) -> str:
    """Returns a text with tabs as `→`, and characters without a shape as their code point."""
    return text if text.isascii() and text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character in _SYMBOLS:
        return _SYMBOLS[character]
    invisible = unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
    odd_space = character != " " and unicodedata.category(character) == "Zs" and character != "\u3000"
    return f"⟨U+{ord(character):04X}⟩" if invisible or odd_space else character
