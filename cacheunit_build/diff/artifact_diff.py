"""Compares two versions of an artifact: where they begin to differ, what stays cached, which source line changed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from cacheunit_build.compiler.frozen_options import changed_options, frozen_options, hidden_effects, option_keys
from cacheunit_build.diff.change_kind import ChangeKinds
from cacheunit_build.diff.change_location import SourceChanges
from cacheunit_build.diff.change_words import RENAMED, RENAMED_AND_EDITED, count_words
from cacheunit_build.diff.changed_lines import changed_lines
from cacheunit_build.diff.moved_files import moved_files
from cacheunit_build.diff.results import FirstChange
from cacheunit_build.domain.cache_results import ChangeImpact
from cacheunit_build.domain.file_names import COUNTS_FILE
from cacheunit_build.domain.front_options import RESPONSE_SCHEMA
from cacheunit_build.domain.sequences import common_prefix
from cacheunit_build.domain.source_map import SourceLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cacheunit_build.diff.results import ChangedLines, Difference, Part
    from cacheunit_build.diff.snapshot import Snapshot
    from cacheunit_build.domain.artifact import Artifact
    from cacheunit_build.domain.lock import ArtifactKey, LockEntry
    from cacheunit_build.domain.source_map import SourceChain


class ArtifactDiff:
    """Compares the artifacts of two snapshots of a project.

    Args:
        new: the newer snapshot.
        old: the older snapshot.
    """

    def __init__(self, new: Snapshot, old: Snapshot) -> None:
        self._new = new
        self._old = old
        self._changes = SourceChanges(old.files.read, new.files.read, moved_files(old, new))
        self._kinds = ChangeKinds(new, old, self._changes)

    def changed(self, difference: Difference, old: Artifact, new: Artifact) -> Difference:
        """Returns a difference with what stays cached, the first change, cost and texts of a changed artifact."""
        target = self._new.target(new).target
        old_rule, old_entry = self._old.target(old).target.cache, _restated(old, new)
        if (old.text, old.request, old.cached_content) == (new.text, new.request, new.cached_content) and new.estimated:
            return self._with_other_count(difference, old, new)
        impact = self._impact(old, new)
        same_tokens = impact.first == old_entry.tokens == new.entry.tokens
        first = self._first_change(old, new, None if same_tokens else impact.first)
        return replace(
            difference,
            what=self._kinds.words(old, new, first),
            place=first.source,
            still_cached=impact.still_cached,
            recomputed=impact.recomputed,
            first=first,
            cost=target.cache.cost(impact.still_cached, (old_entry, old_rule), new.entry),
            price=target.price,
            text=(_shown_text(self._old, old), _shown_text(self._new, new)),
            why=impact.why,
        )

    def _with_other_count(self, difference: Difference, old: Artifact, new: Artifact) -> Difference:
        """Returns the difference of an artifact of the same bytes: another rule of its target, or another count."""
        tokens, target = new.entry.tokens, self._new.target(new).target
        difference = replace(difference, still_cached=tokens, recomputed=0)
        words = self._kinds.target_words(old.target, new.target)
        if words is None:
            place = self._changes.locate((), (), [COUNTS_FILE])
            return replace(difference, what=count_words(old.entry, new.entry), place=place)
        place = self._changes.locate(self._kinds.target_chain(new.target), (), self._new.inputs(new.key))
        cost = target.cache.cost(tokens, (_restated(old, new), self._old.target(old).target.cache), new.entry)
        return replace(difference, what=words, place=place, cost=cost, price=target.price)

    def renamed(self, difference: Difference, old: Artifact, new: Artifact) -> Difference:
        """Returns the difference of a renamed artifact, of which the request changed too, if not its content."""
        compared = self.changed(difference, old, new)
        same = self._old.blocks(old) == self._new.blocks(new)
        source = compared.place
        is_manifest = source is None or not self._changes.in_both(source.path)
        place = self.place(difference.key) if same or is_manifest else source
        return replace(compared, what=RENAMED if same else RENAMED_AND_EDITED, place=place)

    def added(self, difference: Difference) -> Difference:
        """Returns a difference with what old artifacts of the same target keep cached of an added artifact."""
        new = self._new.artifacts.get(difference.key)
        if new is None:
            return difference
        difference = replace(difference, place=self.place(difference.key))
        target = self._new.target(new).target
        others = [old for old in self._old.artifacts.values() if old.target == new.target]
        impacts = [(self._impact(old, new), old.prefix) for old in others]
        uncached = ChangeImpact(first=0, still_cached=0, recomputed=new.entry.tokens)
        best, shares = max(impacts, key=lambda item: _certainty(item[0]), default=(uncached, ""))
        return replace(
            difference,
            still_cached=best.still_cached,
            recomputed=best.recomputed,
            shares=shares if best.still_cached else None,
            cost=target.cache.cost(best.still_cached, None, new.entry),
            price=target.price,
            text=("", _shown_text(self._new, new)),
            why=best.why,
        )

    def place(self, key: ArtifactKey) -> SourceLine:
        """Returns the line that adds, removes or renames an artifact: in its manifest, or in the settings."""
        return self._kinds.place_of_artifact(key)

    def lines(
        self, differences: Iterable[Difference], sources: Mapping[str, tuple[ArtifactKey, ...]]
    ) -> dict[SourceLine, ChangedLines]:
        """Returns the lines that changed at the place of each difference, and at further places of changed sources.

        The sources that only added, removed or renamed artifacts use have no further places. In a new file, the lines
        are those of the rendered text, since the file may only have been moved.
        """
        differences = list(differences)
        edited = {item.key for item in differences if item.first is not None}
        lines: dict[SourceLine, ChangedLines] = {}
        for path, keys in sources.items():
            if edited.intersection(keys):
                lines |= self._changes.places(path)
        for item in differences:
            if item.place is None or (item.place in lines and self._changes.in_both(item.place.path)):
                continue
            hunk = self._changes.hunk_place(item.place)
            if hunk is not None:
                lines.pop(hunk, None)
            if item.first is not None and item.text is not None:
                lines |= dict(zip([item.place], changed_lines(*item.text), strict=False))
            elif hunk is not None and self._changes.in_both(hunk.path):
                lines[item.place] = self._changes.places(hunk.path)[hunk]
        return lines

    def sources(self, keys: Iterable[ArtifactKey]) -> dict[str, tuple[ArtifactKey, ...]]:
        """Returns the changed sources, each with the artifacts among `keys` that use it."""
        users: dict[str, list[ArtifactKey]] = {}
        for key in keys:
            for path in dict.fromkeys([*self._new.inputs(key), *self._old.inputs(key)]):
                if self._changes.changed(path):
                    users.setdefault(path, []).append(key)
        return {path: tuple(users[path]) for path in sorted(users)}

    def _impact(self, old: Artifact, new: Artifact) -> ChangeImpact:
        """Returns what a cache that holds the old artifact serves of the new one."""
        target = self._new.target(new)
        identities = self._new.compiled.identities, self._old.compiled.identities
        if identities[0][new.target].tokenizer != identities[1][old.target].tokenizer:
            return ChangeImpact(first=0, still_cached=0, recomputed=new.entry.tokens)
        ids = self._old.ids(old), self._new.ids(new)
        if self._key(self._old, old) != self._key(self._new, new):
            return ChangeImpact(first=new.scale(common_prefix(*ids)), still_cached=0, recomputed=new.entry.tokens)
        entry = _restated(old, new)
        found = self._markers_found(old, new, entry)
        impact = target.target.cache.impact(entry, new.entry, ids, found=found, scale=new.scale)
        return self._with_options(impact, old, new)

    def _key(self, snapshot: Snapshot, artifact: Artifact) -> str | None:
        """Returns the value by which requests with an artifact choose a cache; None where they all share one."""
        return artifact.variant.manifest.cache_key if snapshot.target(artifact).target.cache.key else None

    def _markers_found(self, old: Artifact, new: Artifact, entry: LockEntry) -> tuple[int, ...]:
        """Returns the old markers whose entries a request with the new artifact finds, as tokens in front of them.

        The blocks in front of such a marker are the same, and it is near enough to a marker of the new request.

        Args:
            old: the old artifact.
            new: the new artifact.
            entry: the lock entry of the old one, as the new version counts.
        """
        same = common_prefix(self._old.blocks(old), self._new.blocks(new))
        loaded, ends = self._new.target(new), self._new.marked_blocks(new)
        look_back = loaded.request_format.look_back.get(loaded.target.cache.marker or "", 0)
        return tuple(
            tokens
            for marked, tokens in zip(self._old.marked_blocks(old), entry.markers, strict=True)
            if marked <= same and any(0 <= end - marked < look_back for end in ends)
        )

    def _with_options(self, impact: ChangeImpact, old: Artifact, new: Artifact) -> ChangeImpact:
        """Returns an impact with what changed options do to the cache, where the token ids do not show it."""
        sides = [
            frozen_options(artifact.variant.manifest, snapshot.target(artifact).target)
            for snapshot, artifact in ((self._old, old), (self._new, new))
        ]
        effects = hidden_effects(*sides)
        if effects & {"front", "cache"}:
            first = 0 if "front" in effects else impact.first
            return ChangeImpact(first=first, still_cached=0, recomputed=new.entry.tokens)
        if effects:
            why = "the options changed, and where they change the prefix is unknown"
            return replace(impact, still_cached=None, recomputed=None, why=why)
        return impact

    def _first_change(self, old: Artifact, new: Artifact, token: int | None) -> FirstChange:
        old_text, new_text = old.text.decode(), new.text.decode()
        offset = common_prefix(old_text, new_text)
        part = self._part(old, new, offset)
        unit = 0 if new.margin else new.unit
        return FirstChange(
            part=part,
            byte=len(new_text[:offset].encode()) if part in ("system", "padding") else None,
            token=token,
            unit=None if token is None or not unit else token // unit,
            source=self._source(old, new, part, offset),
        )

    def _part(self, old: Artifact, new: Artifact, offset: int) -> Part:
        """Returns the part of the request in which the model first reads something else.

        Padding, whose length depends on everything else, is named only where nothing else changed.
        """
        ends = [len(artifact.text.decode()) - len(artifact.padding_text) for artifact in (old, new)]
        differs = self._system_text_differs_first(old, new)
        in_padding = all(offset >= end for end in ends)
        if differs and not in_padding:
            return "system"
        if old.tools != new.tools:
            return "tools"
        if old.options != new.options:
            return "options"
        if self._old.turns(old) != self._new.turns(new):
            return "examples"
        if differs:
            return "padding"
        same_text = old.framed_prefix == new.framed_prefix and self._old.ids(old) == self._new.ids(new)
        same_format = self._old.target(old).target.request == self._new.target(new).target.request
        return "cache" if same_text and same_format and old.content != new.content else "frame"

    def _system_text_differs_first(self, old: Artifact, new: Artifact) -> bool:
        """Returns whether the system text differs, and nothing in front of it in the framed prefix does."""
        old_text, new_text = old.text.decode(), new.text.decode()
        if old_text == new_text:
            return False
        start = new.framed_prefix.find(new_text.strip() or "\0")
        if start >= 0 and common_prefix(old.framed_prefix, new.framed_prefix) < start:
            return False
        return old.tools == new.tools or start == old.framed_prefix.find(old_text.strip())

    def _source(self, old: Artifact, new: Artifact, part: Part, offset: int) -> SourceLine | None:
        """Returns the line of the present sources that made the change."""
        others = [new.variant.manifest.path, *self._new.inputs(new.key), *self._old.inputs(old.key)]
        if part == "tools":
            return self._changes.locate(_tool_chain(old, new), (), others, below=True)
        if part == "examples":
            return self._changes.locate(*self._turn_chains(old, new), others)
        if part == "options":
            return self._changes.locate(_option_chain(old, new), (), others, below=True)
        if part == "frame":
            frame = [lookup.path for lookup in self._new.target(new).lookups]
            in_settings = () if any(map(self._changes.changed, frame)) else self._kinds.target_chain(new.target)
            return self._changes.locate(in_settings, (), [*frame, *reversed(others)])
        return self._changes.locate(self._new.chain(new, offset), self._old.chain(old, offset), others)

    def _turn_chains(self, old: Artifact, new: Artifact) -> tuple[SourceChain, SourceChain]:
        """Returns the source lines of the first different character in the examples, in the new and the old version."""
        turns = self._new.turns(new), self._old.turns(old)
        index = common_prefix(*turns)
        texts = [side[index].text if index < len(side) else "" for side in turns]
        offset = common_prefix(*texts)
        manifest = new.variant.manifest
        keys = ("examples", index, "tool_calls") if len(set(texts)) == 1 else ("examples", index)
        listed = SourceLine(path=manifest.path, line=manifest.line(*keys) or 1)
        maps = self._new.maps(new).turns[index : index + 1], self._old.maps(old).turns[index : index + 1]
        new_chains, old_chains = ([found.at(offset) for found in side if offset < len(found.text)] for side in maps)
        return (*(new_chains[0] if new_chains else ()), listed), (old_chains[0] if old_chains else ())


def _restated(old: Artifact, new: Artifact) -> LockEntry:
    """Returns the lock entry of the old version with tokens as the new version counts them.

    An estimate of 1,000 tokens is restated as 1,300 where the new version has a recorded count of 1.3 for each.
    """
    if old.scale == new.scale and old.margin == new.margin:
        return old.entry
    markers: list[int] = []
    for marker in old.entry.markers:
        after = markers[-1] + 1 if markers else 0
        markers.append(max(after, new.scale(old.scale.inverse(marker))))
    tokens = max([new.scale(old.scale.inverse(old.entry.tokens)), *markers])
    return replace(old.entry, tokens=tokens, markers=tuple(markers), margin=new.margin)


def _shown_text(snapshot: Snapshot, artifact: Artifact) -> str:
    """Returns what the model reads of an artifact, for people: the system text without padding, tools, examples."""
    system = artifact.text.decode().removesuffix(artifact.padding_text)
    tools = [
        f"\ntool {tool.name}: {tool.description}\n{json.dumps(tool.schema, indent=2, ensure_ascii=False)}\n"
        for tool in artifact.tools
    ]
    examples = [f"\n{turn.role}: {turn.content}\n" for turn in snapshot.turns(artifact)]
    return "".join([system, *tools, *examples])


def _certainty(impact: ChangeImpact) -> tuple[int, bool]:
    """Returns the order of impacts: the most tokens that are known to be cached, then unknown ones, then none."""
    return impact.still_cached or 0, impact.still_cached is None


def _option_chain(old: Artifact, new: Artifact) -> SourceChain:
    """Returns the line of the first option that changed in the manifest, or of the key of all options.

    A response schema is in front of it.
    """
    manifest = new.variant.manifest
    keys = option_keys(manifest, changed_options(old.options, new.options)[0])
    schema = manifest.response_schema if keys[1:2] == (RESPONSE_SCHEMA,) else None
    first = () if schema is None else (SourceLine(path=schema.path, line=schema.line or 1),)
    return (*first, SourceLine(path=manifest.path, line=manifest.line(*keys) or 1))


def _tool_chain(old: Artifact, new: Artifact) -> SourceChain:
    """Returns the lines of the first tool that changed, and of the manifest's list of tools."""
    manifest = new.variant.manifest
    listed = SourceLine(path=manifest.path, line=manifest.line("tools") or 1)
    index = common_prefix(old.tools, new.tools)
    return (*(SourceLine(path=tool.path, line=tool.line or 1) for tool in new.tools[index : index + 1]), listed)
