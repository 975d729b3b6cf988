"""Finds the file with the settings of a project. `load` needs only this, not their keys."""

from __future__ import annotations

from cacheunit_build.domain.document import Document
from cacheunit_build.domain.errors import CacheunitError, fail
from cacheunit_build.domain.toml import read_toml

REQUIRED_VERSION = "required-version"
"""The key of the releases that may build the project. It is read before all others, since a newer release may have keys
that this one does not know."""

PROJECT_CODE = "project-code"
"""The key that refuses the project's Python encoders, with false. It too is read before all others."""


def allows_project_code(pyproject: bytes | None, own: bytes | None) -> bool:
    """Returns whether settings let the project's Python encoders run; they must be readable, and not say otherwise.

    Args:
        pyproject: the bytes of pyproject.toml, None where there is no such file.
        own: the bytes of cacheunit.toml, None where there is no such file.
    """
    try:
        document, _ = find_settings(pyproject, own)
    except CacheunitError:
        return False
    return isinstance(document.value, dict) and document.value.get(PROJECT_CODE, True) is True


def find_settings(pyproject: bytes | None, own: bytes | None) -> tuple[Document, tuple[str, ...]]:
    """Returns the table of settings, not yet validated, and the keys under which it is in its file.

    Args:
        pyproject: the bytes of pyproject.toml, None where there is no such file.
        own: the bytes of cacheunit.toml, None where there is no such file.

    Raises:
        CacheunitError: a file is not TOML, or both have settings.
    """
    whole = Document(path="", value={}) if pyproject is None else read_toml(pyproject, "pyproject.toml")
    table_keys = ("tool", "cacheunit")
    tools = whole.value.get("tool", {})
    table = tools.get("cacheunit") if isinstance(tools, dict) else None
    if own is None:
        path = "" if table is None else whole.path
        return Document(path=path, value={} if table is None else table, lines=whole.lines), table_keys
    if table is not None:
        raise fail(
            "settings are in both pyproject.toml and cacheunit.toml",
            path="pyproject.toml",
            line=whole.line(table_keys),
            hint="keep one of them",
        )
    return read_toml(own, "cacheunit.toml"), ()
