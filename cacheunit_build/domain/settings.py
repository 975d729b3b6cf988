"""The settings of a project: which file has them, and their keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from cacheunit_build.domain.constraints import VALIDATION, Limits
from cacheunit_build.domain.document import Document
from cacheunit_build.domain.editors import DEFAULT_EDITOR
from cacheunit_build.domain.errors import Fault

DEFAULT_TARGET = "deepseek-v4"
DEFAULT_HITS_PER_MISS = 10

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LintSettings:
    """What `lint` reports. Rules are named by code, group or name."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    select: tuple[str, ...] = ()
    """The rules to report. Default: all."""
    ignore: tuple[str, ...] = ()
    """The rules not to report."""
    strict: bool = False
    """Whether warnings too make `lint` fail."""
    severity: Mapping[str, Severity] = field(default_factory=dict)
    """The usual severity of rules in this project, in place of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """What the page of `watch --serve` does."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    editor: str = DEFAULT_EDITOR
    """The editor that opens a source line: a name, or an address with {path} and {line}."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """Where results are shared."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    remote: str = ""
    """The URL of a remote cache, which `build` and `check` read. Default: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsKeys:
    """The settings of a cacheunit project."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    prefixes: str = "prefixes"
    """The folder of manifests."""
    templates: str = "templates"
    """The folder of templates."""
    build: str = "build"
    """The folder of artifacts."""
    targets: Annotated[tuple[str, ...], Limits(min_length=1)] = (DEFAULT_TARGET,)
    """The targets of manifests that name none."""
    hits_per_miss: Annotated[int, Limits(ge=1)] = DEFAULT_HITS_PER_MISS
    """How many requests a cache entry serves for each one that writes it; padding has to pay at that rate."""
    gate: tuple[str, ...] = ()
    """Lint rules that stop a build, by code, group or name, besides CU205."""
    lint: LintSettings = field(default_factory=LintSettings)
    """What `lint` reports."""
    watch: WatchSettings = field(default_factory=WatchSettings)
    """What the page of `watch --serve` does."""
    cache: CacheSettings = field(default_factory=CacheSettings)
    """Where results are shared."""
    project: str = ""
    """The name of the project, for cache keys. Default: that in pyproject.toml."""
    target: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The project's own targets, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(SettingsKeys):
    """The settings of one project.

    Attributes:
        document: the table of settings, with the lines of its file; its path is empty where there are no settings.
        table_keys: the keys under which the table is in its file: `tool`, `cacheunit` in pyproject.toml.
    """

    document: Document
    table_keys: tuple[str, ...]

    @property
    def path(self) -> str | None:
        """The file that holds the settings; None where there are none."""
        return self.document.path or None

    def fault(self, message: str, *keys: str | int, hint: str | None = None) -> Fault:
        """Returns a fault at the setting under these keys."""
        return Fault(message=message, path=self.path, line=self.document.line((*self.table_keys, *keys)), hint=hint)
