"""The files that all prefixes of a project share, and the lines to add to those that already exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.cli.scaffolding.editor_schema import manifest_document
from cacheunit_build.cli.scaffolding.integrations import (
    CI_FILES,
    CI_TEXTS,
    HOOK_FILE,
    attributes,
    formatter_lines,
    hook_config,
    missing_hook_lines,
    missing_lines,
)
from cacheunit_build.cli.scaffolding.new_files import SCHEMA_FILE, SETTINGS
from cacheunit_build.domain.escaping import json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from cacheunit_build.cli.scaffolding.integrations import ProjectPlace
    from cacheunit_build.domain.settings import Settings

ATTRIBUTES_FILE = ".gitattributes"
SETTINGS_FILE = "cacheunit.toml"

_EXTENDED = (ATTRIBUTES_FILE, ".editorconfig", ".prettierignore", HOOK_FILE, *CI_FILES.values())
"""The files of other programs that may have to be extended."""


def project_files(settings: Settings, place: ProjectPlace) -> dict[str, bytes]:
    """Returns path -> bytes of the settings, if there are none, of `.gitattributes`, and of the schema for editors."""
    files = {
        SETTINGS_FILE: SETTINGS,
        ATTRIBUTES_FILE: attributes(place),
        f"{settings.prefixes}/{SCHEMA_FILE}": f"{json_text(manifest_document())}\n",
    }
    if settings.path not in {None, SETTINGS_FILE}:
        del files[SETTINGS_FILE]
    return {path: text.encode() for path, text in files.items()}


def integration_files(place: ProjectPlace, *, hook: bool, ci: str | None) -> dict[str, bytes]:
    """Returns path -> bytes of the configuration of hooks and of a CI system, relative to the top of the repository."""
    files = {HOOK_FILE: hook_config(place)} if hook else {}
    if ci is not None:
        files[CI_FILES[ci]] = CI_TEXTS[ci](place)
    return {path: text.encode() for path, text in files.items()}


def lines_to_add(
    read: Callable[[str], bytes | None], files: Mapping[str, bytes], place: ProjectPlace, *, hook: bool, ci: str | None
) -> Iterator[str]:
    """Yields the lines that existing files are to have and do not, each file with a heading.

    Args:
        read: returns the bytes of a file of the project as it was before; None where there is none.
        files: path -> bytes of the files that the project is to have.
        place: what the lines depend on.
        hook: whether a hook is wanted.
        ci: the CI system that is wanted.
    """
    wanted = {ATTRIBUTES_FILE: files[ATTRIBUTES_FILE].decode().splitlines(), **formatter_lines(place)}
    existing = {path: data.decode(errors="replace") for path in _EXTENDED if (data := read(path)) is not None}
    missing = {path: missing_lines(lines, existing[path]) for path, lines in wanted.items() if path in existing}
    if HOOK_FILE in existing and not place.subfolder:
        missing[HOOK_FILE] = missing_hook_lines(place, existing[HOOK_FILE], hook=hook)
    ci_file = CI_FILES[ci] if ci is not None and not place.subfolder else None
    if ci is not None and ci_file in existing and "cacheunit" not in existing[ci_file]:
        missing[ci_file] = CI_TEXTS[ci](place).splitlines()
    for path, lines in missing.items():
        if lines:
            yield f"note: {path} already exists; add to it:"
            yield from lines
    if place.subfolder:
        for path, data in integration_files(place, hook=hook, ci=ci).items():
            yield f"note: the project is in {place.folder} of its repository; at the top, create or extend {path}:"
            yield from data.decode().splitlines()


def outdated_schema(
    read: Callable[[str], bytes | None], files: Mapping[str, bytes], settings: Settings
) -> Iterator[str]:
    """Yields a line about the schema of another release, where there is one."""
    path = f"{settings.prefixes}/{SCHEMA_FILE}"
    if read(path) not in {None, files[path]}:
        yield f'note: {path} is of another release: refresh it by "cacheunit schema manifest > {path}"'
