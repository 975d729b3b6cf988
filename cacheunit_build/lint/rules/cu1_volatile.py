"""CU1xx: text that changes from one day, run or session to the next."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from cacheunit_build.lint.rule import Rule, milder
from cacheunit_build.lint.segment import Spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.lint.rule import Severity
    from cacheunit_build.lint.segment import Match, Segment

_MOVE = "remove it, or send it after the prefix, in the user message"

TIMESTAMP = Rule(
    code="CU101",
    name="timestamp",
    severity="error",
    meaning="a date with a time of day",
    hint=_MOVE,
)
DATE = Rule(
    code="CU102",
    name="date",
    severity="warning",
    meaning="a date; an error if the text presents it as the current one",
    hint=_MOVE,
)
TIME = Rule(
    code="CU103",
    name="time",
    severity="warning",
    meaning="a time of day with seconds, or one that the text presents as the current time",
    hint=_MOVE,
)
EPOCH = Rule(
    code="CU104",
    name="epoch",
    severity="error",
    meaning="a number that looks like a Unix timestamp in seconds or milliseconds",
    hint=_MOVE,
)
UUID = Rule(
    code="CU105",
    name="uuid",
    severity="error",
    meaning="a UUID: most identify one session, run or request",
    hint=_MOVE,
)
LONG_HEX = Rule(
    code="CU106",
    name="long-hex",
    severity="warning",
    meaning="32 or more hex digits: a hash, a checksum or a key",
    hint=_MOVE,
)
LIVE_COUNTER = Rule(
    code="CU107",
    name="live-counter",
    severity="warning",
    meaning="a count in a tool description that grows with the data behind the tool",
    hint="remove the number from the description, or replace it with a fixed limit",
)
RULES = (TIMESTAMP, DATE, TIME, EPOCH, UUID, LONG_HEX, LIVE_COUNTER)

_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)"
)
_YEAR = r"(?:19[789]\d|20\d\d)"
# 2026-11-30, 2026/11/30
_ISO_DATE = rf"{_YEAR}([-/])(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12]\d|3[01])"
# March 3rd, 2026 and 3 March 2026
_MONTH_NAME_DATE = (
    rf"(?:{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?,? {_YEAR}|\d{{1,2}}(?:st|nd|rd|th|\.)? {_MONTH}\.?,? {_YEAR})"
)
# 30/11/2026, 11/30/2026, 30.11.2026
_SLASHED_DATE = rf"(?:0?[1-9]|[12]\d|3[01])([/.])(?:0?[1-9]|[12]\d|3[01])\2{_YEAR}"
# 2026年11月30日
_EAST_ASIAN_DATE = rf"{_YEAR} ?[年년] ?\d{{1,2}} ?[月월] ?\d{{1,2}} ?[日일]"
_DATE = rf"(?:{_ISO_DATE}|{_MONTH_NAME_DATE}|{_SLASHED_DATE}|{_EAST_ASIAN_DATE})"
# 3:22, 03:22:43.120, 11:42 PM
_CLOCK = r"(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:[.,]\d{1,9})?)?(?: ?[AaPp]\.?[Mm]\b\.?)?"
# Z, +01:00, UTC
_ZONE = r"(?:Z\b| ?[+-]\d\d:?\d\d\b| (?:UTC|GMT)\b)?"
_TIMESTAMP = re.compile(rf"(?<![\w@/-]){_DATE}(?:T|[ ,]+(?:at |um )?){_CLOCK}{_ZONE}")
# 20261130T032243Z
_COMPACT_TIMESTAMP = re.compile(
    r"(?<![\w/-])20\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])T?[0-2]\d[0-5]\d[0-5]\dZ?(?!\w)"
)
# Not a date in the name of an API version, a model or a migration, or in a URL: it never changes.
_DATE_ALONE = re.compile(rf"(?<![\w@/.:=-]){_DATE}(?![\w@/-]|\.\w|\"?>)")
_TIME_OF_DAY = re.compile(rf"(?<![\w:.-]){_CLOCK}{_ZONE}(?![\w:]|\.\d)")
# With a time zone, AM or PM: bare times such as 02:17:43 are mostly positions in a recording.
_EXACT_TIME = re.compile(r":\d\d:\d\d[\d.,]* ?(?:Z|[+-]\d|UTC|GMT|[AaPp]\.?[Mm])")
# What presents a date or time as the current one, directly in front of it: "Today is 2026-11-30", but not "if the
# current date is after 2026-11-30".
_CURRENT = re.compile(
    r"(?:\btoday(?:'s date)?|\b(?:current|present|local) (?:date|day|time)(?: and time)?|\bit is now|\bnow\s*[:=]"
    r"|\b(?:generated|rendered|built|compiled|updated) (?:at|on)|\bheute ist|今日は|今天是)"
    r"(?: \([^()\n]{1,40}\))?\W{0,4}(?:is\W{1,3})?(?:\w+day\W{1,2})?$",
    re.IGNORECASE,
)
# The day on which Unix time begins is a fact that prompts explain.
_UNIX_EPOCH_DATES = frozenset(("January 1, 1970", "Jan 1, 1970", "1 January 1970", "1970-01-01"))
# Seconds from July 2017 to July 2036, or milliseconds; earlier ones are mostly phone and article numbers.
_EPOCH_NUMBER = re.compile(r"(?<![\w.+/#-])(?:1[5-9]\d{8}|20\d{8})(?:\d{3})?(?![\w/-]|\.\d)")
_UUID = re.compile(
    r"(?<![0-9A-Za-z-])[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}(?![0-9A-Za-z-])"
)
# Not after "@" or "/": a pinned commit or a part of a URL does not change.
_HEX = re.compile(r"(?<![\w@/+=-])(?:0x)?[0-9a-fA-F]{32,}(?![\w/+=-])")
_COUNTED_NOUN = (
    r"(?:entries|entities|records|rows|documents|docs|items|nodes|edges|files|users|customers|products|articles|pages"
    r"|tickets|issues|messages|chunks|vectors|embeddings|objects|tables|repositories|repos|images|indexed|available|total)"
)
# 520445 entries, 12,345 indexed documents
_COUNT = re.compile(
    rf"(?<![\w.,])(\d{{1,3}}(?:[,_ ]\d{{3}}){{1,5}}|\d{{3,}})\+?(?: [a-z]+)? {_COUNTED_NOUN}\b", re.IGNORECASE
)
# Directly in front of a number that does not grow: "up to 250 results", "between 100 and 500 rows", "error 404 pages".
_LIMIT_WORD = re.compile(
    r"(?:up to|at (?:most|least)|max(?:imum)?|min(?:imum)?|limit(?:ed)?(?: is| of| to)?|first|last|top|over|every|per"
    r"|default(?:s|ing)?(?: is| of| to)?|(?:(?:more|less|fewer) )?than|exceeds?|beyond|cap(?:ped)?(?: at)?|between"
    r"|[<>≤≥=]|returns?|pages? of|batch(?:es)? of|error|status|http)[:\s]*(?:\d+\s*(?:and|to|[-\u2013])\s*)?$",
    re.IGNORECASE,
)
# UUIDs of RFC 4122 and of much documentation; MD5, SHA-1 and SHA-256 of the empty string.
_EXAMPLE_IDENTIFIERS = frozenset(
    (
        *("550e8400-e29b-41d4-a716-446655440000", "123e4567-e89b-12d3-a456-426614174000"),
        *("123e4567-e89b-12d3-a456-426655440000", "f47ac10b-58cc-4372-a567-0e02b2c3d479"),
        *("6ba7b810-9dad-11d1-80b4-00c04fd430c8", "a1b2c3d4-e5f6-7890-abcd-ef1234567890"),
        "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
        *("d41d8cd98f00b204e9800998ecf8427e", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    )
)
_FEW_DIGITS = 4
"""An identifier with so few different digits was typed, not generated."""


def volatile_matches(segment: Segment) -> Iterator[Match]:
    """Yields dates, times, Unix timestamps, identifiers and hashes; in tools, growing counts too."""
    yield from _dates_and_times(segment)
    for match in segment.finditer(_EPOCH_NUMBER):
        yield _match(segment, EPOCH, match, f"{match[0]} looks like a Unix timestamp")
    yield from _identifiers(segment)
    if segment.kind == "tool":
        yield from _growing_counts(segment)


def is_volatile(match: Match) -> bool:
    """Returns whether a match is text that changes, and not an example of such text."""
    return match.rule in RULES and not match.is_example


def _dates_and_times(segment: Segment) -> Iterator[Match]:
    """Yields each date and time once: as a timestamp, else as a date, else as a time."""
    taken: list[tuple[int, int]] = []
    for pattern in (_TIMESTAMP, _COMPACT_TIMESTAMP):
        for match in segment.finditer(pattern):
            taken.append(match.span())
            yield _match(segment, TIMESTAMP, match, f'"{match[0]}" is a timestamp')
    timestamps = Spans.joined(taken)
    for match in segment.finditer(_DATE_ALONE):
        if not timestamps.overlaps(match.span()):
            taken.append(match.span())
            if match[0] not in _UNIX_EPOCH_DATES:
                yield _date(segment, match)
    dates = Spans.joined(taken)
    for match in segment.finditer(_TIME_OF_DAY):
        is_current = _CURRENT.search(segment.line_before(match.start()))
        if not dates.overlaps(match.span()) and (is_current or _EXACT_TIME.search(match[0])):
            yield _match(segment, TIME, match, f'"{match[0]}" is a time of day')


def _date(segment: Segment, match: re.Match[str]) -> Match:
    """Returns the match for a date: an error where the text presents it as the current one."""
    if _CURRENT.search(segment.line_before(match.start())):
        return _match(segment, DATE, match, f'"{match[0]}" is presented as the current date', "error")
    return _match(segment, DATE, match, f'"{match[0]}" is a date')


def _identifiers(segment: Segment) -> Iterator[Match]:
    """Yields UUIDs and long hex strings, except those used as examples in documentation."""
    for match in segment.finditer(_UUID):
        if not _is_example_identifier(match[0]):
            yield _match(segment, UUID, match, f'"{match[0]}" is a UUID')
    for match in segment.finditer(_HEX):
        digits = match[0].removeprefix("0x")
        is_mixed = any(c.isdigit() for c in digits) and any(c.isalpha() for c in digits)
        if is_mixed and not _is_example_identifier(digits):
            yield _match(segment, LONG_HEX, match, f'"{digits[:8]}…" is a string of {len(digits)} hex digits')


def _growing_counts(segment: Segment) -> Iterator[Match]:
    """Yields counts of data, such as "520445 entries"; not limits, and not round numbers outside of parentheses."""
    for match in segment.finditer(_COUNT):
        number = int(re.sub(r"[,_ ]", "", match[1]))
        is_round = number % 100 == 0 and not segment.text.endswith("(", 0, match.start())
        if not is_round and not _LIMIT_WORD.search(segment.line_before(match.start())):
            message = f'"{match[0]}" is a count that grows with the data'
            yield segment.match(LIVE_COUNTER, match.span(), message)


def _match(segment: Segment, rule: Rule, match: re.Match[str], message: str, severity: Severity | None = None) -> Match:
    """Returns the match of a rule, one step milder where the text looks like an example.

    Args:
        segment: the text.
        rule: the rule.
        match: what its pattern matched.
        message: what is wrong.
        severity: a severity other than the rule's own, for what the text presents as current. Words such as "format" on
            the same line then do not make it an example.
    """
    result = segment.match(rule, match.span(), message, severity)
    start = match.start()
    is_example = segment.looks_like_example(start) if severity is None else segment.in_example(start)
    if not is_example:
        return result
    where = "in code" if segment.in_code(start) else "in an example"
    return replace(result, message=f"{message} ({where})", severity=milder(result.severity), is_example=True)


def _is_example_identifier(identifier: str) -> bool:
    """Returns whether an identifier is one of documentation, or was typed: few digits, or digits in a row."""
    digits = identifier.lower().replace("-", "")
    if identifier.lower() in _EXAMPLE_IDENTIFIERS or len(set(digits)) <= _FEW_DIGITS:
        return True
    steps = sum(abs(int(a, 16) - int(b, 16)) <= 1 for a, b in pairwise(digits))
    return steps > len(digits) // 2
