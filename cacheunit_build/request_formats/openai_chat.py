"""The request format of OpenAI's Chat Completions API, which most providers and engines take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.domain.endpoint_route import EndpointRoute
from cacheunit_build.request_formats.base import (
    Json,
    PrefixParts,
    RequestFormat,
    body,
    marked,
    openai_response_format,
    plain_messages,
)

if TYPE_CHECKING:
    from cacheunit_build.domain.response_schema import ResponseSchema


class OpenAIChat(RequestFormat):
    """`messages` and `tools` of a chat completion; the marker goes on the last message."""

    name = "openai-chat"
    route = EndpointRoute(path="chat/completions", newer_output_limit_key="max_completion_tokens")
    markers = ("cache_control", "prompt_cache_breakpoint")
    has_chat_template = True

    def fragment(self, parts: PrefixParts) -> Json:
        """Returns `messages` and `tools`; with OpenAI's own marker, the system text is a developer message."""
        role = "developer" if parts.marker == "prompt_cache_breakpoint" else "system"
        messages: list[Json] = [{"role": role, "content": parts.system}] if parts.system else []
        messages += plain_messages(parts.turns)
        if parts.marker is not None and self.marker_place(parts) is not None:
            block = {"type": "text", "text": messages[-1]["content"]}
            messages[-1]["content"] = [marked(block, parts.marker)]
        return body(parts.options, messages=messages, tools=[self.tool(tool) for tool in parts.tools])

    def response_schema(self, schema: ResponseSchema) -> Json:
        """Returns `response_format`, with a strict schema."""
        return {"response_format": {"type": "json_schema", "json_schema": openai_response_format(schema)}}
