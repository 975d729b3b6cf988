"""The known targets: one TOML file each, read into `Target`. To add a provider, add a file."""

from __future__ import annotations

import datetime as dt  # noqa: TID251 - the type of a date in TOML; no clock is read
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from cacheunit_build.document import Document, read_toml
from cacheunit_build.errors import CacheunitError, Fault, did_you_mean
from cacheunit_build.model import CacheRule, Evidence, Frame, Target, TokenizerSpec
from cacheunit_build.schema import Strict, validate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cacheunit_build.model import Config

MOST_UNIT = 1 << 20
"""The most tokens that a cache unit may have."""


def _number(value: object) -> object:
    """TOML writes 1 and 1.0 apart; a price may be either."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _date(value: object) -> object:
    return value.isoformat() if isinstance(value, dt.date) else value


Price = Annotated[float, BeforeValidator(_number)]


class _Tokenizer(Strict):
    package: str | None = Field(default=None, description="An installed package that holds `file`.")
    file: str | None = Field(default=None, description="A tokenizer.json inside `package`.")
    path: str | None = Field(default=None, description="A tokenizer.json of the project, relative to its root.")
    encoding: str | None = Field(default=None, description="A tiktoken encoding, such as o200k_base.")
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$", description="What the file must hash to.")

    @model_validator(mode="after")
    def _one_source(self) -> _Tokenizer:
        if sum(source is not None for source in (self.package, self.path, self.encoding)) != 1:
            raise ValueError('needs exactly one of "package" with "file", "path", or "encoding"')
        if (self.package is None) != (self.file is None):
            raise ValueError('needs "package" and "file" together')
        return self


class _Frame(Strict):
    before: str = Field(default="", description="What stands before the system text: start token, role marker.")
    after: str = Field(default="", description="What stands after it, up to the user's first character.")


class _Evidence(Strict):
    claim: str
    grade: Literal["documented", "measured", "inferred"]
    checked: Annotated[str, BeforeValidator(_date), Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    source: str


class _Cache(Strict):
    kind: Literal["blocks", "breakpoints", "tokens", "unknown"] = "unknown"
    unit: int = Field(default=0, gt=0, le=MOST_UNIT, description="Tokens in one cache unit; absent: unknown.")
    minimum: int = Field(default=0, ge=0, description="Fewer tokens than this are never cached.")
    read: Price | None = Field(default=None, ge=0, le=1, description="Price of a cached token; an uncached one is 1.")
    write: Price | None = Field(default=None, ge=0, description="Price of writing a token to the cache.")
    evidence: list[_Evidence] = Field(default=[])


class TargetSchema(Strict):
    """What a prefix is compiled for."""

    description: str = ""
    models: list[str] = Field(default=[], description="Names of models that use this target.")
    request: Literal["openai-chat", "openai-responses", "anthropic-messages", "text"]
    tokenizer: _Tokenizer
    frame: _Frame = _Frame()
    cache: _Cache = _Cache()


class TargetTable(TargetSchema):
    """A target of the project; `extends` names the one whose keys it starts from."""

    extends: str | None = None
    request: Literal["openai-chat", "openai-responses", "anthropic-messages", "text"] | None = None  # type: ignore[assignment]
    tokenizer: _Tokenizer | None = None  # type: ignore[assignment]


def known_targets() -> dict[str, Target]:
    """The targets that come with the package, by name."""
    return {name: _target(name, document) for name, document in _shipped().items()}


def _shipped() -> dict[str, Document]:
    folder = resources.files(__name__)
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return {name.removesuffix(".toml"): read_toml((folder / name).read_bytes(), name) for name in names}


def all_targets(config: Config) -> dict[str, Target]:
    """The known targets and those of the project, by name.

    Raises:
        CacheunitError: every fault in every table.
    """
    targets = known_targets()
    raw: dict[str, Any] = {**{name: shipped.value for name, shipped in _shipped().items()}, **config.tables}
    document = config.document
    faults: list[Fault] = []
    for name in sorted(config.tables):
        place = (*config.under, "target", name)
        try:
            value = _extended(name, raw, document, place)
            targets[name] = _target(name, Document(path=document.path, value=value, lines=document.lines), place)
        except CacheunitError as error:
            faults += error.faults
    if faults:
        raise CacheunitError(*faults)
    return targets


def _extended(name: str, raw: Mapping[str, Any], document: Document, place: tuple[str, ...]) -> dict[str, Any]:
    """The table of `name` laid over the one it extends, and so on upwards."""
    chain = [name]
    value = dict(raw[name])
    while (base := value.pop("extends", None)) is not None:
        line = document.line((*place, "extends"))
        if not isinstance(base, str) or base not in raw:
            hint = did_you_mean(str(base), raw)
            raise CacheunitError(Fault(message=f'unknown target "{base}"', path=document.path, line=line, hint=hint))
        if base in chain:
            message = f"targets extend one another without end: {' -> '.join([*chain, base])}"
            raise CacheunitError(Fault(message=message, path=document.path, line=line))
        chain.append(base)
        value = _overlaid(raw[base], value)
    return value


def _overlaid(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` on `base`, tables merged; another source of the vocabulary replaces the whole table, hash included."""
    merged = dict(base)
    for key, value in over.items():
        merges = isinstance(value, dict) and isinstance(merged.get(key), dict) and key != "tokenizer"
        merged[key] = _overlaid(merged[key], value) if merges else value
    return merged


def _target(name: str, document: Document, under: tuple[str, ...] = ()) -> Target:
    read = validate(TargetSchema, document, under)
    cache = read.cache
    return Target(
        name=name,
        description=read.description,
        models=tuple(read.models),
        request=read.request,
        tokenizer=TokenizerSpec(**read.tokenizer.model_dump()),
        frame=Frame(before=read.frame.before, after=read.frame.after),
        cache=CacheRule(
            kind=cache.kind,
            unit=cache.unit if cache.kind == "blocks" else 0,
            minimum=cache.minimum,
            read=cache.read,
            write=cache.write,
            evidence=tuple(Evidence(**item.model_dump()) for item in cache.evidence),
        ),
    )


def find_target(name: str, targets: Mapping[str, Target]) -> Target | None:
    """The target of that name, or the one that has a model of that name."""
    if name in targets:
        return targets[name]
    return next((target for target in targets.values() if name in target.models), None)


def target_names(targets: Mapping[str, Target]) -> Iterable[str]:
    """Every word that names a target: names and models."""
    return [*targets, *(model for target in targets.values() for model in target.models)]
