"""What pydantic finds wrong -> faults with file, line and the nearest known key."""

from __future__ import annotations

import types
import typing
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from cacheunit_build.domain.errors import CacheunitError, Fault, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic_core import ErrorDetails

    from cacheunit_build.domain.document import Document

Model = TypeVar("Model", bound=BaseModel)


class Strict(BaseModel):
    """The base of all schemas: nothing is coerced and no unknown key is let through."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, title=None)


def validate(schema: type[Model], document: Document, under: Sequence[str | int] = ()) -> Model:
    """`document.value` as `schema`; `under` says where in the file that value stands.

    Raises:
        CacheunitError: every fault in the document.
    """
    try:
        return schema.model_validate(document.value)
    except ValidationError as error:
        faults = [_fault(schema, details, document, under) for details in error.errors(include_url=False)]
        raise CacheunitError(*sorted(faults, key=lambda fault: fault.line or 0)) from None


def _fault(schema: type[BaseModel], details: ErrorDetails, document: Document, under: Sequence[str | int]) -> Fault:
    keys = details["loc"]
    known = _keys_at(schema, keys[:-1])
    hint = None
    if details["type"] == "extra_forbidden":
        message = f'unknown key "{keys[-1]}"'
        hint = did_you_mean(str(keys[-1]), known) or f"the known keys are {', '.join(known)}"
    elif details["type"] == "missing":
        message = f'key "{keys[-1]}" is missing' + (f' in "{_dotted(keys[:-1])}"' if len(keys) > 1 else "")
    else:
        message = f'"{_dotted(keys)}" {_words(details)}' if keys else _words(details)
    return Fault(message=message, path=document.path, line=document.line((*under, *keys)), hint=hint)


def _dotted(keys: Sequence[str | int]) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")


_WORDS = {
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
}


def _words(details: ErrorDetails) -> str:
    kind, context, given = details["type"], details.get("ctx", {}), details["input"]
    shown = str(given).lower() if isinstance(given, bool) else repr(given)
    got = f", not {shown}" if isinstance(given, str | int | float | bool) else ""
    if kind in _WORDS:
        return _WORDS[kind] + got
    if kind == "literal_error":
        return f"must be {context['expected']}{got}"
    if kind == "too_short":
        return "must not be empty"
    if kind == "value_error":
        return str(context["error"])
    return details["msg"].replace("Input should be", "must be").replace("List should", "must") + got


def _keys_at(schema: type[BaseModel], keys: Sequence[str | int]) -> list[str]:
    """The keys that `schema` knows for the mapping under `keys`."""
    found: type[BaseModel] | None = schema
    for key in keys:
        if found is not None and isinstance(key, str) and key in found.model_fields:
            found = _model_in(found.model_fields[key].annotation)
    return [] if found is None else sorted(found.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401
    """The schema somewhere inside `list[Schema]`, `Schema | None` and the like."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation if issubclass(annotation, BaseModel) else None
    return next((found for part in typing.get_args(annotation) if (found := _model_in(part))), None)
