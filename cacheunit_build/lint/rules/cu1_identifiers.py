"""CU105, CU106 and CU108: identifiers and hashes that a program generated."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from cacheunit_build.lint.rule import Rule, template_example
from cacheunit_build.lint.rules.cu1_dates import MOVE
from cacheunit_build.lint.segment import first_of_each_place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.lint.segment import Match, Segment

UUID = Rule(
    code="CU105",
    name="uuid",
    severity="error",
    meaning="a UUID: most identify one session, run or request",
    hint=MOVE,
    why=(
        "Most UUIDs are drawn for one session, run or request. In a prefix, such an identifier makes the text "
        "unique: no other session shares the tokens behind it. A UUID that never changes, such as that of a "
        "schema, does no harm: ignore the rule there."
    ),
    bad=template_example("Your session is 3f2b8c1e-9d47-4c15-a1f0-7be2c4d90a61.\nAnswer in plain words.\n"),
    good=template_example("The user message has the identifier of the session.\nAnswer in plain words.\n"),
    sources=("https://www.rfc-editor.org/rfc/rfc9562",),
)
LONG_HEX = Rule(
    code="CU106",
    name="long-hex",
    severity="warning",
    meaning="32 or more hex digits: a hash, a checksum or a key",
    hint=MOVE,
    why=(
        "A long hex string is the hash or checksum of something, and changes with it, even where the change means "
        "nothing to the model. It also takes many tokens for its length, since no word of a vocabulary has its "
        "form. It may be a key, too."
    ),
    bad=template_example("Checksum of the price list: 9e107d9d372bb6826bd81d3542a419d6\n"),
    good=template_example("Use the price list below.\n"),
)
GENERATED_ID = Rule(
    code="CU108",
    name="generated-id",
    severity="error",
    meaning="an identifier that names one request, run, session or the like: a ULID, or one with a prefix such as req_",
    hint=MOVE,
    why=(
        "Identifiers of requests, runs, sessions and traces are new each time. A prefix that has one shares the "
        "tokens behind it with no other request, and the model rarely needs it: it belongs in the log, or in "
        "the user message."
    ),
    bad=template_example("Answer request req_8f3a2b1c now.\n"),
    good=template_example("Answer the request of the user now.\n"),
    sources=("https://github.com/ulid/spec", "https://www.w3.org/TR/trace-context/"),
)
_UUID = re.compile(
    r"(?<![0-9A-Za-z])(?<!\d-)[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}(?![0-9A-Za-z-])"
)
# Not after "@" or "/": a pinned commit or a part of a URL does not change.
_HEX = re.compile(r"(?<![\w@/+=-])(?:0x)?[0-9a-fA-F]{32,}(?![\w/+=-])")
# A UUID of version 7 without hyphens: milliseconds of the years 2016 to 2039, version, variant (RFC 9562, section 5.7).
_PLAIN_UUID = re.compile(r"01[5-9a-fA-F][0-9a-fA-F]{9}7[0-9a-fA-F]{3}[89abAB][0-9a-fA-F]{15}")
# 26 characters of Crockford's base 32 that begin with a time from 2015 to 2039: https://github.com/ulid/spec
_ULID = re.compile(
    r"(?<![A-Za-z0-9/@-])01(?:[A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z]{23}|[a-hjkmnp-tv-z][0-9a-hjkmnp-tv-z]{23})(?![\w/-])"
)
# What an identifier names that lasts no longer than a request, a session or a process.
_NAMED = frozenset(
    (
        *(
            "asst",
            "req",
            "request",
            "run",
            "sess",
            "session",
            "ses",
            "msg",
            "message",
            "thread",
            "conv",
            "conversation",
        ),
        *("chat", "call", "toolu", "toolcall", "tool_call", "chatcmpl", "cmpl", "compl", "resp", "response", "gen"),
        *("generation", "trace", "span", "corr", "correlation", "task", "job", "batch", "build", "exec", "execution"),
        *("inv", "invocation", "evt", "event", "txn", "tx", "transaction", "wf", "workflow", "flow", "step", "turn"),
        *("attempt", "deploy", "deployment", "release", "upload", "file", "container", "sandbox", "lease", "order"),
        *("user", "usr", "acct", "cus", "agent", "worker", "proc", "process", "pod", "conn", "connection", "ctx"),
        *("rs", "item", "id"),
    )
)
# Of req_8f3a2b1c and chatcmpl-9xK2…, what follows the prefix; group 1 is the generated part.
_ID_SUFFIX = re.compile(r"[_-](?<=[A-Za-z].)(?:[a-z]{1,8}_)?((?=[A-Za-z]*\d)[0-9A-Za-z]{8,64})(?![\w/(-]|\.\w)")
_ID_PREFIX = re.compile(r"(?<![\w@/.$-])[A-Za-z]+(?:_[A-Za-z]+)?$")
# "session id: 8f3a2b1c"; group 1 is the generated part.
_LABELLED_ID = re.compile(
    r"(?:ID|Id|id)(?<=[ _A-Za-z-]..)(?:[`'\"*]{0,3} ?(?:[:=]|is\b)[ `'\"*]{0,4}| [`'\"]?)"
    r"([0-9A-Za-z]{6,40})(?![\w/(-]|\.\w)"
)
_LABEL = re.compile(r"([A-Za-z]+)[ _-]?$")
# The headers traceparent (https://www.w3.org/TR/trace-context/) and X-Amzn-Trace-Id
# (https://docs.aws.amazon.com/xray/latest/devguide/xray-services-elb.html)
_TRACE = re.compile(r"(?<![\w-])(?:00-[0-9a-f]{32}-[0-9a-f]{16}-0[0-9a-f]|1-[0-9a-f]{8}-[0-9a-f]{24})(?![\w-])")
# 12 bytes that begin with the time in seconds, from 2021 to 2029:
# http://reactivemongo.org/releases/0.12/api/reactivemongo/bson/BSONObjectID.html
_OBJECT_ID = re.compile(r"(?<![\w@/#.+$-])6[0-9a-f]{23}(?![\w/-])")
_MIXED_CASE = re.compile(r"[a-z]\d*[A-Z]\d*[a-z]|[A-Z]\d*[a-z]\d*[A-Z]")
_DIGITS_OR_LETTERS = re.compile(r"\d+|[A-Za-z]+")

# Identifiers of RFC 4122, RFC 9562 and of much documentation; MD5, SHA-1 and SHA-256 of the empty string.
_EXAMPLE_IDENTIFIERS = frozenset(
    (
        *("550e8400-e29b-41d4-a716-446655440000", "123e4567-e89b-12d3-a456-426614174000"),
        *("123e4567-e89b-12d3-a456-426655440000", "f47ac10b-58cc-4372-a567-0e02b2c3d479"),
        *("6ba7b810-9dad-11d1-80b4-00c04fd430c8", "a1b2c3d4-e5f6-7890-abcd-ef1234567890"),
        *("f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "017f22e279b07cc398c4dc0c0c07398f"),
        *("d41d8cd98f00b204e9800998ecf8427e", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        # https://github.com/ulid/spec and https://github.com/jetify-com/typeid
        *("01arz3ndektsv4rrffq69g5fav", "01an4z07by79ka1307sr9x4mv3", "2x4y6z8a0b1c2d3e4f5g6h7j8k"),
    )
)
_FEW_RUNS = 3
"""Runs of digits and of letters that a generated name has at least."""
_WORD_LENGTH = 6
"""So many letters in a row are a word, in a name that is not long."""
_PART_OF_WORD = 3
"""So many letters in a row are a word where digits stand between two words only: oauth2token, sha256sum, win32api."""
_LONG_NAME = 16
_FEW_DIGITS = 4
"""An identifier with so few different digits was typed, not generated."""


def identifier_matches(segment: Segment) -> Iterator[Match]:
    """Yields identifiers and hashes, except those used as examples in documentation."""
    for match in segment.finditer(_UUID):
        if not is_example_identifier(match[0]):
            yield segment.volatile_match(UUID, match.span(), f'"{match[0]}" is a UUID')
    generated = (_typed_ids, _labelled_ids, _ulids, _traces, _object_ids)
    yield from first_of_each_place(find(segment) for find in (_hex_numbers, *generated))


def _hex_numbers(segment: Segment) -> Iterator[Match]:
    """Yields long hex strings: as a UUID where they have the form of one that begins with a time."""
    for match in segment.finditer(_HEX):
        digits = match[0].removeprefix("0x")
        is_mixed = any(c.isdigit() for c in digits) and any(c.isalpha() for c in digits)
        if not is_mixed or is_example_identifier(digits):
            continue
        if _PLAIN_UUID.fullmatch(digits):
            yield segment.volatile_match(UUID, match.span(), f'"{digits}" is a UUID')
        else:
            message = f'"{digits[:8]}…" is a string of {len(digits)} hex digits'
            yield segment.volatile_match(LONG_HEX, match.span(), message)


def _typed_ids(segment: Segment) -> Iterator[Match]:
    """Yields generated identifiers with a prefix that tells what they name."""
    for match in segment.finditer(_ID_SUFFIX):
        prefix = _ID_PREFIX.search(segment.line_before(match.start()))
        if prefix and prefix[0].lower() in _NAMED and looks_generated(match[1]):
            span = (match.start() - len(prefix[0]), match.end())
            yield segment.volatile_match(GENERATED_ID, span, f'"{prefix[0]}{match[0]}" is a generated identifier')


def _labelled_ids(segment: Segment) -> Iterator[Match]:
    """Yields generated identifiers behind words that tell what they name."""
    for match in segment.finditer(_LABELLED_ID):
        label = _LABEL.search(segment.line_before(match.start()))
        is_named = label is not None and label[1].lower() in _NAMED
        if is_named and looks_generated(match[1]):
            yield segment.volatile_match(GENERATED_ID, match.span(1), f'"{match[1]}" is a generated identifier')


def _object_ids(segment: Segment) -> Iterator[Match]:
    """Yields object ids of MongoDB."""
    for match in segment.finditer(_OBJECT_ID):
        if looks_generated(match[0]):
            yield segment.volatile_match(GENERATED_ID, match.span(), f'"{match[0]}" is an object id')


def _ulids(segment: Segment) -> Iterator[Match]:
    """Yields ULIDs."""
    for match in segment.finditer(_ULID):
        if not is_example_identifier(match[0]):
            yield segment.volatile_match(GENERATED_ID, match.span(), f'"{match[0]}" is a ULID')


def _traces(segment: Segment) -> Iterator[Match]:
    """Yields identifiers of traces as HTTP headers have them."""
    for match in segment.finditer(_TRACE):
        yield segment.volatile_match(GENERATED_ID, match.span(), f'"{match[0]}" is the identifier of a trace')


def looks_generated(text: str) -> bool:
    """Returns whether a program drew the letters and digits of a name, by how often they alternate.

    | text                                | result                             |
    | ----------------------------------- | ---------------------------------- |
    | 8f3a2b1c, 9xK2pQ7LmN4r, kX3fRwZbTqLs | True                              |
    | python3, 20261130, abc123, 1a2b3c4d | False: words, a date, typed digits |
    """
    runs = _DIGITS_OR_LETTERS.findall(text)
    if len(text) < _LONG_NAME:
        longest = _WORD_LENGTH if len(runs) > _FEW_RUNS or text[0].isdigit() else _PART_OF_WORD
        alternates = len(runs) >= _FEW_RUNS and not any(run.isalpha() and len(run) >= longest for run in runs)
    else:
        alternates = len(runs) * _WORD_LENGTH >= len(text)
    is_mixed = len(runs) > 1 and _MIXED_CASE.search(text) is not None
    return (alternates or is_mixed) and not is_example_identifier(text)


def is_example_identifier(identifier: str) -> bool:
    """Returns whether an identifier is one of documentation, or was typed: few digits, or digits in a row."""
    digits = identifier.lower().replace("-", "")
    if identifier.lower() in _EXAMPLE_IDENTIFIERS or "example" in digits or len(set(digits)) <= _FEW_DIGITS:
        return True
    letters, numbers = (re.sub(unwanted, "", digits) for unwanted in (r"\d", r"\D"))
    return _is_in_a_row(digits) or (_is_in_a_row(letters) and _is_in_a_row(numbers))


def _is_in_a_row(characters: str) -> bool:
    """Returns whether most characters follow the one in front of them in the order of digits and letters."""
    steps = sum(0 <= int(b, 36) - int(a, 36) <= 1 for a, b in pairwise(characters))
    return steps > len(characters) // 2
