"""The command `init`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cacheunit_build.cli.context import OK, Context, with_context
from cacheunit_build.cli.output import print_text
from cacheunit_build.domain.errors import CacheunitError, Fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cacheunit_build.adapters.storage.project_files import DiskFiles
    from cacheunit_build.cli.scaffolding.integrations import ProjectPlace
    from cacheunit_build.cli.scaffolding.scaffold import Scaffold
    from cacheunit_build.domain.protocols import Tokenizer
    from cacheunit_build.domain.settings import Settings


@click.command()
@click.argument("paths", metavar="[PATH[#KEY]]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--template", "as_templates", is_flag=True, help="Take texts as Jinja templates, not only those in .j2.")
@click.option(
    "--tools-for",
    metavar="NAME",
    multiple=True,
    help="Give the tool files to these prefixes, names or globs. Default: those whose prompts are beside them, or all.",
)
@click.option("--partials", is_flag=True, help="Move passages that several prompts share to partials.")
@click.option("--hook", is_flag=True, help="Create .pre-commit-config.yaml, or print the lines to add.")
@click.option("--ci", type=click.Choice(["github", "gitlab"]), help="Create the file of the CI system, or print it.")
@click.option("--dry-run", is_flag=True, help="Show what would be created and changed; write nothing.")
@with_context
def init(
    context: Context, paths: tuple[Path, ...], *, hook: bool, ci: str | None, dry_run: bool, **options: Any
) -> int:
    """Create a project in the folder, with a prefix for each existing prompt. No existing file is changed.

    PATH is a prompt, a file with tools, or a folder with such files. PATH#KEY is the prompt at a key of a YAML, JSON or
    TOML file: config.yaml#agent.prompt, 'config.yaml#agents.*.prompt'.
    """
    from cacheunit_build.adapters.storage.project_files import DiskFiles
    from cacheunit_build.cli.scaffolding.shared_files import (
        integration_files,
        lines_to_add,
        outdated_schema,
        project_files,
    )
    from cacheunit_build.parsing.settings import parse_settings

    project = DiskFiles(context.folder)
    settings = parse_settings(project.read("pyproject.toml"), project.read("cacheunit.toml"))
    without_example = (hook or ci is not None) and project.has_folder(settings.prefixes)
    created = _scaffold(context, project, settings, paths, options, with_example=not without_example)
    place = _place(project, settings, has_tools=created.has_tools)
    shared = project_files(settings, place)
    if not place.subfolder:
        shared |= integration_files(place, hook=hook, ci=ci)
    _write(project, {**shared, **created.files}, created.files, dry_run=dry_run)
    context.remark(*created.remarks, *lines_to_add(project.read, shared, place, hook=hook, ci=ci))
    context.remark(*outdated_schema(project.read, shared, settings))
    if hook or ci == "github":
        context.remark("note: replace OWNER/cacheunit by the repository that you take cacheunit from")
    _remark_next(context, settings, created.names, dry_run=dry_run)
    return OK


def _scaffold(
    context: Context,
    project: DiskFiles,
    settings: Settings,
    paths: Sequence[Path],
    options: Mapping[str, Any],
    *,
    with_example: bool,
) -> Scaffold:
    """Returns the new prefixes that arguments name; without arguments, an example if that is wanted."""
    from cacheunit_build.cli.scaffolding.scaffold import Scaffold, ScaffoldOptions, example_scaffold, scaffold

    if paths:
        return scaffold(project, settings, paths, ScaffoldOptions(**options, verbose=context.verbose), _count)
    return example_scaffold(settings) if with_example else Scaffold()


def _write(project: DiskFiles, files: Mapping[str, bytes], own: Mapping[str, bytes], *, dry_run: bool) -> None:
    """Writes the files that do not exist, and prints each.

    Args:
        project: the files of the project.
        files: path -> bytes of all files.
        own: those of new prefixes.
        dry_run: whether nothing is written.

    Raises:
        CacheunitError: a file of a new prefix exists, each with a fault; or a file cannot be written.
    """
    existing = {path for path in files if project.read(path) is not None}
    clashes = sorted(existing & own.keys())
    if clashes:
        raise CacheunitError(*(Fault(message="already exists", path=path) for path in clashes))
    if not dry_run:
        project.commit({path: data for path, data in files.items() if path not in existing}, (), None)
    created = "would create" if dry_run else "created"
    print_text(*(f"{'kept' if path in existing else created}  {path}" for path in files))


def _remark_next(context: Context, settings: Settings, names: Iterable[str], *, dry_run: bool) -> None:
    """Prints what git ignores of the artifacts of new prefixes, and what the user does next."""
    from cacheunit_build.cli.ignored_files import remark_ignored

    if dry_run:
        context.remark("\nnothing is written (--dry-run)")
        return
    remark_ignored(context, ((name, settings.targets[0]) for name in names))
    context.remark('\nnext: "cacheunit build"')


def _place(project: DiskFiles, settings: Settings, *, has_tools: bool) -> ProjectPlace:
    """Returns where the project is in its repository, and what its hooks and CI jobs install."""
    from importlib.metadata import version

    from cacheunit_build.adapters.git.revision import Repository
    from cacheunit_build.cli.scaffolding.integrations import ProjectPlace
    from cacheunit_build.domain.settings import DEFAULT_TARGET

    try:
        subfolder = Repository(project.root).prefix
    except CacheunitError:
        subfolder = ""
    extras = ("models",) if has_tools and DEFAULT_TARGET in settings.targets else ()
    release = version("cacheunit-build")
    return ProjectPlace(build=settings.build, subfolder=subfolder, release=release, extras=extras)


def _count(text: str) -> int:
    """Returns the number of tokens of a text in the vocabulary of the default target."""
    return len(_vocabulary().encode(text))


@cache
def _vocabulary() -> Tokenizer:
    from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
    from cacheunit_build.domain.settings import DEFAULT_TARGET
    from cacheunit_build.domain.target import TokenizerSpec
    from cacheunit_build.targets.loader import known_targets

    return LocalTokenizerLoader(lambda _: None).load(known_targets()[DEFAULT_TARGET].tokenizer or TokenizerSpec())
