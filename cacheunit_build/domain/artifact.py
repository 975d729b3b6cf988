"""An artifact: the frozen output of one prefix for one target, and what a build records of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cacheunit_build.domain.lock import ArtifactKey, LockEntry
    from cacheunit_build.domain.manifest import Variant
    from cacheunit_build.domain.prompt import Lookup, Tool
    from cacheunit_build.domain.source_map import SourceLine


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddingPlan:
    """How many static tokens an artifact is to have, and why.

    Attributes:
        action: what is done, in one word, such as `pad`, `aligned` or `below-minimum`.
        goal: the static tokens to pad to; None where nothing is padded.
        reason: the reason, as a sentence for people.
    """

    action: str
    goal: int | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRecord:
    """What a build records of one artifact, and can reuse while no input changes.

    Attributes:
        prefix: the prefix or variant.
        target: the target.
        entry: the lock entry.
        unit: the target's tokens in one cache unit; 0 where it has none, or it is unknown.
        plan: whether it is padded, and why.
        lookups: every file that was looked for to make it.
    """

    prefix: str
    target: str
    entry: LockEntry
    unit: int
    plan: PaddingPlan
    lookups: tuple[Lookup, ...]

    @property
    def margin(self) -> float:
        """The share by which the count may be off; 0 for an exact one."""
        return self.entry.margin

    @property
    def key(self) -> ArtifactKey:
        """The prefix and the target, which name the artifact."""
        return self.prefix, self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterTurns:
    """What later turns of a conversation do to the static tokens of a prefix.

    Attributes:
        first_turn: the tokens that requests of one turn share.
        refused: the shapes of later turns that the frame refuses, which were left out.
        shape: the first shape that changes the framed prefix; None where none does.
        source: the line of the chat template that prints what changes; None where none does, or for an encoder.
    """

    first_turn: int
    refused: tuple[str, ...] = ()
    shape: str | None = None
    source: SourceLine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A compiled artifact, with its bytes.

    Attributes:
        record: what a build records of it.
        text: the bytes of the text file: system text and padding.
        request: the bytes of the request fragment, as JSON.
        padding_text: the padding, as it is in the text.
        framed_prefix: the text that all requests begin with, as the model reads it.
        unstable: tokens after the static ones that change with what follows.
        later_turns: what later turns do to the static tokens; None where none were tried: for an estimate, and for a
            frame of fixed text, which later turns are assumed to leave as it is.
        literal: the count with control tokens in the text read as characters; None where the text has none.
        segments: the fingerprint of each part.
        variant: the variant that it was made from.
        tools: the tools that it was made from.
        options: the values of request options that are frozen in it, by name.
    """

    record: ArtifactRecord
    text: bytes
    request: bytes
    padding_text: str
    framed_prefix: str
    unstable: int
    later_turns: LaterTurns | None
    literal: int | None
    segments: Mapping[str, str]
    variant: Variant
    tools: tuple[Tool, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        """The prefix or variant."""
        return self.record.prefix

    @property
    def target(self) -> str:
        """The target."""
        return self.record.target

    @property
    def entry(self) -> LockEntry:
        """The lock entry."""
        return self.record.entry

    @property
    def unit(self) -> int:
        """The target's tokens in one cache unit; 0 where it has none, or it is unknown."""
        return self.record.unit

    @property
    def margin(self) -> float:
        """The share by which the count may be off; 0 for an exact one."""
        return self.entry.margin

    @property
    def key(self) -> ArtifactKey:
        """The prefix and the target, which name the artifact."""
        return self.record.key


def artifact_paths(prefix: str, target: str, folder: str) -> tuple[str, str]:
    """Returns the paths of an artifact's text and request fragment, relative to the project root."""
    return f"{folder}/{prefix}/{target}.txt", f"{folder}/{prefix}/{target}.json"
