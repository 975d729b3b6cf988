"""Completes the names of prefixes and targets on the command line of a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.cli.global_options import working_folder
from cacheunit_build.domain.errors import CacheunitError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import click

    from cacheunit_build.adapters.storage.project_files import DiskFiles


def complete_name(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Returns the prefixes and folders of prefixes whose names begin as typed; none where the project has faults."""
    from cacheunit_build.compiler.project import manifest_names, read_project
    from cacheunit_build.compiler.selection import folders_of

    try:
        files = _project_files(context)
        settings, _targets = read_project(files)
        prefixes = [name for name, _path in manifest_names(files, settings)]
    except (CacheunitError, OSError):
        return []
    return _beginning_with(incomplete, [*prefixes, *(f"{folder}/" for folder in folders_of(prefixes))])


def complete_target(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Returns the names of targets that begin with a text; where the settings have faults, only packaged targets."""
    from cacheunit_build.compiler.project import read_project
    from cacheunit_build.targets.loader import known_targets

    try:
        _settings, targets = read_project(_project_files(context))
    except (CacheunitError, OSError):
        targets = known_targets()
    return _beginning_with(incomplete, targets)


def _project_files(context: click.Context) -> DiskFiles:
    """Returns the files of the project around the working folder."""
    from pathlib import Path

    from cacheunit_build.adapters.storage.discovery import find_root
    from cacheunit_build.adapters.storage.project_files import DiskFiles

    return DiskFiles(Path(find_root(str(working_folder(context)))))


def _beginning_with(incomplete: str, names: Iterable[str]) -> list[str]:
    """Returns the names that begin as typed, sorted, without those that a shell could not show on a line."""
    return sorted({name for name in names if name.startswith(incomplete) and name.isprintable()})
