"""Builds chunks of manifests: compiles them, looks for what must not be frozen, and stages the files that differ.

A chunk is built in the process of the command, in another one, or on another machine: its result is a value that only
depends on the sources, the targets and, for the files that differ, on the build folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from cacheunit_build.builder.up_to_date import listed_only
from cacheunit_build.compiler.prefix import PrefixCompiler
from cacheunit_build.compiler.project import ReusedRecords, compiled_project
from cacheunit_build.domain.artifact import locked_files
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.staged_files import StagedFiles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cacheunit_build.builder.results import Gate
    from cacheunit_build.compiler.prefix import CompiledPrefix
    from cacheunit_build.compiler.project import ProjectPlan
    from cacheunit_build.domain.artifact import ArtifactRecord
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.lock import TargetIdentity
    from cacheunit_build.domain.protocols import ObservedFile
    from cacheunit_build.domain.workers import Chunk, WorkerInputs

    _Staging = tuple[StagedFiles, tuple[Fault, ...]]


_NOTHING_STAGED: _Staging = (StagedFiles(), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltManifest:
    """The result of building one manifest.

    Attributes:
        path: the manifest file.
        records: the records of the artifacts of the selected variants and targets.
        names: the names of all its variants.
        faults: every fault.
        complete: whether all variants and targets were compiled without faults, from files that are all known.
        remote: the URL of the remote cache that it is from; None where it was compiled.
    """

    path: str
    records: tuple[ArtifactRecord, ...]
    names: tuple[str, ...]
    faults: tuple[Fault, ...]
    complete: bool
    remote: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltChunk:
    """The result of building some manifests.

    Attributes:
        manifests: the result of each manifest.
        identities: the identity of each target in use, by name.
        package_files: the sources of the files of models from outside of the project, with the sha256 of each file.
        refused: a fault for each thing that must not be frozen.
        staged: the artifact files that differ from those in the build folder.
        unwritable: why files could not be staged.
        observed: path -> fingerprint and stat of the project's files that were read.
    """

    manifests: tuple[BuiltManifest, ...]
    identities: Mapping[str, TargetIdentity]
    package_files: Mapping[str, str]
    refused: tuple[Fault, ...]
    staged: StagedFiles
    unwritable: tuple[Fault, ...]
    observed: Mapping[str, ObservedFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkTask:
    """What is done with every chunk; it can be sent to other processes.

    Attributes:
        plan: what is compiled.
        gate: finds what must not be frozen.
        stages: whether artifact files are staged; otherwise they are only compiled.
    """

    plan: ProjectPlan
    gate: Gate | None
    stages: bool

    def __call__(self, inputs: WorkerInputs) -> ChunkBuilder:
        """Returns what builds chunks in this process."""
        return ChunkBuilder(self, inputs)


class ChunkBuilder:
    """Builds chunks in one process.

    Args:
        task: what is done with each chunk.
        inputs: the files of the project, and the loaders of vocabularies and encoders.

    Attributes:
        compiler: compiles the manifests.
        prefixes: what was compiled so far, kept only if `keeps`.
        keeps: whether what was compiled is kept.
    """

    def __init__(self, task: ChunkTask, inputs: WorkerInputs) -> None:
        plan = task.plan
        self.compiler = PrefixCompiler(inputs, plan.settings, plan.targets, plan.selection)
        self.prefixes: list[CompiledPrefix] = []
        self.keeps = False
        self._task = task
        self._inputs = inputs
        self._folder = plan.settings.build
        self._written = listed_only(inputs.files.fingerprint, inputs.files.walk(self._folder)) if task.stages else None
        self._observed = 0

    def __call__(self, chunk: Chunk) -> BuiltChunk:
        """Builds some manifests, going on after faults."""
        prefixes = [self.compiler.compile(*manifest) for manifest in chunk]
        if self.keeps:
            self.prefixes += prefixes
        refused = self._refused(prefixes)
        staged, unwritable = _NOTHING_STAGED
        if not refused and not any(prefix.faults for prefix in prefixes):
            staged, unwritable = self._stage(prefixes)
        return BuiltChunk(
            manifests=tuple(map(_without_texts, prefixes)),
            identities=self.compiler.identities,
            package_files=self.compiler.package_files,
            refused=refused,
            staged=staged,
            unwritable=unwritable,
            observed=self._newly_observed(),
        )

    def _refused(self, prefixes: Sequence[CompiledPrefix]) -> tuple[Fault, ...]:
        """Returns what must not be frozen in what was compiled, or why that cannot be told."""
        if self._task.gate is None:
            return ()
        compiled = compiled_project(self._task.plan, self.compiler, prefixes, ReusedRecords())
        try:
            return self._task.gate(self._inputs, compiled)
        except CacheunitError as error:
            return error.faults

    def _stage(self, prefixes: Sequence[CompiledPrefix]) -> _Staging:
        """Stages the artifact files that differ from those in the build folder; or returns why that failed."""
        if self._written is None:
            return _NOTHING_STAGED
        changed: dict[str, bytes] = {}
        try:
            for artifact in (item for prefix in prefixes for item in prefix.artifacts):
                expected = locked_files(artifact.key, artifact.entry, self._folder)
                contents = artifact.files(self._folder)
                changed |= {path: data for path, data in contents.items() if self._written(path) != expected[path]}
            return self._inputs.files.stage(changed), ()
        except CacheunitError as error:
            return StagedFiles(), error.faults

    def _newly_observed(self) -> dict[str, ObservedFile]:
        """Returns what was observed since the chunk before."""
        observed = self._inputs.files.observed()
        start, self._observed = self._observed, len(observed)
        return dict(islice(observed.items(), start, None))


def _without_texts(prefix: CompiledPrefix) -> BuiltManifest:
    return BuiltManifest(
        path=prefix.path,
        records=prefix.records,
        names=tuple(variant.name for variant in prefix.variants),
        faults=prefix.faults,
        complete=prefix.complete,
    )
