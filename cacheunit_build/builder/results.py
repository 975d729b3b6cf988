"""The results of `build` and `check` as frozen values for the reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from cacheunit_build.compiler.project import CompiledProject
    from cacheunit_build.domain.artifact import ArtifactRecord
    from cacheunit_build.domain.drift import Drift
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.lock import ArtifactKey
    from cacheunit_build.domain.protocols import CompileInputs
    from cacheunit_build.domain.source_map import SourceLine


class Gate(Protocol):
    """Finds what must not be frozen in an artifact."""

    def __call__(self, inputs: CompileInputs, compiled: CompiledProject) -> tuple[Fault, ...]:
        """Returns a fault for each thing that must not be frozen, in the artifacts that were compiled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputChange:
    """An input that changed since the lock was made.

    Attributes:
        path: the file, or a description of another input.
        old: its former fingerprint; None where it did not exist.
        new: its present fingerprint; None where it does not exist.
    """

    path: str
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildResult:
    """The result of a build.

    Attributes:
        records: the records of all artifacts, compiled or reused.
        written: the artifacts whose files or lock entry changed.
        removed: the artifacts that were removed.
        orphans: files in the build folder that no lock entry names.
        drift: the differences that made `--locked` refuse to build.
        faults: every fault; with one, nothing was written.
        is_partly_written: whether files were written all the same, since they could not be restored.
        notes: further remarks.
        lock: what was done with the lockfile.
        project: what was compiled and reused, where that was asked for; None where nothing was compiled, or something
            is wrong.
    """

    records: tuple[ArtifactRecord, ...] = ()
    written: frozenset[ArtifactKey] = frozenset()
    removed: tuple[ArtifactKey, ...] = ()
    orphans: tuple[Drift, ...] = ()
    drift: tuple[Drift, ...] = ()
    faults: tuple[Fault, ...] = ()
    is_partly_written: bool = False
    notes: tuple[str, ...] = ()
    lock: Literal["written", "unchanged", "refused"] = "refused"
    project: CompiledProject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """The first byte at which a rebuild differs, or why it failed.

    Attributes:
        conditions: what was different about the rebuild.
        path: the file that differs; None where the rebuild failed.
        offset: the index of its first differing byte.
        source: the line of a template that this byte comes from; None where it comes from no template.
        reason: why the rebuild failed; empty if it did not.
    """

    conditions: str
    path: str | None = None
    offset: int = 0
    source: SourceLine | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The result of the rebuilds.

    Attributes:
        rebuilds: the conditions of each rebuild.
        deviations: how rebuilds differ, at most one for each.
    """

    rebuilds: tuple[str, ...]
    deviations: tuple[Deviation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of a check.

    Attributes:
        verified: how many artifacts were compared.
        drift: every difference between sources, lock and build folder.
        faults: every fault.
        notes: further remarks.
        proof: the result of rebuilds; None if none was asked for.
        estimates: the compared artifacts whose number of tokens is an estimate.
        counts_required: whether an estimate fails the check.
    """

    verified: int = 0
    drift: tuple[Drift, ...] = ()
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()
    proof: Proof | None = None
    estimates: tuple[ArtifactRecord, ...] = ()
    counts_required: bool = False

    @property
    def ok(self) -> bool:
        """Whether sources, lock and build folder agree, and all rebuilds, and nothing is estimated that must not be."""
        if self.counts_required and self.estimates:
            return False
        return not self.drift and not self.faults and (self.proof is None or not self.proof.deviations)
