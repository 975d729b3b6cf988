"""`[tool.cacheunit]` of pyproject.toml, or cacheunit.toml -> Settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from cacheunit_build.domain.document import Document
from cacheunit_build.domain.errors import CacheunitError, Fault, fail
from cacheunit_build.domain.models import Settings
from cacheunit_build.domain.paths import normal_path
from cacheunit_build.parsing.document import read_toml
from cacheunit_build.parsing.validation import Strict, validate

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_TARGET = "deepseek-v4"
_FOLDERS = ("prefixes", "templates", "build")


class SettingsSchema(Strict):
    """A project's settings for cacheunit."""

    prefixes: str = Field(default="prefixes", description="The folder of manifests.")
    templates: str = Field(default="templates", description="The folder of templates.")
    build: str = Field(default="build", description="The folder of artifacts.")
    targets: list[str] = Field(default=[DEFAULT_TARGET], min_length=1, description="For manifests that name none.")
    target: dict[str, dict[str, Any]] = Field(default={}, description="Targets of the project, by name.")


def parse_settings(pyproject: bytes | None, own: bytes | None) -> Settings:
    """The settings from the bytes of pyproject.toml and of cacheunit.toml, None where there is no such file.

    Raises:
        CacheunitError: every fault in them; settings in both.
    """
    document, under = _document(pyproject, own)
    read = validate(SettingsSchema, document, under)
    faults = [*_folder_faults(read, document, under)]
    if faults:
        raise CacheunitError(*faults)
    return Settings(
        path=document.path or None,
        prefixes=normal_path(read.prefixes),
        templates=normal_path(read.templates),
        build=normal_path(read.build),
        targets=tuple(read.targets),
        tables=document.value.get("target", {}),
        document=document,
        under=under,
    )


def _document(pyproject: bytes | None, own: bytes | None) -> tuple[Document, tuple[str, ...]]:
    """The table of settings, and the keys under which it stands in its file."""
    whole = Document(path="", value={}) if pyproject is None else read_toml(pyproject, "pyproject.toml")
    table = whole.value.get("tool", {}).get("cacheunit")
    if own is None:
        under = ("tool", "cacheunit")
        path = "" if table is None else whole.path
        return Document(path=path, value=table if table is not None else {}, lines=whole.lines), under
    if table is not None:
        raise fail(
            "settings stand in pyproject.toml and in cacheunit.toml",
            path="pyproject.toml",
            line=whole.line(("tool", "cacheunit")),
            hint="keep one of them",
        )
    return read_toml(own, "cacheunit.toml"), ()


def _folder_faults(read: SettingsSchema, document: Document, under: tuple[str, ...]) -> list[Fault]:
    """Folders that leave the root, or lie in one another: a build must not read what it writes."""
    faults: list[Fault] = []
    folders: Mapping[str, str] = {key: getattr(read, key) for key in _FOLDERS}
    for key, folder in folders.items():
        line = document.line((*under, key))
        try:
            normal_path(folder)
        except CacheunitError as error:
            faults += [Fault(message=f.message, path=document.path, line=line, hint=f.hint) for f in error.faults]
            continue
        for other, parent in folders.items():
            if key != other and (folder + "/").startswith(parent + "/") and (folder != parent or key < other):
                message = f'folder "{folder}" of "{key}" lies in folder "{parent}" of "{other}"'
                faults.append(Fault(message=message, path=document.path, line=line, hint="set them apart"))
    return faults
