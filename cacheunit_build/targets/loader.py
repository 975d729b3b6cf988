"""The known targets: one TOML file each, read into `Target`. To add a provider, add a file."""

from __future__ import annotations

import datetime as dt  # noqa: TID251 - the type of a date in TOML; no clock is read
import json
import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from cacheunit_build.domain.cache_rule import CacheKind, CacheRule, Evidence, Grade, MarkerName
from cacheunit_build.domain.document import Document
from cacheunit_build.domain.errors import CacheunitError, Fault, did_you_mean, fail
from cacheunit_build.domain.target import FormatName, Frame, Price, Target, TokenizerSpec
from cacheunit_build.parsing.document import read_toml
from cacheunit_build.parsing.validation import Strict, validate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cacheunit_build.domain.models import Settings

MOST_UNIT = 1 << 20
"""The most tokens that a cache unit may have."""


def _number(value: object) -> object:
    """TOML writes 1 and 1.0 apart; a price may be either."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _real_day(text: str) -> str:
    try:
        dt.date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"is no day: {text}") from None
    return text


def _date(value: object) -> object:
    return value.isoformat() if isinstance(value, dt.date) else value


Number = Annotated[float, BeforeValidator(_number), Field(allow_inf_nan=False)]


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"has a value that JSON cannot say: {error}") from None
    return value


class _Tokenizer(Strict):
    package: str | None = Field(default=None, description="An installed package that holds `file`.")
    file: str | None = Field(default=None, description="A tokenizer.json inside `package`.")
    path: str | None = Field(default=None, description="A tokenizer.json of the project, relative to its root.")
    encoding: str | None = Field(default=None, description="A tiktoken encoding, such as o200k_base.")
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$", description="What the file must hash to.")
    estimate: str | None = Field(default=None, description="No vocabulary: count by that known target's instead.")
    margin: Number = Field(default=0.0, ge=0, lt=1, description="By what share of the count an estimate may be off.")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if sum(source is not None for source in (self.package, self.path, self.encoding, self.estimate)) != 1:
            raise ValueError('needs exactly one of "package" with "file", "path", "encoding" or "estimate"')
        if (self.package is None) != (self.file is None):
            raise ValueError('needs "package" and "file" together')
        if (self.estimate is None) != (self.margin == 0):
            raise ValueError('needs "estimate" and a "margin" above 0 together')
        return self


class _Frame(Strict):
    before: str = Field(default="", description="What stands before the system text: start token, role marker.")
    after: str = Field(default="", description="What stands after it, up to the user's first character.")
    chat_template: str | None = Field(default=None, description="A Jinja file or tokenizer_config.json of the project.")
    encoder: str | None = Field(default=None, description="The model's own encoder, PATH.py:FUNCTION.")
    arguments: Annotated[dict[str, Any], AfterValidator(_plain)] = Field(
        default={}, description="Further arguments of the template or the function."
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if sum((bool(self.before or self.after), self.chat_template is not None, self.encoder is not None)) > 1:
            raise ValueError('takes one of "before" and "after", "chat_template", or "encoder"')
        if self.encoder is not None and not re.fullmatch(r".+\.py:[A-Za-z_]\w*", self.encoder):
            raise ValueError('needs an "encoder" of the form PATH.py:FUNCTION')
        if self.arguments and self.chat_template is None and self.encoder is None:
            raise ValueError('has "arguments", and no "chat_template" or "encoder" to take them')
        return self


class _Evidence(Strict):
    claim: str
    grade: Grade
    checked: Annotated[str, BeforeValidator(_date), Field(pattern=r"^\d{4}-\d{2}-\d{2}$"), AfterValidator(_real_day)]
    source: str


class _Cache(Strict):
    kind: CacheKind = "unknown"
    unit: int | None = Field(default=None, gt=0, le=MOST_UNIT, description="Tokens in one cache unit, of blocks.")
    minimum: int | None = Field(default=None, ge=0, description="Fewer tokens than this are never cached.")
    read: Number | None = Field(default=None, ge=0, le=1, description="Price of a cached token; an uncached one is 1.")
    write: Number | None = Field(default=None, ge=0, description="Price of writing a token to the cache.")
    marker: MarkerName | None = Field(
        default=None, description="What a request must carry for its prefix to be cached."
    )
    warm_up_requests: int = Field(
        default=1, ge=1, le=5, description="Requests with different continuations until a further one is served."
    )
    evidence: list[_Evidence] = Field(default=[])

    @model_validator(mode="after")
    def _unit_of_blocks(self) -> Self:
        if self.unit is not None and self.kind != "blocks":
            raise ValueError(f'has a "unit", which only kind "blocks" has, not "{self.kind}"')
        return self


class _Price(Strict):
    input: Number = Field(ge=0, description="What a million uncached input tokens cost.")
    currency: str = Field(default="USD", min_length=1, description="The currency, as it is to be printed.")


class TargetSchema(Strict):
    """What a prefix is compiled for."""

    description: str = ""
    models: list[str] = Field(default=[], description="Names of models that use this target.")
    request: FormatName
    tokenizer: _Tokenizer | None = None
    frame: _Frame = _Frame()
    cache: _Cache = _Cache()
    price: _Price | None = Field(default=None, description="For the money in `diff`; decides no byte.")

    @model_validator(mode="after")
    def _marker_of_format(self) -> Self:
        wanted = {"anthropic-messages": "cache_control", "openai-responses": "prompt_cache_breakpoint", "text": None}
        if self.cache.marker is not None and wanted.get(self.request, self.cache.marker) != self.cache.marker:
            raise ValueError(f'format "{self.request}" has no marker "{self.cache.marker}"')
        return self


class TargetTable(TargetSchema):
    """A target of the project; `extends` names the one whose keys it starts from."""

    extends: str | None = None
    request: FormatName | None = None  # type: ignore[assignment]


def known_targets() -> dict[str, Target]:
    """The targets that come with the package, by name."""
    return dict(_known())


@cache
def _known() -> Mapping[str, Target]:
    return {name: _target(name, document) for name, document in _shipped().items()}


@cache
def _shipped() -> dict[str, Document]:
    folder = resources.files(__package__)
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return {name.removesuffix(".toml"): read_toml((folder / name).read_bytes(), name) for name in names}


def all_targets(config: Settings) -> dict[str, Target]:
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
        faults += _odd_name(name, raw, document, place)
        try:
            value = _extended(name, raw, document, place)
            targets[name] = _target(name, Document(path=document.path, value=value, lines=document.lines), place)
        except CacheunitError as error:
            faults += error.faults
    if faults:
        raise CacheunitError(*faults)
    return targets


def _odd_name(name: str, raw: Mapping[str, Any], document: Document, place: tuple[str, ...]) -> list[Fault]:
    """Artifacts are files named after their target: it must be a file name, and one on every system."""
    line = document.line(place)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        hint = "letters, digits, dot, _ and -"
        return [Fault(message=f"{name!r} cannot name a target", path=document.path, line=line, hint=hint)]
    twin = next((other for other in raw if other != name and other.casefold() == name.casefold()), None)
    if twin is None:
        return []
    message = f'target "{name}" differs from "{twin}" only in letter case'
    return [Fault(message=message, path=document.path, line=line, hint="rename it")]


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
    """`over` on `base`, tables merged; but a vocabulary, a frame or another kind of cache rule comes whole."""
    merged = dict(base)
    for key, value in over.items():
        merges = isinstance(value, dict) and isinstance(merged.get(key), dict) and key not in ("tokenizer", "frame")
        merges = merges and not (
            key == "cache" and value.get("kind", merged[key].get("kind")) != merged[key].get("kind")
        )
        merged[key] = _overlaid(merged[key], value) if merges else value
    return merged


def _target(name: str, document: Document, under: tuple[str, ...] = ()) -> Target:
    read = validate(TargetSchema, document, under)
    cache = read.cache.model_dump(exclude={"evidence"})
    evidence = tuple(Evidence(**item.model_dump()) for item in read.cache.evidence)
    return Target(
        name=name,
        description=read.description,
        models=tuple(read.models),
        request=read.request,
        tokenizer=None if read.tokenizer is None else TokenizerSpec(**read.tokenizer.model_dump()),
        frame=Frame(**read.frame.model_dump()),
        cache=CacheRule(**cache, evidence=evidence),
        price=None if read.price is None else Price(**read.price.model_dump()),
    )


def find_target(name: str, targets: Mapping[str, Target]) -> Target | None:
    """The target of that name, or the one that has a model of that name."""
    if name in targets:
        return targets[name]
    return next((target for target in targets.values() if name in target.models), None)


def named_target(name: str, targets: Mapping[str, Target]) -> Target:
    """The target that `name` names, as `find_target` finds it.

    Raises:
        CacheunitError: there is none.
    """
    found = find_target(name, targets)
    if found is None:
        raise fail(f'unknown target "{name}"', hint=did_you_mean(name, target_names(targets)))
    return found


def target_names(targets: Mapping[str, Target]) -> Iterable[str]:
    """Every word that names a target: names and models."""
    return [*targets, *(model for target in targets.values() for model in target.models)]
