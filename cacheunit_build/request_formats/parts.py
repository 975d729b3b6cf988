"""The parts of a prefix as a request carries them, and the cache markers on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cacheunit_build.domain.cache_rule import MarkerName
    from cacheunit_build.domain.prompt import Tool, Turn

Json = dict[str, Any]

MARKERS: dict[str, Json] = {
    "cache_control": {"type": "ephemeral"},
    "prompt_cache_breakpoint": {"mode": "explicit"},
    "cachePoint": {"type": "default"},
}
"""The value of each marker in a request."""

PartName = Literal["tools", "system", "examples"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerPlace:
    """The tool, block of system text or message of a prefix that carries a cache marker.

    Attributes:
        part: the part of the prefix.
        index: its index among the tools, the blocks of the system text, or the messages of the examples.
    """

    part: PartName
    index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """A cache marker of a prefix.

    Attributes:
        place: what it is on: everything up to the end of that is cached.
        name: its key in a request.
        lifetime: how long the provider is to keep the entry, such as 1h; None for the provider's default.
    """

    place: MarkerPlace
    name: MarkerName
    lifetime: str | None = None

    @property
    def value(self) -> Json:
        """Its value in a request."""
        return marker_value(self.name, self.lifetime)


def marker_value(name: MarkerName, lifetime: str | None = None) -> Json:
    """Returns the value of a marker in a request, with its lifetime if there is one."""
    return {**MARKERS[name], **({} if lifetime is None else {"ttl": lifetime})}


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixParts:
    """The parts of a prefix, as a request carries them.

    Attributes:
        blocks: the system text with its padding, a block for each template; their concatenation is the text.
        tools: the tools, in order.
        turns: the messages of worked examples, in order.
        markers: the cache markers, in the order of the request.
        options: the frozen values of request options, by name.
        fields: further values by dotted name, which change neither text nor tokens: cache key and lifetime.
    """

    blocks: Sequence[str]
    tools: Sequence[Tool] = ()
    turns: Sequence[Turn] = ()
    markers: Sequence[Marker] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def system(self) -> str:
        """The system text with its padding."""
        return "".join(self.blocks)

    @property
    def last(self) -> MarkerPlace | None:
        """The last of the parts, in the order tools, system text, examples; None where there is none."""
        if self.turns:
            return MarkerPlace(part="examples", index=len(self.turns) - 1)
        if self.blocks:
            return MarkerPlace(part="system", index=len(self.blocks) - 1)
        return MarkerPlace(part="tools", index=len(self.tools) - 1) if self.tools else None

    def marker_at(self, part: PartName, index: int) -> Marker | None:
        """Returns the marker on a part of the prefix; None where it has none."""
        place = MarkerPlace(part=part, index=index)
        return next((marker for marker in self.markers if marker.place == place), None)
