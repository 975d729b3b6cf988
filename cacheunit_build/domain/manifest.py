"""A manifest: the description of one prefix in YAML, and the variants of its matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from cacheunit_build.domain.constraints import VALIDATION, Limits
from cacheunit_build.domain.document import Keys, nearest_line
from cacheunit_build.domain.errors import Fault
from cacheunit_build.domain.response_schema import ResponseSchema

AxisValue = str | int | bool
Role = Literal["user", "assistant", "tool"]
PaddingMode = Literal["auto", "always", "off"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddingOptions:
    """The padding options of a manifest."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    mode: PaddingMode = "auto"
    """When to pad: where it pays, always, or never."""
    floor: bool = False
    """Pad a prefix that is below the target's minimum up to the minimum."""
    hits_per_miss: Annotated[int, Limits(ge=1)] | None = None
    """How many requests a cache entry serves for each one that writes it. Default: that of the project."""


MARKER_PARTS = ("tools", "shared", "prefix")
"""What ends at a cache marker, in the order of a request: the tools, the system text that all variants share, and the
whole prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerLifetimes:
    """How long the provider is to keep what is in front of each cache marker: 5m, 1h, 24h."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    tools: str | None = None
    """That of the tools."""
    shared: str | None = None
    """That of the system text that all variants share."""
    prefix: str | None = None
    """That of the whole prefix."""

    @property
    def by_part(self) -> dict[str, str]:
        """The lifetimes that are set, by the part that ends at the marker, in the order of a request."""
        return {part: lifetime for part in MARKER_PARTS if (lifetime := getattr(self, part)) is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheOptions:
    """The cache options of a manifest."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    ttl: MarkerLifetimes = field(default_factory=MarkerLifetimes)
    """How long the provider is to keep the prefix, or each of its parts. Default: that of the provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallSource:
    """A call of a tool in a worked example."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    name: Annotated[str, Limits(min_length=1)]
    """The tool."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The arguments, by name."""
    id: str | None = None
    """What its result names it by. Default: made from its number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleSource:
    """One message of a worked example: its text, the template that renders to it, or calls of tools."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    role: Role
    """The speaker; `tool` for the result of a tool call."""
    template: str | None = None
    """A template that renders to the text."""
    text: str | None = None
    """The text itself, taken literally."""
    tool_calls: tuple[ToolCallSource, ...] = ()
    """The tools that the assistant calls."""
    tool_call_id: str | None = None
    """The id of the call that a result answers. Default: the first call that has no result yet."""

    def __post_init__(self) -> None:
        if self.template is not None and self.text is not None:
            raise ValueError('needs either "template" or "text"')
        if self.template is None and self.text is None and not self.tool_calls:
            raise ValueError('needs "template", "text" or "tool_calls"')
        if self.tool_calls and self.role != "assistant":
            raise ValueError(f'has "tool_calls", which only the role assistant has, not {self.role}')
        if self.tool_call_id is not None and self.role != "tool":
            raise ValueError(f'has "tool_call_id", which only the role tool has, not {self.role}')


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestKeys:
    """A cacheunit manifest: one static prefix."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    description: str = ""
    """A description for people."""
    targets: Annotated[tuple[str, ...], Limits(min_length=1)] | None = None
    """The targets to compile for. Default: the project's targets."""
    system: Annotated[tuple[str, ...], Limits(min_length=1)] = ()
    """A template, or a list of templates that are joined by one blank line."""
    tools: tuple[str, ...] = ()
    """Files with one tool or a list of tools each, JSON or YAML, in order."""
    examples: tuple[ExampleSource, ...] = ()
    """Messages of worked examples, which follow the system text."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """Values for the templates, by variable name."""
    data: Mapping[str, str] = field(default_factory=dict)
    """Files for the templates, by variable name: YAML, JSON or any text."""
    matrix: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Values of each axis; there is one variant for each combination, and each axis is a variable."""
    strip: tuple[Literal["front-matter"], ...] = ()
    """What is removed from templates and text data files before they are rendered: their YAML front matter."""
    padding: PaddingOptions = field(default_factory=PaddingOptions)
    """Whether padding ends the prefix on a cache-unit boundary."""
    cache: CacheOptions = field(default_factory=CacheOptions)
    """How long the provider is to keep the prefix."""
    special_tokens: Literal["refuse", "allow"] = "refuse"
    """Whether the text may contain control tokens of the target."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Values of request options that change the front of a request, by name; they are frozen in the fragment.
    `response_schema` is a file with a JSON Schema, which each format sends in its own way."""
    budget: Annotated[int, Limits(ge=1)] | None = None
    """The most static tokens that the prefix may have, for each target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixEntry:
    """One entry of `exclude` or `include` in a matrix.

    Attributes:
        values: axis -> the values that match, any of them; for `include`, one value of every axis.
        targets: names of targets and globs that match, any of them; None where the entry is about all targets.
    """

    values: Mapping[str, tuple[AxisValue, ...]]
    targets: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(ManifestKeys):
    """The manifest of one prefix; its `matrix` has the axes alone.

    Attributes:
        name: the name of the prefix.
        path: the manifest file, relative to the project root.
        lines: the line of each key in that file.
        exclude: the combinations of the matrix that are left out.
        include: the combinations that are added after that.
        cache_key: the value by which the requests of all its variants choose the same cache.
        response_schema: the schema in the file that its option of this name is; None without one, or before it is read.
    """

    name: str
    path: str
    lines: Mapping[Keys, int]
    exclude: tuple[MatrixEntry, ...] = ()
    include: tuple[MatrixEntry, ...] = ()
    cache_key: str = ""
    response_schema: ResponseSchema | None = None

    def line(self, *keys: str | int) -> int | None:
        """Returns the line of the value under these keys, or of the nearest one around it."""
        return nearest_line(self.lines, keys)

    def axis_keys(self, axis: str, value: AxisValue) -> Keys:
        """Returns the keys that lead to a value of an axis: in the list of the axis, or in an included combination."""
        if value in self.matrix[axis]:
            return ("matrix", axis, self.matrix[axis].index(value))
        included = (index for index, entry in enumerate(self.include) if value in entry.values[axis])
        return ("matrix", "include", next(included), axis)

    def fault(self, message: str, *keys: str | int, hint: str | None = None) -> Fault:
        """Returns a fault at the value under these keys."""
        return Fault(message=message, path=self.path, line=self.line(*keys), hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One combination of a manifest's matrix; the manifest itself where it has no matrix.

    Attributes:
        name: `support/agent@locale=de,plan=pro`, or the name of the prefix where there is no matrix.
        manifest: the manifest.
        axes: the value of each axis.
        targets: the names of the targets that it is compiled for, at least one.
    """

    name: str
    manifest: Manifest
    axes: Mapping[str, AxisValue]
    targets: tuple[str, ...]
