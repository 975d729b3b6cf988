"""Caches values computed from a list of tools, since many prefixes of a project have the same tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    T = TypeVar("T")

_MOST_VALUES = 256
"""More are not kept: all are made anew then, so that a project whose prefixes share no tools needs no more memory."""


class PerTools:
    """Values made of tools, one for each kind and each sequence of tools.

    Sequences are told apart by identity, since comparing many schemas takes as long as making a value of them.
    Manifests that name the same files have one and the same sequence. It is kept with its values, so that its id stays
    its own.
    """

    def __init__(self) -> None:
        self._values: dict[tuple[int, str], tuple[Sequence[Any], Any]] = {}

    def get(self, tools: Sequence[Any], kind: str, make: Callable[[], T]) -> T:
        """Returns the value of a kind for these tools, which `make` makes at the first call."""
        key = id(tools), kind
        if key not in self._values:
            value = make()
            if len(self._values) >= _MOST_VALUES:
                self._values.clear()
            self._values[key] = tools, value
        kept: T = self._values[key][1]
        return kept
