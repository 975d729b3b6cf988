"""A parsed file: its value, and the line of each key in it. Decodes source files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.errors import fail

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MEBIBYTE = 1 << 20
MOST_SOURCE_BYTES = 16 * MEBIBYTE
"""The most bytes of a manifest, template, data or tool file."""

Keys = tuple[str | int, ...]
"""The keys and indexes that lead from the top of a document to one of its values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed file.

    Attributes:
        path: the file, relative to the project root.
        value: the parsed value: mappings, lists, text, numbers, booleans and None.
        lines: the line, from 1, of each key or item.
    """

    path: str
    value: Any
    lines: Mapping[Keys, int] = field(default_factory=dict)

    def line(self, keys: Sequence[str | int]) -> int | None:
        """Returns the line of the value under `keys`, or of the nearest value around it."""
        return nearest_line(self.lines, tuple(keys))


def nearest_line(lines: Mapping[Keys, int], keys: Keys) -> int | None:
    """Returns the line of `keys`, or of the longest part of it that has a line; None where no part has one."""
    while keys and keys not in lines:
        keys = keys[:-1]
    return lines.get(keys)


def decode(data: bytes, path: str, most_bytes: int = MOST_SOURCE_BYTES) -> str:
    """Returns UTF-8 bytes as text, without a byte-order mark and with LF line ends.

    Args:
        data: the bytes of a file.
        path: the file, for messages.
        most_bytes: the most bytes that such a file may have.

    Raises:
        CacheunitError: the file is too large, or the bytes are not UTF-8; names the line.
    """
    if len(data) > most_bytes:
        raise fail(f"larger than {most_bytes // MEBIBYTE} MiB", path=path)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise fail(
            f"not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}",
            path=path,
            line=line,
            hint="save the file as UTF-8",
        ) from None
    return normalize_newlines(text.removeprefix("\ufeff"))


def normalize_newlines(text: str) -> str:
    """Returns `text` with CRLF and CR replaced by LF."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


_LONGEST_SHOWN = 80


def shortened(text: str) -> str:
    """Returns a text of a file as messages show it: at most 80 characters."""
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"
