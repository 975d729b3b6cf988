"""The report of `explain --sharing`: which leading units the artifacts of each target share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cacheunit_build.reports.folding import fold_names, number_range
from cacheunit_build.reports.formatting import plural, with_former_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cacheunit_build.diff.sharing import SharingNode, TargetSharing
    from cacheunit_build.reports.layout import Block


def sharing_json(targets: Sequence[TargetSharing]) -> dict[str, Any]:
    """Returns the report as JSON values."""
    report = {
        "sharing": [
            {
                "target": item.target,
                "kind": item.rule.kind,
                "counted": "estimate" if item.margin else "exact",
                "unit": item.unit,
                "units": item.units,
                "unique": item.tree.unique,
                "tree": _node_json(item.tree),
                "sections": [
                    {
                        "path": section.path,
                        "prefixes": list(section.names),
                        "tokens": section.tokens,
                        "units_saved": section.units,
                    }
                    for section in item.sections
                ],
            }
            for item in targets
        ]
    }
    return with_former_keys(report, {"families": "sharing"})


def _node_json(node: SharingNode) -> dict[str, Any]:
    return {
        "units": node.units,
        "prefixes": list(node.names),
        "ends": list(node.ends),
        "branches": [_node_json(branch) for branch in node.branches],
    }


def sharing_blocks(targets: Sequence[TargetSharing], *, verbose: bool = False) -> list[Block]:
    """Returns a tree for each target: how many leading units artifacts share, and below, how many follow in each.

    3  b, support     both begin with the same 3 units
      4  b            then b has 4 of its own
      1  support      and support has 1

    Args:
        targets: what the artifacts of each target share.
        verbose: whether each variant of a prefix has a line of its own, where several end below one node.
    """
    return [list(_target_lines(item, verbose=verbose)) for item in targets]


def _target_lines(item: TargetSharing, *, verbose: bool) -> Iterator[str]:
    yield f"{item.target}: {summary_line(item)}"
    yield from (f"  {line}" for line in limits_of(item))
    yield ""
    width = len(f"{max(_units(item.tree)):,}")
    yield from _node_lines(item.tree, 0, width, is_root=True, fold=not verbose)
    saving = [section for section in item.sections if section.units > 0]
    yield from ("", "moving a shared section to the front of all prefixes that have it would save:") if saving else ()
    for section in saving:
        saved = f"{section.units:,} {unit_noun(item)} of {fold_names(section.names)}"
        yield f"  {section.path} ({section.tokens:,} tokens): {saved}"


def unit_noun(item: TargetSharing) -> str:
    """Returns `units of 128`, or `tokens` where the target reuses single tokens or its unit is unknown."""
    return f"units of {item.unit:,}" if item.unit > 1 else "tokens"


def summary_line(item: TargetSharing) -> str:
    """Returns the number of artifacts of a target, and how many of their units are different."""
    unique = item.tree.unique
    shared = f", {1 - unique / item.units:.0%} shared" if item.units else ""
    artifacts = plural(len(item.tree.names), "artifact")
    estimate = "~" if item.margin else ""
    return f"{artifacts}, {estimate}{item.units:,} {unit_noun(item)}, {unique:,} of them different{shared}"


def limits_of(item: TargetSharing) -> Iterator[str]:
    """Yields what the target does not reuse, although artifacts share it."""
    if item.rule.serves_marked_only:
        yield "a cache entry ends at a marked block: shared tokens before it are not reused by themselves"
    if item.rule.is_stored:
        yield "each prefix is stored by itself: shared tokens are not reused"


def _units(node: SharingNode) -> Iterator[int]:
    """Yields the units of a node and of all nodes below it."""
    yield node.units
    for branch in node.branches:
        yield from _units(branch)


def _node_lines(node: SharingNode, depth: int, width: int, *, fold: bool, is_root: bool = False) -> Iterator[str]:
    """Yields a line for each node, indented by its depth; a root that nothing shares has none.

    Args:
        node: the node.
        depth: how many nodes are above it.
        width: the columns of the greatest number of units.
        fold: whether the variants of a prefix that end below one node share a line.
        is_root: whether it is the root.
    """
    if not is_root or node.units or not node.branches:
        yield f"{'  ' * depth}{node.units:>{width},}  {fold_names(node.names)}"
        depth += 1
    groups: dict[object, list[SharingNode]] = {}
    for index, branch in enumerate(node.branches):
        base = branch.names[0].partition("@")[0]
        groups.setdefault(index if branch.branches or not fold else base, []).append(branch)
    for branches in groups.values():
        if len(branches) == 1:
            yield from _node_lines(branches[0], depth, width, fold=fold)
        else:
            units = number_range(branch.units for branch in branches)
            names = fold_names(name for branch in branches for name in branch.names)
            yield f"{'  ' * depth}{units:>{width}}  in each of {names}"
