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

Duplicate keys, tags other than `!!str`, tabs, several documents and aliases without bound are faults.
"""

from __future__ import annotations

import math
import re
from typing import Any

import yaml

from cacheunit_build.domain.document import Document, Keys, decode, normalize_newlines
from cacheunit_build.domain.errors import CacheunitError, Fault, fail
from cacheunit_build.parsing.json import SpelledFloat

MOST_ALIASED = 100_000
"""The most values that aliases may repeat in one document."""

MOST_NESTED = 100
"""The most levels of lists and mappings in one document."""


def read_yaml(data: bytes, path: str, *, floats: bool = False) -> Document:
    """Returns the value of a YAML file, None where the file is empty, and the line of each key and item.

    Args:
        data: the bytes of the file.
        path: the file, for messages.
        floats: whether floats without quotes are numbers, which keep their spelling, and not text.

    Raises:
        CacheunitError: a syntax error, or a limit that is exceeded, alone; otherwise every fault in the file.
    """
    text = decode(data, path)
    _refuse_tabs(text, path)
    _refuse_merge_conflicts(text, path)
    _refuse_deep_brackets(text, path)
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
    except yaml.YAMLError as error:
        raise _syntax_error(error, text, path) from None
    finally:
        loader.dispose()
    return _NodeReader(path, floats=floats).document(node)


def _refuse_tabs(text: str, path: str) -> None:
    """Raises a fault for the first tab."""
    tab = text.find("\t")
    if tab >= 0:
        raise fail(
            "tab character: YAML parsers treat tabs differently",
            path=path,
            line=text.count("\n", 0, tab) + 1,
            hint='indent with spaces; inside a text write "\\t" in double quotes',
        )


def _refuse_merge_conflicts(text: str, path: str) -> None:
    """Raises a fault for the first marker that git leaves where a merge failed."""
    marker = re.search(r"^<{7} ", text, re.MULTILINE)
    if marker is not None:
        line = text.count("\n", 0, marker.start()) + 1
        raise fail("merge-conflict markers", path=path, line=line, hint="resolve the merge conflict")


_PLAIN, _QUOTED, _COLLECTION = "?plain", "?quoted", "?collection"
"""Tags that say how a node was written. The parser gives them to nodes without a tag of their own."""

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """Parses YAML into nodes, and leaves it to `_NodeReader` what they mean.

    PyYAML would read plain scalars as YAML 1.1 does: `no` as false, `010` as 8.
    """

    def resolve(self, kind: type, _value: object, implicit: object) -> str:
        """Returns the tag of a node that has no tag of its own; PyYAML calls this."""
        if kind is not yaml.ScalarNode:
            return _COLLECTION
        return _PLAIN if isinstance(implicit, tuple) and implicit[0] else _QUOTED


def _refuse_deep_brackets(text: str, path: str) -> None:
    """Raises a fault where too many brackets are open, also in texts: the parsers recurse, and would crash."""
    depth = 0
    for match in re.finditer(r"[\[{\]}]", text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(match[0], 0)
        if depth > MOST_NESTED:
            line = text.count("\n", 0, match.start()) + 1
            raise fail(f"brackets are nested more than {MOST_NESTED} levels deep", path=path, line=line)


def _syntax_error(error: yaml.YAMLError, text: str, path: str) -> CacheunitError:
    """Returns the fault for an error of the YAML parser."""
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        code = error.character if isinstance(error.character, int) else ord(error.character)
        return fail(f"a character that YAML does not allow: U+{code:04X}", path=path, line=line)
    problem = getattr(error, "problem", None) or str(error)
    mark = getattr(error, "problem_mark", None)
    last_line = text.count("\n") + 1
    marked_line = None if mark is None else min(mark.line + 1, last_line)
    if "expected a single document" in (getattr(error, "context", None) or ""):
        hint = 'a file contains one document; remove the "---"'
        return fail("more than one document", path=path, line=marked_line, hint=hint)
    return fail(f"not valid YAML: {problem}", path=path, line=marked_line, hint=_syntax_hint(problem))


def _syntax_hint(problem: str) -> str | None:
    """Returns what helps against a problem that the YAML parser reports; None where there is nothing to suggest."""
    if "mapping values are not allowed" in problem:
        return 'put quotes around text that contains ": "'
    if "cannot start any token" in problem:
        return "put quotes around text that starts with a special character"
    return None


_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]{1,3})?")
_INTEGER = re.compile(r"-?[1-9][0-9]{0,17}|0")
_BOOLEANS = {word: value for value in (True, False) for word in (str(value), str(value).lower(), str(value).upper())}
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))


class _NodeReader:
    """Reads the nodes of one YAML file into plain values, and collects faults on the way."""

    def __init__(self, path: str, *, floats: bool) -> None:
        self._path = path
        self._floats = floats
        self._lines: dict[Keys, int] = {}
        self._faults: list[Fault] = []
        self._ancestors: list[int] = []  # id of each node around the present one
        self._visited: set[int] = set()  # id of each node
        self._repeated = 0  # nodes visited again, through aliases

    def document(self, node: yaml.Node | None) -> Document:
        """Returns the value of the file and the line of each key and item in it.

        Args:
            node: the node of the document; None where the file is empty.

        Raises:
            CacheunitError: every fault.
        """
        value = None if node is None else self._value(node, ())
        if self._faults:
            raise CacheunitError(*self._faults)
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
            raise fail(f"nested more than {MOST_NESTED} levels deep", path=self._path, line=line)
        self._ancestors.append(id(node))
        value = self._content(node, keys, line)
        self._ancestors.pop()
        return value

    def _content(self, node: yaml.Node, keys: Keys, line: int) -> Any:  # noqa: ANN401 - any YAML value
        """Returns the value of a node, by its kind."""
        if node.tag not in (_PLAIN, _QUOTED, _COLLECTION, "tag:yaml.org,2002:str"):
            self._add_fault(f'tag "{node.tag}" is not allowed', line, "use plain values")
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, keys)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, (*keys, index)) for index, item in enumerate(node.value)]
        return self._plain(node.value, line) if node.tag == _PLAIN else normalize_newlines(node.value)

    def _plain(self, text: str, line: int) -> Any:  # noqa: ANN401 - text or a plain value
        """Returns the value of a scalar without quotes."""
        if not self._floats or not _FLOAT.fullmatch(text):
            return _plain_scalar(text)
        number = SpelledFloat(text)
        if math.isinf(number):
            self._add_fault(f"{text} is too large for a number", line)
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
                self._add_fault(f'duplicate key "{key}", first on line {key_lines[key]}', line, "remove one of them")
                continue
            key_lines[key] = line
            if key == "<<" and key_node.tag == _PLAIN:
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
            if self._repeated > MOST_ALIASED:
                message = f"aliases repeat more than {MOST_ALIASED:,} values"
                raise fail(message, path=self._path, line=line, hint="write the values out")
        self._visited.add(id(node))

    def _add_fault(self, message: str, line: int, hint: str | None = None) -> None:
        """Collects a fault, once: aliases visit a node again."""
        fault = Fault(message=message, path=self._path, line=line, hint=hint)
        if fault not in self._faults:
            self._faults.append(fault)


def _plain_scalar(text: str) -> str | int | bool | None:
    """Returns the value of a scalar without quotes that is no float."""
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text in _NULLS:
        return None
    return int(text) if _INTEGER.fullmatch(text) else normalize_newlines(text)
