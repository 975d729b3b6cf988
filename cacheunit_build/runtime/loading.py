"""`load`: returns a frozen prefix, verified against the lock of its project, ready to send."""

from __future__ import annotations

import json
import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from cacheunit_build.domain.errors import CacheunitError, did_you_mean, fail
from cacheunit_build.domain.file_names import (
    CACHED_CONTENT,
    LOCK_FILE,
    REQUEST,
    TEXT,
    axis_values,
    is_artifact_name,
    stored_name,
    variant_name,
)
from cacheunit_build.domain.lock_tables import lock_tables, locked_artifact
from cacheunit_build.domain.names import composed
from cacheunit_build.domain.paths import normal_path
from cacheunit_build.request_formats.formats import FORMATS
from cacheunit_build.runtime.files import (
    as_root,
    folder_below,
    lock_bytes,
    nearest_root,
    settings_table,
    verified_bytes,
)
from cacheunit_build.runtime.prefix import Prefix

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from importlib.resources.abc import Traversable
    from typing import Any

_ENVIRONMENT = "CACHEUNIT_ENV"
"""The environment variable that says where a program runs."""

_loaded: dict[tuple[str, ...], Prefix] = {}


def load(
    name: str,
    *,
    target: str | None = None,
    root: str | Traversable | None = None,
    dev: bool = False,
    **axes: str | int,
) -> Prefix:
    """Returns the prefix of that name, as it was locked.

    Args:
        name: a prefix, or a variant such as `support/agent@locale=de,plan=pro`.
        target: its target; may be left out where it has one.
        root: the folder of `cacheunit.lock`, as a path or as `importlib.resources.files` returns it for the data of an
            installed package; default: the nearest above the working folder.
        dev: compile the prefix from its sources where they changed since the last build, for a program under
            development; its `state` says so. Refused where the environment variable CACHEUNIT_ENV is `production`.
        axes: pick a variant of the prefix.

    Raises:
        IntegrityError: the bytes are not those that were locked.
        CacheunitError: there is no lock, no such prefix or target, or an artifact is missing; settings are broken. With
            `dev`: every fault in the sources; or the compiler is not installed or not allowed.
    """
    if dev:
        return _load_from_sources(name, variant_name(composed(name), axes), target, root)
    folder = nearest_root(Path.cwd()) if root is None else as_root(Path(root) if isinstance(root, str) else root)
    lock_path = folder.joinpath(LOCK_FILE)
    targets, prefixes = lock_tables(lock_bytes(lock_path), str(lock_path))
    full_name = stored_name(variant_name(composed(name), axes), prefixes)
    if full_name not in prefixes:
        raise _not_locked(name, full_name, prefixes)
    chosen = _chosen_target(full_name, target, prefixes[full_name])
    entry, identity = prefixes[full_name][chosen], targets[chosen]
    key = (str(folder), full_name, chosen, json.dumps([entry, identity]))
    locked = None if key in _loaded else locked_artifact(entry, identity, FORMATS, str(lock_path))
    if not is_artifact_name(full_name, chosen):
        raise fail(f"the lock is broken: {full_name!r} and {chosen!r} cannot name an artifact", path=str(lock_path))
    base = folder_below(folder, f"{normal_path(str(settings_table(folder).get('build', 'build')))}/{full_name}")
    text = verified_bytes(base.joinpath(f"{chosen}{TEXT}"), entry["text"])
    fragment = verified_bytes(base.joinpath(f"{chosen}{REQUEST}"), entry["request"])
    stored = entry.get("cached_content")
    content = None if stored is None else verified_bytes(base.joinpath(f"{chosen}{CACHED_CONTENT}"), stored)
    if locked is not None:
        _loaded.setdefault(key, Prefix((full_name, chosen), locked, (text, fragment, content)))
    return _loaded[key]


def _load_from_sources(name: str, full_name: str, target: str | None, root: str | Traversable | None) -> Prefix:
    """Returns a prefix as its sources are now: the locked one where that is the same."""
    if os.environ.get(_ENVIRONMENT) == "production":
        raise fail(f'load(dev=True) is not allowed where {_ENVIRONMENT} is "production"', hint="leave out dev=True")
    try:  # by name, since nothing else here needs the compiler, or may import it
        compile_prefix = import_module("cacheunit_build.cli.development").compile_prefix
        find_root = import_module("cacheunit_build.adapters.storage.discovery").find_root
    except ImportError as error:
        raise fail(f"load(dev=True) needs the compiler: {error}", hint="pip install cacheunit-build") from None
    if root is not None and not isinstance(root, str | Path):
        raise TypeError(f"with dev=True, root must be a folder on disk, not {type(root).__name__}")
    folder = Path(find_root(str(Path.cwd())) if root is None else root).resolve()
    by_key = compile_prefix(folder, full_name, target)
    full_name = stored_name(full_name, {prefix for prefix, _ in by_key})
    found = {found_target: item for (prefix, found_target), item in by_key.items() if prefix == full_name}
    if not found:
        raise _not_locked(name, full_name, {prefix for prefix, _ in by_key})
    chosen = next(iter(found)) if len(found) == 1 else _chosen_target(full_name, target, found)
    developed = found[chosen]
    try:
        locked = load(full_name, target=chosen, root=str(folder))
    except CacheunitError:  # not built since, or broken: then the sources are what counts
        locked = None
    if locked is not None and locked.matches(developed.entry, developed.identity):
        return locked
    if developed.files is None:
        raise fail(f'the artifact of "{full_name}" for {chosen} is broken', hint='run "cacheunit build"')
    return Prefix((full_name, chosen), (developed.entry, developed.identity), developed.files, "development")


def _not_locked(name: str, full_name: str, prefixes: Collection[str]) -> CacheunitError:
    """Returns the error for a name that is not locked; where only variants of it are, with their axes and values."""
    given = dict(axis_values(full_name.partition("@")[2]))
    variants = [dict(axis_values(variant.partition("@")[2])) for variant in prefixes if variant.startswith(f"{name}@")]
    # Not every combination of values is a variant: those that go with the given ones are named, if there are any.
    agreeing = [variant for variant in variants if given.items() <= variant.items()]
    values: dict[str, dict[str, None]] = {}
    for variant in agreeing or variants:
        for axis, value in variant.items():
            values.setdefault(axis, {})[value] = None
    if not values or given.keys() == values.keys():
        return fail(f'no prefix "{full_name}" is locked', hint=did_you_mean(full_name, prefixes))
    axes = " and ".join(f"{axis}=" for axis in values)
    listed = "; ".join(f"{axis} is one of {', '.join(values[axis])}" for axis in values)
    return fail(f'prefix "{name}" has variants: set {axes}', hint=listed)


def _chosen_target(name: str, target: str | None, entries: Mapping[str, Any]) -> str:
    if target is None and len(entries) == 1:
        return next(iter(entries))
    if target is None:
        raise fail(f'prefix "{name}" has several targets', hint=f"set target= to one of {', '.join(entries)}")
    if target not in entries:
        hint = did_you_mean(target, entries) or f"it is locked for {', '.join(entries)}"
        raise fail(f'prefix "{name}" is not locked for target "{target}"', hint=hint)
    return target
