"""The prompt of one prefix: tools, system text and worked examples, as rendered, as framed and as tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.fingerprint import compact_json

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from cacheunit_build.domain.manifest import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool in canonical form.

    Attributes:
        name: the name that the model calls.
        description: what the model is told of the tool.
        schema: the JSON Schema of the arguments, its keys in canonical order.
        strict: whether the provider must hold the model to the schema; None where the source does not say.
        path: the source file, relative to the project root.
        line: the line of the tool in that file.
        others: its further keys, sorted; each format sends those that it knows.
        hosted: the whole entry of a tool that the provider runs, its keys sorted; None for a function. It has no
            description and no schema, and its name may be its type.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    strict: bool | None
    path: str
    line: int | None
    others: Mapping[str, Any] = field(default_factory=dict)
    hosted: Mapping[str, Any] | None = None

    def known(self, keys: Collection[str]) -> dict[str, Any]:
        """Returns its other keys that a format knows, in order."""
        return {key: value for key, value in self.others.items() if key in keys}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call of a tool in a worked example.

    Attributes:
        id: what its result names it by.
        name: the tool.
        arguments: the arguments, in the order of the manifest.
    """

    id: str
    name: str
    arguments: Mapping[str, Any]

    @property
    def json_arguments(self) -> str:
        """The arguments as JSON text, as APIs that take a text are sent them."""
        return compact_json(self.arguments).decode().rstrip("\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One message of a worked example, which follows the system text.

    Attributes:
        role: the speaker; `tool` for the result of a call.
        text: the text; empty where an assistant only calls tools.
        calls: the tools that the assistant calls.
        result_of: the call that the result answers; None for other messages.
    """

    role: Role
    text: str
    calls: tuple[ToolCall, ...] = ()
    result_of: ToolCall | None = None

    @property
    def content(self) -> str:
        """Everything in it that a model reads, as one text: its text, then the name and the arguments of each call."""
        return "\n".join([self.text, *(f"{call.name} {call.json_arguments}" for call in self.calls)]).strip("\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """One file that was read, or looked for, to make a prefix.

    Attributes:
        path: the file, relative to the project root.
        fingerprint: that of its bytes; None where there is no such file.
        asked_by: the file that names it; None for the manifest itself.
    """

    path: str
    fingerprint: str | None
    asked_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """The rendered texts of a variant.

    Attributes:
        blocks: the system text without padding, a block for each template that is not empty; their concatenation is
            the text.
        shared_blocks: how many blocks, from the first on, read no axis of the matrix, so that all variants share them.
        turns: the messages of worked examples.
        lookups: every file that was looked for, in the order of the first look.
        used_variables: the names of variables that the templates read.
    """

    blocks: tuple[str, ...]
    shared_blocks: int = 0
    turns: tuple[Turn, ...]
    lookups: tuple[Lookup, ...]
    used_variables: frozenset[str] = frozenset()

    @property
    def system(self) -> str:
        """The system text, without padding."""
        return "".join(self.blocks)


Message = Mapping[str, Any]
"""A message as chat templates take it: `role` and `content`, and `tool_calls` or `tool_call_id` where it has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The parts of a prefix, and the messages after them, as a frame arranges them for the model.

    Attributes:
        system: the system text with its padding.
        tools: the tools in OpenAI's form, which chat templates take.
        turns: the messages of worked examples.
        following: the messages after the prefix, the user's first.
        options: the frozen values of request options, by the argument of the frame that takes them.
        json_arguments: whether the frame takes the arguments of tool calls as JSON text, not as a mapping.
    """

    system: str
    tools: tuple[Mapping[str, Any], ...]
    turns: tuple[Turn, ...]
    following: tuple[Message, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    json_arguments: bool = False

    @property
    def next_text(self) -> str:
        """The text of the first message after the prefix."""
        return str(self.following[0]["content"]) if self.following else ""

    def messages(self) -> list[dict[str, Any]]:
        """Returns the messages as chat templates take them; without system text there is no system message."""
        first = [{"role": "system", "content": self.system}] if self.system else []
        turns = [chat_message(turn, json_arguments=self.json_arguments) for turn in self.turns]
        return [*first, *turns, *(dict(message) for message in self.following)]


def chat_message(turn: Turn, *, json_arguments: bool) -> dict[str, Any]:
    """Returns a message of a worked example in the form of OpenAI's chat API, which chat templates take too.

    Args:
        turn: the message.
        json_arguments: whether the arguments of tool calls are JSON text; else they are mappings.
    """
    if turn.result_of is not None:
        return {"role": "tool", "tool_call_id": turn.result_of.id, "content": turn.text}
    if not turn.calls:
        return {"role": turn.role, "content": turn.text}
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {
                "name": call.name,
                "arguments": call.json_arguments if json_arguments else dict(call.arguments),
            },
        }
        for call in turn.calls
    ]
    return {"role": turn.role, "content": turn.text or None, "tool_calls": calls}


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnChange:
    """Where the framed text of a later turn differs from that of the first turn.

    Attributes:
        shape: the shape of the later turn, such as `user, assistant, user`.
        first: a conversation of one turn.
        offset: the first character of its framed text that the later turn changes.
    """

    shape: str
    first: Conversation
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticTokens:
    """The tokens that all requests made from one prefix share, whatever is said next, in this turn and in later ones.

    Attributes:
        framed_prefix: the text in front of the user's words, which all requests begin with.
        ids: the static token ids.
        unstable: tokens at the end of the framed prefix that change with what follows; they are not among `ids`.
        first_turn: the tokens that requests of one turn share; more than `ids` where later turns change the frame.
        refused_turns: the shapes of later turns that the frame refuses, which were left out.
        change: where a later turn first changes the framed text; None where none does.
        margin: the share by which the number of tokens may be off; 0 for an exact count.
    """

    framed_prefix: str
    ids: Sequence[int]
    unstable: int
    first_turn: int = 0
    refused_turns: tuple[str, ...] = ()
    change: TurnChange | None = None
    margin: float = 0.0

    @property
    def tokens(self) -> int:
        """The number of static tokens."""
        return len(self.ids)
