"""What a prefix is compiled for, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cacheunit_build.domain.cache_rule import CacheRule

FormatName = Literal["openai-chat", "openai-responses", "anthropic-messages", "text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerSpec:
    """Where a target's vocabulary comes from: a file in a package, a file of the project, or a tiktoken encoding.

    With `estimate`, the vocabulary is another model's: the name of a known target that has one. Counts are then off by
    up to `margin`, a share of the count.
    """

    package: str | None = None
    file: str | None = None
    path: str | None = None
    encoding: str | None = None
    sha256: str | None = None
    estimate: str | None = None
    margin: float = 0.0

    def __str__(self) -> str:
        """The source as a person would name it."""
        if self.estimate is not None:
            return f"estimate by {self.estimate}, within {self.margin:.0%}"
        if self.package is not None:
            return f"{self.package}/{self.file}"
        return str(self.path or self.encoding)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What the target puts around the text before the model sees it.

    Either `before` and `after` the system text; or a chat template, a file of the project; or an encoder, a Python
    function `PATH.py:FUNCTION`. `arguments` go to the template or the function.
    """

    before: str = ""
    after: str = ""
    chat_template: str | None = None
    encoder: str | None = None
    arguments: Mapping[str, Any]

    @property
    def plain(self) -> bool:
        """Whether it knows of the system text alone, and not where tools and examples stand."""
        return self.chat_template is None and self.encoder is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a million uncached input tokens cost, in a currency."""

    input: float
    currency: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a prefix is compiled for; without a tokenizer it is one for projects to extend."""

    name: str
    description: str
    models: tuple[str, ...]
    request: FormatName
    tokenizer: TokenizerSpec | None
    frame: Frame
    cache: CacheRule
    price: Price | None = None
