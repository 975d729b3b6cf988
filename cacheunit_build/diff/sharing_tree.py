"""Which leading units are shared by which artifacts of a target: token ids -> a radix tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.domain.sequences import common_prefix

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """`units` whole cache units that all of `names` have here, and how they go on; `ends` are those that do not."""

    units: int
    names: tuple[str, ...]
    ends: tuple[str, ...]
    branches: tuple[Branch, ...]

    @property
    def unique(self) -> int:
        """How many different units this branch and those below it hold."""
        return self.units + sum(branch.unique for branch in self.branches)

    @property
    def saved(self) -> int:
        """How many units this branch and those below it need not hold again, because several artifacts have them."""
        return self.units * (len(self.names) - 1) + sum(branch.saved for branch in self.branches)


def family_tree(ids: Mapping[str, Sequence[int]], unit: int) -> Branch:
    """The tree of artifacts by their static token ids, in whole units of `unit` tokens; the root may have none.

    Tokens past the last full unit are nobody's.
    """
    listed = {name: list(ids[name][: len(ids[name]) // unit * unit]) for name in sorted(ids)}
    return _branch(listed, 0, unit)


def _branch(ids: Mapping[str, Sequence[int]], start: int, unit: int) -> Branch:
    """What all of these, which are the same up to `start`, have from there on."""
    first, *others = ids.values()
    end = len(first)
    for other in others:
        end = min(end, common_prefix(first, other))
    end -= end % unit
    ends = tuple(name for name, own in ids.items() if len(own) == end)
    groups: dict[tuple[int, ...], dict[str, Sequence[int]]] = {}
    for name, own in ids.items():
        if len(own) > end:
            groups.setdefault(tuple(own[end : end + unit]), {})[name] = own
    branches = tuple(_branch(group, end, unit) for group in groups.values())
    return Branch(units=(end - start) // unit, names=tuple(ids), ends=ends, branches=branches)
