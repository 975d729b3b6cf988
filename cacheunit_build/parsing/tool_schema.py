"""Checks a JSON Schema, of tool arguments or a response, by its declared draft, and puts it into canonical form.

what                                              order in the canonical form
names in `properties`, at every level             as written: models fill in arguments in this order
keys of every other object, also in values        by code point
lists of `required`, `dependentRequired`          sorted; those of names in `dependencies` too
other lists (oneOf, prefixItems, enum, type)      as written
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SchemaFault = tuple[str, tuple[str | int, ...], str | None]
"""A message, the keys that lead to its place in the schema, and a hint."""

_DEFAULT_DRAFT = "2020-12"
_DRAFTS = {
    "2020-12": "Draft202012Validator",
    "2019-09": "Draft201909Validator",
    "draft-07": "Draft7Validator",
    "draft-06": "Draft6Validator",
    "draft-04": "Draft4Validator",
}
"""Draft -> its validator in jsonschema, the newest first."""

_DRAFT_URI = re.compile(r"https?://json-schema\.org/(?:draft/(20\d\d-\d\d)|(draft-0\d))/schema#?")
_LONGEST_MESSAGE = 300
_MOST_VIOLATIONS = 100


def schema_faults(schema: dict[str, Any]) -> Iterator[SchemaFault]:
    """Yields each violation of the draft of JSON Schema that a schema declares, 2020-12 where it declares none.

    Nothing that a `$ref` names is looked up.

    Raises:
        RecursionError: the schema is nested too deeply.
    """
    declared = schema.get("$schema")
    match = _DRAFT_URI.fullmatch(declared) if isinstance(declared, str) else None
    draft = _DEFAULT_DRAFT if match is None else match[1] or match[2]
    if draft not in _DRAFTS or (declared is not None and match is None):
        hint = f'the drafts are {", ".join(_DRAFTS)}, as in "http://json-schema.org/draft-07/schema#"'
        yield f"unknown draft of JSON Schema: {_cut(repr(declared))}", ("$schema",), hint
        return
    violations = _violations(schema, draft)
    other = _hint_of_other_draft(schema, draft) if violations else None
    for message, place in violations:
        where = ".".join(map(str, place)) or "the top"
        by_draft = "" if declared is None else f" ({draft})"
        yield f"not valid JSON Schema{by_draft} at {_cut(where)}: {_cut(message)}", place, other


def _violations(
    schema: dict[str, Any], draft: str, most: int = _MOST_VIOLATIONS
) -> list[tuple[str, tuple[str | int, ...]]]:
    """Returns the first violations of a draft, by place: a message, and the keys that lead to it in the schema."""
    import jsonschema

    kind = getattr(jsonschema, _DRAFTS[draft])
    errors = islice(kind(kind.META_SCHEMA).iter_errors(schema), most)
    found = [(error.message, tuple(error.absolute_path)) for error in errors]
    return sorted(found, key=lambda violation: [str(part) for part in violation[1]])


def _hint_of_other_draft(schema: dict[str, Any], draft: str) -> str | None:
    """Returns a hint that names the newest draft by which a schema is valid; None where there is none."""
    for other in _DRAFTS:
        if other != draft and not _violations(schema, other, most=1):
            return f'it is valid by {other}: declare the draft by "$schema"'
    return None


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[: _LONGEST_MESSAGE - 1]}…"


def canonical_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns a schema in its canonical form."""
    return {key: _KEYWORDS.get(key, _subschemas)(schema[key]) for key in sorted(schema)}


def canonical_value(value: Any, *, schema: bool) -> Any:  # noqa: ANN401 - any JSON value
    """Returns a value in canonical form: as a schema, or with the keys of all objects in it sorted."""
    return _subschemas(value) if schema else _sorted(value)


def _subschemas(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Returns a schema, or schemas in a list, in canonical form.

    Keywords that no draft has, such as `x-…`, are read in this way too, since a `$ref` may lead there.
    """
    if isinstance(value, list):
        return [_subschemas(item) for item in value]
    return canonical_schema(value) if isinstance(value, dict) else value


def _properties(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Returns a mapping of names to schemas, in its order."""
    return {name: _subschemas(item) for name, item in value.items()} if isinstance(value, dict) else value


def _subschemas_by_name(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Returns a mapping of names to schemas, or to lists of names, sorted by name."""
    if not isinstance(value, dict):
        return value
    return {
        name: _names(value[name]) if isinstance(value[name], list) else _subschemas(value[name])
        for name in sorted(value)
    }


def _names(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Returns a list of names, sorted."""
    return sorted(value) if isinstance(value, list) and all(isinstance(item, str) for item in value) else _sorted(value)


def _sorted(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Returns a value that is no schema, with the keys of all objects in it sorted."""
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return {key: _sorted(value[key]) for key in sorted(value)} if isinstance(value, dict) else value


_KEYWORDS: dict[str, Callable[[Any], Any]] = {
    "properties": _properties,
    **dict.fromkeys(("patternProperties", "$defs", "definitions", "dependentSchemas"), _subschemas_by_name),
    **dict.fromkeys(("dependencies", "dependentRequired"), _subschemas_by_name),
    **dict.fromkeys(("enum", "const", "default", "examples", "example"), _sorted),
    "required": _names,
}
"""The function that makes the value of a keyword canonical; the values of all others are read as schemas."""
