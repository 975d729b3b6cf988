"""Reads YAML files as version 1.2 defines them, and refuses what YAML parsers or readers take in different ways.

Scalars without quotes become values only where nobody can mistake them; all others are text, as written:

    written                               value
    true, True, TRUE (and false)          True, False
    null, Null, NULL, ~, nothing at all   None
    0, 12, -7 (18 digits at most)         an integer
    no, yes, on, off                      text: booleans in YAML 1.1
    010, 0x1F, +5, -0, 1_000, 12:30       text: numbers in some parsers
    2024-01-01                            text: a date in YAML 1.1
    3.10, .5, 1e3                         text; a float that keeps its spelling if the caller asks for floats
    "12", 'true', !!str 12, |             text

Duplicate keys, tags other than `!!str`, several documents and aliases without bound are faults. So are characters that
end a line in YAML 1.1 only (NEL, LS, PS), and tabs, but for those in comments, quotes and block scalars.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import yaml

from cacheunit_build.domain.document import Document, decode, normalize_newlines, shortened
from cacheunit_build.domain.errors import CacheunitError, Fault, fail, first_faults
from cacheunit_build.parsing.json import MOST_NESTED, TOO_DEEP, SpelledFloat
from cacheunit_build.parsing.yaml_nodes import COLLECTION, PLAIN, QUOTED, compose

if TYPE_CHECKING:
    from collections.abc import Callable

    from cacheunit_build.domain.document import Keys

MOST_ALIASED = 100_000
"""The most values that aliases may repeat in one document."""

MOST_ALIASED_CHARACTERS = 10_000_000
"""The most characters that aliases may repeat in one document."""


def read_yaml(data: bytes, path: str, *, floats: bool | Callable[[Keys], bool] = False) -> Document:
    """Returns the value of a YAML file, None where the file is empty, and the line of each key and item.

    Args:
        data: the bytes of the file.
        path: the file, for messages.
        floats: whether floats without quotes are numbers, which keep their spelling, and not text; a function decides
            it by the keys and indexes that lead to one.

    Raises:
        CacheunitError: a syntax error, or a limit that is exceeded, alone; otherwise every fault in the file.
    """
    root = compose(decode(data, path), path)
    return _NodeReader(path, floats=floats).document(root)


_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]{1,3})?")
_INTEGER = re.compile(r"-?[1-9][0-9]{0,17}|0")
_BOOLEANS = {word: value for value in (True, False) for word in (str(value), str(value).lower(), str(value).upper())}
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))


class _NodeReader:
    """Reads the nodes of one YAML file into plain values, and collects faults on the way."""

    def __init__(self, path: str, *, floats: bool | Callable[[Keys], bool]) -> None:
        self._path = path
        self._floats = floats if callable(floats) else lambda _: bool(floats)
        self._lines: dict[Keys, int] = {}
        self._faults: dict[Fault, None] = {}  # each once: aliases visit a node again
        self._ancestors: list[int] = []  # id of each node around the present one
        self._visited: set[int] = set()  # id of each node
        self._repeated = 0  # nodes visited again, through aliases
        self._repeated_characters = 0  # in their scalars

    def document(self, node: yaml.Node | None) -> Document:
        """Returns the value of the file and the line of each key and item in it.

        Args:
            node: the node of the document; None where the file is empty.

        Raises:
            CacheunitError: every fault.
        """
        value = None if node is None else self._value(node, ())
        if self._faults:
            raise CacheunitError(*first_faults(self._faults))
        return Document(path=self._path, value=value, lines=self._lines)

    def _value(self, node: yaml.Node, keys: Keys) -> Any:  # noqa: ANN401 - any YAML value
        """Returns the value of a node, with the values of all nodes below it.

        Args:
            node: the node.
            keys: the keys and indexes that lead to it.

        Raises:
            CacheunitError: nested too deeply, or aliases repeat too many values.
        """
        line = node.start_mark.line + 1
        self._lines.setdefault(keys, line)
        self._limit_aliases(node, line)
        if id(node) in self._ancestors:
            self._add_fault("an alias refers to a value that contains it", line)
            return None
        if len(self._ancestors) > MOST_NESTED:
            raise fail(TOO_DEEP, path=self._path, line=line)  # by aliases; the loader refuses other ways
        self._ancestors.append(id(node))
        value = self._content(node, keys, line)
        self._ancestors.pop()
        return value

    def _content(self, node: yaml.Node, keys: Keys, line: int) -> Any:  # noqa: ANN401 - any YAML value
        """Returns the value of a node, by its kind."""
        if node.tag not in (PLAIN, QUOTED, COLLECTION, "tag:yaml.org,2002:str"):
            self._add_fault(f'tag "{shortened(node.tag)}" is not allowed', line, "use plain values")
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, keys)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, (*keys, index)) for index, item in enumerate(node.value)]
        return self._plain(node.value, keys, line) if node.tag == PLAIN else normalize_newlines(node.value)

    def _plain(self, text: str, keys: Keys, line: int) -> Any:  # noqa: ANN401 - text or a plain value
        """Returns the value of a scalar without quotes."""
        if not _FLOAT.fullmatch(text) or not self._floats(keys):
            return _plain_scalar(text)
        number = SpelledFloat(text)
        if math.isinf(number):
            self._add_fault(f"{shortened(text)} is too large for a number", line)
        return number

    def _mapping(self, node: yaml.MappingNode, keys: Keys) -> dict[str, Any]:
        """Returns the value of a mapping: what merge keys bring in, then its own keys, which win."""
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        key_lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self._add_fault("a key must be text", line)
                continue
            key = key_node.value
            if key in key_lines:
                self._add_fault(
                    f'duplicate key "{shortened(key)}", first on line {key_lines[key]}', line, "remove one of them"
                )
                continue
            key_lines[key] = line
            if key == "<<" and key_node.tag == PLAIN:
                merged = self._merged(value_node, keys)
                continue
            own[key] = self._value(value_node, (*keys, key))
            self._lines[(*keys, key)] = line
        return {**{key: value for key, value in merged.items() if key not in own}, **own} if merged else own

    def _merged(self, node: yaml.Node, keys: Keys) -> dict[str, Any]:
        """Returns what a merge key (`<<`) brings in: a mapping, or a list of mappings, of which earlier ones win."""
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, Any] = {}
        for part in parts:
            if not isinstance(part, yaml.MappingNode):
                self._add_fault('"<<" merges mappings only', part.start_mark.line + 1)
                continue
            values = self._value(part, (*keys, "<<")) or {}  # None where the mapping has a fault
            merged |= {key: value for key, value in values.items() if key not in merged}
        return merged

    def _limit_aliases(self, node: yaml.Node, line: int) -> None:
        """Raises a fault where aliases repeat too many values: aliases of aliases grow exponentially.

        An alias shares the node that it refers to, so a node that was visited before is repeated.
        """
        if id(node) in self._visited:
            self._repeated += 1
            self._repeated_characters += len(node.value) if isinstance(node, yaml.ScalarNode) else 0
            for number, most, kind in (
                (self._repeated, MOST_ALIASED, "values"),
                (self._repeated_characters, MOST_ALIASED_CHARACTERS, "characters"),
            ):
                if number > most:
                    message = f"aliases repeat more than {most:,} {kind}"
                    raise fail(message, path=self._path, line=line, hint="write the values out")
        self._visited.add(id(node))

    def _add_fault(self, message: str, line: int, hint: str | None = None) -> None:
        """Collects a fault."""
        self._faults[Fault(message=message, path=self._path, line=line, hint=hint)] = None


def _plain_scalar(text: str) -> str | int | bool | None:
    """Returns the value of a scalar without quotes that is no float."""
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text in _NULLS:
        return None
    return int(text) if _INTEGER.fullmatch(text) else normalize_newlines(text)
