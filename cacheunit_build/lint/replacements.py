"""Decides what is to stand in place of a character or an escape that a rule reports, where that is certain."""

from __future__ import annotations

import html
import html.entities
import re
import string
import unicodedata
from typing import TYPE_CHECKING

from cacheunit_build.lint.rules.cu3_characters import LINE_SEPARATOR, MIXED_NORMALIZATION, ZERO_WIDTH
from cacheunit_build.lint.rules.cu3_markup import HTML_ENTITY, JSON_ESCAPE

if TYPE_CHECKING:
    from collections.abc import Callable

    from cacheunit_build.lint.segment import Match, Segment

_ENTITY_REST = re.compile(r"#?\w{1,32};")
"""What makes an entity of an `&` in front of it."""
_HTML_TAG = re.compile(r"<[A-Za-z][^<>]*=[^<>]*>")
"""A tag with an attribute."""
_TEMPLATE_MARKS = frozenset("{}%#")
"""Characters that may begin or end code in a template."""
_SYNTAX = frozenset(string.punctuation)
_TAKES_WORD = frozenset("@#&\\$")
"""Characters that mean something else where a word follows."""
_INVISIBLE_BETWEEN_WORDS = frozenset("\u180e\u200b\u200c\u200d")
"""Invisible characters that some scripts and emoji need."""
_SIMPLE_SCRIPTS = ("LATIN", "GREEK", "CYRILLIC", "CJK", "HIRAGANA", "KATAKANA", "HANGUL", "FULLWIDTH")
"""The first words of the names of letters that never need an invisible character between them."""


class UncertainFixError(Exception):
    """A person has to decide what is to stand there."""


def replacement(segment: Segment, match: Match) -> str:
    """Returns what is to stand in place of the text of a match, whose rule is one of `FIXABLE`.

    Raises:
        UncertainFixError: that is not certain; its message completes the sentence "left alone, since ...".
    """
    if segment.is_value:
        raise UncertainFixError("a program may read it: it is a value of a schema, or an argument of a call")
    return _REPLACEMENTS[match.rule.code](segment, match)


def _entity(segment: Segment, match: Match) -> str:
    """Returns the character of an HTML entity."""
    character = html.unescape(match.subject)
    after = segment.text[match.end : match.end + 40]
    if segment.in_code(match.start):
        raise UncertainFixError("it is in code")
    is_named = match.subject[1:] in html.entities.html5
    if not is_named and not match.subject.startswith("&#"):
        raise UncertainFixError(f"{match.subject} is not an entity")
    if not character.isprintable() or character.isspace() or "\ufffd" in character:
        raise UncertainFixError(f"{match.subject} stands for no character that can be seen")
    if character in ("`", *_TEMPLATE_MARKS):
        raise UncertainFixError(f'"{character}" may begin code')
    if character == "&" and _ENTITY_REST.match(after):
        raise UncertainFixError("the text behind it would become an entity")
    if character in "\"'" and _may_end_quote(segment, match, character):
        raise UncertainFixError("a quotation mark may end a text in quotes")
    return character


def _may_end_quote(segment: Segment, match: Match, mark: str) -> bool:
    """Returns whether a quotation mark on this line may end a text that began before: in HTML, or behind an odd `"`."""
    in_html = _HTML_TAG.search(segment.line_around(match.start)) is not None
    return in_html or (mark == '"' and segment.line_before(match.start).count('"') % 2 == 1)


def _invisible(segment: Segment, match: Match) -> str:
    """Returns nothing, for an invisible character that no letter and no emoji beside it needs."""
    if match.severity == "error":
        raise UncertainFixError("it can hide text: look at that first")
    before, after = _neighbours(segment, match)
    if match.subject in _INVISIBLE_BETWEEN_WORDS and not (_is_simple(before) and _is_simple(after)):
        raise UncertainFixError("the characters beside it may need it")
    if before in _TAKES_WORD or (before in _SYNTAX and after in _SYNTAX):
        raise UncertainFixError("without it, the characters beside it may become code")
    return ""


def _neighbours(segment: Segment, match: Match) -> tuple[str, str]:
    """Returns the nearest characters in front of a match and behind it that are not invisible; else empty texts."""
    before = (segment.text[index] for index in range(match.start - 1, -1, -1))
    after = (segment.text[index] for index in range(match.end, len(segment.text)))
    first, second = (next((c for c in side if unicodedata.category(c) != "Cf"), "") for side in (before, after))
    return first, second


def _is_simple(character: str) -> bool:
    """Returns whether a character is no emoji, and no letter of a script that needs invisible characters."""
    if not character or character.isascii():
        return True
    category = unicodedata.category(character)
    if category[0] in "LM":
        return unicodedata.name(character, "").split(" ")[0] in _SIMPLE_SCRIPTS
    return category not in ("So", "Sk")


def _line_end(segment: Segment, match: Match) -> str:
    """Returns a line end in place of another one, or nothing beside a line end."""
    if "\n" in (segment.text[match.start - 1 : match.start], segment.text[match.end : match.end + 1]):
        return ""
    if "|" in segment.line_around(match.start):
        raise UncertainFixError("a line end may break a table")
    return "\n"


def _composed(_: Segment, match: Match) -> str:
    """Returns the composed form."""
    return unicodedata.normalize("NFC", match.subject)


def _unescaped(segment: Segment, match: Match) -> str:
    r"""Returns the characters of escapes such as `\u00e9`."""
    characters = "".join(chr(int(code, 16)) for code in match.subject.split("\\u")[1:])
    if "'" in characters and segment.in_code(match.start):
        raise UncertainFixError("a quotation mark may end a text in quotes")
    if characters.endswith("&") and _ENTITY_REST.match(segment.text[match.end : match.end + 40]):
        raise UncertainFixError("the text behind it would become an entity")
    return characters


_REPLACEMENTS: dict[str, Callable[[Segment, Match], str]] = {
    HTML_ENTITY.code: _entity,
    ZERO_WIDTH.code: _invisible,
    LINE_SEPARATOR.code: _line_end,
    MIXED_NORMALIZATION.code: _composed,
    JSON_ESCAPE.code: _unescaped,
}

FIXABLE = frozenset(_REPLACEMENTS)
"""The codes of the rules with a fix. CU306 has none: only an expression of a template can write a carriage return."""
