"""Edits of the messages behind a prefix: a text in front of the user's words, and the marker of the conversation.

The messages are the caller's: edits are made on copies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cacheunit_build.domain.errors import fail

BLANK_LINE = "\n\n"
"""What separates a text from the one in front of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageForm:
    """How a format writes messages.

    A block has its type under the key `type`, or, where `text_type` is None, as its only key: `{"text": …}`.

    Attributes:
        content_key: the key of what a message says: a list of blocks.
        takes_text: whether that may be a text in place of a list.
        text_type: the type of a block of text.
        roles: the roles that a message may have; empty for any.
        item_keys: the keys of which a message has at least one.
        leading_types: the types of blocks that the API requires at the beginning of a message.
        unmarkable: the types of blocks that cannot carry a marker.
        unmarkable_roles: the roles of messages that cannot carry a marker.
        marker_blocks: whether a marker is a block of its own, behind what it is on.
    """

    content_key: str = "content"
    takes_text: bool = True
    text_type: str | None = "text"
    roles: frozenset[str] = frozenset()
    item_keys: tuple[str, ...] = ("role",)
    leading_types: frozenset[str] = frozenset()
    unmarkable: frozenset[str] = frozenset()
    unmarkable_roles: frozenset[str] = frozenset()
    marker_blocks: bool = False

    def text_block(self, text: str) -> dict[str, Any]:
        """Returns a block of text."""
        return {"text": text} if self.text_type is None else {"type": self.text_type, "text": text}

    def message(self, role: str, text: str) -> dict[str, Any]:
        """Returns a message of one text."""
        return {"role": role, self.content_key: text if self.takes_text else [self.text_block(text)]}

    def has_type(self, block: object, types: frozenset[str]) -> bool:
        """Returns whether a block, as a mapping or an object of a client, has one of these types."""
        if self.text_type is not None:
            return _text_at(block, "type") in types
        return any(_value_at(block, name) is not None for name in types)


def with_leading_text(messages: Sequence[Any], text: str, form: MessageForm) -> list[Any]:
    """Returns messages whose first message of the user begins with `text`.

    content                        text  leading_types  result
    Hi                             T                    T, a blank line, Hi
    [{"type": "text", …}]          T                    [{"type": "text", "text": T}, {"type": "text", …}]
    [{"type": "tool_result", …}]   T     tool_result    [{"type": "tool_result", …}, {"type": "text", "text": T}]

    Args:
        messages: the messages.
        text: what is inserted.
        form: how the format writes messages.

    Raises:
        CacheunitError: there is no message of the user, or it is no mapping with content.
        TypeError: its content is neither text nor a list.
    """
    index = next((index for index, message in enumerate(messages) if role_of(message) == "user"), None)
    if index is None:
        raise fail('dynamic needs a message with role "user"')
    message, key = messages[index], form.content_key
    if not isinstance(message, Mapping) or key not in message:
        raise fail(f'dynamic needs a first user message that is a mapping with "{key}"')
    content = message[key]
    if isinstance(content, str) and form.takes_text:
        content = f"{text}{BLANK_LINE}{content}"
    else:
        blocks = _blocks(content, index, form)
        behind = (i for i, block in enumerate(blocks) if not form.has_type(block, form.leading_types))
        start = next(behind, len(blocks))
        content = [*blocks[:start], form.text_block(text), *blocks[start:]]
    return [*messages[:index], {**message, key: content}, *messages[index + 1 :]]


def _blocks(content: object, index: int, form: MessageForm) -> list[Any]:
    """Returns the blocks of the content of a message.

    Args:
        content: the content, if it is not text.
        index: the index of the message, for the error.
        form: how the format writes messages.

    Raises:
        TypeError: the content is no list of blocks.
    """
    if isinstance(content, str | bytes | bytearray | memoryview) or not isinstance(content, Sequence):
        taken = "text or a list of blocks" if form.takes_text else "a list of blocks"
        raise TypeError(f'messages[{index}]["{form.content_key}"] must be {taken}, not {type(content).__name__}')
    return list(content)


def with_marker(messages: Sequence[Any], marker: tuple[str, Mapping[str, Any]], form: MessageForm) -> list[Any]:
    """Returns messages with a cache marker on the last block of the last message that can carry one.

    Args:
        messages: the messages.
        marker: its key and its value; a block that has one keeps it.
        form: how the format writes messages.

    Raises:
        CacheunitError: no message can.
        TypeError: the content of a message is neither text nor a list.
    """
    for index in reversed(range(len(messages))):
        message = messages[index]
        role = role_of(message)
        if not isinstance(message, Mapping) or role is None or role in form.unmarkable_roles:
            continue
        content = message.get(form.content_key)
        if content is None:
            continue
        text = isinstance(content, str) and form.takes_text
        blocks = [form.text_block(content)] if text else _blocks(content, index, form)
        if _mark(blocks, marker, form):
            return [*messages[:index], {**message, form.content_key: blocks}, *messages[index + 1 :]]
    raise fail("no message can carry the marker of the conversation", hint="send a message of the user with a text")


def _mark(blocks: list[Any], marker: tuple[str, Mapping[str, Any]], form: MessageForm) -> bool:
    """Puts a marker on the last block that can carry one, or behind it; returns whether there is such a block."""
    key, value = marker
    for place in reversed(range(len(blocks))):
        block = blocks[place]
        if form.marker_blocks and isinstance(block, Mapping) and key in block:
            return True
        if isinstance(block, Mapping) and not form.has_type(block, form.unmarkable) and block.get("text", "-"):
            if form.marker_blocks:
                blocks.insert(place + 1, {key: dict(value)})
            else:
                blocks[place] = {**block, key: block.get(key) or dict(value)}
            return True
    return False


def markers_of(request: Mapping[str, Any], lists: Sequence[object], marker: str, form: MessageForm) -> list[Any]:
    """Returns the values of a request's markers in order: on tools, blocks of system text and messages, and itself.

    Args:
        request: the request.
        lists: its tools, the blocks of its system text, and its messages; something else where it has none.
        marker: the key of the markers.
        form: how the format writes messages.
    """
    tools, system, messages = map(_items, lists)
    blocks: list[Any] = [*tools, *system]
    for message in messages:
        content = _items(message.get(form.content_key)) if isinstance(message, Mapping) else ()
        blocks += content
        for block in content:
            blocks += _items(block.get("content")) if isinstance(block, Mapping) else ()
    return [block[marker] for block in [*blocks, request] if isinstance(block, Mapping) and block.get(marker)]


def _items(value: object) -> Sequence[Any]:
    """Returns a list or tuple as it is, and anything else as an empty one."""
    return value if isinstance(value, list | tuple) else ()


def role_of(message: object) -> str | None:
    """Returns the role of a message; None where it has none."""
    return _text_at(message, "role")


def _text_at(value: object, key: str) -> str | None:
    """Returns the text under a key, or in the attribute of that name; None where there is none."""
    text = _value_at(value, key)
    return text if isinstance(text, str) else None


def _value_at(value: Any, key: str) -> Any:  # noqa: ANN401 - a mapping, or an object of a client
    """Returns the value under a key, or in the attribute of that name; None where there is none."""
    return value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)
