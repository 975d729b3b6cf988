"""Reads TOML files, with the line of each key."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

from cacheunit_build.domain.document import Document, decode
from cacheunit_build.domain.errors import fail

if TYPE_CHECKING:
    from cacheunit_build.domain.document import Keys

_TOML_POSITION = re.compile(r"\(at (?:line (\d+), column \d+|end of document)\)")
_TOML_NAME = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_TOML_NAMES = rf"{_TOML_NAME}(?:\s*\.\s*{_TOML_NAME})*"
_TOML_LINE = re.compile(rf"^[ \t]*(?:(\[\[?)\s*({_TOML_NAMES})\s*\]|({_TOML_NAMES})\s*=)", re.MULTILINE)


def read_toml(data: bytes, path: str) -> Document:
    """Returns a TOML file as a document with the line of each table and key.

    Args:
        data: the bytes of the file.
        path: the file, for messages.

    Raises:
        CacheunitError: it is not TOML; names the line.
    """
    text = decode(data, path)
    try:
        value = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        position = _TOML_POSITION.search(str(error))
        line = None if position is None else int(position[1]) if position[1] else text.count("\n") + 1
        message = _TOML_POSITION.sub("", str(error)).strip()
        raise fail(f"not valid TOML: {message}", path=path, line=line) from None
    return Document(path=path, value=value, lines=_toml_lines(text))


def _toml_lines(text: str) -> dict[Keys, int]:
    """Returns the line of each table and key of a TOML text.

    tomllib keeps no positions, so table headers and keys are searched at the start of lines.
    """
    lines: dict[Keys, int] = {(): 1}
    items: dict[Keys, int] = {}
    table: Keys = ()
    for match in _TOML_LINE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
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
