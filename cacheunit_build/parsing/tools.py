"""Reads tool files: one tool or a list, in the form of OpenAI, Anthropic or MCP, into one canonical form.

Two files that differ only in the order of what has no order give the same bytes: the keys of a tool are its name,
description, schema and strict, those of the schema are ordered by `parsing.tool_schema`, and tools stay as written.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.document import shortened
from cacheunit_build.domain.errors import CacheunitError, Fault, fail, first_faults
from cacheunit_build.domain.prompt import Tool
from cacheunit_build.parsing.tool_schema import canonical_schema, schema_faults

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cacheunit_build.domain.document import Document

CLIENT_ONLY_KEYS = frozenset({"title", "annotations", "outputSchema", "icons", "execution", "_meta"})
"""Keys of an MCP tool that describe it to the client and are not part of a request."""

_SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema")
"""The key of the schema in the forms of OpenAI, Anthropic and MCP."""

_SCHEMA_KEY_OF_TYPE = {"function": "parameters", "custom": "input_schema"}
"""The key of the schema that goes with each `type` of a tool."""

_TOOL_KEYS = frozenset({"type", "name", "description", "strict", *_SCHEMA_KEYS, *CLIENT_ONLY_KEYS})
MOST_TOOL_VALUES = 20_000
"""The most values in one tool file, since it takes long to check a schema."""

_NAME = re.compile(r"[A-Za-z0-9_.\-/]{1,128}")


def parse_tools(document: Document) -> tuple[Tool, ...]:
    """Returns the tools of one file, in canonical form and in the order of the file.

    Raises:
        CacheunitError: every fault in the file.
    """
    if len(document.lines) > MOST_TOOL_VALUES:
        raise fail(f"more than {MOST_TOOL_VALUES:,} values in one tool file", path=document.path)
    is_list = isinstance(document.value, list)
    values = document.value if is_list else [document.value]
    faults: list[Fault] = []
    tools: list[Tool] = []
    for index, value in enumerate(values):
        try:
            tools.append(_ToolReader(document, (index,) if is_list else ()).tool(value))
        except CacheunitError as error:
            faults += error.faults
    if not values:
        faults.append(Fault(message="the file contains no tools", path=document.path))
    if faults:
        raise CacheunitError(*first_faults(sorted(faults, key=lambda fault: fault.line or 0)))
    return tuple(tools)


class _ToolReader:
    """Reads one tool of a file, and collects its faults on the way."""

    def __init__(self, document: Document, keys: tuple[int, ...]) -> None:
        self._document = document
        self._keys: tuple[str | int, ...] = keys  # lead to the mapping that has name and schema
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
        for key in (key for key in fields if key not in _TOOL_KEYS):
            self._add_fault(f'unknown key "{shortened(key)}" in a tool', key)
        schema = self._schema(fields)
        if self._faults:
            raise CacheunitError(*self._faults)
        path, line = self._document.path, self._document.line(self._keys)
        return Tool(
            name=name, description=description, schema=schema, strict=fields.get("strict"), path=path, line=line
        )

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
            self._add_fault(
                f'tools of type "{shortened(str(kind))}" are run by the provider and cannot be compiled', "type"
            )
        elif kind is not None and present and present != [_SCHEMA_KEY_OF_TYPE[kind]]:
            self._add_fault(f'mixes two forms of tools: type "{kind}" and "{present[0]}"', present[0])
        return present[0] if present else None

    def _add_fault(self, message: str, *keys: str | int, hint: str | None = None) -> None:
        """Collects a fault at the value under `keys` of the tool."""
        line = self._document.line((*self._keys, *keys))
        self._faults.append(Fault(message=message, path=self._document.path, line=line, hint=hint))
