"""The request format of Anthropic's Messages API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.endpoint_route import EndpointRoute
from cacheunit_build.request_formats.base import Json, MarkerPlace, PrefixParts, RequestFormat, body, marked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cacheunit_build.domain.prompt import Tool
    from cacheunit_build.domain.response_schema import ResponseSchema


class AnthropicMessages(RequestFormat):
    """`tools`, `system` and `messages`, read in that order; the marker goes on the last block of the last of them."""

    name = "anthropic-messages"
    route = EndpointRoute(path="messages", headers={"anthropic-version": "2023-06-01"}, key_header="x-api-key")
    markers = ("cache_control",)
    needs_marker = True
    system_blocks = True
    leading_types = frozenset({"tool_result"})
    unmarkable = frozenset({"thinking", "redacted_thinking"})
    # the types of anthropic-sdk-python, 2.15.0: ToolParam and ToolUnionParam; new tools get a name and a date
    tool_keys = frozenset({"allowed_callers", "defer_loading", "eager_input_streaming", "input_examples"})
    hosted_types = r"[a-z0-9_]+_\d{8}|tool_search_tool_(bm25|regex)|mcp_toolset"

    def fragment(self, parts: PrefixParts) -> Json:
        """Returns `messages`, `system` and `tools`, each message as one text block."""
        tools = [self.tool(tool) for tool in parts.tools]
        system: list[Json] = [{"type": "text", "text": parts.system}] if parts.system else []
        messages: list[Json] = [
            {"role": turn.role, "content": [{"type": "text", "text": turn.text}]} for turn in parts.turns
        ]
        place = self.marker_place(parts)
        if parts.marker is not None and place is not None:
            blocks = {"tools": tools, "system": system, "examples": messages[-1]["content"] if messages else []}
            blocks[place.part][-1] = marked(blocks[place.part][-1], parts.marker)
        return body(parts.options, messages=messages, system=system, tools=tools)

    def marker_place(self, parts: PrefixParts) -> MarkerPlace | None:
        """Returns the last part: tools can be marked too."""
        return None if parts.marker is None else parts.last

    def with_dynamic(self, fragment: Json, messages: Sequence[Any], text: str) -> tuple[Json, Sequence[Any]]:
        """Returns the text as a system block after the marked one, or in the messages where examples follow it."""
        if "system" not in fragment or self.has_examples(fragment):
            return super().with_dynamic(fragment, messages, text)
        return {**fragment, "system": [*fragment["system"], {"type": "text", "text": text}]}, messages

    def tool(self, tool: Tool) -> Json:
        """Returns a tool in Anthropic's form; a hosted one as it is."""
        if tool.hosted is not None:
            return dict(tool.hosted)
        strict = {} if tool.strict is None else {"strict": tool.strict}
        body = {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
        return body | strict | tool.known(self.tool_keys)

    def response_schema(self, schema: ResponseSchema) -> Json:
        """Returns `output_config.format`, which has no name."""
        return {"output_config.format": {"type": "json_schema", "schema": schema.schema}}
