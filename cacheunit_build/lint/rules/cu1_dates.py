"""CU101 to CU104: dates, times and Unix timestamps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cacheunit_build.lint.rule import Rule, template_example
from cacheunit_build.lint.rules.calendar_words import CONDITION
from cacheunit_build.lint.rules.date_patterns import (
    EXACT_TIME,
    ODD_TIME,
    TIME_OF_DAY,
    as_of_months,
    current_moments,
    dates,
    timestamps,
)
from cacheunit_build.lint.segment import first_of_each_place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.lint.segment import Match, Segment

MOVE = "remove it, or send it after the prefix, in the user message"

TIMESTAMP = Rule(
    code="CU101",
    name="timestamp",
    severity="error",
    meaning="a date with a time of day",
    hint=MOVE,
    why=(
        "A cache serves a request only as far as its tokens are those of an earlier one. A time stamp is "
        "different in each build or release, so everything behind it is computed and billed anew each time it "
        "changes. Near the front, nothing stays cached."
    ),
    bad=template_example("The stock was counted 2026-11-30T03:22:43Z.\nAnswer in plain words.\n"),
    good=template_example("The user message says when the stock was counted.\nAnswer in plain words.\n"),
    sources=("https://developers.openai.com/api/docs/guides/prompt-caching",),
)
DATE = Rule(
    code="CU102",
    name="date",
    severity="warning",
    meaning="a date; an error if the text presents it, or a part such as a month or weekday, as the current one",
    hint=MOVE,
    why=(
        "A date that says what day it is changes every day: each midnight, all requests pay for the whole prefix "
        "once more, and until then a prefix that was built yesterday tells the model the wrong day. A date that "
        "never changes, such as a founding day, does no harm: ignore the rule there."
    ),
    bad=template_example("Today is November 30, 2026.\nAnswer in plain words.\n"),
    good=template_example("The user message begins with the date of today.\nAnswer in plain words.\n"),
)
TIME = Rule(
    code="CU103",
    name="time",
    severity="warning",
    meaning="an exact time of day, or one that the text presents as the current time",
    hint=MOVE,
    why=(
        "A time that was current when the prefix was rendered is wrong a minute later. If it is rendered for each "
        "request, no request has the same tokens as the one before it, and nothing behind the time is served from "
        "cache."
    ),
    bad=template_example("The current time is 11:42 PM.\nAnswer in plain words.\n"),
    good=template_example("The user message begins with the current time.\nAnswer in plain words.\n"),
)
EPOCH = Rule(
    code="CU104",
    name="epoch",
    severity="error",
    meaning="a number that looks like a Unix timestamp, in seconds up to nanoseconds",
    hint=MOVE,
    why=(
        "A number of ten or more digits in the range of today's Unix time mostly comes from a clock, for example "
        "as the version of a catalogue or of a build. It changes with each rendering, and everything behind it is "
        "computed again."
    ),
    bad=template_example("Use the catalogue of 1795993363.\nAnswer in plain words.\n"),
    good=template_example("Use the catalogue of the shop.\nAnswer in plain words.\n"),
)

# The day on which Unix time begins is a fact that prompts explain.
_UNIX_EPOCH = re.compile(
    r"0?1(?:st|er|\.)?[-/. ](?:de )?\w{1,10}\.?[-/. ](?:de )?1970|\w{1,10}\.? 0?1(?:st)?,? 1970|1970\D0?1\D0?1\D?"
)
# Directly in front of a date without marks, or with dots, that is a version: "version 2026.11.30".
_VERSION_WORD = re.compile(r"(?:version|release|tag|ver|v|[=<>~^])\W{0,5}$", re.IGNORECASE)
# Directly in front of any date: "API version 2023-06-01", "protocolVersion: 2025-06-18", "compatibility_date = ...".
_VERSION_OF_DATE = re.compile(
    r"(?:version|compatibility_date)[\"'`*]{0,3}(?: is)?\s{0,3}[:=]?\s{0,3}[\"'`*(]{0,3}$", re.IGNORECASE
)
_PLAIN_OR_DOTTED = re.compile(r"\d{8}|\d{4}\.\d\d\.\d\d")
# Seconds from July 2017 to July 2036, with a fraction or without, or milliseconds, microseconds or nanoseconds; earlier
# ones are mostly phone and article numbers.
_EPOCH_NUMBER = re.compile(r"(?<![\w.+/#-])(?:1[5-9]\d{8}|20\d{8})(?:\d{3}){0,3}(?:\.\d{1,9})?(?![\w/-]|\.\d)")
_ROUND_NUMBER = re.compile(r"\d{1,4}0{6,}")
# Behind a day or a month that is part of a name: "It's Friday night lights", "Today is May's birthday".
_NAME_GOES_ON = re.compile(
    r"['\u2019]s\b| (?=[A-Za-z])(?!(?:and|in|at|so|but|or|on|the|of|for|here|now|which|today|und|et|y|e)\b)"
    r"(?!(?:morning|afternoon|evening|night)\b\W*(?:$|[A-Z]))"
)
_CONDITION = re.compile(CONDITION, re.IGNORECASE)
# In front of what somebody may say: 'When the user says "', 'Do not answer "', 'User: '.
_QUOTED_WORDS = re.compile(
    r"\b(?:if|when(?:ever)?|not|never|don't|says?|asks?|answers?|repl(?:y|ies)|writes?)\b[^.!?\n]{0,80}[\"'\u201c\u2018\u00ab]$"
    r"|^\W{0,4}(?:user|assistant|human|customer|agent)\W{0,3}:\W{0,3}$",
    re.IGNORECASE,
)
# What joins the name of a moment and the moment, in place of a verb.
_MARK = re.compile("[:=>(]")


def date_matches(segment: Segment) -> Iterator[Match]:
    """Yields each date and time once: as a timestamp, as what is presented as current, as a date, or as a time."""
    stages = (
        *(_timestamps(segment, pattern) for pattern in timestamps()),
        *(_current_moments(segment, pattern) for pattern in current_moments()),
        *(_dates(segment, pattern) for pattern in dates()),
        *(_as_of_months(segment, pattern) for pattern in as_of_months()),
        _exact_times(segment),
    )
    for match in first_of_each_place(stages):
        if not _UNIX_EPOCH.fullmatch(match.subject):
            yield match


def epoch_matches(segment: Segment) -> Iterator[Match]:
    """Yields Unix timestamps; not round numbers, which are amounts."""
    for found in segment.finditer_numeric(_EPOCH_NUMBER):
        if not _ROUND_NUMBER.fullmatch(found[0]):
            yield segment.volatile_match(EPOCH, found.span(), f"{found[0]} looks like a Unix timestamp")


def _timestamps(segment: Segment, pattern: re.Pattern[str]) -> Iterator[Match]:
    """Yields dates with a time of day."""
    for found in segment.finditer_numeric(pattern):
        yield segment.volatile_match(TIMESTAMP, found.span(), f'"{found[0]}" is a timestamp')


def _current_moments(segment: Segment, pattern: re.Pattern[str]) -> Iterator[Match]:
    """Yields dates, parts of dates, and times that the text presents as the current ones, unless in a condition."""
    for found in segment.finditer_plain(pattern):
        kind = next(name for name in ("date", "time", "part") if found[name])
        needs_verb = kind != "date" and found.groupdict().get("name") is not None
        if needs_verb and not found["verb"] and not _MARK.search(found["between"]):
            continue
        before = segment.line_before(found.start())
        if _CONDITION.search(before) or _QUOTED_WORDS.search(before):
            continue
        if kind == "part" and _NAME_GOES_ON.match(segment.text, found.end("part")) and found["part"].isascii():
            continue
        if kind == "time":
            yield segment.volatile_match(TIME, found.span(kind), f'"{found[kind]}" is a time of day', "warning")
        else:
            message = f'"{found[kind]}" is presented as the current date'
            yield segment.volatile_match(DATE, found.span(kind), message, "error")


def _dates(segment: Segment, pattern: re.Pattern[str]) -> Iterator[Match]:
    """Yields dates; not versions that look like one."""
    for found in segment.finditer_numeric(pattern):
        before = segment.line_before(found.start())
        word = _VERSION_WORD if _PLAIN_OR_DOTTED.fullmatch(found[0]) else _VERSION_OF_DATE
        if not word.search(before):
            yield segment.volatile_match(DATE, found.span(), f'"{found[0]}" is a date')


def _as_of_months(segment: Segment, pattern: re.Pattern[str]) -> Iterator[Match]:
    """Yields months without a day, as of which a statement holds."""
    for found in segment.finditer_numeric(pattern):
        yield segment.volatile_match(DATE, found.span("month"), f'a statement is as of "{found["month"]}"')


def _exact_times(segment: Segment) -> Iterator[Match]:
    """Yields times of day that are too exact for opening hours and the like."""
    for found in segment.finditer_numeric(TIME_OF_DAY):
        if EXACT_TIME.search(found[0]) or ODD_TIME.search(found[0]):
            yield segment.volatile_match(TIME, found.span(), f'"{found[0]}" is a time of day')
