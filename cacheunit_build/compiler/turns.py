"""The shapes of turns that static tokens have to hold for: what may follow a prefix, in this turn and in later ones.

Each shape begins with the user's words. With tools, there are tool calls and their results too:

    user, assistant, user
    user, tool call, tool result, assistant, user
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.prompt import Conversation, ToolCall, Turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from cacheunit_build.domain.prompt import Message

_SHAPES = (
    ("assistant", "user"),
    ("assistant", "user", "assistant", "user"),
    ("assistant",),
    ("empty answer", "user"),
    ("answer with reasoning", "user"),
    ("20 further exchanges", "user"),
)
"""What follows the user's first words. An answer at the end is one that the model goes on with."""
_SHAPES_WITH_TOOLS = (
    ("tool call", "tool result"),
    ("tool call", "tool result", "assistant", "user"),
    ("tool call", "tool result", "tool call", "tool result", "assistant", "user"),
    ("two tool calls", "two tool results"),
)
_ANSWER = "An answer, of two sentences. It may be followed by another question."
_REASONING = "The question is a simple one."
_EXCHANGES = 20
_CALL_IDS = ("call00001", "call00002")  # Mistral's templates want nine letters and digits
_ARGUMENTS = {"query": "a value"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnShape:
    """One shape of what follows a prefix.

    Attributes:
        name: what its messages are, in order.
        message_builders: functions from the user's first words to the messages. Templates disagree on whether the
            arguments of a tool call are a mapping or JSON, so there may be two; a template that takes one of them takes
            the shape.
    """

    name: str
    message_builders: tuple[Callable[[str], tuple[Message, ...]], ...]


def later_turns(conversation: Conversation) -> tuple[TurnShape, ...]:
    """Returns the shapes of later turns that may follow a prefix: with tools, also tool calls and their results."""
    if not conversation.tools:
        return tuple(_shape(parts, "", (_ARGUMENTS,)) for parts in _SHAPES)
    tool = str(conversation.tools[0]["function"]["name"])
    without_calls = (_shape(parts, tool, (_ARGUMENTS,)) for parts in _SHAPES)
    with_calls = (_shape(parts, tool, (_ARGUMENTS, json.dumps(_ARGUMENTS))) for parts in _SHAPES_WITH_TOOLS)
    return (*without_calls, *with_calls)


def takes_json_arguments(frame: Callable[[Conversation], str]) -> bool:
    """Returns whether a frame takes the arguments of tool calls as JSON text; else it takes a mapping.

    Servers parse the text of a request and hand the template a mapping, unless it cannot print one as JSON. An encoder
    that parses the text itself gets it as it is.

    Args:
        frame: returns the text that the model reads of a conversation.
    """
    call = ToolCall(id=_CALL_IDS[0], name="search", arguments=_ARGUMENTS)
    turns = (
        Turn(role="user", text="A question."),
        Turn(role="assistant", text="", calls=(call,)),
        Turn(role="tool", text="A result.", result_of=call),
    )
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in _ARGUMENTS}}
    function = {"name": call.name, "description": "Searches.", "parameters": schema}
    tools = ({"type": "function", "function": function},)

    def printed(*, json_arguments: bool) -> str:
        following = (user_message("A further question."),)
        conversation = Conversation(system="Be kind.", tools=tools, turns=turns, following=following)
        try:
            return frame(replace(conversation, json_arguments=json_arguments))
        except CacheunitError:
            return ""

    as_mapping, as_text = printed(json_arguments=False), printed(json_arguments=True)
    if str(_ARGUMENTS) in as_mapping or not as_mapping:
        return bool(as_text)
    # A frame that parses the text prints it neither as it is nor as a JSON string. DeepSeek's encoder does so, and
    # prints a mapping as if it were the value of an argument named "arguments".
    parsed = not any(text in as_text for text in (call.json_arguments, json.dumps(call.json_arguments)[1:-1]))
    return bool(as_text) and parsed and json.dumps(_ARGUMENTS) in as_mapping


def user_message(text: str) -> Message:
    """Returns a message of the user."""
    return {"role": "user", "content": text}


def _shape(parts: tuple[str, ...], tool: str, spellings: tuple[Any, ...]) -> TurnShape:
    """Returns the shape of the user's words with these parts after them.

    Args:
        parts: what follows the user's words.
        tool: the name of the tool that is called.
        spellings: the arguments of tool calls, in each form that is tried.
    """
    builders = (_builder(_messages(parts, tool, arguments)) for arguments in spellings)
    return TurnShape(name=", ".join(("user", *parts)), message_builders=tuple(builders))


def _builder(later: tuple[Message, ...]) -> Callable[[str], tuple[Message, ...]]:
    return lambda words: (user_message(words), *later)


def _messages(parts: tuple[str, ...], tool: str, arguments: Any) -> tuple[Message, ...]:  # noqa: ANN401 - mapping or JSON
    """Returns the messages of the parts of a shape, in order."""
    user: Message = user_message("A further question.")
    answer: Message = {"role": "assistant", "content": _ANSWER}
    thought = {**answer, "reasoning_content": _REASONING}
    thought_in_text = {**answer, "content": f"<think>\n{_REASONING}\n</think>\n\n{_ANSWER}"}
    calls = [{"id": id_, "type": "function", "function": {"name": tool, "arguments": arguments}} for id_ in _CALL_IDS]
    results: list[Message] = [
        {"role": "tool", "tool_call_id": id_, "name": tool, "content": "A result."} for id_ in _CALL_IDS
    ]
    made: dict[str, list[Message]] = {
        "user": [user],
        "assistant": [answer],
        "empty answer": [{**answer, "content": ""}],
        "answer with reasoning": [thought, user, thought_in_text],
        "20 further exchanges": [answer, user] * _EXCHANGES + [answer],
        "tool call": [{"role": "assistant", "content": "", "tool_calls": calls[:1]}],
        "tool result": results[:1],
        "two tool calls": [{"role": "assistant", "content": "", "tool_calls": calls}],
        "two tool results": results,
    }
    return tuple(message for part in parts for message in made[part])
