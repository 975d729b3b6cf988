"""Writes tools as declarations of TypeScript, the form in which OpenAI's models read them (docs/targets.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.fingerprint import compact_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_INDENT = "  "


def tool_declarations(tools: Sequence[Mapping[str, Any]]) -> str:
    """Returns tools in OpenAI's form as one namespace; empty without tools.

    namespace functions {

    // Find an order.
    type find_order = (_: {
    // The number on the invoice.
    number: string,
    state?: "open" | "paid",
    }) => any;

    } // namespace functions

    What TypeScript has no form for, such as `minimum` and `pattern`, is left out. A tool without a function, such as a
    hosted one, is written as JSON.
    """
    if not tools:
        return ""
    lines = [line for tool in tools for line in _declaration(tool)]
    return "\n".join(["namespace functions {", "", *lines, "} // namespace functions"])


def _declaration(tool: Mapping[str, Any]) -> Iterator[str]:
    function = tool.get("function")
    if not isinstance(function, Mapping):
        yield _json(tool)
        return
    schema = function.get("parameters")
    yield from _comment(function, "")
    if isinstance(schema, Mapping) and _mapping(schema, "properties"):
        yield f"type {function.get('name')} = (_: {{"
        yield from _properties(schema, "")
        yield "}) => any;"
    else:
        yield f"type {function.get('name')} = () => any;"
    yield ""


def _properties(schema: Mapping[str, Any], indent: str) -> Iterator[str]:
    """Yields the lines of an object's properties, each behind its description; `?` marks those that may be left out."""
    required = schema.get("required")
    for name, value in _mapping(schema, "properties").items():
        of_property = value if isinstance(value, Mapping) else {}
        yield from _comment(of_property, indent)
        optional = "" if isinstance(required, list | tuple) and name in required else "?"
        default = f" // default: {_json(of_property['default'])}" if "default" in of_property else ""
        yield f"{indent}{name}{optional}: {_type(of_property, indent)},{default}"


def _comment(described: Mapping[str, Any], indent: str) -> list[str]:
    return [f"{indent}// {line}" for line in str(described.get("description") or "").splitlines()]


def _type(schema: Mapping[str, Any], indent: str) -> str:
    """Returns the type of a schema: `"a" | "b"`, `number`, `string[]`, or an object in braces."""
    for key in ("enum", "anyOf", "oneOf"):
        if isinstance(choices := schema.get(key), list | tuple):
            return " | ".join(_choice(choice, key, indent) for choice in choices)
    kind = schema.get("type")
    if isinstance(kind, list | tuple):
        return " | ".join(_named(str(name)) for name in kind)
    if kind == "array":
        return f"{_type(_mapping(schema, 'items'), indent)}[]"
    if kind == "object" and _mapping(schema, "properties"):
        return "\n".join(["{", *_properties(schema, indent + _INDENT), f"{indent}}}"])
    return _named(str(kind)) if kind else "any"


def _choice(choice: Any, key: str, indent: str) -> str:  # noqa: ANN401 - JSON
    if key == "enum":
        return _json(choice)
    return _type(choice, indent) if isinstance(choice, Mapping) else "any"


def _named(kind: str) -> str:
    return "number" if kind == "integer" else kind


def _mapping(schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = schema.get(key)
    return value if isinstance(value, Mapping) else {}


def _json(value: Any) -> str:  # noqa: ANN401 - JSON
    return compact_json(value).decode().rstrip("\n")
