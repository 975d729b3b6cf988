"""The table of a target in TOML: applies the tables that it extends, and the former names of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.tool_limit import merged_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LONGEST_CHAIN = 20

_FORMER_CACHE_KEYS = {"primes": "warm_up_requests"}
"""Former name -> present name of keys in `cache`."""


def extended_table(name: str, table_of: Callable[[str], Mapping[str, Any] | None]) -> dict[str, Any]:
    """Returns the table of a target, merged over all tables that it extends, without the key `extends`.

    Args:
        name: the name of a target that has a table.
        table_of: returns the table of a target, None where there is none of that name.

    Raises:
        CacheunitError: a base is unknown, or the targets extend each other in a cycle.
    """
    chain = [name]
    table = _with_present_keys(table_of(name) or {})
    while (base := table.pop("extends", None)) is not None:
        if base in chain:
            raise fail(f"targets extend each other in a cycle: {' -> '.join([*chain, base])}")
        base_table = table_of(base) if isinstance(base, str) else None
        if base_table is None:
            raise fail(f'unknown target "{base}"')
        chain.append(base)
        if len(chain) > _LONGEST_CHAIN:
            raise fail(f"more than {_LONGEST_CHAIN} targets extend each other")
        table = _overlaid(_with_present_keys(base_table), table)
    return table


def _with_present_keys(table: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a table whose keys with former names have their present names."""
    rule = table.get("cache")
    if not isinstance(rule, dict) or not rule.keys() & _FORMER_CACHE_KEYS:
        return dict(table)
    return {**table, "cache": {_FORMER_CACHE_KEYS.get(key, key): value for key, value in rule.items()}}


def _overlaid(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `over` laid over `base`: tables are merged, other values replaced.

    A vocabulary, a frame and a cache rule of another kind replace the whole table of the base. Options
    are merged by name, limits of tools by kind and effect.
    """
    merged = dict(base)
    for key, value in over.items():
        old: Any = merged.get(key)
        if key in _MERGED_LISTS and isinstance(value, list) and isinstance(old, list):
            merged[key] = _MERGED_LISTS[key](old, value)
            continue
        merges = isinstance(value, dict) and isinstance(old, dict) and _merges(key, old, value)
        merged[key] = _overlaid(old, value) if merges else value
    return merged


def _merged_options(base: list[Any], over: list[Any]) -> list[Any]:
    """Returns the options of `base` and `over`; one of the same name replaces that of the base."""
    names = [option.get("name") for option in over if isinstance(option, dict)]
    kept = [option for option in base if not (isinstance(option, dict) and option.get("name") in names)]
    return [*kept, *over]


_MERGED_LISTS: Mapping[str, Callable[[list[Any], list[Any]], list[Any]]] = {
    "options": _merged_options,
    "tool_limits": merged_limits,
}
"""The function that merges the list under a key with that of the base."""


def _merges(key: str, base: Mapping[str, Any], over: Mapping[str, Any]) -> bool:
    """Returns whether a table is merged with that of its base, and does not replace it."""
    if key == "cache":
        return bool(over.get("kind", base.get("kind")) == base.get("kind"))
    return key not in ("tokenizer", "frame")
