"""The prompt of one prefix: tools, system text and worked examples, as rendered, as framed and as tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    strict: bool | None
    path: str
    line: int | None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The parts of a prefix, and the user's message after them, as a frame arranges them for the model.

    Attributes:
        system: the system text with its padding.
        tools: the tools in OpenAI's form, which chat templates take.
        turns: the messages of worked examples.
        user: the user's message.
    """

    system: str
    tools: tuple[Mapping[str, Any], ...]
    turns: tuple[Turn, ...]
    user: str

    def messages(self) -> list[dict[str, Any]]:
        """Returns the messages as chat templates take them; without system text there is no system message."""
        first = [{"role": "system", "content": self.system}] if self.system else []
        turns = [{"role": turn.role, "content": turn.text} for turn in self.turns]
        return [*first, *turns, {"role": "user", "content": self.user}]


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticTokens:
    """The tokens that all requests made from one prefix share, whatever the user says next.

    Attributes:
        framed_prefix: the text in front of the user's words, which all requests begin with.
        ids: the static token ids.
        unstable: tokens at the end of the framed prefix that change with what follows; they are not among `ids`.
    """

    framed_prefix: str
    ids: Sequence[int]
    unstable: int

    @property
    def tokens(self) -> int:
        """The number of static tokens."""
        return len(self.ids)
