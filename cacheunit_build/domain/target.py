"""A target: what a prefix is compiled for, with its request format, vocabulary, frame, cache rule and price."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from cacheunit_build.domain.cache_rule import CacheRule, OptionEffect
from cacheunit_build.domain.constraints import VALIDATION, Limits
from cacheunit_build.domain.evidence import Evidence
from cacheunit_build.domain.package_file import PackagedEncoder, PackagedTemplate
from cacheunit_build.domain.tool_limit import ToolLimit

_ENCODER = re.compile(r".+\.py:[A-Za-z_]\w*")

FormatName = str
"""The name of a request format; the table in `request_formats.formats` has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerSpec:
    """Where a target's vocabulary comes from: exactly one of `package`, `path`, `encoding` and `estimate`."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    package: str | None = None
    """An installed package that holds `file`."""
    file: str | None = None
    """A tokenizer.json inside `package`."""
    path: str | None = None
    """A tokenizer.json of the project, relative to its root."""
    encoding: str | None = None
    """A tiktoken encoding, such as o200k_base."""
    sha256: Annotated[str, Limits(pattern="^[0-9a-f]{64}$")] | None = None
    """The SHA-256 that the file must have."""
    estimate: str | None = None
    """A known target whose vocabulary is used instead, where the model's own is not available."""
    margin: Annotated[float, Limits(ge=0, lt=1)] = 0.0
    """The share by which an estimate may be off."""
    scaled_margin: Annotated[float, Limits(gt=0, lt=1)] | None = None
    """The share by which an estimate may be off that is scaled by the last recorded count of the same prefix."""

    def __post_init__(self) -> None:
        if sum(source is not None for source in (self.package, self.path, self.encoding, self.estimate)) != 1:
            raise ValueError('needs exactly one of "package" with "file", "path", "encoding" or "estimate"')
        if (self.package is None) != (self.file is None):
            raise ValueError('needs "package" and "file" together')
        if (self.estimate is None) != (self.margin == 0):
            raise ValueError('needs "estimate" and a "margin" above 0 together')
        if self.scaled_margin is not None and self.estimate is None:
            raise ValueError('has a "scaled_margin", which only an "estimate" has')

    def __str__(self) -> str:
        """Returns the source as a person would name it."""
        if self.estimate is not None:
            return f"estimate by the vocabulary of {self.estimate}, ±{self.margin * 100:.0f} %"
        if self.package is not None:
            return f"{self.package}/{self.file}"
        return str(self.path or self.encoding)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameEstimate:
    """How a prefix is counted in the model's own vocabulary where the frame around it is not published.

    The parts are counted one after the other. The margin is for what the provider puts around them, and for the form in
    which it writes tools. The defaults hold for the chat templates that are known (docs/targets.md).
    """

    __pydantic_config__: ClassVar[Any] = VALIDATION

    tools: Literal["json", "typescript"] = "json"
    """The form in which tools are counted: as JSON, or as declarations of TypeScript."""
    message_margin: Annotated[int, Limits(ge=0)] = 20
    """The most tokens around each message."""
    tools_margin: Annotated[float, Limits(ge=0, lt=1)] = 0.3
    """The share by which the count of tools, and of a response schema, may be off."""
    preamble_margin: Annotated[int, Limits(ge=0)] = 250
    """The most tokens of the text that introduces tools and schema."""

    def __str__(self) -> str:
        """Returns it for people."""
        form = "declarations of TypeScript" if self.tools == "typescript" else "JSON"
        schemas = f"±{self.preamble_margin} and ±{self.tools_margin * 100:.0f} % for tools, counted as {form}"
        return f"not published: ±{self.message_margin} tokens around each message, {schemas}"

    def margin(self, *, messages: int, schemas: int) -> int:
        """Returns by how many tokens a count may be off.

        Args:
            messages: the messages of the prefix, with that of the user that follows.
            schemas: the tokens of tools and of a response schema; 0 if there are none.
        """
        of_schemas = math.ceil(schemas * self.tools_margin) + self.preamble_margin if schemas else 0
        return messages * self.message_margin + of_schemas


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What a target puts around the text: fixed text, a chat template, or the model's own encoder; or an estimate.

    With an encoder from a package, fixed text may stand for what that encoder puts around a system text that is alone,
    so that the package is needed only for tools, examples and options.
    """

    __pydantic_config__: ClassVar[Any] = VALIDATION

    before: str = ""
    """The text in front of the system text, such as a start token and a role marker."""
    after: str = ""
    """The text between the system text and the user's first character."""
    chat_template: str | PackagedTemplate | None = None
    """A Jinja file or tokenizer_config.json: its path in the project, or a file of an installed package."""
    encoder: str | PackagedEncoder | None = None
    """The model's own encoder: PATH.py:FUNCTION in the project, or a function in a file of an installed package."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the chat template or the encoder."""
    estimate: FrameEstimate | None = None
    """How a prefix is counted where the frame is not published."""

    def __post_init__(self) -> None:
        fixed = bool(self.before or self.after) and not isinstance(self.encoder, PackagedEncoder)
        estimated = self.estimate is not None
        if sum((fixed, self.chat_template is not None, self.encoder is not None, estimated)) > 1:
            raise ValueError('takes one of "before" and "after", "chat_template", "encoder", or "estimate"')
        if isinstance(self.encoder, str) and not _ENCODER.fullmatch(self.encoder):
            raise ValueError('needs an "encoder" of the form PATH.py:FUNCTION')
        if self.arguments and self.plain:
            raise ValueError('has "arguments", but no "chat_template" or "encoder" that takes them')

    @property
    def plain(self) -> bool:
        """Whether it is fixed text, which has a place for the system text only, not for tools and examples."""
        return self.chat_template is None and self.encoder is None

    @property
    def unknown(self) -> bool:
        """Whether nothing is said of what stands around the text."""
        return self.plain and not (self.before or self.after)

    @property
    def for_system_text(self) -> Frame:
        """The frame that is enough for a system text alone: the fixed text if there is any, else the whole frame."""
        return Frame(before=self.before, after=self.after) if self.before or self.after else self


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOption(Evidence):
    """An option of a request that changes the prefix, or what stands in front of it, with the reason to believe it."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    name: Annotated[str, Limits(min_length=1)]
    """Its key in a request; a dot leads into a mapping, as in `reasoning.effort`."""
    effect: OptionEffect
    """What its value changes: text in front of the prefix (front), the text of the prefix (text), only what stands in
    front of the worked examples (examples), or which cache is used (cache)."""
    neutral: tuple[Any, ...] = ()
    """The values that change nothing, beside leaving it out."""
    argument: str | None = None
    """The argument of the chat template or encoder that takes its value, where the frame renders it."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """What that argument gets for a value that is text, where it is called otherwise there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of a million uncached input tokens."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    input: Annotated[float, Limits(ge=0)]
    """The price of a million uncached input tokens."""
    currency: Annotated[str, Limits(min_length=1)] = "USD"
    """The currency, as it is printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetKeys:
    """What a prefix is compiled for."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    description: str = ""
    """A description for people."""
    model: str | None = None
    """The model whose vocabulary and frame it has, if it names one."""
    model_ids: tuple[str, ...] = ()
    """The ids by which requests name its models."""
    count_model: Annotated[str, Limits(min_length=1)] | None = None
    """The model whose recorded counts stand for the target, where it is for several."""
    request: FormatName
    """The format of requests."""
    tokenizer: TokenizerSpec | None = None
    """The vocabulary; without one, the target is only for projects to extend."""
    frame: Frame = field(default_factory=Frame)
    """What the target puts around the text."""
    cache: CacheRule = field(default_factory=CacheRule)
    """How the target reuses a prefix."""
    options: tuple[RequestOption, ...] = ()
    """The request options that change the front of a request. A manifest may freeze their values."""
    tool_limits: tuple[ToolLimit, ...] = ()
    """What the provider refuses in tools and response schemas."""
    evidence: tuple[Evidence, ...] = ()
    """The reasons to believe its vocabulary and its frame."""
    price: Price | None = None
    """The price for the money in `diff`; it decides no byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target(TargetKeys):
    """A target by its name."""

    name: str
    names_models: bool = True
    """Whether it lists its models itself, and does not only inherit the list."""

    @property
    def counted_model(self) -> str | None:
        """The model whose recorded counts stand for the target; None where several do, and none is chosen."""
        return self.count_model or (self.model_ids[0] if len(self.model_ids) == 1 else None)
