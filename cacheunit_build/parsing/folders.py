"""Checks the folders of the settings: a project may give only folders of its own to be read, written and cleared."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from cacheunit_build.domain.errors import CacheunitError, Fault
from cacheunit_build.domain.names import name_problem
from cacheunit_build.domain.paths import normal_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cacheunit_build.domain.protocols import SourceFiles
    from cacheunit_build.domain.settings import Settings

FOLDERS = ("prefixes", "templates", "build")
"""The settings that name a folder."""

_HINT = "use a folder that nothing else writes to"
_MANAGED = frozenset(("node_modules", "__pycache__"))
# GIT~1, GI7EBA~1, NODE_M~1: names under which Windows finds folders with longer names.
_SHORT_NAME = re.compile(r"[^.]{1,7}~\d{1,6}(?:\.[^.]{0,3})?")
_OWNERS = {".git": "a repository of its own", "pyvenv.cfg": "a virtual environment"}
"""A file or folder -> what a folder is that has it."""


def folders(settings: Settings) -> dict[str, str]:
    """Returns the normalized path of each folder, by its key."""
    return {key: normal_path(getattr(settings, key)) for key in FOLDERS}


def name_faults(settings: Settings) -> Iterator[Fault]:
    """Yields a fault for each folder that is not a path inside the project, or that belongs to another program."""
    for key in FOLDERS:
        text = getattr(settings, key)
        if not text.strip("./ "):
            yield settings.fault(f'"{key}" must be a folder below the project root, not "{text}"', key)
            continue
        try:
            path = normal_path(text)
        except CacheunitError as error:
            yield from (settings.fault(fault.message, key, hint=fault.hint) for fault in error.faults)
            continue
        parts = path.split("/")
        reason = next(filter(None, map(_foreign, parts)), None)
        if reason is not None:
            yield _fault(settings, key, reason)
            continue
        problems = {part: name_problem(part) for part in parts}
        yield from (
            settings.fault(f'folder "{part}" {why}', key, hint="rename it") for part, why in problems.items() if why
        )


def _fault(settings: Settings, key: str, reason: str) -> Fault:
    """Returns the fault that a folder is not the project's to give."""
    message = f'"{key}" must not be "{getattr(settings, key)}": {reason}'
    return settings.fault(message, key, hint=_HINT)


def _foreign(name: str) -> str | None:
    """Returns why a folder of that name is not the project's to give, by the rules of every file system; else None.

    | name                                     | result                                                |
    | ---------------------------------------- | ----------------------------------------------------- |
    | .git, .GIT, .venv, .git::$DATA           | hidden                                                |
    | U+200C and .git                          | hidden: macOS ignores characters that have no width   |
    | node_modules, "Node_Modules "            | managed: Windows ignores case, spaces and dots at end |
    | GIT~1                                    | a short name                                          |
    """
    folded = unicodedata.normalize("NFKC", name).casefold()
    visible = "".join(character for character in folded if unicodedata.category(character) != "Cf")
    plain = visible.partition(":")[0].strip()
    if plain.startswith("."):
        return f'"{name}" is a hidden folder'
    if plain.rstrip(". ") in _MANAGED:
        return f'"{name}" is managed by another program'
    if _SHORT_NAME.fullmatch(plain):
        return f'"{name}" is a short name, by which Windows may find another folder'
    return None


def owned_folder_faults(settings: Settings, files: SourceFiles) -> Iterator[Fault]:
    """Yields a fault for each folder that another program owns, by what is on disk.

    It may be neither a repository of its own nor a virtual environment, nor inside of one.
    """
    for key, path in folders(settings).items():
        reason = _owner(path, files)
        if reason is not None:
            yield _fault(settings, key, reason)


def overlap_faults(settings: Settings, paths: Mapping[str, str]) -> Iterator[Fault]:
    """Yields a fault for each folder inside another one: a build must not read what it writes.

    Args:
        settings: the settings.
        paths: the path of each folder, by its key.
    """
    for key, folder in paths.items():
        for other, parent in paths.items():
            # On some systems, names that differ in letter case are one folder.
            inside = f"{folder}/".casefold().startswith(f"{parent}/".casefold())
            if key != other and inside and (folder.casefold() != parent.casefold() or key < other):
                message = f'folder "{folder}" of "{key}" is inside folder "{parent}" of "{other}"'
                yield settings.fault(message, key, hint="use separate folders")


def _owner(path: str, files: SourceFiles) -> str | None:
    """Returns why a folder belongs to another program, by the files in it and around it; else None."""
    parts = path.split("/")
    for parent in ("/".join(parts[: count + 1]) for count in range(len(parts))):
        for mark, owner in _OWNERS.items():
            if files.has_folder(f"{parent}/{mark}") or files.read(f"{parent}/{mark}") is not None:
                return f'"{parent}" is {owner} (it has {mark})'
    return None
