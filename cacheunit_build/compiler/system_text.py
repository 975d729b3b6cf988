"""Counts prefixes that differ only in their system text, for an encoder that is known to put that text in as it is.

Framing a prefix with many tools takes long, and is done for some sixty conversations. So it is done once, with a
stand-in for the system text, and the result holds for every system text:

    framed with the stand-in    <s>STAND-IN## Tools{"name": "search"}<|User|>
    of "Be kind."               <s>Be kind.## Tools{"name": "search"}<|User|>

Those conversations have the first tool only. One of them is framed with all tools too: what it has more stands behind
the first tool, in every conversation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cacheunit_build.compiler.turns import user_message
from cacheunit_build.domain.prompt import StaticTokens
from cacheunit_build.domain.sequences import common_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cacheunit_build.domain.prompt import Conversation
    from cacheunit_build.domain.protocols import Tokenizer

_STAND_IN = "\ue000system text\ue001"
"""A text of private characters, which stands for the system text."""

_MOST_PREFIXES = 64
"""Framed prefixes that are kept; a project has few that differ in more than the system text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Framed:
    """A prefix as framed with the stand-in, and what it was made of.

    Attributes:
        prefix: the prefix, with the stand-in as its system text.
        usable: whether the result holds for other system texts.
        static: its static tokens.
        before: the framed text in front of the stand-in.
        behind: the framed text behind it, up to its first control token.
        rest: the framed text behind that, which no system text changes.
        rest_ids: the token ids of the rest.
    """

    prefix: Conversation
    usable: bool
    static: StaticTokens
    before: str = ""
    behind: str = ""
    rest: str = ""
    rest_ids: Sequence[int] = ()

    def with_system(self, system: str, tokenizer: Tokenizer) -> StaticTokens:
        """Returns the static tokens with a system text in place of the stand-in."""
        front = f"{self.before}{system}{self.behind}"
        ids = [*tokenizer.encode(front), *self.rest_ids]
        text, refused = front + self.rest, self.static.refused_turns
        return StaticTokens(framed_prefix=text, ids=ids, unstable=0, first_turn=len(ids), refused_turns=refused)


class SystemTexts:
    """The framed texts of one target by everything but the system text.

    Args:
        frame: returns the text that the model reads of a conversation.
        tokenizer: the vocabulary.
        count: returns the static tokens of any prefix.
    """

    def __init__(
        self,
        frame: Callable[[Conversation], str],
        tokenizer: Tokenizer,
        count: Callable[[Conversation], StaticTokens],
    ) -> None:
        self._frame = frame
        self._tokenizer = tokenizer
        self._count = count
        self._framed: list[_Framed] = []

    def static_tokens(self, prefix: Conversation) -> StaticTokens:
        """Returns the static tokens of a prefix, the conversation without the messages that follow."""
        framed = self._framed_with_stand_in(replace(prefix, system=_STAND_IN))
        if framed.usable and prefix.system:
            return framed.with_system(prefix.system, self._tokenizer)
        return self._count(prefix)

    def _framed_with_stand_in(self, wanted: Conversation) -> _Framed:
        """Returns a prefix as framed with the stand-in; the latest ones are kept."""
        for framed in self._framed:
            if framed.prefix.tools is wanted.tools and framed.prefix == wanted:
                return framed
        framed = self._split(wanted, self._static(wanted))
        self._framed = [framed, *self._framed[: _MOST_PREFIXES - 1]]
        return framed

    def _static(self, prefix: Conversation) -> StaticTokens:
        """Returns the static tokens of a prefix, of which later conversations are framed with the first tool only."""
        if len(prefix.tools) > 1:
            one = replace(prefix, tools=prefix.tools[:1])
            static = self._count(one)
            text = self._with_more_tools(static.framed_prefix, one, prefix) if self._is_whole(static) else None
            if text is not None:
                ids = self._tokenizer.encode(text)
                return replace(static, framed_prefix=text, ids=ids, first_turn=len(ids))
        return self._count(prefix)

    def _with_more_tools(self, framed_prefix: str, one: Conversation, prefix: Conversation) -> str | None:
        """Returns the framed prefix with all tools; None where more than the text of further tools is different.

        Args:
            framed_prefix: the framed prefix with the first tool.
            one: the prefix with the first tool.
            prefix: the prefix with all tools.
        """
        following = (user_message("A short one."),)
        short, long = (self._frame(replace(item, following=following)) for item in (one, prefix))
        start = common_prefix(short, long)
        if start > len(framed_prefix) or not long[start:].endswith(short[start:]):
            return None
        return framed_prefix[:start] + long[start : len(long) - len(short) + start] + framed_prefix[start:]

    def _is_whole(self, static: StaticTokens) -> bool:
        """Returns whether a framed prefix ends in a control token, in this turn and in later ones."""
        ids = static.ids
        return not static.unstable and static.change is None and bool(ids) and ids[-1] in self._tokenizer.control_ids

    def _split(self, wanted: Conversation, static: StaticTokens) -> _Framed:
        """Returns a framed prefix in parts: what follows the first control token behind the stand-in is encoded once.

        No control token spans lines, so that one in front of a line end is all that can begin in the system text.
        """
        before, found, behind = static.framed_prefix.partition(_STAND_IN)
        if not found or _STAND_IN in behind or not self._is_whole(static):
            return _Framed(prefix=wanted, usable=False, static=static)
        encode, whole = (
            self._tokenizer.encode,
            _Framed(prefix=wanted, usable=True, static=static, before=before, behind=behind),
        )
        token = next(iter(self._tokenizer.control_tokens_in(behind)), None)
        if token is None or "\n" not in behind[: behind.index(token)]:
            return whole
        end = behind.index(token) + len(token)
        rest_ids = encode(behind[end:])
        split = replace(whole, behind=behind[:end], rest=behind[end:], rest_ids=rest_ids)
        same = list(split.with_system(_STAND_IN, self._tokenizer).ids) == list(static.ids)
        return split if same else whole
