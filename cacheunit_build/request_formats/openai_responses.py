"""The request format of OpenAI's Responses API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.domain.endpoint_route import EndpointRoute
from cacheunit_build.request_formats.base import (
    Json,
    MarkerPlace,
    PrefixParts,
    RequestFormat,
    body,
    marked,
    openai_response_format,
    plain_messages,
)

if TYPE_CHECKING:
    from cacheunit_build.domain.prompt import Tool
    from cacheunit_build.domain.response_schema import ResponseSchema


class OpenAIResponses(RequestFormat):
    """`input` and `tools` of a response; the marker goes on the last developer or user message."""

    name = "openai-responses"
    route = EndpointRoute(path="responses", output_limit_key="max_output_tokens", output_tokens=16)
    messages_key = "input"
    text_type = "input_text"
    item_keys = ("role", "type", "id")  # a reference to a stored item may have its id only
    unmarkable_roles = frozenset({"assistant"})
    markers = ("prompt_cache_breakpoint",)
    # the types of openai-python, 3.57.0: FunctionToolParam and ToolParam in openai/types/responses
    tool_keys = frozenset({"allowed_callers", "async", "defer_loading", "output_schema"})
    hosted_types = (
        "(web_search|web_search_preview|file_search|code_interpreter|image_generation|mcp|local_shell|shell|computer"
        r"|computer_use_preview|apply_patch|tool_search|namespace|programmatic_tool_calling)(_\d{4}_\d\d_\d\d)?"
    )

    def fragment(self, parts: PrefixParts) -> Json:
        """Returns `input` and `tools`."""
        messages: list[Json] = [{"role": "developer", "content": parts.system}] if parts.system else []
        messages += plain_messages(parts.turns)
        place = self.marker_place(parts)
        if parts.marker is not None and place is not None:
            message = messages[(1 if parts.system else 0) + place.index if place.part == "examples" else 0]
            message["content"] = [marked({"type": "input_text", "text": message["content"]}, parts.marker)]
        return body(parts.options, input=messages, tools=[self.tool(tool) for tool in parts.tools])

    def marker_place(self, parts: PrefixParts) -> MarkerPlace | None:
        """Returns the last message that is not the assistant's, which cannot be marked; neither can tools."""
        if parts.marker is None:
            return None
        users = [index for index, turn in enumerate(parts.turns) if turn.role != "assistant"]
        if users:
            return MarkerPlace(part="examples", index=users[-1])
        return MarkerPlace(part="system") if parts.system else None

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
