"""CU105, CU106, CU108 and CU109: identifiers and hashes that a program generated, and states of a git work tree."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from cacheunit_build.lint.rule import Rule
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
)
LONG_HEX = Rule(
    code="CU106",
    name="long-hex",
    severity="warning",
    meaning="32 or more hex digits: a hash, a checksum or a key",
    hint=MOVE,
)
GENERATED_ID = Rule(
    code="CU108",
    name="generated-id",
    severity="error",
    meaning="an identifier that names one request, run, session or the like: a ULID, or one with a prefix such as req_",
    hint=MOVE,
)
GIT_STATE = Rule(
    code="CU109",
    name="git-state",
    severity="warning",
    meaning="the state of a git work tree: its branch, its commit, or what has changed",
    hint=MOVE,
)

_UUID = re.compile(
    r"(?<![0-9A-Za-z])(?<!\d-)[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}(?![0-9A-Za-z-])"
)
# Not after "@" or "/": a pinned commit or a part of a URL does not change.
_HEX = re.compile(r"(?<![\w@/+=-])(?:0x)?[0-9a-fA-F]{32,}(?![\w/+=-])")
# A UUID of version 7 without hyphens: milliseconds of the years 2016 to 2039, the version, and the variant (RFC 9562, 5.7).
_PLAIN_UUID = re.compile(r"01[5-9a-fA-F][0-9a-fA-F]{9}7[0-9a-fA-F]{3}[89abAB][0-9a-fA-F]{15}")
# 26 characters of Crockford's base 32 that begin with a time from 2015 to 2039: https://github.com/ulid/spec
_ULID = re.compile(r"(?<![A-Za-z0-9/@-])01(?:[A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z]{23}|[a-hjkmnp-tv-z][0-9a-hjkmnp-tv-z]{23})(?![\w/-])")
_ID_PREFIX = (
    r"(?:req(?:uest)?|run|sess(?:ion)?|msg|message|thread|conv(?:ersation)?|chat|call|toolu|tool_?call|chatcmpl|cmpl|compl|resp"
    r"(?:onse)?|gen(?:eration)?|trace|span|corr(?:elation)?|task|job|batch(?:_req)?|build|exec(?:ution)?|inv(?:ocation)?|evt|event"
    r"|txn|tx|wf|workflow|flow|step|turn|attempt|deploy(?:ment)?|release|upload|file|container|sandbox|lease|order|user|usr|acct"
    r"|cus|agent|worker|proc|pod|node|inst(?:ance)?|ws|conn(?:ection)?|ctx|rs|fc|item|ses|tsk|prt|id|uid)"
)
# Of req_8f3a2b1c and chatcmpl-9xK2…, what follows the prefix; group 1 is the generated part.
_ID_SUFFIX = re.compile(r"[_-](?<=[A-Za-z].)(?:[a-z]{1,8}_)?((?=[A-Za-z]*\d)[0-9A-Za-z]{8,64})(?![\w/(-]|\.\w)")
_ID_PREFIX_BEFORE = re.compile(rf"(?<![\w@/.$-]){_ID_PREFIX}$", re.IGNORECASE)
# W3C Trace Context, section 3.2, and the trace header of AWS X-Ray
_TRACE = re.compile(r"(?<![\w-])(?:00-[0-9a-f]{32}-[0-9a-f]{16}-0[0-9a-f]|1-[0-9a-f]{8}-[0-9a-f]{24})(?![\w-])")
_MIXED_CASE = re.compile(r"[a-z]\d*[A-Z]\d*[a-z]|[A-Z]\d*[a-z]\d*[A-Z]")
_DIGITS_OR_LETTERS = re.compile(r"\d+|[A-Za-z]+")

_GIT_STATES = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        # The output of git status
        r"(?:On branch(?<![^\s`'\">:]On branch)|HEAD detached (?:at|from)|HEAD is now at) [`'\"]?\w[\w./-]*",
        r"Your branch (?:is (?:ahead of|behind|up to date with) '|and '[^'\n]{1,100}' have diverged)[^\n]{0,60}",
        r"(?:nothing|Nothing) (?:added )?to commit(?:, working (?:tree|directory) clean| \([^)\n]{1,90}\)| but untracked)",
        r"(?:working|Working) (?:tree|directory) clean\b|no changes added to commit\b",
        r"(?:Changes (?:to be committed|not staged for commit)|Untracked files|Unmerged paths|No commits yet):$",
        r"## (?:HEAD \(no branch\)|[\w./-]+\.\.\.[\w./-]+(?: \[(?:ahead|behind|gone)[^\]\n]{0,40}\])?)[ \t]*$",
        # The branch as a value
        r"(?:current|Current|CURRENT|active|Active|checked[ -]out|Checked out|git|Git|GIT)[ _-][Bb](?:ranch|RANCH)"
        r"[`'\"*]{0,3} ?(?:[:=]{1,2}|is:?)[ `'\"*]{0,4}(?:main|master|develop|trunk|[\w.-]+/[\w./-]+)\b",
    )
)
# 14-g1a2b3c4 of v1.2.3-14-g1a2b3c4, and g1a2b3c4 of 1.2.4.dev14+g1a2b3c4.d20261130
_DESCRIPTION = re.compile(r"(?:-\d{1,5}-|\+(?:\d{1,5}\.)?)g[0-9a-f]{7,40}(?:-dirty|\.\w{1,12})?(?![\w-])")
_VERSION_BEFORE = re.compile(r"(?<![\w/@.-])[\w.-]{1,60}$")
# A hash with digits and letters, shorter than what CU106 reports.
_SHORT_HASH = re.compile(r"(?<![\w@/#.+$-])(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{7,31}(?![\w-]|\.\w)")
# What presents the commit that follows as the one at hand, in front of it: not "the commit 3f2b8c1 broke it".
_COMMIT_BEFORE = re.compile(
    r"(?:\b(?:at|on|from|of|current|latest|head|built|this|git)[ _-](?:commit|revision|sha|head)(?:[ _-](?:hash|sha|id))?"
    r"(?: is(?: now)?)?[^\w\n]{1,5}"
    r"|(?<![\w-])(?:(?:git|commit|revision|rev|build|source)(?:[ _-]?(?:commit|hash|sha|rev(?:ision)?|id))?|head|sha|version)"
    r"(?:[`'\"*]{0,3} ?[:=(@][ `'\"(*]{0,4}| is (?:now )?[`'\"]?)"
    r"|(?:^|\()[ \t]*(?:commit|rev(?:ision)?|head) |^[ \t]*(?:[*|] )?)$",
    re.IGNORECASE,
)
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
_WORD_LENGTH = 6
_LONG_NAME = 16
_FEW_DIGITS = 4
"""An identifier with so few different digits was typed, not generated."""


def identifier_matches(segment: Segment) -> Iterator[Match]:
    """Yields identifiers and hashes, except those used as examples in documentation, and states of git."""
    for match in segment.finditer(_UUID):
        if not is_example_identifier(match[0]):
            yield segment.volatile_match(UUID, match.span(), f'"{match[0]}" is a UUID')
    yield from _hex_numbers(segment)
    yield from first_of_each_place((_typed_ids(segment), _ulids(segment), _traces(segment)))
    states = (_git_states(segment, pattern) for pattern in _GIT_STATES)
    yield from first_of_each_place((*states, _git_descriptions(segment), _commits(segment)))


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
        prefix = _ID_PREFIX_BEFORE.search(segment.line_before(match.start()))
        if prefix and looks_generated(match[1]):
            span = (match.start() - len(prefix[0]), match.end())
            yield segment.volatile_match(GENERATED_ID, span, f'"{prefix[0]}{match[0]}" is a generated identifier')


def _ulids(segment: Segment) -> Iterator[Match]:
    """Yields ULIDs."""
    for match in segment.finditer(_ULID):
        if not is_example_identifier(match[0]):
            yield segment.volatile_match(GENERATED_ID, match.span(), f'"{match[0]}" is a ULID')


def _traces(segment: Segment) -> Iterator[Match]:
    """Yields identifiers of traces as HTTP headers have them."""
    for match in segment.finditer(_TRACE):
        yield segment.volatile_match(GENERATED_ID, match.span(), f'"{match[0]}" is the identifier of a trace')


def _git_states(segment: Segment, pattern: re.Pattern[str]) -> Iterator[Match]:
    """Yields what git prints about a work tree."""
    for match in segment.finditer(pattern):
        yield segment.volatile_match(GIT_STATE, match.span(), f'"{match[0]}" is the state of a git work tree')


def _git_descriptions(segment: Segment) -> Iterator[Match]:
    """Yields versions that `git describe` or a build tool made of a tag and a commit."""
    for match in segment.finditer(_DESCRIPTION):
        version = _VERSION_BEFORE.search(segment.line_before(match.start()))
        if version and any(map(str.isdigit, version[0])):
            span = (match.start() - len(version[0]), match.end())
            message = f'"{segment.text[span[0] : span[1]]}" is a version made of a git commit'
            yield segment.volatile_match(GIT_STATE, span, message)


def _commits(segment: Segment) -> Iterator[Match]:
    """Yields short hashes of commits that the text presents as the one at hand, or lists at the start of a line."""
    for match in segment.finditer(_SHORT_HASH):
        before = segment.line_before(match.start())
        in_list = not before.strip(" \t*|") and not segment.text.startswith(" ", match.end())
        if _COMMIT_BEFORE.search(before) and not in_list:
            yield segment.volatile_match(GIT_STATE, match.span(), f'"{match[0]}" is the hash of a commit')


def looks_generated(text: str) -> bool:
    """Returns whether a program drew the letters and digits of a name, by how often they alternate.

    | text                                | result                             |
    | ----------------------------------- | ---------------------------------- |
    | 8f3a2b1c, 9xK2pQ7LmN4r, kX3fRwZbTqLs | True                              |
    | python3, 20261130, abc123, 1a2b3c4d | False: words, a date, typed digits |
    """
    runs = _DIGITS_OR_LETTERS.findall(text)
    if len(text) < _LONG_NAME:
        alternates = len(runs) >= _FEW_RUNS and not any(run.isalpha() and len(run) >= _WORD_LENGTH for run in runs)
    else:
        alternates = len(runs) * _WORD_LENGTH >= len(text)
    is_mixed = len(runs) > 1 and _MIXED_CASE.search(text) is not None
    return (alternates or is_mixed) and not is_example_identifier(text)


def is_example_identifier(identifier: str) -> bool:
    """Returns whether an identifier is one of documentation, or was typed: few digits, or digits in a row."""
    digits = identifier.lower().replace("-", "")
    if identifier.lower() in _EXAMPLE_IDENTIFIERS or len(set(digits)) <= _FEW_DIGITS:
        return True
    letters, numbers = (re.sub(unwanted, "", digits) for unwanted in (r"\d", r"\D"))
    return _is_in_a_row(digits) or (_is_in_a_row(letters) and _is_in_a_row(numbers))


def _is_in_a_row(characters: str) -> bool:
    """Returns whether most characters follow the one in front of them in the order of digits and letters."""
    steps = sum(0 <= int(b, 36) - int(a, 36) <= 1 for a, b in pairwise(characters))
    return steps > len(characters) // 2
