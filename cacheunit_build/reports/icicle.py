"""Lays out the tree of shared units as an icicle: units from left to right, artifacts from the top to the bottom.

a  | 1 2 | 3 | 4 |       all begin with two units, a and b share one more,
b  |     |   | 5 |       and each has one of its own
c  |     | 6 |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.domain.file_names import readable_name
from cacheunit_build.reports.formatting import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.diff.sharing import SharingNode

_ROW = 22
"""The height of an artifact, in pixels."""
_GAP = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The units that some artifacts share, as a rectangle.

    Attributes:
        x: the share of the width in front of it, in percent.
        y: the pixels above it.
        width: its width, in percent.
        height: its height, in pixels.
        label: what is written in it; empty where there is no room.
        title: what it stands for, in words.
        kind: `shared`, or `own` for the units of a single artifact.
    """

    x: float
    y: int
    width: float
    height: int
    label: str
    title: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Icicle:
    """The tree of one target.

    Attributes:
        height: its height, in pixels.
        names: the artifacts from the top to the bottom.
        row: the height of each.
        blocks: the rectangles.
        ticks: the units at the start, in the middle and at the end of its width.
    """

    height: int
    names: tuple[str, ...]
    row: int
    blocks: tuple[Block, ...]
    ticks: tuple[str, ...]


def icicle(tree: SharingNode, noun: str) -> Icicle:
    """Returns the icicle of a tree.

    Args:
        tree: the root.
        noun: the name of a unit.
    """
    names = tuple(readable_name(name) for name in _leaves(tree))
    longest = max(1, _depth(tree))
    return Icicle(
        height=len(names) * _ROW,
        names=names,
        row=_ROW,
        blocks=tuple(_blocks(tree, start=0, row=0, longest=longest, noun=noun)),
        ticks=("0", f"{longest // 2:,}", plural(longest, noun)) if longest > 1 else ("0", plural(longest, noun)),
    )


def _leaves(node: SharingNode) -> Iterator[str]:
    """Yields the artifacts of a tree in the order of its branches; those that end at a node are before its branches."""
    yield from node.ends
    for branch in node.branches:
        yield from _leaves(branch)


def _depth(node: SharingNode) -> int:
    return node.units + max((_depth(branch) for branch in node.branches), default=0)


def _blocks(node: SharingNode, *, start: int, row: int, longest: int, noun: str) -> Iterator[Block]:
    """Yields the rectangles of a node and of all below it.

    Args:
        node: the node.
        start: the units in front of it.
        row: the artifacts above it.
        longest: the units of the whole width.
        noun: the name of a unit.
    """
    if node.units:
        count = len(node.names)
        units = plural(node.units, noun)
        names = ", ".join(map(readable_name, node.names[:5])) + (f" and {count - 5:,} more" if count > 5 else "")  # noqa: PLR2004
        yield Block(
            x=round(start / longest * 100, 2),
            y=row * _ROW,
            width=round(node.units / longest * 100, 2),
            height=count * _ROW - _GAP,
            label=f"{node.units:,} × {count:,}" if count > 1 else f"{node.units:,}",
            title=f"{units} of {names}" if count == 1 else f"{units} shared by {plural(count, 'artifact')}: {names}",
            kind="shared" if count > 1 else "own",
        )
    row += len(node.ends)
    for branch in node.branches:
        yield from _blocks(branch, start=start + node.units, row=row, longest=longest, noun=noun)
        row += len(branch.names)
