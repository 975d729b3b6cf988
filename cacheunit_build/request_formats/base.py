"""The base class of request formats: it builds the frozen fragment of a request, and appends messages to it."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from cacheunit_build.domain.front_options import nested
from cacheunit_build.request_formats.following import with_leading_text, with_marker

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cacheunit_build.domain.cache_rule import MarkerName
    from cacheunit_build.domain.endpoint_route import EndpointRoute
    from cacheunit_build.domain.prompt import Tool, Turn
    from cacheunit_build.domain.response_schema import ResponseSchema
    from cacheunit_build.domain.target import FormatName

Json = dict[str, Any]

_MARKERS: dict[str, Json] = {
    "cache_control": {"type": "ephemeral"},
    "prompt_cache_breakpoint": {"mode": "explicit"},
}
"""The value of each marker in a request."""


PartName = Literal["tools", "system", "examples"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerPlace:
    """The tool, system text or message of a prefix that carries a cache marker.

    Attributes:
        part: the part of the prefix.
        index: its index among the tools, or among the messages of the examples; 0 for the system text.
    """

    part: PartName
    index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixParts:
    """The parts of a prefix, as a request carries them.

    Attributes:
        system: the system text with its padding; empty where there is none.
        tools: the tools, in order.
        turns: the messages of worked examples, in order.
        marker: the cache marker at the end of the prefix; None where the target needs none.
        options: the frozen values of request options, by name.
    """

    system: str
    tools: Sequence[Tool] = ()
    turns: Sequence[Turn] = ()
    marker: MarkerName | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def last(self) -> MarkerPlace | None:
        """The last of the parts, in the order tools, system text, examples; None where there is none."""
        if self.turns:
            return MarkerPlace(part="examples", index=len(self.turns) - 1)
        if self.system:
            return MarkerPlace(part="system")
        return MarkerPlace(part="tools", index=len(self.tools) - 1) if self.tools else None


class RequestFormat(ABC):
    """The format of one API's requests.

    Attributes:
        name: its name in targets.
        route: where its requests are sent.
        messages_key: the key of the messages in a request.
        has_messages: whether a request has messages, and so a place for tools and examples.
        markers: the cache markers that it can carry, in the order in which `probe` tries them.
        needs_marker: whether the API of this format caches nothing without a marker; `probe` then tries markers first.
        system_blocks: whether the system text is a list of blocks, so that a request may have further ones.
        most_markers: how many cache markers a request may carry.
        text_type: the type of a block of text in a message.
        leading_types: the types of blocks that the API requires at the beginning of a message.
        item_keys: the keys of which a message has at least one.
        unmarkable: the types of blocks that cannot carry a marker.
        unmarkable_roles: the roles of messages that cannot carry a marker.
        has_chat_template: whether inference servers take its requests for tokenizing too, and apply their template.
        tool_keys: the further keys of a function that its API takes, beside name, description, schema and `strict`.
        hosted_types: a pattern for the types of the tools that the provider runs; empty where it knows none.
    """

    name: ClassVar[FormatName]
    route: ClassVar[EndpointRoute]
    messages_key: ClassVar[str] = "messages"
    has_messages: ClassVar[bool] = True
    markers: ClassVar[tuple[MarkerName, ...]] = ()
    needs_marker: ClassVar[bool] = False
    system_blocks: ClassVar[bool] = False
    most_markers: ClassVar[int] = 4
    text_type: ClassVar[str] = "text"
    leading_types: ClassVar[frozenset[str]] = frozenset()
    item_keys: ClassVar[tuple[str, ...]] = ("role",)
    unmarkable: ClassVar[frozenset[str]] = frozenset()
    unmarkable_roles: ClassVar[frozenset[str]] = frozenset()
    has_chat_template: ClassVar[bool] = False
    tool_keys: ClassVar[frozenset[str]] = frozenset()
    hosted_types: ClassVar[str] = ""

    def marker_place(self, parts: PrefixParts) -> MarkerPlace | None:
        """Returns the last part that can carry the marker; None where none can, or the prefix has no marker."""
        last = parts.last
        markable = parts.marker is not None and last is not None and last.part != "tools"
        return last if markable else None

    @abstractmethod
    def fragment(self, parts: PrefixParts) -> Json:
        """Returns the part of a request that never changes, its keys sorted."""

    def tool(self, tool: Tool) -> Json:
        """Returns a tool as a request carries it: by default in the form that chat templates take."""
        return self.framed_tool(tool)

    def framed_tool(self, tool: Tool) -> Json:
        """Returns a tool in the form that chat templates take, with the further keys that this format sends."""
        if tool.hosted is not None:
            return dict(tool.hosted)
        function: Json = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
        strict = {} if tool.strict is None else {"strict": tool.strict}
        return {"type": "function", "function": function | strict | tool.known(self.tool_keys)}

    def knows_hosted(self, definition: Mapping[str, Any]) -> bool:
        """Returns whether its API takes this entry of `tools`, which the provider runs."""
        kind = definition.get("type")
        return isinstance(kind, str) and bool(self.hosted_types) and re.fullmatch(self.hosted_types, kind) is not None

    def tool_names(self, fragment: Json) -> tuple[str, ...]:
        """Returns the names of the tools in a fragment, in order; of a hosted one without a name, its type."""
        tools: list[Json] = fragment.get("tools", [])
        return tuple(str(tool.get("function", tool).get("name") or tool.get("type", "")) for tool in tools)

    def response_schema(self, schema: ResponseSchema) -> Mapping[str, Any]:
        """Returns the request options that make the provider answer by a schema, by dotted name.

        An API that needs several options for it returns all of them: a target that lists one gets them together. The
        default is that the format has no place for a response schema: no option.
        """
        del schema
        return {}

    def content_blocks(self, fragment: Json) -> tuple[str, ...]:
        """Returns the blocks of a fragment in the order that providers read them: tools, system text, messages.

        Each block is JSON without markers, so that equal blocks are equal texts.
        """
        blocks: list[Json] = [*fragment.get("tools", ()), *fragment.get("system", ())]
        for message in fragment.get(self.messages_key, ()):
            content = message["content"]
            texts = [content] if isinstance(content, str) else [block["text"] for block in content]
            blocks += [{"role": message["role"], "text": text} for text in texts]
        bare = [{key: value for key, value in block.items() if key not in _MARKERS} for block in blocks]
        return tuple(json.dumps(block, ensure_ascii=False) for block in bare)

    def append(self, fragment: Json, messages: Sequence[Any]) -> Json:
        """Returns a request: the fragment with `messages` after its own."""
        return {**fragment, self.messages_key: [*fragment.get(self.messages_key, []), *messages]}

    def with_dynamic(self, fragment: Json, messages: Sequence[Any], text: str) -> tuple[Json, Sequence[Any]]:
        """Returns fragment and messages with a text that differs between requests behind the last static part.

        Raises:
            CacheunitError: there is no place for the text, such as a message of the user.
            TypeError: the content of that message is neither text nor a list.
        """
        return fragment, with_leading_text(messages, text, self.text_type, self.leading_types)

    def with_marker(self, messages: Sequence[Any], marker: MarkerName) -> list[Any]:
        """Returns the messages with a marker on the last block of the last message that can carry one.

        Raises:
            CacheunitError: no message can.
            TypeError: the content of a message is neither text nor a list.
        """
        block_types = self.text_type, self.unmarkable
        return with_marker(messages, (marker, dict(_MARKERS[marker])), block_types, self.unmarkable_roles)

    def has_examples(self, fragment: Json) -> bool:
        """Returns whether a fragment has worked examples."""
        messages = fragment.get(self.messages_key, ()) if self.has_messages else ()
        return any(message["role"] in ("user", "assistant") for message in messages)

    def append_user(self, fragment: Json, text: str) -> Json:
        """Returns a request: the fragment with the user's message `text` after it."""
        return self.append(fragment, [{"role": "user", "content": text}])


def openai_response_format(schema: ResponseSchema) -> Json:
    """Returns what OpenAI's APIs both need of a response schema."""
    return {"name": schema.name, "schema": schema.schema, "strict": True}


def plain_messages(turns: Sequence[Turn]) -> list[Json]:
    """Returns messages whose content is plain text."""
    return [{"role": turn.role, "content": turn.text} for turn in turns]


def marked(block: Json, marker: MarkerName) -> Json:
    """Returns a content block, or a tool, with a cache marker."""
    return {**block, marker: dict(_MARKERS[marker])}


def body(options: Mapping[str, Any], **parts: list[Json] | str) -> Json:
    """Returns the frozen options and the parts that are not empty, by name, sorted."""
    present = {name: part for name, part in parts.items() if part}
    return dict(sorted({**nested(options), **present}.items()))
