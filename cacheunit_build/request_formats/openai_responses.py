"""The request format of OpenAI's Responses API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.domain.endpoint_route import EndpointRoute
from cacheunit_build.request_formats.base import (
    Json,
    Marker,
    MarkerPlace,
    PrefixParts,
    RequestFormat,
    body,
    marked,
    text_content,
)

if TYPE_CHECKING:
    from cacheunit_build.domain.prompt import Tool, Turn


class OpenAIResponses(RequestFormat):
    """`input` and `tools` of a response; the marker goes on the last developer or user message."""

    name = "openai-responses"
    route = EndpointRoute(path="responses", output_limit_key="max_output_tokens", output_tokens=16)
    messages_key = "input"
    text_type = "input_text"
    item_keys = ("role", "type", "id")  # a reference to a stored item may have its id only
    unmarkable_roles = frozenset({"assistant"})
    markers = ("prompt_cache_breakpoint",)
    exclusive = ("prompt_cache_options", "prompt_cache_retention")

    def fragment(self, parts: PrefixParts) -> Json:
        """Returns `input` and `tools`."""
        items: list[Json] = []
        if parts.blocks:
            items.append({"role": "developer", "content": text_content(parts, self.text_type)})
        for index, turn in enumerate(parts.turns):
            items += _items(turn, parts.marker_at("examples", index))
        return body(parts, input=items, tools=[_tool(tool) for tool in parts.tools])

    def last_markable(self, parts: PrefixParts) -> MarkerPlace | None:
        """Returns the last message of the user or the developer: no other item, and no tool, can carry a marker."""
        users = [index for index, turn in enumerate(parts.turns) if turn.role == "user"]
        if users:
            return MarkerPlace(part="examples", index=users[-1])
        return MarkerPlace(part="system", index=len(parts.blocks) - 1) if parts.blocks else None


def _items(turn: Turn, marker: Marker | None) -> list[Json]:
    """Returns the items of one message of a worked example; each tool call and each result is an item of its own."""
    if turn.result_of is not None:
        return [{"type": "function_call_output", "call_id": turn.result_of.id, "output": turn.text}]
    items: list[Json] = []
    if turn.text:
        content = turn.text if marker is None else [marked({"type": "input_text", "text": turn.text}, marker)]
        items.append({"role": turn.role, "content": content})
    items += (
        {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.json_arguments}
        for call in turn.calls
    )
    return items


def _tool(tool: Tool) -> Json:
    """Returns a tool in the flat form of this API, where `strict` is always present."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.schema,
        "strict": bool(tool.strict),
    }
