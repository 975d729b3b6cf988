"""The frozen values that travel between the stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cacheunit_build.domain.errors import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cacheunit_build.domain.document import Document

AxisValue = str | int | bool
Role = Literal["user", "assistant"]
SpecialTokens = Literal["refuse", "allow"]
PaddingMode = Literal["auto", "always", "off"]
Counted = Literal["exact", "estimate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Padding:
    """What a manifest says of padding; with `floor`, a text below the minimum grows to it if `reuses` make that pay."""

    mode: PaddingMode = "auto"
    floor: bool = False
    reuses: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool in canonical form; `schema` is the JSON Schema of its arguments. `path` and `line` say where it stands."""

    name: str
    description: str
    schema: Mapping[str, Any]
    strict: bool | None
    path: str
    line: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleSource:
    """A worked turn as the manifest has it: its text, or the template that gives it."""

    role: Role
    text: str | None
    template: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A worked turn that follows the system text."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One prefix as its manifest describes it; `lines` gives the line of each key for messages."""

    name: str
    path: str
    description: str
    targets: tuple[str, ...] | None
    system: tuple[str, ...]
    tools: tuple[str, ...]
    examples: tuple[ExampleSource, ...]
    variables: Mapping[str, Any]
    data: Mapping[str, str]
    matrix: Mapping[str, tuple[AxisValue, ...]]
    padding: Padding
    special_tokens: SpecialTokens
    budget: int | None
    lines: Mapping[tuple[str | int, ...], int]

    def line(self, *keys: str | int) -> int | None:
        """The line of the value under these keys, or of the nearest one around it."""
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return self.lines.get(keys)

    def fault(self, message: str, *keys: str | int, hint: str | None = None) -> Fault:
        """A fault of the value under these keys."""
        return Fault(message=message, path=self.path, line=self.line(*keys), hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One combination of a manifest's matrix; the manifest itself where it has none."""

    name: str
    manifest: Manifest
    axes: Mapping[str, AxisValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """One file that a prefix looked for.

    `found` is the fingerprint of its bytes, None where there is no such file; `asked_by` is the file that named it.
    """

    path: str
    found: str | None
    asked_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """The texts of a variant, and every file that was looked for to make them, in the order of asking.

    `asked` are the names of variables that templates asked for.
    """

    system: str
    turns: tuple[Turn, ...]
    lookups: tuple[Lookup, ...]
    asked: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The project's settings: its folders, the targets of manifests that name none, and the tables of its own.

    `document` is the file they stand in, below the keys `under`.
    """

    path: str | None
    prefixes: str
    templates: str
    build: str
    targets: tuple[str, ...]
    tables: Mapping[str, Mapping[str, Any]]
    document: Document
    under: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """What a frame lays out for the model: the segments of a prefix, and the user's message that follows."""

    system: str
    tools: tuple[Mapping[str, Any], ...]
    turns: tuple[Turn, ...]
    user: str

    def messages(self) -> list[dict[str, Any]]:
        """The messages as chat templates take them; no system message where there is no system text."""
        first = [{"role": "system", "content": self.system}] if self.system else []
        turns = [{"role": turn.role, "content": turn.text} for turn in self.turns]
        return [*first, *turns, {"role": "user", "content": self.user}]


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticTokens:
    """Token ids that all requests made from one prefix share, whatever follows.

    `framed_prefix` is the text that they all begin with; `unstable` is how many tokens at its end may change with what follows, and
    are not among `ids`.
    """

    framed_prefix: str
    ids: Sequence[int]
    unstable: int

    @property
    def tokens(self) -> int:
        """How many tokens are static."""
        return len(self.ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddingPlan:
    """How many static tokens an artifact is to have, and why. `goal` is None where nothing is padded."""

    action: str
    goal: int | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LockEntry:
    """What the lock remembers of one artifact. Fingerprints are of the exact bytes, and of the static token ids.

    An estimate has no token ids: they are those of another vocabulary.
    """

    tokens: int
    counted: Counted
    padding: int
    unit: int
    text: str
    request: str
    token_ids: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRecord:
    """What became of one prefix for one target: its lock entry, plan, and every file that was looked for.

    `margin` is the share by which an estimate may be off.
    """

    prefix: str
    target: str
    entry: LockEntry
    margin: float
    plan: PaddingPlan
    lookups: tuple[Lookup, ...]

    @property
    def key(self) -> tuple[str, str]:
        """Prefix and target, which name an artifact."""
        return self.prefix, self.target

    @classmethod
    def of(cls, other: ArtifactRecord) -> ArtifactRecord:
        """The same, without what an artifact has besides."""
        return ArtifactRecord(
            prefix=other.prefix,
            target=other.target,
            entry=other.entry,
            margin=other.margin,
            plan=other.plan,
            lookups=other.lookups,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact(ArtifactRecord):
    """The frozen output of one prefix for one target.

    `framed_prefix` is the text in front of the user's words; `unstable` tokens after the static ones may change with what follows;
    `literal` is the count with control tokens in the text read as characters, where there are any; `segments` are the
    fingerprints of the parts. `variant` and `tools` are what it was made from, to ask again where its text came from.
    """

    text: bytes
    request: bytes
    padding_text: str
    framed_prefix: str
    unstable: int
    literal: int | None
    segments: Mapping[str, str]
    variant: Variant
    tools: tuple[Tool, ...]


def artifact_paths(prefix: str, target: str, folder: str) -> tuple[str, str]:
    """Where the text and the request fragment of an artifact lie, relative to the project root."""
    return f"{folder}/{prefix}/{target}.txt", f"{folder}/{prefix}/{target}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetIdentity:
    """What the lock remembers of one target: fingerprints of its rules and of its vocabulary."""

    profile: str
    tokenizer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """The lockfile: the identity of each target, and the entry of each artifact by prefix and target."""

    targets: Mapping[str, TargetIdentity]
    entries: Mapping[tuple[str, str], LockEntry]


DriftKind = Literal["added", "removed", "changed", "edited", "missing", "orphan", "tokenizer", "profile"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One difference between what the sources give now and what the lock or `build/` holds.

    An orphan is a file that no lock entry names: it has a `path`, and no prefix or target.
    """

    prefix: str
    target: str
    kind: DriftKind
    path: str | None = None
    because: tuple[str, ...] = ()
