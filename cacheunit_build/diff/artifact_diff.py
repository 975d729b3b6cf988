"""Two versions of an artifact: where they begin to differ, what stays warm, and which source line did it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cacheunit_build.compiler.padding_plan import Count
from cacheunit_build.diff.change_location import SourceChanges
from cacheunit_build.diff.results import FirstChange
from cacheunit_build.domain.cache_rule import ChangeImpact, Cost
from cacheunit_build.domain.sequences import common_prefix
from cacheunit_build.domain.source_map import SourceLine

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cacheunit_build.diff.results import Difference, Part
    from cacheunit_build.diff.snapshot import Snapshot
    from cacheunit_build.domain.cache_rule import CacheRule
    from cacheunit_build.domain.models import Artifact
    from cacheunit_build.domain.protocols import ArtifactKey
    from cacheunit_build.domain.source_map import SourceChain


class ArtifactDiff:
    """Compares artifacts of two versions of a project.

    Args:
        now: the newer version.
        then: the older one.
    """

    def __init__(self, now: Snapshot, then: Snapshot) -> None:
        self._now = now
        self._then = then
        self._changes = SourceChanges(then.files.read, now.files.read)

    def changed(self, difference: Difference, old: Artifact, new: Artifact) -> Difference:
        """The difference, with all that the two versions of its artifact tell."""
        target = self._now.ready(new).target
        found = self._impact(old, new)
        same = found.first == old.entry.tokens == new.entry.tokens
        return replace(
            difference,
            still_cached=found.still_cached,
            recomputed=found.recomputed,
            first=self._first(old, new, None if same else found.first),
            cost=_cost(found.still_cached, old.entry.tokens, new, target.cache),
            price=target.price,
            text=(old.text.decode(), new.text.decode()),
            why=None if found.still_cached is not None else _unknown(new, target.cache),
        )

    def added(self, difference: Difference) -> Difference:
        """An artifact that was not there, with what others of its target left in the cache for it."""
        new = self._now.artifact(difference.key)
        if new is None:
            return difference
        target = self._now.ready(new).target
        found = [(self._impact(old, new), old.prefix) for old in self._then.artifacts() if old.target == new.target]
        cold = ChangeImpact(first=0, still_cached=0, recomputed=new.entry.tokens)
        best, shares = max(found, key=lambda item: item[0].still_cached or 0, default=(cold, ""))
        return replace(
            difference,
            still_cached=best.still_cached,
            recomputed=best.recomputed,
            shares=shares if best.still_cached else None,
            cost=_cost(best.still_cached, 0, new, target.cache),
            price=target.price,
            text=("", new.text.decode()),
            why=None if best.still_cached is not None else _unknown(new, target.cache),
        )

    def sources(self, keys: Iterable[ArtifactKey]) -> dict[str, tuple[ArtifactKey, ...]]:
        """The sources that are not as they were -> those of the artifacts that looked for them."""
        users: dict[str, list[ArtifactKey]] = {}
        for key in keys:
            for path in dict.fromkeys([*self._now.inputs(key), *self._then.inputs(key)]):
                if self._changes.changed(path):
                    users.setdefault(path, []).append(key)
        return {path: tuple(users[path]) for path in sorted(users)}

    def _impact(self, old: Artifact, new: Artifact) -> ChangeImpact:
        """What a cache that holds the old artifact serves of the new one; another vocabulary shares nothing."""
        ready = self._now.ready(new)
        rule = ready.target.cache
        if ready.identity.tokenizer != self._then.ready(old).identity.tokenizer:
            found = ChangeImpact(first=0, still_cached=0, recomputed=new.entry.tokens)
        else:
            blocks, before = self._now.blocks(new), self._then.blocks(old)
            on_block = blocks[: len(before)] == before
            found = rule.impact(self._then.ids(old), self._now.ids(new), on_block=on_block)
        claims_units = rule.kind == "blocks" and new.margin
        if claims_units or _near_minimum(new, rule) or _near_minimum(old, rule):
            return replace(found, still_cached=None, recomputed=None)
        return found

    def _first(self, old: Artifact, new: Artifact, token: int | None) -> FirstChange:
        was, is_now = old.text.decode(), new.text.decode()
        place = common_prefix(was, is_now)
        part = self._part(old, new, place)
        unit = 0 if new.margin else new.entry.unit
        return FirstChange(
            part=part,
            byte=len(is_now[:place].encode()) if part in ("system", "padding") else None,
            token=token,
            unit=None if token is None or not unit else token // unit,
            source=self._source(old, new, part, place),
        )

    def _part(self, old: Artifact, new: Artifact, place: int) -> Part:
        """The part of the request in which the model first reads something else."""
        was, is_now = old.text.decode(), new.text.decode()
        first, start = (
            common_prefix(old.framed_prefix, new.framed_prefix),
            new.framed_prefix.find(is_now.strip() or "\0"),
        )
        before_text = start >= 0 and first < start
        if (
            was != is_now
            and not before_text
            and (old.tools == new.tools or start == old.framed_prefix.find(was.strip()))
        ):
            ends = (len(text) - len(one.padding_text) for text, one in ((was, old), (is_now, new)))
            return "padding" if all(place >= end for end in ends) else "system"
        if old.tools != new.tools:
            return "tools"
        return "examples" if self._then.turns(old) != self._now.turns(new) else "frame"

    def _source(self, old: Artifact, new: Artifact, part: Part, place: int) -> SourceLine | None:
        """The line of the sources where that change was made."""
        manifest = new.variant.manifest.path
        others = [manifest, *self._now.inputs(new.key), *self._then.inputs(old.key)]
        if part == "tools":
            return self._changes.place(_tool_chain(old, new), (), others, below=True)
        if part == "examples":
            return self._changes.place(*self._turn_chains(old, new), others)
        if part == "frame":
            frame = [lookup.path for lookup in self._now.ready(new).lookups]
            return self._changes.place((), (), [*frame, *reversed(others)])
        return self._changes.place(self._now.chain(new, place), self._then.chain(old, place), others)

    def _turn_chains(self, old: Artifact, new: Artifact) -> tuple[SourceChain, SourceChain]:
        """Where the first turn that is different comes from, at its first character that is."""
        turns = self._now.turns(new), self._then.turns(old)
        index = common_prefix(*turns)
        place = common_prefix(*(side[index][1] if index < len(side) else "" for side in turns))
        manifest = new.variant.manifest
        listed = SourceLine(path=manifest.path, line=manifest.line("examples", index) or 1)
        maps = self._now.origins(new).turns[index : index + 1], self._then.origins(old).turns[index : index + 1]
        now, then = ([found.at(place) for found in side if place < len(found.text)] for side in maps)
        return (*(now[0] if now else ()), listed), (then[0] if then else ())


def _cost(warm: int | None, old_tokens: int, new: Artifact, rule: CacheRule) -> Cost:
    """The cost of the change; unknown where an estimate decides whether anything is cached."""
    if warm is None and new.margin:
        return Cost(one_time=None, per_million=None)
    return rule.cost(warm, old_tokens, new.entry.tokens)


def _tool_chain(old: Artifact, new: Artifact) -> SourceChain:
    """The first tool that is not as it was, and the manifest's list of them."""
    manifest = new.variant.manifest
    listed = SourceLine(path=manifest.path, line=manifest.line("tools") or 1)
    index = common_prefix(old.tools, new.tools)
    return (*(SourceLine(path=tool.path, line=tool.line or 1) for tool in new.tools[index : index + 1]), listed)


def _near_minimum(artifact: Artifact, rule: CacheRule) -> bool:
    """Whether it is unknown if the artifact is cached at all."""
    count = Count(tokens=artifact.entry.tokens, margin=artifact.margin)
    return count.low < (rule.minimum or 0) <= count.high and bool(artifact.margin)


def _unknown(artifact: Artifact, rule: CacheRule) -> str:
    if artifact.margin and rule.kind == "blocks":
        return "an estimate claims no units: how many tokens stay warm is unknown"
    if artifact.margin:
        return "the target's minimum is within the margin of the estimate: whether anything is cached is unknown"
    return "the target's cache rule is unknown, and so is how many tokens stay warm"
