"""Patterns of dates, times and timestamps as renderers print them, in the order and the marks of many languages.

They are for texts with plain digits and spaces (`Segment.finditer_plain`). The forms come from the formats of
`strftime` in the locales of glibc, and from `Intl.DateTimeFormat` with the Unicode CLDR, release 48.
"""

from __future__ import annotations

import re
from functools import cache

from cacheunit_build.lint.rules.calendar_words import (
    AS_OF,
    AS_OF_AFTER,
    DAY_LABEL,
    DAY_NAME,
    EAST_ASIAN_AS_OF,
    EAST_ASIAN_PRESENTED,
    MONTH,
    PRESENTED,
)

# What a date cannot be a part of; in Japanese, Chinese and Korean, letters stand next to a date without a space.
_LETTER = r"0-9A-Za-z_\u00c0-\u052f"
_YEAR = r"(?:19[789]\d|20\d\d)"
_MONTH_NUMBER = r"(?:1[0-2]|0?[1-9])"
_DAY = r"(?:[12]\d|3[01]|0?[1-9])"
_TWO_DIGIT_DAY = r"(?:0[1-9]|[12]\d|3[01])"
_TWO_DIGIT_MONTH = r"(?:0[1-9]|1[0-2])"
_ORDINAL = r"(?:st|nd|rd|th|er|º|°|\.)?"

# 2026-11-30, 2026/11/30, 2026/1/5, 2026. 11. 30., 2026-W49, 2026-W49-1
_YEAR_FIRST = (
    rf"{_YEAR}(?:-{_MONTH_NUMBER}-{_DAY}(?:Z|[+-](?:0\d|1[0-4]):(?:00|30|45))?|/{_MONTH_NUMBER}/{_DAY}"
    rf"|\. {{1,2}}{_MONTH_NUMBER}\. {{1,2}}{_DAY}\.?"
    r"|-?W(?:0[1-9]|[1-4]\d|5[0-3])(?:-?[1-7])?)"
)
# 30/11/2026, 11/30/2026, 30.11.2026, 30-11-2026, 30. 11. 2026
_YEAR_LAST = "|".join(
    rf"(?:{_DAY}{mark}{_MONTH_NUMBER}|{_MONTH_NUMBER}{mark}{_DAY}){mark}{_YEAR}" for mark in ("/", r"\.", "-", r"\. ")
)
# Nov 30, 2026; November 30th 2026; Nov-30-2026
_MONTH_FIRST = rf"{MONTH}\.?(?: {{1,2}}|[-/]){_DAY}{_ORDINAL}(?:,? {{1,2}}|,|[-/]){_YEAR}"
# 30 Nov 2026, 30-Nov-2026, 30Nov2026, 30. November 2026, 1er mars 2026, 30 de noviembre de 2026, 3rd of May, 2026
_DAY_FIRST = rf"{_DAY}{_ORDINAL}(?: (?:day )?(?:of |del? |d['’] ?)?|[-/]|){MONTH}\.?(?:,? (?:del? )?|,|[-/]|){_YEAR}"
# 2026-Nov-30, 2026 November 30
_YEAR_AND_NAME = rf"{_YEAR}(?:[,.]? |[-/.]){MONTH}\.?[ /.-]{_DAY}"
_NUMERAL = "[〇零○一二三四五六七八九十廿卅]"
_ERA_YEAR = rf"(?:令和|平成|昭和|民國|民国) ?(?:元|\d{{1,3}}|{_NUMERAL}{{1,4}})"
_EAST_ASIAN_YEAR = rf"(?:{_YEAR}|{_ERA_YEAR}|{_NUMERAL}{{4}}) ?[年년]"
_EAST_ASIAN_DAY = rf"(?:\d{{1,2}} ?[月월] ?\d{{1,2}} ?[日일号號]|{_NUMERAL}{{1,3}}月{_NUMERAL}{{1,4}}[日号號])"
# 2026年11月30日, 2026년 11월 30일, 令和8年11月30日, 二〇二六年十一月三十日
_EAST_ASIAN = rf"{_EAST_ASIAN_YEAR} ?{_EAST_ASIAN_DAY}"
_DATE = rf"(?:{_YEAR_FIRST}|{_YEAR_LAST}|{_MONTH_FIRST}|{_DAY_FIRST}|{_YEAR_AND_NAME}|{_EAST_ASIAN})"
# 2026.11.30 and 20261130 can be versions and numbers; 30/11/26, 26. 11. 30. and R8/11/30 can be anything.
_DOTTED = rf"{_YEAR}\.{_TWO_DIGIT_MONTH}\.{_TWO_DIGIT_DAY}"
_COMPACT = rf"20\d\d{_TWO_DIGIT_MONTH}{_TWO_DIGIT_DAY}"
_SHORT = "(?:{})".format(
    "|".join(
        (
            *(rf"{_DAY}{mark}{_DAY}{mark}\d\d" for mark in ("/", r"\.", "-")),
            *(rf"\d\d{mark}{_TWO_DIGIT_MONTH}{mark}{_TWO_DIGIT_DAY}" for mark in ("/", "-")),
            *(rf"[RH]\d{{1,2}}{mark}{_MONTH_NUMBER}{mark}{_DAY}" for mark in ("/", r"\.")),
            rf"\d\d\. {_MONTH_NUMBER}\. {_DAY}\.",
            rf"{_DAY}[- ]{MONTH}[- ]\d\d",
        )
    )
)

_SECOND_HALF = rf"(?:{_DAY}{_ORDINAL} (?:of |de )?{MONTH}\b|{MONTH}\.? {_DAY}(?:st|nd|rd|th)?\b|{_EAST_ASIAN_DAY})"
# Monday, November 30; lundi 30 novembre; 11月30日（月）
_WITH_DAY = (
    rf"(?:{DAY_LABEL}\.?,? (?:the |der |den |le |el )?{_SECOND_HALF}|{_SECOND_HALF}\.?,? {DAY_NAME}"
    rf"|{_EAST_ASIAN_DAY} ?\(?{DAY_LABEL}\)?)"
)

_HOUR = r"(?:[01]?\d|2[0-3])"
_HALF = r"(?: ?(?:[AaPp][Mm]\b|[AaPp]\. ?[Mm]\b\.?))"
_EAST_ASIAN_HALF = r"(?:(?:午前|午後|上午|下午|中午|凌晨|早上|晚上|오전|오후|[AP]M) ?)"
# 3:22, 03:22:43.120, 11:42 PM, 下午3:22
_COLONS = rf"{_EAST_ASIAN_HALF}?{_HOUR}:[0-5]\d(?::[0-5]\d(?:[.,]\d{{1,9}})?)?{_HALF}?"
# 15h22, 16 h 22 min 43 s, 15時22分43秒, 오후 3시 22분
_HOUR_WORDS = (
    rf"(?:{_HOUR} ?h ?[0-5]\d(?! ?[a-ln-z])(?: ?min(?: ?[0-5]\d ?s)?)?(?!\w)"
    rf"|{_EAST_ASIAN_HALF}?{_HOUR} ?[時时点點시] ?[0-5]?\d ?[分분](?: ?[0-5]?\d ?[秒초])?)"
)
# Z, +01:00, UTC+1, CET, GMT+0100
_ZONE = (
    r"(?:Z\b| ?(?:UTC|GMT)(?: ?[+-]\d{1,2}(?::?\d\d)?)?\b| ?[+-]\d\d(?::?\d\d)?\b"
    r"| (?:CES?T|MES?Z|[ECMP][SD]T|BST|IST|JST|KST|SGT|HKT|MSK|WES?T|EES?T|AE[SD]T)\b)?"
)
_CLOCK = rf"(?:{_COLONS}|{_HOUR_WORDS})"
# Between a date and its time: "T", ", ", " at ", " (Mon) ", " GMT+1 ".
_JOIN = (
    rf"(?:[T_]|:(?=\d\d:\d\d:)|(?:\.?,? ?\(?(?:{DAY_LABEL})\.?\)?)?(?: [гр]\.)?"
    r"(?:\.? |[ ,]{1,3}|[:;] | ?[-\u2013|@·] )"
    r"(?:(?:at|um|à|a las?|às|alle(?: ore)?|om|kl\.?|klo|la|v|в|о|o|den|\[?(?:UTC|GMT(?:[+-]\d{1,2})?)\]?) )?)"
)
_AFTER_DATE = rf"(?:{_CLOCK}(?: Uhr)?|{_HOUR}\.[0-5]\d(?:\.[0-5]\d)?(?!\.?\d)(?: Uhr)?|(?:0?[1-9]|1[0-2]){_HALF})"
# Nov 30 03:22:43 UTC 2026, 30. Nov 03:22:43 CET 2026, Nov 30 03:22:43
_YEAR_BEHIND_TIME = (
    rf"(?:{MONTH}\.? {{1,2}}{_DAY}|{_DAY}\.? {MONTH}\.?),? {{1,2}}{_HOUR}:[0-5]\d(?::[0-5]\d(?:\.\d{{1,9}})?)?{_HALF}?"
    rf"(?: [A-Z]{{2,5}}\b| ?[+-]\d\d:?\d\d)?(?: {_YEAR})?"
)
# T15, T152243Z; -15-22-43, _15.22, -15:22
_FILE_NAME_TIME = (
    r"(?:T[0-2]\d(?:[0-5]\d){0,2}Z?(?![\w:-]|\.\d)"
    r"|[T_-][0-2]\d(?:-[0-5]\d(?:-[0-5]\d)?|_[0-5]\d(?:_[0-5]\d)?|\.[0-5]\d(?:\.[0-5]\d)?)(?![\d-])"
    r"|[_-][0-2]\d:[0-5]\d(?::[0-5]\d)?(?!\d))"
)
# T032243.123Z, -032243, 032243, 0322
_COMPACT_TIME = r"(?:[T_-]?[0-2]\d[0-5]\d[0-5]\d(?:[.,]?\d{1,9})?|[T ]?[0-2]\d[0-5]\d)Z?"
_TIME_FIRST = (
    rf"{_HOUR}:[0-5]\d(?::[0-5]\d(?:[.,]\d{{1,9}})?)?{_HALF}?{_ZONE}(?:, | (?:on |am |le |el )?)(?:{DAY_LABEL}\.?,? )?"
)


@cache
def timestamps() -> tuple[re.Pattern[str], ...]:
    """Returns the patterns of a date with a time of day."""
    return _compiled(
        rf"(?<![{_LETTER}@/-]){_DATE}{_JOIN}{_AFTER_DATE}{_ZONE}",
        rf"(?<![{_LETTER}@/.-])(?:{_DOTTED}|{_SHORT}){_JOIN}{_CLOCK}{_ZONE}",
        rf"(?<![{_LETTER}@/.-]){_YEAR_BEHIND_TIME}(?![{_LETTER}])",
        rf"(?<![{_LETTER}@/-]){_YEAR}-{_TWO_DIGIT_MONTH}-{_TWO_DIGIT_DAY}{_FILE_NAME_TIME}",
        rf"(?<![{_LETTER}:.@/-]){_TIME_FIRST}{_DATE}(?![{_LETTER}/-])",
        rf"(?<![{_LETTER}./-]){_COMPACT}{_COMPACT_TIME}(?![{_LETTER}-])",
        # The representation of Python: datetime.datetime(2026, 11, 30, 3, 22)
        rf"\b(?:datetime\.)?datetime\({_YEAR}, ?{_DAY}, ?{_DAY}(?:, ?\d{{1,6}}){{1,4}}",
    )


_AFTER_NAME = rf"(?![{_LETTER}@/-]|\.[{_LETTER}]|\"?>)"


@cache
def dates() -> tuple[re.Pattern[str], ...]:
    """Returns the patterns of a date."""
    return _compiled(
        # Not a date in the name of an API version, a model or a migration, or in a URL: it never changes.
        rf"(?<![{_LETTER}@/.:=-]){_DATE}{_AFTER_NAME}",
        # Not behind a word that makes it a version or another number.
        rf"(?<![{_LETTER}@/.:=#-])(?:{_COMPACT}|{_DOTTED}){_AFTER_NAME}",
        rf"(?<![{_LETTER}@/.:=-]){_WITH_DAY}(?![{_LETTER}/-])",
        rf"\b(?:datetime\.)?date\({_YEAR}, ?{_DAY}, ?{_DAY}\)",
    )


TIME_OF_DAY = re.compile(rf"(?<![{_LETTER}:.-])(?:{_CLOCK}(?: Uhr)?){_ZONE}(?![{_LETTER}:]|\.\d)")
"""A time of day, or a length of time or a position in a recording that looks like one."""

_LETTER_BEFORE_HOUR = r"(?:[^\W\da-zA-Z] ?|[AP]M )\d\d?"  # 下午3, PM 3
EXACT_TIME = re.compile(
    r":\d\d:\d\d[\d.,]* ?(?:Z|[+-]\d|UTC|GMT|[A-Z]{3,4}$|[AaPp]\.? ?[Mm]|Uhr)|[時时点點시].*[秒초]"
    rf"|{_LETTER_BEFORE_HOUR}:\d\d:\d\d"
)
"""A time with seconds and a time zone, AM or PM: bare times such as 02:17:43 are mostly positions in a recording."""

_ODD_MINUTE = r"(?!\d[05]|[0235]9|01|44)\d\d"
ODD_TIME = re.compile(
    rf"\d:{_ODD_MINUTE} ?(?:[AaPp]\.? ?[Mm]\b|Z|UTC|GMT|Uhr)|{_LETTER_BEFORE_HOUR}:{_ODD_MINUTE}"
    rf"|[h時时点點시] ?{_ODD_MINUTE}(?: ?[分분]|$)"
)
"""A time to the minute that no opening hours have, with what tells it from a length of time."""

_MONTH_AND_YEAR = (
    rf"(?:{MONTH}\.?,? (?:del? )?{_YEAR}|{_EAST_ASIAN_YEAR} ?(?:\d{{1,2}}|{_NUMERAL}{{1,3}}) ?[月월]"
    rf"|{_YEAR}[-/]{_TWO_DIGIT_MONTH}|{_TWO_DIGIT_MONTH}/{_YEAR})(?![{_LETTER}/-])"
)
# What is a date only where the text presents it as one: a day, month, week, quarter or year without the rest.
_END = rf"(?![{_LETTER}])"
# In front of another day or month, for which the text lists what is possible: "Monday to Friday", "January, February".
_NO_LIST = r"(?![^\w\n]{{0,3}}(?:(?:or|and|to|through|until|oder|und|bis|ou|et|à|o|y|a|[か和或至到])[^\w\n]{{0,2}})?{})"
_PART = "(?:{})".format(
    "|".join(
        (
            *(_SECOND_HALF, _MONTH_AND_YEAR, _EAST_ASIAN_YEAR, r"\d{1,2} ?[月월]"),
            rf"{DAY_NAME}{_NO_LIST.format(DAY_NAME)}",
            # 30.11., 30/11, 11/30, 2026-334
            rf"{_DAY}\.{_MONTH_NUMBER}\.|(?:{_DAY}/{_MONTH_NUMBER}|{_MONTH_NUMBER}/{_DAY})(?![{_LETTER}./])",
            rf"{_YEAR}-[0-3]\d\d{_END}",
            # Q4 2026, KW 49
            rf"Q[1-4](?:[ -]{_YEAR})?{_END}|(?i:week|kw|kalenderwoche|semaine|semana) ?\d{{1,2}}{_END}",
            # A year at the end of a sentence or a value; a month, but no verb
            rf"{_YEAR}(?=\s*(?:[.;)\]}}\"'*<`\n]|,(?!\d)|\Z))|(?!may\b|march\b){MONTH}{_END}{_NO_LIST.format(MONTH)}",
        )
    )
)
_MOMENT = (
    rf"(?:(?P<date>(?:{_DATE}|{_DOTTED}|{_COMPACT}|{_SHORT})(?!\d))|(?P<time>{_CLOCK}(?: Uhr)?{_ZONE}(?![{_LETTER}:])"
    rf"|(?:0?[1-9]|1[0-2]){_HALF}(?![{_LETTER}]))|(?P<part>{_PART}))"
)


@cache
def current_moments() -> tuple[re.Pattern[str], ...]:
    """Returns the patterns of a date or time, or a part of a date, that the text presents as the current one.

    They have the groups `date`, `time` and `part`; the first has the groups of `PRESENTED` too.
    """
    return _compiled(f"{PRESENTED}{_MOMENT}", f"{EAST_ASIAN_PRESENTED}{_MOMENT}")


@cache
def as_of_months() -> tuple[re.Pattern[str], ...]:
    """Returns the patterns of a month without a day, as of which a statement holds: group `month`."""
    return _compiled(
        rf"{AS_OF}(?P<month>{_MONTH_AND_YEAR})",
        rf"{EAST_ASIAN_AS_OF}(?P<month>{_MONTH_AND_YEAR})",
        rf"(?P<month>{_EAST_ASIAN_YEAR} ?\d{{1,2}} ?[月월]){AS_OF_AFTER}",
    )


def _compiled(*patterns: str) -> tuple[re.Pattern[str], ...]:
    """Compiles patterns: those with the names of months take tenths of a second, which only lint should pay."""
    return tuple(map(re.compile, patterns))
