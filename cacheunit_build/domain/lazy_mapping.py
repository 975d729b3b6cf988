"""A mapping whose values are made when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

T = TypeVar("T")


class LazyMapping(Mapping[str, T]):
    """A mapping whose keys are known, and whose values are made when they are first asked for.

    Args:
        keys: the keys, in the order of the mapping.
        value_of: returns the value of a key.
    """

    def __init__(self, keys: Iterable[str], value_of: Callable[[str], T]) -> None:
        self._keys = dict.fromkeys(keys)
        self._value_of = value_of
        self._values: dict[str, T] = {}

    def __getitem__(self, key: str) -> T:
        """Returns the value of a key, made now if it was not before."""
        if key not in self._values:
            if key not in self._keys:
                raise KeyError(key)
            self._values[key] = self._value_of(key)
        return self._values[key]

    def __reduce__(self) -> tuple[type[dict[str, T]], tuple[dict[str, T]]]:
        """Returns how another process gets the values: all of them, as a plain mapping."""
        return dict, (dict(self),)

    def __contains__(self, key: object) -> bool:
        """Returns whether there is such a key; its value is not made."""
        return key in self._keys

    def __iter__(self) -> Iterator[str]:
        """Yields the keys."""
        return iter(self._keys)

    def __len__(self) -> int:
        """Returns the number of keys."""
        return len(self._keys)
