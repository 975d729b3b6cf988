"""The contents of the lockfile, and the differences between sources, lockfile and build folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from cacheunit_build.domain.constraints import VALIDATION, Limits

ArtifactKey = tuple[str, str]
"""The prefix (or variant) and the target that together name an artifact."""

Counted = Literal["exact", "estimate"]
DriftKind = Literal["added", "removed", "changed", "edited", "missing", "orphan", "tokenizer", "profile"]

_FINGERPRINT = Limits(pattern=r"^sha256:[0-9a-f]{64}$")
_NOT_NEGATIVE = Limits(ge=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockEntry:
    """The entry of one artifact in the lock."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    tokens: Annotated[int, _NOT_NEGATIVE]
    """The number of static tokens."""
    counted: Counted
    """Whether that number is exact or an estimate."""
    padding: Annotated[int, _NOT_NEGATIVE]
    """How many of the static tokens are padding."""
    unit: Annotated[int, _NOT_NEGATIVE]
    """The target's tokens in one cache unit; 0 where it has none, or it is unknown."""
    text: Annotated[str, _FINGERPRINT]
    """The fingerprint of the text file."""
    request: Annotated[str, _FINGERPRINT]
    """The fingerprint of the request fragment."""
    token_ids: Annotated[str, _FINGERPRINT] | None = None
    """The fingerprint of the static token ids; None for an estimate, whose ids are of another vocabulary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetIdentity:
    """The state of one target that the lock was made with."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    profile: Annotated[str, _FINGERPRINT]
    """The fingerprint of request format, frame and cache rule."""
    tokenizer: Annotated[str, _FINGERPRINT]
    """The fingerprint of the vocabulary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """The lockfile.

    Attributes:
        targets: the identity of each target, by name.
        entries: the entry of each artifact.
    """

    targets: Mapping[str, TargetIdentity]
    entries: Mapping[ArtifactKey, LockEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One difference between what the sources give now and what the lock or the build folder holds.

    Attributes:
        prefix: the prefix or variant; empty for an orphan.
        target: the target; empty for an orphan.
        kind: what differs. `orphan` is a file in the build folder that no lock entry names.
        path: the file in the build folder, where the difference is there.
        because: the sources that changed since the lock was made, where they are known.
    """

    prefix: str
    target: str
    kind: DriftKind
    path: str | None = None
    because: tuple[str, ...] = ()
