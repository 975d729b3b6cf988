"""One text, counted and padded: `count` and `pad`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from cacheunit_build.align import align_padding, pad_text_concat
from cacheunit_build.boundary import static_tokens
from cacheunit_build.errors import fail
from cacheunit_build.model import Frame, Static

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


class LiteralTokenizer(Protocol):
    """A vocabulary that can also read control tokens as plain characters."""

    @property
    def controls(self) -> Collection[int]:
        """The ids of its control tokens."""

    @property
    def control_texts(self) -> Mapping[str, int]:
        """Its control tokens and their ids."""

    @property
    def engine(self) -> str:
        """What encodes, and why its ids are to be believed."""

    def encode(self, text: str, *, literal: bool = False) -> Sequence[int]:
        """The token ids of a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Tokens of one text. `static` excludes `soft` tokens at the end, which may change with what follows.

    `literal` is the count with control tokens in the text read as characters, where there are any.
    """

    tokens: int
    soft: int
    unit: int
    units: int
    past: int
    padding: int
    counted: str
    tokenizer: str
    control_tokens: tuple[str, ...]
    literal: int | None


def measure(text: str, tokenizer: LiteralTokenizer, *, frame: Frame | None, unit: int) -> Measured:
    """Counts `text`: its static tokens in `frame`, or, without a frame, all its tokens."""
    framed, static = _static(text, tokenizer, frame)
    spelt = tuple(sorted(control for control in tokenizer.control_texts if control in text))
    literal = None
    if spelt:
        around = len(tokenizer.encode(framed)) - len(tokenizer.encode(text))
        literal = len(tokenizer.encode(text, literal=True)) + around
    return Measured(
        tokens=static.tokens,
        soft=static.soft,
        unit=unit,
        units=static.tokens // unit if unit else 0,
        past=static.tokens % unit if unit else 0,
        padding=align_padding(static.tokens, unit),
        counted="exact",
        tokenizer=tokenizer.engine,
        control_tokens=spelt,
        literal=literal,
    )


def padding_for(text: str, tokenizer: LiteralTokenizer, *, frame: Frame | None, unit: int) -> str:
    """The padding that ends `text` on a boundary of `unit` tokens.

    Raises:
        CacheunitError: the unit is unknown, or no filler reaches the boundary.
    """
    if unit <= 0:
        raise fail("the cache unit is unknown", hint="say --unit N, or name a target that has one")
    return pad_text_concat(text, unit, lambda joined: _static(joined, tokenizer, frame)[1].tokens)


def _static(text: str, tokenizer: LiteralTokenizer, frame: Frame | None) -> tuple[str, Static]:
    if frame is None:
        return text, Static(ids=tokenizer.encode(text), soft=0)
    framed = f"{frame.before}{text}{frame.after}"
    return framed, static_tokens(framed, tokenizer.encode, tokenizer.controls)
