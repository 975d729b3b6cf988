"""The layout of reports: they fit a width, nothing is lost, and artifacts are folded to few rows."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheunit_build.domain.escaping import one_line, output_line
from cacheunit_build.reports.folding import fold, fold_names, fold_targets, number_range
from cacheunit_build.reports.layout import Table, Verbatim, layout, plain_text, text_width, wrap

if TYPE_CHECKING:
    from conftest import Project

words = st.text(st.characters(codec="utf-8"), max_size=200)
numbers = st.integers(0, 10**9).map(lambda number: f"{number:,}")


@given(words, st.integers(20, 120))
def test_a_paragraph_fits_the_width_and_keeps_its_characters(text: str, width: int) -> None:
    lines = layout([[text]], width)
    assert all(text_width(line) <= width for line in lines)
    assert re.sub(r"\s|\\\\x3a|:", "", "".join(lines)) == re.sub(r"\s|\\\\x3a|:", "", output_line(text))


@given(st.lists(st.tuples(words, numbers, words), min_size=1, max_size=6), st.integers(30, 200))
def test_a_table_fits_the_width_and_keeps_its_numbers_whole(rows: list[tuple[str, str, str]], width: int) -> None:
    lines = layout([Table(header=("name", "one-time cost", "why"), rows=rows, right=(1,))], width)
    assert all(text_width(line) <= width for line in lines)
    for name, number, why in rows:
        assert any(number in line for line in lines)
        assert Counter(one_line(name) + one_line(why)) - Counter(" ") <= Counter("".join(lines))


@given(words, st.integers(20, 60))
def test_no_line_of_a_wrapped_text_is_a_command_of_a_log(text: str, width: int) -> None:
    lines = layout([[f"{text}::error::x"], Table(rows=[(f"{text} ::set-output x", "y")])], width)
    assert not any(line.lstrip().startswith("::") or "##[" in line for line in lines)


def test_words_are_kept_together_and_later_lines_are_indented() -> None:
    assert wrap("  one two three four", 12) == ["  one two", "    three", "    four"]
    assert wrap("see templates/partials/secrets.md.j2:4", 24) == ["see templates/partials/", "  secrets.md.j2:4"]
    assert wrap("short", 40) == ["short"]


def test_the_widest_text_column_of_a_table_wraps_first() -> None:
    rows = [("support/agent", "1,280", "a rather long explanation of the plan"), ("review", "12", "short")]
    assert layout([Table(header=("prefix", "tokens", "plan"), rows=rows, right=(1,))], 48) == [
        "prefix         tokens  plan",
        "support/agent   1,280  a rather long explanation",
        "                         of the plan",
        "review             12  short",
    ]


def test_the_header_of_a_number_wraps_and_the_number_does_not() -> None:
    table = Table(header=("prefix", "cost per 1M requests"), rows=[("a" * 30, "1,234,567")], right=(1,))
    assert layout([table], 44) == [
        "prefix                           cost per 1M",
        "                                    requests",
        f"{'a' * 30}     1,234,567",
    ]


def test_a_table_that_is_too_narrow_for_its_numbers_has_a_paragraph_for_each_row() -> None:
    header = ("prefix", "tokens", "still cached", "recomputed")
    table = Table(header=header, rows=[("a", "1,000,000", "900,000", "100,000"), ("b", "1", "", "1")], right=(1, 2, 3))
    assert layout([table], 30) == [
        "a",
        "  tokens 1,000,000, still",
        "    cached 900,000, recomputed",
        "    100,000",
        "b",
        "  tokens 1, recomputed 1",
    ]


def test_a_note_stands_below_its_row() -> None:
    table = Table(rows=[("a", "1"), ("b", "2")], right=(1,), notes={0: "why a is so"}, indent=2)
    assert layout([table], 40) == ["  a  1", "    why a is so", "  b  2"]


def test_lines_of_a_text_diff_do_not_wrap() -> None:
    assert layout([Verbatim([f"+{'x' * 200}"])], 40) == [f"+{'x' * 200}"]


def test_empty_blocks_are_left_out() -> None:
    assert plain_text([[], ["a"], Table(rows=[]), [""], ["b"]]) == "a\n\nb"


def test_wide_characters_count_twice() -> None:
    assert layout([Table(rows=[("日本語", "x"), ("abcdef", "y")])], 40) == ["日本語  x", "abcdef  y"]


def test_variants_are_counted_behind_the_name_of_their_prefix() -> None:
    assert fold_names(["a", "b@x=1", "b@x=2", "a", "c@z=1"]) == "a, b ×2, c@z=1"
    assert fold_names(f"p{number}" for number in range(10)) == "p0, p1, p2, p3, p4, p5, p6, p7 and 2 more"


def test_many_targets_are_counted() -> None:
    assert fold_targets(["a", "b", "a"]) == "a, b"
    assert fold_targets(["a", "b", "c"]) == "3 targets"


def test_a_range_has_the_least_and_the_greatest_number() -> None:
    assert number_range([1024, 1408, 1280]) == "1,024…1,408"
    assert number_range([1024, 1024], estimated=True) == "~1,024"
    assert number_range([None, 5]) == "5 or ?"
    assert number_range([None]) == "?"
    assert number_range([]) == ""


@pytest.mark.parametrize(
    ("names", "targets", "rows"),
    [
        (["a@x=1", "a@x=2", "b"], 2, [("a ×2", "t0"), ("b", "t0"), ("a ×2", "t1"), ("b", "t1")]),
        ([f"p{number}" for number in range(9)], 3, [(f"p{number}", "3 targets") for number in range(9)]),
        ([f"x/p{number}" for number in range(30)] + ["y/q"], 1, [("x/ (30 prefixes)", "t0"), ("y/q", "t0")]),
        ([f"x/f{number}/p" for number in range(30)] + ["y/q"], 1, [("x/ (30 prefixes)", "t0"), ("y/q", "t0")]),
        ([f"f{number}/p" for number in range(30)], 3, [("30 prefixes", "3 targets")]),
    ],
)
def test_artifacts_are_folded_until_they_fit(names: list[str], targets: int, rows: list[tuple[str, str]]) -> None:
    keys = [(name, f"t{number}") for number in range(targets) for name in names]
    groups = fold(keys)
    assert [(group.name, group.target) for group in groups] == rows
    assert sorted(key for group in groups for key in group.keys) == sorted(keys)


@pytest.fixture
def library(project: Project) -> Project:
    """Returns a built project of 200 prefixes in two folders, half of them with variants, for three targets."""
    small = '[target.{}]\nextends = "deepseek-v4"\ncache = {{ unit = {} }}\n'
    settings = (
        'targets = ["deepseek-v4", "small", "smaller"]\n' + small.format("small", 16) + small.format("smaller", 8)
    )
    files = {"cacheunit.toml": settings, "templates/partials/rules.j2": "Never guess.\n"}
    text = "You are agent {{ name }}. {% include 'partials/rules.j2' %}"
    files["templates/agent.j2"] = text
    for number in range(200):
        matrix = "matrix: {tone: [calm, loud]}\n" if number % 2 else ""
        folder = "desk" if number < 100 else "shop"
        files[f"prefixes/{folder}/p{number:03}.yaml"] = f"system: agent.j2\nvariables: {{name: n{number}}}\n{matrix}"
    project.write(files)
    project.build()
    return project


@pytest.mark.slow
@pytest.mark.parametrize("columns", [80, 100, 200])
def test_a_change_of_one_partial_in_600_artifacts_fits_one_screen(
    library: Project, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    library.edit("templates/partials/rules.j2", "Never", "Do not")
    checked, built = library.run("check"), library.run("build")
    assert (checked.code, built.code) == (1, 0)
    for ran in (checked, built):
        lines = ran.out.splitlines()
        assert len(lines) <= 40
        assert max(map(len, lines)) <= columns
    assert "900 differences" in checked.out
    assert "900 built" in built.out
    assert len(library.run("build", "-v").out.splitlines()) > 900
    assert len(library.run("build", "--format", "json").json["artifacts"]) == 900


def test_faults_of_one_cause_are_one_with_the_other_artifacts(project: Project) -> None:
    project.write(
        {
            "prefixes/a.yaml": "system: a.j2\nbudget: 3\nmatrix: {tone: [calm, loud, very loud]}\n",
            "templates/a.j2": "You are {{ tone }}, and that is all that you are.\n",
        }
    )
    ran = project.run("build")
    (error,) = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    assert error.startswith("error: prefixes/a.yaml:2: a@tone=calm for deepseek-v4: ")
    assert error.endswith(" over the budget of 3 (and 2 more like it: a ×2 for deepseek-v4)")
    assert "3 errors; nothing was written" in ran.err
    assert len(project.run("build", "--format", "json").json["errors"]) == 3


@pytest.mark.parametrize("width", range(16, 60))
@pytest.mark.parametrize(
    "line",
    [
        '    {"name":"find","kind":"[-code-]{+text_or_code+}","limit":30}',
        "    Answer [-in two lines-]{+in one line+} at most.",
    ],
)
def test_marked_words_of_a_diff_are_not_broken_where_they_fit_a_line(line: str, width: int) -> None:
    lines = wrap(line, width)
    for mark in re.findall(r"\[-.*?-\]|\{\+.*?\+\}", line):
        if len(mark) <= width - 6:
            assert any(mark in shown for shown in lines), lines
    assert all(len(shown) <= width for shown in lines)
    assert "".join(lines).replace(" ", "") == line.replace(" ", "")
