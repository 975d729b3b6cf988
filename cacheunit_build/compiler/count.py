"""One text, counted and padded: `count` and `pad`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.compiler.padding import align_padding, pad_text_concat
from cacheunit_build.compiler.static_tokens import static_tokens
from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.models import Conversation, StaticTokens

if TYPE_CHECKING:
    from cacheunit_build.compiler.artifact import LoadedTarget
    from cacheunit_build.domain.protocols import Tokenizer


Framed = Callable[[str, str], str]
"""System text and the user's words -> the text that the model reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCount:
    """Tokens of one text. `static` excludes `unstable` tokens at the end, which may change with what follows.

    `literal` is the count with control tokens in the text read as characters, where there are any.
    """

    tokens: int
    unstable: int
    unit: int
    units: int
    past: int
    padding: int
    counted: str
    tokenizer: str
    control_tokens: tuple[str, ...]
    literal: int | None


def frame_of(ready: LoadedTarget) -> Framed:
    """How a target frames a system text that stands alone."""
    return lambda text, user: ready.frame(Conversation(system=text, tools=(), turns=(), user=user))


def measure(text: str, tokenizer: Tokenizer, *, frame: Framed | None, unit: int) -> TextCount:
    """Counts `text`: its static tokens in `frame`, or, without a frame, all its tokens."""
    static = _static(text, tokenizer, frame)
    spelt = tuple(tokenizer.controls_in(text))
    more = len(tokenizer.encode(text, literal=True)) - len(tokenizer.encode(text)) if spelt else 0
    return TextCount(
        tokens=static.tokens,
        unstable=static.unstable,
        unit=unit,
        units=static.tokens // unit if unit else 0,
        past=static.tokens % unit if unit else 0,
        padding=align_padding(static.tokens, unit),
        counted="estimate" if tokenizer.margin else "exact",
        tokenizer=tokenizer.engine,
        control_tokens=spelt,
        literal=static.tokens + more if spelt else None,
    )


def padding_for(text: str, tokenizer: Tokenizer, *, frame: Framed | None, unit: int) -> str:
    """The padding that ends `text` on a boundary of `unit` tokens.

    Raises:
        CacheunitError: the unit is unknown, or no filler reaches the boundary.
    """
    if not text:
        raise fail("the text is empty: there is nothing to pad")
    if unit <= 0:
        raise fail("the cache unit is unknown", hint="say --unit N, or name a target that has one")
    return pad_text_concat(text, unit, lambda joined: _static(joined, tokenizer, frame).tokens)


def _static(text: str, tokenizer: Tokenizer, frame: Framed | None) -> StaticTokens:
    if frame is None:
        return StaticTokens(framed_prefix=text, ids=tokenizer.encode(text), unstable=0)
    return static_tokens(lambda user: frame(text, user), tokenizer.encode, tokenizer.controls)
