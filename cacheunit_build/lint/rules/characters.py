"""Characters that a reader does not see, or that stand for another one: CU3xx."""

from __future__ import annotations

import html
import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cacheunit_build.lint.segment import Match, Segment

_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_AUTOESCAPED = frozenset(("&#34;", "&#39;"))
_ABOUT_HTML = re.compile(
    r"</?(?:p|div|span|a|br|li|ul|ol|td|th|tr|table|h[1-6]|img|b|i|em|strong|code|pre|body|head|html|script|input)\b[^<>]*>"
    r"|\bhtml|\bentit(?:y|ies)\b|escap",
    re.IGNORECASE,
)
_ZERO_WIDTH = re.compile("[\u00ad\u180e\u200b\u200c\u200d\u2060-\u2064\ufeff\U000e0000-\U000e007f]")
_JOINERS = "\u200c\u200d"
_TAGS = ("\U000e0000", "\U000e007f")
_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_MARKS = "\u061c\u200e\u200f"
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]")
_SEPARATOR = re.compile("[\u2028\u2029\x85\x0b\x0c]")
_COMBINED = re.compile(r"[^\W\d_][\u0300-\u036f\u3099\u309a]+")
_ESCAPES = re.compile(r"(?<![\\\[-])(?:\\u[0-9a-fA-F]{4})+(?![-\]])")
_KNOWN_TOKENS = re.compile(
    r"<\|(?:im_start|im_end|im_sep|endoftext|endofprompt|begin_of_text|end_of_text|start_header_id|end_header_id|eot_id|eom_id"
    r"|python_tag|system|user|assistant|end|channel|message|start|return|call|fim_prefix|fim_middle|fim_suffix|startoftext)\|>"
    r"|<\uff5c[^\uff5c\n]{1,40}\uff5c>|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>|<(?:bos|eos)>|\[(?:gMASK|sop)\]"
)
_ZERO_WIDTH_NAMES = {"\u00ad": "SOFT HYPHEN", "\ufeff": "BYTE ORDER MARK"}


def character_hits(passage: Segment) -> Iterator[Match]:
    """Entities, invisible and control characters, odd line ends, escapes, control tokens of well-known models."""
    for match in _ENTITY.finditer(passage.text):
        if html.unescape(match[0]) != match[0] and (match[0] in _AUTOESCAPED or not _is_markup(passage, match)):
            yield passage.hit("CU301", *match.span(), f"{match[0]} is an HTML entity")
    yield from _invisible(passage)
    for match in _CONTROL.finditer(passage.text):
        yield passage.hit("CU304", *match.span(), f"the control character {_named(match[0])}")
    for match in _SEPARATOR.finditer(passage.text):
        yield passage.hit("CU305", *match.span(), f"{_named(match[0])} ends a line for some readers only")
    for match in re.finditer("\r\n?", passage.text):
        yield passage.hit("CU306", *match.span(), "a carriage return")
    for match in _ESCAPES.finditer(passage.text):
        yield from _escaped(passage, match)


def _is_markup(passage: Segment, match: re.Match[str]) -> bool:
    """Whether an entity stands in code, in HTML, where the text is about HTML, or for the bar in a Markdown table."""
    bar = html.unescape(match[0]) == "|"
    return bar or passage.in_code(match.start()) or _ABOUT_HTML.search(passage.line(match.start())) is not None


def _invisible(passage: Segment) -> Iterator[Match]:
    for match in _ZERO_WIDTH.finditer(passage.text):
        character, start = match[0], match.start()
        if _TAGS[0] <= character <= _TAGS[1]:
            if not _in_flag(passage.text, start):
                yield passage.hit("CU302", start, start + 1, f"{_named(character)} hides text", "error")
        elif character not in _JOINERS or not _joins(passage.text, start):
            yield passage.hit("CU302", start, start + 1, f"{_named(character)} is not seen")
    for match in _BIDI.finditer(passage.text):
        if match[0] not in _MARKS or not _beside_right_to_left(passage.text, match.start()):
            yield passage.hit("CU303", *match.span(), f"{_named(match[0])} changes the order that is seen")


def _in_flag(text: str, start: int) -> bool:
    """Whether a tag character belongs to the flag of a region."""
    while start and _TAGS[0] <= text[start] <= _TAGS[1]:
        start -= 1
    return text[start] == "\U0001f3f4"


def _joins(text: str, offset: int) -> bool:
    """Whether a joiner does its work: between emoji, or between letters of a script that has joined forms."""
    before, after = text[:offset].rstrip("\ufe0f")[-1:], text[offset + 1 : offset + 2]
    if not before or not after:
        return False
    emoji = all(unicodedata.category(c) in ("So", "Sk", "Mn") for c in (before, after))
    return emoji or (_joining(before) and (_joining(after) or text[offset] == "\u200d"))


def _joining(character: str) -> bool:
    """Arabic, Syriac and their neighbours, or a script of India, Sri Lanka or its neighbours."""
    return "\u0600" <= character <= "\u08ff" or "\u0900" <= character <= "\u109f" or "\u1780" <= character <= "\u18af"


def _beside_right_to_left(text: str, offset: int) -> bool:
    near = text[max(0, offset - 40) : offset + 40]
    return any(unicodedata.bidirectional(c) in ("R", "AL") and not _BIDI.match(c) for c in near)


def _escaped(passage: Segment, match: re.Match[str]) -> Iterator[Match]:
    """Escapes that stand for letters beside text, or for what HTML escapes; not a lone one that is discussed."""
    spelt = "".join(chr(int(code, 16)) for code in match[0].split("\\u")[1:])
    html_safe = all(character in "<>&'" for character in spelt)
    letters = all(character.isalpha() and not character.isascii() for character in spelt)
    beside = passage.text[match.start() - 1 : match.start()].isalpha() or passage.text[match.end() :][:1].isalpha()
    if html_safe or (letters and (beside or len(spelt) > 1)):
        yield passage.hit("CU309", *match.span(), f'{match[0]} stands for "{spelt}"')


def token_hits(passage: Segment, controls: Sequence[str]) -> Iterator[Match]:
    """Control tokens: those of the target that the text spells (`controls`), and those of well-known other models."""
    for token in controls:
        for match in re.finditer(re.escape(token), passage.text):
            yield passage.hit("CU308", *match.span(), f"{token} is a control token of the target")
    for match in _KNOWN_TOKENS.finditer(passage.text):
        if match[0] not in controls:
            yield passage.hit("CU308", *match.span(), f"{match[0]} is a control token of other models", "info")


def mixed_normalization(passages: Sequence[Segment]) -> Iterator[tuple[Segment, Match]]:
    """Decomposed characters, each kind once, if composed ones stand in the same prefix."""
    if not any(_is_composed(c) for passage in passages if not passage.text.isascii() for c in set(passage.text)):
        return
    told: set[str] = set()
    for passage in passages:
        for match in _COMBINED.finditer(passage.text):
            composed = unicodedata.normalize("NFC", match[0])
            if len(composed) < len(match[0]) and composed not in told:
                told.add(composed)
                yield passage, passage.hit("CU307", *match.span(), f'"{composed}" is decomposed, others are composed')


def _is_composed(character: str) -> bool:
    """Whether it is one character for a letter and its marks."""
    return not character.isascii() and _COMBINED.fullmatch(unicodedata.normalize("NFD", character)) is not None


def _named(character: str) -> str:
    name = _ZERO_WIDTH_NAMES.get(character) or unicodedata.name(character, "")
    return f"U+{ord(character):04X}{f' ({name})' if name else ''}"
