"""Edits of the messages behind a prefix: a text in front of the user's words, and the marker of the conversation.

The messages are the caller's: edits are made on copies.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from cacheunit_build.domain.errors import fail


def with_leading_text(messages: Sequence[Any], text: str, text_type: str) -> list[Any]:
    """Returns messages whose first message of the user begins with `text`.

    content                   text  result
    Hi                        T     T, a blank line, Hi
    [{"type": "text", …}, …]  T     [{"type": "text", "text": T}, {"type": "text", …}, …]

    Raises:
        CacheunitError: there is no message of the user, or it has no content.
    """
    index = next((index for index, message in enumerate(messages) if _role(message) == "user"), None)
    if index is None:
        raise fail("there is no message of the user, which the dynamic text would be put into")
    message = messages[index]
    if not isinstance(message, Mapping) or "content" not in message:
        raise fail("the first message of the user must be a mapping with content to take the dynamic text")
    content = message["content"]
    content = f"{text}\n\n{content}" if isinstance(content, str) else [{"type": text_type, "text": text}, *content]
    return [*messages[:index], {**message, "content": content}, *messages[index + 1 :]]


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
    """
    for index in reversed(range(len(messages))):
        message = messages[index]
        role = _role(message)
        if not isinstance(message, Mapping) or role is None or role in unmarkable_roles:
            continue
        content = _with_marked_block(message.get("content"), marker, block_types)
        if content is not None:
            return [*messages[:index], {**message, "content": content}, *messages[index + 1 :]]
    raise fail("no message can carry the marker of the conversation", hint="send a message of the user with a text")


def _with_marked_block(
    content: Any,  # noqa: ANN401 - whatever a caller has as content
    marker: tuple[str, Mapping[str, Any]],
    block_types: tuple[str, Collection[str]],
) -> list[Any] | None:
    """Returns content whose last block that can carry a marker has one; None where no block can."""
    key, value = marker
    text_type, unmarkable = block_types
    blocks = [{"type": text_type, "text": content}] if isinstance(content, str) else list(content or ())
    for index in reversed(range(len(blocks))):
        block = blocks[index]
        if isinstance(block, Mapping) and block.get("type") not in unmarkable and block.get("text", "-"):
            blocks[index] = {**block, key: block.get(key) or dict(value)}
            return blocks
    return None


def marker_count(request: Mapping[str, Any], messages_key: str, marker: str) -> int:
    """Returns how many markers a request carries: on tools, on blocks of system text and messages, and on itself."""
    blocks: list[Any] = [request, *_items(request.get("tools")), *_items(request.get("system"))]
    for message in _items(request.get(messages_key)):
        content = _items(message.get("content")) if isinstance(message, Mapping) else ()
        blocks += content
        for block in content:
            blocks += _items(block.get("content")) if isinstance(block, Mapping) else ()
    return sum(1 for block in blocks if isinstance(block, Mapping) and block.get(marker))


def _items(value: object) -> Sequence[Any]:
    """Returns a list or tuple as it is, and anything else as an empty one."""
    return value if isinstance(value, list | tuple) else ()


def _role(message: Any) -> Any:  # noqa: ANN401 - a mapping, or an object of a client
    return message.get("role") if isinstance(message, Mapping) else getattr(message, "role", None)
