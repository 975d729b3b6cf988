"""Tool files -> canonical tools: one form, one order of keys, valid schemas.

The order of keys: `name`, `description`, `parameters`, then `strict` in a tool; by code point in every object of a
schema. Lists that have no order (`required`, and those of `dependentRequired`) are sorted; all others, and the values
of `enum`, `const`, `default` and `examples`, stay as they were written.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.errors import CacheunitError, Fault
from cacheunit_build.domain.prompt import Tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from cacheunit_build.domain.document import Document

NOT_SENT = frozenset({"title", "annotations", "outputSchema", "icons", "execution", "_meta"})
"""Keys of an MCP tool that describe it to the client and are not part of a request."""

_SCHEMA_KEYS = {"parameters": "OpenAI", "input_schema": "Anthropic", "inputSchema": "MCP"}
_KNOWN = frozenset({"type", "name", "description", "strict", *_SCHEMA_KEYS, *NOT_SENT})
_NAME = re.compile(r"[A-Za-z0-9_.\-/]{1,128}")


def parse_tools(document: Document) -> tuple[Tool, ...]:
    """The tools of one file: one tool or a list, in the form of OpenAI, Anthropic or MCP.

    Raises:
        CacheunitError: every fault in the file.
    """
    listed = document.value if isinstance(document.value, list) else [document.value]
    faults: list[Fault] = []
    tools: list[Tool] = []
    for index, raw in enumerate(listed):
        reader = _ToolReader(document, (index,) if isinstance(document.value, list) else ())
        tool = reader.tool(raw)
        faults += reader.faults
        if tool is not None:
            tools.append(tool)
    if not listed:
        faults.append(Fault(message="the file holds no tool", path=document.path))
    if faults:
        raise CacheunitError(*sorted(faults, key=lambda fault: fault.line or 0))
    return tuple(tools)


class _ToolReader:
    """Reads one tool, collecting faults."""

    def __init__(self, document: Document, keys: tuple[int, ...]) -> None:
        self._document = document
        self._keys: tuple[str | int, ...] = keys
        self._kind: object = None
        self.faults: list[Fault] = []

    def tool(self, raw: Any) -> Tool | None:  # noqa: ANN401
        if not isinstance(raw, dict):
            self._fault("a tool is one mapping")
            return None
        if "function" in raw:
            raw = self._unwrapped(raw)
        name, description = raw.get("name"), raw.get("description", "")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            self._fault("the tool has no name" if name is None else f"{name!r} cannot name a tool", "name")
        if not isinstance(description, str):
            self._fault("a description is text", "description")
        if not isinstance(raw.get("strict", False), bool):
            self._fault('"strict" is true or false', "strict")
        for key in (key for key in raw if key not in _KNOWN):
            self._fault(f'unknown key "{key}" in a tool', key)
        schema = self._schema(raw)
        if self.faults:
            return None
        path, line = self._document.path, self._document.line(self._keys)
        return Tool(name=name, description=description, schema=schema, strict=raw.get("strict"), path=path, line=line)

    def _unwrapped(self, raw: dict[str, Any]) -> dict[str, Any]:
        """What stands in OpenAI's `{"type": "function", "function": {…}}`."""
        inner = raw["function"]
        self._kind = raw.get("type", "function")
        mixed = sorted(raw.keys() - {"type", "function"})
        if mixed:
            self._fault(f'mixes two forms: "function" beside "{mixed[0]}"', mixed[0])
        if not isinstance(inner, dict):
            self._fault('"function" is a mapping', "function")
            return {}
        self._keys = (*self._keys, "function")
        return inner

    def _schema(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        forms = [key for key in _SCHEMA_KEYS if key in raw]
        if len(forms) > 1:
            self._fault(f'mixes two forms: "{forms[0]}" and "{forms[1]}"', forms[1])
        kind = raw.get("type", self._kind)
        if kind not in (None, "function", "custom"):
            self._fault(f'a tool of type "{kind}" is run by the provider, and has no schema to compile', "type")
        wanted = {"function": "parameters", "custom": "input_schema"}.get(kind) if isinstance(kind, str) else None
        if wanted is not None and forms not in ([wanted], []):
            self._fault(f'mixes two forms: type "{kind}" and "{forms[0]}"', forms[0])
        schema = raw[forms[0]] if forms else {"properties": {}}
        if not isinstance(schema, dict):
            self._fault(f'"{forms[0]}" is a JSON Schema, a mapping', forms[0])
            return {}
        try:
            for message, place in _schema_faults(schema):
                self._fault(message, *forms, *place)
            plain = {} if self.faults else json.loads(json.dumps({"type": "object", **schema}))
            return dict(_ordered(plain))
        except RecursionError:
            self._fault("the schema is nested too deep", *forms)
            return {}

    def _fault(self, message: str, *keys: str | int) -> None:
        line = self._document.line((*self._keys, *keys))
        self.faults.append(Fault(message=message, path=self._document.path, line=line))


def _schema_faults(schema: dict[str, Any]) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    """What is not valid JSON Schema (draft 2020-12), and where in the schema."""
    from jsonschema import Draft202012Validator

    if schema.get("type", "object") != "object":
        yield 'the schema of a tool has "type": "object"', ("type",)
    validator = Draft202012Validator(Draft202012Validator.META_SCHEMA)
    for error in sorted(validator.iter_errors(schema), key=lambda error: [str(part) for part in error.absolute_path]):
        place = tuple(error.absolute_path)
        yield f"not valid JSON Schema at {'.'.join(map(str, place)) or 'the top'}: {error.message}", place


def _ordered(schema: Any) -> Any:  # noqa: ANN401
    """A schema with the keys of its objects by code point, and lists without an order sorted."""
    if not isinstance(schema, dict):
        return schema
    return {key: _HANDLERS.get(key, _as_written)(schema[key]) for key in sorted(schema)}


def _as_written(value: Any) -> Any:  # noqa: ANN401
    return value


def _by_name(value: Any) -> Any:  # noqa: ANN401
    """A mapping of names to schemas."""
    return {name: _ordered(value[name]) for name in sorted(value)} if isinstance(value, dict) else value


def _in_list(value: Any) -> Any:  # noqa: ANN401
    """A list of schemas, whose order matters, or one schema."""
    return [_ordered(item) for item in value] if isinstance(value, list) else _ordered(value)


def _sorted(value: Any) -> Any:  # noqa: ANN401
    return sorted(value) if isinstance(value, list) and all(isinstance(item, str) for item in value) else value


def _sorted_by_name(value: Any) -> Any:  # noqa: ANN401
    return {name: _sorted(value[name]) for name in sorted(value)} if isinstance(value, dict) else value


_HANDLERS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"), _by_name),
    **dict.fromkeys(("oneOf", "anyOf", "allOf", "prefixItems", "items"), _in_list),
    **dict.fromkeys(("additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"), _ordered),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties", "contentSchema", "additionalItems"), _ordered),
    "required": _sorted,
    "dependentRequired": _sorted_by_name,
}
