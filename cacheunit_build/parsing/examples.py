"""Reads the worked examples of a manifest: gives tool calls their ids, and each result the call that it answers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cacheunit_build.domain.prompt import ToolCall, Turn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.manifest import ExampleSource, Manifest

_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The ids that every provider takes: Anthropic and Bedrock refuse other characters, OpenAI and Bedrock longer ones."""


def example_turns(examples: Sequence[ExampleSource], texts: Sequence[str]) -> tuple[Turn, ...]:
    """Returns the messages of worked examples, of which `example_faults` found no fault.

    Args:
        examples: the messages as the manifest has them.
        texts: their rendered texts.
    """
    turns: list[Turn] = []
    number = 0
    waiting: dict[str, ToolCall] = {}
    for example, text in zip(examples, texts, strict=True):
        calls: list[ToolCall] = []
        for call in example.tool_calls:
            number += 1
            id_ = _default_id(number) if call.id is None else call.id
            calls.append(ToolCall(id=id_, name=call.name, arguments=call.arguments))
        waiting |= {call.id: call for call in calls}
        answered = example.tool_call_id or next(iter(waiting), "")
        result_of = waiting.pop(answered, None) if example.role == "tool" else None
        turns.append(Turn(role=example.role, text=text, calls=tuple(calls), result_of=result_of))
    return tuple(turns)


def _default_id(number: int) -> str:
    """Returns the id of a call that has none: nine letters and digits, as Mistral's models want them."""
    return f"call{number:05}"


def example_faults(manifest: Manifest) -> Iterator[Fault]:
    """Yields a fault for each call without a result, result without a call, and id that is not possible.

    The results of a message's calls follow it at once, in any order: providers refuse the whole request otherwise.
    """
    # id of a call without result -> index of its message, and of itself there; None where it may be without one
    waiting: dict[str, tuple[int, int] | None] = {}
    used: set[str] = set()
    number = 0
    for index, example in enumerate(manifest.examples):
        if example.role == "tool":
            yield from _result_faults(manifest, index, example, waiting)
            continue
        yield from _unanswered(manifest, waiting)
        waiting.clear()
        for place, call in enumerate(example.tool_calls):
            number += 1
            id_ = _default_id(number) if call.id is None else call.id
            keys = ("examples", index, "tool_calls", place)
            if not _CALL_ID.fullmatch(id_):
                hint = "use at most 64 letters, digits, _ and -"
                yield manifest.fault(f"{id_!r} is not a valid id of a tool call", *keys, "id", hint=hint)
            if id_ in used:
                yield manifest.fault(f'two tool calls have the id "{id_}"', *keys, hint="give each its own id")
                waiting[f"{id_} of call {number}"] = None
            else:
                waiting[id_] = index, place
            used.add(id_)
    yield from _unanswered(manifest, waiting)


def _result_faults(
    manifest: Manifest, index: int, example: ExampleSource, waiting: dict[str, tuple[int, int] | None]
) -> Iterator[Fault]:
    """Yields a fault where a result answers no call; else takes its call from those that wait."""
    keys = ("examples", index)
    if example.tool_call_id is None and not waiting:
        yield manifest.fault("a tool result answers no call", *keys, hint="put it behind the message with tool_calls")
    elif example.tool_call_id is not None and example.tool_call_id not in waiting:
        listed = f"the calls without a result are {', '.join(waiting)}" if waiting else None
        message = f'a tool result answers the call "{example.tool_call_id}", which does not wait for one'
        yield manifest.fault(message, *keys, "tool_call_id", hint=listed)
    else:
        waiting.pop(example.tool_call_id or next(iter(waiting)))


def _unanswered(manifest: Manifest, waiting: dict[str, tuple[int, int] | None]) -> Iterator[Fault]:
    """Yields a fault for each call that has no result."""
    for index, place in filter(None, waiting.values()):
        name = manifest.examples[index].tool_calls[place].name
        hint = "add a message with role: tool behind it, before the next one of the user or the assistant"
        keys = ("examples", index, "tool_calls", place)
        yield manifest.fault(f'the call of tool "{name}" has no result', *keys, hint=hint)
