"""Counts a prefix whose frame is not published: its parts one after the other, with a margin for the rest."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from cacheunit_build.compiler.tool_declarations import tool_declarations
from cacheunit_build.domain.fingerprint import compact_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cacheunit_build.domain.prompt import Conversation, StaticTokens
    from cacheunit_build.domain.target import FrameEstimate

_HIGHEST_PERCENT = 99
"""The widest margin, in percent: that of a few words with tools."""


def concatenated(conversation: Conversation) -> str:
    """Returns all parts one after the other, for an estimate: no frame would make it exact."""
    tools = _tools_as_json(conversation)
    return "\n".join([*_options(conversation), tools, conversation.system, *_turns(conversation)])


def joined_parts(estimate: FrameEstimate) -> Callable[[Conversation], str]:
    """Returns the frame that puts the parts that a prefix has one after the other, its tools in the form of `estimate`.

    Options that put a schema in front are written as JSON.
    """

    def frame(conversation: Conversation) -> str:
        parts = [*_options(conversation), _tools(conversation, estimate), conversation.system, *_turns(conversation)]
        return "\n".join(part for part in parts if part)

    return frame


def estimated_tokens(
    parts: StaticTokens, prefix: Conversation, estimate: FrameEstimate, encode: Callable[[str], Sequence[int]]
) -> StaticTokens:
    """Returns the tokens of the parts of a prefix with the margin of an estimate, in whole percent.

    With 5 tokens around each message, 10 in front of tools, and 0.3 for their form, of which there are 600 tokens:

    tokens  messages                    margin
    1,000   of the system and the user  200 tokens, ±20 %
    1,000   the same, without tools     10 tokens, ±1 %

    Args:
        parts: the tokens of all parts.
        prefix: the prefix.
        estimate: what is not known of the frame.
        encode: returns the token ids of a text.
    """
    messages = len(prefix.turns) + bool(prefix.system) + 1
    schemas = "\n".join([*_options(prefix), _tools(prefix, estimate)])
    margin = estimate.margin(messages=messages, schemas=len(encode(schemas)) if schemas else 0)
    percent = math.ceil(100 * margin / max(1, parts.tokens))
    return replace(parts, margin=min(_HIGHEST_PERCENT, max(1, percent)) / 100)


def _options(conversation: Conversation) -> list[str]:
    return [compact_json(value).decode() for value in conversation.options.values()]


def _turns(conversation: Conversation) -> list[str]:
    return [turn.content for turn in conversation.turns]


def _tools(conversation: Conversation, estimate: FrameEstimate) -> str:
    if estimate.tools == "typescript":
        return tool_declarations(conversation.tools)
    return _tools_as_json(conversation)


def _tools_as_json(conversation: Conversation) -> str:
    return "".join(compact_json(tool).decode() for tool in conversation.tools)
