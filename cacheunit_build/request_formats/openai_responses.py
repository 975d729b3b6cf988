"""The request format of OpenAI's Responses API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.domain.endpoint_route import EndpointRoute
from cacheunit_build.request_formats.base import Json, PrefixParts, RequestFormat, marked, plain_messages, without_empty

if TYPE_CHECKING:
    from cacheunit_build.domain.prompt import Tool


class OpenAIResponses(RequestFormat):
    """`input` and `tools` of a response; the marker goes on the last developer or user message."""

    name = "openai-responses"
    route = EndpointRoute(path="responses", output_limit_key="max_output_tokens", output_tokens=16)
    messages_key = "input"
    tool_key = "parameters"
    markers = ("prompt_cache_breakpoint",)

    def fragment(self, parts: PrefixParts) -> Json:
        """Returns `input` and `tools`. An assistant's message cannot be marked here."""
        messages: list[Json] = [{"role": "developer", "content": parts.system}] if parts.system else []
        messages += plain_messages(parts.turns)
        markable = [message for message in messages if message["role"] != "assistant"]
        if parts.marker is not None and markable:
            block = {"type": "input_text", "text": markable[-1]["content"]}
            markable[-1]["content"] = [marked(block, parts.marker)]
        return without_empty(input=messages, tools=[_tool(tool) for tool in parts.tools])


def _tool(tool: Tool) -> Json:
    """Returns a tool in the flat form of this API, where `strict` is always present."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.schema,
        "strict": bool(tool.strict),
    }
