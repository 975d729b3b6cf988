"""The base class of request formats: it builds the frozen fragment of a request, and appends messages to it."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from cacheunit_build.domain.front_options import merged, nested, value_at, with_arguments
from cacheunit_build.domain.prompt import chat_message
from cacheunit_build.request_formats.counting import without_markers
from cacheunit_build.request_formats.following import MessageForm, markers_of, with_leading_text, with_marker
from cacheunit_build.request_formats.parts import MARKERS, Json, Marker, MarkerPlace, PrefixParts, marker_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cacheunit_build.domain.cache_rule import MarkerName
    from cacheunit_build.domain.endpoint_route import EndpointRoute
    from cacheunit_build.domain.prompt import Tool
    from cacheunit_build.domain.response_schema import ResponseSchema
    from cacheunit_build.domain.target import FormatName
    from cacheunit_build.request_formats.counting import CountRoute


class RequestFormat(ABC):
    """The format of one API's requests.

    Attributes:
        name: its name in targets.
        route: where its requests are sent.
        count_route: how the provider is asked for the tokens of a request; None where it does not count.
        messages_key: the key of the messages in a request.
        tools_path: the name of the list of tools in a request; a dot leads into a mapping.
        system_path: the name of the list of blocks of system text, where a request has one.
        model_key: the argument of a client's call that names the model.
        stored_keys: the keys of a prefix that may be stored at the provider: a request that names it has none of them.
        name_key: the key of a request that names such a prefix.
        has_messages: whether a request has messages, and so a place for tools and examples.
        markers: the cache markers that it can carry, in the order in which `probe` tries them.
        look_back: how many blocks, from one with a marker backwards, are searched for an entry of an earlier request.
        marks_tools: whether a tool can carry a marker.
        needs_marker: whether the API of this format caches nothing without a marker; `probe` then tries markers first.
        system_blocks: whether the system text is a list of blocks, so that a request may have further ones.
        most_markers: how many cache markers a request may carry.
        alternates: whether the API refuses a request whose messages do not alternate, beginning with one of the user.
        exclusive: request keys of which the API takes only one.
        form: how messages are written.
        has_chat_template: whether inference servers take its requests for tokenizing too, and apply their template.
        tool_keys: the further keys of a function that its API takes, beside name, description, schema and `strict`.
        hosted_types: a pattern for the types of the tools that the provider runs; empty where it knows none.
    """

    name: ClassVar[FormatName]
    route: ClassVar[EndpointRoute]
    count_route: ClassVar[CountRoute | None] = None
    messages_key: ClassVar[str] = "messages"
    tools_path: ClassVar[str] = "tools"
    system_path: ClassVar[str] = "system"
    model_key: ClassVar[str] = "model"
    stored_keys: ClassVar[tuple[str, ...]] = ()
    name_key: ClassVar[str] = ""
    has_messages: ClassVar[bool] = True
    markers: ClassVar[tuple[MarkerName, ...]] = ()
    look_back: ClassVar[Mapping[str, int]] = {"cache_control": 20, "prompt_cache_breakpoint": 1}
    marks_tools: ClassVar[bool] = False
    needs_marker: ClassVar[bool] = False
    system_blocks: ClassVar[bool] = False
    most_markers: ClassVar[int] = 4
    alternates: ClassVar[bool] = False
    exclusive: ClassVar[tuple[str, ...]] = ()
    form: ClassVar[MessageForm] = MessageForm()
    has_chat_template: ClassVar[bool] = False
    tool_keys: ClassVar[frozenset[str]] = frozenset()
    hosted_types: ClassVar[str] = ""

    def last_markable(self, parts: PrefixParts) -> MarkerPlace | None:
        """Returns the last part that can carry a marker; None where none can."""
        last = parts.last
        return self.last_markable_tool(parts) if last is not None and last.part == "tools" else last

    def last_markable_tool(self, parts: PrefixParts) -> MarkerPlace | None:
        """Returns the last tool that can carry a marker; None where none can."""
        indexes = (index for index in reversed(range(len(parts.tools))) if not self.is_deferred(parts.tools[index]))
        index = next(indexes, None) if self.marks_tools else None
        return None if index is None else MarkerPlace(part="tools", index=index)

    def is_deferred(self, tool: Tool) -> bool:
        """Returns whether a tool is out of the prefix until the model finds it, so that it cannot carry a marker."""
        del tool
        return False

    @abstractmethod
    def fragment(self, parts: PrefixParts) -> Json:
        """Returns the part of a request that never changes, its keys sorted."""

    def stored(self, parts: PrefixParts) -> tuple[Json, Json]:
        """Returns the body that stores a prefix at the provider, and the fragment of the requests that name it."""
        raise NotImplementedError  # the loader of targets refuses such a rule for formats without `stored_keys`

    def sent(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns what the arguments of a client's call set in the body of a request: by default, themselves."""
        return arguments

    def arguments(self, request: Json, others: Mapping[str, Any]) -> Json:
        """Returns the arguments of a client's call for a request, with further ones: by default, those of the body.

        Raises:
            TypeError: a further argument has the wrong type.
        """
        return with_arguments(request, others)

    def counted(self, fragment: Json) -> Json:
        """Returns what decides the tokens of a fragment: all but its cache markers."""
        return without_markers(fragment, MARKERS, (self.tools_path, self.system_path, self.messages_key))

    def tools_in(self, fragment: Json) -> list[Json]:
        """Returns the tools of a fragment."""
        return self._list_at(fragment, self.tools_path)

    def markers_in(self, request: Mapping[str, Any], marker: str) -> list[Any]:
        """Returns the values of the markers of a request, in order."""
        lists = [value_at(request, path) for path in (self.tools_path, self.system_path, self.messages_key)]
        return markers_of(request, lists, marker, self.form)

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
        tools = (tool for tool in self.tools_in(fragment) if not tool.keys() <= MARKERS.keys())
        return tuple(map(_tool_name, tools))

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
        return tuple(json.dumps(block, ensure_ascii=False) for block, _ in self._blocks(fragment))

    def marked_blocks(self, fragment: Json) -> tuple[int, ...]:
        """Returns how many of a fragment's content blocks end with each of its cache markers."""
        return tuple(index + 1 for index, (_, marked) in enumerate(self._blocks(fragment)) if marked)

    def _blocks(self, fragment: Json) -> list[tuple[Json, bool]]:
        """Returns the content blocks of a fragment without markers, and whether each has one."""
        content_key = self.form.content_key
        blocks: list[Json] = [*self.tools_in(fragment), *self._list_at(fragment, self.system_path)]
        for message in fragment.get(self.messages_key, ()):
            outer = {key: value for key, value in message.items() if key != content_key}
            content = message.get(content_key)
            text = [self.form.text_block(content)] if isinstance(content, str) else [{}]
            parts = content if isinstance(content, list) else text
            blocks += [part if part.keys() <= MARKERS.keys() and part else {**outer, **part} for part in parts]
        bare: list[tuple[Json, bool]] = []
        for block in blocks:
            if block.keys() <= MARKERS.keys() and bare:  # a marker of its own is on the block in front of it
                bare[-1] = bare[-1][0], True
                continue
            is_marked = not MARKERS.keys().isdisjoint(block)
            bare.append(({key: value for key, value in block.items() if key not in MARKERS}, is_marked))
        return bare

    @staticmethod
    def _list_at(fragment: Json, path: str) -> list[Json]:
        """Returns the list under a dotted name of a fragment; an empty one where it has none."""
        value = value_at(fragment, path)
        return value if isinstance(value, list) else []

    def append(self, fragment: Json, messages: Sequence[Any]) -> Json:
        """Returns a request: the fragment with `messages` after its own."""
        return {**fragment, self.messages_key: [*fragment.get(self.messages_key, []), *messages]}

    def with_dynamic(self, fragment: Json, messages: Sequence[Any], text: str) -> tuple[Json, Sequence[Any]]:
        """Returns fragment and messages with a text that differs between requests behind the last static part.

        Raises:
            CacheunitError: there is no place for the text, such as a message of the user.
            TypeError: the content of that message is neither text nor a list.
        """
        return fragment, with_leading_text(messages, text, self.form)

    def with_marker(self, messages: Sequence[Any], marker: MarkerName, lifetime: str | None = None) -> list[Any]:
        """Returns the messages with a marker on the last block of the last message that can carry one.

        Args:
            messages: the messages.
            marker: the key of the marker.
            lifetime: how long the entry is to be kept; None for the provider's default.

        Raises:
            CacheunitError: no message can.
            TypeError: the content of a message is neither text nor a list.
        """
        return with_marker(messages, (marker, marker_value(marker, lifetime)), self.form)

    def has_examples(self, fragment: Json) -> bool:
        """Returns whether a fragment has worked examples."""
        messages = fragment.get(self.messages_key, ()) if self.has_messages else ()
        return any(message.get("role") in ("user", "assistant") for message in messages)

    def append_user(self, fragment: Json, text: str) -> Json:
        """Returns a request: the fragment with the user's message `text` after it."""
        return self.append(fragment, [self.form.message("user", text)])


def _tool_name(tool: Json) -> str:
    """Returns the name of a tool in any format; of a hosted one without a name, its type or its only key."""
    if len(tool) == 1 and "type" not in tool:  # {"toolSpec": {"name": "search"}}, {"googleSearch": {}}
        ((kind, inner),) = tool.items()
        return str(inner.get("name") or kind)
    return str(tool.get("function", tool).get("name") or tool.get("type", ""))


def openai_response_format(schema: ResponseSchema) -> Json:
    """Returns what OpenAI's APIs both need of a response schema."""
    return {"name": schema.name, "schema": schema.schema, "strict": True}


def chat_messages(parts: PrefixParts, system_role: str) -> list[Json]:
    """Returns the messages of a prefix in the form of OpenAI's chat API: its system text, then the worked examples.

    A text is plain where it carries no marker, else a list of blocks.
    """
    messages: list[Json] = []
    if parts.blocks:
        messages.append({"role": system_role, "content": text_content(parts, "text")})
    for index, turn in enumerate(parts.turns):
        message = chat_message(turn, json_arguments=True)
        marker = parts.marker_at("examples", index)
        if marker is not None and turn.text:
            message["content"] = [marked({"type": "text", "text": turn.text}, marker)]
        messages.append(message)
    return messages


def text_content(parts: PrefixParts, text_type: str) -> str | list[Json]:
    """Returns the system text as content of a message: plain text, or a list of blocks where one carries a marker."""
    blocks = [
        marked({"type": text_type, "text": text}, parts.marker_at("system", index))
        for index, text in enumerate(parts.blocks)
    ]
    return blocks if any(marker.place.part == "system" for marker in parts.markers) else parts.system


def marked(block: Json, marker: Marker | None) -> Json:
    """Returns a content block, or a tool, with its cache marker; unchanged without one."""
    return block if marker is None else {**block, marker.name: marker.value}


def body(parts: PrefixParts, **content: list[Json] | Json | str) -> Json:
    """Returns the content that is not empty, the frozen options and the further fields of a prefix, keys sorted."""
    present = {name: part for name, part in content.items() if part}
    return dict(sorted(merged(merged(nested(parts.options), nested(parts.fields)), present).items()))
