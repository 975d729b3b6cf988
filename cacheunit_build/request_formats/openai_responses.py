"""The request format of OpenAI's Responses API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.domain.endpoint_route import EndpointRoute
from cacheunit_build.request_formats.base import RequestFormat, body, marked, openai_response_format, text_content
from cacheunit_build.request_formats.counting import CountRoute
from cacheunit_build.request_formats.following import MessageForm
from cacheunit_build.request_formats.parts import Json, Marker, MarkerPlace, PrefixParts

if TYPE_CHECKING:
    from cacheunit_build.domain.prompt import Tool, Turn
    from cacheunit_build.domain.response_schema import ResponseSchema


class OpenAIResponses(RequestFormat):
    """`input` and `tools` of a response; the marker goes on the last developer or user message."""

    name = "openai-responses"
    route = EndpointRoute(path="responses", output_limit_key="max_output_tokens", output_tokens=16)
    # The keys are those of InputTokenCountParams in openai 3.57.0. "The exact count the model will receive", framing
    # included: https://developers.openai.com/api/docs/guides/token-counting
    count_route = CountRoute(
        route=EndpointRoute(path="responses/input_tokens"),
        url="https://api.openai.com/v1",
        keys=frozenset(
            {"input", "instructions", "parallel_tool_calls", "personality", "reasoning", "text", "tool_choice", "tools"}
        ),
        answer_key="input_tokens",
    )
    messages_key = "input"
    form = MessageForm(
        text_type="input_text",
        item_keys=("role", "type", "id"),  # a reference to a stored item may have its id only
        unmarkable_roles=frozenset({"assistant"}),
    )
    markers = ("prompt_cache_breakpoint",)
    exclusive = ("prompt_cache_options", "prompt_cache_retention")
    # the types of openai-python, 3.57.0: FunctionToolParam and ToolParam in openai/types/responses
    tool_keys = frozenset({"allowed_callers", "async", "defer_loading", "output_schema"})
    hosted_types = (
        "(web_search|web_search_preview|file_search|code_interpreter|image_generation|mcp|local_shell|shell|computer"
        r"|computer_use_preview|apply_patch|tool_search|namespace|programmatic_tool_calling)(_\d{4}_\d\d_\d\d)?"
    )

    def fragment(self, parts: PrefixParts) -> Json:
        """Returns `input` and `tools`."""
        items: list[Json] = []
        if parts.blocks:
            items.append({"role": "developer", "content": text_content(parts, "input_text")})
        for index, turn in enumerate(parts.turns):
            items += _items(turn, parts.marker_at("examples", index))
        return body(parts, input=items, tools=[self.tool(tool) for tool in parts.tools])

    def last_markable(self, parts: PrefixParts) -> MarkerPlace | None:
        """Returns the last message of the user or the developer: no other item, and no tool, can carry a marker."""
        users = [index for index, turn in enumerate(parts.turns) if turn.role == "user"]
        if users:
            return MarkerPlace(part="examples", index=users[-1])
        return MarkerPlace(part="system", index=len(parts.blocks) - 1) if parts.blocks else None

    def tool(self, tool: Tool) -> Json:
        """Returns a function in the flat form of this API, where `strict` is always present; a hosted tool as it is."""
        if tool.hosted is not None:
            return dict(tool.hosted)
        return {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.schema,
            "strict": bool(tool.strict),
        } | tool.known(self.tool_keys)

    def response_schema(self, schema: ResponseSchema) -> Json:
        """Returns `text.format`, with a strict schema."""
        return {"text.format": {"type": "json_schema"} | openai_response_format(schema)}


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
