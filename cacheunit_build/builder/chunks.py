"""Builds a whole project in chunks of manifests, by the workers that it is handed, and merges what they return."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from cacheunit_build.builder.chunk import ChunkTask
from cacheunit_build.builder.remote_results import cached_chunk
from cacheunit_build.builder.up_to_date import listed_only
from cacheunit_build.compiler.prefix import PrefixCompiler
from cacheunit_build.compiler.project import (
    ProjectRecords,
    all_faults,
    compiled_project,
    merged_records,
    plan_project,
    split_work,
)
from cacheunit_build.domain.artifact import locked_files
from cacheunit_build.domain.fingerprint import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cacheunit_build.builder.chunk import BuiltChunk, BuiltManifest
    from cacheunit_build.builder.remote_results import RemoteResults
    from cacheunit_build.builder.results import Gate
    from cacheunit_build.builder.up_to_date import Fingerprints
    from cacheunit_build.compiler.project import CompiledProject, ManifestPath, ProjectPlan, Reuse, ReusedRecords
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.lock import TargetIdentity
    from cacheunit_build.domain.protocols import Adapters, ProgressCallback, ProjectFiles
    from cacheunit_build.domain.selection import Selection
    from cacheunit_build.domain.staged_files import StagedFiles
    from cacheunit_build.domain.workers import Chunk, Workers

_FIRST_CHUNK = 8
"""Manifests of the first chunk: after it, the vocabularies are loaded, which some workers take over."""
_LARGEST_CHUNK = 64
_CHUNKS_PER_WORKER = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltProject:
    """What the chunks of a project gave.

    Attributes:
        records: what is recorded of the project, with every fault.
        staged: the artifact files that differ from those in the build folder; none where there is a fault.
        compiled: what was compiled and reused, with texts; None unless it was asked for.
        plan: what was to be built.
        compiler: reads the manifests of the project in this process.
    """

    records: ProjectRecords
    staged: tuple[StagedFiles, ...]
    compiled: CompiledProject | None
    plan: ProjectPlan
    compiler: PrefixCompiler

    @property
    def staged_paths(self) -> frozenset[str]:
        """The paths of the artifact files that differ."""
        return frozenset(path for item in self.staged for path in item.temporary)

    def fingerprints_of_staged(self) -> dict[str, str]:
        """Returns path -> fingerprint of the artifact files that differ."""
        paths, folder = self.staged_paths, self.records.settings.build
        files = (
            item for record in self.records.records for item in locked_files(record.key, record.entry, folder).items()
        )
        return {path: digest for path, digest in files if path in paths}


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """How a project is built. Only the gate decides what the result is.

    Attributes:
        gate: finds what must not be frozen; artifacts that are reused passed it when they were compiled.
        workers: build chunks of manifests; None to do so in this process.
        remote: takes results from a remote cache, and stores them there; None for none.
        progress: called with the number of compiled manifests and the number of all.
        keeps_texts: whether the artifacts that are compiled are kept with their texts; then they are built in this
            process.
    """

    gate: Gate | None = None
    workers: Workers | None = None
    remote: RemoteResults | None = None
    progress: ProgressCallback | None = None
    keeps_texts: bool = False


def build_chunks(  # noqa: PLR0913 - most are passed by name
    adapters: Adapters,
    selection: Selection | None,
    options: BuildOptions,
    *,
    stages: bool,
    fingerprint_of: Fingerprints,
    reuse: Reuse | None = None,
) -> BuiltProject:
    """Compiles what is selected and was not recorded, and stages the artifact files that differ.

    Args:
        adapters: the project.
        selection: which artifacts; all if None.
        options: how to build.
        stages: whether to stage files.
        fingerprint_of: returns the present fingerprint of a file.
        reuse: returns the record of the manifest at a path, if none of its inputs changed.

    Raises:
        CacheunitError: the settings or the selection are wrong, there is nothing to compile, or a worker was lost.
            Nothing stays staged.
    """
    plan = plan_project(adapters.files, selection)
    work, reused = split_work(plan, reuse)
    run = _Run(adapters, reused, options, ChunkTask(plan=plan, gate=options.gate, stages=stages), fingerprint_of)
    try:
        return run.build(work)
    except BaseException:
        run.discard()
        raise


class _Run:
    """One build of a project in chunks."""

    def __init__(
        self,
        adapters: Adapters,
        reused: ReusedRecords,
        options: BuildOptions,
        task: ChunkTask,
        fingerprint_of: Fingerprints,
    ) -> None:
        self._adapters = adapters
        self._files: ProjectFiles = adapters.files
        self._plan = task.plan
        self._reused = reused
        self._options = options
        self._task = task
        self._fingerprint_of = fingerprint_of
        self._merged = _MergedChunks()
        self._is_new = not self._files.has_folder(self._plan.settings.build)

    def build(self, work: Sequence[ManifestPath]) -> BuiltProject:
        """Builds the manifests that must be built."""
        workers = None if self._options.keeps_texts else self._options.workers
        compiled = self._build(work, self._options.remote, workers)
        if self._merged.saw_a_change:
            self.discard()
            self._merged = _MergedChunks()
            compiled = self._build(work, None, None)
        records = self._records()
        if records.faults:
            self.discard()
        staged = () if records.faults else tuple(self._merged.staged)
        return BuiltProject(records=records, staged=staged, compiled=compiled, plan=self._plan, compiler=self._compiler)

    def _build(
        self, work: Sequence[ManifestPath], remote: RemoteResults | None, workers: Workers | None
    ) -> CompiledProject | None:
        """Builds manifests once; returns what was compiled, with texts, if it is kept."""
        if remote is not None:
            found = remote.find(self._plan, self._compiler, work, self._fingerprint_of)
            self._merge((cached_chunk(item, self._task, self._compiler) for item in found), len(work))
            work = [manifest for manifest in work if manifest[1] not in self._merged.remotes]
        if workers is not None:
            with closing(workers.run(self._task, self._adapters, chunks_of(work, workers.count))) as chunks:
                self._merge(chunks, len(work))
            return None
        builder = self._task(self._adapters)
        builder.keeps = self._options.keeps_texts
        self._merge(map(builder, chunks_of(work, 1)), len(work))
        return compiled_project(self._plan, builder.compiler, builder.prefixes, self._reused) if builder.keeps else None

    @cached_property
    def _compiler(self) -> PrefixCompiler:
        """Reads manifests and loads targets in this process."""
        return PrefixCompiler(self._adapters, self._plan.settings, self._plan.targets, self._plan.selection)

    def discard(self) -> None:
        """Removes everything that was staged, also by workers that were lost."""
        self._files.discard(self._merged.staged)
        if self._task.stages:
            self._files.remove_leftovers(self._plan.settings.build, is_new=self._is_new)

    def _merge(self, chunks: Iterable[BuiltChunk], total: int) -> None:
        for chunk in chunks:
            contents = self._differing(chunk.staged.contents)
            if contents:
                self._merged.staged.append(self._files.stage(contents))
            self._merged.add(chunk)
            self._files.note_read(chunk.observed)
            if self._options.progress is not None:
                self._options.progress(len(self._merged.manifests), total)

    def _differing(self, contents: Mapping[str, bytes]) -> dict[str, bytes]:
        """Returns those of some artifact files that differ from the build folder."""
        return {path: data for path, data in contents.items() if self._written(path) != fingerprint(data)}

    @cached_property
    def _written(self) -> Fingerprints:
        """Returns the fingerprint of a file in the build folder, as it is now."""
        return listed_only(self._files.fingerprint, self._files.walk(self._plan.settings.build))

    def _records(self) -> ProjectRecords:
        """Returns what is recorded of the project, with every fault."""
        manifests = sorted(self._merged.manifests, key=lambda manifest: manifest.path)
        records = merged_records((record for manifest in manifests for record in manifest.records), self._reused)
        names = {*self._reused.names, *(name for manifest in manifests for name in manifest.names)}
        faults = [fault for manifest in manifests for fault in manifest.faults]
        faults = list(all_faults(self._plan, faults, records, names, self._files))
        return ProjectRecords(
            settings=self._plan.settings,
            selection=self._plan.selection,
            identities={**self._reused.identities, **self._merged.identities},
            records=records,
            manifests=self._plan.all_manifests,
            package_files=self._merged.package_files,
            complete={manifest.path: manifest.records for manifest in manifests if manifest.complete},
            faults=tuple(faults or self._merged.refused or self._merged.unwritable[:1]),
            remotes=self._merged.remotes,
        )


class _MergedChunks:
    """The results of all chunks so far.

    Attributes:
        manifests: the result of each manifest.
        identities: the identity of each target in use, by name.
        package_files: the sources of the files of models from outside of the project, with the sha256 of each file.
        staged: the artifact files that differ.
        refused: a fault for each thing that must not be frozen, in the order of files.
        unwritable: why files could not be staged.
        remotes: the URL of the remote cache that the result of a manifest is from, by its path.
        saw_a_change: whether two workers read different states of one file, which was edited meanwhile.
    """

    def __init__(self) -> None:
        self.manifests: list[BuiltManifest] = []
        self.identities: dict[str, TargetIdentity] = {}
        self.package_files: dict[str, str] = {}
        self.staged: list[StagedFiles] = []
        self.unwritable: list[Fault] = []
        self.remotes: dict[str, str] = {}
        self.saw_a_change = False
        self._refused: list[Fault] = []
        self._inputs: dict[str, str | None] = {}

    def add(self, chunk: BuiltChunk) -> None:
        """Adds the result of a chunk."""
        self.manifests += chunk.manifests
        self.remotes |= {manifest.path: manifest.remote for manifest in chunk.manifests if manifest.remote is not None}
        self.staged.append(replace(chunk.staged, contents={}))
        self.unwritable += chunk.unwritable
        self._refused += chunk.refused
        self.package_files |= chunk.package_files
        lookups = (item for one in chunk.manifests for record in one.records for item in record.lookups)
        for lookup in lookups:
            if self._inputs.setdefault(lookup.path, lookup.fingerprint) != lookup.fingerprint:
                self.saw_a_change = True
        for name, identity in chunk.identities.items():
            if self.identities.setdefault(name, identity) != identity:
                self.saw_a_change = True

    @property
    def refused(self) -> list[Fault]:
        """A fault for each thing that must not be frozen, in the order of files; several chunks may have one."""
        return sorted(dict.fromkeys(self._refused), key=lambda fault: (fault.path or "", fault.line or 0))


def chunks_of(work: Sequence[ManifestPath], workers: int) -> list[Chunk]:
    """Splits manifests into chunks: a small first one, then some for each worker, so that all end at about one time.

    Args:
        work: name and path of each manifest.
        workers: the number of workers.
    """
    size = min(_LARGEST_CHUNK, max(1, len(work) // (workers * _CHUNKS_PER_WORKER)))
    starts = range(_FIRST_CHUNK, len(work), size)
    return [chunk for chunk in (work[:_FIRST_CHUNK], *(work[start : start + size] for start in starts)) if chunk]
