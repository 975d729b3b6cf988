"""YAML as version 1.2 reads it, and stricter: duplicates, tags, tabs and several documents are faults.

Scalars keep the characters that were typed. Integers in their usual spelling and the core schema's booleans and nulls
are values; everything else (`no`, `3.10`, `010`, `1e3`, dates) is text.
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
    """One YAML document; an empty file is None. With `floats`, plain ones are numbers that keep their spelling.

    Raises:
        CacheunitError: every duplicate key, tag, self-reference and, alone, what is not YAML at all.
    """
    text = decode(data, path)
    tab = text.find("\t")
    if tab >= 0:
        raise fail(
            "a tab: YAML parsers disagree on it",
            path=path,
            line=text.count("\n", 0, tab) + 1,
            hint='indent with spaces; inside a text write "\\t" in double quotes',
        )
    marker = re.search(r"^<{7} ", text, re.MULTILINE)
    if marker is not None:
        line = text.count("\n", 0, marker.start()) + 1
        raise fail("merge-conflict markers", path=path, line=line, hint="settle the merge")
    _refuse_deep(text, path)
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
    except yaml.YAMLError as error:
        raise _yaml_fault(error, text, path) from None
    finally:
        loader.dispose()
    reader = _YamlReader(path, floats=floats)
    value = None if node is None else reader.value(node, ())
    if reader.faults:
        raise CacheunitError(*reader.faults)
    return Document(path=path, value=value, lines=reader.lines)


_PLAIN, _QUOTED, _COLLECTION = "?plain", "?quoted", "?collection"
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """Composes nodes whose tags say only how they were written: plain, quoted, or tagged by hand."""

    def resolve(self, kind: type, _value: object, implicit: object) -> str:
        if kind is not yaml.ScalarNode:
            return _COLLECTION
        return _PLAIN if isinstance(implicit, tuple) and implicit[0] else _QUOTED


def _refuse_deep(text: str, path: str) -> None:
    """The parsers recurse: refuse nesting that only a machine would write, before they do."""
    depth = 0
    for match in re.finditer(r"[\[{\]}\n]", text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(match[0], 0)
        if depth > MOST_NESTED:
            line = text.count("\n", 0, match.start()) + 1
            raise fail(f"more than {MOST_NESTED} brackets are open at once", path=path, line=line)


def _yaml_fault(error: yaml.YAMLError, text: str, path: str) -> CacheunitError:
    if isinstance(error, yaml.reader.ReaderError):
        place = text.count("\n", 0, error.position) + 1
        code = error.character if isinstance(error.character, int) else ord(error.character)
        return fail(f"a character that YAML does not allow: U+{code:04X}", path=path, line=place)
    problem = getattr(error, "problem", None) or str(error)
    mark = getattr(error, "problem_mark", None)
    last = text.count("\n") + 1
    line = None if mark is None else min(mark.line + 1, last)
    if "expected a single document" in (getattr(error, "context", None) or ""):
        return fail("more than one document", path=path, line=line, hint='a file holds one; remove the "---"')
    return fail(f"not valid YAML: {problem}", path=path, line=line, hint=_yaml_hint(problem))


def _yaml_hint(problem: str) -> str | None:
    if "mapping values are not allowed" in problem:
        return 'quote a text that has ": " in it'
    if "cannot start any token" in problem:
        return "quote a text that starts with a special character"
    return None


_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]{1,3})?")
_INTEGER = re.compile(r"-?[1-9][0-9]{0,17}|0")
_BOOLEANS = {word: value for value in (True, False) for word in (str(value), str(value).lower(), str(value).upper())}
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))


class _YamlReader:
    """Nodes -> value and lines, collecting faults."""

    def __init__(self, path: str, *, floats: bool) -> None:
        self.path = path
        self._floats = floats
        self.lines: dict[Keys, int] = {}
        self.faults: list[Fault] = []
        self._open: list[int] = []
        self._seen: set[int] = set()
        self._aliased = 0

    def value(self, node: yaml.Node, keys: Keys) -> Any:  # noqa: ANN401
        line = node.start_mark.line + 1
        self.lines.setdefault(keys, line)
        self._count(node, line)
        if id(node) in self._open:
            self._fault("an alias that contains itself", line)
            return None
        if len(self._open) > MOST_NESTED:
            raise fail(f"more than {MOST_NESTED} levels", path=self.path, line=line)
        self._open.append(id(node))
        try:
            return self._value(node, keys, line)
        finally:
            self._open.pop()

    def _value(self, node: yaml.Node, keys: Keys, line: int) -> Any:  # noqa: ANN401
        if node.tag not in (_PLAIN, _QUOTED, _COLLECTION, "tag:yaml.org,2002:str"):
            self._fault(f'tag "{node.tag}" is not allowed', line, "write plain values; nothing is executed")
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, keys)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*keys, index)) for index, item in enumerate(node.value)]
        if node.tag != _PLAIN:
            return normalize_newlines(node.value)
        if not self._floats or not _FLOAT.fullmatch(node.value):
            return _scalar(node.value)
        number = SpelledFloat(node.value)
        if math.isinf(number):
            self._fault(f"{node.value} is too large for a number", line)
        return number

    def _mapping(self, node: yaml.MappingNode, keys: Keys) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        places: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self._fault("a key that is not text", line)
                continue
            key = key_node.value
            if key in places:
                self._fault(f'duplicate key "{key}", first on line {places[key]}', line, "keep one of the two")
                continue
            places[key] = line
            if key == "<<" and key_node.tag == _PLAIN:
                merged = self._merged(value_node, keys)
                continue
            own[key] = self.value(value_node, (*keys, key))
            self.lines[(*keys, key)] = line
        return {**{key: value for key, value in merged.items() if key not in own}, **own} if merged else own

    def _merged(self, node: yaml.Node, keys: Keys) -> dict[str, Any]:
        """What a merge key (`<<`) brings in: a mapping, or a list of them, the earlier winning."""
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, Any] = {}
        for part in parts:
            if not isinstance(part, yaml.MappingNode):
                self._fault('"<<" merges mappings only', part.start_mark.line + 1)
                continue
            for key, value in self.value(part, (*keys, "<<")).items():
                merged.setdefault(key, value)
        return merged

    def _count(self, node: yaml.Node, line: int) -> None:
        """Aliases share nodes: meeting one again is a copy, and copies of copies are bounded."""
        if id(node) in self._seen:
            self._aliased += 1
            if self._aliased > MOST_ALIASED:
                raise fail(
                    f"aliases repeat more than {MOST_ALIASED} values", path=self.path, line=line, hint="write them out"
                )
        self._seen.add(id(node))

    def _fault(self, message: str, line: int, hint: str | None = None) -> None:
        fault = Fault(message=message, path=self.path, line=line, hint=hint)
        if fault not in self.faults:
            self.faults.append(fault)


def _scalar(text: str) -> str | int | bool | None:
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text in _NULLS:
        return None
    return int(text) if _INTEGER.fullmatch(text) else normalize_newlines(text)
