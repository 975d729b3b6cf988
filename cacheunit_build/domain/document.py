"""A parsed file: its value, and the line of each key in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
