"""An artifact: the frozen output of one prefix for one target, and what a build records of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.file_names import CACHED_CONTENT, REQUEST, TEXT
from cacheunit_build.domain.token_count import TokenScale

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cacheunit_build.domain.lock import ArtifactKey, LockEntry
    from cacheunit_build.domain.manifest import Variant
    from cacheunit_build.domain.prompt import Lookup, Tool
    from cacheunit_build.domain.recorded_count import EstimatedRequest
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
        cached_content: the bytes of the body that stores the prefix at the provider, as JSON; None for a target whose
            requests carry it.
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
        estimated: what a provider is asked to count of it; None for a target with the model's own vocabulary.
        scale: turns tokens of `framed_prefix` by the target's vocabulary into static tokens: others for an estimate.
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
    cached_content: bytes | None = None
    estimated: EstimatedRequest | None = None
    scale: TokenScale = field(default_factory=TokenScale)

    @property
    def content(self) -> bytes:
        """The file that has the tools, the system text and the examples, as JSON."""
        return self.request if self.cached_content is None else self.cached_content

    def files(self, folder: str) -> dict[str, bytes]:
        """Returns path -> bytes of its files in the build folder."""
        contents = (self.text, self.request, *([] if self.cached_content is None else [self.cached_content]))
        return dict(zip(locked_files(self.key, self.entry, folder), contents, strict=True))

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


def locked_files(key: ArtifactKey, entry: LockEntry, folder: str) -> dict[str, str]:
    """Returns path -> fingerprint of an artifact's files: text, request fragment, and cached content where it has some.

    Args:
        key: the prefix (or variant) and the target.
        entry: its entry in the lock.
        folder: the build folder; the paths are relative to the project root, as it is.
    """
    stem = f"{folder}/{key[0]}/{key[1]}"
    files = {f"{stem}{TEXT}": entry.text, f"{stem}{REQUEST}": entry.request}
    return files if entry.cached_content is None else {**files, f"{stem}{CACHED_CONTENT}": entry.cached_content}
