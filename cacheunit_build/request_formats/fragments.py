"""The segments of a prefix + Target -> what the target receives: framed text to be counted, exact bytes to be sent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.fingerprint import compact_json, fingerprint
from cacheunit_build.domain.models import Conversation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cacheunit_build.domain.cache_rule import MarkerName
    from cacheunit_build.domain.models import Rendered, Tool, Turn
    from cacheunit_build.domain.target import FormatName, Frame

Json = dict[str, Any]

_MARKERS: dict[str, Json] = {
    "cache_control": {"type": "ephemeral"},
    "prompt_cache_breakpoint": {"mode": "explicit"},
}


def conversation(rendered: Rendered, tools: Sequence[Tool], padding: str, user: str) -> Conversation:
    """The padded segments as a frame lays them out, with the user's words after them."""
    return Conversation(
        system=rendered.system + padding,
        tools=tuple(_openai_tool(tool) for tool in tools),
        turns=rendered.turns,
        user=user,
    )


def plain_frame(frame: Frame) -> Callable[[Conversation], str]:
    """The frame of `before` and `after`, which knows of the system text alone."""
    return lambda spoken: f"{frame.before}{spoken.system}{frame.after}{spoken.user}"


def flat_frame(spoken: Conversation) -> str:
    """All segments one after the other, for an estimate: without a vocabulary no frame makes it exact."""
    tools = "".join(compact_json(tool).decode() for tool in spoken.tools)
    return "\n".join([tools, spoken.system, *(turn.text for turn in spoken.turns)])


def freeze_text(rendered: Rendered, padding: str) -> bytes:
    """The bytes of `build/<prefix>/<target>.txt`: the system text and its padding."""
    return (rendered.system + padding).encode()


def freeze_fragment(
    rendered: Rendered, tools: Sequence[Tool], padding: str, form: FormatName, marker: MarkerName | None
) -> bytes:
    """The bytes of `build/<prefix>/<target>.json`: what a client merges into each request, as compact JSON."""
    system = rendered.system + padding
    return compact_json(_FRAGMENTS[form](system, list(tools), list(rendered.turns), marker))


def segment_fingerprints(rendered: Rendered, tools: Sequence[Tool], padding: str) -> Mapping[str, str]:
    """The fingerprint of each part of a prefix that it has: system text, padding, tools, examples."""
    parts = {
        "system": rendered.system.encode(),
        "padding": padding.encode(),
        "tools": compact_json([_openai_tool(tool) for tool in tools]) if tools else b"",
        "examples": compact_json(_turns(rendered.turns)) if rendered.turns else b"",
    }
    return {name: fingerprint(data) for name, data in parts.items() if data}


def wire_blocks(fragment: bytes) -> tuple[str, ...]:
    """The blocks of a request fragment in the order of the wire: tools, system text, each block of each message."""
    parts: Json = json.loads(fragment)
    blocks: list[Any] = [*parts.get("tools", ()), *parts.get("system", ())]
    for message in (*parts.get("messages", ()), *parts.get("input", ())):
        content = message["content"]
        texts = [{"text": content}] if isinstance(content, str) else content
        blocks += [{"role": message["role"], "text": block["text"]} for block in texts]
    blocks += [parts["prompt"]] if "prompt" in parts else []
    plain = ({k: v for k, v in b.items() if k not in _MARKERS} if isinstance(b, dict) else b for b in blocks)
    return tuple(json.dumps(block, ensure_ascii=False) for block in plain)


def _openai_tool(tool: Tool) -> Json:
    function: Json = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", "function": function | ({} if tool.strict is None else {"strict": tool.strict})}


def _turns(turns: Sequence[Turn]) -> list[Json]:
    return [{"role": turn.role, "content": turn.text} for turn in turns]


def _openai_chat(system: str, tools: list[Tool], turns: list[Turn], marker: MarkerName | None) -> Json:
    role = "developer" if marker == "prompt_cache_breakpoint" else "system"
    messages: list[Json] = [{"role": role, "content": system}] if system else []
    messages += _turns(turns)
    if marker is not None and messages:
        messages[-1]["content"] = [_marked({"type": "text", "text": messages[-1]["content"]}, marker)]
    return _present(messages=messages, tools=[_openai_tool(tool) for tool in tools])


def _openai_responses(system: str, tools: list[Tool], turns: list[Turn], marker: MarkerName | None) -> Json:
    """Only what a developer or user says can be marked here: the last of these is."""
    said: list[Json] = [{"role": "developer", "content": system}] if system else []
    said += _turns(turns)
    markable = [item for item in said if item["role"] != "assistant"]
    if marker is not None and markable:
        markable[-1]["content"] = [_marked({"type": "input_text", "text": markable[-1]["content"]}, marker)]
    functions = [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.schema,
            "strict": bool(tool.strict),
        }
        for tool in tools
    ]
    return _present(input=said, tools=functions)


def _anthropic_messages(system: str, tools: list[Tool], turns: list[Turn], marker: MarkerName | None) -> Json:
    """The order on the wire is tools, system, messages: the last block of the last of these is marked."""
    offered: list[Json] = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
        | ({} if tool.strict is None else {"strict": tool.strict})
        for tool in tools
    ]
    blocks: list[Json] = [{"type": "text", "text": system}] if system else []
    said: list[Json] = [{"role": turn.role, "content": [{"type": "text", "text": turn.text}]} for turn in turns]
    if marker is not None:
        last = said[-1]["content"] if said else blocks or offered
        last[-1] = _marked(last[-1], marker)
    return _present(messages=said, system=blocks, tools=offered)


def _text(system: str, _tools: list[Tool], _turns: list[Turn], _marker: MarkerName | None) -> Json:
    return {"prompt": system}


def _marked(block: Json, marker: MarkerName) -> Json:
    return {**block, marker: _MARKERS[marker]}


def _present(**parts: list[Json]) -> Json:
    """The parts that are not empty, by name."""
    return {name: part for name, part in sorted(parts.items()) if part}


_FRAGMENTS: dict[FormatName, Callable[[str, list[Tool], list[Turn], MarkerName | None], Json]] = {
    "openai-chat": _openai_chat,
    "openai-responses": _openai_responses,
    "anthropic-messages": _anthropic_messages,
    "text": _text,
}
