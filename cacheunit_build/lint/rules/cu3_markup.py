"""CU301 and CU309 to CU311: entities and escapes in place of characters, and what is written for people or programs."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from cacheunit_build.lint.rule import Rule, template_example

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.lint.rule import Severity
    from cacheunit_build.lint.segment import Match, Segment

HTML_ENTITY = Rule(
    code="CU301",
    name="html-entity",
    severity="warning",
    meaning="an HTML entity outside of code: the text was escaped by mistake",
    hint="write the character itself",
    why=(
        "An entity in plain text mostly comes from a text that was escaped for HTML once too often. It costs more "
        "tokens than the character it stands for, and the model may repeat it in its answers, where users see it."
    ),
    bad=template_example("Smith &amp; Sons make our frames.\n"),
    good=template_example("Smith & Sons make our frames.\n"),
)
JSON_ESCAPE = Rule(
    code="CU309",
    name="json-escape",
    severity="warning",
    meaning="an escape such as \\u00e9 or \\u003c in place of the character itself: it costs several tokens",
    hint="write the character; the filter tojson keeps it",
    why=(
        "A program wrote JSON with escapes in place of letters. The model reads the escape, which takes three "
        "tokens or more, where the character takes one or two, and the text is hard to review."
    ),
    bad=template_example("Answer with: Gr\\u00fc\\u00dfe aus dem Laden.\n"),
    good=template_example("Answer with: Grüße aus dem Laden.\n"),
)
HTML_COMMENT = Rule(
    code="CU310",
    name="html-comment",
    severity="warning",
    meaning="an HTML comment outside of code: the model reads it, and each request pays for it",
    hint="write {# … #}, which is left out of the text; if the model needs it, ignore the rule there",
    why=(
        "Markdown hides an HTML comment from readers of a page, but the model reads it as any other text, and "
        "each request pays for its tokens. Notes for colleagues may also say what users are not meant to learn."
    ),
    bad=template_example("Sell frames and forks. <!-- ask Jane about the prices -->\n"),
    good=template_example("Sell frames and forks. {# ask Jane about the prices #}\n"),
)
FRONT_MATTER = Rule(
    code="CU311",
    name="front-matter",
    severity="warning",
    meaning="the YAML front matter of a file, outside of code: it is meant for programs, and the model reads it",
    hint='write "strip: front-matter" into the manifest; if the model needs it, ignore the rule there',
    why=(
        "Front matter is for programs that organize prompt files. It reaches the model if nothing removes it: "
        "each request pays for it at the very front, and any change of a title or a tag there recomputes the "
        "whole prefix."
    ),
    bad=template_example("---\ntitle: Shop agent\n---\nSell frames and forks.\n"),
    good={
        "templates/agent.md.j2": "---\ntitle: Shop agent\n---\nSell frames and forks.\n",
        "prefixes/agent.yaml": "system: agent.md.j2\nstrip: front-matter\n",
    },
)

# &amp;, &#39;, &#x27;
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
# Entities that automatic escaping writes, and hardly anybody else.
_AUTOESCAPE_ENTITIES = frozenset(("&#34;", "&#39;"))
# A line about HTML or escaping, where entities are intended.
_HTML_CONTEXT = re.compile(
    r"</?(?:p|div|span|a|br|li|ul|ol|td|th|tr|table|h[1-6]|img|b|i|em|strong|code|pre|body|head|html|script|input)\b[^<>]*>"
    r"|\bhtml|\bentit(?:y|ies)\b|escap",
    re.IGNORECASE,
)
# \u00fc\u00df; not an escaped backslash, and not a range in a regular expression such as [\u4e00-\u9fff].
_UNICODE_ESCAPES = re.compile(r"(?<![\\\[-])(?:\\u[0-9a-fA-F]{4})+(?![-\]])")
# <!-- a comment -->, up to the first end; where another one begins before that, only the inner one.
_HTML_COMMENT = re.compile(r"<!--(?:[^<-]|-(?!->)|<(?!!--))*+-->")
# A line "---", a key, more lines that YAML may have, and a line "---" or "...".
_FRONT_MATTER = re.compile(
    r"^---[ \t]*\n[A-Za-z_][\w-]*:(?:[ \t][^\n]*)?\n"
    r"(?:(?:[\w\"'][^\n]*:(?:[ \t][^\n]*)?|[ \t#][^\n]*|-[ \t][^\n]*|)\n)*+(?:---|\.\.\.)[ \t]*$",
    re.MULTILINE,
)


def markup_matches(segment: Segment) -> Iterator[Match]:
    """Yields HTML entities, JSON escapes, HTML comments and front matter."""
    yield from _html_entities(segment)
    yield from _unicode_escapes(segment)
    yield from _comments_and_front_matter(segment)


def _html_entities(segment: Segment) -> Iterator[Match]:
    """Yields HTML entities that were written by automatic escaping, or that no HTML surrounds."""
    for match in segment.finditer(_ENTITY):
        is_entity = html.unescape(match[0]) != match[0]
        if is_entity and (match[0] in _AUTOESCAPE_ENTITIES or not _is_intended_entity(segment, match)):
            yield segment.match(HTML_ENTITY, match.span(), f"{match[0]} is an HTML entity")


def _is_intended_entity(segment: Segment, match: re.Match[str]) -> bool:
    """Returns whether an entity is in code, on a line about HTML, or the bar in a Markdown table."""
    is_bar = html.unescape(match[0]) == "|"
    return (
        is_bar or segment.in_code(match.start()) or _HTML_CONTEXT.search(segment.line_around(match.start())) is not None
    )


def _unicode_escapes(segment: Segment) -> Iterator[Match]:
    r"""Yields runs of escapes in place of characters.

    | text            | result                                              |
    | --------------- | --------------------------------------------------- |
    | Gr\u00fc\u00dfe   | reported: letters inside a word                     |
    | \u003cb\u003e   | reported: characters that are special in HTML       |
    | write \u00fc     | not reported: a single escape that the text is about |
    """
    for match in segment.finditer(_UNICODE_ESCAPES):
        spelt = "".join(chr(int(code, 16)) for code in match[0].split("\\u")[1:])
        is_html_safe = all(character in "<>&'" for character in spelt)
        is_letters = all(character.isalpha() and not character.isascii() for character in spelt)
        around = segment.text[match.start() - 1 : match.start()], segment.text[match.end() :][:1]
        if is_html_safe or (is_letters and (len(spelt) > 1 or any(map(str.isalpha, around)))):
            yield segment.match(JSON_ESCAPE, match.span(), f'{match[0]} is an escape for "{spelt}"')


def _comments_and_front_matter(segment: Segment) -> Iterator[Match]:
    """Yields HTML comments and front matter outside of code; a message shows no part of them."""
    for match in segment.finditer(_HTML_COMMENT):
        if not segment.in_code(match.start()):
            severity: Severity = "info" if segment.in_example(match.start()) else HTML_COMMENT.severity
            message = f"an HTML comment of {len(match[0]):,} characters is part of the text"
            yield segment.match(HTML_COMMENT, match.span(), message, severity)
    for match in segment.finditer(_FRONT_MATTER) if segment.kind != "tool" else ():
        if not segment.in_code(match.start()):
            severity = "info" if segment.in_example(match.start()) else FRONT_MATTER.severity
            message = f"front matter of {match[0].count(chr(10)) + 1:,} lines is part of the text"
            yield segment.match(FRONT_MATTER, match.span(), message, severity)
