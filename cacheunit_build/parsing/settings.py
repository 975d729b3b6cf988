"""Reads the settings of a project: `[tool.cacheunit]` of pyproject.toml, or cacheunit.toml."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.editors import editor_problem
from cacheunit_build.domain.errors import CacheunitError, Fault
from cacheunit_build.domain.settings import Settings, SettingsKeys
from cacheunit_build.domain.settings_file import PROJECT_CODE, REQUIRED_VERSION, find_settings
from cacheunit_build.domain.toml import read_toml
from cacheunit_build.domain.web_address import remote_cache_problem
from cacheunit_build.parsing.folders import folders, name_faults, overlap_faults
from cacheunit_build.parsing.validation import json_schema, validate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.domain.document import Document, Keys

_KEYS_WITH_HYPHEN = (REQUIRED_VERSION, PROJECT_CODE)
"""Keys that no field can have as its name."""


def parse_settings(pyproject: bytes | None, own: bytes | None) -> Settings:
    """Returns the settings of a project, with defaults where there are none.

    Args:
        pyproject: the bytes of pyproject.toml, None where there is no such file.
        own: the bytes of cacheunit.toml, None where there is no such file.

    Raises:
        CacheunitError: every fault in them, or settings in both files.
    """
    document, table_keys = find_settings(pyproject, own)
    keys = validate(SettingsKeys, _without_hyphens(document), table_keys, keys_read_before=_KEYS_WITH_HYPHEN)
    values: dict[str, Any] = {field.name: getattr(keys, field.name) for field in fields(keys)}
    values["project"] = keys.project or _project_name(pyproject)
    values["target"] = document.value.get("target", {})  # with the dates and numbers of TOML
    settings = Settings(**values, document=document, table_keys=table_keys)
    faults = [*name_faults(settings), *_version_faults(settings), *_project_code_faults(settings)]
    faults += [*_editor_faults(settings), *_remote_faults(settings)]
    if faults:
        raise CacheunitError(*faults)
    faults = [*overlap_faults(settings, folders(settings))]
    if faults:
        raise CacheunitError(*faults)
    return Settings(**values | folders(settings), document=document, table_keys=table_keys)


def _project_name(pyproject: bytes | None) -> str:
    """Returns the name of the project in pyproject.toml; empty where there is none."""
    document = {} if pyproject is None else read_toml(pyproject, "pyproject.toml").value
    table = document.get("project")
    name = table.get("name") if isinstance(table, dict) else None
    return name if isinstance(name, str) else ""


def _without_hyphens(document: Document) -> Document:
    """Returns the settings without the keys that no field can have as its name."""
    value = document.value
    if not isinstance(value, dict):
        return document
    return replace(document, value={key: item for key, item in value.items() if key not in _KEYS_WITH_HYPHEN})


def settings_schema() -> dict[str, Any]:
    """Returns the JSON Schema of the settings, without that of the project's own targets."""
    schema = json_schema(SettingsKeys)
    description = 'The releases of cacheunit that may build the project, such as ">=0.2,<0.3".'
    schema["properties"][REQUIRED_VERSION] = {"type": "string", "description": description}
    description = "Whether the Python encoders that the project names may run; the command line can only refuse more."
    schema["properties"][PROJECT_CODE] = {"type": "boolean", "default": True, "description": description}
    schema["properties"] = dict(sorted(schema["properties"].items()))
    return schema


def _version_faults(settings: Settings) -> Iterator[Fault]:
    """Yields a fault if `required-version` is not a version specifier."""
    if REQUIRED_VERSION not in settings.document.value:  # the import takes longer than all else here
        return
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    wanted = settings.document.value[REQUIRED_VERSION]
    try:
        valid = isinstance(wanted, str) and bool(SpecifierSet(wanted))
    except InvalidSpecifier:
        valid = False
    if not valid:
        message = f'"{REQUIRED_VERSION}" must be a version specifier, not {wanted!r}'
        yield settings.fault(message, REQUIRED_VERSION, hint='for example ">=0.2,<0.3"')


def _project_code_faults(settings: Settings) -> Iterator[Fault]:
    """Yields a fault if `project-code` is neither true nor false."""
    value = settings.document.value.get(PROJECT_CODE, True)
    if not isinstance(value, bool):
        yield settings.fault(f'"{PROJECT_CODE}" must be true or false, not {value!r}', PROJECT_CODE)


def _editor_faults(settings: Settings) -> Iterator[Fault]:
    """Yields a fault if the editor of `watch` has no known name and is no address of one."""
    problem = editor_problem(settings.watch.editor)
    if problem is not None:
        message, hint = problem
        yield settings.fault(message, "watch", "editor", hint=hint)


def _remote_faults(settings: Settings) -> Iterator[Fault]:
    """Yields a fault if the remote cache has no valid URL."""
    problem = remote_cache_problem(settings.cache.remote) if settings.cache.remote else None
    if problem is not None:
        message, hint = problem
        yield settings.fault(message, "cache", "remote", hint=hint)


def required_version_fault(document: Document, table_keys: Keys, installed: str) -> Fault | None:
    """Returns a fault if a project is not to be built by the installed release, else None.

    Args:
        document: the table of settings, not yet validated; one that is not valid is reported when it is.
        table_keys: the keys under which the table is in its file.
        installed: the version of the installed release.
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import Version

    wanted = document.value.get(REQUIRED_VERSION)
    try:
        allowed = not isinstance(wanted, str) or Version(installed) in SpecifierSet(wanted, prereleases=True)
    except InvalidSpecifier:
        return None
    if allowed:
        return None
    return Fault(
        message=f"the project requires cacheunit {wanted}; this is {installed}",
        path=document.path,
        line=document.line((*table_keys, REQUIRED_VERSION)),
        hint=f"install a release that it allows, or change {REQUIRED_VERSION} and build again",
    )
