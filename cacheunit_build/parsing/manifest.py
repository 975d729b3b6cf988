"""Reads a manifest from YAML."""

from __future__ import annotations

import itertools
import re
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.errors import CacheunitError, Fault, first_faults
from cacheunit_build.domain.front_options import MANIFEST_KEYS, RESPONSE_SCHEMA
from cacheunit_build.domain.lifetimes import lifetime_seconds
from cacheunit_build.domain.manifest import MARKER_PARTS, Manifest, ManifestKeys
from cacheunit_build.domain.paths import normal_path
from cacheunit_build.parsing.examples import example_faults
from cacheunit_build.parsing.matrix import ENTRY_KEYS, entry_schemas, with_entries
from cacheunit_build.parsing.validation import json_schema, validate
from cacheunit_build.parsing.yaml import read_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from cacheunit_build.domain.document import Document, Keys

_KEYS = tuple(field.name for field in fields(ManifestKeys))
_MOST_OPTIONS = 1_000
_IGNORED = "x-"
"""The beginning of keys that are ignored, as in Docker Compose: their values may have anchors for other keys."""

_SHORTHANDS = (("system",), ("strip",), ("padding",), ("cache", "ttl"))
"""The keys of values that may be a text, which `_without_shorthands` writes out."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = frozenset(
    (
        *("and", "as", "block", "call", "caller", "else", "elif", "extends", "false", "False", "filter", "for", "from"),
        *("if", "import", "in", "include", "is", "kwargs", "loop", "macro", "none", "None", "not", "or", "raw"),
        *("recursive", "self", "set", "super", "true", "True", "varargs", "with", "without"),
    )
)
"""Words of the template language, which cannot name a variable."""


def parse_manifest(data: bytes, *, name: str, path: str, cache_key: str = "") -> Manifest:
    """Returns the manifest of a prefix.

    Args:
        data: the bytes of the manifest file.
        name: the name of the prefix.
        path: the manifest file, relative to the project root.
        cache_key: the value by which its requests choose a cache.

    Raises:
        CacheunitError: every fault in it.
    """
    document = read_yaml(data, path, floats=_is_sent)
    if document.value is None:
        raise CacheunitError(Fault(message="the manifest is empty", path=path, hint='it needs "system: TEMPLATE"'))
    if not isinstance(document.value, dict):
        raise CacheunitError(Fault(message="a manifest must be a mapping", path=path, line=document.line(())))
    keys = validate(ManifestKeys, _without_shorthands(document), shorthands=_SHORTHANDS)
    values: dict[str, Any] = {key: getattr(keys, key) for key in _KEYS}
    values["matrix"] = {axis: items for axis, items in keys.matrix.items() if axis not in ENTRY_KEYS}
    manifest = Manifest(**values, name=name, path=path, lines=document.lines, cache_key=cache_key)
    faults = [fault for check in _CHECKS for fault in check(manifest)]
    manifest, matrix_faults = with_entries(manifest, keys.matrix)
    faults += matrix_faults
    if faults:
        raise CacheunitError(*first_faults(faults))
    return manifest


def manifest_schema() -> dict[str, Any]:
    """Returns the JSON Schema of a manifest, shorthands included."""
    schema = json_schema(ManifestKeys)
    keys = schema["properties"]
    system, padding, strip = keys["system"], keys["padding"], keys["strip"]
    listed = {key: system.pop(key) for key in ("type", "items", "minItems")}
    system["anyOf"] = [{"type": "string"}, listed]
    lifetimes = schema["$defs"]["CacheOptions"]["properties"]["ttl"]
    lifetimes["anyOf"] = [{"type": "string"}, {"$ref": lifetimes.pop("$ref")}]
    padding["anyOf"] = [{"enum": ["auto", "always", "off"]}, {"$ref": padding.pop("$ref")}]
    strip["anyOf"] = [strip["items"], {key: strip.pop(key) for key in ("type", "items")}]
    keys["matrix"]["properties"] = entry_schemas()
    schema["patternProperties"] = {f"^{_IGNORED}": {"description": "Ignored: a place for YAML anchors."}}
    return schema


def _is_sent(keys: Keys) -> bool:
    """Returns whether a value of a manifest is sent in a request as it is: that of an option, or of a tool call."""
    return keys[:1] == ("options",) or (keys[:1] == ("examples",) and keys[2:3] == ("tool_calls",))


def _without_shorthands(document: Document) -> Document:
    """Returns the manifest with its shorthands written out.

    system: a.md.j2      ->  system: [a.md.j2]
    strip: front-matter  ->  strip: [front-matter]
    padding: always      ->  padding: {mode: always}
    cache: {ttl: 1h}     ->  cache: {ttl: {tools: 1h, shared: 1h, prefix: 1h}}

    Keys that begin with `x-` are left out. `reuses` is the former name of `hits_per_miss`.
    """
    value = {key: item for key, item in document.value.items() if not key.startswith(_IGNORED)}
    for key in ("system", "strip"):
        if isinstance(value.get(key), str):
            value[key] = [value[key]]
    cache = value.get("cache")
    if isinstance(cache, dict) and isinstance(cache.get("ttl"), str):
        value["cache"] = {**cache, "ttl": dict.fromkeys(MARKER_PARTS, cache["ttl"])}
    if isinstance(value.get("padding"), str):
        value["padding"] = {"mode": value["padding"]}
    elif isinstance(value.get("padding"), dict):
        value["padding"] = _with_present_names(value["padding"], document)
    return replace(document, value=value)


def _with_present_names(padding: Mapping[str, Any], document: Document) -> dict[str, Any]:
    """Returns the padding options with `hits_per_miss` for its former name `reuses`.

    Raises:
        CacheunitError: both names are used.
    """
    if {"reuses", "hits_per_miss"} <= padding.keys():
        message = '"padding.reuses" is the former name of "padding.hits_per_miss": both are set'
        raise CacheunitError(
            Fault(
                message=message, path=document.path, line=document.line(("padding", "reuses")), hint="keep one of them"
            )
        )
    return {"hits_per_miss" if key == "reuses" else key: value for key, value in padding.items()}


def _missing_segment(manifest: Manifest) -> Iterator[Fault]:
    """Yields a fault where there is neither system text nor a tool."""
    if not manifest.system and not manifest.tools:
        yield manifest.fault('key "system" is missing', hint='a prefix needs "system" or "tools"')


def _target_faults(manifest: Manifest) -> Iterator[Fault]:
    """Yields a fault for each target that is named twice."""
    names: set[str] = set()
    for index, target in enumerate(manifest.targets or ()):
        if target in names:
            yield manifest.fault(f'target "{target}" is named twice', "targets", index)
        names.add(target)


def _variable_faults(manifest: Manifest) -> Iterator[Fault]:
    """Yields a fault for each variable whose name is not an identifier, is reserved, or is used twice."""
    origins: dict[str, str] = {}
    for key, names in (("variables", manifest.variables), ("data", manifest.data), ("matrix", manifest.matrix)):
        for name in names:
            if not _NAME.fullmatch(name) or name in _RESERVED:
                hint = "use letters, digits and _, and no word of the template language"
                yield manifest.fault(f'"{name}" is not a valid variable name', key, name, hint=hint)
            if name in origins:
                message = f'variable "{name}" is in both "{key}" and "{origins[name]}"'
                yield manifest.fault(message, key, name, hint="rename one of them")
            origins[name] = key


def _path_faults(manifest: Manifest) -> Iterator[Fault]:
    """Yields a fault for each data, tool or schema file that is not a path inside the project."""
    files: list[tuple[str, str | int, str]] = [("data", name, file) for name, file in manifest.data.items()]
    files += [("tools", index, file) for index, file in enumerate(manifest.tools)]
    schema = manifest.options.get(RESPONSE_SCHEMA)
    if isinstance(schema, str):
        files.append(("options", RESPONSE_SCHEMA, schema))
    elif schema is not None:  # an option without a value is a fault of its own
        message = f'"{RESPONSE_SCHEMA}" must be the path of a file with a JSON Schema'
        yield manifest.fault(message, "options", RESPONSE_SCHEMA)
    for key, item, file in files:
        try:
            normal_path(file)
        except CacheunitError as error:
            yield from (manifest.fault(fault.message, key, item, hint=fault.hint) for fault in error.faults)


def _strip_faults(manifest: Manifest) -> Iterator[Fault]:
    """Yields a fault where something that is removed is named twice."""
    if len(set(manifest.strip)) < len(manifest.strip):
        yield manifest.fault('"strip" names "front-matter" twice', "strip", hint="remove one of them")


def _padding_faults(manifest: Manifest) -> Iterator[Fault]:
    """Yields a fault where the padding options contradict each other."""
    padding = manifest.padding
    if padding.floor and padding.mode == "off":
        yield manifest.fault('"floor: true" and "mode: off" contradict each other', "padding")
    elif padding.hits_per_miss is not None and padding.mode != "auto" and not padding.floor:
        message = f'"padding.hits_per_miss" has no effect with "mode: {padding.mode}"'
        yield manifest.fault(message, "padding", "hits_per_miss")


def _lifetime_faults(manifest: Manifest) -> Iterator[Fault]:
    """Yields a fault for each lifetime that is none, and for one that is longer than that of an earlier marker."""
    lifetimes = manifest.cache.ttl.by_part
    for part, lifetime in lifetimes.items():
        if lifetime_seconds(lifetime) is None:
            hint = "write a number with s, m, h or d, such as 5m or 1h"
            yield manifest.fault(f'"{lifetime}" is not a lifetime', "cache", "ttl", part, hint=hint)
            return
    for (part, lifetime), (later, longer) in itertools.pairwise(lifetimes.items()):
        if (lifetime_seconds(lifetime) or 0) < (lifetime_seconds(longer) or 0):
            message = f'the lifetime of "{later}", {longer}, is longer than that of "{part}" in front of it, {lifetime}'
            hint = "providers want longer lifetimes first: in the order tools, shared, prefix"
            yield manifest.fault(message, "cache", "ttl", later, hint=hint)


def _option_faults(manifest: Manifest) -> Iterator[Fault]:
    """Yields a fault for each option that is a part of the prefix, has no value, or is set twice."""
    owners: dict[str, str] = {}
    number = sum(1 for key, value in manifest.options.items() for _ in _leaves(key, value))
    if number > _MOST_OPTIONS:
        yield manifest.fault(f"{number:,} options are set, more than {_MOST_OPTIONS:,}", "options")
        return
    for key, value in manifest.options.items():
        names = [f"{name}." for name, _ in _leaves(key, value)]
        part = next((part for part in MANIFEST_KEYS if any(name.startswith(f"{part}.") for name in names)), None)
        if part is not None:
            hint = f'use the key "{MANIFEST_KEYS[part]}" of the manifest'
            yield manifest.fault(f'"{part}" is a part of the prefix, not an option', "options", key, hint=hint)
        elif not all(key.split(".")):
            yield manifest.fault(f'"{key}" is not the name of an option', "options", key)
        for name, item in _leaves(key, value):
            if item is None:
                yield manifest.fault(f'option "{name}" has no value', "options", key, hint="leave it out")
            if any(key != owner and _overlap(name, other) for other, owner in owners.items()):
                yield manifest.fault(f'option "{name}" is set twice', "options", key, hint="keep one of them")
            owners.setdefault(name, key)


def _leaves(name: str, value: object) -> Iterator[tuple[str, object]]:
    """Yields the dotted name and the value of each value that is not a mapping with items."""
    if not isinstance(value, dict) or not value:
        yield name, value
        return
    for key, item in value.items():
        yield from _leaves(f"{name}.{key}", item)


def _overlap(name: str, other: str) -> bool:
    """Returns whether two dotted names are equal, or one leads to the other."""
    return f"{name}.".startswith(f"{other}.") or f"{other}.".startswith(f"{name}.")


_CHECKS: tuple[Callable[[Manifest], Iterator[Fault]], ...] = (
    *(_missing_segment, _target_faults, _variable_faults, _path_faults, _strip_faults, _padding_faults),
    *(_option_faults, _lifetime_faults, example_faults),
)
"""What validation by type cannot check."""
