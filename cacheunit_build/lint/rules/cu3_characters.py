"""CU3xx: invisible or unusual characters and control tokens; together with `cu3_markup`, escapes and markup."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from cacheunit_build.lint.rule import Rule, template_example
from cacheunit_build.lint.rules.cu3_markup import FRONT_MATTER, HTML_COMMENT, HTML_ENTITY, JSON_ESCAPE, markup_matches

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from cacheunit_build.lint.segment import Match, Segment

ZERO_WIDTH = Rule(
    code="CU302",
    name="zero-width",
    severity="warning",
    meaning="an invisible character that costs tokens; an error if it can hide text",
    hint="delete it; if you need it, write {{ '\\u200b' }} and ignore the rule there",
    why=(
        "A reviewer cannot see the character, but the model reads it, and it splits the word around it into other "
        "tokens. Mostly it was pasted from a web page. Tag characters spell out ASCII text that no editor shows, "
        "with which instructions can be smuggled into a prompt; they are errors."
    ),
    bad=template_example("Frame\u200bs and forks.\n"),
    good=template_example("Frames and forks.\n"),
    sources=("https://promptshield.js.org/docs/detectors/invisible-chars",),
)
BIDIRECTIONAL = Rule(
    code="CU303",
    name="bidirectional",
    severity="error",
    meaning="a character that changes the order in which text is displayed",
    hint="delete it: reviewers must see what the model reads",
    why=(
        "These characters make an editor show text in another order than the one in which the model reads it. "
        "What a reviewer approves is then not what is sent; in source code, this is known as Trojan Source."
    ),
    bad=template_example("Sell frames \u202eand forks.\n"),
    good=template_example("Sell frames and forks.\n"),
    sources=("https://trojansource.codes/", "https://www.unicode.org/reports/tr9/"),
)
CONTROL_CHARACTER = Rule(
    code="CU304",
    name="control-character",
    severity="error",
    meaning="a control character other than tab and line feed",
    hint="delete it",
    why=(
        "A control character in a prompt is left over from a terminal, a log or a binary file. It means nothing "
        "to the model and costs tokens, and it can hide or change what a terminal shows of the prompt."
    ),
    bad=template_example("Frames\u001b[1m and forks.\n"),
    good=template_example("Frames and forks.\n"),
)
LINE_SEPARATOR = Rule(
    code="CU305",
    name="line-separator",
    severity="warning",
    meaning="a line separator other than LF: U+2028, U+2029, U+0085, a vertical tab or a form feed",
    hint="end lines with LF",
    why=(
        "Some programs end a line at these characters, and others do not. Editors and reviews then show lines "
        "other than those that the template has, and the model reads a rare character in place of a line end."
    ),
    bad=template_example("Sell frames.\u2028Sell forks.\n"),
    good=template_example("Sell frames.\nSell forks.\n"),
)
CARRIAGE_RETURN = Rule(
    code="CU306",
    name="carriage-return",
    severity="error",
    meaning="a carriage return, written as an escape in a template",
    hint='end lines with LF: "\\n"',
    why=(
        "Line ends of files are read as LF, so a carriage return can only come from an expression. It makes the "
        "text differ from the same text with plain line ends, token by token, and no editor or diff shows the "
        "difference."
    ),
    bad=template_example('Sell frames.{{ "\\r\\n" }}Sell forks.\n'),
    good=template_example('Sell frames.{{ "\\n" }}Sell forks.\n'),
)
MIXED_NORMALIZATION = Rule(
    code="CU307",
    name="mixed-normalization",
    severity="warning",
    meaning="decomposed characters beside composed ones: they look equal and are different tokens",
    hint="save the file in composed form (NFC)",
    why=(
        "Unicode can write é as one character or as e and an accent. Both look the same, but are different "
        "tokens: a search finds only one of them, and a file that an editor saves in the other form changes the "
        "prefix without a visible difference."
    ),
    bad=template_example("Meet in the café, not in the cafe\u0301 next door.\n"),
    good=template_example("Meet in the café, not in the café next door.\n"),
    sources=("https://www.unicode.org/reports/tr15/",),
)
CONTROL_TOKEN = Rule(
    code="CU308",
    name="control-token",
    severity="warning",
    meaning="the text of a control token, of a target that allows it or of another model",
    hint="reword it: whatever reads it as a control token sees a turn begin or end",
    why=(
        "Servers and models use such a text to mark where a turn begins or ends. Where the text of a prompt is "
        "read as the token itself, the model sees a turn that nobody wrote; elsewhere, it costs tokens and may "
        "confuse the model. A token of another model is only info."
    ),
    bad={
        "prefixes/agent.yaml": "system: agent.md.j2\nspecial_tokens: allow\n",
        "templates/agent.md.j2": "Stop as soon as you read <\uff5cUser\uff5c> in the text.\n",
    },
    good={
        "prefixes/agent.yaml": "system: agent.md.j2\n",
        "templates/agent.md.j2": "Stop as soon as the next turn begins.\n",
    },
)
RULES = (
    HTML_ENTITY,
    ZERO_WIDTH,
    BIDIRECTIONAL,
    CONTROL_CHARACTER,
    LINE_SEPARATOR,
    CARRIAGE_RETURN,
    MIXED_NORMALIZATION,
    CONTROL_TOKEN,
    JSON_ESCAPE,
    HTML_COMMENT,
    FRONT_MATTER,
)

# Soft hyphen, Mongolian vowel separator, zero-width space and joiners, word joiner, invisible operators, byte order
# mark, tag characters.
_INVISIBLE = re.compile("[\u00ad\u180e\u200b\u200c\u200d\u2060-\u2064\ufeff\U000e0000-\U000e007f]")
# Needed between some emoji, and in scripts with joined forms.
_JOINERS = "\u200c\u200d"
# Tag characters: an invisible copy of ASCII, used in flags of regions, and to smuggle hidden text.
_TAG_RANGE = ("\U000e0000", "\U000e007f")
_LONGEST_FLAG = 16
"""More tag characters than any flag of a region has."""
# Marks, embeddings, overrides and isolates of the Unicode Bidirectional Algorithm (UAX #9).
_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Marks only affect punctuation beside them, and are ordinary in right-to-left text.
_BIDI_MARKS = "\u061c\u200e\u200f"
# C0 and C1 controls without tab, line ends, and what _SEPARATOR has.
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]")
_CARRIAGE_RETURN = re.compile("\r\n?")
_SEPARATOR = re.compile("[\u2028\u2029\x85\x0b\x0c]")
# A letter followed by combining accents, or by the voicing marks of Japanese.
_DECOMPOSED = re.compile(r"[^\W\d_][\u0300-\u036f\u3099\u309a]+")
# Control tokens of well-known model families.
_COMMON_CONTROL_TOKENS = re.compile(
    r"<\|(?:im_start|im_end|im_sep|endoftext|endofprompt|begin_of_text|end_of_text|start_header_id|end_header_id|eot_id|eom_id"
    r"|python_tag|system|user|assistant|end|channel|message|start|return|call|fim_prefix|fim_middle|fim_suffix|startoftext)\|>"
    r"|<\uff5c[^\uff5c\n]{1,40}\uff5c>|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>|<(?:bos|eos)>|\[(?:gMASK|sop)\]"
)
# Better known names than those of the Unicode database.
_NAMES = {"\u00ad": "SOFT HYPHEN", "\ufeff": "BYTE ORDER MARK"}


def character_matches(segment: Segment) -> Iterator[Match]:
    """Yields invisible and control characters, unusual line ends, and what `markup_matches` yields."""
    yield from _invisible_characters(segment)
    yield from _bidirectional_characters(segment)
    for match in segment.finditer(_CONTROL):
        yield segment.match(CONTROL_CHARACTER, match.span(), f"control character {_describe(match[0])}")
    for match in segment.finditer(_SEPARATOR):
        message = f"{_describe(match[0])} is a line break in some programs only"
        yield segment.match(LINE_SEPARATOR, match.span(), message)
    for match in segment.finditer(_CARRIAGE_RETURN):
        yield segment.match(CARRIAGE_RETURN, match.span(), "carriage return")
    yield from markup_matches(segment)


def _invisible_characters(segment: Segment) -> Iterator[Match]:
    """Yields zero-width characters, and tag characters outside of flags."""
    for match in segment.finditer(_INVISIBLE):
        character, start = match[0], match.start()
        if _is_tag(character):
            if not _in_flag(segment.text, start):
                yield segment.match(ZERO_WIDTH, match.span(), f"{_describe(character)} can hide text", "error")
        elif character not in _JOINERS or not _is_needed_joiner(segment.text, start):
            yield segment.match(ZERO_WIDTH, match.span(), f"{_describe(character)} is invisible")


def _bidirectional_characters(segment: Segment) -> Iterator[Match]:
    """Yields characters that control the direction of text, except marks near right-to-left letters."""
    for match in segment.finditer(_BIDI):
        if match[0] not in _BIDI_MARKS or not _is_near_right_to_left(segment.text, match.start()):
            message = f"{_describe(match[0])} changes the order in which text is displayed"
            yield segment.match(BIDIRECTIONAL, match.span(), message)


def _is_tag(character: str) -> bool:
    """Returns whether a character is one of the invisible tag characters."""
    return _TAG_RANGE[0] <= character <= _TAG_RANGE[1]


def _in_flag(text: str, start: int) -> bool:
    """Returns whether a tag character belongs to the flag of a region: a black flag and then tags."""
    # A flag is U+1F3F4 (black flag) and then tags, for example those of "gbsct" for Scotland.
    first = max(0, start - _LONGEST_FLAG)
    while start > first and _is_tag(text[start]):
        start -= 1
    return text[start] == "\U0001f3f4"


def _is_needed_joiner(text: str, offset: int) -> bool:
    """Returns whether a joiner is between emoji, or between letters of a script that has joined forms."""
    before, after = text[max(0, offset - 4) : offset].rstrip("\ufe0f")[-1:], text[offset + 1 : offset + 2]
    if not before or not after:
        return False
    between_emoji = all(unicodedata.category(c) in ("So", "Sk", "Mn") for c in (before, after))
    return between_emoji or (_has_joined_forms(before) and (_has_joined_forms(after) or text[offset] == "\u200d"))


def _has_joined_forms(character: str) -> bool:
    """Returns whether a character is of the Arabic or Syriac script, or of a script of South or Southeast Asia."""
    return "\u0600" <= character <= "\u08ff" or "\u0900" <= character <= "\u109f" or "\u1780" <= character <= "\u18af"


def _is_near_right_to_left(text: str, offset: int) -> bool:
    """Returns whether a right-to-left letter is within 40 characters."""
    near = text[max(0, offset - 40) : offset + 40]
    return any(unicodedata.bidirectional(c) in ("R", "AL") and not _BIDI.match(c) for c in near)


def control_token_matches(segment: Segment, target_tokens: Collection[str]) -> Iterator[Match]:
    """Yields control tokens of the target, and of well-known other models.

    Args:
        segment: the text.
        target_tokens: the control tokens of the targets that the text contains.
    """
    for token in target_tokens:
        for match in segment.finditer(re.compile(re.escape(token))):
            yield segment.match(CONTROL_TOKEN, match.span(), f"{token} is a control token of the target")
    for match in segment.finditer(_COMMON_CONTROL_TOKENS):
        if match[0] not in target_tokens:
            yield segment.match(CONTROL_TOKEN, match.span(), f"{match[0]} is a control token of other models", "info")


def mixed_normalization(segments: Sequence[Segment]) -> Iterator[tuple[Segment, Match]]:
    """Yields each decomposed character once, if the same prefix also has composed ones."""
    if not any(_is_composed(c) for segment in segments if not segment.text.isascii() for c in set(segment.text)):
        return
    reported: set[str] = set()
    for segment in segments:
        for match in decomposed_characters(segment):
            if match.message not in reported:
                reported.add(match.message)
                yield segment, match


def decomposed_characters(segment: Segment) -> Iterator[Match]:
    """Yields every decomposed character that has a composed form, whether or not others are composed."""
    for match in segment.finditer(_DECOMPOSED):
        composed = unicodedata.normalize("NFC", match[0])
        if len(composed) < len(match[0]):
            message = f'"{composed}" is decomposed (NFD), other characters are composed (NFC)'
            yield segment.match(MIXED_NORMALIZATION, match.span(), message)


def _is_composed(character: str) -> bool:
    """Returns whether a letter and its accents are composed into one character."""
    return not character.isascii() and _DECOMPOSED.fullmatch(unicodedata.normalize("NFD", character)) is not None


def _describe(character: str) -> str:
    """Returns the code point of a character with its name: `U+200B (ZERO WIDTH SPACE)`."""
    name = _NAMES.get(character) or unicodedata.name(character, "")
    return f"U+{ord(character):04X}{f' ({name})' if name else ''}"
