"""The page of `explain --sharing` as HTML: an icicle of shared units for each target, and what would share more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.reports.folding import fold_names
from cacheunit_build.reports.html import TableView, render
from cacheunit_build.reports.icicle import Icicle, icicle
from cacheunit_build.reports.sharing import limits_of, summary_line, unit_noun

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cacheunit_build.diff.sharing import SharingNode, TargetSharing


@dataclass(frozen=True, slots=True, kw_only=True)
class _TargetView:
    """What the artifacts of one target share.

    Attributes:
        id: its id in the page.
        name: the target.
        summary: the artifacts, and how many of their units are different.
        limits: what the target does not reuse.
        icicle: the tree.
        sections: what would share more; None where nothing would.
        tree: the tree as a table.
    """

    id: str
    name: str
    summary: str
    limits: tuple[str, ...]
    icicle: Icicle
    sections: TableView | None
    tree: TableView


@dataclass(frozen=True, slots=True, kw_only=True)
class _SharingView:
    """The page.

    Attributes:
        targets: the targets.
    """

    targets: tuple[_TargetView, ...]


def sharing_html(targets: Sequence[TargetSharing]) -> str:
    """Returns the page."""
    views = tuple(_target(item, f"target-{index}") for index, item in enumerate(targets, 1))
    return render("sharing.html.j2", _SharingView(targets=views))


def _target(item: TargetSharing, id_: str) -> _TargetView:
    saving = [section for section in item.sections if section.units > 0]
    noun = unit_noun(item)
    sections = TableView(
        caption=f"Sections that would be shared at the front, for {item.target}",
        header=("section", "tokens", f"{noun} saved", "prefixes"),
        rows=[
            (section.path, f"{section.tokens:,}", f"{section.units:,}", fold_names(section.names)) for section in saving
        ],
        right=(1, 2),
    )
    tree = TableView(
        caption=f"Shared units for {item.target}",
        header=("units in front", noun, "artifacts", "names"),
        rows=list(_rows(item.tree, 0)),
        right=(0, 1, 2),
    )
    return _TargetView(
        id=id_,
        name=item.target,
        summary=summary_line(item),
        limits=tuple(limits_of(item)),
        icicle=icicle(item.tree, "unit" if item.unit > 1 else "token"),
        sections=sections if saving else None,
        tree=tree,
    )


def _rows(node: SharingNode, start: int) -> Iterator[tuple[str, ...]]:
    """Yields a row for each node of a tree that has units."""
    if node.units:
        yield f"{start:,}", f"{node.units:,}", f"{len(node.names):,}", fold_names(node.names)
    for branch in node.branches:
        yield from _rows(branch, start + node.units)
