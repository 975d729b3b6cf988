"""Names prefixes after the files and keys that their prompts come from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.names import MAX_FILE_BYTES, composed, is_utf8, name_problem, printable_name

if TYPE_CHECKING:
    from collections.abc import Sequence

TEMPLATE_SUFFIXES = frozenset((".j2", ".jinja", ".jinja2"))
"""The suffixes of files whose text is a Jinja template."""

PROMPT_SUFFIXES = TEMPLATE_SUFFIXES | frozenset(
    (
        *(".md", ".markdown", ".mdc", ".txt", ".text", ".prompt", ".xml", ".rst"),
        *(".tmpl", ".tpl", ".mustache", ".hbs", ".handlebars"),
    )
)
"""The suffixes of files that are taken for prompts in a folder."""

_DROPPED_SUFFIXES = PROMPT_SUFFIXES | {".instructions", ".chatmode", ".agent"}
"""Suffixes that are no part of a name: `review.instructions.md` is `review`."""

_RENAME = "rename the file"
_NOT_IN_NAMES = re.compile(r"[\W_]+")


def prefix_name(stem: str) -> str:
    """Returns the name of a prefix for a file's name without suffixes: lower case, words joined by hyphens.

    System Prompt_v2 -> system-prompt-v2

    Raises:
        CacheunitError: the name has no letter or digit, or some system cannot store it.
    """
    if not is_utf8(stem):
        raise fail(f'"{printable_name(stem)}" is not usable as the name of a prefix: it is not UTF-8', hint=_RENAME)
    name = composed(_NOT_IN_NAMES.sub("-", composed(stem).lower()).strip("-"))
    problem = name_problem(f"{name}.md.j2", MAX_FILE_BYTES) if name else "has no letter or digit"
    if problem is not None:
        message = f'"{printable_name(stem)}" is not usable as the name of a prefix: it {problem}'
        raise fail(message, hint=_RENAME)
    return name


def nested_name(parts: Sequence[str]) -> str:
    """Returns the name of a prefix for a path, or for a path and a key: each part by `prefix_name`.

    Raises:
        CacheunitError: a part is not usable.
    """
    return "/".join(map(prefix_name, parts))


def stem_of(file_name: str) -> str:
    """Returns the name of a file without the suffixes of prompts: `Bot.md.j2` and `Bot.instructions.md` as `Bot`."""
    while True:
        stem, dot, suffix = file_name.rpartition(".")
        if not stem or f"{dot}{suffix}".lower() not in _DROPPED_SUFFIXES:
            return file_name
        file_name = stem
