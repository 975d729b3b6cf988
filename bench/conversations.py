"""Conversations of one, two and three turns that may follow a prefix, in other words than the product tries.

A turn begins with a message of the user. With tools, an assistant may call one or several of them, in several rounds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import cycle, product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Json = dict[str, Any]

LONG_MESSAGE = "Whenever you have a minute: compare the 2 drafts below, and say which is better.\n\n" * 10
FIRST_WORDS = (
    *("q", "W", "3", " ", "   two", "\t", "\n", "\n\n\n", "\r\n", "!", "(", "#", "/", "<", "\u8a9e", "\U0001f680"),
    *("\u00e9", "\u0301", "\u200b", "'s", "/no_think Hello", "Is it open?", "You", LONG_MESSAGE),
)
"""The user's first words: letters, a digit, white space, punctuation, CJK, an emoji, marks, sentences."""
QUESTIONS = ("And on Sunday?", "\n\n  Why?", "9", "\u3044\u3064\u3067\u3059\u304b\u3002", "No.", "/think Sum it up.")
"""The user's words in later turns."""
ANSWERS: tuple[Json, ...] = (
    {"content": "Yes."},
    {"content": "1. From nine\n2. to five\n\n```\nopen()\n```\n"},
    {"content": ""},
    {"content": "<think>\nIs it Sunday?\n</think>\n\nIt is closed."},
    {"content": "From nine to five.", "reasoning_content": "The hours are on the door."},
    {"content": "\u306f\u3044\u3001\u958b\u3044\u3066\u3044\u307e\u3059\u3002"},
)
"""The assistant's words; some templates print reasoning in the last turn only, or tell it apart by a tag."""
RESULTS = ("open", '{"from": 9, "to": 17}', "")
CALL_CONTENTS: tuple[Json, ...] = (
    {"content": ""},
    {"content": None},
    {"content": "Let me look it up.", "reasoning_content": "I do not know the hours."},
)
"""The assistant's words beside a tool call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """The messages after a prefix.

    Attributes:
        shape: the roles, in order; a tool call is `call`, and its result `tool`.
        turns: the number of turns.
        messages: the messages.
    """

    shape: str
    turns: int
    messages: list[Json]


def followings(tools: Sequence[Json]) -> list[Following]:
    """Returns all conversations that may follow a prefix with these tools, in OpenAI's form."""
    names = [tool["function"]["name"] for tool in tools]
    return [*_without_tools(), *(_with_tools(names) if names else ())]


def _without_tools() -> Iterator[Following]:
    """Yields conversations of one, two and three turns for each of the first words."""
    answers, questions = cycle(ANSWERS), cycle(QUESTIONS)
    for words in FIRST_WORDS:
        messages = [_user(words)]
        for turns in (1, 2, 3):
            yield _following(turns, messages)
            messages = [*messages, {"role": "assistant", **next(answers)}, _user(next(questions))]


def _with_tools(names: Sequence[str]) -> Iterator[Following]:
    """Yields conversations with tool calls: alone, in parallel, in several rounds, and in a later turn.

    The arguments of a call are a mapping or JSON. Templates take one of them, or both.
    """
    first_words = cycle(FIRST_WORDS)
    for content, as_json in product(CALL_CONTENTS, (False, True)):
        one, two = (_calls(names[:count], content, as_json=as_json) for count in (1, 2))
        answer, question = [{"role": "assistant", **ANSWERS[4]}], [_user(QUESTIONS[0])]
        for turns, rest in (
            (1, one),
            (1, two),
            (1, [*one, *two, *one]),
            (2, [*one, *answer, *question]),
            (2, [*answer, *question, *two]),
            (2, [*two, *one, *answer, *question, *one]),
            (3, [*one, *answer, *question, *two, *answer, *question]),
            (3, [*answer, *question, *answer, *question, *one, *two]),
        ):
            for _ in range(2):
                yield _following(turns, [_user(next(first_words)), *rest])


def _calls(names: Sequence[str], content: Json, *, as_json: bool) -> list[Json]:
    """Returns a message that calls each of these tools, and their results."""
    arguments: Json = {"place": "Main St. 5", "days": [1, 7], "exact": True}
    calls = [
        {
            "id": f"c0000000{index}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments) if as_json else arguments},
        }
        for index, name in enumerate(names)
    ]
    results = [
        {"role": "tool", "tool_call_id": call["id"], "name": name, "content": RESULTS[index % len(RESULTS)]}
        for index, (name, call) in enumerate(zip(names, calls, strict=True))
    ]
    return [{"role": "assistant", **content, "tool_calls": calls}, *results]


def _user(text: str) -> Json:
    return {"role": "user", "content": text}


def _following(turns: int, messages: list[Json]) -> Following:
    roles = ("call" if "tool_calls" in message else message["role"] for message in messages)
    return Following(shape=", ".join(roles), turns=turns, messages=messages)
