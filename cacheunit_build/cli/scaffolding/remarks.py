"""The remarks of `init`: what it changed, what it skipped, and text that several prompts share."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from cacheunit_build.cli.scaffolding.shared_text import first_line
from cacheunit_build.cli.scaffolding.template_text import delimiter_count
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.parsing.front_matter import front_matter_end

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from cacheunit_build.cli.scaffolding.prefixes import NewPrefix
    from cacheunit_build.cli.scaffolding.shared_text import Passage, SimilarBlocks
    from cacheunit_build.cli.scaffolding.sources import SkippedFile, ToolSource

_MOST_FILES = 5
"""The most files that are named for one kind of change, without `-v`."""

_MOST_PASSAGES = 5
_LONGEST_TITLE = 40

_AS_TEXT = "({{, {% or {#) kept as text; for a Jinja template, run init with --template"

_KINDS: Sequence[tuple[Callable[[NewPrefix], int], str, str]] = (
    (lambda prefix: prefix.source.carriage_returns, "line end changed to LF", "line ends changed to LF"),
    (lambda prefix: int(prefix.source.has_mark), "byte-order mark dropped", "byte-order marks dropped"),
    (
        lambda prefix: int(_is_decomposed(prefix)),
        "name changed to composed characters (NFC)",
        "names changed to composed characters (NFC)",
    ),
    (
        lambda prefix: 0 if prefix.source.is_template else delimiter_count(prefix.source.text),
        f"delimiter {_AS_TEXT}",
        f"delimiters {_AS_TEXT}",
    ),
    (
        lambda prefix: int(_has_front_matter(prefix)),
        'block of front matter kept; "strip: front-matter" in the manifest removes it',
        'blocks of front matter kept; "strip: front-matter" in a manifest removes one',
    ),
)
"""How often a prompt was changed, or is otherwise than the user may expect, and what it is for one and for several."""


def change_lines(prefixes: Sequence[NewPrefix], *, verbose: bool) -> Iterator[str]:
    """Yields a line for each prompt and each kind of change; where many prompts have it, one for all of them.

    Args:
        prefixes: the new prefixes.
        verbose: whether each prompt is named.
    """
    for count_of, one, several in _KINDS:
        counts = {prefix.source.shown: count for prefix in prefixes if (count := count_of(prefix))}
        if len(counts) > _MOST_FILES and not verbose:
            yield f"note: {len(counts)} prompts: {sum(counts.values()):,} {several} (-v lists them)"
            continue
        for shown, count in counts.items():
            yield f"note: {shown}: {count:,} {one if count == 1 else several}"


def template_lines(prefixes: Sequence[NewPrefix], templates: Collection[str]) -> Iterator[str]:
    """Yields a line for each template that does not build before the user does something.

    Args:
        prefixes: the new prefixes.
        templates: the names of all templates that exist.
    """
    for prefix in prefixes:
        if prefix.names is None:
            continue
        missing = [name for name in prefix.names.templates if name not in templates]
        if missing:
            names = ", ".join(f'"{name}"' for name in missing)
            yield f"note: {prefix.source.shown}: add what it includes to the folder of templates: {names}"
        if prefix.names.variables:
            names = ", ".join(prefix.names.variables)
            yield (
                f"note: {prefix.source.shown}: before a build, give the variables in its manifest a value: {names}; "
                "what differs between requests belongs into the message that follows"
            )


def tool_lines(tools: Sequence[ToolSource], prefixes: Sequence[NewPrefix], paths: Mapping[Path, str]) -> Iterator[str]:
    """Yields a line for each group of tool files that go to the same prefixes.

    Args:
        tools: the tool files.
        prefixes: the new prefixes, with their tools.
        paths: the path in the project of each tool file.
    """
    for tool in tools:
        if tool.text_key is not None:
            shown = tool.file.shown
            yield f'note: {shown}: only its tools are taken; "{shown}#{tool.text_key}" is a text in it'
    groups: dict[tuple[str, ...], list[int]] = {}
    for tool in tools:
        path = paths[tool.file.path]
        users = tuple(prefix.name for prefix in prefixes if path in prefix.tools)
        groups.setdefault(users, []).append(len(tool.tools))
    for users, counts in groups.items():
        files = f"{sum(counts)} {_plural(sum(counts), 'tool')} of {len(counts)} {_plural(len(counts), 'file')}"
        if not users:
            yield f"note: {files}: in no manifest"
        elif len(users) == len(prefixes) > 1:
            yield f"note: {files}: in every manifest; --tools-for NAME gives them to some prefixes only"
        else:
            yield f"note: {files}: in the {_plural(len(users), 'manifest')} of {_some(users)}"


def skipped_lines(skipped: Sequence[SkippedFile], *, verbose: bool) -> Iterator[str]:
    """Yields a line for each file that was left out and may have been meant, and one for all others."""
    others = [file for file in skipped if not file.is_notable]
    named = skipped if verbose else [file for file in skipped if file.is_notable]
    if len(named) > _MOST_FILES and not verbose:
        named, others = named[:_MOST_FILES], [*others, *named[_MOST_FILES:]]
    yield from (f"skipped  {file.shown}: it {file.reason}" for file in named)
    if others and not verbose:
        yield f"skipped  {len(others)} {'other ' if named else ''}{_plural(len(others), 'file')} (-v lists them)"


def passage_lines(
    passages: Sequence[Passage], prefixes: Sequence[NewPrefix], count: Callable[[str], int], *, moved: bool
) -> Iterator[str]:
    """Yields a line for each of the passages that are repeated most, and what can be done about them.

    Args:
        passages: the passages, those that are repeated most first.
        prefixes: the new prefixes.
        count: text -> number of tokens.
        moved: whether they were moved to partials.
    """
    for passage in passages[:_MOST_PASSAGES]:
        lines = passage.text.rstrip("\n").count("\n") + 1
        size = f"{lines} {_plural(lines, 'line')}, {count(passage.text):,} tokens"
        places = [_place(prefixes, name, start) for name, start in passage.starts.items()]
        yield f'note: "{_title(passage.text)}" ({size}) is the same in {len(places)} prompts: {_some(places)}'
    if len(passages) > _MOST_PASSAGES:
        more = len(passages) - _MOST_PASSAGES
        yield f"note: {more} more {_plural(more, 'passage')} of the same words in several prompts"
    if passages and not moved:
        yield "hint: remove what was created and run init with --partials: it writes them once, as included templates"


def similar_lines(groups: Sequence[SimilarBlocks], prefixes: Sequence[NewPrefix]) -> Iterator[str]:
    """Yields a line for each of the longest groups of blocks that are nearly the same."""
    for group in groups[:_MOST_PASSAGES]:
        places = [_place(prefixes, *place) for place in group.places]
        yield f'note: "{_title(group.text)}" is nearly the same in {len(places)} prompts: {_some(places)}'
    if len(groups) > _MOST_PASSAGES:
        more = len(groups) - _MOST_PASSAGES
        yield f"note: {more} more {_plural(more, 'block')} of nearly the same words in several prompts"


def _title(text: str) -> str:
    """Returns the beginning of the first line with a letter or digit, for messages."""
    title = first_line(text)
    return title if len(title) <= _LONGEST_TITLE else f"{title[: _LONGEST_TITLE - 1]}…"


def _place(prefixes: Sequence[NewPrefix], name: str, start: int) -> str:
    """Returns the source and the line of an offset in the text of a prompt."""
    source = next(prefix.source for prefix in prefixes if prefix.name == name)
    return f"{source.shown}:{source.text.count(chr(10), 0, start) + source.line}"


def _is_decomposed(prefix: NewPrefix) -> bool:
    return any(not unicodedata.is_normalized("NFC", part) for part in prefix.source.parts)


def _has_front_matter(prefix: NewPrefix) -> bool:
    try:
        return front_matter_end(prefix.source.text, prefix.source.shown) > 0
    except CacheunitError:
        return False  # a text that begins with a rule


def _plural(number: int, noun: str) -> str:
    return noun if number == 1 else f"{noun}s"


def _some(names: Sequence[str]) -> str:
    """Returns the first names of a list."""
    shown = 3
    return f"{', '.join(names[:shown])}{f' and {len(names) - shown} more' if len(names) > shown else ''}"
