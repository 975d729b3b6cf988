"""A version of a project of which every record is known, so that few artifacts need be compiled."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cacheunit_build.compiler.project import compile_project
from cacheunit_build.diff.snapshot import Snapshot
from cacheunit_build.domain.build_record import PrefixRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cacheunit_build.compiler.project import CompiledProject
    from cacheunit_build.domain.artifact import Artifact, ArtifactRecord
    from cacheunit_build.domain.lock import ArtifactKey
    from cacheunit_build.domain.protocols import CompileInputs

NOT_COMPILED = PrefixRecord(inputs={}, artifacts=(), identities={})
"""The record of a manifest that is left out."""


class KnownVersion(Snapshot):
    """One version of a project; its artifacts are compiled when they are asked for, each once.

    Args:
        compiled: the compiled project; what it reused has a record, and no text.
        inputs: what it was compiled from, which must still read the same.
        former: an earlier version, of which artifacts that did not change are taken over.
    """

    def __init__(self, compiled: CompiledProject, inputs: CompileInputs, former: KnownVersion | None = None) -> None:
        super().__init__(compiled, inputs.files)
        self.inputs_of_project = inputs
        self.token_ids: dict[ArtifactKey, Sequence[int]] = {}
        if former is not None:
            self.take_over(former)

    def ids(self, artifact: Artifact) -> Sequence[int]:
        """Returns the static token ids of an artifact."""
        if artifact.key not in self.token_ids:
            self.token_ids[artifact.key] = super().ids(artifact)
        return self.token_ids[artifact.key]

    def require(self, keys: Iterable[ArtifactKey]) -> None:
        """Compiles those of some artifacts that are in this version and were not compiled yet."""
        missing = {key for key in keys if key in self.records and key not in self.artifacts}
        if not missing:
            return
        folder = self.compiled.settings.prefixes
        paths = {f"{folder}/{prefix.partition('@')[0]}.yaml" for prefix, _ in missing}
        compiled = compile_project(self.inputs_of_project, reuse=lambda path: None if path in paths else NOT_COMPILED)
        self._add(artifact for artifact in compiled.artifacts if artifact.key in self.records)
        self.compiled = replace(self.compiled, targets={**compiled.targets, **self.compiled.targets})

    def take_over(self, other: KnownVersion) -> None:
        """Takes over the artifacts that are the same in another version, with their token ids and targets.

        Other settings may have other targets, so that nothing is taken over.
        """
        if self.compiled.settings != other.compiled.settings:
            return
        kept = {
            key: artifact
            for key, artifact in other.artifacts.items()
            if key not in self.artifacts and same_record(self.records.get(key), other.records[key])
        }
        self._add(kept.values())
        self.token_ids |= {key: ids for key, ids in other.token_ids.items() if key in kept}
        if kept:
            self.compiled = replace(self.compiled, targets={**other.compiled.targets, **self.compiled.targets})

    def _add(self, artifacts: Iterable[Artifact]) -> None:
        for artifact in artifacts:
            self.artifacts.setdefault(artifact.key, artifact)


def same_record(record: ArtifactRecord | None, former: ArtifactRecord) -> bool:
    """Returns whether two records of an artifact have the same entry, made from the same inputs."""
    if record is None or record is former:
        return record is not None
    return record.entry == former.entry and _inputs(record) == _inputs(former)


def _inputs(record: ArtifactRecord) -> list[tuple[str, str | None]]:
    return [(lookup.path, lookup.fingerprint) for lookup in record.lookups]
