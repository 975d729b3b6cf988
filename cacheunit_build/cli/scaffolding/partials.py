"""Writes templates of prompts in which shared passages are included from partials."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.cli.scaffolding.names import prefix_name
from cacheunit_build.cli.scaffolding.shared_text import first_line
from cacheunit_build.cli.scaffolding.template_text import literal_template, rendered
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.names import folded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cacheunit_build.cli.scaffolding.shared_text import Passage

FOLDER = "partials"
"""The folder of partials in the folder of templates."""

_LONGEST_NAME = 40


def templates_with_partials(
    texts: Mapping[str, str], passages: Sequence[Passage], is_taken: Callable[[str], bool]
) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the template of each text, by its name, and the partials by the names of their templates.

    Each template is rendered: a text that it would not give to the character is written without partials.

    Args:
        texts: name -> text.
        passages: passages of the texts that do not overlap.
        is_taken: returns whether a template of that name exists.
    """
    names: dict[str, Passage] = {}
    used = {folded(f"{name}.md.j2") for name in texts}
    for passage in passages:
        name = _free_name(passage, lambda candidate: folded(candidate) in used or is_taken(candidate))
        used.add(folded(name))
        names[name] = passage
    partials = {name: literal_template(passage.text) for name, passage in names.items()}
    templates = {}
    for name, text in texts.items():
        template = _with_includes(name, text, names)
        is_exact = rendered({**partials, "": template}, "") == text
        templates[name] = template if is_exact else literal_template(text)
    included = {partial for partial in partials if any(_include(partial) in text for text in templates.values())}
    return templates, {name: text for name, text in partials.items() if name in included}


def _with_includes(name: str, text: str, passages: Mapping[str, Passage]) -> str:
    """Returns the template of a text, with an include in place of each passage that it has."""
    own = sorted((passage.starts[name], partial) for partial, passage in passages.items() if name in passage.starts)
    parts: list[str] = []
    end = 0
    for start, partial in own:
        parts += [literal_template(text[end:start]), _include(partial)]
        end = start + len(passages[partial].text)
    return "".join([*parts, literal_template(text[end:])])


def _include(partial: str) -> str:
    return f"{{% include '{partial}' %}}"


def _free_name(passage: Passage, is_taken: Callable[[str], bool]) -> str:
    """Returns the name of the template of a passage, by its first line: `partials/output-format.md.j2`."""
    title = first_line(passage.text)
    whole_words = title[:_LONGEST_NAME].rpartition(" ")[0] if len(title) > _LONGEST_NAME else ""
    try:
        stem = prefix_name(whole_words or title[:_LONGEST_NAME])
    except CacheunitError:
        stem = "shared"
    number = 1
    while is_taken(name := f"{FOLDER}/{stem}{'' if number == 1 else f'-{number}'}.md.j2"):
        number += 1
    return name
