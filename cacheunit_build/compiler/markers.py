"""Places the cache markers of a request, and finds where they stand among the static tokens of its prefix.

Where they stand is decided by the manifest alone, so that all variants of it share the entries of what they share:

    marker   behind                                                          part of `cache.ttl`
    tools    the last tool                                                   tools
    shared   the last block of system text that reads no axis of the matrix  shared
    prefix   the last part that can carry one                                prefix

An early marker that may be below the minimum of the target is dropped: within a margin, nobody knows whether it would
use up one of the few markers of a request for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.domain.manifest import MARKER_PARTS
from cacheunit_build.domain.sequences import common_prefix
from cacheunit_build.domain.token_count import TokenCount
from cacheunit_build.request_formats.parts import Marker, MarkerPlace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from cacheunit_build.domain.cache_rule import CacheRule
    from cacheunit_build.domain.manifest import Manifest
    from cacheunit_build.domain.prompt import StaticTokens
    from cacheunit_build.domain.recorded_count import CountedTokens
    from cacheunit_build.request_formats.base import RequestFormat
    from cacheunit_build.request_formats.parts import PrefixParts

_NAMES = {"tools": "the tools", "shared": "the text that all variants share", "prefix": "the prefix"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedMarkers:
    """The cache markers of one artifact.

    Without markers, a note says why, if the padding plan does not.

    Attributes:
        markers: the markers, in the order of the request.
        tokens: how many static tokens stand in front of each.
        notes: what the plan says of them.
    """

    markers: tuple[Marker, ...] = ()
    tokens: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


def marker_lifetimes(manifest: Manifest, rule: CacheRule) -> Mapping[str, str | None]:
    """Returns the lifetime of the marker of each part; None for the provider's default.

    A part without a lifetime has that of the next one behind it that has one, since longer ones must stand first.

    cache.ttl       tools  shared  prefix
    1h              1h     1h      1h
    {tools: 1h}     1h     None    None
    {shared: 1h}    1h     1h      None
    """
    wanted = manifest.cache.ttl.by_part
    lifetimes: dict[str, str | None] = {}
    behind: str | None = None
    for part in reversed(MARKER_PARTS):
        if part in wanted and rule.has_lifetime(wanted[part]):
            behind = wanted[part]
        lifetimes[part] = behind
    return lifetimes


def marker_places(parts: PrefixParts, shared_blocks: int, request_format: RequestFormat) -> dict[str, MarkerPlace]:
    """Returns the place of the marker of each part that can have one, in the order of the request."""
    last = request_format.last_markable(parts)
    if last is None:
        return {}
    places: dict[str, MarkerPlace] = {}
    if tool := request_format.last_markable_tool(parts):
        places["tools"] = tool
    if shared_blocks:
        places["shared"] = MarkerPlace(part="system", index=shared_blocks - 1)
    # The conversation needs a marker of its own; automatic and implicit modes take one too.
    early = [(part, place) for part, place in places.items() if place != last]
    return dict([*early[-(request_format.most_markers - 2) :], ("prefix", last)])


class MarkerPlacer:
    """Places the markers of one artifact.

    Args:
        counted: the number of its static tokens, as far as it is known.
        rule: the cache rule of the target.
        tokens_to: returns the tokens in front of the end of a place, by the target's vocabulary; None where it ends
            behind the static ones.
    """

    def __init__(self, counted: CountedTokens, rule: CacheRule, tokens_to: Callable[[MarkerPlace], int | None]) -> None:
        self._counted = counted
        self._rule = rule
        self._tokens_to = tokens_to

    def place(self, places: Mapping[str, MarkerPlace], lifetimes: Mapping[str, str | None]) -> PlacedMarkers:
        """Returns the markers with at least the minimum of tokens in front; none where the last one has fewer."""
        name = self._rule.marker
        if name is None or not places:
            return PlacedMarkers()
        end = self._tokens_in_front(places["prefix"])
        if end is None:
            return PlacedMarkers(notes=("a marker would stand behind the static tokens, so nothing is cached",))
        if self._rule.caches(self._count(end)) is False:
            short = f"only {end:,} tokens stand in front of the marker, so nothing is cached"
            return PlacedMarkers(notes=() if end == self._counted.tokens else (short,))
        kept: list[tuple[str, int]] = []
        notes: list[str] = []
        for part in places:
            tokens = end if part == "prefix" else self._tokens_in_front(places[part])
            note = self._problem_of_early(part, tokens, end) if part != "prefix" else None
            if note is None and tokens is not None and (part == "prefix" or tokens < end):
                kept.append((part, tokens))
            notes += [] if note is None else [note]
        kept = [item for item, behind in zip(kept, [*kept[1:], ("", -1)], strict=True) if item[1] != behind[1]]
        return PlacedMarkers(
            markers=tuple(Marker(place=places[part], name=name, lifetime=lifetimes.get(part)) for part, _ in kept),
            tokens=tuple(tokens for _, tokens in kept),
            notes=(*self._kept_notes(kept), *notes, *self._notes_of_end(end)),
        )

    def _problem_of_early(self, part: str, tokens: int | None, end: int) -> str | None:
        """Returns why there is no marker behind an early part; None where there is one, or where the end is."""
        if tokens is None:
            return f"no marker behind {_NAMES[part]}, which ends behind the static tokens"
        if tokens >= end or self._rule.caches(self._count(tokens)):
            return None
        size = f"~{tokens:,}" if self._counted.inner_margin else f"{tokens:,}"
        may_be = "may be" if self._rule.caches(self._count(tokens)) is None else "are"
        minimum = f"{self._rule.fewest_name} of {self._rule.fewest_cached:,}"
        return f"no marker behind {_NAMES[part]}: {size} tokens {may_be} below {minimum}"

    def _kept_notes(self, kept: Sequence[tuple[str, int]]) -> Iterator[str]:
        """Yields a note that names the places of the markers in front of the last one."""
        mark = "~" if self._counted.inner_margin else ""
        early = [f"{_NAMES[part]} ({mark}{tokens:,} tokens)" for part, tokens in kept if part != "prefix"]
        if early:
            yield f"a marker stands behind {' and '.join(early)} too"

    def _notes_of_end(self, tokens: int) -> Iterator[str]:
        behind = self._counted.tokens - tokens
        if behind:
            yield f"the {behind:,} tokens behind the marker are not cached"

    def _tokens_in_front(self, place: MarkerPlace) -> int | None:
        """Returns the tokens of the model in front of the end of a place; None where it ends behind the static ones."""
        tokens = self._tokens_to(place)
        return None if tokens is None else self._counted.scale(tokens)

    def _count(self, tokens: int) -> TokenCount:
        """Returns a number of tokens in front of a place with its margin, which is larger inside of the prefix."""
        is_end = tokens == self._counted.tokens
        return TokenCount(tokens=tokens, margin=self._counted.margin if is_end else self._counted.inner_margin)


def lifetime_notes(manifest: Manifest, rule: CacheRule) -> Iterator[str]:
    """Yields a note on the lifetimes of a manifest that the target does not have."""
    wanted = dict.fromkeys(manifest.cache.ttl.by_part.values())
    missing = [lifetime for lifetime in wanted if not rule.has_lifetime(lifetime)]
    if missing:
        yield f"the target has no lifetime of {' or '.join(missing)}, so the provider's own is used"
    elif wanted and manifest.cache.ttl.prefix is None and (rule.is_stored or rule.lifetime_option is not None):
        yield f"{' or '.join(wanted)} is not used: the target has one lifetime for all, that of the prefix"


def tokens_in_front(
    place: MarkerPlace, parts: PrefixParts, static: StaticTokens, encode: Callable[[str], Sequence[int]], *, exact: bool
) -> int | None:
    """Returns how many static tokens stand in front of the marker on one part of a prefix.

    The parts are looked for from the end of the framed prefix, where the last one stands: a short text such as "hi" is
    in the text of many tools. What the frame puts behind the marked part, such as a role marker, is not in front of it.

    Args:
        place: the part that carries the marker: a block of the system text, or a message of the examples.
        parts: the parts of the prefix.
        static: its static tokens.
        encode: returns the token ids of a text.
        exact: whether the tokens are those of the model's own frame; an estimate has no frame.

    Returns:
        The number of tokens; None where the marked part ends behind the static tokens, or the frame changes its text.
    """
    if place == parts.last and (not exact or place.part == "tools"):
        return static.tokens
    turns = [turn.text for turn in parts.turns]
    if place.part == "examples":
        marked, later, end_of_block = turns[place.index], turns[place.index + 1 :], None
    else:
        marked, later, end_of_block = parts.system, turns, len("".join(parts.blocks[: place.index + 1]).rstrip())
    unlocated = static.tokens if place == parts.last and static.change is None else None
    if not marked.strip():
        return unlocated
    end = len(static.framed_prefix)
    for text in (*reversed(later), marked):
        start = static.framed_prefix.rfind(text.strip(), 0, end)
        if start < 0:
            return unlocated
        end, stop = start, start + len(text.strip())
    if end_of_block is not None:
        stop = min(stop, start + end_of_block - (len(marked) - len(marked.lstrip())))
    return common_prefix(static.ids, encode(static.framed_prefix[:stop]))
