"""Finds where the texts of a YAML, JSON or text file stand in it, and how each of them is spelled."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cacheunit_build.parsing.json import string_values
from cacheunit_build.parsing.yaml_nodes import compose, scalars

if TYPE_CHECKING:
    from collections.abc import Iterator

Spelling = Literal["literal", "escaped", "quoted"]
"""`literal`: each character stands for itself; `escaped`: with the escapes of JSON; `quoted`: `''` stands for `'`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextValue:
    """A part of a file that holds a text.

    Attributes:
        start: the offset of its first character.
        end: the offset behind its last character.
        spelling: how the characters of the text are written.
    """

    start: int
    end: int
    spelling: Spelling = "literal"

    def spelled(self, text: str) -> str:
        """Returns a text as it is written in this part of the file."""
        if self.spelling == "escaped":
            return json.dumps(text, ensure_ascii=False)[1:-1]
        return text.replace("'", "''") if self.spelling == "quoted" else text


def text_values(text: str, path: str) -> Iterator[TextValue]:
    """Yields where a data, tool or manifest file holds texts, in the order of the file. Keys are left out.

    Args:
        text: the text of the file.
        path: the file, whose extension says how it is read.

    Raises:
        CacheunitError: the file is not valid YAML.
    """
    extension = path.rpartition(".")[2].lower()
    if extension in {"yaml", "yml"}:
        yield from _yaml_values(text, path)
    elif extension == "json":
        yield from (TextValue(start=start, end=end, spelling="escaped") for start, end in string_values(text))
    else:
        yield TextValue(start=0, end=len(text))


_SPELLINGS: dict[str, Spelling] = {'"': "escaped", "'": "quoted"}


def _yaml_values(text: str, path: str) -> Iterator[TextValue]:
    """Yields where a YAML file holds texts, in order, each once however often aliases refer to it."""
    for node in scalars(compose(text, path), keys=False):
        start, end = node.start_mark.index, node.end_mark.index
        if node.style in ("|", ">"):  # the line of the mark is no text, and may have a comment
            start = text.find("\n", start, end) + 1 or end
        yield TextValue(start=start, end=end, spelling=_SPELLINGS.get(node.style or "", "literal"))
