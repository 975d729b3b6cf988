"""The contents of the lockfile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Literal

from cacheunit_build.domain.cache_rule import CacheRule, OptionEffect
from cacheunit_build.domain.constraints import VALIDATION, Limits
from cacheunit_build.domain.file_names import LOCK_VERSION
from cacheunit_build.domain.json_values import from_json

ArtifactKey = tuple[str, str]
"""The prefix (or variant) and the target that together name an artifact."""

Counted = Literal["exact", "recorded", "estimate"]

_FINGERPRINT = Limits(pattern=r"^sha256:[0-9a-f]{64}$")
_NOT_NEGATIVE = Limits(ge=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockEntry:
    """The entry of one artifact in the lock."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    tokens: Annotated[int, _NOT_NEGATIVE]
    """The number of static tokens."""
    counted: Counted
    """Whether that number is exact, recorded from the provider, or an estimate."""
    margin: Annotated[float, Limits(ge=0, lt=1)] = 0.0
    """The share by which that number may be off; 0 for an exact one."""
    markers: tuple[Annotated[int, _NOT_NEGATIVE], ...] = ()
    """How many static tokens stand in front of each cache marker in the fragment, in ascending order."""
    lifetimes: tuple[str, ...] = ()
    """The lifetime of each marker, or one for the whole prefix; empty where the fragment asks for none."""
    padding: Annotated[int, _NOT_NEGATIVE]
    """How many of the static tokens are padding."""
    text: Annotated[str, _FINGERPRINT]
    """The fingerprint of the text file."""
    request: Annotated[str, _FINGERPRINT]
    """The fingerprint of the request fragment."""
    cached_content: Annotated[str, _FINGERPRINT] | None = None
    """The fingerprint of the body that stores the prefix at the provider; None where requests carry it themselves."""
    token_ids: Annotated[str, _FINGERPRINT] | None = None
    """The fingerprint of the static token ids; None for an estimate, whose ids are of another vocabulary."""

    def __post_init__(self) -> None:
        """Raises ValueError where two values contradict each other, as no build locks them."""
        if self.padding > self.tokens:
            raise ValueError(f"has {self.padding} tokens of padding among {self.tokens}")
        if any(marker > self.tokens for marker in self.markers) or list(self.markers) != sorted(set(self.markers)):
            raise ValueError(f"has markers {list(self.markers)}, which do not ascend up to {self.tokens} tokens")
        if len(self.lifetimes) not in (0, 1, len(self.markers)):
            raise ValueError(f"has {len(self.lifetimes)} lifetimes for {len(self.markers)} markers")
        if self.margin and self.counted == "exact":
            raise ValueError("has a margin, but is counted exact")
        if (self.token_ids is None) != self.is_estimate and self.counted != "recorded":
            raise ValueError(f'is counted {self.counted}, which does not fit "token_ids"')

    @property
    def is_estimate(self) -> bool:
        """Whether the number of tokens is an estimate. Those of a lock of version 1 have no margin."""
        return self.counted == "estimate"


_ENTRY_KEYS = ("tokens", *sorted({item.name for item in fields(LockEntry)} - {"tokens"}))
"""The keys of an entry in the order of the file."""
_ALWAYS = frozenset(item.name for item in fields(LockEntry) if item.default is MISSING)
"""The keys that every entry has."""
_entry_values = attrgetter(*_ENTRY_KEYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedOption:
    """A request option that changes the front of a request, as the lock has it."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    effect: OptionEffect
    """What another value changes."""
    neutral: tuple[Any, ...] = ()
    """The values that change nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetIdentity:
    """The state of one target that the lock was made with: all that the numbers and bytes of its entries rest on."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    format: str
    """The name of the format of its requests."""
    cache: CacheRule
    """Its cache rule, without what decides no number: evidence, warm-up requests, best effort."""
    frame: Annotated[str, _FINGERPRINT]
    """The fingerprint of its frame."""
    tokenizer: Annotated[str, _FINGERPRINT]
    """The fingerprint of its vocabulary."""
    options: Mapping[str, LockedOption] = field(default_factory=dict)
    """The request options that change the front of a request, by name."""
    models: tuple[str, ...] = ()
    """The models that it stands for; empty for any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """The lockfile.

    Attributes:
        targets: the identity of each target, by name. Version 1 has only the vocabularies.
        entries: the entry of each artifact.
        version: the version of the file that it was read from.
    """

    targets: Mapping[str, TargetIdentity]
    entries: Mapping[ArtifactKey, LockEntry]
    version: int = LOCK_VERSION


def entry_from(data: object) -> LockEntry:
    """Returns the entry of an artifact in JSON values.

    Raises:
        ValueError: they are not such an entry.
    """
    return from_json(LockEntry, data)


def entry_data(entry: LockEntry) -> dict[str, Any]:
    """Returns an entry as JSON values, without what is at its default; `tokens` first, then by name."""
    items = zip(_ENTRY_KEYS, _entry_values(entry), strict=True)
    return {name: value for name, value in items if value or (name in _ALWAYS and value is not None)}


def identity_from(data: object) -> TargetIdentity:
    """Returns the identity of a target in JSON values, as `identity_data` returns them.

    Raises:
        ValueError: they are not such an identity.
    """
    return from_json(TargetIdentity, data)


def identity_data(identity: TargetIdentity) -> dict[str, Any]:
    """Returns the identity of a target as JSON values, without what is at its default."""
    options = {name: _set_fields(option) for name, option in sorted(identity.options.items())}
    values = {
        "cache": _set_fields(identity.cache),
        "format": identity.format,
        "frame": identity.frame,
        "models": list(identity.models),
        "options": options,
        "tokenizer": identity.tokenizer,
    }
    return {name: value for name, value in values.items() if value or name == "cache"}


def _set_fields(value: CacheRule | LockedOption) -> dict[str, Any]:
    """Returns the fields of a dataclass that are not at their default, by name; a tuple as a list."""
    items = {
        item.name: (getattr(value, item.name), {} if item.default_factory is dict else item.default)
        for item in fields(value)
    }
    return {
        name: list(item) if isinstance(item, tuple) else item
        for name, (item, default) in items.items()
        if item != default
    }
