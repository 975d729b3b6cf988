"""YAML text -> Manifest -> its variants."""

from __future__ import annotations

import itertools
import math
import re
import urllib.parse
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from cacheunit_build.domain.errors import CacheunitError, Fault
from cacheunit_build.domain.models import ExampleSource, Manifest, Padding, Variant
from cacheunit_build.domain.paths import normal_path
from cacheunit_build.parsing.validation import Strict, validate
from cacheunit_build.parsing.yaml import read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cacheunit_build.domain.models import AxisValue

MOST_VARIANTS = 4096
"""The most variants that one matrix may span."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = frozenset(
    (
        *("and", "as", "block", "call", "caller", "else", "elif", "extends", "false", "False", "filter", "for", "from"),
        *("if", "import", "in", "include", "is", "kwargs", "loop", "macro", "none", "None", "not", "or", "raw"),
        *("recursive", "self", "set", "super", "true", "True", "varargs", "with", "without"),
    )
)
_TEXTS: dict[str, Any] = {"type": "array", "items": {"type": "string"}, "minItems": 1}


def _listed(value: object) -> object:
    if not isinstance(value, str | list):
        raise ValueError("must be a template or a list of templates")  # noqa: TRY004 - what pydantic takes
    return [value] if isinstance(value, str) else value


def _mode(value: object) -> object:
    return {"mode": value} if isinstance(value, str) else value


class _Padding(Strict):
    mode: Literal["auto", "always", "off"] = "auto"
    floor: bool = Field(default=False, description="Grow a prefix that is below the target's minimum up to it.")
    reuses: int | None = Field(default=None, ge=1, description="How often one cache entry is reused; for `floor`.")


class _Example(Strict):
    role: Literal["user", "assistant"]
    template: str | None = Field(default=None, description="A template that gives the text.")
    text: str | None = Field(default=None, description="The text itself, taken literally.")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.template is None) == (self.text is None):
            raise ValueError('needs either "template" or "text"')
        return self


class ManifestSchema(Strict):
    """A cacheunit manifest: one static prefix."""

    description: str = Field(default="", description="For people.")
    targets: list[str] | None = Field(default=None, min_length=1, description="Default: the project's targets.")
    system: Annotated[
        list[str],
        BeforeValidator(_listed),
        WithJsonSchema({"anyOf": [{"type": "string"}, _TEXTS]}),
        Field(min_length=1, description="A template, or a list of templates that are joined by one blank line."),
    ] = []  # noqa: RUF012 - pydantic copies it
    tools: list[str] = Field(
        default=[], description="ProjectFiles of one tool or a list of tools, JSON or YAML, in order."
    )
    examples: list[_Example] = Field(default=[], description="Worked turns that follow the system text.")
    variables: dict[str, Any] = Field(default={}, description="Plain values for the templates.")
    data: dict[str, str] = Field(default={}, description="Variable name -> file: YAML, JSON, or any text.")
    matrix: dict[str, list[Any]] = Field(default={}, description="One variant a combination; an axis is a variable.")
    padding: Annotated[
        _Padding,
        BeforeValidator(_mode),
        WithJsonSchema({"anyOf": [{"enum": ["auto", "always", "off"]}, _Padding.model_json_schema()]}),
        Field(description="Whether padding ends the prefix on a cache-unit boundary."),
    ] = _Padding()
    special_tokens: Literal["refuse", "allow"] = Field(
        default="refuse", description="Whether the text may spell control tokens of the target."
    )
    budget: int | None = Field(default=None, ge=1, description="The most static tokens, per target.")


def parse_manifest(data: bytes, *, name: str, path: str) -> Manifest:
    """The manifest in `data`, bytes of the file at `path`, of the prefix `name`.

    Raises:
        CacheunitError: every fault in it.
    """
    document = read_yaml(data, path)
    if document.value is None:
        raise CacheunitError(Fault(message="the manifest is empty", path=path, hint='it needs "system: TEMPLATE"'))
    if not isinstance(document.value, dict):
        raise CacheunitError(Fault(message="a manifest is one mapping", path=path, line=document.line(())))
    read = validate(ManifestSchema, document)
    manifest = Manifest(
        name=name,
        path=path,
        description=read.description,
        targets=None if read.targets is None else tuple(read.targets),
        system=tuple(read.system),
        tools=tuple(read.tools),
        examples=tuple(ExampleSource(role=e.role, text=e.text, template=e.template) for e in read.examples),
        variables=read.variables,
        data=read.data,
        matrix={axis: tuple(values) for axis, values in read.matrix.items()},
        padding=Padding(mode=read.padding.mode, floor=read.padding.floor, reuses=read.padding.reuses),
        special_tokens=read.special_tokens,
        budget=read.budget,
        lines=document.lines,
    )
    checks = (_no_segment, _odd_targets, _odd_names, _odd_paths, _odd_matrix, _odd_padding)
    faults = [fault for check in checks for fault in check(manifest)]
    if faults:
        raise CacheunitError(*faults)
    return manifest


def _no_segment(manifest: Manifest) -> list[Fault]:
    if manifest.system or manifest.tools:
        return []
    return [manifest.fault('key "system" is missing', hint='a prefix needs "system" or "tools"')]


def _odd_names(manifest: Manifest) -> list[Fault]:
    """Faults in the names of variables: no identifier, reserved, or given twice."""
    faults: list[Fault] = []
    places: dict[str, str] = {}
    for key, names in (("variables", manifest.variables), ("data", manifest.data), ("matrix", manifest.matrix)):
        for name in names:
            if not _NAME.fullmatch(name) or name in _RESERVED:
                hint = "letters, digits and _, not a word of the template language"
                faults.append(manifest.fault(f'"{name}" cannot name a variable', key, name, hint=hint))
            if name in places:
                message = f'variable "{name}" is in "{key}" and in "{places[name]}"'
                faults.append(manifest.fault(message, key, name, hint="give one of them another name"))
            places[name] = key
    return faults


def _odd_paths(manifest: Manifest) -> list[Fault]:
    faults: list[Fault] = []
    places: list[tuple[str, str | int, str]] = [("data", name, file) for name, file in manifest.data.items()]
    places += [("tools", index, file) for index, file in enumerate(manifest.tools)]
    for key, item, file in places:
        try:
            normal_path(file)
        except CacheunitError as error:
            faults += [manifest.fault(fault.message, key, item, hint=fault.hint) for fault in error.faults]
    return faults


def _odd_matrix(manifest: Manifest) -> list[Fault]:
    faults: list[Fault] = []
    for axis, values in manifest.matrix.items():
        if not values:
            faults.append(manifest.fault(f'axis "{axis}" has no value', "matrix", axis))
        spellings: set[str] = set()
        for index, value in enumerate(values):
            if value == "":
                faults.append(manifest.fault(f'a value of axis "{axis}" is empty', "matrix", axis, index))
            elif not isinstance(value, str | int):
                message = f'a value of axis "{axis}" is not text, number or boolean'
                faults.append(manifest.fault(message, "matrix", axis, index))
            elif _spelling(value) in spellings:
                message = f'axis "{axis}" has the value "{_spelling(value)}" twice'
                faults.append(manifest.fault(message, "matrix", axis, index))
            spellings.add(_spelling(value))
    variants = math.prod(len(values) for values in manifest.matrix.values())
    if variants > MOST_VARIANTS:
        faults.append(manifest.fault(f"the matrix spans {variants} variants, more than {MOST_VARIANTS}", "matrix"))
    return faults


def _odd_padding(manifest: Manifest) -> list[Fault]:
    padding = manifest.padding
    if padding.floor and padding.reuses is None:
        hint = "reuses: how many requests one cache entry serves, as a whole number"
        return [manifest.fault('"padding.floor" needs "padding.reuses"', "padding", hint=hint)]
    if padding.reuses is not None and not padding.floor:
        return [manifest.fault('"padding.reuses" has no use without "floor: true"', "padding", "reuses")]
    if padding.floor and padding.mode == "off":
        return [manifest.fault('"floor: true" and "mode: off" contradict each other', "padding")]
    return []


def _odd_targets(manifest: Manifest) -> list[Fault]:
    targets = manifest.targets or ()
    return [
        manifest.fault(f'target "{target}" is named twice', "targets", index)
        for index, target in enumerate(targets)
        if target in targets[:index]
    ]


def expand(manifest: Manifest) -> tuple[Variant, ...]:
    """The variants of a manifest in the order of its matrix; axes stand in a name by code point."""
    axes = sorted(manifest.matrix)
    combinations = itertools.product(*(manifest.matrix[axis] for axis in axes))
    return tuple(_variant(manifest, dict(zip(axes, values, strict=True))) for values in combinations)


def _variant(manifest: Manifest, axes: Mapping[str, AxisValue]) -> Variant:
    suffix = ",".join(f"{axis}={urllib.parse.quote(_spelling(value), safe='')}" for axis, value in axes.items())
    return Variant(name=f"{manifest.name}@{suffix}" if suffix else manifest.name, manifest=manifest, axes=axes)


def _spelling(value: object) -> str:
    """A value as it stands in a variant's name."""
    return str(value).lower() if isinstance(value, bool) else str(value)
