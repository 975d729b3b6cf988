"""Comments that say what is meant: `cacheunit: ignore CU101`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cacheunit_build.lint.registry import code_or_group, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TEMPLATE = re.compile(r"\{#[-+]?\s*cacheunit:\s*(ignore(?:-file)?)\b(.*?)[-+]?#\}", re.DOTALL)
_YAML = re.compile(r"(?:^|(?<=\s))#\s*cacheunit:\s*(ignore(?:-file)?)\b([^\n]*)", re.MULTILINE)
_REASON = re.compile(r"\s[-\u2013\u2014]+\s|[:;(]|\bbecause\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignores:
    """What the comments of one file ignore: codes or groups, in the whole file or on a line.

    `odd` are line, column, message and hint of comments that name no known code.
    """

    everywhere: frozenset[str] = frozenset()
    lines: Mapping[int, frozenset[str]] = field(default_factory=dict)
    odd: tuple[tuple[int, int, str, str], ...] = ()

    def hides(self, code: str, line: int) -> bool:
        """Whether a finding of that code on that line is meant."""
        return any(code.startswith(part) for part in (*self.everywhere, *self.lines.get(line, ())))


def ignores_in(text: str, path: str) -> Ignores:
    """What the comments of a file say; in YAML those of YAML too. A JSON file has none."""
    everywhere: set[str] = set()
    lines: dict[int, frozenset[str]] = {}
    odd: list[tuple[int, int, str, str]] = []
    for match in _comments(text, path):
        first = text.count("\n", 0, match.start()) + 1
        column = match.start() - text.rfind("\n", 0, match.start())
        known: set[str] = set()
        words = [word for word in re.split(r"[\s,]+", _REASON.split(match[2])[0]) if word]
        if not words:
            odd.append((first, column, "the comment names no code to ignore", "write: cacheunit: ignore CU101"))
        for word in words:
            part = code_or_group(word)
            if part is None:
                odd.append((first, column, f'there is no code "{word}" to ignore', nearest(word)))
            else:
                known.add(part)
        if match[1] == "ignore-file":
            everywhere |= known
            continue
        for line in range(first, first + match[0].count("\n") + 2):
            lines[line] = lines.get(line, frozenset()) | known
    return Ignores(everywhere=frozenset(everywhere), lines=lines, odd=tuple(odd))


def _comments(text: str, path: str) -> Iterator[re.Match[str]]:
    extension = path.rpartition(".")[2].lower()
    if extension != "json":
        yield from _TEMPLATE.finditer(text)
    if extension in ("yaml", "yml"):
        yield from _YAML.finditer(text)
