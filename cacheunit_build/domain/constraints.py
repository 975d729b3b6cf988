"""Limits of values that come from files, declared beside the field that they limit.

`parsing.validation` has pydantic check them, and shows them in the JSON Schema. Nothing here imports pydantic: a
constraint only adds its limits to the schema that pydantic builds for the field's type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

VALIDATION = {"extra": "forbid", "strict": True, "allow_inf_nan": False}
"""The validation settings of a class that is read from a file: unknown keys are refused, and nothing is converted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one value, by their names in pydantic's core schema; None does not limit.

    Attributes:
        ge: the value is at least this.
        gt: the value is more than this.
        le: the value is at most this.
        lt: the value is less than this.
        min_length: the text or list has at least so many characters or items.
        pattern: a regular expression that matches the text.
    """

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    min_length: int | None = None
    pattern: str | None = None

    def __get_pydantic_core_schema__(self, source: object, handler: Callable[[object], dict[str, Any]]) -> object:
        """Returns the schema of the field's type with these limits added."""
        names = ("ge", "gt", "le", "lt", "min_length", "pattern")
        limits = {name: limit for name in names if (limit := getattr(self, name)) is not None}
        return handler(source) | limits
