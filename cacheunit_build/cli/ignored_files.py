"""The note about artifacts and a lock that git ignores, so that a clone lacks them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.domain.file_names import LOCK_FILE, REQUEST, TEXT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cacheunit_build.cli.context import Context
    from cacheunit_build.domain.lock import ArtifactKey


def remark_ignored(context: Context, keys: Iterable[ArtifactKey]) -> None:
    """Prints a note where git ignores the lock, or the files of the first of these artifacts.

    Args:
        context: the run of the command line, in a project whose settings are valid.
        keys: artifacts of the project.
    """
    from cacheunit_build.adapters.git.ignored import ignored_files
    from cacheunit_build.parsing.settings import parse_settings

    if context.quiet:
        return
    files = context.files()
    folder = parse_settings(files.read("pyproject.toml"), files.read("cacheunit.toml")).build
    first = list(keys)[:1]
    artifact = [f"{folder}/{name}/{target}{ending}" for name, target in first for ending in (TEXT, REQUEST)]
    first_ignored: dict[str, str] = {}
    for path, rule in ignored_files(files.root, [LOCK_FILE, *artifact]).items():
        first_ignored.setdefault(rule, path)
    for rule, path in first_ignored.items():
        context.remark(f"note: git ignores {path} ({rule}), so a clone would not have it: remove that line")
