"""The response schema of a prefix: the JSON Schema that the provider answers by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseSchema:
    """The JSON Schema that the provider answers by.

    Attributes:
        name: its name in a request, made from the name of its file.
        schema: the schema, its keys in canonical order.
        path: the source file, relative to the project root.
        line: the line of the schema in that file.
    """

    name: str
    schema: Mapping[str, Any]
    path: str
    line: int | None
