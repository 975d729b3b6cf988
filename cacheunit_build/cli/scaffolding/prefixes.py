"""Decides the prefixes of a new project: the name of each, and the tool files that it gets."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cacheunit_build.cli.scaffolding.names import nested_name
from cacheunit_build.cli.scaffolding.template_text import TemplateNames, template_names
from cacheunit_build.domain.errors import CacheunitError, Fault, did_you_mean, fail
from cacheunit_build.domain.names import MAX_FILE_BYTES, folded, is_utf8, name_problem, printable_name
from cacheunit_build.domain.paths import normal_path
from cacheunit_build.domain.selection import is_path_match

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from cacheunit_build.cli.scaffolding.sources import PromptSource, ToolSource

COPIED_TOOLS = "tools"
"""The folder of the project into which tool files from outside of it are copied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPrefix:
    """A prefix to create.

    Attributes:
        name: its name.
        source: its prompt.
        names: what its template refers to; None for a text that is taken as it is.
        tools: the paths of its tool files, relative to the project root.
    """

    name: str
    source: PromptSource
    names: TemplateNames | None
    tools: tuple[str, ...] = ()


def new_prefixes(prompts: Sequence[PromptSource]) -> list[NewPrefix]:
    """Returns the prefixes of some prompts, without tools.

    Raises:
        CacheunitError: every name that is not usable or is that of two prompts, and every template that is not valid.
    """
    faults: list[Fault] = []
    prefixes: list[NewPrefix] = []
    first: dict[str, PromptSource] = {}
    for prompt in _with_distinct_parts(prompts):
        try:
            name = nested_name(prompt.parts)
            other = first.setdefault(folded(name), prompt)
            if other is not prompt:
                hint = "rename one of them, or name the folder that both are in"
                raise fail(f'two of the files would be prefix "{name}": {other.shown}, {prompt.shown}', hint=hint)
            names = template_names(prompt.text, prompt.shown, prompt.line) if prompt.is_template else None
        except CacheunitError as error:
            faults += error.faults
        else:
            prefixes.append(NewPrefix(name=name, source=prompt, names=names))
    if faults:
        raise CacheunitError(*faults)
    return prefixes


def _with_distinct_parts(prompts: Sequence[PromptSource]) -> list[PromptSource]:
    """Returns prompts whose names have the folders that tell them apart.

    a/system.md, b/system.md, named as files  ->  a/system, b/system
    """
    counts = Counter(folded("/".join(prompt.parts)) for prompt in prompts)
    same = [prompt for prompt in prompts if counts[folded("/".join(prompt.parts))] > 1]
    if len({prompt.folder for prompt in same}) < 2:  # noqa: PLR2004 - one folder tells nothing apart
        return list(prompts)
    common = os.path.commonpath([prompt.folder for prompt in same])
    folders = {id(prompt): prompt.folder.relative_to(common).parts for prompt in same}
    return [
        replace(prompt, parts=(*folders[id(prompt)], *prompt.parts)) if id(prompt) in folders else prompt
        for prompt in prompts
    ]


def with_tools(
    prefixes: Sequence[NewPrefix], tools: Sequence[ToolSource], paths: Mapping[Path, str], patterns: Collection[str]
) -> list[NewPrefix]:
    """Returns the prefixes with their tool files.

    Args:
        prefixes: the prefixes.
        tools: the tool files, in order.
        paths: the path in the project of each tool file, by its absolute path.
        patterns: the names, or globs of names, of the prefixes that get them. Without any, those whose prompts are in
            the nearest folder, from that of the file upwards, that has prompts; if none has, all prefixes.

    Raises:
        CacheunitError: a pattern matches no prefix, there is no prefix, or two tools of one prefix have the same name.
    """
    if patterns and not tools:
        raise fail("--tools-for is given, and no file with tools", hint="name the files with tools too")
    if tools and not prefixes:
        hint = 'name the prompt too, or add the files to "tools" of a manifest'
        raise fail("the files have tools only, and no prompt", path=tools[0].file.shown, hint=hint)
    selected = _selected(prefixes, patterns)
    folders = {prefix.source.folder for prefix in prefixes}
    nearest = {tool.file.path: None if patterns else _nearest(tool.file.path, folders) for tool in tools}
    result = []
    for prefix in prefixes:
        where = (None, prefix.source.folder) if prefix.name in selected else ()
        own = [tool for tool in tools if nearest[tool.file.path] in where]
        _refuse_duplicates(prefix, own)
        result.append(replace(prefix, tools=tuple(paths[tool.file.path] for tool in own)))
    return result


def _selected(prefixes: Sequence[NewPrefix], patterns: Collection[str]) -> set[str]:
    """Returns the names that some pattern matches; all of them where there is none.

    Raises:
        CacheunitError: every pattern that matches no name.
    """
    names = [prefix.name for prefix in prefixes]
    faults = [
        Fault(message=f'--tools-for "{pattern}" matches none of the new prefixes', hint=did_you_mean(pattern, names))
        for pattern in patterns
        if not any(is_path_match(name, pattern) for name in names)
    ]
    if faults:
        raise CacheunitError(*faults)
    return {name for name in names if not patterns or any(is_path_match(name, pattern) for pattern in patterns)}


def _nearest(file: Path, folders: Collection[Path]) -> Path | None:
    """Returns the nearest folder, from that of a tool file upwards, that has prompts; None where no such folder has."""
    return next((folder for folder in file.parents if folder in folders), None)


def _refuse_duplicates(prefix: NewPrefix, tools: Sequence[ToolSource]) -> None:
    """Raises a fault for each tool of a prefix whose name another one has."""
    first: dict[str, str] = {}
    faults = []
    for source in tools:
        for tool in source.tools:
            other = first.setdefault(tool.name, source.file.shown)
            if other is not source.file.shown:
                message = f'prefix "{prefix.name}" would have two tools "{tool.name}"; the other is in {other}'
                hint = "leave one of the files out, or choose the prefixes by --tools-for"
                faults.append(Fault(message=message, path=source.file.shown, line=tool.line, hint=hint))
    if faults:
        raise CacheunitError(*faults)


def tool_paths(root: Path, tools: Sequence[ToolSource], generated: Collection[str]) -> dict[Path, str]:
    """Returns the path in the project of each tool file: where it is, or `tools/NAME` for one from outside.

    Args:
        root: the project root.
        tools: the tool files.
        generated: folders of the project that tools cannot be read from, such as `build`.

    Raises:
        CacheunitError: two files from outside have the same name, or some system cannot store one.
    """
    paths: dict[Path, str] = {}
    faults: list[Fault] = []
    for tool in tools:
        name = tool.file.path.name
        path = _path_inside(root, tool.file.path, generated)
        problem = name_problem(name, MAX_FILE_BYTES) if path is None or not is_utf8(path) else None
        if problem is not None:
            faults.append(Fault(message=f"the name {problem}", path=printable_name(tool.file.shown), hint="rename it"))
        paths[tool.file.path] = path or f"{COPIED_TOOLS}/{name}"
    twins = Counter(folded(path) for path in paths.values())
    faults += [
        Fault(message=f"another file would be copied to {path} too", path=tool.file.shown, hint="rename one of them")
        for tool in tools
        if twins[folded(path := paths[tool.file.path])] > 1
    ]
    if faults:
        raise CacheunitError(*faults)
    return paths


def _path_inside(root: Path, file: Path, generated: Collection[str]) -> str | None:
    """Returns the path of a file relative to the root; None for one that a manifest cannot name."""
    target = file.resolve()
    if not target.is_relative_to(root):
        return None
    try:
        path = normal_path(target.relative_to(root).as_posix())
    except CacheunitError:
        return None
    return None if path.startswith(tuple(f"{folder}/" for folder in generated)) else path
