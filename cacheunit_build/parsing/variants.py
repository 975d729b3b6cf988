"""Expands the matrix of a manifest into variants, each with the targets that it is compiled for."""

from __future__ import annotations

import itertools
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from cacheunit_build.domain.document import shortened
from cacheunit_build.domain.errors import CacheunitError, first_faults
from cacheunit_build.domain.file_names import variant_name
from cacheunit_build.domain.manifest import Variant
from cacheunit_build.parsing.matrix_entries import MOST_HINTS, TARGET, similar_or_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from cacheunit_build.domain.document import Keys
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.manifest import AxisValue, Manifest, MatrixEntry
    from cacheunit_build.domain.target import Target

    TypedValue = tuple[type, AxisValue]
    """A value with its type, without which 1 and true are equal."""
    Combination = tuple[TypedValue, ...]
    """A value for each axis, the axes in code point order."""


def expand(manifest: Manifest, targets: Mapping[str, Target]) -> tuple[Variant, ...]:
    """Returns the variants of a manifest in the order of its matrix; the axes in a name are in code point order.

    Args:
        manifest: the manifest.
        targets: its targets, by the name that it or the project gives them.

    Raises:
        CacheunitError: every entry of its matrix that changes nothing or matches no target; or no variant is left.
    """
    if not manifest.matrix:
        names = tuple(target.name for target in targets.values())
        return (Variant(name=manifest.name, manifest=manifest, axes={}, targets=names),) if targets else ()
    expansion = _Expansion(manifest, targets)
    expansion.exclude()
    expansion.include()
    if not expansion.faults and targets and not any(expansion.masks.values()):
        message = "every combination is excluded"
        expansion.faults.append(manifest.fault(message, "matrix", "exclude", hint="leave one for at least one target"))
    if expansion.faults:
        raise CacheunitError(*first_faults(expansion.faults))
    return tuple(expansion.variants())


class _Expansion:
    """The combinations of a matrix while entries exclude and include some of them.

    Attributes:
        masks: combination -> its targets, a bit for each of them.
        faults: what is wrong with the entries.
    """

    def __init__(self, manifest: Manifest, targets: Mapping[str, Target]) -> None:
        self._manifest = manifest
        self._targets = list(targets.items())
        self._axes = sorted(manifest.matrix)
        self._all = (1 << len(targets)) - 1
        self._values = {axis: _typed(values) for axis, values in manifest.matrix.items()}
        self.masks: dict[Combination, int] = dict.fromkeys(self._combinations(self._values), self._all)
        self.faults: list[Fault] = []

    def exclude(self) -> None:
        """Removes the combinations that match an entry of `exclude`, from all targets or from those it names."""
        for index, entry in enumerate(self._manifest.exclude):
            kept = ~self._mask(entry, ("exclude", index))
            named = {axis: _typed(values) for axis, values in entry.values.items()}
            for combination in self._combinations({**self._values, **named}):
                self.masks[combination] &= kept

    def include(self) -> None:
        """Adds the combinations of `include`, for all targets or for those it names."""
        for index, entry in enumerate(self._manifest.include):
            mask = self._mask(entry, ("include", index))
            combination = _typed(entry.values[axis][0] for axis in self._axes)
            present = self.masks.get(combination, 0)
            if present & mask:
                name = variant_name(self._manifest.name, self._by_axis(combination))
                message = f'variant "{name}" already exists for target "{self._names(present & mask)[0]}"'
                hint = 'remove the entry, exclude the combination first, or name other targets with "target"'
                self.faults.append(self._manifest.fault(message, "matrix", "include", index, hint=hint))
            self.masks[combination] = present | mask

    def variants(self) -> Iterator[Variant]:
        """Yields a variant for each combination that has a target."""
        for combination, mask in self.masks.items():
            if mask:
                axes = self._by_axis(combination)
                name = variant_name(self._manifest.name, axes)
                yield Variant(name=name, manifest=self._manifest, axes=axes, targets=self._names(mask))

    def _combinations(self, values: Mapping[str, tuple[TypedValue, ...]]) -> Iterator[Combination]:
        """Returns every combination of values of the axes."""
        return itertools.product(*(values[axis] for axis in self._axes))

    def _by_axis(self, combination: Combination) -> dict[str, AxisValue]:
        """Returns the values of a combination by axis."""
        return {axis: value for axis, (_, value) in zip(self._axes, combination, strict=True)}

    def _names(self, mask: int) -> tuple[str, ...]:
        """Returns the names of the targets whose bits are set."""
        return tuple(target.name for bit, (_, target) in enumerate(self._targets) if mask >> bit & 1)

    def _mask(self, entry: MatrixEntry, keys: Keys) -> int:
        """Returns the targets that an entry is about; a name or glob that matches none is a fault."""
        if entry.targets is None:
            return self._all
        result = 0
        for index, pattern in enumerate(entry.targets):
            bits = (1 << bit for bit, target in enumerate(self._targets) if _matches(pattern, *target))
            mask = sum(bits)
            if not mask:
                names = [name for name, _ in self._targets]
                hint = similar_or_all(pattern, names, "its targets are") if len(self.faults) < MOST_HINTS else None
                message = f'"{shortened(pattern)}" matches no target of the manifest'
                self.faults.append(self._manifest.fault(message, "matrix", *keys, TARGET, index, hint=hint))
            result |= mask
        return result


def _matches(pattern: str, written: str, target: Target) -> bool:
    """Returns whether a pattern is the name of a target or of one of its models, or a glob that matches its name.

    Args:
        pattern: the name or glob, in which letter case counts.
        written: the name that the manifest or the project gives the target, which may be that of a model.
        target: the target.
    """
    names = (written, target.name)
    return pattern in target.model_ids or any(pattern == name or fnmatchcase(name, pattern) for name in names)


def _typed(values: Iterable[AxisValue]) -> tuple[TypedValue, ...]:
    """Returns values with their types."""
    return tuple((type(value), value) for value in values)
