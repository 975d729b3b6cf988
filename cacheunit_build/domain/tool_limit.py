"""What a provider refuses in tools and response schemas: names, numbers, lengths, keywords at the root of a schema."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from cacheunit_build.domain.constraints import VALIDATION, Limits
from cacheunit_build.domain.evidence import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cacheunit_build.domain.prompt import Tool

LimitEffect = Literal["refused", "disputed"]
"""Whether the provider refuses the whole request, or sources disagree about that."""

_CHARACTER_CLASSES = r"^(\[[^\[\]\\]{1,100}\])?\[[^\[\]\\]{1,100}\][*+]$"
"""A class of first characters, and one of all others: such a pattern is matched in linear time."""
_KINDS = ("names", "name_length", "tools", "root_keywords", "description_length", "response_root", "response_objects")
_LONGEST_SHOWN = 80
_MOST_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimit(Evidence):
    """One limit of a provider, with the reason to believe it: exactly one of the keys from `names` on."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    effect: LimitEffect = "refused"
    """Whether the provider refuses the request (refused), or sources disagree (disputed), which `lint` reports."""
    names: Annotated[str, Limits(pattern=_CHARACTER_CLASSES)] | None = None
    """What a name must match as a whole: one or two character classes, such as `[a-zA-Z_][a-zA-Z0-9_-]*`."""
    name_length: Annotated[int, Limits(ge=1)] | None = None
    """The most characters of a name."""
    tools: Annotated[int, Limits(ge=1)] | None = None
    """The most tools of a request."""
    root_keywords: tuple[str, ...] | None = None
    """The keywords that the schema of a tool must not have at its root."""
    description_length: Annotated[int, Limits(ge=1)] | None = None
    """The most characters of a description."""
    response_root: Literal["object"] | None = None
    """The type that a response schema must have at its root."""
    response_objects: Literal["closed"] | None = None
    """Whether each object in a response schema must require all its properties, and allow no others."""

    def __post_init__(self) -> None:
        if sum(getattr(self, kind) is not None for kind in _KINDS) != 1:
            raise ValueError(f"needs exactly one of {', '.join(_KINDS)}")
        try:
            re.compile(self.names or "")
        except re.error as error:
            raise ValueError(f'has "names" that are no pattern: {error}') from None

    def __str__(self) -> str:
        """Returns the limit as a sentence part, such as `at most 128 tools`."""
        sentences = {
            "names": f"tool names match {self.names}",
            "name_length": f"tool names have at most {self.name_length} characters",
            "tools": f"at most {self.tools} tools",
            "root_keywords": f"no {', '.join(self.root_keywords or ())} at the root of a tool's schema",
            "description_length": f"descriptions of tools have at most {self.description_length} characters",
            "response_root": f"the root of a response schema has type {self.response_root}",
            "response_objects": "objects of a response schema require all their properties, and allow no others",
        }
        return next(sentences[kind] for kind in _KINDS if getattr(self, kind) is not None)

    def tool_problems(self, tools: Sequence[Tool]) -> Iterator[ToolProblem]:
        """Yields what the provider refuses of the tools of a request; of hosted tools, only that they are too many."""
        if self.tools is not None and len(tools) > self.tools:
            message = f"{len(tools)} tools: at most {self.tools} are possible"
            yield ToolProblem(tool=tools[self.tools], message=message, hint="leave some out, or split the prefix")
        for tool in tools:
            problem = None if tool.hosted is not None else self._problem_of(tool)
            if problem is not None:
                yield ToolProblem(tool=tool, message=problem[0], hint=problem[1])

    def _problem_of(self, tool: Tool) -> tuple[str, str] | None:
        """Returns what the provider refuses of a tool, and what would help; None where it refuses nothing."""
        name, length = tool.name, len(tool.name)
        shown = name if length <= _LONGEST_SHOWN else f"{name[: _LONGEST_SHOWN - 1]}…"
        if self.names is not None and not re.fullmatch(self.names, name):
            return f'the tool name "{shown}": it must match {self.names}', "rename the tool"
        if self.name_length is not None and length > self.name_length:
            message = f'the tool name "{shown}": it has {length} characters, at most {self.name_length} are possible'
            return message, "use a shorter name"
        keywords = [keyword for keyword in self.root_keywords or () if keyword in tool.schema]
        if keywords:
            quoted = " and ".join(f'"{keyword}"' for keyword in keywords)
            message = f'the schema of tool "{shown}": it has {quoted} at its root'
            return message, "merge the alternatives into one object, or move them into a property"
        length = len(tool.description)
        if self.description_length is not None and length > self.description_length:
            message = f'the description of tool "{shown}": it has {length:,} characters, '
            return f"{message}at most {self.description_length:,} are possible", "shorten it"
        return None

    def response_problems(self, schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yields what the provider refuses of a response schema, and what would help."""
        if self.response_root is not None and schema.get("type") != self.response_root:
            message = f'a response schema without "type": "{self.response_root}" at its root'
            yield message, "put the value into a property of an object"
        for place, value in _objects(schema, "") if self.response_objects is not None else ():
            where = f"the object at {place or 'the root'} of the response schema"
            if value.get("additionalProperties") is not False:
                yield f'{where}: it lacks "additionalProperties": false', "add it"
            required = value.get("required", ())
            optional = [f'"{name}"' for name in value.get("properties", ()) if name not in required]
            if optional:
                message = f'{where}: "required" lacks {", ".join(optional[:_MOST_SHOWN])}'
                yield message, 'require it; an optional value has a type such as ["string", "null"]'


def _objects(schema: object, place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields each schema of an object in a schema, with the keys that lead to it."""
    if not isinstance(schema, dict):
        return
    kind = schema.get("type")
    if "properties" in schema or kind == "object" or (isinstance(kind, list) and "object" in kind):
        yield place, schema
    for key in ("properties", "$defs", "definitions"):
        for name, value in schema[key].items() if isinstance(schema.get(key), dict) else ():
            yield from _objects(value, f"{place}.{key}.{name}".lstrip("."))
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for index, value in enumerate(schema[key]) if isinstance(schema.get(key), list) else ():
            yield from _objects(value, f"{place}.{key}.{index}".lstrip("."))
    yield from _objects(schema.get("items"), f"{place}.items".lstrip("."))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProblem:
    """What a limit refuses of one tool.

    Attributes:
        tool: the tool; the first one too many, for a number of tools.
        message: what is refused, and the limit.
        hint: what would help.
    """

    tool: Tool
    message: str
    hint: str


def merged_limits(base: Sequence[Any], over: Sequence[Any]) -> list[Any]:
    """Returns the tables of limits of both targets; one replaces that of the base with the same kind and effect."""
    replaced = [_identity(limit) for limit in over]
    return [*(limit for limit in base if _identity(limit) not in replaced), *over]


def _identity(limit: object) -> tuple[object, ...]:
    """Returns kind and effect of the table of a limit, which name it."""
    if not isinstance(limit, dict):
        return (limit,)
    return (limit.get("effect", "refused"), *(kind for kind in _KINDS if kind in limit))
