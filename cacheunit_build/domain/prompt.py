"""The prompt of one prefix: tools, system text and worked examples, as rendered, as framed and as tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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
class Turn:
    """One message of a worked example, which follows the system text."""

    role: Role
    text: str


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
        system: the system text, without padding.
        turns: the messages of worked examples.
        lookups: every file that was looked for, in the order of the first look.
        used_variables: the names of variables that the templates read.
    """

    system: str
    turns: tuple[Turn, ...]
    lookups: tuple[Lookup, ...]
    used_variables: frozenset[str] = frozenset()


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
    """

    system: str
    tools: tuple[Mapping[str, Any], ...]
    turns: tuple[Turn, ...]
    following: tuple[Message, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def next_text(self) -> str:
        """The text of the first message after the prefix."""
        return str(self.following[0]["content"]) if self.following else ""

    def messages(self) -> list[dict[str, Any]]:
        """Returns the messages as chat templates take them; without system text there is no system message."""
        first = [{"role": "system", "content": self.system}] if self.system else []
        turns = [{"role": turn.role, "content": turn.text} for turn in self.turns]
        return [*first, *turns, *(dict(message) for message in self.following)]


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
    """

    framed_prefix: str
    ids: Sequence[int]
    unstable: int
    first_turn: int = 0
    refused_turns: tuple[str, ...] = ()
    change: TurnChange | None = None

    @property
    def tokens(self) -> int:
        """The number of static tokens."""
        return len(self.ids)
