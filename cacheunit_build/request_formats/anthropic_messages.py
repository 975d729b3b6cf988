"""The request format of Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.endpoint_route import EndpointRoute
from cacheunit_build.request_formats.base import RequestFormat, body, marked
from cacheunit_build.request_formats.counting import CountRoute
from cacheunit_build.request_formats.following import MessageForm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cacheunit_build.domain.prompt import Tool, Turn
    from cacheunit_build.domain.response_schema import ResponseSchema
    from cacheunit_build.request_formats.parts import Json, PrefixParts

_DEFERRED = "defer_loading"
"""The key of a tool that is loaded only when the model finds it by the tool search.

Such tools are not in the prefix, and a marker on one is refused.
documented: https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-use-with-prompt-caching
measured: https://github.com/anthropics/claude-code/issues/30920
"""


class AnthropicMessages(RequestFormat):
    """`tools`, `system` and `messages`, read in that order; the marker goes on the last block of the last of them."""

    name = "anthropic-messages"
    route = EndpointRoute(path="messages", headers={"anthropic-version": "2023-06-01"}, key_header="x-api-key")
    # The keys are those of MessageCountTokensParams in anthropic 2.15.0. Free, with a limit of requests a minute; "the
    # count should be considered an estimate", and may include tokens that the provider adds and does not bill:
    # https://platform.claude.com/docs/en/build-with-claude/token-counting
    count_route = CountRoute(
        route=replace(route, path="messages/count_tokens"),
        url="https://api.anthropic.com/v1",
        keys=frozenset({"messages", "output_config", "speed", "system", "thinking", "tool_choice", "tools"}),
        answer_key="input_tokens",
    )
    markers = ("cache_control",)
    marks_tools = True
    needs_marker = True
    system_blocks = True
    form = MessageForm(
        leading_types=frozenset({"tool_result"}), unmarkable=frozenset({"thinking", "redacted_thinking"})
    )
    # the types of anthropic-sdk-python, 2.15.0: ToolParam and ToolUnionParam; new tools get a name and a date
    tool_keys = frozenset({"allowed_callers", "defer_loading", "eager_input_streaming", "input_examples"})
    hosted_types = r"[a-z0-9_]+_\d{8}|tool_search_tool_(bm25|regex)|mcp_toolset"

    def fragment(self, parts: PrefixParts) -> Json:
        """Returns `messages`, `system` and `tools`, each text as a block; tool results are a message of the user."""
        tools = [marked(self.tool(tool), parts.marker_at("tools", index)) for index, tool in enumerate(parts.tools)]
        system = [
            marked({"type": "text", "text": text}, parts.marker_at("system", index))
            for index, text in enumerate(parts.blocks)
        ]
        messages: list[Json] = []
        for index, turn in enumerate(parts.turns):
            blocks = _content(turn)
            blocks[-1] = marked(blocks[-1], parts.marker_at("examples", index))
            if turn.result_of is not None and index and parts.turns[index - 1].result_of is not None:
                messages[-1]["content"] += blocks  # all results of a message stand in one message
            else:
                messages.append({"role": "user" if turn.role == "tool" else turn.role, "content": blocks})
        return body(parts, messages=messages, system=system, tools=tools)

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

    def is_deferred(self, tool: Tool) -> bool:
        """Returns whether a tool has `defer_loading`.

        The tools of an `mcp_toolset` may have it by `default_config`; a marker on the set would be on the last of them.
        """
        keys = tool.others if tool.hosted is None else tool.hosted
        places = (keys, keys.get("default_config"))
        return any(isinstance(place, Mapping) and place.get(_DEFERRED) is True for place in places)

    def response_schema(self, schema: ResponseSchema) -> Json:
        """Returns `output_config.format`, which has no name."""
        return {"output_config.format": {"type": "json_schema", "schema": schema.schema}}


def _content(turn: Turn) -> list[Json]:
    """Returns the blocks of one message of a worked example."""
    text = {"type": "text", "text": turn.text}
    if turn.result_of is not None:
        return [{"type": "tool_result", "tool_use_id": turn.result_of.id, "content": [text] if turn.text else []}]
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)} for call in turn.calls
    ]
    return [*([text] if turn.text else []), *calls]
