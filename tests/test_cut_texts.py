"""CU506: comments that cut a YAML text are reported, and ordinary comments are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cacheunit_build.parsing.yaml_comments import cut_texts

if TYPE_CHECKING:
    from conftest import Project

CUT = (
    "note: You are helper (issue #12)",
    "note: Mention issue #12 in replies",
    "note: Press the # key to end",
    "note: See [the list # 4] first",
    'note: Say "number # one" twice',
    "note: Use `a # b` here",
    "note: Write to\n  the team (channel #general)\nb: 1",
    "note: Write to\n  channel\n  the #general one\nb: 1",
    "- Ask in #general first\n- b",
    "- - Ask in #general first",
    "a:\n  b:\n    - c: Ask in #general\n",
    "? Ask in #general\n: b",
    "a: [C or C #sharp\n , b]",
    "{a: C or C #sharp\n , b: c}",
    "a: &b Ask in #general",
    "color: #fff",
    "- #general\n- x",
    "a: {b: #fff\n}",
    "a: Ask in\t#general".replace("\t", " "),
    "a: „Taste # drücken“",
)
NOT_CUT = (
    "a: calm  # note",
    "a: calm # note",
    "a: calm #note",
    "port: 8080 # the default (http)",
    "a: calm words # a note",
    "a: ask in  #general",
    "a: C#",
    "a: issue#12 and #13".replace(" #13", "#13"),
    "a: 'issue #12'",
    'a: "issue #12" # x',
    "a: 'issue' #12",
    "a: |\n  issue #12 (see #13)\n  # not a comment",
    "a: >-  # folded\n  issue #12",
    "a: # a list\n  - b",
    "a: #list\n  - b",
    "# note #12\na: b",
    "a: b\n# (see #12)\nc: d",
    "a: (closed) # (open)",
    "a: don't # it's",
    "a: [b, c] # d (e)",
    "a: {b: c} #d",
    "a: *b # c\n".replace("*b", "b"),
    "a: &b c # d\ne: *b #f",
    "a: some words # cacheunit: ignore CU101",
    "a: issue in the # cacheunit: ignore CU101",
    "a: 12 #3",
    "a:\n  # only a comment\nb:\n",
    "",
    "# nothing",
)


@pytest.mark.parametrize("text", CUT)
def test_a_text_that_a_comment_cuts_is_reported(text: str) -> None:
    (cut,) = cut_texts(text, "a.yaml")
    assert text[cut.offset] == "#"
    assert text[cut.offset :].startswith(cut.comment)


@pytest.mark.parametrize("text", NOT_CUT)
def test_an_ordinary_comment_is_not_reported(text: str) -> None:
    assert list(cut_texts(text, "a.yaml")) == []


def test_a_cut_text_is_reported_in_manifests_data_and_tools_but_not_in_templates(project: Project) -> None:
    project.write(
        {
            "prefixes/a.yaml": "system: a.md.j2\ntools: [t.yaml]\ntargets: [openai]\nvariables:\n"
            "  x: 1\n  note: Mention (issue #12)\n  # cacheunit: ignore CU506\n  other: Mention (issue #13)\n"
            "data: {faq: faq.yaml}\n",
            "templates/a.md.j2": "{{ note }} {{ other }} {{ x }} {{ faq }}{% include 'b.yaml' %}\n",
            "templates/b.yaml": "a: 1: 2 #3\n",
            "faq.yaml": "Ask in #general\n",
            "t.yaml": "name: t\ndescription: Press the # key\n",
        }
    )
    ran = project.run("lint", "--select", "cut-text", "--format", "json")
    assert [(item["path"], item["line"], item["column"], item["message"]) for item in ran.json["findings"]] == [
        ("faq.yaml", 1, 8, 'the text ends with "Ask in", and "#general" is a comment'),
        ("prefixes/a.yaml", 6, 24, 'the text ends with "Mention (issue", and "#12)" is a comment'),
        ("t.yaml", 2, 24, 'the text ends with "Press the", and "# key" is a comment'),
    ]
