"""Validates parsed files: reads them into the frozen dataclasses of the domain; what is wrong becomes faults.

Pydantic finds what is wrong. It is imported only for that and for large files, since its import and its schemas take
longer than all else that a build of one prefix does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt  # noqa: TID251 - the type of a date in TOML; no clock is read
import json
import types
import typing
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from cacheunit_build.domain.constraints import VALIDATION
from cacheunit_build.domain.document import shortened
from cacheunit_build.domain.errors import CacheunitError, Fault, did_you_mean, fail, first_faults
from cacheunit_build.domain.json_values import from_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails

    from cacheunit_build.domain.document import Document

T = TypeVar("T")

_LARGE = 1 << 20
"""Characters of JSON from which on pydantic is faster, its import included."""


def validate(
    schema: type[T],
    document: Document,
    table_keys: Sequence[str | int] = (),
    *,
    keys_read_before: Sequence[str] = (),
    shorthands: Collection[tuple[str | int, ...]] = (),
) -> T:
    """Returns `document.value` as an instance of `schema`, a dataclass whose classes are marked with `VALIDATION`.

    The value goes through JSON, since that is where pydantic's strict mode takes an object for a dataclass and a list
    for a tuple, and still converts nothing else.

    Args:
        schema: the dataclass.
        document: the parsed file.
        table_keys: the keys under which the value is in its file, for the lines of faults.
        keys_read_before: keys that the value may have in its file, but that were taken out of it; for hints.
        shorthands: the keys of values that may be a text in the file too, as a short form.

    Raises:
        CacheunitError: every fault in the document.
    """
    try:
        data = json.dumps(document.value, ensure_ascii=False, default=_date_text)
    except ValueError:  # an integer that TOML has in hexadecimal digits
        line = document.line(table_keys)
        raise fail("a number has more digits than can be read", path=document.path, line=line) from None
    if len(data) < _LARGE:
        with contextlib.suppress(ValueError, RecursionError):
            data.encode()  # fails where pydantic does, for half of a surrogate pair
            return from_json(schema, json.loads(data, parse_constant=_refuse_constant))
    known = _KnownKeys(schema=schema, read_before=keys_read_before, shorthands=shorthands)
    value: T = _validate_by_pydantic(known, document, table_keys)
    return value


def _refuse_constant(name: str) -> object:
    """Raises ValueError for `NaN` and `Infinity`."""
    raise ValueError(name)


def _validate_by_pydantic(known: _KnownKeys, document: Document, table_keys: Sequence[str | int]) -> Any:  # noqa: ANN401 - an instance of the schema
    """Returns the instance of the schema, or raises every fault in the document."""
    from pydantic import ValidationError

    try:
        return _adapter(known.schema).validate_json(json.dumps(document.value, default=_date_text))
    except ValidationError as error:
        errors = _without_consequences(_without_union_members(error.errors(include_url=False), document.value))
        faults = [_fault(known, details, document, table_keys) for details in errors]
        raise CacheunitError(*first_faults(sorted(faults, key=lambda fault: fault.line or 0))) from None


def json_schema(schema: type[Any]) -> dict[str, Any]:
    """Returns the JSON Schema of a dataclass that files are read into, described by the docstrings of its fields."""
    from pydantic import TypeAdapter

    with _docstrings_read():
        adapter = TypeAdapter(schema)
    return _without_titles(adapter.json_schema())


@contextmanager
def _docstrings_read() -> Iterator[None]:
    """Lets pydantic read the docstrings of fields from the source, which validation does not need, and takes long."""
    VALIDATION["use_attribute_docstrings"] = True
    try:
        yield
    finally:
        del VALIDATION["use_attribute_docstrings"]


_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}


def _adapter(schema: type[Any]) -> TypeAdapter[Any]:
    """Returns pydantic's adapter of a dataclass, built once, since that takes long."""
    from pydantic import TypeAdapter

    if schema not in _ADAPTERS:
        _ADAPTERS[schema] = TypeAdapter(schema)
    return _ADAPTERS[schema]


def _date_text(value: object) -> str:
    """Returns a date of a TOML file as text; other values that JSON does not have are refused before."""
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns a JSON Schema without pydantic's titles, which only repeat the names of fields."""
    schema = {key: value for key, value in schema.items() if key != "title"}
    for group in ("properties", "$defs"):
        if group in schema:
            schema[group] = {name: _without_titles(part) for name, part in schema[group].items()}
    return schema


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _KnownKeys:
    """The keys that a file may have: those of a dataclass, those that were read before, and those with a short form."""

    schema: type[Any]
    read_before: Sequence[str]
    shorthands: Collection[tuple[str | int, ...]]


def _without_consequences(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """Returns the errors without those that a list is empty, where it only lacks the items that are wrong."""
    parents = {error["loc"][:-1] for error in errors}
    return [error for error in errors if error["type"] != "too_short" or error["loc"] not in parents]


def _without_union_members(errors: Sequence[ErrorDetails], value: object) -> list[ErrorDetails]:
    """Returns errors without those of members of a union that the value is not meant for, and without their names.

    Of a key that takes a text or a table, pydantic reports what each member of the union refuses:

        value           keys of the errors                              returned
        {"sha256": 5}   encoder, str; encoder, PackagedEncoder, sha256  encoder, sha256
        5               encoder, str; encoder, PackagedEncoder          encoder: must be text or a mapping
    """
    kept: dict[tuple[tuple[str | int, ...], str], ErrorDetails] = {}
    for details in errors:
        keys, member_refused, is_mapping = _real_keys(details, value)
        if member_refused and is_mapping:
            continue
        kind = "text_or_mapping_type" if member_refused else details["type"]
        kept.setdefault((keys, kind), {**details, "loc": keys, "type": kind})
    return list(kept.values())


def _real_keys(details: ErrorDetails, value: Any) -> tuple[tuple[str | int, ...], bool, bool]:  # noqa: ANN401 - any JSON
    """Returns the keys of an error, without names of members of a union.

    And whether a member of a union refuses the type of the value, and whether the value is a mapping.
    """
    keys: list[str | int] = []
    location = details["loc"]
    for index, key in enumerate(location):
        last = index == len(location) - 1
        absent = isinstance(key, str) and not (isinstance(value, dict) and key in value)
        if absent and not (last and details["type"].startswith("missing")):
            if last and details["type"].endswith("_type"):
                return tuple(keys), True, isinstance(value, dict)
            continue
        keys.append(key)
        if not last:
            value = value[key] if isinstance(value, dict) or isinstance(key, int) else None
    return tuple(keys), False, False


def _fault(known: _KnownKeys, details: ErrorDetails, document: Document, table_keys: Sequence[str | int]) -> Fault:
    keys = details["loc"]
    known_keys = sorted([*_keys_at(known.schema, keys[:-1]), *(known.read_before if len(keys) == 1 else ())])
    hint = None
    if details["type"] == "unexpected_keyword_argument":
        message = f'unknown key "{shortened(str(keys[-1]))}"'
        hint = did_you_mean(str(keys[-1]), known_keys) or f"the known keys are {', '.join(known_keys)}"
    elif details["type"] in ("missing", "missing_keyword_only_argument"):
        message = f'key "{keys[-1]}" is missing' + (f' in "{_dotted(keys[:-1])}"' if len(keys) > 1 else "")
    else:
        complaint = _complaint(details)
        if keys in known.shorthands and details["type"] in _COMPLAINTS:
            complaint = complaint.replace("must be", "must be text or", 1)
        message = f'"{_dotted(keys)}" {complaint}' if keys else complaint
    return Fault(message=message, path=document.path, line=document.line((*table_keys, *keys)), hint=hint)


def _dotted(keys: Sequence[str | int]) -> str:
    """Returns keys and indexes as one text, such as `cache.evidence[0].grade`."""
    names = (f"[{key}]" if isinstance(key, int) else f".{shortened(key)}" for key in keys)
    return "".join(names).removeprefix(".")


_COMPLAINTS = {
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping",
    "dataclass_type": "must be a mapping",
    "text_or_mapping_type": "must be text or a mapping",
}
"""What is wrong with a value, by pydantic's type of the error."""


def _complaint(details: ErrorDetails) -> str:
    """Returns what is wrong with a value, as the end of a sentence that begins with its key."""
    kind, context, value = details["type"], details.get("ctx", {}), details["input"]
    shown = str(value).lower() if isinstance(value, bool) else shortened(repr(value))
    got = f", not {shown}" if isinstance(value, str | int | float | bool) else ""
    if kind in _COMPLAINTS:
        return _COMPLAINTS[kind] + got
    if kind == "literal_error":
        return f"must be {context['expected']}{got}"
    if kind.startswith("date_"):
        return f"must be a date, such as 2026-11-29{got}"
    if kind == "value_error":
        return str(context["error"])
    if kind in ("too_short", "string_too_short"):
        return "must not be empty"
    return details["msg"].replace("Input should be", "must be").replace("String should", "must") + got


def _keys_at(schema: type[Any], keys: Sequence[str | int]) -> list[str]:
    """Returns the keys that `schema` has in the mapping under `keys`."""
    found: type[Any] | None = schema
    for key in keys:
        if found is not None and isinstance(key, str):
            hints = typing.get_type_hints(found)
            found = _dataclass_in(hints.get(key, found))
    return [] if found is None else sorted(field.name for field in dataclasses.fields(found))


def _dataclass_in(annotation: Any) -> type[Any] | None:  # noqa: ANN401 - any annotation
    """Returns the dataclass somewhere inside an annotation such as `tuple[Schema, ...]` or `Schema | None`."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation if dataclasses.is_dataclass(annotation) else None
    return next((found for part in typing.get_args(annotation) if (found := _dataclass_in(part))), None)
