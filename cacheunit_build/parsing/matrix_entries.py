"""Reads the combinations that a matrix excludes and includes, and checks each against the axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from cacheunit_build.domain.document import shortened
from cacheunit_build.domain.errors import did_you_mean
from cacheunit_build.domain.file_names import axis_spelling
from cacheunit_build.domain.manifest import MatrixEntry
from cacheunit_build.domain.names import composed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cacheunit_build.domain.document import Keys
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.manifest import AxisValue, Manifest

    Kind = Literal["exclude", "include"]

TARGET = "target"
"""The key of an entry that names targets, so that it names no axis."""

_MOST_ENTRIES = 1_000
MOST_HINTS = 50
"""The most faults of one list that look for a similar name, which takes long."""
_MOST_LISTED = 12
"""The most names that a hint lists."""


def read_entries(
    manifest: Manifest, kind: Kind, items: Sequence[object]
) -> tuple[tuple[MatrixEntry, ...], list[Fault]]:
    """Returns the combinations under `exclude` or `include`, and every fault in them.

    Args:
        manifest: the manifest, whose axes have no fault.
        kind: the key of the list.
        items: the list as it was read.
    """
    problem, hint = _list_problem(manifest, kind, items)
    if problem is not None:
        return (), [manifest.fault(problem, "matrix", kind, hint=hint)]
    reader = _EntryReader(manifest, kind)
    entries = [reader.entry(item, index) for index, item in enumerate(items)]
    patterns = sum(len(entry.targets or ()) for entry in entries)
    if patterns > _MOST_ENTRIES:
        reader.add(f'"matrix.{kind}" names {patterns:,} targets, more than {_MOST_ENTRIES:,}', ())
    return tuple(entries), reader.faults


def value_problem(axis: str, value: object) -> str | None:
    """Returns why a value cannot be the value of an axis; None if it can."""
    if value == "":
        return f'a value of axis "{axis}" is empty'
    return None if isinstance(value, str | int) else f'a value of axis "{axis}" is not text, number or boolean'


def similar_or_all(word: str, known: Iterable[str], subject: str) -> str:
    """Returns a hint that names the known word nearest to `word`, or else all of them: `the axes are mode, plan`."""
    names = list(known)
    listed = ", ".join(map(shortened, names[:_MOST_LISTED])) + (", …" if len(names) > _MOST_LISTED else "")
    return did_you_mean(word, names) or f"{subject} {listed}"


def _list_problem(manifest: Manifest, kind: Kind, items: Sequence[object]) -> tuple[str | None, str | None]:
    """Returns why a list of combinations cannot be read at all, and what helps; None twice if it can."""
    if not items:
        return None, None
    if not any(isinstance(item, dict) for item in items):
        return f'"matrix.{kind}" must be a list of mappings', "it lists combinations, and cannot name an axis"
    if not manifest.matrix:
        return f'"matrix.{kind}" needs an axis', "give the matrix an axis: a name with a list of values"
    if TARGET in manifest.matrix:
        return f'axis "{TARGET}" is not possible together with "{kind}"', f'rename it: "{TARGET}" names targets there'
    if len(items) > _MOST_ENTRIES:
        return f'"matrix.{kind}" has {len(items):,} entries, more than {_MOST_ENTRIES:,}', None
    return None, None


class _EntryReader:
    """Reads the entries of one list, and collects faults on the way."""

    def __init__(self, manifest: Manifest, kind: Kind) -> None:
        self.faults: list[Fault] = []
        self._manifest = manifest
        self._kind = kind
        self._values = {
            axis: {composed(axis_spelling(value)): value for value in values}
            for axis, values in manifest.matrix.items()
        }
        self._first: dict[object, int] = {}  # what an entry names -> the index of the first one that does

    def entry(self, item: object, index: int) -> MatrixEntry:
        """Returns an entry; without what is wrong with it."""
        faults_before = len(self.faults)
        if not isinstance(item, dict):
            self.add(f'an entry of "matrix.{self._kind}" must be a mapping', (index,))
            return MatrixEntry(values={})
        values = {
            axis: tuple(self._axis_values(axis, value, (index, axis)))
            for axis, value in item.items()
            if axis != TARGET and self._is_axis(axis, (index, axis))
        }
        entry = MatrixEntry(values=values, targets=self._targets(item[TARGET], index) if TARGET in item else None)
        missing = [f'"{axis}"' for axis in self._manifest.matrix if axis not in values]
        if self._kind == "include" and missing:
            message = f"{'axis' if len(missing) == 1 else 'axes'} {', '.join(missing[:_MOST_LISTED])} not given"
            self.add(message, (index,), "an included combination has a value for each axis")
        elif not item:
            self.add("the entry names no axis and no target", (index,), "name the values that are left out")
        if len(self.faults) == faults_before:
            self._refuse_repeated(entry, index)
        return entry

    def add(self, message: str, keys: Keys, hint: str | None = None) -> None:
        """Collects a fault at the value under these keys of the list."""
        self.faults.append(self._manifest.fault(message, "matrix", self._kind, *keys, hint=hint))

    def _similar(self, word: str, known: Iterable[str], subject: str) -> str | None:
        return similar_or_all(word, known, subject) if len(self.faults) < MOST_HINTS else None

    def _is_axis(self, axis: str, keys: Keys) -> bool:
        """Returns whether the matrix has an axis; if not, that is a fault."""
        if axis in self._manifest.matrix:
            return True
        hint = self._similar(axis, (*self._manifest.matrix, TARGET), "it has")
        self.add(f'the matrix has no axis "{shortened(axis)}"', keys, hint)
        return False

    def _axis_values(self, axis: str, value: object, keys: Keys) -> Iterator[AxisValue]:
        """Yields the values that an entry names of an axis, as the axis itself has them."""
        if isinstance(value, list) and self._kind == "include":
            self.add(f'"{axis}" must be one value', keys, "add an entry for each value")
            return
        values: list[Any] = value if isinstance(value, list) else [value]
        if not values:
            self.add(f'"{axis}" must not be empty', keys)
        spellings: set[str] = set()
        for index, item in enumerate(values):
            place = (*keys, index) if isinstance(value, list) else keys
            spelling = composed(axis_spelling(item))
            problem = value_problem(axis, item)
            if problem is None and spelling in spellings:
                problem = f'"{axis}" names the value "{shortened(spelling)}" twice'
            spellings.add(spelling)
            if problem is not None:
                self.add(problem, place)
            elif self._kind == "exclude":
                yield from self._known_value(axis, spelling, place)
            else:
                yield self._included_value(axis, item, spelling, place)

    def _known_value(self, axis: str, spelling: str, keys: Keys) -> Iterator[AxisValue]:
        """Yields the value of an axis with that spelling; where it has none, that is a fault."""
        if spelling in self._values[axis]:
            yield self._values[axis][spelling]
            return
        hint = self._similar(spelling, self._values[axis], "its values are")
        self.add(f'axis "{axis}" has no value "{shortened(spelling)}", so nothing is excluded', keys, hint)

    def _included_value(self, axis: str, value: AxisValue, spelling: str, keys: Keys) -> AxisValue:
        """Returns an included value; one that another value only resembles is a fault, since both have one folder."""
        known = self._values[axis].setdefault(spelling, value)
        if type(known) is not type(value) or known != value:
            kinds = {str: "text", int: "a number", bool: "a boolean"}
            same = kinds[type(known)] == kinds[type(value)]
            as_known = "in other characters" if same else f"as {kinds[type(known)]}, not {kinds[type(value)]}"
            self.add(
                f'axis "{axis}" has the value "{shortened(spelling)}" already, {as_known}', keys, "write both alike"
            )
        return value

    def _targets(self, value: object, index: int) -> tuple[str, ...]:
        """Returns the names and globs of targets that an entry names."""
        listed = value if isinstance(value, list) else [value]
        if not listed:
            self.add(f'"{TARGET}" must not be empty', (index, TARGET))
        targets: dict[str, None] = {}
        for number, target in enumerate(listed):
            keys: Keys = (index, TARGET, number) if isinstance(value, list) else (index, TARGET)
            if not isinstance(target, str) or not target:
                self.add(f'"{TARGET}" must be the name of a target, a glob, or a list of them', keys)
            elif target in targets:
                self.add(f'target "{shortened(target)}" is named twice', keys, "remove one of them")
            else:
                targets[target] = None
        return tuple(targets)

    def _refuse_repeated(self, entry: MatrixEntry, index: int) -> None:
        """Adds a fault where an earlier entry without faults names the same."""
        spelled: Mapping[str, frozenset[str]] = {
            axis: frozenset(composed(axis_spelling(value)) for value in values) for axis, values in entry.values.items()
        }
        names = (frozenset(spelled.items()), None if entry.targets is None else frozenset(entry.targets))
        first = self._first.setdefault(names, index)
        if first != index:
            line = self._manifest.line("matrix", self._kind, first)
            self.add(f"the entry repeats the one on line {line}", (index,), "remove one of them")
