"""The command `init`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cacheunit_build.cli.context import OK, Context, read_file, with_context
from cacheunit_build.cli.output import print_text
from cacheunit_build.domain.errors import CacheunitError, Fault, fail

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cacheunit_build.adapters.storage.project_files import DiskFiles


@click.command()
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path(path_type=Path))
@with_context
def init(context: Context, files: tuple[Path, ...]) -> int:
    """Create a project in the folder, with a prefix for each existing prompt FILE. No existing file is changed."""
    from cacheunit_build.adapters.storage.project_files import DiskFiles
    from cacheunit_build.cli.ignored_files import remark_ignored
    from cacheunit_build.cli.scaffold import new_project
    from cacheunit_build.domain.settings import DEFAULT_TARGET

    project = DiskFiles(context.folder)
    new_files = new_project(_prompts(context.folder / file for file in files))
    if _has_settings(project):
        del new_files["cacheunit.toml"]
    existing = {path for path in new_files if project.read(path) is not None}
    _refuse_to_replace(existing)
    project.commit({path: text.encode() for path, text in new_files.items() if path not in existing}, (), None)
    for path in new_files:
        print_text(f"{'kept' if path in existing else 'created'}  {path}")
    for path in sorted({".gitattributes"} & existing):
        missing = _missing_lines(new_files[path], project.read(path) or b"")
        if missing:
            context.remark(f"note: {path} already exists; add to it:", *missing)
    names = (path.removeprefix("prefixes/").removesuffix(".yaml") for path in new_files if path.startswith("prefixes/"))
    remark_ignored(context, ((name, DEFAULT_TARGET) for name in names))
    context.remark('\nnext: "cacheunit build"')
    return OK


def _missing_lines(wanted: str, existing: bytes) -> list[str]:
    """Returns the lines, comments left out, that a file is to have and does not."""
    lines = existing.decode(errors="replace").splitlines()
    return [line for line in wanted.splitlines() if not line.startswith("#") and line not in lines]


def _refuse_to_replace(existing: set[str]) -> None:
    """Raises a fault for each existing file that would be the manifest or the template of a new prefix."""
    clashes = sorted(path for path in existing if path.startswith(("prefixes/", "templates/")))
    if clashes:
        raise CacheunitError(*(Fault(message="already exists", path=path) for path in clashes))


def _prompts(files: Iterable[Path]) -> dict[str, str]:
    """Returns the text of each prompt by the name of its prefix.

    Raises:
        CacheunitError: a file cannot be read, or two of them would have one name.
    """
    from cacheunit_build.cli.scaffold import prefix_name
    from cacheunit_build.domain.document import decode
    from cacheunit_build.domain.names import folded

    prompts: dict[str, str] = {}
    names: set[str] = set()
    for file in files:
        name = prefix_name(file.name.partition(".")[0])
        if folded(name) in names:
            raise fail(f'two of the files would be prefix "{name}"', hint="rename one of them")
        names.add(folded(name))
        prompts[name] = decode(read_file(file), str(file))
    return prompts


def _has_settings(project: DiskFiles) -> bool:
    """Returns whether pyproject.toml has settings, so that no other file may have them."""
    from cacheunit_build.domain.settings_file import find_settings

    document, _ = find_settings(project.read("pyproject.toml"), None)
    return bool(document.path)
