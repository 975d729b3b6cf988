"""The frozen values that travel between the stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cacheunit_build.errors import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cacheunit_build.document import Document

Axis = str | int | bool
RequestFormat = Literal["openai-chat", "openai-responses", "anthropic-messages", "text"]
CacheKind = Literal["blocks", "breakpoints", "tokens", "unknown"]
PaddingMode = Literal["auto", "always", "off"]
Counted = Literal["exact", "estimate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Padding:
    """What a manifest says of padding; with `floor`, a text below the minimum grows to it if `reuses` make that pay."""

    mode: PaddingMode = "auto"
    floor: bool = False
    reuses: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One prefix as its manifest describes it; `lines` gives the line of each key for messages."""

    name: str
    path: str
    description: str
    targets: tuple[str, ...] | None
    system: tuple[str, ...]
    variables: Mapping[str, Any]
    data: Mapping[str, str]
    matrix: Mapping[str, tuple[Axis, ...]]
    padding: Padding
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
    axes: Mapping[str, Axis]


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
    """The system text of a variant and every file that was looked for to make it, in the order of asking."""

    system: str
    lookups: tuple[Lookup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerSpec:
    """Where a target's vocabulary comes from: a file in a package, a file of the project, or a tiktoken encoding."""

    package: str | None = None
    file: str | None = None
    path: str | None = None
    encoding: str | None = None
    sha256: str | None = None

    def __str__(self) -> str:
        """The source as a person would name it."""
        if self.package is not None:
            return f"{self.package}/{self.file}"
        return str(self.path or self.encoding)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What the target puts before and after the system text."""

    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Why a number of a target is believed: documented, measured or inferred; when it was checked; where."""

    claim: str
    grade: Literal["documented", "measured", "inferred"]
    checked: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRule:
    """How a target reuses a prefix. `unit` and `minimum` are tokens (0: unknown, none); `read` and `write` are prices.

    Prices are in units of an uncached input token.
    """

    kind: CacheKind = "unknown"
    unit: int = 0
    minimum: int = 0
    read: float | None = None
    write: float | None = None
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a prefix is compiled for."""

    name: str
    description: str
    models: tuple[str, ...]
    request: RequestFormat
    tokenizer: TokenizerSpec
    frame: Frame
    cache: CacheRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
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
class Request:
    """A rendered prefix as its target sees it, still without padding."""

    format: RequestFormat
    system: str
    before: str
    after: str

    def framed(self, padding: str = "") -> str:
        """The text that the model reads, up to where the user's words begin."""
        return f"{self.before}{self.system}{padding}{self.after}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Static:
    """Token ids that all requests made from one framed text share, whatever follows.

    `soft` is how many tokens at the end of the framed text may change with what follows, and are not among `ids`.
    """

    ids: Sequence[int]
    soft: int

    @property
    def tokens(self) -> int:
        """How many tokens are static."""
        return len(self.ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many static tokens an artifact is to have, and why. `goal` is None where nothing is padded."""

    action: str
    goal: int | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What the lock remembers of one artifact. Fingerprints are of the exact bytes, and of the static token ids."""

    tokens: int
    counted: Counted
    padding: int
    unit: int
    text: str
    request: str
    token_ids: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """The frozen output of one prefix for one target."""

    prefix: str
    target: str
    entry: Entry
    text: bytes
    request: bytes
    padding_text: str
    soft: int
    plan: Plan
    lookups: tuple[Lookup, ...]

    @property
    def key(self) -> tuple[str, str]:
        """Prefix and target, which name an artifact."""
        return self.prefix, self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetIdentity:
    """What the lock remembers of one target: fingerprints of its rules and of its vocabulary."""

    profile: str
    tokenizer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """The lockfile: the identity of each target, and the entry of each artifact by prefix and target."""

    targets: Mapping[str, TargetIdentity]
    entries: Mapping[tuple[str, str], Entry]


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
