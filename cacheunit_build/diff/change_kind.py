"""Finds the kind of a change in words, and the place of one that is not in a text: a target, a manifest as a whole."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from cacheunit_build.diff.change_words import (
    PADDING,
    cache_words,
    changed_rule_fields,
    example_words,
    option_words,
    target_words,
    text_words,
    tool_words,
    variable_words,
)
from cacheunit_build.domain.source_map import SourceLine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.diff.change_location import SourceChanges
    from cacheunit_build.diff.results import FirstChange
    from cacheunit_build.diff.snapshot import Snapshot
    from cacheunit_build.domain.artifact import Artifact
    from cacheunit_build.domain.lock import ArtifactKey
    from cacheunit_build.domain.source_map import SourceChain

_OUTSIDE_OF_TEXT = ("frame", "cache", "padding")
"""The parts whose change the change of a target explains."""


class ChangeKinds:
    """Says what changed between two snapshots of a project.

    Args:
        new: the newer snapshot.
        old: the older snapshot.
        changes: the changes of the sources.
    """

    def __init__(self, new: Snapshot, old: Snapshot, changes: SourceChanges) -> None:
        self._new = new
        self._old = old
        self._changes = changes
        self.target_words = cache(self._words_of_target)

    def words(self, old: Artifact, new: Artifact, first: FirstChange) -> str:
        """Returns the kind of a change in words: that of its first part, and that of the target where it changed."""
        of_target = self.target_words(old.target, new.target)
        own = None if of_target is not None and first.part in _OUTSIDE_OF_TEXT else self._part_words(old, new, first)
        return "; ".join(filter(None, (own, of_target)))

    def target_chain(self, target: str) -> SourceChain:
        """Returns the lines of the present settings that have what changed of a target; none where it is not there."""
        old, new = (side.compiled.identities.get(target) for side in (self._old, self._new))
        if old is None or new is None or old == new:
            return ()
        keys: list[tuple[str, ...]] = [("cache", name) for name in changed_rule_fields(old, new)]
        keys = keys or [("frame",), ("tokenizer",)]
        return tuple(self._lines_of_target(target, keys))

    def place_of_artifact(self, key: ArtifactKey) -> SourceLine:
        """Returns the line that adds, removes or renames an artifact.

        That is the first line of a manifest that is new or was removed, else the changed line of its matrix or targets,
        there or in the settings.
        """
        new, old = self._new.artifacts.get(key), self._old.artifacts.get(key)
        snapshot = self._old if new is None else self._new
        path = snapshot.manifest_path(key)
        first = SourceLine(path=path, line=1)
        if path in self._changes.moved or not self._changes.in_both(path):
            return first
        new_lines, old_lines = (tuple(_lines_of_variant(artifact, path)) for artifact in (new, old))
        settings = snapshot.compiled.settings.path
        others = [path, *([] if settings is None else [settings])]
        return self._changes.locate(new_lines, old_lines, others, below=True) or first

    def _lines_of_target(self, target: str, keys: list[tuple[str, ...]]) -> Iterator[SourceLine]:
        settings = self._new.compiled.settings
        if settings.path is None:
            return
        names = [target]
        while names[-1] in settings.target:
            table = (*settings.table_keys, "target", names[-1])
            lines = [settings.document.line((*table, *own)) for own in keys]
            yield from (SourceLine(path=settings.path, line=line) for line in lines if line is not None)
            base = settings.target[names[-1]].get("extends")
            if base is None or base in names:
                return
            names.append(str(base))

    def _words_of_target(self, old: str, new: str) -> str | None:
        identities = self._old.compiled.identities[old], self._new.compiled.identities[new]
        return target_words(*identities)

    def _part_words(self, old: Artifact, new: Artifact, first: FirstChange) -> str:
        """Returns how the part changed in which two versions of an artifact first differ."""
        match first.part:
            case "padding":
                return PADDING
            case "tools":
                return tool_words(old.tools, new.tools)
            case "options":
                return option_words(old, new)
            case "examples":
                return example_words(self._old.turns(old), self._new.turns(new))
            case "cache":
                return cache_words(old, new)
            case "system":
                return self._text_words(old, new, first.source)
        return "frame of the prefix changed"

    def _text_words(self, old: Artifact, new: Artifact, source: SourceLine | None) -> str:
        """Returns how the system text changed: by a variable of the manifest, by a data file, or by an edit."""
        manifests = old.variant.manifest, new.variant.manifest
        if source is not None and source.path == manifests[0].path == manifests[1].path:
            words = variable_words(*manifests, self._changes.replaced_lines(source))
            if words is not None:
                return words
        texts = [
            side.text.decode().removesuffix(side.padding_text) if side.padding_text else side.text.decode()
            for side in (old, new)
        ]
        words = text_words(*texts)
        is_data = source is not None and source.path in manifests[1].data.values()
        return "data file edited" if is_data and words == "text edited" else words


def _lines_of_variant(artifact: Artifact | None, path: str) -> Iterator[SourceLine]:
    """Yields the lines of a manifest that make a variant and its targets: values of axes, the matrix, the targets."""
    if artifact is None:
        return
    manifest = artifact.variant.manifest
    keys = [manifest.axis_keys(axis, value) for axis, value in artifact.variant.axes.items()]
    for own in (*keys, ("matrix",), ("targets",)):
        line = manifest.line(*own)
        if line is not None:
            yield SourceLine(path=path, line=line)
