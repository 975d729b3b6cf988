"""Checks the matrix of a manifest: the values of its axes, the number of its combinations and the names they give."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.file_names import axis_spelling, variant_name
from cacheunit_build.domain.names import MAX_NAME_BYTES, composed, folded, name_problem
from cacheunit_build.parsing.matrix_entries import read_entries, value_problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cacheunit_build.domain.document import Keys
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.manifest import AxisValue, Manifest

MOST_VARIANTS = 4096
"""The most combinations that one matrix may have, before any are excluded."""

_MOST_COUNTED = 10**12

ENTRY_KEYS = ("exclude", "include")
"""The keys of a matrix that list combinations, and so cannot name an axis."""


def with_entries(manifest: Manifest, matrix: Mapping[str, Sequence[object]]) -> tuple[Manifest, list[Fault]]:
    """Returns the manifest with the combinations that its matrix excludes and includes, and every fault in the matrix.

    Args:
        manifest: the manifest, with the axes alone.
        matrix: its matrix as it is written, with `exclude` and `include`.
    """
    if not matrix:
        return manifest, []
    faults = list(_axis_faults(manifest))
    if not faults:
        exclude, exclude_faults = read_entries(manifest, "exclude", matrix.get("exclude", ()))
        include, include_faults = read_entries(manifest, "include", matrix.get("include", ()))
        faults = [*exclude_faults, *include_faults]
        manifest = replace(manifest, exclude=exclude, include=include)
    if not faults:
        faults = list(_size_faults(manifest))
    if not faults and manifest.matrix:
        faults = list(_variant_name_faults(manifest))
    return manifest, faults


def entry_schemas() -> dict[str, Any]:
    """Returns the JSON Schemas of `exclude` and `include`."""
    value = {"type": ["string", "integer", "boolean"]}
    text = {"type": "string"}
    target = {
        "anyOf": [text, {"type": "array", "items": text, "minItems": 1}],
        "description": "Names of targets, or globs.",
    }
    values = {"anyOf": [value, {"type": "array", "items": value, "minItems": 1}]}
    descriptions = {
        "exclude": "Combinations that are left out; with a target, for that target alone.",
        "include": "Combinations that are added after that, with a value for every axis.",
    }
    return {
        key: {
            "type": "array",
            "description": descriptions[key],
            "items": {
                "type": "object",
                "properties": {"target": target},
                "additionalProperties": values if key == "exclude" else value,
                "minProperties": 1,
            },
        }
        for key in ENTRY_KEYS
    }


def _axis_faults(manifest: Manifest) -> Iterator[Fault]:
    """Yields a fault for each axis without values, and each value that is not plain or unique."""
    for axis, values in manifest.matrix.items():
        if not values:
            yield manifest.fault(f'axis "{axis}" has no value', "matrix", axis)
        spellings: set[str] = set()
        for index, value in enumerate(values):
            problem = value_problem(axis, value)
            spelling = composed(axis_spelling(value))
            if problem is None and spelling in spellings:
                problem = f'axis "{axis}" has the value "{spelling}" twice'
            if problem is not None:
                yield manifest.fault(problem, "matrix", axis, index)
            spellings.add(spelling)
    if not any(manifest.matrix.values()):
        return
    yield from _size_faults(manifest)


def _size_faults(manifest: Manifest) -> Iterator[Fault]:
    """Yields a fault where the matrix has too many combinations; they are not enumerated."""
    variants, more = len(manifest.include), ""
    combinations = 1
    for values in manifest.matrix.values():
        combinations *= len(values)
        if combinations > _MOST_COUNTED:
            more = "at least "
            break
    variants += combinations
    if variants > MOST_VARIANTS:
        yield manifest.fault(f"the matrix has {more}{variants} variants, more than {MOST_VARIANTS}", "matrix")


def _variant_name_faults(manifest: Manifest) -> Iterator[Fault]:
    """Yields a fault for each value that gives a folder which some system cannot store, or takes for another one."""
    longest = {axis: max(values, key=lambda value: len(_quoted(value))) for axis, values in manifest.matrix.items()}
    yield from _length_faults(manifest, longest, ("matrix",))
    for index, entry in enumerate(manifest.include):
        combination = {axis: values[0] for axis, values in entry.values.items()}
        yield from _length_faults(manifest, combination, ("matrix", "include", index))
    last_axis = max(manifest.matrix)
    for axis in manifest.matrix:
        first: dict[str, str] = {}
        for keys, value in _axis_values(manifest, axis):
            spelling = axis_spelling(value)
            problem = name_problem(f"{axis}={_quoted(value)}", math.inf) if axis == last_axis else None
            if problem is not None:
                message = f'value "{spelling}" of axis "{axis}" {problem}'
                yield manifest.fault(message, *keys, hint="use another value, which names a folder")
            other = first.setdefault(folded(_quoted(value)), spelling)
            if composed(other) != composed(spelling):
                message = f'values "{other}" and "{spelling}" of axis "{axis}" differ only in letter case'
                hint = "use another value: on some systems, their folders are one"
                yield manifest.fault(message, *keys, hint=hint)


def _length_faults(manifest: Manifest, combination: Mapping[str, AxisValue], keys: Keys) -> Iterator[Fault]:
    """Yields a fault where the folder of a combination has too long a name."""
    size = len(variant_name(manifest.name.rpartition("/")[2], combination).encode())
    if size > MAX_NAME_BYTES:
        message = f"the name of a variant is too long: {size} bytes, at most {MAX_NAME_BYTES} are possible"
        yield manifest.fault(message, *keys, hint="use shorter values, which name a folder")


def _axis_values(manifest: Manifest, axis: str) -> Iterator[tuple[Keys, AxisValue]]:
    """Yields each value of an axis with its keys: those of its list, then those that only `include` has."""
    known = set()
    for index, value in enumerate(manifest.matrix[axis]):
        known.add(axis_spelling(value))
        yield ("matrix", axis, index), value
    for index, entry in enumerate(manifest.include):
        value = entry.values[axis][0]
        if axis_spelling(value) not in known:
            known.add(axis_spelling(value))
            yield ("matrix", "include", index, axis), value


def _quoted(value: object) -> str:
    """Returns an axis value as it is in the name of a folder."""
    return variant_name("", {"": value}).removeprefix("@=")
