"""The shared heads of each target's artifacts -> text and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cacheunit_build.reports.names import names_together

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cacheunit_build.diff.sharing import Family
    from cacheunit_build.diff.sharing_tree import Branch


def families_data(families: Sequence[Family]) -> dict[str, Any]:
    """The report of `explain --family`."""
    return {
        "families": [
            {
                "target": family.target,
                "kind": family.rule.kind,
                "counted": "estimate" if family.margin else "exact",
                "unit": family.unit,
                "units": family.units,
                "unique": family.tree.unique,
                "tree": _branch_data(family.tree),
                "sections": [
                    {
                        "path": section.path,
                        "prefixes": list(section.names),
                        "tokens": section.tokens,
                        "units_saved": section.units,
                    }
                    for section in family.sections
                ],
            }
            for family in families
        ]
    }


def _branch_data(branch: Branch) -> dict[str, Any]:
    return {
        "units": branch.units,
        "prefixes": list(branch.names),
        "ends": list(branch.ends),
        "branches": [_branch_data(below) for below in branch.branches],
    }


def families_text(families: Sequence[Family]) -> str:
    """The tree of each target: units from the front, and who has them."""
    return "\n\n".join("\n".join(_family_lines(family)) for family in families)


def _family_lines(family: Family) -> Iterator[str]:
    count, noun = len(family.tree.names), _noun(family)
    about = "about " if family.margin else ""
    unique = family.tree.unique
    saved = f", {1 - unique / family.units:.0%} shared" if family.units else ""
    artifacts = f"{count:,} artifact{'' if count == 1 else 's'}"
    yield f"{family.target}: {artifacts}, {about}{family.units:,} {noun}, {unique:,} of them different{saved}"
    if family.rule.kind == "breakpoints":
        yield "  a cache entry ends at a marked block: shared tokens before it are not reused by themselves"
    yield ""
    width = len(f"{max(_widths(family.tree)):,}")
    yield from _branch_lines(family.tree, 0, width, top=True)
    gaining = [section for section in family.sections if section.units > 0]
    yield from ("", "a shared section would save, if it stood at the front of all that have it:") if gaining else ()
    for section in gaining:
        saved = f"{section.units:,} {noun} of {names_together(section.names)}"
        yield f"  {section.path} ({section.tokens:,} tokens): {saved}"


def _noun(family: Family) -> str:
    return f"units of {family.unit:,}" if family.unit > 1 else "tokens"


def _widths(branch: Branch) -> Iterator[int]:
    yield branch.units
    for below in branch.branches:
        yield from _widths(below)


def _branch_lines(branch: Branch, depth: int, width: int, *, top: bool = False) -> Iterator[str]:
    """A line a branch, those below it further in; a root that nothing shares is no line."""
    if not top or branch.units or not branch.branches:
        yield f"{'  ' * depth}{branch.units:>{width},}  {names_together(branch.names)}"
        depth += 1
    for below in branch.branches:
        yield from _branch_lines(below, depth, width)
