"""Bytes of a source file -> text, or a plain value and the line of each of its keys. Strict: what is odd is a fault."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, Self

from cacheunit_build.domain.document import Document, decode, normalize_newlines
from cacheunit_build.domain.errors import fail

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.domain.document import Keys


class SpelledFloat(float):
    """A float that prints as it was typed."""

    def __new__(cls, spelling: str) -> Self:
        """The number that `spelling` means."""
        number = super().__new__(cls, spelling)
        number.spelling = spelling
        return number

    spelling: str

    def __str__(self) -> str:
        return self.spelling

    __repr__ = __str__


def read_json(data: bytes, path: str, *, lines: bool = True) -> Document:
    """One JSON value; floats keep their spelling. Without `lines`, none are looked for, which is much quicker.

    Raises:
        CacheunitError: not JSON, a duplicate key, `NaN` or `Infinity`, a lone surrogate.
    """
    text = decode(data, path)
    try:
        value = json.loads(text, object_pairs_hook=_pairs, parse_float=_float, parse_constant=_constant)
    except json.JSONDecodeError as error:
        raise fail(f"not valid JSON: {error.msg}", path=path, line=error.lineno) from None
    except _OddJsonError as error:
        raise fail(error.args[0], path=path, line=_line_of_odd(text, error.args[1])) from None
    except (RecursionError, ValueError) as error:
        raise fail(f"not valid JSON: {error}", path=path) from None
    try:
        value = _map_text(value)
        odd = re.search(r"[\ud800-\udfff]", json.dumps(value, ensure_ascii=False))
    except RecursionError:
        raise fail("not valid JSON: nested too deep", path=path) from None
    if odd is not None:
        half = re.search(r"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])|\\u[dD][c-fC-F]", text)
        line = None if half is None else text.count("\n", 0, half.start()) + 1
        raise fail("half of a surrogate pair, which is no character", path=path, line=line)
    return Document(path=path, value=value, lines=dict(reversed([*_json_lines(text)])) if lines else {})


class _OddJsonError(Exception):
    """Valid for a JSON parser, and yet not one clear value."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _OddJsonError(f'duplicate key "{key}"', key)
        found[key] = value
    return found


def _float(spelling: str) -> SpelledFloat:
    number = SpelledFloat(spelling)
    if math.isinf(number):
        raise _OddJsonError(f"{spelling} is too large for a number", spelling)
    return number


def _constant(word: str) -> None:
    raise _OddJsonError(f"{word} is not a JSON number", word)


_JSON_PART = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


_BARE: Keys = ("", -1)


def _line_of_odd(text: str, word: str) -> int | None:
    """The line of the first key that repeats `word` in its object, or of the bare constant `word`."""
    seen: set[Keys] = set()
    for keys, line in _json_lines(text, bare=word):
        if keys in seen or keys == _BARE:
            return line
        seen.add(keys)
    return None


def _json_lines(text: str, bare: str | None = None) -> Iterator[tuple[Keys, int]]:
    """The line of each value's keys in JSON text, in order, repeated keys too; `_BARE` for the constant `bare`."""
    open_: list[list[Any]] = []  # for each open list or object: [its next index, or None in an object; its present key]
    line, last = 1, 0
    yield (), 1
    before = ""
    for match in _JSON_PART.finditer(text):
        part = match[0]
        line, last = line + text.count("\n", last, match.start()), match.start()
        inside = tuple(level[1] for level in open_)
        if part == bare:
            yield _BARE, line
        if part in "}]":
            open_ = open_[:-1]
        elif open_ and open_[-1][0] is None and part[0] == '"' and before in "{,":
            open_[-1][1] = json.loads(part)
            yield (*inside[:-1], open_[-1][1]), line
        elif open_ and open_[-1][0] is not None and part not in ",:":
            open_[-1][1], open_[-1][0] = open_[-1][0], open_[-1][0] + 1
            yield (*inside[:-1], open_[-1][1]), line
        if part in "{[":
            open_.append([None, None] if part == "{" else [0, 0])
        before = part


def _map_text(value: Any) -> Any:  # noqa: ANN401
    """`value` with every text in it brought to LF line ends."""
    if isinstance(value, str):
        return normalize_newlines(value)
    if isinstance(value, list):
        return [_map_text(item) for item in value]
    if isinstance(value, dict):
        return {key: _map_text(item) for key, item in value.items()}
    return value
