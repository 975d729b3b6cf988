"""The request formats of Amazon Bedrock's Converse API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from cacheunit_build.domain.endpoint_route import EndpointRoute
from cacheunit_build.domain.fingerprint import compact_json
from cacheunit_build.request_formats.base import RequestFormat, body
from cacheunit_build.request_formats.counting import CountRoute
from cacheunit_build.request_formats.following import MessageForm
from cacheunit_build.request_formats.parts import Json, Marker, MarkerPlace, PrefixParts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cacheunit_build.domain.prompt import Tool, Turn
    from cacheunit_build.domain.response_schema import ResponseSchema

_FORM = MessageForm(
    takes_text=False,
    text_type=None,
    roles=frozenset({"user", "assistant", "system"}),
    leading_types=frozenset({"toolResult"}),
    unmarkable=frozenset({"reasoningContent"}),
    marker_blocks=True,
)


class BedrockConverse(RequestFormat):
    """`toolConfig`, `system` and `messages`, read in that order; a marker is a block behind the last one of a part."""

    name = "bedrock-converse"
    route = EndpointRoute(path="model/{model}/converse", version="", output_limit_key="inferenceConfig.maxTokens")
    # CountTokens in botocore 1.44.8, bedrock-runtime/2023-09-30: "will match the token count that would be charged":
    # https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_CountTokens.html
    count_route = CountRoute(
        route=EndpointRoute(path="model/{model}/count-tokens", version=""),
        url=None,
        keys=frozenset({"additionalModelRequestFields", "messages", "system", "toolConfig"}),
        answer_key="inputTokens",
        inside="input.converse",
        model_in_body=False,
    )
    model_key = "modelId"
    tools_path = "toolConfig.tools"
    markers = ("cachePoint",)
    # documented for Claude, and for no other model:
    # https://github.com/aws/agent-toolkit-for-aws/blob/main/skills/core-skills/amazon-bedrock/references/prompt-caching.md
    look_back: ClassVar[Mapping[str, int]] = {"cachePoint": 20}
    marks_tools = True
    needs_marker = True
    system_blocks = True
    # measured: https://github.com/langgenius/dify/issues/12340, https://github.com/langchain-ai/langchain-aws/issues/130
    alternates = True
    form = _FORM

    def fragment(self, parts: PrefixParts) -> Json:
        """Returns `messages`, `system` and `toolConfig`; results of tools are in messages of the user."""
        tools: list[Json] = []
        for index, tool in enumerate(parts.tools):
            tools += [self.tool(tool), *_marker(parts.marker_at("tools", index))]
        system: list[Json] = []
        for index, text in enumerate(parts.blocks):
            system += [{"text": text}, *_marker(parts.marker_at("system", index))]
        messages: list[Json] = []
        for index, turn in enumerate(parts.turns):
            blocks = [*_content(turn), *_marker(parts.marker_at("examples", index))]
            if turn.result_of is not None and index and parts.turns[index - 1].result_of is not None:
                messages[-1]["content"] += blocks  # all results of a message stand in one message
            else:
                messages.append({"role": "user" if turn.role == "tool" else turn.role, "content": blocks})
        return body(parts, messages=messages, system=system, toolConfig={"tools": tools} if tools else {})

    def tool(self, tool: Tool) -> Json:
        """Returns a tool in Bedrock's form; a hosted one as it is."""
        if tool.hosted is not None:
            return dict(tool.hosted)
        strict = {} if tool.strict is None else {"strict": tool.strict}
        spec = {"name": tool.name, "description": tool.description, "inputSchema": {"json": tool.schema}}
        return {"toolSpec": spec | strict}

    def knows_hosted(self, definition: Mapping[str, Any]) -> bool:
        """Returns whether its API takes this entry of `toolConfig.tools`: a `systemTool`."""
        return definition.keys() == {"systemTool"}

    def response_schema(self, schema: ResponseSchema) -> Json:
        """Returns `outputConfig.textFormat`, whose schema is JSON text."""
        text = compact_json(schema.schema).decode().rstrip("\n")
        structure = {"jsonSchema": {"schema": text, "name": schema.name}}
        return {"outputConfig.textFormat": {"type": "json_schema", "structure": structure}}

    def with_dynamic(self, fragment: Json, messages: Sequence[Any], text: str) -> tuple[Json, Sequence[Any]]:
        """Returns the text as a system block after the marked one, or in the messages where examples follow it."""
        if "system" not in fragment or self.has_examples(fragment):
            return super().with_dynamic(fragment, messages, text)
        return {**fragment, "system": [*fragment["system"], {"text": text}]}, messages


class BedrockNova(BedrockConverse):
    """Converse for Amazon's Nova models, which refuse a marker among the tools, and behind results and images."""

    name = "bedrock-nova"
    look_back: ClassVar[Mapping[str, int]] = {"cachePoint": 1}
    marks_tools = False
    form = MessageForm(
        takes_text=False,
        text_type=None,
        roles=_FORM.roles,
        leading_types=_FORM.leading_types,
        unmarkable=frozenset({"reasoningContent", "toolResult", "toolUse", "image", "document", "video"}),
        marker_blocks=True,
    )

    def last_markable(self, parts: PrefixParts) -> MarkerPlace | None:
        """Returns the last message that ends with a text, else the last block of system text; None without both."""
        texts = (index for index, turn in enumerate(parts.turns) if turn.result_of is None and not turn.calls)
        index = max(texts, default=None)
        if index is not None:
            return MarkerPlace(part="examples", index=index)
        return MarkerPlace(part="system", index=len(parts.blocks) - 1) if parts.blocks else None


def _marker(marker: Marker | None) -> list[Json]:
    """Returns the block of a marker; none without one."""
    return [] if marker is None else [{marker.name: marker.value}]


def _content(turn: Turn) -> list[Json]:
    """Returns the blocks of one message of a worked example."""
    text = {"text": turn.text}
    if turn.result_of is not None:
        return [{"toolResult": {"toolUseId": turn.result_of.id, "content": [text] if turn.text else []}}]
    calls = [
        {"toolUse": {"toolUseId": call.id, "name": call.name, "input": dict(call.arguments)}} for call in turn.calls
    ]
    return [*([text] if turn.text else []), *calls]
