"""Frames a conversation in OpenAI's harmony format, in which gpt-oss reads it; an encoder of the model `gpt-oss`.

The file is loaded by its SHA-256, as the encoders of other models are, and imports the standard library only. The text
is that of vLLM's chat endpoint, which hands the messages of a request to the library openai-harmony:

    <|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.
    Knowledge cutoff: 2024-06
    Current date: 2026-01-01

    Reasoning: medium

    # Valid channels: analysis, commentary, final. Channel must be included for every message.<|end|>
    <|start|>developer<|message|># Instructions

    Be kind.<|end|><|start|>user<|message|>Hello<|end|><|start|>assistant

without the line end in front of the developer message. Declarations of tools differ from those of
`compiler.tool_declarations`, with which hosted models are estimated: titles, examples, null and nested objects have
forms of their own. Sources: openai/harmony, src/encoding.rs, and vLLM, entrypoints/openai/parser/harmony_utils.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_IDENTITY = "You are ChatGPT, a large language model trained by OpenAI."
_KNOWLEDGE_CUTOFF = "2024-06"
_CHANNELS = "# Valid channels: analysis, commentary, final. Channel must be included for every message."
_CHANNEL_OF_CALLS = "Calls to these tools must go to the commentary channel: 'functions'."
_EFFORTS = ("low", "medium", "high")
_LARGEST_DECIMAL = -5
"""The exponent of the smallest numbers that serde_json writes without one, where Python writes 1e-05."""


def encode_messages(
    messages: Sequence[Mapping[str, Any]],
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    reasoning_effort: str = "medium",
    conversation_start_date: str = "",
) -> str:
    """Returns the text that gpt-oss reads of a conversation, up to the role of its answer.

    Reasoning in the messages is left out: a prefix has none, and that of later answers does not change it.

    Args:
        messages: the messages of a chat request.
        tools: the tools in OpenAI's form.
        reasoning_effort: low, medium or high.
        conversation_start_date: the date in the system message; no line on it if empty.

    Raises:
        TypeError: the arguments of a tool call are not JSON text.
        ValueError: there is no such effort, or a message has an unknown role.
    """
    if reasoning_effort not in _EFFORTS:
        raise ValueError(f'reasoning_effort is "{reasoning_effort}", not one of {", ".join(_EFFORTS)}')
    first = messages[0] if messages else {}
    instructions = _text(first) if first.get("role") in ("system", "developer") else None
    later = messages if instructions is None else messages[1:]
    parts = [_message("system", _system_text(reasoning_effort, conversation_start_date, has_tools=bool(tools)))]
    if instructions or tools:
        parts.append(_message("developer", _developer_text(instructions, tools or ())))
    names = {call.get("id"): call["function"]["name"] for message in later for call in _calls(message)}
    parts += (part for message in later for part in _framed(message, names))
    return "".join([*parts, "<|start|>assistant"])


def _system_text(effort: str, date: str, *, has_tools: bool) -> str:
    about = [_IDENTITY, f"Knowledge cutoff: {_KNOWLEDGE_CUTOFF}", *([f"Current date: {date}"] if date else [])]
    channels = [_CHANNELS, *([_CHANNEL_OF_CALLS] if has_tools else [])]
    return "\n\n".join(["\n".join(about), f"Reasoning: {effort}", "\n".join(channels)])


def _developer_text(instructions: str | None, tools: Sequence[Mapping[str, Any]]) -> str:
    """Returns the text of a developer message: the system text of the request as it is, and the tools."""
    sections = [] if instructions is None else ["# Instructions", instructions]
    if tools:
        sections += ["# Tools", "\n".join(_namespace(tools))]
    return "\n\n".join(sections)


def _framed(message: Mapping[str, Any], names: Mapping[Any, str]) -> Iterator[str]:
    """Yields the harmony messages of a message of a chat request.

    Args:
        message: the message.
        names: the tools that are called, by the id of the call.
    """
    role, text = message["role"], _text(message)
    if role == "user":
        yield _message("user", text)
    elif role in ("system", "developer"):
        yield _message("developer", _developer_text(text, ()))
    elif role == "tool":
        name = names.get(message.get("tool_call_id"), "")
        yield _message(f"functions.{name} to=assistant<|channel|>commentary", text)
    elif role == "assistant":
        calls = _calls(message)
        if text:
            yield _message(f"assistant<|channel|>{'commentary' if calls else 'final'}", text)
        for call in calls:
            yield _call(call["function"])
    else:
        raise ValueError(f'a message has the unknown role "{role}"')


def _message(header: str, text: str) -> str:
    return f"<|start|>{header}<|message|>{text}<|end|>"


def _call(function: Mapping[str, Any]) -> str:
    """Returns the message with which the model calls a tool."""
    arguments = function["arguments"]
    if not isinstance(arguments, str):
        raise TypeError("the arguments of a tool call must be JSON text")
    return f"<|start|>assistant to=functions.{function['name']}<|channel|>commentary json<|message|>{arguments}<|call|>"


def _calls(message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return message.get("tool_calls") or ()


def _text(message: Mapping[str, Any]) -> str:
    """Returns the text of a message, whose content may be a list of parts."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(str(part.get("text", "")) for part in content)


def _namespace(tools: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yields the lines that declare tools."""
    yield from ("## functions", "", "namespace functions {", "")
    for tool in tools:
        function = tool["function"]
        yield from (f"// {line}" for line in _lines(function.get("description") or ""))
        schema = function.get("parameters")
        argument = "" if schema is None else f"_: {_type(schema, '')}"
        yield from (f"type {function['name']} = ({argument}) => any;", "")
    yield "} // namespace functions"


def _lines(text: str) -> list[str]:
    r"""Returns the lines of a text, which end at \n or \r\n only."""
    ended = text.replace("\r\n", "\n")
    return ended.removesuffix("\n").split("\n") if ended else []


def _type(schema: Any, indent: str) -> str:  # noqa: ANN401 - JSON
    """Returns the type of a schema: `"a" | "b"`, `number`, `string[]`, or an object in braces; `any` for most else."""
    schema = schema if isinstance(schema, Mapping) else {}
    kind = schema.get("type")
    if isinstance(choices := schema.get("oneOf"), list | tuple):
        return "".join(f"\n{indent} | {_choice(choice, indent)}" for choice in choices)
    if isinstance(kind, list | tuple):
        names = [_named(name) for name in kind if isinstance(name, str)]
        return " | ".join(names) or "any"
    if kind == "object":
        return _object(schema, indent)
    if kind == "string":
        values = schema.get("enum")
        texts = [value for value in values if isinstance(value, str)] if isinstance(values, list | tuple) else []
        return " | ".join(f'"{text}"' for text in texts) or "string"
    if kind == "array":
        return f"{_type(schema['items'], indent)}[]" if "items" in schema else "Array<any>"
    return _named(kind) if kind in ("number", "integer", "boolean") else "any"


def _named(kind: str) -> str:
    return "number" if kind == "integer" else kind


def _choice(choice: Any, indent: str) -> str:  # noqa: ANN401 - JSON
    """Returns one type of a `oneOf` that is no property, with its description and its default as a comment."""
    described = choice if isinstance(choice, Mapping) else {}
    comments = [described["description"]] if isinstance(described.get("description"), str) else []
    if "default" in described:
        default = described["default"]
        is_plain = isinstance(default, str) and not _is_enum(described)
        comments.append(f"default: {_quoted(default) if is_plain else _json(default)}")
    return _nullable(described, f"{indent}   ") + _comment(comments)


def _object(schema: Mapping[str, Any], indent: str) -> str:
    """Returns an object in braces, each property on a line of its own behind its title, description and examples."""
    description, properties, required = schema.get("description"), schema.get("properties"), schema.get("required")
    lines = [f"{indent}// {description}\n"] if isinstance(description, str) else []
    lines.append("{\n")
    for name, value in properties.items() if isinstance(properties, Mapping) else ():
        is_required = isinstance(required, list | tuple) and name in required
        lines += _property(name if is_required else f"{name}?", value if isinstance(value, Mapping) else {}, indent)
    return "".join([*lines, f"{indent}}}"])


def _property(name: str, schema: Mapping[str, Any], indent: str) -> Iterator[str]:
    """Yields the lines of a property of an object."""
    title, description, examples = schema.get("title"), schema.get("description"), schema.get("examples")
    if isinstance(title, str):
        yield f"{indent}// {title}\n{indent}//\n"
    if isinstance(description, str) and "oneOf" not in schema:
        yield f"{indent}// {description}\n"
    if isinstance(examples, list | tuple) and examples:
        yield f"{indent}// Examples:\n"
        yield from (f'{indent}// - "{example}"\n' for example in examples if isinstance(example, str))
    if isinstance(schema.get("oneOf"), list | tuple):
        yield from _choices_of_property(name, schema, indent)
        return
    default = _comment([f"default: {_default(schema)}"] if "default" in schema and "oneOf" not in schema else [])
    yield f"{indent}{name}: {_nullable(schema, f'{indent}    ')},{default}\n"


def _choices_of_property(name: str, schema: Mapping[str, Any], indent: str) -> Iterator[str]:
    """Yields the lines of a property that has one of several types.

    Its own description is in front of it, unless it is that of the first type, where it then is.
    """
    choices = [choice if isinstance(choice, Mapping) else {} for choice in schema["oneOf"]]
    description = schema["description"] if isinstance(schema.get("description"), str) else None
    in_front = description is not None and not (choices and choices[0].get("description") == description)
    if in_front:
        yield f"{indent}// {description}\n"
    if "default" in schema:
        yield f"{indent}// default: {_default(schema)}\n"
    yield f"{indent}{name}:\n"
    for index, choice in enumerate(choices):
        own = choice.get("description")
        is_told = isinstance(own, str) and own != description and not (index == 0 and in_front)
        comments = [own] if is_told else []
        comments += [f"default: {_default(choice)}"] if "default" in choice else []
        yield f"{indent} | {_nullable(choice, f'{indent}   ')}{_comment(comments)}\n"
    yield f"{indent},\n"


def _nullable(schema: Mapping[str, Any], indent: str) -> str:
    """Returns the type of a schema, which may be null if it says so."""
    name = _type(schema, indent)
    return f"{name} | null" if schema.get("nullable") is True and "null" not in name else name


def _comment(texts: Sequence[Any]) -> str:
    return f" // {' '.join(texts)}" if texts else ""


def _default(schema: Mapping[str, Any]) -> str:
    """Returns the default of a schema: a text in quotes, but for one of an enum; other values as JSON."""
    default = schema["default"]
    if not isinstance(default, str):
        return _json(default)
    return default if _is_enum(schema) else _quoted(default)


def _is_enum(schema: Mapping[str, Any]) -> bool:
    return isinstance(schema.get("enum"), list | tuple) and bool(schema["enum"])


def _quoted(text: str) -> str:
    return f'"{text}"'


def _json(value: Any) -> str:  # noqa: ANN401 - JSON
    """Returns compact JSON as serde_json writes it: 1e16 and 0.00001, where Python writes 1e+16 and 1e-05."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_json(key)}:{_json(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_json, value)) + "]"
    if not isinstance(value, float) or "e" not in repr(value):
        return json.dumps(value, ensure_ascii=False)
    digits, _, exponent = repr(value).partition("e")
    if int(exponent) == _LARGEST_DECIMAL:
        sign, digits = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
        return f"{sign}0.0000{digits.replace('.', '')}"
    return f"{digits}e{int(exponent)}"
