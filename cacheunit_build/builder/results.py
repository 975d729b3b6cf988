"""What a build and a check found, as frozen values for the reports. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cacheunit_build.compiler.artifact import LoadedTarget
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.models import ArtifactRecord, Drift, LockEntry
    from cacheunit_build.domain.protocols import ArtifactKey


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildResult:
    """What a build did. `written` are the artifacts whose files or entry changed; `drift` is why `--locked` refused.

    `replaced` are the locked entry and the text of artifacts that were written over; `targets` those that were loaded.
    """

    artifacts: tuple[ArtifactRecord, ...] = ()
    written: frozenset[ArtifactKey] = frozenset()
    removed: tuple[ArtifactKey, ...] = ()
    orphans: tuple[Drift, ...] = ()
    drift: tuple[Drift, ...] = ()
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()
    lock: Literal["written", "unchanged", "refused"] = "refused"
    replaced: Mapping[ArtifactKey, tuple[LockEntry, bytes]] = field(default_factory=dict)
    targets: Mapping[str, LoadedTarget] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputChange:
    """An input whose fingerprint is not what it was; None where the file was, or is, absent."""

    path: str
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """What `check` found: every drift, every fault; with neither, `verified` artifacts are as locked."""

    verified: int = 0
    drift: tuple[Drift, ...] = ()
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether sources, lock and `build/` agree."""
        return not self.drift and not self.faults
