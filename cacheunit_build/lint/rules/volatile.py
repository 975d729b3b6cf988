"""What changes from one day, run or session to the next: CU1xx."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from cacheunit_build.lint.segment import Match, Segment, milder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.lint.results import Severity

_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)"
)
_YEAR = r"(?:19[789]\d|20\d\d)"
_ISO = rf"{_YEAR}([-/])(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12]\d|3[01])"
_WORDS = rf"(?:{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?,? {_YEAR}|\d{{1,2}}(?:st|nd|rd|th|\.)? {_MONTH}\.?,? {_YEAR})"
_SLASHED = rf"(?:0?[1-9]|[12]\d|3[01])([/.])(?:0?[1-9]|[12]\d|3[01])\2{_YEAR}"
_EASTERN = rf"{_YEAR} ?[年년] ?\d{{1,2}} ?[月월] ?\d{{1,2}} ?[日일]"
_DATE = rf"(?:{_ISO}|{_WORDS}|{_SLASHED}|{_EASTERN})"
_CLOCK = r"(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:[.,]\d{1,9})?)?(?: ?[AaPp]\.?[Mm]\b\.?)?"
_ZONE = r"(?:Z\b| ?[+-]\d\d:?\d\d\b| (?:UTC|GMT)\b)?"
_STAMP = re.compile(rf"(?<![\w@/-]){_DATE}(?:T|[ ,]+(?:at |um )?){_CLOCK}{_ZONE}")
_STAMP_ALONE = re.compile(r"(?<![\w/-])20\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])T?[0-2]\d[0-5]\d[0-5]\dZ?(?!\w)")
# An API version, a model's name, a migration, a URL: a date that is part of a name is no clock's.
_DAY = re.compile(rf"(?<![\w@/.:=-]){_DATE}(?![\w@/-]|\.\w|\"?>)")
_TIME = re.compile(rf"(?<![\w:.-]){_CLOCK}{_ZONE}(?![\w:]|\.\d)")
# Marks in a recording are times too, but of no day: without a zone or half of a day, only what is called now counts.
_OF_DAY = re.compile(r":\d\d:\d\d[\d.,]* ?(?:Z|[+-]\d|UTC|GMT|[AaPp]\.?[Mm])")
# Directly in front of the date: "if the current date is after …" compares, and does not tell.
_NOW = re.compile(
    r"(?:\btoday(?:'s date)?|\b(?:current|present|local) (?:date|day|time)(?: and time)?|\bit is now|\bnow\s*[:=]"
    r"|\b(?:generated|rendered|built|compiled|updated) (?:at|on)|\bheute ist|今日は|今天是)"
    r"(?: \([^()\n]{1,40}\))?\W{0,4}(?:is\W{1,3})?(?:\w+day\W{1,2})?$",
    re.IGNORECASE,
)
_BEGINNINGS = frozenset(("January 1, 1970", "Jan 1, 1970", "1 January 1970", "1970-01-01"))
_EPOCH = re.compile(r"(?<![\w.+/#-])(?:1[5-9]\d{8}|20\d{8})(?:\d{3})?(?![\w/-]|\.\d)")
_UUID = re.compile(
    r"(?<![0-9A-Za-z-])[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}(?![0-9A-Za-z-])"
)
_HEX = re.compile(r"(?<![\w@/+=-])(?:0x)?[0-9a-fA-F]{32,}(?![\w/+=-])")
_NOUNS = (
    r"(?:entries|entities|records|rows|documents|docs|items|nodes|edges|files|users|customers|products|articles|pages"
    r"|tickets|issues|messages|chunks|vectors|embeddings|objects|tables|repositories|repos|images|indexed|available|total)"
)
_COUNT = re.compile(rf"(?<![\w.,])(\d{{1,3}}(?:[,_ ]\d{{3}})+|\d{{3,}})\+?(?: [a-z]+)? {_NOUNS}\b", re.IGNORECASE)
_LIMIT = re.compile(
    r"(?:up to|at (?:most|least)|max(?:imum)?|min(?:imum)?|limit(?:ed)?(?: is| of| to)?|first|last|top|over|every|per"
    r"|default(?:s|ing)?(?: is| of| to)?|(?:(?:more|less|fewer) )?than|exceeds?|beyond|cap(?:ped)?(?: at)?|between"
    r"|[<>≤≥=]|returns?|pages? of|batch(?:es)? of|error|status|http)[:\s]*(?:\d+\s*(?:and|to|[-\u2013])\s*)?$",
    re.IGNORECASE,
)
_SAMPLES = frozenset(
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


def volatile_hits(passage: Segment) -> Iterator[Match]:
    """Dates and times, epoch numbers, identifiers, hashes; in tools, live counters."""
    yield from _times(passage)
    for match in _EPOCH.finditer(passage.text):
        yield _told(passage, "CU104", match, f"{match[0]} reads as a time since 1970")
    yield from _identifiers(passage)
    if passage.kind == "tool":
        yield from _counters(passage)


def _times(passage: Segment) -> Iterator[Match]:
    """Each date and time once: as a timestamp, else as a date, else as a time."""
    taken: list[tuple[int, int]] = []
    for pattern in (_STAMP, _STAMP_ALONE):
        for match in pattern.finditer(passage.text):
            taken.append(match.span())
            yield _told(passage, "CU101", match, f'"{match[0]}" is a date with a time')
    for match in _DAY.finditer(passage.text):
        if not _overlaps(match.span(), taken):
            taken.append(match.span())
            if match[0] not in _BEGINNINGS:
                yield _dated(passage, match)
    for match in _TIME.finditer(passage.text):
        now = _NOW.search(passage.before(match.start()))
        if not _overlaps(match.span(), taken) and (now or _OF_DAY.search(match[0])):
            yield _told(passage, "CU103", match, f'"{match[0]}" is a time of day')


def _dated(passage: Segment, match: re.Match[str]) -> Match:
    """A date; one that is called today's is out of date tomorrow."""
    if _NOW.search(passage.before(match.start())):
        return _told(passage, "CU102", match, f'the text calls "{match[0]}" the present day', "error")
    return _told(passage, "CU102", match, f'"{match[0]}" is a date')


def _identifiers(passage: Segment) -> Iterator[Match]:
    for match in _UUID.finditer(passage.text):
        if not _is_sample(match[0]):
            yield _told(passage, "CU105", match, f'"{match[0]}" is a UUID')
    for match in _HEX.finditer(passage.text):
        digits = match[0].removeprefix("0x")
        mixed = any(c.isdigit() for c in digits) and any(c.isalpha() for c in digits)
        if mixed and not _is_sample(digits):
            yield _told(passage, "CU106", match, f"{len(digits)} hex digits, {digits[:8]}…")


def _counters(passage: Segment) -> Iterator[Match]:
    for match in _COUNT.finditer(passage.text):
        number = int(re.sub(r"[,_ ]", "", match[1]))
        round_one = number % 100 == 0 and not passage.text[: match.start()].endswith("(")
        if not round_one and not _LIMIT.search(passage.before(match.start())):
            yield passage.hit("CU107", *match.span(), f'"{match[0]}" counts what grows')


def _told(passage: Segment, code: str, match: re.Match[str], message: str, severity: Severity | None = None) -> Match:
    """A hit, milder where it looks meant as an example."""
    hit = passage.hit(code, *match.span(), message, severity)
    said_now = severity is not None  # words on the line, as for the form of a date, do not make that an example
    if not (passage.in_example(match.start()) if said_now else passage.is_example(match.start())):
        return hit
    where = "in code" if passage.in_code(match.start()) else "by way of example"
    return replace(hit, message=f"{message}, {where}", severity=milder(hit.severity), example=True)


def _is_sample(identifier: str) -> bool:
    """One that documentation uses, or that nobody drew by lot: few digits, or digits in a row."""
    digits = identifier.lower().replace("-", "")
    if identifier.lower() in _SAMPLES or len(set(digits)) <= _FEW_DIGITS:
        return True
    steps = sum(abs(int(a, 16) - int(b, 16)) <= 1 for a, b in pairwise(digits))
    return steps > len(digits) // 2


def _overlaps(span: tuple[int, int], taken: list[tuple[int, int]]) -> bool:
    return any(span[0] < end and start < span[1] for start, end in taken)
