"""Plans the files of new prefixes, and what the user has to know about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cacheunit_build.cli.scaffolding.arguments import named_files
from cacheunit_build.cli.scaffolding.new_files import example_files, prefix_files
from cacheunit_build.cli.scaffolding.partials import templates_with_partials
from cacheunit_build.cli.scaffolding.prefixes import new_prefixes, tool_paths, with_tools
from cacheunit_build.cli.scaffolding.remarks import (
    change_lines,
    passage_lines,
    similar_lines,
    skipped_lines,
    template_lines,
    tool_lines,
)
from cacheunit_build.cli.scaffolding.shared_text import shared_passages, similar_blocks
from cacheunit_build.cli.scaffolding.sources import read_sources
from cacheunit_build.domain.errors import CacheunitError, Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from cacheunit_build.adapters.storage.project_files import DiskFiles
    from cacheunit_build.cli.scaffolding.prefixes import NewPrefix
    from cacheunit_build.cli.scaffolding.sources import Sources
    from cacheunit_build.domain.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaffoldOptions:
    """What the user wants of the new prefixes.

    Attributes:
        as_templates: whether all texts are templates.
        tools_for: names, or globs of names, of the prefixes that get the tool files; by default those beside them.
        partials: whether shared passages are moved to partials.
        verbose: whether each change and each file that is left out is told.
    """

    as_templates: bool = False
    tools_for: tuple[str, ...] = ()
    partials: bool = False
    verbose: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaffold:
    """The files of new prefixes.

    Attributes:
        names: the names of the prefixes.
        files: path -> bytes of their manifests, templates and copied tool files; none of them may exist.
        remarks: lines about what was changed, left out and found.
        has_tools: whether a prefix has tools.
    """

    names: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    has_tools: bool = False


def example_scaffold(settings: Settings) -> Scaffold:
    """Returns the files of an example."""
    files = example_files(settings.prefixes, settings.templates)
    return Scaffold(names=("support",), files={path: text.encode() for path, text in files.items()})


def scaffold(
    project: DiskFiles,
    settings: Settings,
    paths: Sequence[Path],
    options: ScaffoldOptions,
    count: Callable[[str], int],
) -> Scaffold:
    """Returns the files of a prefix for each prompt that arguments name.

    Args:
        project: the files of the project.
        settings: its settings.
        paths: the arguments.
        options: what the user wants.
        count: text -> number of tokens.

    Raises:
        CacheunitError: the faults in the arguments and their files.
    """
    own_folders = [project.root / folder for folder in (settings.prefixes, settings.templates, settings.build)]
    sources = read_sources(named_files(project.root, paths, own_folders), as_templates=options.as_templates)
    _refuse_nothing(sources)
    in_project = tool_paths(project.root, sources.tools, [settings.build])
    prefixes = with_tools(new_prefixes(sources.prompts), sources.tools, in_project, options.tools_for)
    templates, partials, shared = _shared_text(project, settings, prefixes, count, move=options.partials)
    texts = prefix_files(prefixes, settings.prefixes, settings.templates, templates)
    texts |= {f"{settings.templates}/{name}": text for name, text in partials.items()}
    tools = {in_project[tool.file.path]: tool.data for tool in sources.tools}
    copied = {path: data for path, data in tools.items() if project.read(path) != data}
    existing = [*texts, *project.walk(settings.templates)]
    remarks = (
        *skipped_lines(sources.skipped, verbose=options.verbose),
        *change_lines(prefixes, verbose=options.verbose),
        *template_lines(prefixes, {path.removeprefix(f"{settings.templates}/") for path in existing}),
        *tool_lines(sources.tools, prefixes, in_project),
        *shared,
    )
    return Scaffold(
        names=tuple(prefix.name for prefix in prefixes),
        files={**{path: text.encode() for path, text in texts.items()}, **copied},
        remarks=remarks,
        has_tools=any(prefix.tools for prefix in prefixes),
    )


def _refuse_nothing(sources: Sources) -> None:
    """Raises a fault where no file is a prompt or has tools, with the reasons."""
    if sources.prompts or sources.tools:
        return
    hint = "name prompts (.md, .txt, …), or the key of one: config.yaml#agent.prompt"
    reasons = [Fault(message=f"it {file.reason}", path=file.shown) for file in sources.skipped if file.is_notable]
    raise CacheunitError(Fault(message="there is no prompt in what was named", hint=hint), *reasons)


def _shared_text(
    project: DiskFiles, settings: Settings, prefixes: Sequence[NewPrefix], count: Callable[[str], int], *, move: bool
) -> tuple[Mapping[str, str], Mapping[str, str], list[str]]:
    """Returns templates and partials by name, where shared passages are moved, and the lines about them."""
    texts = {prefix.name: prefix.source.text for prefix in prefixes if not prefix.source.is_template}
    passages = shared_passages(texts)
    lines = [*passage_lines(passages, prefixes, count, moved=move), *similar_lines(similar_blocks(texts), prefixes)]
    if not move:
        return {}, {}, lines

    def is_taken(name: str) -> bool:
        return project.read(f"{settings.templates}/{name}") is not None

    return (*templates_with_partials(texts, passages, is_taken), lines)
