"""A loaded vocabulary: text to ids, what need not be encoded twice encoded once."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Protocol

from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.fingerprint import PREFIX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

_MOST_REMEMBERED = 64

SHORT = 400
"""A text of no more characters is encoded whole each time."""

# A line end and a visible character: no piece of any pattern used here reaches over it, and none before it depends on
# what follows that character. ("/" is left out: o200k_base takes it along with a line end; "[" is, so that a padding's
# label is no cut, and the text before it is the one that was remembered.) Looked for from behind.
_CUT = re.compile(r"[!-.0-Z\\-~](?=\n)")


class Engine(Protocol):
    """What turns text into token ids; one that `cuts` encodes a text as the parts on either side of a safe cut."""

    cuts: bool

    def encode(self, text: str, *, literal: bool = False) -> list[int]:
        """The token ids of `text`; `literal`: the text of a control token is characters like any other."""

    def pieces(self, text: str, ids: Sequence[int]) -> list[bytes]:
        """The bytes of each token of `text`, whose ids are `ids`; joined, they are the text."""


class ControlTexts:
    """The texts of control tokens, found as an alternation of them all, longest first, would find them.

    Such a pattern of a thousand texts takes longer to compile than a vocabulary to load: only their first characters
    are looked for, and what stands there is looked up.
    """

    def __init__(self, texts: Collection[str]) -> None:
        self._texts = frozenset(texts)
        lengths: dict[str, set[int]] = {}
        for text in self._texts:
            lengths.setdefault(text[:2], set()).add(len(text))
            lengths.setdefault(text[0], set())
        for start, known in lengths.items():
            known.update({1} if start[0] in self._texts else ())
        self._lengths = {start: sorted(found, reverse=True) for start, found in lengths.items()}
        firsts = "".join(sorted({text[0] for text in self._texts}))
        self._first = re.compile(f"[{re.escape(firsts)}]") if firsts else None

    def places(self, text: str) -> Iterator[tuple[int, str]]:
        """Where each begins, and which it is, from left to right, none within another."""
        end = 0
        for found in self._first.finditer(text) if self._first else ():
            begin = found.start()
            if begin >= end:
                for length in self._lengths.get(text[begin : begin + 2]) or self._lengths[text[begin]]:
                    spelt = text[begin : begin + length]
                    if spelt in self._texts:
                        end = begin + len(spelt)  # which is less where the text ends
                        yield begin, spelt
                        break


class Vocabulary:
    """A loaded vocabulary. The text of a control token counts as that token, as in a rendered chat template.

    `identity` is the fingerprint of the vocabulary file, `engine` says what encodes, `control_texts` are its control
    tokens with their ids, and `controls` those ids; `margin` is the share by which an estimate may be off. Where
    control tokens `isolate`, the text on either side of one is encoded as if alone: it is encoded once, and remembered.
    """

    def __init__(  # noqa: PLR0913 - what a vocabulary is known by
        self,
        engine: Engine,
        *,
        identity: str,
        label: str,
        control_texts: dict[str, int],
        isolate: bool = True,
        harmless: frozenset[str] = frozenset(),
    ) -> None:
        self._engine = engine
        self.identity = identity
        self.engine = label
        self.control_texts = control_texts
        self.controls = frozenset(control_texts.values())
        self.margin = 0.0
        self._harmless = harmless
        self.files: tuple[str, ...] = ()
        self._texts = ControlTexts(control_texts)
        self._isolate = isolate
        self._remembered: dict[str, list[int]] = {}

    def as_estimate(self, margin: float) -> Vocabulary:
        """The same vocabulary as a ruler for models whose own is unknown: no control tokens, counts within `margin`."""
        identity = PREFIX + hashlib.sha256(f"{self.identity} within {margin}".encode()).hexdigest()
        estimate = Vocabulary(self._engine, identity=identity, label=f"estimate, within {margin:.0%}", control_texts={})
        estimate.margin = margin
        estimate.files = self.files
        return estimate

    def encode(self, text: str, *, literal: bool = False) -> list[int]:
        """The token ids of `text`; with `literal`, control tokens in it are but characters.

        Raises:
            CacheunitError: the encoder gave up on the text.
        """
        if literal or not self._isolate or not self.control_texts:
            return self._encode(text, literal=literal or not self.control_texts)
        ids: list[int] = []
        done = 0
        for begin, spelt in self._texts.places(text):
            if begin > done:
                ids += self._remember(text[done:begin])
            ids.append(self.control_texts[spelt])
            done = begin + len(spelt)
        return ids + self._remember(text[done:]) if done < len(text) else ids

    def _remember(self, part: str) -> list[int]:
        """The ids of text without control tokens; what stands before the last safe cut is encoded once."""
        cut = 0
        if self._engine.cuts and len(part) > SHORT:
            cut = next((place.start() + 1 for place in _CUT.finditer(part[::-1])), 0)
            cut = len(part) - cut if cut else 0
        if not cut:
            return self._once(part)
        return self._once(part[:cut]) + self._encode(part[cut:], literal=False)

    def _once(self, part: str) -> list[int]:
        ids = self._remembered.get(part)
        if ids is None:
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            ids = self._remembered[part] = self._encode(part, literal=False)
        return ids

    def _encode(self, text: str, *, literal: bool) -> list[int]:
        try:
            return self._engine.encode(text, literal=literal)
        except BaseException as error:
            if type(error).__name__ != "PanicException":
                raise
            raise fail(f"the tokenizer gave up on a text of {len(text)} characters: {error}") from None

    def controls_in(self, text: str) -> list[str]:
        """The control tokens that `text` spells, each once, in their order."""
        found = dict.fromkeys(spelt for _, spelt in self._texts.places(text))
        return [token for token in found if token not in self._harmless]

    def pieces(self, text: str) -> list[bytes]:
        """The bytes of each token of `text`, in order."""
        return self._engine.pieces(text, self.encode(text))
