"""The request format of OpenAI's Chat Completions API, which most providers and engines take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.domain.endpoint_route import EndpointRoute
from cacheunit_build.request_formats.base import RequestFormat, body, chat_messages, openai_response_format

if TYPE_CHECKING:
    from cacheunit_build.domain.response_schema import ResponseSchema
    from cacheunit_build.request_formats.parts import Json, PrefixParts


class OpenAIChat(RequestFormat):
    """`messages` and `tools` of a chat completion; the marker goes on the last message."""

    name = "openai-chat"
    route = EndpointRoute(path="chat/completions", newer_output_limit_key="max_completion_tokens")
    markers = ("cache_control", "prompt_cache_breakpoint")
    exclusive = ("prompt_cache_options", "prompt_cache_retention")
    has_chat_template = True

    def fragment(self, parts: PrefixParts) -> Json:
        """Returns `messages` and `tools`; with OpenAI's own marker, the system text is a developer message."""
        own_marker = any(marker.name == "prompt_cache_breakpoint" for marker in parts.markers)
        messages = chat_messages(parts, "developer" if own_marker else "system")
        return body(parts, messages=messages, tools=[self.tool(tool) for tool in parts.tools])

    def response_schema(self, schema: ResponseSchema) -> Json:
        """Returns `response_format`, with a strict schema."""
        return {"response_format": {"type": "json_schema", "json_schema": openai_response_format(schema)}}
