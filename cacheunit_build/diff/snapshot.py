"""One version of a project, compiled: its artifacts, their token ids, and where their text came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.compiler.project import source_maps
from cacheunit_build.domain.models import Artifact
from cacheunit_build.request_formats.fragments import wire_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cacheunit_build.compiler.artifact import LoadedTarget
    from cacheunit_build.compiler.project import CompiledProject
    from cacheunit_build.domain.models import ArtifactRecord
    from cacheunit_build.domain.protocols import ArtifactKey, SourceFiles
    from cacheunit_build.domain.source_map import SourceChain, SourceMaps


class Snapshot:
    """What a project's sources give, and the sources.

    Args:
        compiled: what was compiled; reused outcomes have no text.
        files: where it was compiled from.
    """

    def __init__(self, compiled: CompiledProject, files: SourceFiles) -> None:
        self.compiled = compiled
        self.files = files
        self.outcomes: dict[ArtifactKey, ArtifactRecord] = {outcome.key: outcome for outcome in compiled.artifacts}
        self._origins: dict[str, SourceMaps] = {}
        self._ids: dict[ArtifactKey, Sequence[int]] = {}
        self._blocks: dict[ArtifactKey, tuple[str, ...]] = {}

    def artifacts(self) -> Iterator[Artifact]:
        """Those that were compiled whole, in the order of their names."""
        return (outcome for outcome in self.compiled.artifacts if isinstance(outcome, Artifact))

    def artifact(self, key: ArtifactKey) -> Artifact | None:
        """The artifact of that key, if it was compiled whole."""
        outcome = self.outcomes.get(key)
        return outcome if isinstance(outcome, Artifact) else None

    def ready(self, artifact: Artifact) -> LoadedTarget:
        """The target of an artifact, as it was loaded."""
        return self.compiled.targets[artifact.target]

    def ids(self, artifact: Artifact) -> Sequence[int]:
        """The static token ids: those of the text in front of the user's words, less its unstable end."""
        if artifact.key not in self._ids:
            self._ids[artifact.key] = self.ready(artifact).tokenizer.encode(artifact.framed_prefix)[
                : artifact.entry.tokens
            ]
        return self._ids[artifact.key]

    def blocks(self, artifact: Artifact) -> tuple[str, ...]:
        """The content blocks of its request, in the order of the wire."""
        if artifact.key not in self._blocks:
            self._blocks[artifact.key] = wire_blocks(artifact.request)
        return self._blocks[artifact.key]

    def origins(self, artifact: Artifact) -> SourceMaps:
        """Where the texts of an artifact came from."""
        if artifact.prefix not in self._origins:
            self._origins[artifact.prefix] = source_maps(self.files, self.compiled.config, artifact.variant)
        return self._origins[artifact.prefix]

    def chain(self, artifact: Artifact, place: int) -> SourceChain:
        """Where the character at `place` of the system text came from; nowhere, if it is padding or past the end."""
        found = self.origins(artifact).system
        return found.at(place) if place < len(found.text) else ()

    def turns(self, artifact: Artifact) -> list[tuple[str, str]]:
        """Role and text of each worked turn."""
        roles = (example.role for example in artifact.variant.manifest.examples)
        return [(role, turn.text) for role, turn in zip(roles, self.origins(artifact).turns, strict=True)]

    def inputs(self, key: ArtifactKey) -> list[str]:
        """Every file that an artifact looked for, in order, and the settings."""
        outcome = self.outcomes.get(key)
        looked = [] if outcome is None else [lookup.path for lookup in outcome.lookups]
        settings = self.compiled.config.path
        return looked + ([] if settings is None or outcome is None else [settings])
