"""Composes the nodes of a YAML text within limits, and refuses characters that YAML parsers treat differently."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from cacheunit_build.domain.errors import CacheunitError, fail
from cacheunit_build.parsing.json import MOST_NESTED, MOST_VALUES, TOO_DEEP, TOO_MANY

if TYPE_CHECKING:
    from collections.abc import Sequence


def compose(text: str, path: str) -> yaml.Node | None:
    """Returns the node of the document; None where the text is empty.

    Raises:
        CacheunitError: a syntax error, or a limit that is exceeded.
    """
    _refuse_characters(text, path)
    _refuse_merge_conflicts(text, path)
    loader = _Loader(text)
    try:
        root: yaml.Node | None = loader.get_single_node()
    except _LimitError as error:
        raise fail(error.message, path=path, line=error.line) from None
    except yaml.YAMLError as error:
        raise _syntax_error(error, text, path) from None
    finally:
        loader.dispose()
    tab = _unsafe_tab(text, root)
    if tab is not None:
        raise _tab_error(text, tab, path)
    return root


_REFUSED = re.compile(r"[^\t\n -~\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u2028\u2029]|^\ufeff", re.MULTILINE)
_LINE_BREAKS = {"\x85": "\\x85", "\u2028": "\\u2028", "\u2029": "\\u2029"}
"""The characters that end a line in YAML 1.1 and not in YAML 1.2 -> their spelling in double quotes."""


def _refuse_characters(text: str, path: str) -> None:
    """Raises a fault for the first character that YAML does not allow, or that only some parsers take for a line end.

    A byte-order mark at the start of a line is a part of the line for some parsers, and is skipped by others.
    """
    match = _REFUSED.search(text)
    if match is None:
        return
    line, name = text.count("\n", 0, match.start()) + 1, f"U+{ord(match[0]):04X}"
    if match[0] in _LINE_BREAKS:
        hint = f'inside a text write "{_LINE_BREAKS[match[0]]}" in double quotes'
        raise fail(f"{name} ends a line for some YAML parsers only", path=path, line=line, hint=hint)
    raise fail(f"a character that YAML does not allow: {name}", path=path, line=line)


_COMMENT_OR_TAB = re.compile(r"(?:^|(?<=\s))#[^\n]*|(\t)", re.MULTILINE)
_TAB = re.compile(r"(\t)")
_INDENTING_TAB = re.compile(r"\n(\t)")
# An anchor and a tag stand in front of the scalar that they belong to: `&name !!str |`.
_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")


def _unsafe_tab(text: str, root: yaml.Node | None) -> int | None:
    """Returns the offset of the first tab that YAML parsers treat differently; None where there is none.

    All parsers agree on tabs in comments, in quotes but for the start of a line, and in the lines of a block scalar.

    Args:
        text: the text of the file.
        root: its node; None where the file is empty.
    """
    if "\t" not in text:
        return None
    end = 0
    for scalar in scalars(root):
        start = scalar.start_mark.index
        properties = _PROPERTIES.match(text, start)
        start = start if properties is None else properties.end()
        tab = _tab_outside(text, end, start)
        end = scalar.end_mark.index
        if tab is None:
            tab = _tab_inside(text, start, end, scalar.style)
        if tab is not None:
            return tab
    return _tab_outside(text, end, len(text))


def _tab_outside(text: str, start: int, end: int) -> int | None:
    """Returns the offset of the first tab between two scalars that is in no comment."""
    matches = _COMMENT_OR_TAB.finditer(text, start, end)
    return next((match.start() for match in matches if match[1]), None)


def _tab_inside(text: str, start: int, end: int, style: str | None) -> int | None:
    """Returns the offset of the first unsafe tab in a scalar; the parser itself refuses one in an indentation."""
    if style in ("|", ">"):
        return _tab_outside(text, start, max(text.find("\n", start, end), start))
    tab = (_INDENTING_TAB if style else _TAB).search(text, start, end)
    return None if tab is None else tab.start(1)


def _tab_error(text: str, offset: int, path: str) -> CacheunitError:
    """Returns the fault for a tab that YAML parsers treat differently."""
    return fail(
        "tab character: YAML parsers treat tabs differently",
        path=path,
        line=text.count("\n", 0, offset) + 1,
        hint='indent with spaces; inside a text write "\\t" in double quotes, '
        'or begin a block scalar whose first line is indented by a tab with "|2"',
    )


_CONFLICT = re.compile("^<{7} ", re.MULTILINE)


def _refuse_merge_conflicts(text: str, path: str) -> None:
    """Raises a fault for the first marker that git leaves where a merge failed."""
    marker = _CONFLICT.search(text)
    if marker is not None:
        line = text.count("\n", 0, marker.start()) + 1
        raise fail("merge-conflict markers", path=path, line=line, hint="resolve the merge conflict")


PLAIN, QUOTED, COLLECTION = "?plain", "?quoted", "?collection"
"""Tags that say how a node was written. The parser gives them to nodes without a tag of their own."""

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _LimitError(Exception):
    """A document exceeds a limit.

    Attributes:
        message: which one.
        line: where, from 1; None where that is not known.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class _Loader(_Base):  # type: ignore[misc]
    """Parses YAML into nodes, and leaves it to `_NodeReader` what they mean.

    PyYAML would read plain scalars as YAML 1.1 does: `no` as false, `010` as 8.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._nodes = 0

    def descend_resolver(self, parent: yaml.Node | None, _index: object) -> None:
        """Counts levels and nodes; PyYAML calls this in front of each node, and would itself recurse until it crashes.

        Raises:
            _LimitError: too many levels or nodes.
        """
        self._depth += 1
        self._nodes += 1
        line = None if parent is None else parent.start_mark.line + 1
        if self._depth > MOST_NESTED + 1:
            raise _LimitError(TOO_DEEP, line)
        if self._nodes > MOST_VALUES:
            raise _LimitError(TOO_MANY, line)

    def ascend_resolver(self) -> None:
        """Leaves a level; PyYAML calls this behind each node."""
        self._depth -= 1

    def resolve(self, kind: type, _value: object, implicit: object) -> str:
        """Returns the tag of a node that has no tag of its own; PyYAML calls this."""
        if kind is not yaml.ScalarNode:
            return COLLECTION
        return PLAIN if isinstance(implicit, tuple) and implicit[0] else QUOTED


def _syntax_error(error: yaml.YAMLError, text: str, path: str) -> CacheunitError:
    """Returns the fault for an error of the YAML parser."""
    problem = getattr(error, "problem", None) or str(error)
    mark = getattr(error, "problem_mark", None)
    last_line = text.count("\n") + 1
    marked_line = None if mark is None else min(mark.line + 1, last_line)
    if mark is not None and (" tab character" in problem or text[mark.index : mark.index + 1] == "\t"):
        return _tab_error(text, mark.index, path)
    if "expected a single document" in (getattr(error, "context", None) or ""):
        hint = 'a file contains one document; remove the "---"'
        return fail("more than one document", path=path, line=marked_line, hint=hint)
    before = "" if mark is None else text[max(0, mark.index - _NEAR) : mark.index].rstrip()
    help_line = _syntax_hint(problem, before.rpartition("\n")[2])
    return fail(f"not valid YAML: {problem}", path=path, line=marked_line, hint=help_line)


_NEAR = 500
"""Characters in front of a syntax error that are searched for its cause."""


def _syntax_hint(problem: str, line: str) -> str | None:
    """Returns what helps against a problem that the YAML parser reports; None where there is nothing to suggest.

    Args:
        problem: the problem, in the words of the parser.
        line: the end of the last line in front of it that is not blank.
    """
    if "mapping values are not allowed" in problem:
        return 'put quotes around text that contains ": "'
    if "cannot start any token" in problem:
        return "put quotes around text that starts with a special character"
    if "did not find expected" in problem and re.search(r"\S #", line):
        return 'a comment ends a text without quotes: put quotes around text that contains " #"'
    return None


def scalars(root: yaml.Node | None, *, keys: bool = True) -> Sequence[yaml.ScalarNode]:
    """Returns every scalar node below a node once, in the order of the file, however often aliases refer to it.

    Args:
        root: the node.
        keys: whether keys of mappings are among them.
    """
    scalars: list[yaml.ScalarNode] = []
    visited: set[int] = set()
    pending = [] if root is None else [root]
    while pending:
        node = pending.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            scalars.append(node)
        elif isinstance(node, yaml.MappingNode):
            pending += (part for key, value in node.value for part in ((key, value) if keys else (value,)))
        else:
            pending += node.value
    return sorted(scalars, key=lambda scalar: scalar.start_mark.index)
