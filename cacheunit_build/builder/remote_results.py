"""Takes the results of manifests from a remote cache instead of compiling them, and stores there what was compiled."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from cacheunit_build.builder.chunk import BuiltChunk, BuiltManifest
from cacheunit_build.domain.artifact import locked_files
from cacheunit_build.domain.build_record import prefix_record
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.remote_cache import CacheableManifest, CacheContext, CachedManifest, deciding_settings
from cacheunit_build.domain.staged_files import StagedFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from cacheunit_build.builder.chunk import ChunkTask
    from cacheunit_build.compiler.prefix import PrefixCompiler
    from cacheunit_build.compiler.project import ManifestPath, ProjectPlan, ProjectRecords
    from cacheunit_build.domain.lock import TargetIdentity
    from cacheunit_build.domain.remote_cache import RemoteCache

_AT_ONCE = 1_000
"""Manifests that are looked for at a time, since the results of all of them are in memory."""


class RemoteResults:
    """The results of one project in a remote cache.

    Args:
        remote: the remote cache.
        software: the identity of the software, by package.
    """

    def __init__(self, remote: RemoteCache, software: Mapping[str, str]) -> None:
        self._cache = remote
        self._software = software
        self._contexts: dict[tuple[int, ...], CacheContext] = {}  # by the `id` of each identity, which it keeps alive
        self._wanted: dict[str, CacheableManifest | None] = {}

    def find(
        self,
        plan: ProjectPlan,
        compiler: PrefixCompiler,
        work: Sequence[ManifestPath],
        fingerprint_of: Callable[[str], str | None],
    ) -> Iterator[CachedManifest]:
        """Yields the results that the remote cache has, each with a record that says where it is from.

        Args:
            plan: what is to be compiled.
            compiler: loads the targets of each manifest, whose identities are a part of its key.
            work: name and path of each manifest.
            fingerprint_of: returns the present fingerprint of a file; it is asked once for each.
        """
        fingerprint_of = cache(fingerprint_of)
        for start in range(0, len(work), _AT_ONCE):
            wanted = [self._cacheable(plan, compiler, *manifest) for manifest in work[start : start + _AT_ONCE]]
            found = self._cache.find([manifest for manifest in wanted if manifest is not None], fingerprint_of)
            for cached in found.values():
                yield replace(cached, record=replace(cached.record, remote=self._cache.url))

    def store(
        self, plan: ProjectPlan, compiler: PrefixCompiler, project: ProjectRecords, read: Callable[[str], bytes | None]
    ) -> None:
        """Stores the complete results of manifests that were compiled.

        Args:
            plan: what was to be compiled.
            compiler: as for `find`.
            project: what it gave, whose files are in the build folder now.
            read: returns the present bytes of a file. One that cannot be read is not stored; the build is over.
        """
        if self._cache.writes:
            self._cache.store(self._compiled(plan, compiler, project, read))

    def _compiled(
        self, plan: ProjectPlan, compiler: PrefixCompiler, project: ProjectRecords, read: Callable[[str], bytes | None]
    ) -> Iterator[CachedManifest]:
        for name, path in plan.manifests:
            if path not in project.complete or path in project.remotes:
                continue
            record = prefix_record(project.complete[path], project.identities)
            manifest = self._cacheable(plan, compiler, name, path)
            contents = None if manifest is None else _contents(record.locked_files(plan.settings.build), read)
            if manifest is not None and contents is not None:
                yield CachedManifest(manifest=manifest, record=record, contents=contents)

    def _cacheable(self, plan: ProjectPlan, compiler: PrefixCompiler, name: str, path: str) -> CacheableManifest | None:
        """Returns what a manifest is looked for by; None where it has a fault, or may depend on files not known."""
        if path not in self._wanted:
            known = compiler.identities_of(name, path)
            self._wanted[path] = known and CacheableManifest(
                name=name, path=path, fingerprint=known[0], context=self._context(plan, known[1])
            )
        return self._wanted[path]

    def _context(self, plan: ProjectPlan, identities: Mapping[str, TargetIdentity]) -> CacheContext:
        """Returns what decides the artifacts for these targets besides files, made once for each set of identities."""
        key = tuple(map(id, identities.values()))
        if key not in self._contexts:
            settings = deciding_settings(plan.settings)
            self._contexts[key] = CacheContext(software=self._software, settings=settings, identities=dict(identities))
        return self._contexts[key]


def _contents(files: Mapping[str, str], read: Callable[[str], bytes | None]) -> dict[str, bytes] | None:
    """Returns fingerprint -> bytes of files; None where one of them is not there, or not as it was written.

    Args:
        files: path -> fingerprint.
        read: returns the present bytes of a file.
    """
    try:
        contents = {fingerprint(data): data for data in map(read, files) if data is not None}
    except CacheunitError:
        return None
    return contents if contents.keys() == set(files.values()) else None


def cached_chunk(cached: CachedManifest, task: ChunkTask, compiler: PrefixCompiler) -> BuiltChunk:
    """Returns the result of a manifest in a remote cache as that of a chunk.

    Args:
        cached: the result.
        task: what is done with chunks.
        compiler: has loaded the targets of the manifest.
    """
    selection, folder = task.plan.selection, task.plan.settings.build
    artifacts = cached.record.artifacts
    records = tuple(record for record in artifacts if selection.includes_key(record.key))
    files = [path for record in records for path in locked_files(record.key, record.entry, folder)]
    contents = cached.files(folder) if task.stages else {}
    manifest = BuiltManifest(
        path=cached.manifest.path,
        records=records,
        names=tuple(dict.fromkeys(record.prefix for record in artifacts)),
        faults=(),
        complete=len(records) == len(artifacts),
        remote=cached.record.remote,
    )
    return BuiltChunk(
        manifests=(manifest,),
        identities=cached.record.identities,
        package_files=compiler.package_files,
        refused=(),
        staged=StagedFiles(contents={path: contents[path] for path in files if path in contents}),
        unwritable=(),
        observed={},
    )
