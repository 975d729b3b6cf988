"""HTML reports: pages that load and run nothing, show text from outside as text, and can be read by everybody."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from importlib import resources
from typing import TYPE_CHECKING

import pytest
from jinja2 import UndefinedError
from test_log import A, B, C, commit_locks, entry, lock, read_history, run_log

from cacheunit_build.reports.html import TableView, _environment, render
from cacheunit_build.reports.line_chart import Line, line_chart
from cacheunit_build.reports.log_page import log_page

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Cacheunit

VOID = {"meta", "link", "path", "polyline", "line"}
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
HOSTILE = "</title></style><script>alert(1)</script> \"'&amp; {{ 7*7 }} \x1b[31m\u202egro\u200b\u00ad"
PAGES = resources.files("cacheunit_build.reports") / "pages"


class Page(HTMLParser):
    """Parses a page, and fails where tags are not closed in order.

    Attributes:
        tags: every tag with its attributes.
        text: everything that is shown.
    """

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes a tag."""
        self.tags.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes a tag without content."""
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Closes the last tag."""
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Notes a text."""
        if self._open and self._open[-1] != "style":
            self.text += data

    def values(self, attribute: str) -> list[str]:
        """Returns all values of an attribute."""
        return [value for _, attributes in self.tags if (value := attributes.get(attribute)) is not None]


@pytest.fixture
def page(cacheunit: Cacheunit, tmp_path: Path) -> str:
    """Returns the page of a history with hostile names and subjects, a removal and a lock in a merge."""
    name = "&amp;'{{x}}"
    versions = [
        lock({name: entry(f"{tokens}", tokens), "gone@x=%3Ci%3E": entry("gone", 5), "same": entry("same", 1)})
        for tokens in (1000, 1300)
    ]
    last = lock({name: entry("last", 2300), "same": entry("same", 1)})
    commit_locks(tmp_path, *versions, b"<<<<<<< HEAD\n", last, subjects=["First", HOSTILE, HOSTILE, "Last"])
    return run_log(cacheunit, tmp_path, "--format", "html").out


def test_a_page_loads_nothing_and_runs_nothing(page: str) -> None:
    parsed = Page(page)
    tags = {tag for tag, _ in parsed.tags}
    assert tags & {"script", "iframe", "object", "embed", "img", "form", "base"} == set()
    assert [value for tag, value in parsed.tags if tag == "meta" and "http-equiv" in value] == [
        {"http-equiv": "Content-Security-Policy", "content": POLICY}
    ]
    assert {name for _, attributes in parsed.tags for name in attributes if name.startswith("on")} == set()
    assert [link for link in parsed.values("href") if not link.startswith("#")] == ["data:,"]
    assert parsed.values("src") == []
    assert "url(" not in page
    assert "@import" not in page


def test_what_names_and_subjects_say_is_text(page: str) -> None:
    text = Page(page).text
    assert "</title></style><script>alert(1)</script> \"'&amp; {{ 7*7 }} \\x1b[31m\\u202egro\\u200b\\xad" in text
    assert "&amp;'{{x}}" in text
    assert [character for character in page if character != "\n" and not character.isprintable()] == []


def test_a_page_shows_charts_tables_and_what_could_not_be_read(page: str) -> None:
    text = Page(page).text
    assert "1,000 → 2,300" in text
    assert "+1,000 in " in text
    assert "removed: gone@x=<i> in " in text
    assert "tokens unchanged: same" in text
    assert "the lock has merge-conflict markers (line 1)" in text
    assert "Table: 3 changes" in text
    assert page.count("<polyline") == 2


def test_a_page_can_be_read_with_a_screen_reader_and_by_keyboard(page: str) -> None:
    parsed = Page(page)
    tags = [tag for tag, _ in parsed.tags]
    assert parsed.tags[0] == ("html", {"lang": "en"})
    assert [tags.count(tag) for tag in ("h1", "main", "header", "footer")] == [1, 1, 1, 1]
    ids = parsed.values("id")
    assert len(ids) == len(set(ids))
    referred = [name for value in parsed.values("aria-labelledby") for name in value.split(" ")]
    assert set(referred) | {link[1:] for link in parsed.values("href") if link.startswith("#")} <= set(ids)
    assert all("aria-label" in value for tag, value in parsed.tags if tag == "div" and value.get("tabindex") == "0")
    assert tags.count("title") == 1 + tags.count("figure")
    assert {value["scope"] for tag, value in parsed.tags if tag == "th"} == {"col"}


def test_equal_histories_are_equal_bytes(page: str, cacheunit: Cacheunit, tmp_path: Path) -> None:
    assert run_log(cacheunit, tmp_path, "--format", "html").out == page
    assert str(tmp_path) not in page
    run_log(cacheunit, tmp_path, "--format", "html", "-o", "log.html")
    assert (tmp_path / "log.html").read_text(encoding="utf-8") == page


def test_variants_are_one_line_and_long_tables_are_cut() -> None:
    locks = [lock({f"a@v={axis}": entry(f"{axis}{count}", count * axis) for axis in (1, 3)}) for count in range(1, 41)]
    text = Page(log_page(read_history(*locks))).text
    assert "blocks, mean of 2 variants: 1…3 → 40…120 tokens" in text
    assert "Table: the last 50 of 80 changes" in text


def test_a_shallow_clone_is_noted_in_the_page() -> None:
    assert "this clone is shallow" in Page(log_page(read_history(A, B, is_shallow=True))).text
    assert "this clone is shallow" not in Page(log_page(read_history(A, B))).text


def test_a_page_of_what_never_changed_has_no_chart() -> None:
    parsed = Page(log_page(read_history(A)))
    assert "tokens unchanged: a" in parsed.text
    assert "figure" not in {tag for tag, _ in parsed.tags}


# The base of all pages


def test_every_page_has_the_base() -> None:
    names = {file.name for file in PAGES.iterdir()}
    assert {"base.html.j2", "parts.html.j2", "log.html.j2"} <= names
    shared = {name for name in names if name.startswith("_")}
    for name in names - shared - {"base.html.j2", "parts.html.j2", "style.css.j2"}:
        source = (PAGES / name).read_text(encoding="utf-8")
        assert source.startswith('{% extends "base.html.j2" %}\n')
    for name in names:
        source = (PAGES / name).read_text(encoding="utf-8")
        assert re.search(r"\|\s*safe|autoescape|Markup|<script", source) is None


def test_a_name_that_a_page_does_not_have_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        render("log.html.j2", object())
    with pytest.raises(UndefinedError):
        _environment().from_string("{{ view.missing }}").render(view=object())


def test_parts_show_texts_as_texts() -> None:
    template = _environment().from_string(
        '{% import "parts.html.j2" as parts %}{{ parts.badge(text, "bad") }}{{ parts.lines([text, "  x"]) }}'
        "{% call parts.details(text) %}{{ text }}{% endcall %}{{ parts.table(table) }}"
    )
    table = TableView(caption="c", header=("a",), rows=[("<u>",)], links={0: "x"})
    parsed = Page(template.render(text="<u>\u202e&", table=table))
    assert parsed.text.count("<u>\\u202e&") == 4
    assert "\n  x\n" in parsed.text
    assert "u" not in {tag for tag, _ in parsed.tags}
    assert ("a", {"href": "#x"}) in parsed.tags


def luminance(colour: str) -> float:
    """Returns the relative luminance of a colour such as #1b1f24, as WCAG 2 defines it."""
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colours_have_the_contrast_of_wcag_aa_in_the_light_in_the_dark_and_on_paper() -> None:
    variable = re.compile(r"--([\w-]+): (#[0-9a-f]{6});")
    css = (PAGES / "style.css.j2").read_text(encoding="utf-8")
    palettes = [dict(variable.findall(rule)) for rule in re.findall(r":root \{(.*?)\}", css, re.DOTALL)]
    assert len(palettes) == 3
    light = palettes[0]
    for palette in (light, palettes[1], light | palettes[2]):
        for name, colour in palette.items():
            if name in ("background", "surface", "border") or name.startswith("tint"):
                continue
            least = 3 if name.startswith("line") else 4.5
            tints = [tint for key, tint in palette.items() if key.startswith("tint") and name in ("text", "muted")]
            for behind in (palette["background"], palette["surface"], *tints):
                lights = sorted((luminance(colour), luminance(behind)))
                assert (lights[1] + 0.05) / (lights[0] + 0.05) >= least, (name, colour, behind)


# Charts


def test_a_chart_has_steps_at_the_changes_and_gaps_where_there_is_no_number() -> None:
    values = [100, 100, 300, None, 200, 200]
    chart = line_chart(id_="c", title="t", description="d", lines=[Line(label="x", values=values)], span=("a", "b"))
    assert chart.ticks == ("300", "250", "200", "150", "100")
    assert chart.lines[0].parts == (
        "0.0,300.0 333.3,300.0 333.3,0.0 500.0,0.0",
        "666.7,150.0 1000.0,150.0",
    )


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([1300], ("1,304", "1,303", "1,302", "1,301", "1,300")),
        ([1003, 2228], ("3,000", "2,500", "2,000", "1,500", "1,000")),
        ([0], ("4", "3", "2", "1", "0")),
        ([], ("4", "3", "2", "1", "0")),
        ([99_999, 3_000_000], ("4,000,000", "3,000,000", "2,000,000", "1,000,000", "0")),
    ],
)
def test_ticks_are_round_numbers_around_the_values(values: list[int], ticks: tuple[str, ...]) -> None:
    lines = [Line(label="x", values=values)]
    assert line_chart(id_="c", title="t", description="d", lines=lines, span=("a", "b")).ticks == ticks


def test_a_long_line_has_a_bounded_number_of_points() -> None:
    lines = [Line(label="x", values=[count % 7 for count in range(10_000)])]
    chart = line_chart(id_="c", title="t", description="d", lines=lines, span=("a", "b"))
    assert len(chart.lines[0].parts[0].split(" ")) <= 500


def test_the_last_version_is_the_end_of_a_line() -> None:
    assert 'points="' in log_page(read_history(A, B, C))
