"""Reads tool files: one tool or a list, in the form of OpenAI, Anthropic or MCP, into one canonical form.

Two files that differ only in the order of what has no order give the same bytes: the keys of a tool are its name,
description, schema and strict, then its other keys by code point; those of the schema, and of a tool that the provider
runs, are ordered by `parsing.tool_schema`, and tools stay as written.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.document import shortened
from cacheunit_build.domain.errors import CacheunitError, Fault, did_you_mean, fail, first_faults
from cacheunit_build.domain.prompt import Tool
from cacheunit_build.parsing.tool_schema import canonical_schema, canonical_value, schema_faults

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from cacheunit_build.domain.document import Document, Keys

CLIENT_ONLY_KEYS = frozenset({"title", "annotations", "outputSchema", "icons", "execution", "_meta"})
"""Keys of an MCP tool that describe it to the client and are not part of a request."""

_SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema")
"""The key of the schema in the forms of OpenAI, Anthropic and MCP."""

_SCHEMA_KEY_OF_TYPE = {"function": "parameters", "custom": "input_schema"}
"""The key of the schema that goes with each `type` of a tool."""

_TOOL_KEYS = frozenset({"type", "name", "description", "strict", *_SCHEMA_KEYS, *CLIENT_ONLY_KEYS})
MOST_TOOL_VALUES = 20_000
"""The most values in one tool file, since it takes long to check a schema."""

_MARKERS = frozenset({"cache_control", "prompt_cache_breakpoint"})
"""Keys that mark a tool as the end of a cached part; the build sets them."""

_TYPES: Mapping[str, tuple[type, str]] = {
    "defer_loading": (bool, "true or false"),
    "eager_input_streaming": (bool, "true or false"),
    "async": (bool, "true or false"),
    "input_examples": (list, "a list"),
    "allowed_callers": (list, "a list"),
    "output_schema": (dict, "a mapping, a JSON Schema"),
}
"""The type that the value of a further key has, and its name."""

_NAME = re.compile(r"[A-Za-z0-9_.\-/]{1,128}")


def parse_tools(document: Document, known_keys: Collection[str] = ()) -> tuple[Tool, ...]:
    """Returns the tools of one file, in canonical form and in the order of the file.

    Args:
        document: the file: a tool, a list of tools, or the result of `tools/list` of an MCP server.
        known_keys: the further keys of tools that one of the targets' formats takes.

    Raises:
        CacheunitError: every fault in the file.
    """
    if len(document.lines) > MOST_TOOL_VALUES:
        raise fail(f"more than {MOST_TOOL_VALUES:,} values in one tool file", path=document.path)
    value, keys = listed_tools(document)
    is_list = isinstance(value, list)
    values = value if is_list else [value]
    faults: list[Fault] = []
    tools: list[Tool] = []
    for index, entry in enumerate(values):
        try:
            tools.append(_ToolReader(document, (*keys, index) if is_list else keys, known_keys).tool(entry))
        except CacheunitError as error:
            faults += error.faults
    if not values:
        faults.append(Fault(message="the file contains no tools", path=document.path, line=document.line(keys)))
    if faults:
        raise CacheunitError(*first_faults(sorted(faults, key=lambda fault: fault.line or 0)))
    return tuple(tools)


def listed_tools(document: Document) -> tuple[Any, Keys]:
    """Returns the tools of a file, and the keys that lead to them.

    in the file                                          keys
    one tool, or a list                                  (none)
    {"tools": […]}, a result of `tools/list`             tools
    {"jsonrpc": "2.0", "id": 1, "result": {…}}           result, tools

    Raises:
        CacheunitError: the answer of the server is an error, or is not its whole list.
    """
    keys: Keys = ()
    value, path = document.value, document.path
    if isinstance(value, dict) and "jsonrpc" in value:
        value, keys = value.get("result"), ("result",)
        if not isinstance(value, dict) or "tools" not in value:
            message = "the JSON-RPC answer has no list of tools"
            raise fail(message, path=path, line=document.line(()), hint="save the answer to tools/list")
    if not isinstance(value, dict) or "tools" not in value or value.keys() & {"type", "name"}:
        return value, keys
    if not isinstance(value["tools"], list):
        raise fail('"tools" must be a list', path=path, line=document.line((*keys, "tools")))
    if value.get("nextCursor") is not None:
        message = 'the list of tools is incomplete: it has a "nextCursor"'
        hint = "ask the server for the next page, and add its tools to the list"
        raise fail(message, path=path, line=document.line((*keys, "nextCursor")), hint=hint)
    return value["tools"], (*keys, "tools")


def _is_hosted(value: Mapping[str, Any]) -> bool:
    """Returns whether an entry is a tool that the provider runs: of a type of its own, or `{googleSearch: {}}`."""
    if "type" in value:
        return isinstance(value["type"], str) and value["type"] not in {"", *_SCHEMA_KEY_OF_TYPE}
    (key, inner), *others = value.items() or [("", None)]
    return not others and key not in _TOOL_KEYS | {"function"} and isinstance(inner, dict)


class _ToolReader:
    """Reads one tool of a file, and collects its faults on the way."""

    def __init__(self, document: Document, keys: Keys, known_keys: Collection[str]) -> None:
        self._document = document
        self._known_keys = known_keys
        self._keys = keys  # lead to the mapping that has name and schema
        self._outer_type: object = None  # `type` beside "function", in OpenAI's nested form
        self._faults: list[Fault] = []

    def tool(self, value: Any) -> Tool:  # noqa: ANN401 - any value of the file
        """Returns the tool in canonical form.

        Raises:
            CacheunitError: every fault in it.
        """
        if not isinstance(value, dict):
            self._add_fault("a tool must be a mapping")
            raise CacheunitError(*self._faults)
        if _is_hosted(value):
            return self._hosted_tool(value)
        fields = self._unwrapped(value) if "function" in value else value
        name: Any = fields.get("name")
        description = fields.get("description", "")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            self._add_fault(
                "the tool has no name" if name is None else f"{shortened(repr(name))} is not a valid tool name", "name"
            )
        if not isinstance(description, str):
            self._add_fault('"description" must be text', "description")
        if not isinstance(fields.get("strict", False), bool):
            self._add_fault('"strict" must be true or false', "strict")
        others, schema = self._others(fields), self._schema(fields)
        if self._faults:
            raise CacheunitError(*self._faults)
        return Tool(
            name=name,
            description=description,
            schema=schema,
            strict=fields.get("strict"),
            path=self._document.path,
            line=self._document.line(self._keys),
            others=others,
        )

    def _hosted_tool(self, value: dict[str, Any]) -> Tool:
        """Returns a tool that the provider runs, named by its name, the function in it, its type, or its only key."""
        inner = value.get("function")
        names = [value.get("name"), inner.get("name") if isinstance(inner, dict) else None, value.get("type")]
        name = next((name for name in names if isinstance(name, str) and name), next(iter(value)))
        if not _NAME.fullmatch(name):
            self._add_fault(f"{shortened(repr(name))} is not a valid tool name", "name")
        for key in sorted(value.keys() & _MARKERS):
            self._add_fault(f'"{key}" in a tool: the build sets the markers', key, hint="remove it")
        try:
            hosted = canonical_schema(value)
        except RecursionError:
            self._add_fault("the tool is nested too deeply")
        if self._faults:
            raise CacheunitError(*self._faults)
        path, line = self._document.path, self._document.line(self._keys)
        return Tool(name=name, description="", schema={}, strict=None, path=path, line=line, hosted=hosted)

    def _others(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the further keys that a format takes, sorted; another key is a fault."""
        others = {}
        for key in (key for key in fields if key not in _TOOL_KEYS):
            kind, named = _TYPES.get(key, (object, ""))
            if key in _MARKERS:
                self._add_fault(f'"{key}" in a tool: the build sets the markers', key, hint="remove it")
            elif key not in self._known_keys:
                hint = did_you_mean(key, (_TOOL_KEYS - CLIENT_ONLY_KEYS).union(self._known_keys))
                self._add_fault(f'unknown key "{shortened(key)}" in a tool', key, hint=hint)
            elif not isinstance(fields[key], kind) or fields[key] is None:
                self._add_fault(f'"{key}" must be {named}' if named else f'"{key}" has no value', key)
            else:
                others[key] = canonical_value(fields[key], schema=key != "input_examples")
        return dict(sorted(others.items()))

    def _unwrapped(self, value: dict[str, Any]) -> dict[str, Any]:
        """Returns the inner mapping of OpenAI's nested form, `{"type": "function", "function": {…}}`."""
        inner = value["function"]
        self._outer_type = value.get("type", "function")
        others = sorted(value.keys() - {"type", "function"})
        if others:
            self._add_fault(f'mixes two forms of tools: "function" and "{others[0]}" side by side', others[0])
        if not isinstance(inner, dict):
            self._add_fault('"function" must be a mapping', "function")
            return {}
        self._keys = (*self._keys, "function")
        return inner

    def _schema(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the canonical schema of a tool's arguments; a tool without a schema takes none."""
        key = self._schema_key(fields)
        keys = () if key is None else (key,)
        schema = {"properties": {}} if key is None else fields[key]
        if not isinstance(schema, dict):
            self._add_fault(f'"{key}" must be a mapping, a JSON Schema', *keys)
            return {}
        try:
            if schema.get("type", "object") != "object":
                self._add_fault('the schema of a tool must have "type": "object"', *keys, "type")
            for message, place, hint in schema_faults(schema):
                self._add_fault(message, *keys, *place, hint=hint)
            return {} if self._faults else canonical_schema(json.loads(json.dumps({"type": "object", **schema})))
        except RecursionError:
            self._add_fault("the schema is nested too deeply", *keys)
            return {}

    def _schema_key(self, fields: Mapping[str, Any]) -> str | None:
        """Returns the key of the schema, None where there is none; a form that is not clear is a fault."""
        present = [key for key in _SCHEMA_KEYS if key in fields]
        if len(present) > 1:
            self._add_fault(f'mixes two forms of tools: "{present[0]}" and "{present[1]}"', present[1])
        kind = fields.get("type", self._outer_type)
        if kind is not None and not (isinstance(kind, str) and kind in _SCHEMA_KEY_OF_TYPE):
            self._add_fault(f'the type of a function is "function" or "custom", not {shortened(repr(kind))}', "type")
        elif kind is not None and present and present != [_SCHEMA_KEY_OF_TYPE[kind]]:
            self._add_fault(f'mixes two forms of tools: type "{kind}" and "{present[0]}"', present[0])
        return present[0] if present else None

    def _add_fault(self, message: str, *keys: str | int, hint: str | None = None) -> None:
        """Collects a fault at the value under `keys` of the tool."""
        line = self._document.line((*self._keys, *keys))
        self._faults.append(Fault(message=message, path=self._document.path, line=line, hint=hint))
