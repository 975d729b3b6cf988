"""Reads JSON files: their value, and the line of each key. Refuses what JSON parsers read in different ways."""

from __future__ import annotations

import itertools
import json
import math
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from cacheunit_build.domain.document import MOST_SOURCE_BYTES, Document, decode, normalize_newlines, shortened
from cacheunit_build.domain.errors import fail

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.domain.document import Keys


MOST_NESTED = 100
"""The most levels of lists and mappings in one document."""

MOST_VALUES = 200_000
"""The most values in one document, keys of mappings included."""

TOO_DEEP = f"nested more than {MOST_NESTED} levels deep"
TOO_MANY = f"more than {MOST_VALUES:,} values in one file"


class SpelledFloat(float):
    """A float that prints as it was written in the file: `1.50`, `1e3`.

    Attributes:
        spelling: the characters in the file.
    """

    def __new__(cls, spelling: str) -> Self:
        """Converts the spelling of a number in a file to the number."""
        number = super().__new__(cls, spelling)
        number.spelling = spelling
        return number

    spelling: str

    def __str__(self) -> str:
        return self.spelling

    __repr__ = __str__


def read_json(data: bytes, path: str, *, lines: bool = True, most_bytes: int = MOST_SOURCE_BYTES) -> Document:
    """Returns the JSON value of a file. Floats keep their spelling, texts get LF line ends.

    Args:
        data: the bytes of the file.
        path: the file, for messages.
        lines: whether to find the line of each key and item, which takes longer than parsing.
        most_bytes: the most bytes that such a file may have.

    Raises:
        CacheunitError: not JSON, a duplicate key, `NaN` or `Infinity`, a lone surrogate, or beyond a limit.
    """
    text = decode(data, path, most_bytes)
    try:
        value = _StrictParser(text, path).parse()
        _refuse_deep_nesting(value)
    except RecursionError:
        raise fail(TOO_DEEP, path=path, line=_line_of_depth(text)) from None
    if "\\" in text:  # else it has no escape, and line ends within texts are only there as escapes
        _refuse_lone_surrogates(text, path)
        value = _with_normal_newlines(value)
    return Document(path=path, value=value, lines=_bounded_lines(text, path) if lines else {})


@dataclass(frozen=True, slots=True)
class _StrictParser:
    """Python's JSON parser, with functions for objects, floats and constants that refuse what is ambiguous.

    Attributes:
        text: the text of the file.
        path: the file, for messages.
    """

    text: str
    path: str

    def parse(self) -> Any:  # noqa: ANN401 - any JSON value
        """Returns the value.

        Raises:
            CacheunitError: the first fault.
            RecursionError: the text is nested too deeply.
        """
        try:
            return json.loads(
                self.text, object_pairs_hook=self._object, parse_float=self._float, parse_constant=self._constant
            )
        except json.JSONDecodeError as error:
            raise fail(f"not valid JSON: {error.msg}", path=self.path, line=error.lineno) from None
        except ValueError:
            message, line = "a number has more digits than can be read", _line_of_long_integer(self.text)
            raise fail(message, path=self.path, line=line) from None

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Returns an object as a mapping."""
        mapping = dict(pairs)
        if len(mapping) < len(pairs):
            seen: set[str] = set()
            key = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise fail(f'duplicate key "{shortened(key)}"', path=self.path, line=_line_of_duplicate(self.text, key))
        return mapping

    def _float(self, spelling: str) -> SpelledFloat:
        """Returns a number that has a fraction or an exponent."""
        number = SpelledFloat(spelling)
        if math.isinf(number):
            message = f"{shortened(spelling)} is too large for a number"
            raise fail(message, path=self.path, line=_line_of_lexeme(self.text, spelling))
        return number

    def _constant(self, name: str) -> None:
        """Refuses `NaN`, `Infinity` and `-Infinity`, which Python reads and JSON does not have."""
        raise fail(f"{name} is not a JSON number", path=self.path, line=_line_of_lexeme(self.text, name))


_ESCAPE = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F]..)|\\.", re.DOTALL)
r"""An escape in a JSON text; group 1 is half of a surrogate pair without the other half.

    \ud83d\ude80   a pair        \n, \\   another escape        \ud83d!   group 1        \ude80   group 1
"""


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def _refuse_lone_surrogates(text: str, path: str) -> None:
    """Raises a fault for half of a surrogate pair, since it cannot be written as UTF-8."""
    if _SURROGATE.search(text) is None:
        return
    for escape in _ESCAPE.finditer(text):
        if escape[1]:
            line = text.count("\n", 0, escape.start()) + 1
            raise fail(f"{escape[1]} is half of a surrogate pair, not a character", path=path, line=line)


_LEXEME = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
"""A string with its quotes, a bracket, comma or colon, or a number or name."""


def _lexemes(text: str) -> Iterator[tuple[str, int]]:
    """Yields each lexeme of a JSON text and its line."""
    line, end = 1, 0
    for match in _LEXEME.finditer(text):
        line += text.count("\n", end, match.start())
        end = match.start()
        yield match[0], line


def string_values(text: str) -> Iterator[tuple[int, int]]:
    """Yields start and end of each string of a JSON text that is no key, without its quotes."""
    lexemes = list(_LEXEME.finditer(text))
    followers = [*(lexeme[0] for lexeme in lexemes[1:]), ""]
    for lexeme, follower in zip(lexemes, followers, strict=True):
        if lexeme[0].startswith('"') and follower != ":":
            yield lexeme.start() + 1, lexeme.end() - 1


def _line_of_lexeme(text: str, wanted: str) -> int | None:
    """Returns the line of the first number or name that is spelled like `wanted`."""
    return next((line for lexeme, line in _lexemes(text) if lexeme == wanted), None)


def _line_of_long_integer(text: str) -> int | None:
    """Returns the line of the first integer that has more digits than Python converts."""
    most = sys.get_int_max_str_digits()
    return next((line for lexeme, line in _lexemes(text) if len(lexeme) > most and lexeme.lstrip("-").isdigit()), None)


def _line_of_depth(text: str) -> int | None:
    """Returns the line of the first bracket that is too deep; None where there is none."""
    depth = 0
    for lexeme, line in _lexemes(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(lexeme, 0)
        if depth > MOST_NESTED:
            return line
    return None


def _bounded_lines(text: str, path: str) -> dict[Keys, int]:
    """Returns the line of each key and item.

    Raises:
        CacheunitError: there are too many.
    """
    lines = dict(itertools.islice(_key_lines(text), MOST_VALUES + 1))
    if len(lines) > MOST_VALUES:
        raise fail(TOO_MANY, path=path, line=list(lines.values())[-1])
    return lines


def _line_of_duplicate(text: str, key: str) -> int | None:
    """Returns the line of the second `key` in the first object that has it twice."""
    seen: set[Keys] = set()
    for keys, line in _key_lines(text):
        if keys in seen and keys[-1] == key:
            return line
        seen.add(keys)
    return None


@dataclass(slots=True)
class _Container:
    """A list or an object that is not yet closed.

    Attributes:
        is_list: whether it is a list.
        key: the index or key of the value that is read now; before the first one -1 in a list, and empty in an object.
    """

    is_list: bool
    key: str | int

    def starts_value(self, lexeme: str, previous: str) -> bool:
        """Returns whether `lexeme` is the next item or the next key, and if so moves on to it."""
        if self.is_list:
            starts = lexeme not in (",", ":")
            self.key = int(self.key) + 1 if starts else self.key
        else:
            starts = lexeme.startswith('"') and previous in ("{", ",")
            self.key = json.loads(lexeme) if starts else self.key
        return starts


def _key_lines(text: str) -> Iterator[tuple[Keys, int]]:
    """Yields the keys that lead to each value and the line of its key or item, in order, duplicate keys too.

    text                 yields
    {"a": [1,            () 1, ("a",) 1, ("a", 0) 1
      {"b": "x"}],       ("a", 1) 2, ("a", 1, "b") 2
     "c":
       null}             ("c",) 3: the line of the key

    Raises:
        RecursionError: the text is nested too deeply.
    """
    containers: list[_Container] = []
    previous = ""
    yield (), 1
    for lexeme, line in _lexemes(text):
        if lexeme in ("}", "]"):
            containers.pop()
        elif containers and containers[-1].starts_value(lexeme, previous):
            yield tuple(container.key for container in containers), line
        if lexeme in ("{", "["):
            is_list = lexeme == "["
            containers.append(_Container(is_list=is_list, key=-1 if is_list else ""))
            if len(containers) > MOST_NESTED:
                raise RecursionError
        previous = lexeme


def _refuse_deep_nesting(value: Any) -> None:  # noqa: ANN401 - any JSON value
    """Raises RecursionError where lists and mappings are nested too deeply."""
    level = [value]  # those with the same number of others around them
    for _ in range(MOST_NESTED):
        inner = (item.values() if isinstance(item, dict) else item for item in level if isinstance(item, list | dict))
        level = [child for items in inner for child in items if isinstance(child, list | dict)]
        if not level:
            return
    raise RecursionError


def _with_normal_newlines(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Returns `value` with LF line ends in every text in it, keys excepted."""
    if isinstance(value, str):
        return normalize_newlines(value)
    if isinstance(value, list):
        return [_with_normal_newlines(item) for item in value]
    if isinstance(value, dict):
        return {key: _with_normal_newlines(item) for key, item in value.items()}
    return value
