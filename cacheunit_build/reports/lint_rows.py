"""Folds the violations of a lint run to one row a cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.reports.folding import MOST_ROWS, fold_names
from cacheunit_build.reports.formatting import plural

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from cacheunit_build.lint.results import Violation

_MOST_LINES = 3
"""The most line numbers in one row."""

_MOST_MESSAGES = 3
"""The most rows of one rule in one file that differ in their messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Violations of one rule in one file that are shown as one.

    Attributes:
        violations: at least one, in the order of lines.
    """

    violations: tuple[Violation, ...]

    @property
    def first(self) -> Violation:
        """The violation whose message is shown."""
        return self.violations[0]

    def __str__(self) -> str:
        """Returns place, severity, code and message: `a.md.j2:1, 7 and 2 more: warning CU302: …`."""
        first = self.first
        place = position_text(first.path, [(item.line, item.column) for item in self.violations])
        differ = any(item.message != first.message for item in self.violations)
        message = f"{first.message}, and {len(self.violations) - 1:,} more like it" if differ else first.message
        return f"{place}: {first.severity} {first.code}: {message}{prefixes_text(self.violations)}"


def position_text(path: str, positions: Sequence[tuple[int, int]]) -> str:
    """Returns a path with line and column, as terminals and editors link them; of several places the first lines.

    a.md.j2, (3, 7)                             a.md.j2:3:7
    a.md.j2, (1, 1), (1, 9), (7, 2)             a.md.j2:1, 7
    a.md.j2, (1, 1), (7, 2), (9, 1), (12, 1)    a.md.j2:1, 7, 9 and 1 more
    """
    if len(positions) == 1:
        line, column = positions[0]
        return f"{path}:{line}:{column}"
    lines = list(dict.fromkeys(line for line, _ in positions))
    more = f" and {len(lines) - _MOST_LINES:,} more" if len(lines) > _MOST_LINES else ""
    return f"{path}:{', '.join(map(str, lines[:_MOST_LINES]))}{more}"


def prefixes_text(violations: Collection[Violation]) -> str:
    """Returns the folded names of what has violations: ` (in support/agent ×6, review)`; empty for one prefix alone."""
    names = dict.fromkeys(name for violation in violations for name in violation.variants or violation.prefixes)
    targets = {violation.target for violation in violations}
    parts = [f"in {fold_names(names)}"] if len(names) > 1 else []
    parts += [f"{len(targets):,} targets"] if len(targets) > 1 else []
    return f" ({'; '.join(parts)})" if parts else ""


def folded_rows(violations: Iterable[Violation]) -> list[Row]:
    """Returns violations in one row for each rule, severity, file and message, in the order of the first ones.

    Where that would be more than three for a rule in a file, or one for each target, they are one.
    """
    groups: dict[tuple[str, ...], dict[str, list[Violation]]] = {}
    for violation in violations:
        key = (violation.path, violation.code, violation.severity)
        groups.setdefault(key, {}).setdefault(violation.message, []).append(violation)
    rows: list[Row] = []
    for messages in groups.values():
        has_targets = any(item.target for items in messages.values() for item in items)
        if len(messages) <= (1 if has_targets else _MOST_MESSAGES):
            rows += (Row(violations=tuple(items)) for items in messages.values())
        else:
            together = sorted((item for items in messages.values() for item in items), key=_position)
            rows.append(Row(violations=tuple(together)))
    return sorted(rows, key=lambda row: (row.first.path, *_position(row.first), row.first.code))


def _position(violation: Violation) -> tuple[int, int]:
    return violation.line, violation.column


def first_rows(rows: Sequence[Row]) -> Iterator[Row | str]:
    """Yields rows, of each rule and severity the first 20 at most, then how many more files have it."""
    by_rule: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        by_rule.setdefault((row.first.code, row.first.severity), []).append(row)
    hidden = {id(row) for same in by_rule.values() for row in same[MOST_ROWS:]}
    yield from (row for row in rows if id(row) not in hidden)
    for (code, severity), same in by_rule.items():
        more = same[MOST_ROWS:]
        if more:
            count = sum(len(row.violations) for row in more)
            files = plural(len({row.first.path for row in more}), "file")
            yield f"{severity} {code}: {count:,} more in {files}; -v shows all"
