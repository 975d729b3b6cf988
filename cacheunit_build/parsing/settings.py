"""Reads the settings of a project: `[tool.cacheunit]` of pyproject.toml, or cacheunit.toml."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.errors import CacheunitError, Fault
from cacheunit_build.domain.paths import normal_path
from cacheunit_build.domain.settings import Settings, SettingsKeys
from cacheunit_build.domain.settings_file import find_settings
from cacheunit_build.parsing.validation import json_schema, validate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.domain.document import Document

_FOLDERS = ("prefixes", "templates", "build")


def parse_settings(pyproject: bytes | None, own: bytes | None) -> Settings:
    """Returns the settings of a project, with defaults where there are none.

    Args:
        pyproject: the bytes of pyproject.toml, None where there is no such file.
        own: the bytes of cacheunit.toml, None where there is no such file.

    Raises:
        CacheunitError: every fault in them, or settings in both files.
    """
    document, table_keys = find_settings(pyproject, own)
    keys = validate(SettingsKeys, _with_underscores(document), table_keys)
    values: dict[str, Any] = {field.name: getattr(keys, field.name) for field in fields(keys)}
    values["target"] = document.value.get("target", {})  # with the dates and numbers of TOML
    settings = Settings(**values, document=document, table_keys=table_keys)
    faults = [*_path_faults(settings), *_version_faults(settings)]
    if faults:
        raise CacheunitError(*faults)
    faults = [*_overlap_faults(settings)]
    if faults:
        raise CacheunitError(*faults)
    return Settings(**values | _folders(settings), document=document, table_keys=table_keys)


def _with_underscores(document: Document) -> Document:
    """Returns the settings with `required_version` for `required-version`, as other tools spell that key."""
    value = document.value
    if not isinstance(value, dict) or "required-version" not in value:
        return document
    names = {"required-version": "required_version"}
    renamed = {names.get(key, key): item for key, item in value.items()}
    lines = {(*keys[:-1], names.get(str(keys[-1]), keys[-1])): line for keys, line in document.lines.items() if keys}
    return replace(document, value=renamed, lines=lines)


def settings_schema() -> dict[str, Any]:
    """Returns the JSON Schema of the settings, without that of the project's own targets."""
    return json_schema(SettingsKeys)


def _folders(settings: Settings) -> dict[str, str]:
    """Returns the normalized path of each folder, by its key."""
    return {key: normal_path(getattr(settings, key)) for key in _FOLDERS}


def _path_faults(settings: Settings) -> Iterator[Fault]:
    """Yields a fault for each folder that is not a path inside the project."""
    for key in _FOLDERS:
        try:
            normal_path(getattr(settings, key))
        except CacheunitError as error:
            yield from (settings.fault(fault.message, key, hint=fault.hint) for fault in error.faults)


def _version_faults(settings: Settings) -> Iterator[Fault]:
    """Yields a fault if `required-version` is not a version specifier."""
    if settings.required_version is None:
        return
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        SpecifierSet(settings.required_version)
    except InvalidSpecifier:
        message = f'"required-version" must be a version specifier, not {settings.required_version!r}'
        yield settings.fault(message, _version_key(settings), hint='for example ">=0.2,<0.3"')


def required_version_fault(settings: Settings, installed: str) -> Fault | None:
    """Returns a fault if the project is not to be built by the installed release, else None."""
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    allowed = SpecifierSet(settings.required_version or "", prereleases=True)
    if Version(installed) in allowed:
        return None
    message = f"the project requires cacheunit {settings.required_version}; this is {installed}"
    hint = "install a release that it allows, or change required-version and build again"
    return settings.fault(message, _version_key(settings), hint=hint)


def _version_key(settings: Settings) -> str:
    """Returns the spelling of the key `required-version` in the file."""
    return next((key for key in settings.document.value if key.replace("_", "-") == "required-version"), "")


def _overlap_faults(settings: Settings) -> Iterator[Fault]:
    """Yields a fault for each folder inside another one: a build must not read what it writes."""
    folders = _folders(settings)
    for key, folder in folders.items():
        for other, parent in folders.items():
            inside = f"{folder}/".startswith(f"{parent}/") and (folder != parent or key < other)
            if key != other and inside:
                message = f'folder "{folder}" of "{key}" is inside folder "{parent}" of "{other}"'
                yield settings.fault(message, key, hint="use separate folders")
