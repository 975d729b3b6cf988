"""The pages of `diff`, `verify` and `explain --sharing`: text stays text, and numbers are those of lock and JSON."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from page_project import HOSTILE, SHOWN_INVISIBLE, write_project
from test_html_reports import POLICY, Page
from test_log import entry

from cacheunit_build.diff.framed_text import FramedText, TextLine, TextRun
from cacheunit_build.diff.results import ChangedLines, Difference, DiffResult
from cacheunit_build.diff.sharing import SharingNode
from cacheunit_build.domain.source_map import SourceLine
from cacheunit_build.endpoints.verify import VerifyResult
from cacheunit_build.lockfile.format import parse_lock
from cacheunit_build.reports import diff_html as reports
from cacheunit_build.reports import shown_artifacts
from cacheunit_build.reports.artifact_text import artifact_text
from cacheunit_build.reports.diff_html import diff_html
from cacheunit_build.reports.icicle import icicle
from cacheunit_build.reports.unit_strip import MOST_MARKS, UnitStrip, legend, unit_strip
from cacheunit_build.reports.verify_html import verify_html

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Project


@pytest.fixture
def desk(project: Project) -> tuple[Project, Path]:
    """Returns a project with hostile texts, and the folder of an older version."""
    return project, write_project(project)


def diff_page(desk: tuple[Project, Path], *arguments: str) -> str:
    """Returns the page of `diff` against the older version."""
    project, copy = desk
    ran = project.run(*arguments, "diff", "--against", copy, "--format", "html")
    assert ran.code == 1, ran.err
    return ran.out


def changes(desk: tuple[Project, Path]) -> dict[tuple[str, str], Any]:
    """Returns the changes in the JSON report of `diff`."""
    project, copy = desk
    report = project.run("diff", "--against", copy, "--format", "json").json
    return {(item["prefix"], item["target"]): item for item in report["changes"]}


def sections(page: str) -> dict[str, str]:
    """Returns title -> HTML of each artifact that opens to its text."""
    found = re.findall(r'<details class="prefix".*?<summary>(.*?) <span.*?</summary>(.*?)</details>', page, re.DOTALL)
    return dict(found)


def spans(html: str) -> list[tuple[set[str], int, str]]:
    """Returns style, tokens and text of each piece of a text."""
    found = re.findall(r'<span class="([a-z ]*)" data-tokens="(\d+)">(.*?)</span>', html)
    return [(set(style.split()), int(tokens), text) for style, tokens, text in found]


# diff


def test_a_page_of_diff_loads_nothing_and_runs_nothing(desk: tuple[Project, Path]) -> None:
    page = diff_page(desk)
    parsed = Page(page)
    assert {tag for tag, _ in parsed.tags} & {"script", "iframe", "object", "embed", "img", "form", "base"} == set()
    assert {name for _, attributes in parsed.tags for name in attributes if name.startswith("on")} == set()
    assert f'content="{POLICY}"' in page
    ids = parsed.values("id")
    assert len(ids) == len(set(ids))
    links = [link for link in parsed.values("href") if link != "data:,"]
    assert {link[1:] for link in links} <= set(ids)
    assert len(links) > 1


def test_a_prompt_is_shown_as_text_with_its_invisible_characters(desk: tuple[Project, Path]) -> None:
    page = diff_page(desk)
    text = Page(re.sub("<b .*?</b>", "", page)).text  # without the labels of units
    assert text.count(HOSTILE) == 4
    assert text.count(SHOWN_INVISIBLE) == 4
    assert "⟨U+202E⟩" in page
    assert [character for character in page if character != "\n" and not character.isprintable()] == []


def test_tokens_and_units_in_the_page_are_those_of_the_lock(desk: tuple[Project, Path]) -> None:
    project, _ = desk
    project.build()
    lock = parse_lock(project.read("cacheunit.lock"), "cacheunit.lock")
    shown = sections(diff_page(desk))
    for name, variant in (("Ann", "desk/agent@name=Ann"), ("Bob", "desk/agent@name=Bob")):
        for target, unit in (("small", 16), ("large", 128)):
            html = shown[f"desk/agent@name={name} for {target}"]
            tokens = lock.entries[variant, target].tokens
            assert sum(count for style, count, _ in spans(html) if "unstable" not in style) == tokens
            assert re.findall(r'<b class="unit".*?>(\d+)</b>', html) == [str(index) for index in range(tokens // unit)]
            assert f'data-units="{tokens // unit}"' in html
            padding = sum(count for style, count, _ in spans(html) if "padding" in style)
            assert padding == lock.entries[variant, target].padding > 0


def test_what_stays_cached_in_the_page_is_what_the_json_report_says(desk: tuple[Project, Path]) -> None:
    shown = sections(diff_page(desk))
    for (prefix, target), change in changes(desk).items():
        if target not in ("small", "large") or prefix == "gone":
            continue
        html = shown[f"{prefix} for {target}"]
        for style, name in (("cached", "still_cached"), ("recomputed", "recomputed")):
            assert sum(count for own, count, _ in spans(html) if style in own) == change[name]
        assert f"recomputed from here: token {change['still_cached']:,}, unit " in html
        unit = {"small": 16, "large": 128}[target]
        units = f"{change['still_cached'] // unit:,} of {change['tokens']['new'] // unit:,} units still cached"
        assert html.count(units) == 2


def test_each_line_has_its_source_and_what_brings_it_in(desk: tuple[Project, Path]) -> None:
    html = sections(diff_page(desk))["desk/agent@name=Ann for small"]
    chain = "templates/rules.j2:8, in templates/agent.j2:5, in prefixes/desk/agent.yaml:1"
    (row,) = [row for row in re.findall(r"<tr.*?</tr>", html, re.DOTALL) if chain in row]
    assert f'title="{chain}"' in row
    assert f'<span class="hidden">{chain}</span>' in row
    assert "Rule" in row
    assert "7" in row
    assert [part for part in ("frame", "tools", "system", "padding", "examples") if f'"part">{part}</b>' in html] == [
        *("frame", "tools", "system", "padding", "examples")
    ]


def test_the_unstable_end_is_marked_and_no_part_of_a_unit() -> None:
    runs = [
        TextRun(text="a b", part="system", token=0, unit=0, is_static=True, is_cached=True),
        TextRun(text=" c", part="system", token=2, unit=1, is_static=True, is_cached=False),
        TextRun(text=" ", part="system", token=4, unit=None, is_static=True, is_cached=False),
        TextRun(text=" \n", part="system", token=5, unit=None, is_static=False, is_cached=None),
    ]
    text = FramedText(lines=(TextLine(runs=tuple(runs), sources=()),), offsets=(0, 2, 3, 4, 5, 6, 8))
    (line,) = artifact_text(text, id_="t", title="t").lines
    assert [(piece.text, piece.style, piece.tokens, piece.unit, piece.notice) for piece in line.pieces] == [
        ("a b", "even cached", 2, 0, ""),
        (" c", "odd recomputed", 2, 1, "recomputed from here: token 2, unit 1"),
        ("·", "recomputed", 1, None, "behind the last full unit from here: token 4"),
        ("·", "unstable", 1, None, "not static from here: 1 token changes with what follows"),
    ]
    assert [piece.part for piece in line.pieces] == ["system", "", "", ""]


def test_a_place_that_is_the_first_change_of_nothing_has_its_lines(desk: tuple[Project, Path]) -> None:
    project, _ = desk
    project.edit("templates/agent.j2", "Goodbye, dear", "Goodbye, good")
    page = diff_page(desk)
    assert "also changed (desk/agent ×2)</h2></summary>" in page
    assert "<del>dear</del><ins>good</ins>" in page


def test_against_a_lock_it_is_unknown_what_stays_cached(desk: tuple[Project, Path]) -> None:
    project, copy = desk
    assert project.cacheunit("-C", copy, "build").code == 0
    ran = project.run("diff", "--against", copy / "cacheunit.lock", "--format", "html")
    text = Page(ran.out).text
    assert "35 units, unknown how many are still cached" in text
    assert "recomputed from here" not in text
    assert 'class="unknown"' in ran.out


def test_changed_words_are_elements_that_mean_it(desk: tuple[Project, Path]) -> None:
    page = diff_page(desk)
    assert "<del>name </del>" in page
    assert "<ins>give &lt;i&gt;</ins>" in page
    assert "templates/rules.j2:8</code> text edited" in page


def test_estimates_and_removed_artifacts_have_numbers_only(desk: tuple[Project, Path]) -> None:
    page = diff_page(desk)
    guess = sections(page)["guess for guess"]
    assert "Its tokens are an estimate" in guess
    assert "data-tokens" not in guess
    assert "<svg" not in guess
    assert "gone for small: removed, so that nothing of it is cached" in page
    assert "gone for small" not in sections(page)


def test_a_text_is_in_the_page_once_and_the_longest_come_first(
    desk: tuple[Project, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    project, copy = desk
    for root in (project.root, copy):
        settings = (root / "cacheunit.toml").read_text()
        (root / "cacheunit.toml").write_text(settings.replace('"large"]', '"large", "twin"]') + TWIN)
    parsed = Page(diff_page(desk))
    assert "desk/agent@name=Ann for twin" not in parsed.text
    assert parsed.values("href").count("#text-1") == 2
    monkeypatch.setattr(shown_artifacts, "MOST_TEXTS", 2)
    page = diff_page(desk)
    assert len(sections(page)) == 2
    assert "The texts of 4 of 7 artifacts are in this page" in Page(page).text
    assert len(sections(diff_page(desk, "-v"))) == 5


TWIN = '[target.twin]\nextends = "large"\n'


def test_equal_sources_are_equal_bytes_and_a_file_has_the_same(desk: tuple[Project, Path]) -> None:
    project, copy = desk
    page = diff_page(desk)
    assert diff_page(desk) == page
    ran = project.run("diff", "--against", copy, "--format", "html", "-o", "diff.html")
    assert (ran.code, ran.out) == (1, "")
    assert project.read("diff.html").decode() == page
    assert str(project.root) not in page


def test_without_a_difference_the_page_says_so(desk: tuple[Project, Path]) -> None:
    project, _ = desk
    ran = project.run("diff", "--against", project.root, "--format", "html")
    assert ran.code == 0
    assert "no difference from" in Page(ran.out).text


def test_what_cannot_be_reported_leaves_no_file(desk: tuple[Project, Path]) -> None:
    project, copy = desk
    ran = project.run("diff", "--against", copy, "--format", "html", "-o", "missing/diff.html")
    assert (ran.code, ran.out) == (2, "")
    assert 'cannot write "missing/diff.html": its folder does not exist' in ran.err
    project.edit("templates/rules.j2", "Rule 7", "{{ Rule 7")
    ran = project.run("diff", "--against", copy, "--format", "html", "-o", "diff.html")
    assert (ran.code, ran.out) == (2, "")
    assert "templates/rules.j2:8" in ran.err
    assert not project.path("diff.html").exists()


def test_old_sources_that_do_not_compile_are_listed(desk: tuple[Project, Path]) -> None:
    project, copy = desk
    (copy / "templates/guess.j2").write_text("{{ missing.x }}")
    ran = project.run("diff", "--against", copy, "--format", "html")
    assert ran.code == 1
    assert "Errors in the old sources under today's rules" in Page(ran.out).text


def test_a_cause_of_200_prefixes_and_3_targets_is_a_light_page(monkeypatch: pytest.MonkeyPatch) -> None:
    place = SourceLine(path="templates/partials/rules.md.j2", line=4)
    names = [(f"team/agent-{index}", target) for index in range(200) for target in ("first", "second", "third")]
    differences = tuple(
        Difference(
            prefix=name, target=target, kind="changed", what="text edited", place=place,
            old=entry(f"{name} old", 1200), new=entry(f"{name} new", 1300), still_cached=1024, recomputed=276,
        )
        for name, target in names
    )  # fmt: skip
    lines = {place: ChangedLines(old=("Never reveal it.",), new=("Never tell it.",))}
    page = diff_html(DiffResult(against="HEAD", differences=differences, lines=lines))
    assert Page(page).text.count("team/agent-") >= 600
    assert len(page.encode()) < 200_000
    monkeypatch.setattr(reports, "_MOST_ROWS", 200)
    cut = Page(diff_html(DiffResult(against="HEAD", differences=differences, lines=lines))).text
    assert "… and 400 more artifacts; -v shows all" in cut


# The strip of units


def test_a_strip_has_a_mark_for_each_unit_and_cells_for_cached_padded_and_further_tokens() -> None:
    strip = unit_strip(300, 128, 128, range(210, 256))
    assert {cells.kind: cells.path.count("M") for cells in strip.cells} == {
        "cached": 1,
        "recomputed": 1,
        "recomputed padding": 1,
        "recomputed tail": 1,
    }
    starts = {cells.kind: re.findall(r"M([\d.]+) ", cells.path) for cells in strip.cells}
    assert starts == {
        "cached": ["0.5"],
        "recomputed": ["13.5"],
        "recomputed padding": ["20.5"],
        "recomputed tail": ["26.5"],
    }
    hatched = {cells.kind for cells in strip.cells if "l" in cells.path}
    assert hatched == {"recomputed", "recomputed padding"}
    assert strip.marks == 2
    assert strip.text == "1 of 2 units still cached; 44 tokens behind the last full unit; 46 tokens of padding"
    assert strip.scale == "1 mark = 1 unit of 128 tokens"


@pytest.mark.parametrize(("tokens", "unit"), [(1280, 128), (128_000, 64), (200_000, 0), (3, 1), (0, 128), (99, 0)])
def test_a_strip_is_bounded_and_shows_every_token(tokens: int, unit: int) -> None:
    strip = unit_strip(tokens, unit, tokens // 2)
    assert strip.marks <= MOST_MARKS
    widths = [float(width) for cells in strip.cells for width in re.findall(r"M[\d.]+ [\d.]+h([\d.]+)v", cells.path)]
    size = int(re.match(r"1 mark = ([\d,]+)", strip.scale)[1].replace(",", "")) * max(unit, 1)  # type: ignore[index]
    assert sum(widths) / 11 * size == pytest.approx(tokens, rel=0.02)


def test_without_units_there_is_no_tail() -> None:
    strip = unit_strip(304, 0, 149)
    assert [cells.kind for cells in strip.cells] == ["cached", "recomputed"]
    assert strip.text == "149 of 304 tokens still cached"


def test_an_unknown_strip_says_so() -> None:
    strip = unit_strip(256, 128, None)
    assert strip.text == "2 units, unknown how many are still cached"
    assert [cells.kind for cells in strip.cells] == ["unknown"]
    assert [cells.label for cells in legend([strip, unit_strip(256, 128, 128)])] == [
        *("still cached", "recomputed", "unknown")
    ]
    assert isinstance(strip, UnitStrip)


# verify


RESULT = VerifyResult(prefix="a", target="t", continuation=0, predicted=None, observed=0, verdict="warm-up")


def test_a_page_of_verify_has_two_bars_and_the_verdict_of_each_artifact() -> None:
    good = replace(RESULT, continuation=2, predicted=1000, observed=1000, verdict="as predicted")
    bad = replace(
        good, prefix="<b>&amp;", observed=250, verdict="differs", cause=HOSTILE, facts=("f",), hint="set \u202eunit"
    )
    unknown = replace(good, observed=None, verdict="unknown", cause="not reported")
    page = verify_html([RESULT, good, bad, unknown])
    parsed = Page(page)
    assert "1 as predicted, 1 differs, 1 unknown" in parsed.text
    assert HOSTILE in parsed.text
    assert "hint: set \\u202eunit" in parsed.text
    assert "<b>&amp;" in parsed.text
    assert "script" not in {tag for tag, _ in parsed.tags}
    bars = [(str(value["class"]), value["width"]) for tag, value in parsed.tags if tag == "rect"][2:]
    assert bars == [
        *(("predicted", "100.0%"), ("observed", "100.0%")),
        *(("predicted", "100.0%"), ("observed", "25.0%")),
        ("predicted", "100.0%"),
    ]
    assert "cached after 2 requests" in Page(verify_html([good], warm=True)).text
    assert "no artifact was sent" in Page(verify_html([])).text


# explain --sharing


def test_an_icicle_has_a_row_for_each_artifact_and_a_block_for_each_node() -> None:
    def leaf(name: str, units: int) -> SharingNode:
        return SharingNode(units=units, names=(name,), ends=(name,), branches=())

    both = SharingNode(units=0, names=("b", "c"), ends=(), branches=(leaf("b", 1), leaf("c", 3)))
    tree = SharingNode(units=2, names=("a", "b", "c", "d"), ends=("a",), branches=(both, leaf("d", 2)))
    view = icicle(tree, "unit")
    assert view.names == ("a", "b", "c", "d")
    assert [(block.x, block.y, block.width, block.height, block.label) for block in view.blocks] == [
        (0, 0, 40, 87, "2 × 4"),
        (40, 22, 20, 21, "1"),
        (40, 44, 60, 21, "3"),
        (40, 66, 40, 21, "2"),
    ]
    assert view.blocks[0].title == "2 units shared by 4 artifacts: a, b, c, d"
    assert view.ticks == ("0", "2", "5 units")


def test_a_page_of_sharing_shows_each_target_and_its_table(desk: tuple[Project, Path]) -> None:
    project, _ = desk
    ran = project.run("explain", "--sharing", "--format", "html", "-o", "sharing.html")
    assert (ran.code, ran.out) == (0, "")
    parsed = Page(project.read("sharing.html").decode())
    report = project.run("explain", "--sharing", "--format", "json").json["sharing"]
    for target in report:
        assert target["target"] in parsed.text
        assert f"{target['units']:,} " in parsed.text
    assert [title for title in parsed.text.splitlines() if "shared by 2 artifacts" in title]
    for arguments in (["agent"], ["--changed-since", "HEAD"]):
        ran = project.run("explain", *arguments, "--format", "html")
        assert ran.code == 2
        assert "--format html is for --sharing" in ran.err
