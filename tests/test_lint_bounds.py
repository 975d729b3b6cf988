"""Linting takes time in proportion to a text, whatever it repeats: work is counted, not timed."""

from __future__ import annotations

import pytest

from cacheunit_build.adapters.system.secret_scanner import secret_scanner
from cacheunit_build.domain.source_map import SourceLine
from cacheunit_build.lint.prefix_linter import _text_matches
from cacheunit_build.lint.rules.cu1_volatile import _COUNT
from cacheunit_build.lint.rules.cu5_project import unused_templates
from cacheunit_build.lint.segment import Segment
from cacheunit_build.lint.source_locator import SourceTexts
from cacheunit_build.lint.suppressions import parse_suppressions

SIZE = 20_000
HUGE = 300_000
"""Characters of a text for which anything but linear work takes minutes."""
REPEATED = (
    *("a", " ", "1", "[", "<", "-----", "`", "\n", "&", "a.", "a@", "{", "{{", "/home/", "\\u00", "0x", "12:", "2026-"),
    *("123 ", "\U000e0041", "\u200d", "\ufe0f", "\u200b", "2026-11-30 ", "Nov 3, 2026 ", "x.lan ", "10.20.30.40 "),
    *("&amp;", "\x1b", "\u202e", "12:34:56Z ", "1795993363 ", "C:\\Users\\", "```a\n", "::\n\n  a\n", "<example>"),
    *("<!--", "<!-- -->", "---\n", "---\na: b\n", "today is Monday ", "今日は月曜日", "30 Nov 2026 ", "Mon Nov 30 "),
    *(
        "req_8f3a2b1c ",
        "commit: 1a2b3c4 ",
        "On branch main ",
        "1.2-3-g1a2b3c4 ",
        "%TEMP%\\x8fj2 ",
        "3:22 PM ",
        "\uff12\uff10",
    ),
)


@pytest.mark.parametrize("repeated", REPEATED)
def test_a_rule_reports_at_most_five_hundred_matches_of_one_pattern_in_a_text(repeated: str) -> None:
    text = repeated * (SIZE // len(repeated))
    matches = _text_matches(Segment(kind="tool", text=text, tool_line=SourceLine(path="t.yaml", line=1)))
    assert len(matches) <= 500 * 3  # no part of the text is a match of more than three patterns


def test_a_count_of_many_groups_of_digits_is_tried_a_few_times_only() -> None:
    assert _COUNT.search("123 " * 20_000) is None
    assert _COUNT.search("1,234,567 entries") is not None


@pytest.mark.parametrize("repeated", ["{{", "{", "{% include ", "{% set a = '", '{{ "a" '])
def test_template_ends_that_are_missing_are_searched_for_once(repeated: str) -> None:
    text = repeated * (SIZE // len(repeated))
    templates = {
        "templates/a.md": text,
        "templates/b.md": "",
        "templates/c.md": "{{ '%}' }}" + text + "{% set x = 'c.md' %}",
    }
    names = [path for path, _ in unused_templates(templates, ["templates/a.md"], "templates")]
    assert names == ["templates/b.md", "templates/c.md"]


def test_ignore_comments_without_an_end_are_no_comments() -> None:
    text = "{# cacheunit: ignore CU101 " * 10_000
    assert parse_suppressions(text, "a.md") == parse_suppressions("", "a.md")
    many = "{# cacheunit: ignore CU101 #}\n" * 2_000
    assert parse_suppressions(many, "a.md").suppresses("CU101", 2_001)


def test_a_place_is_found_in_a_line_that_repeats_it_very_often() -> None:
    line = "\u200b" * SIZE
    texts = SourceTexts(lambda _: line.encode())
    assert texts.column("a.md", 1, line, (100, 101)) == 101


@pytest.mark.parametrize("repeated", ["`", "```", "<example>", "<example></aexample>", "<!--", "<!-", "---\na:"])
def test_the_parts_of_a_text_that_are_examples_are_found_in_linear_time(repeated: str) -> None:
    text = f"Today is 2026-11-30.\n{repeated * (HUGE // len(repeated))}"
    assert [match.rule.code for match in _text_matches(Segment(kind="system", text=text))] == ["CU102"]


def test_an_example_element_ends_at_the_next_end_of_its_name() -> None:
    text = "<Example a='b'>x<badexamples></example></badexamples><example>y<example></example>z"
    segment = Segment(kind="system", text=text)
    assert [segment.in_example(text.index(mark)) for mark in "xyz"] == [True, True, False]
    assert not segment.in_example(text.index("</bad"))


@pytest.mark.parametrize(
    "repeated",
    [
        *("2026", "0", "1a", "a.", "Nov ", "30. ", "\u73fe\u5728", "\u3007", "today is ", "the current date ", "req_"),
        *("ID: ", "On branch a", "+g", "-1-g", "/home/", "C:\\Users\\a\\", "as of ", "15\u6642", "12:", "1\n"),
        "Your branch and '",
    ],
)
def test_volatile_text_is_searched_for_in_linear_time(repeated: str) -> None:
    text = f"{repeated * (HUGE // len(repeated))}\nToday is 2026-11-30."
    assert [match.rule.code for match in _text_matches(Segment(kind="system", text=text))][-1] == "CU102"


@pytest.mark.parametrize("repeated", ["/", "://", "sk-", "BEGIN PRIVATE KEY"])
def test_secrets_are_searched_for_in_linear_time(repeated: str) -> None:
    scan = secret_scanner()
    assert scan is not None
    token = "gh" + "p_" + "q7rT9zUw2kLmN4pX8vB3cD6fG1hJ5sA0yE2i"
    text = f"{repeated * (HUGE // 6 // len(repeated))} {token} {'x ' * 999}"
    assert {text[start:end] for start, end, _ in scan(text)} == {token}
