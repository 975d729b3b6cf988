"""Edits of the messages behind a prefix: a text in front of the user's words, and the marker of the conversation.

The messages are the caller's: edits are made on copies.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from cacheunit_build.domain.errors import fail

BLANK_LINE = "\n\n"
"""What separates a text from the one in front of it."""


def with_leading_text(
    messages: Sequence[Any], text: str, text_type: str, leading_types: Collection[str] = ()
) -> list[Any]:
    """Returns messages whose first message of the user begins with `text`.

    content                        text  leading_types  result
    Hi                             T                    T, a blank line, Hi
    [{"type": "text", …}]          T                    [{"type": "text", "text": T}, {"type": "text", …}]
    [{"type": "tool_result", …}]   T     tool_result    [{"type": "tool_result", …}, {"type": "text", "text": T}]

    Args:
        messages: the messages.
        text: what is inserted.
        text_type: the type of a block of text.
        leading_types: the types of blocks that the API requires at the beginning of a message.

    Raises:
        CacheunitError: there is no message of the user, or it is no mapping with content.
        TypeError: its content is neither text nor a list.
    """
    index = next((index for index, message in enumerate(messages) if role_of(message) == "user"), None)
    if index is None:
        raise fail('dynamic needs a message with role "user"')
    message = messages[index]
    if not isinstance(message, Mapping) or "content" not in message:
        raise fail('dynamic needs a first user message that is a mapping with "content"')
    content = message["content"]
    if isinstance(content, str):
        content = f"{text}{BLANK_LINE}{content}"
    else:
        blocks = _blocks(content, index)
        start = next((i for i, block in enumerate(blocks) if _text_at(block, "type") not in leading_types), len(blocks))
        content = [*blocks[:start], {"type": text_type, "text": text}, *blocks[start:]]
    return [*messages[:index], {**message, "content": content}, *messages[index + 1 :]]


def _blocks(content: object, index: int) -> list[Any]:
    """Returns the blocks of the content of a message.

    Args:
        content: the content, if it is not text.
        index: the index of the message, for the error.

    Raises:
        TypeError: the content is no list of blocks.
    """
    if isinstance(content, bytes | bytearray | memoryview) or not isinstance(content, Sequence):
        raise TypeError(f'messages[{index}]["content"] must be text or a list of blocks, not {type(content).__name__}')
    return list(content)


def with_marker(
    messages: Sequence[Any],
    marker: tuple[str, Mapping[str, Any]],
    block_types: tuple[str, Collection[str]],
    unmarkable_roles: Collection[str],
) -> list[Any]:
    """Returns messages with a cache marker on the last block of the last message that can carry one.

    Args:
        messages: the messages.
        marker: its key and its value; a block that has one keeps it.
        block_types: the type of a block of text, and the types of blocks that cannot carry a marker.
        unmarkable_roles: the roles of messages that cannot.

    Raises:
        CacheunitError: no message can.
        TypeError: the content of a message is neither text nor a list.
    """
    key, value = marker
    text_type, unmarkable = block_types
    for index in reversed(range(len(messages))):
        message = messages[index]
        role = role_of(message)
        if not isinstance(message, Mapping) or role is None or role in unmarkable_roles:
            continue
        content = message.get("content")
        if content is None:
            continue
        blocks = [{"type": text_type, "text": content}] if isinstance(content, str) else _blocks(content, index)
        place = _last_markable(blocks, unmarkable)
        if place is not None:
            blocks[place] = {**blocks[place], key: blocks[place].get(key) or dict(value)}
            return [*messages[:index], {**message, "content": blocks}, *messages[index + 1 :]]
    raise fail("no message can carry the marker of the conversation", hint="send a message of the user with a text")


def _last_markable(blocks: Sequence[Any], unmarkable: Collection[str]) -> int | None:
    """Returns the index of the last block that can carry a marker; None where no block can."""
    for index in reversed(range(len(blocks))):
        block = blocks[index]
        if isinstance(block, Mapping) and _text_at(block, "type") not in unmarkable and block.get("text", "-"):
            return index
    return None


def markers_of(request: Mapping[str, Any], messages_key: str, marker: str) -> list[Any]:
    """Returns the values of a request's markers in order: on tools, blocks of system text and messages, and itself."""
    blocks: list[Any] = [*_items(request.get("tools")), *_items(request.get("system"))]
    for message in _items(request.get(messages_key)):
        content = _items(message.get("content")) if isinstance(message, Mapping) else ()
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


def _text_at(value: Any, key: str) -> str | None:  # noqa: ANN401 - a mapping, or an object of a client
    """Returns the text under a key, or in the attribute of that name; None where there is none."""
    text = value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)
    return text if isinstance(text, str) else None
