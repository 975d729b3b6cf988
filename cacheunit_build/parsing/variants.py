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
    from collections.abc import Iterator, Mapping

    from cacheunit_build.domain.document import Keys
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.manifest import AxisValue, Manifest, MatrixEntry
    from cacheunit_build.domain.target import Target

    Combination = tuple[AxisValue, ...]
    """A value for each axis, the axes in code point order."""


def expand(manifest: Manifest, targets: Mapping[str, Target]) -> tuple[Variant, ...]:
    """Returns the variants of a manifest in the order of its matrix; the axes in a name are in code point order.

    Args:
        manifest: the manifest.
        targets: its targets, by the name that it or the project gives them.

    Raises:
        CacheunitError: every entry of its matrix that changes nothing or matches no target; or no variant is left.
    """
    expansion = _Expansion(manifest, targets)
    expansion.exclude()
    expansion.include()
    if not expansion.faults and targets and not any(expansion.masks.values()):
        expansion.faults.append(manifest.fault("every combination is excluded", "matrix", "exclude"))
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
        combinations = itertools.product(*(manifest.matrix[axis] for axis in self._axes))
        self.masks: dict[tuple[tuple[type, AxisValue], ...], int] = {
            _typed(combination): self._all for combination in combinations
        }
        self.faults: list[Fault] = []

    def exclude(self) -> None:
        """Removes the combinations that match an entry of `exclude`, from all targets or from those it names."""
        for index, entry in enumerate(self._manifest.exclude):
            kept = ~self._mask(entry, ("exclude", index))
            axes = {**self._manifest.matrix, **entry.values}
            for combination in itertools.product(*(axes[axis] for axis in self._axes)):
                self.masks[_typed(combination)] &= kept

    def include(self) -> None:
        """Adds the combinations of `include`, for all targets or for those it names."""
        for index, entry in enumerate(self._manifest.include):
            mask = self._mask(entry, ("include", index))
            combination = _typed(tuple(entry.values[axis][0] for axis in self._axes))
            present = self.masks.get(combination, 0)
            if present & mask:
                name = self._name(tuple(value for _, value in combination))
                message = f'variant "{name}" already exists for target "{self._names(present & mask)[0]}"'
                hint = 'remove the entry, exclude the combination first, or name other targets with "target"'
                self.faults.append(self._manifest.fault(message, "matrix", "include", index, hint=hint))
            self.masks[combination] = present | mask

    def variants(self) -> Iterator[Variant]:
        """Yields a variant for each combination that has a target."""
        for combination, mask in self.masks.items():
            if mask:
                values = tuple(value for _, value in combination)
                axes = dict(zip(self._axes, values, strict=True))
                yield Variant(name=self._name(values), manifest=self._manifest, axes=axes, targets=self._names(mask))

    def _name(self, values: Combination) -> str:
        return variant_name(self._manifest.name, dict(zip(self._axes, values, strict=True)))

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
    return pattern in target.models or any(pattern == name or fnmatchcase(name, pattern) for name in names)


def _typed(combination: Combination) -> tuple[tuple[type, AxisValue], ...]:
    """Returns a combination as a key of a dictionary, where 1 and true are equal without their types."""
    return tuple((type(value), value) for value in combination)
