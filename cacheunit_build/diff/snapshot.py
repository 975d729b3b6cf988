"""A snapshot: one version of a project, compiled, with the token ids and the source maps of its artifacts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from cacheunit_build.compiler.project import source_maps
from cacheunit_build.domain.file_names import manifest_path
from cacheunit_build.parsing.examples import example_turns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cacheunit_build.compiler.loaded_target import LoadedTarget
    from cacheunit_build.compiler.project import CompiledProject
    from cacheunit_build.domain.artifact import Artifact, ArtifactRecord
    from cacheunit_build.domain.lock import ArtifactKey
    from cacheunit_build.domain.prompt import Turn
    from cacheunit_build.domain.protocols import SourceFiles
    from cacheunit_build.domain.source_map import SourceChain, SourceMaps


class Snapshot:
    """One version of a project.

    Args:
        compiled: the compiled project; what it reused has no text.
        files: the files that it was compiled from.

    Attributes:
        records: the record of each artifact, compiled or reused.
        artifacts: each compiled artifact.
    """

    def __init__(self, compiled: CompiledProject, files: SourceFiles) -> None:
        self.compiled = compiled
        self.files = files
        self.records: dict[ArtifactKey, ArtifactRecord] = {record.key: record for record in compiled.records}
        self.artifacts: dict[ArtifactKey, Artifact] = {artifact.key: artifact for artifact in compiled.artifacts}
        self._maps: dict[str, SourceMaps] = {}
        self._ids: dict[ArtifactKey, Sequence[int]] = {}
        self._blocks: dict[ArtifactKey, tuple[str, ...]] = {}
        self._marked_blocks: dict[ArtifactKey, tuple[int, ...]] = {}

    def target(self, artifact: Artifact) -> LoadedTarget:
        """Returns the target of an artifact, loaded."""
        return self.compiled.targets[artifact.target]

    def sources(self) -> dict[str, str]:
        """Returns path -> fingerprint of each file that the artifacts are made from."""
        lookups = {lookup.path: lookup.fingerprint for record in self.records.values() for lookup in record.lookups}
        return {path: found for path, found in lookups.items() if found is not None}

    def manifest_path(self, key: ArtifactKey) -> str:
        """Returns the path of the manifest of an artifact."""
        return manifest_path(self.compiled.settings.prefixes, key[0])

    def ids(self, artifact: Artifact) -> Sequence[int]:
        """Returns the static token ids of an artifact."""
        if artifact.key not in self._ids:
            ids = self.target(artifact).tokenizer.encode(artifact.framed_prefix)
            static = len(ids) if artifact.estimated is not None else artifact.entry.tokens
            self._ids[artifact.key] = ids[:static]
        return self._ids[artifact.key]

    def blocks(self, artifact: Artifact) -> tuple[str, ...]:
        """Returns the content blocks of an artifact's request, in the order that providers read them."""
        if artifact.key not in self._blocks:
            request_format = self.target(artifact).request_format
            self._blocks[artifact.key] = request_format.content_blocks(json.loads(artifact.content))
        return self._blocks[artifact.key]

    def marked_blocks(self, artifact: Artifact) -> tuple[int, ...]:
        """Returns how many of the content blocks of an artifact's request end with each of its cache markers."""
        if artifact.key not in self._marked_blocks:
            request_format = self.target(artifact).request_format
            self._marked_blocks[artifact.key] = request_format.marked_blocks(json.loads(artifact.request))
        return self._marked_blocks[artifact.key]

    def maps(self, artifact: Artifact) -> SourceMaps:
        """Returns the source maps of an artifact's texts."""
        if artifact.prefix not in self._maps:
            self._maps[artifact.prefix] = source_maps(self.files, self.compiled.settings, artifact.variant)
        return self._maps[artifact.prefix]

    def chain(self, artifact: Artifact, offset: int) -> SourceChain:
        """Returns the source lines of the character at `offset` of the system text; none for padding and the end."""
        system = self.maps(artifact).system
        return system.at(offset) if offset < len(system.text) else ()

    def turns(self, artifact: Artifact) -> tuple[Turn, ...]:
        """Returns the messages of an artifact's worked examples."""
        texts = [turn.text for turn in self.maps(artifact).turns]
        return example_turns(artifact.variant.manifest.examples, texts)

    def inputs(self, key: ArtifactKey) -> list[str]:
        """Returns every file that was looked for to make an artifact, in order, then the settings; none if unknown."""
        record = self.records.get(key)
        if record is None:
            return []
        settings = self.compiled.settings.path
        return [lookup.path for lookup in record.lookups] + ([] if settings is None else [settings])
