"""Reads TOML files within limits, with the line of each key."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

from cacheunit_build.domain.document import MEBIBYTE, Document, decode
from cacheunit_build.domain.errors import fail

if TYPE_CHECKING:
    from cacheunit_build.domain.document import Keys

MOST_TOML_BYTES = MEBIBYTE
_MOST_NESTED = 100
_TOO_DEEP = f"nested more than {_MOST_NESTED} levels deep"

_TOML_POSITION = re.compile(r"\(at (?:line (\d+), column \d+|end of document)\)")
_TOML_NAME = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_TOML_NAMES = rf"{_TOML_NAME}(?:[ \t]*\.[ \t]*{_TOML_NAME})*"
_TOML_LINE = re.compile(rf"^[ \t]*(?:(\[\[?)[ \t]*({_TOML_NAMES})[ \t]*\]|({_TOML_NAMES})[ \t]*=)", re.MULTILINE)
_LONG_STRING = (
    r'"{3}[^"\\]*+(?:(?:\\.|"(?!""))[^"\\]*+)*+"{3,5}'  # """…""", whose last quotes may belong to the text
    r"|'{3}[^']*+(?:'(?!'')[^']*+)*+'{3,5}"
)
_SHORT_STRING = r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"' + r"|'[^'\n]*'"
_PART = rf"(?:[A-Za-z0-9_-]+|{_SHORT_STRING})"
# A string over several lines, a comment, a key with its dots, or a bracket.
_TOML_TOKEN = re.compile(rf"({_LONG_STRING})|#[^\n]*|({_PART}(?:[ \t]*\.[ \t]*{_PART})*)|[\[\]{{}}]", re.DOTALL)
_LONG_INTEGER = re.compile(r"[0-9][0-9_]{4000,}")
_LONG_HEXADECIMAL = re.compile(r"0[xob][0-9A-Fa-f_]{1000,}")  # read by tomllib, but too long to be printed
_TOO_LONG = "a number has more digits than can be read"
_LONE_RETURN = re.compile(rb"\r(?!\n)")


def read_toml(data: bytes, path: str) -> Document:
    """Returns a TOML file as a document with the line of each table and key.

    Args:
        data: the bytes of the file.
        path: the file, for messages.

    Raises:
        CacheunitError: it is not TOML, or is too large or nested too deeply; names the line.
    """
    text = decode(data, path, MOST_TOML_BYTES)
    # `decode` makes a line end of it, which would end a comment, and TOML has no such line ends.
    lone_return = _LONE_RETURN.search(data)
    if lone_return is not None:
        message = "not valid TOML: a carriage return that no line feed follows"
        raise fail(message, path=path, line=data.count(b"\n", 0, lone_return.start()) + 1)
    keys_only = _without_long_strings(text, path)
    try:
        value = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        position = _TOML_POSITION.search(str(error))
        line = None if position is None else int(position[1]) if position[1] else text.count("\n") + 1
        message = _TOML_POSITION.sub("", str(error)).strip()
        raise fail(f"not valid TOML: {message}", path=path, line=line) from None
    except ValueError:
        number = _LONG_INTEGER.search(keys_only)
        line = None if number is None else text.count("\n", 0, number.start()) + 1
        raise fail(_TOO_LONG, path=path, line=line) from None
    return Document(path=path, value=value, lines=_toml_lines(keys_only))


def _without_long_strings(text: str, path: str) -> str:
    """Returns a TOML text with only the line ends of its strings over several lines.

    Raises:
        CacheunitError: brackets or dotted keys are nested too deeply for tomllib, which recurses; or a number is too
            long.
    """
    depth = 0

    def without(token: re.Match[str]) -> str:
        nonlocal depth
        if token[1]:
            return "\n" * token[1].count("\n")
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if depth > _MOST_NESTED or (token[2] and token[2].count(".") >= _MOST_NESTED and _names(token[2])):
            raise fail(_TOO_DEEP, path=path, line=text.count("\n", 0, token.start()) + 1)
        if _LONG_HEXADECIMAL.match(token[0]):
            raise fail(_TOO_LONG, path=path, line=text.count("\n", 0, token.start()) + 1)
        return token[0]

    return _TOML_TOKEN.sub(without, text)


def _names(dotted: str) -> bool:
    """Returns whether a dotted key has too many names; dots in quotes do not count."""
    return len(re.findall(_PART, dotted)) > _MOST_NESTED


def _toml_lines(text: str) -> dict[Keys, int]:
    """Returns the line of each table and key of a TOML text without strings over several lines.

    tomllib keeps no positions, so table headers and keys are searched at the start of lines.
    """
    lines: dict[Keys, int] = {(): 1}
    items: dict[Keys, int] = {}
    table: Keys = ()
    line, end = 1, 0
    for match in _TOML_LINE.finditer(text):
        line += text.count("\n", end, match.start())
        end = match.start()
        names = tuple(name.strip("\"'") for name in re.findall(_TOML_NAME, match[2] or match[3]))
        if match[1] is None:
            lines.setdefault((*table, *names), line)
            continue
        table = names
        if match[1] == "[[":
            items[names] = items.get(names, -1) + 1
            table = (*names, items[names])
        lines.setdefault(names, line)
        lines.setdefault(table, line)
    return lines
