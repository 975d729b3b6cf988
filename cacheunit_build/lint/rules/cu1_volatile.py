"""CU1xx: text that changes from one day, run or session to the next."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cacheunit_build.lint.rule import Rule, tool_example
from cacheunit_build.lint.rules.cu1_dates import DATE, EPOCH, TIME, TIMESTAMP, date_matches, epoch_matches
from cacheunit_build.lint.rules.cu1_git import GIT_STATE, git_matches
from cacheunit_build.lint.rules.cu1_identifiers import GENERATED_ID, LONG_HEX, UUID, identifier_matches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.lint.segment import Match, Segment

LIVE_COUNTER = Rule(
    code="CU107",
    name="live-counter",
    severity="warning",
    meaning="a count in a tool description that grows with the data behind the tool",
    hint="remove the number from the description, or replace it with a fixed limit",
    why=(
        "Some servers of tools write the size of their data into a description. It grows with each new record, "
        "and tools stand at the front of a request: with each new number, the tools and all text behind them are "
        "computed again."
    ),
    bad=tool_example(
        "{\n"
        '  "name": "find",\n'
        '  "description": "Finds articles (520445 entries).",\n'
        '  "parameters": {"type": "object"}\n'
        "}\n"
    ),
    good=tool_example(
        "{\n"
        '  "name": "find",\n'
        '  "description": "Finds articles, at most 50 at once.",\n'
        '  "parameters": {"type": "object"}\n'
        "}\n"
    ),
)
RULES = (TIMESTAMP, DATE, TIME, EPOCH, UUID, LONG_HEX, LIVE_COUNTER, GENERATED_ID, GIT_STATE)

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


def volatile_matches(segment: Segment) -> Iterator[Match]:
    """Yields dates, times, Unix timestamps, identifiers, hashes, and states of git; in tools, growing counts too."""
    yield from date_matches(segment)
    yield from epoch_matches(segment)
    yield from identifier_matches(segment)
    yield from git_matches(segment)
    if segment.kind == "tool":
        yield from _growing_counts(segment)


def is_volatile(match: Match) -> bool:
    """Returns whether a match is text that changes, and not an example of such text."""
    return match.rule in RULES and not match.is_example


def _growing_counts(segment: Segment) -> Iterator[Match]:
    """Yields counts of data, such as "520445 entries"; not limits, and not round numbers outside of parentheses."""
    for match in segment.finditer(_COUNT):
        number = int(re.sub(r"[,_ ]", "", match[1]))
        is_round = number % 100 == 0 and not segment.text.endswith("(", 0, match.start())
        if not is_round and not _LIMIT_WORD.search(segment.line_before(match.start())):
            message = f'"{match[0]}" is a count that grows with the data'
            yield segment.match(LIVE_COUNTER, match.span(), message)
