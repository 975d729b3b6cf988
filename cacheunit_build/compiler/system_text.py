"""Counts prefixes that differ only in their system text, for an encoder that is known to put that text in as it is.

Framing a prefix with many tools takes long, and is done for some sixty conversations. So it is done once, with a
stand-in for the system text, and the result holds for every system text:

    framed with the stand-in    <s>STAND-IN## Tools{"name": "search"}<|User|>
    of "Be kind."               <s>Be kind.## Tools{"name": "search"}<|User|>
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.prompt import StaticTokens

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from cacheunit_build.domain.prompt import Conversation, Tool

    FramedTools = tuple[Mapping[str, Any], ...]

_STAND_IN = "\ue000system text\ue001"
"""A text of private characters, which stands for the system text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Framed:
    """A prefix as framed with the stand-in, and what it was made of, which is kept so that its id stays its own."""

    prefix: Conversation
    static: StaticTokens


class SystemTexts:
    """The framed texts of one target by everything but the system text; several threads may use it."""

    def __init__(self) -> None:
        self._framed: dict[int, list[_Framed]] = {}
        self._tools: dict[tuple[int, ...], tuple[Sequence[Tool], FramedTools]] = {}
        self._leave_out: dict[int, tuple[FramedTools, bool]] = {}
        self._lock = threading.Lock()

    def once(self, prefix: Conversation, leaves_out: Callable[[], bool]) -> bool:
        """Returns whether the frame leaves the tools of a prefix out, which is found out once for the same tools."""
        with self._lock:
            key = id(prefix.tools)
            if key not in self._leave_out:
                self._leave_out[key] = prefix.tools, leaves_out()
            return self._leave_out[key][1]

    def framed_tools(self, tools: Sequence[Tool], make: Callable[[], FramedTools]) -> FramedTools:
        """Returns the tools in the form that the frame gets: the same object for the same tools."""
        with self._lock:
            key = tuple(map(id, tools))
            if key not in self._tools:
                self._tools[key] = tools, make()
            return self._tools[key][1]

    def static_tokens(
        self,
        prefix: Conversation,
        count: Callable[[Conversation], StaticTokens],
        encode: Callable[[str], Sequence[int]],
        controls: Collection[int],
    ) -> StaticTokens:
        """Returns the static tokens of a prefix.

        Args:
            prefix: the conversation without the messages that follow.
            count: returns the static tokens of any prefix.
            encode: returns the token ids of a text.
            controls: the ids of the control tokens.
        """
        with self._lock:
            framed = self._framed_with_stand_in(prefix, count)
        text = framed.framed_prefix
        usable = text.count(_STAND_IN) == 1 and framed.unstable == 0 and framed.change is None
        if not (usable and prefix.system and framed.ids[-1] in controls):
            return count(prefix)
        text = text.replace(_STAND_IN, prefix.system)
        ids = encode(text)
        return StaticTokens(
            framed_prefix=text, ids=ids, unstable=0, first_turn=len(ids), refused_turns=framed.refused_turns
        )

    def _framed_with_stand_in(
        self, prefix: Conversation, count: Callable[[Conversation], StaticTokens]
    ) -> StaticTokens:
        known = self._framed.setdefault(id(prefix.tools), [])
        wanted = replace(prefix, system=_STAND_IN)
        for framed in known:
            if framed.prefix.tools is prefix.tools and framed.prefix == wanted:
                return framed.static
        known.append(_Framed(prefix=wanted, static=count(wanted)))
        return known[-1].static
