"""Reads the comments that suppress lint rules in a source file, such as `cacheunit: ignore CU101`."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cacheunit_build.lint.registry import code_prefix, unknown_rule_hint
from cacheunit_build.lint.results import Location
from cacheunit_build.lint.rules.cu5_project import IGNORE_COMMENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cacheunit_build.lint.rule import Problem

_TEMPLATE_COMMENT = re.compile(r"\{#[-+]?\s*cacheunit:\s*(ignore(?:-file)?)\b(.*?)[-+]?#\}", re.DOTALL)
_HASH_COMMENT = re.compile(r"(?:^|(?<=\s))#\s*cacheunit:\s*(ignore(?:-file)?)\b([^\n]*)", re.MULTILINE)
_HASH_COMMENTS = ("yaml", "yml", "toml", "py")
# A reason may follow the codes: "CU102: the opening day", "CU102 -- the opening day", "CU102 (the opening day)".
_REASON = re.compile(r"\s[-\u2013\u2014]+\s|[:;(]|\bbecause\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidComment:
    """An ignore comment that names no rule, or an unknown one.

    Attributes:
        location: where the comment begins.
        problem: what is wrong with it.
    """

    location: Location
    problem: Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppressions:
    """The rules that the comments of one file suppress, as codes or the beginnings of codes.

    Attributes:
        in_file: suppressed everywhere in the file.
        by_line: line, from 1 -> suppressed on that line.
        invalid_comments: comments that name no known rule, in the order of the file.
    """

    in_file: frozenset[str] = frozenset()
    by_line: Mapping[int, frozenset[str]] = field(default_factory=dict)
    invalid_comments: tuple[InvalidComment, ...] = ()

    def suppresses(self, code: str, line: int) -> bool:
        """Returns whether violations of a rule are suppressed on a line."""
        return any(code.startswith(prefix) for prefix in (*self.in_file, *self.by_line.get(line, ())))


def parse_suppressions(text: str, path: str) -> Suppressions:
    """Returns what the comments of a source file suppress.

    Comments of templates (`{# … #}`) are read in every file but JSON, those with `# …` in YAML, TOML and Python. A
    comment counts for its own lines and the line after it, an `ignore-file` comment for the whole file.
    """
    in_file: frozenset[str] = frozenset()
    by_line: dict[int, frozenset[str]] = {}
    invalid: list[InvalidComment] = []
    line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
    for comment in _comments(text, path):
        line = bisect_right(line_starts, comment.start())
        location = Location(path=path, line=line, column=comment.start() - line_starts[line - 1] + 1)
        codes, problems = _parse_codes(comment[2])
        invalid += [InvalidComment(location=location, problem=problem) for problem in problems]
        if comment[1] == "ignore-file":
            in_file |= codes
        else:
            for covered in range(line, line + comment[0].count("\n") + 2):
                by_line[covered] = by_line.get(covered, frozenset()) | codes
    return Suppressions(in_file=in_file, by_line=by_line, invalid_comments=tuple(invalid))


def _comments(text: str, path: str) -> Iterator[re.Match[str]]:
    """Yields the ignore comments of a file: group 1 is `ignore` or `ignore-file`, group 2 the rest."""
    extension = path.rpartition(".")[2].lower()
    if extension != "json":
        yield from _TEMPLATE_COMMENT.finditer(text, 0, text.rfind("#}") + 2)  # behind the last end nothing can match
    if extension in _HASH_COMMENTS:
        yield from _HASH_COMMENT.finditer(text)


def _parse_codes(text: str) -> tuple[frozenset[str], list[Problem]]:
    """Returns the codes that the text of a comment names, and a problem for each word that is not a rule."""
    words = [word for word in re.split(r"[\s,]+", _REASON.split(text)[0]) if word]
    if not words:
        return frozenset(), [IGNORE_COMMENT.problem("the ignore comment names no rule")]
    codes = {word: code_prefix(word) for word in words}
    problems = [
        IGNORE_COMMENT.problem(f'unknown rule "{word}" in an ignore comment', hint=unknown_rule_hint(word))
        for word, code in codes.items()
        if code is None
    ]
    return frozenset(filter(None, codes.values())), problems
