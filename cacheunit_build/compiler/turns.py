"""The shapes of turns that static tokens have to hold for: what may follow a prefix, in this turn and in later ones.

| shape                                    | with tools only |
| ---------------------------------------- | --------------- |
| user                                     |                 |
| user, assistant, user                    |                 |
| user, assistant, user, assistant, user   |                 |
| user, tool call, tool result             | x               |
| user, tool call, tool result, assistant, user | x          |
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cacheunit_build.domain.prompt import Conversation, Message

_ANSWER = "An answer, of two sentences. It may be followed by another question."
_QUESTION = "A further question."
_CALL_ID = "call00001"  # Mistral's templates want nine letters and digits
_ARGUMENTS = {"query": "a value"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnShape:
    """One shape of what follows a prefix.

    Attributes:
        name: the roles of its messages, in order.
        spellings: functions from the user's first words to the messages. Templates disagree on whether the arguments of
            a tool call are a mapping or JSON, so there may be two; a template that takes one of them takes the shape.
    """

    name: str
    spellings: tuple[Callable[[str], tuple[Message, ...]], ...]


def later_turns(conversation: Conversation) -> tuple[TurnShape, ...]:
    """Returns the shapes of later turns that may follow a prefix: with tools, also a tool call and its result."""
    shapes = [
        _shape("user, assistant, user", _assistant(), _user()),
        _shape("user, assistant, user, assistant, user", _assistant(), _user(), _assistant(), _user()),
    ]
    if conversation.tools:
        name = str(conversation.tools[0]["function"]["name"])
        shapes += [
            _with_tool_call("user, tool call, tool result", name),
            _with_tool_call("user, tool call, tool result, assistant, user", name, _assistant(), _user()),
        ]
    return tuple(shapes)


def user_message(text: str) -> Message:
    """Returns a message of the user."""
    return {"role": "user", "content": text}


def _user() -> Message:
    return user_message(_QUESTION)


def _assistant() -> Message:
    return {"role": "assistant", "content": _ANSWER}


def _shape(name: str, *later: Message) -> TurnShape:
    """Returns the shape of the user's words with these messages after them."""
    return TurnShape(name=name, spellings=(lambda words: (user_message(words), *later),))


def _with_tool_call(name: str, tool: str, *later: Message) -> TurnShape:
    """Returns a shape with a call of a tool and its result after the user's words, and these messages after it."""
    spellings = (_called(tool, arguments, later) for arguments in (_ARGUMENTS, json.dumps(_ARGUMENTS)))
    return TurnShape(name=name, spellings=tuple(spellings))


def _called(tool: str, arguments: Any, later: Sequence[Message]) -> Callable[[str], tuple[Message, ...]]:  # noqa: ANN401
    call = {"id": _CALL_ID, "type": "function", "function": {"name": tool, "arguments": arguments}}
    assistant: Message = {"role": "assistant", "content": "", "tool_calls": [call]}
    result: Message = {"role": "tool", "tool_call_id": _CALL_ID, "name": tool, "content": "A result."}
    return lambda words: (user_message(words), assistant, result, *later)
