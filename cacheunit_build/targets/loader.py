"""Loads the known targets and those of a project: reads TOML, applies extensions to their bases, finds by name."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.document import Document
from cacheunit_build.domain.errors import CacheunitError, Fault, fail
from cacheunit_build.domain.file_names import CACHED_CONTENT, REQUEST, artifact_stem
from cacheunit_build.domain.lazy_mapping import LazyMapping
from cacheunit_build.domain.names import MAX_FILE_BYTES, name_problem
from cacheunit_build.domain.target import Target, TargetKeys
from cacheunit_build.domain.target_table import TargetReferenceError, TargetTables, whole_table
from cacheunit_build.domain.toml import read_toml
from cacheunit_build.parsing.validation import json_schema, validate
from cacheunit_build.request_formats.formats import FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from importlib.resources.abc import Traversable

    from cacheunit_build.domain.settings import Settings
    from cacheunit_build.domain.target import TokenizerSpec

_SUFFIX = ".toml"
_MOST_TARGETS = 1_000


SHIPPED_ENCODERS: frozenset[str] = frozenset(
    {
        "bdbd57c132a1b3725042323d02b98b9d1df28e5f388f134399555d041f5055e0",  # DeepSeek V4, encoding_dsv4.py
        "b9568a532fb524f2a041e360c650add755dc254c9ca72aa53bfca442ed1b6a46",  # gpt-oss, targets/harmony.py
    }
)
"""The SHA-256 of each Python encoder that a target or a model of this package names.

They may run where project code may not. They read no other files, so that a build is reused as with a chat template,
put a system text in as it is, and tools one after the other, with nothing else that depends on more than the first one.
"""


def known_targets() -> Mapping[str, Target]:
    """Returns the targets that come with the package, by name. Each is read when it is first asked for."""
    return _known()


def known_vocabularies() -> Mapping[str, TokenizerSpec | None]:
    """Returns the vocabularies of the known targets, by target, each read when it is asked for."""
    known = known_targets()
    return LazyMapping(known, lambda name: known[name].tokenizer)


@cache
def _known() -> Mapping[str, Target]:
    shipped = _shipped()
    return LazyMapping(shipped, lambda name: _target(name, shipped[name]))


@cache
def _shipped() -> Mapping[str, Document]:
    """Returns the tables of the known targets, by name."""
    return packaged_tables(_toml_files(resources.files(__package__)))


@cache
def _models() -> Mapping[str, dict[str, Any]]:
    """Returns the tables of the models that come with the package, by name."""
    files = _toml_files(resources.files(__package__) / "models")
    return LazyMapping(files, lambda name: read_toml(files[name], f"models/{name}{_SUFFIX}").value)


def _toml_files(folder: Traversable) -> Mapping[str, bytes]:
    """Returns the bytes of each TOML file in a folder of the package, by its name without the suffix."""
    names = sorted(entry.name.removesuffix(_SUFFIX) for entry in folder.iterdir() if entry.name.endswith(_SUFFIX))
    return LazyMapping(names, lambda name: (folder / f"{name}{_SUFFIX}").read_bytes())


def known_models() -> Mapping[str, Target]:
    """Returns the models that come with the package, by name: each as a target without a cache rule."""
    models = _models()

    def model(name: str) -> Target:
        table = {**models[name], "request": "openai-chat", "model": name}
        return _target(name, Document(path=f"models/{name}{_SUFFIX}", value=table))

    return LazyMapping(models, model)


def packaged_tables(files: Mapping[str, bytes]) -> Mapping[str, Document]:
    """Returns the tables in the files of targets, each merged over those that it extends, sorted by name.

    The evidence in such a file may be a table with a name for each claim, so that a file that extends it replaces one
    claim and keeps the others. In the result, evidence is a list. Each table is read when it is first asked for.

    Args:
        files: name of the target -> bytes of its TOML file.

    Raises:
        CacheunitError: in the mapping that is returned, where a file is not TOML or extends an unknown target, or files
            extend each other in a cycle.
    """
    documents = LazyMapping(sorted(files), lambda name: read_toml(files[name], f"{name}{_SUFFIX}"))
    known = LazyMapping(documents, lambda name: documents[name].value)
    tables = TargetTables(project={}, known=known, models=_models())

    def merged(name: str) -> Document:
        document = documents[name]
        try:
            table = whole_table(name, tables)
        except TargetReferenceError as error:
            raise CacheunitError(*error.faults_at(document.path, document.line(error.keys))) from None
        return replace(document, value=_with_listed_evidence(table))

    return LazyMapping(documents, merged)


def _with_listed_evidence(table: dict[str, Any]) -> dict[str, Any]:
    """Returns the table of a target with its evidence as a list, without the names of the claims."""
    rule = table.get("cache")
    if not isinstance(rule, dict) or not isinstance(rule.get("evidence"), dict):
        return table
    return {**table, "cache": {**rule, "evidence": list(rule["evidence"].values())}}


def all_targets(settings: Settings) -> Mapping[str, Target]:
    """Returns the known targets and those of the project, by name.

    Raises:
        CacheunitError: every fault in every table.
    """
    if len(settings.target) > _MOST_TARGETS:
        message = f"{len(settings.target):,} targets are defined, more than {_MOST_TARGETS:,}"
        raise CacheunitError(settings.fault(message, "target"))
    if not settings.target:
        return known_targets()
    own: dict[str, Target] = {}
    shipped = _shipped()
    known = LazyMapping(shipped, lambda name: shipped[name].value)
    tables = TargetTables(project=settings.target, known=known, models=_models())
    faults: list[Fault] = []
    for name in sorted(settings.target):
        faults += _name_faults(name, [*known, *settings.target], settings)
        try:
            table = _whole_table(name, tables, settings)
            document = Document(path=settings.document.path, value=table, lines=settings.document.lines)
            target = _target(name, document, (*settings.table_keys, "target", name))
            listed = name in known or bool({"model_ids", "models"} & settings.target[name].keys())
            own[name] = replace(target, names_models=listed)
        except CacheunitError as error:
            faults += error.faults
    if faults:
        raise CacheunitError(*faults)
    known_by_name = known_targets()
    return LazyMapping([*known, *own], lambda name: own[name] if name in own else known_by_name[name])


def target_table_schema() -> dict[str, Any]:
    """Returns the JSON Schema of a target's table in the settings, where `extends` names the target to start from."""
    schema = json_schema(TargetKeys)
    schema["properties"]["request"]["enum"] = list(FORMATS)
    schema["properties"]["extends"] = {"type": "string", "description": "The target whose keys this one starts from."}
    rule = schema["properties"]["cache"]
    rule_of = {"type": "string", "description": "The target whose cache rule, options and limits this one has."}
    schema["properties"]["cache"] = {"anyOf": [rule_of, rule]}
    schema["$defs"]["CacheRule"]["properties"]["extends"] = rule_of
    folder = {"type": "object", "required": ["path"], "additionalProperties": False}
    folder["properties"] = {key: {"type": "string"} for key in ("path", "encoder")}
    schema["properties"]["model"] = {
        "anyOf": [{"type": "string", "enum": list(_models())}, folder],
        "description": "The model whose vocabulary and frame this target has: its name, or its folder in the project.",
    }
    schema["properties"] = dict(sorted(schema["properties"].items()))
    schema.pop("required")
    return schema


def _name_faults(name: str, names: Iterable[str], settings: Settings) -> Iterator[Fault]:
    """Yields a fault for a name that cannot name an artifact's file on every system."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        hint = "use letters, digits, dots, _ and -"
        yield settings.fault(f"{name!r} cannot name a target", "target", name, hint=hint)
        return
    problem = name_problem(f"{name}{CACHED_CONTENT}", MAX_FILE_BYTES)
    if problem is None and artifact_stem(f"{name}{REQUEST}") != name:
        problem = f'is the file of cached content of a target "{artifact_stem(f"{name}{REQUEST}")}"'
    if problem is not None:
        yield settings.fault(f'"{name}{REQUEST}" {problem}', "target", name, hint="use another name for the target")
        return
    for other in names:
        if other != name and other.casefold() == name.casefold():
            message = f'target "{name}" differs from "{other}" only in letter case'
            yield settings.fault(message, "target", name, hint="rename it")
            return


def _whole_table(name: str, tables: TargetTables, settings: Settings) -> dict[str, Any]:
    """Returns the table of one of the project's targets, with everything that it refers to.

    Raises:
        CacheunitError: it refers to what does not exist, or targets extend each other in a cycle; at that key.
    """
    try:
        return whole_table(name, tables)
    except TargetReferenceError as error:
        place = settings.fault("", "target", name, *error.keys)
        raise CacheunitError(*error.faults_at(place.path, place.line)) from None


def _target(name: str, document: Document, table_keys: tuple[str, ...] = ()) -> Target:
    """Returns the target in a table.

    Raises:
        CacheunitError: every fault in the table.
    """
    faults = [*_format_faults(document, table_keys), *_argument_faults(document, table_keys)]
    try:
        keys = validate(TargetKeys, document, table_keys, keys_read_before=("extends",))
    except CacheunitError as error:
        raise CacheunitError(*sorted((*faults, *error.faults), key=lambda fault: fault.line or 0)) from None
    faults += _option_faults(keys, document, table_keys)
    if faults:
        raise CacheunitError(*faults)
    marker = keys.cache.marker
    if marker is not None and marker not in FORMATS[keys.request].markers:
        line = document.line((*table_keys, "cache", "marker"))
        raise fail(f'format "{keys.request}" has no marker "{marker}"', path=document.path, line=line)
    if keys.cache.is_stored and not FORMATS[keys.request].stored_keys:
        line = document.line((*table_keys, "cache", "kind"))
        raise fail(f'format "{keys.request}" has no kind "{keys.cache.kind}"', path=document.path, line=line)
    return Target(name=name, **{field.name: getattr(keys, field.name) for field in fields(keys)})


def _format_faults(document: Document, table_keys: tuple[str, ...]) -> Iterator[Fault]:
    """Yields a fault if `request` is a text, but not the name of a format."""
    name = document.value.get("request")
    if isinstance(name, str) and name not in FORMATS:
        *names, last = map(repr, FORMATS)
        message = f'"request" must be {", ".join(names)} or {last}, not {name!r}'
        yield Fault(message=message, path=document.path, line=document.line((*table_keys, "request")))


def _argument_faults(document: Document, table_keys: tuple[str, ...]) -> Iterator[Fault]:
    """Yields a fault for an argument of a frame, and a neutral value of an option, that JSON does not have.

    Such a value is a date of TOML, or its `inf`.
    """
    frame, options = document.value.get("frame"), document.value.get("options")
    values: list[tuple[tuple[str | int, ...], object]] = [(("frame", "arguments"), frame)]
    if isinstance(options, list):
        values += [(("options", index, "neutral"), option) for index, option in enumerate(options)]
    for keys, table in values:
        try:
            json.dumps(table.get(keys[-1]) if isinstance(table, dict) else None, allow_nan=False)
        except (TypeError, ValueError) as error:
            message = f'"{keys[0]}.{keys[-1]}" has a value that JSON does not have: {error}'
            yield Fault(message=message, path=document.path, line=document.line((*table_keys, *keys)))


def _option_faults(target: TargetKeys, document: Document, table_keys: tuple[str, ...]) -> Iterator[Fault]:
    """Yields a fault for each option that is listed twice, or that is a part of the value of another one."""
    for index, option in enumerate(target.options):
        for other in target.options[:index]:
            if f"{option.name}.".startswith(f"{other.name}.") or other.name.startswith(f"{option.name}."):
                message = f'option "{option.name}" overlaps option "{other.name}"'
                line = document.line((*table_keys, "options", index))
                yield Fault(message=message, path=document.path, line=line, hint="list one of them")
