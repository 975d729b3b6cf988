"""Counts one text, and pads it to a cache-unit boundary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.compiler.padding import align_padding, pad_text_concat
from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.prompt import Conversation, StaticTokens

if TYPE_CHECKING:
    from cacheunit_build.compiler.loaded_target import LoadedTarget
    from cacheunit_build.domain.protocols import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCount:
    """The tokens of one text.

    Attributes:
        tokens: static tokens in a frame; all tokens without one.
        unstable: further tokens at the end, which change with what follows.
        unit: tokens in one cache unit; 0 where it is unknown.
        units: full cache units.
        past: tokens after the last full unit.
        padding: tokens that are missing to the next boundary.
        counted: `exact` or `estimate`.
        margin: the share by which an estimate may be off; 0 for an exact count.
        tokenizer: what counts.
        control_tokens: the control tokens in the text, each once.
        literal: the count with these read as characters; None where there are none.
    """

    tokens: int
    unstable: int
    unit: int
    units: int
    past: int
    padding: int
    counted: str
    margin: float
    tokenizer: str
    control_tokens: tuple[str, ...]
    literal: int | None


def count_text(text: str, tokenizer: Tokenizer, *, target: LoadedTarget | None, unit: int) -> TextCount:
    """Returns the tokens of `text`: static tokens in the frame of a target, or all tokens without one.

    Args:
        text: the text.
        tokenizer: the vocabulary, that of the target where there is one.
        target: the target; None for the bare text.
        unit: tokens in one cache unit; 0 where it is unknown.
    """
    static = _static_tokens(text, tokenizer, target)
    controls = tuple(tokenizer.control_tokens_in(text))
    more = len(tokenizer.encode(text, literal=True)) - len(tokenizer.encode(text)) if controls else 0
    units, past = divmod(static.tokens, unit) if unit else (0, 0)
    return TextCount(
        tokens=static.tokens,
        unstable=static.unstable,
        unit=unit,
        units=units,
        past=past,
        padding=align_padding(static.tokens, unit),
        counted="estimate" if static.margin else "exact",
        margin=static.margin,
        tokenizer=tokenizer.label,
        control_tokens=controls,
        literal=static.tokens + more if controls else None,
    )


def padding_for(text: str, tokenizer: Tokenizer, *, target: LoadedTarget | None, unit: int) -> str:
    """Returns the padding that ends `text` on a boundary of `unit` tokens.

    Raises:
        CacheunitError: the text is empty, the unit is unknown, the count is an estimate, or no padding reaches the
            boundary.
    """
    margin = _static_tokens(text, tokenizer, target).margin
    if margin:
        message = f"the count is an estimate (±{margin * 100:.0f} %), so no padding is known to end on a unit"
        raise fail(message, hint="name a target whose own vocabulary is available")
    if not text:
        raise fail("the text is empty: there is nothing to pad")
    if unit <= 0:
        raise fail("the cache unit is unknown", hint="set --unit N, or name a target that has one")
    return pad_text_concat(text, unit, lambda joined: _static_tokens(joined, tokenizer, target).tokens)


def _static_tokens(text: str, tokenizer: Tokenizer, target: LoadedTarget | None) -> StaticTokens:
    if target is None:
        return StaticTokens(framed_prefix=text, ids=tokenizer.encode(text), unstable=0, margin=tokenizer.margin)
    return target.static_tokens(Conversation(system=text, tools=(), turns=()))
