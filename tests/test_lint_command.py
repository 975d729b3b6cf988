"""The lint command: what it takes, what it prints in each format, what comments ignore, and its exit codes."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from cacheunit_build.lint.registry import CODES, GROUPS
from cacheunit_build.lint.results import LintResult, Violation
from cacheunit_build.reports.lint import linted_github, linted_markdown, linted_text

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Cacheunit, Project

TEMPLATE = "Built 2026-11-30T03:22:43Z.\nPrices of 2026-11-30, desk@laden.velowerk-muster.de\n"


@pytest.fixture
def shop(project: Project) -> Project:
    """One error, two warnings, on known places."""
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": TEMPLATE})
    return project


def codes(project: Project, *arguments: str) -> list[str]:
    ran = project.run("lint", "--format", "json", *arguments)
    return [finding["code"] for finding in ran.json["findings"]]


# What it takes


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), ["CU101", "CU102", "CU203"]),
        (("--select", "CU102"), ["CU102"]),
        (("--select", "CU102,CU203"), ["CU102", "CU203"]),
        (("--select", "CU102", "--select", "leaks"), ["CU102", "CU203"]),
        (("--select", "cu1xx"), ["CU101", "CU102"]),
        (("--select", "CU1", "--ignore", "CU101"), ["CU102"]),
        (("--select", "CU101", "--ignore", "CU1"), ["CU101"]),
        (("--select", "CU101", "--ignore", "timestamp"), []),
        (("--ignore", "volatile"), ["CU203"]),
        (("--ignore", "CU"), []),
    ],
)
def test_codes_and_groups_are_selected_and_ignored(
    shop: Project, arguments: tuple[str, ...], expected: list[str]
) -> None:
    assert codes(shop, *arguments) == expected


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("CU110", 'did you mean "CU101"?'),
        ("CU9", 'did you mean "CU5"?'),
        ("timestmap", 'did you mean "timestamp"?'),
        ("zzz", '"cacheunit lint --codes" lists them'),
    ],
)
def test_an_unknown_code_is_wrong_input_with_the_nearest_known(shop: Project, word: str, hint: str) -> None:
    ran = shop.run("lint", "--select", word)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f'error: --select: there is no code "{word}"\n\nhint: ')
    assert re.fullmatch(r'did you mean "CU\d(\d\d)?"\?', hint) or ran.err.endswith(f"{hint}\n")


def test_all_unknown_codes_are_told_at_once(shop: Project) -> None:
    ran = shop.run("lint", "--select", "no,nope", "--ignore", "never")
    assert (ran.code, ran.err.count("error: ")) == (2, 3)


def test_names_and_a_target_choose_what_is_linted(shop: Project) -> None:
    shop.write(
        {
            "prefixes/b.yaml": "system: b.md.j2\ntargets: [openai]\nmatrix: {plan: [free, pro]}\n",
            "templates/b.md.j2": "{{ plan }}{% if plan == 'pro' %} 2026-02-02{% endif %}\n",
        }
    )
    assert codes(shop, "a", "--select", "CU102") == ["CU102"]
    assert codes(shop, "b", "--select", "CU102") == ["CU102"]
    assert codes(shop, "b@plan=free", "--select", "CU102") == []
    assert codes(shop, "--target", "openai", "--select", "CU1") == ["CU102"]
    ran = shop.run("lint", "c")
    assert (ran.code, ran.out, ran.err) == (2, "", 'error: no prefix "c" under prefixes/\n')
    assert shop.run("lint", "--target", "nope").code == 2


def test_a_project_that_cannot_be_compiled_is_wrong_input_and_all_its_faults_are_told(shop: Project) -> None:
    shop.write({"prefixes/b.yaml": "system: no.md.j2\n", "prefixes/c.yaml": "sistem: a.md.j2\n"})
    for form in ("text", "json", "sarif"):
        ran = shop.run("lint", "--format", form)
        assert (ran.code, ran.out, ran.err.count("error: ")) == (2, "", 2), ran.err


def test_it_writes_nothing(shop: Project) -> None:
    before = shop.snapshot()
    assert shop.run("lint").code == 1
    assert shop.snapshot() == before


# Exit codes


def test_only_errors_make_the_answer_no(shop: Project) -> None:
    assert shop.run("lint").code == 1
    assert shop.run("lint", "--ignore", "CU101").code == 0
    shop.write({"templates/a.md.j2": "Answer in plain words.\n"})
    ran = shop.run("lint")
    assert (ran.code, ran.out, ran.err) == (0, "ok: nothing was found\n", "")


def test_the_prefixes_of_this_repository_have_no_errors(cacheunit: Cacheunit, pytestconfig: pytest.Config) -> None:
    ran = cacheunit("-C", pytestconfig.rootpath, "lint", "--format", "json")
    assert ran.code == 0, ran.out


# Formats


def test_text_has_a_line_for_each_finding_what_to_do_and_a_summary(shop: Project) -> None:
    ran = shop.run("lint", "--ignore", "leaks")
    assert ran.out == (
        'templates/a.md.j2:1:7: error CU101: "2026-11-30T03:22:43Z" is a date with a time\n'
        'templates/a.md.j2:2:11: warning CU102: "2026-11-30" is a date\n'
        "\n"
        f"CU101  timestamp  {CODES['CU101'].hint}\n"
        f"CU102  date       {CODES['CU102'].hint}\n"
        "\n"
        "1 error, 1 warning, 0 info\n"
    )


def finding(message: str = "found", **other: Any) -> Violation:  # noqa: ANN401
    given: dict[str, Any] = {"code": "CU101", "severity": "error", "prefixes": ("a",), "path": "templates/a.md.j2"}
    given |= {"line": 3, "column": 5, "hint": "do it", "message": message}
    return Violation(**given | other)


def test_text_is_coloured_where_it_is_wanted() -> None:
    linted = LintResult(findings=(finding(), finding(severity="warning"), finding(severity="info")))
    coloured = linted_text(linted, colour=True)
    assert [re.findall(r"\x1b\[([\d;]+)m", line)[:1] for line in coloured.splitlines()[:6:2]] == [
        ["31;1"],
        ["33;1"],
        ["36"],
    ]
    assert "\x1b" not in linted_text(linted, colour=False)


def test_text_says_how_many_prefixes_have_it() -> None:
    assert "found (in 2 prefixes)" in linted_text(LintResult(findings=(finding(prefixes=("a", "b")),)), colour=False)


def test_no_colour_goes_into_a_pipe(shop: Project) -> None:
    assert "\x1b" not in shop.run("lint").out


def test_json_has_the_agreed_keys(shop: Project) -> None:
    (found,) = shop.run("lint", "--select", "CU101", "--format", "json").json["findings"]
    assert found == {
        "code": "CU101",
        "severity": "error",
        "message": '"2026-11-30T03:22:43Z" is a date with a time',
        "prefix": "a",
        "path": "templates/a.md.j2",
        "line": 1,
        "column": 7,
        "hint": CODES["CU101"].hint,
        "prefixes": ["a"],
    }


def test_markdown_is_a_table_and_silent_where_nothing_was_found(shop: Project) -> None:
    ran = shop.run("lint", "--select", "CU101", "--format", "markdown")
    head, rule, row, blank, summary = ran.out.splitlines()
    assert head.count("|") == rule.count("|") == row.count("|") == 6
    assert row.startswith("| error | CU101 | `templates/a.md.j2:1:7` | ")
    assert (blank, summary) == ("", "1 error, 0 warnings, 0 info")
    ran = shop.run("lint", "--ignore", "CU", "--format", "markdown")
    assert (ran.code, ran.out) == (0, "")


def test_markdown_cannot_be_broken_by_what_was_found() -> None:
    linted = LintResult(findings=(finding("<img src=x> a|b\n`c` *d* @team &amp;", path="templates/a|`b.md"),))
    row = linted_markdown(linted).splitlines()[2]
    assert row.replace("\\|", "").count("|") == 6
    for mark in ("<img", "`c", "*d"):
        assert re.findall(rf"(.){re.escape(mark)}", row) == ["\\"]
    assert "@<!-- -->team &amp;amp;" in row


def test_github_annotates_the_source_line(shop: Project) -> None:
    ran = shop.run("lint", "--format", "github")
    first, second, third = ran.out.splitlines()
    assert first == (
        "::error file=templates/a.md.j2,line=1,col=7,title=CU101 timestamp::"
        f'"2026-11-30T03:22:43Z" is a date with a time%0A%0Ahint: {CODES["CU101"].hint}'
    )
    assert second.startswith("::warning file=templates/a.md.j2,line=2,col=11,title=CU102 date::")
    assert third.startswith("::warning file=templates/a.md.j2,line=2,col=")
    assert shop.run("lint", "--ignore", "CU", "--format", "github").out == ""


def test_github_annotations_escape_what_the_runner_unescapes() -> None:
    linted = LintResult(findings=(finding("50 % of a,b: x", path="a,b:c%.md", severity="info"),))
    assert linted_github(linted, "sub/{}".format) == (
        "::notice file=sub/a%2Cb%3Ac%25.md,line=3,col=5,title=CU101 timestamp::50 %25 of a,b: x%0A%0Ahint: do it"
    )


def test_annotations_and_sarif_name_files_from_the_root_of_the_repository(shop: Project) -> None:
    subprocess.run(["git", "init", "-q"], cwd=shop.root.parent, check=True)
    ran = shop.run("lint", "--select", "CU101", "--format", "github")
    assert ran.out.startswith("::error file=project/templates/a.md.j2,line=1,")
    run = shop.run("lint", "--select", "CU101", "--format", "sarif").json["runs"][0]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "project/templates/a.md.j2"


SARIF: dict[str, Any] = {
    "type": "object",
    "required": ["version", "runs", "$schema"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "additionalProperties": False,
                "properties": {
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "originalUriBaseIds": {"type": "object"},
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name", "rules"],
                                "properties": {
                                    "name": {"type": "string"},
                                    "semanticVersion": {"type": "string", "pattern": r"^\d+\.\d+\.\d+"},
                                    "rules": {"type": "array", "uniqueItems": True, "items": {"$ref": "#/$defs/rule"}},
                                },
                            }
                        },
                    },
                    "results": {"type": "array", "items": {"$ref": "#/$defs/result"}},
                },
            },
        },
    },
    "$defs": {
        "message": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}},
        "level": {"enum": ["none", "note", "warning", "error"]},
        "rule": {
            "type": "object",
            "required": ["id"],
            "additionalProperties": False,
            "properties": {
                "id": {"type": "string"},
                "name": {"type": "string"},
                "shortDescription": {"$ref": "#/$defs/message"},
                "help": {"$ref": "#/$defs/message"},
                "defaultConfiguration": {"type": "object", "properties": {"level": {"$ref": "#/$defs/level"}}},
            },
        },
        "result": {
            "type": "object",
            "required": ["message", "ruleId", "ruleIndex", "level", "locations", "partialFingerprints"],
            "additionalProperties": False,
            "properties": {
                "ruleId": {"type": "string"},
                "ruleIndex": {"type": "integer", "minimum": 0},
                "level": {"$ref": "#/$defs/level"},
                "message": {"$ref": "#/$defs/message"},
                "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
                "properties": {"type": "object"},
                "locations": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "required": ["physicalLocation"],
                        "properties": {
                            "physicalLocation": {
                                "type": "object",
                                "required": ["artifactLocation", "region"],
                                "properties": {
                                    "artifactLocation": {
                                        "type": "object",
                                        "required": ["uri"],
                                        "properties": {
                                            "uri": {"type": "string", "pattern": "^[^ /][^ ]*$"},
                                            "uriBaseId": {"type": "string"},
                                        },
                                    },
                                    "region": {
                                        "type": "object",
                                        "required": ["startLine", "startColumn"],
                                        "properties": {
                                            "startLine": {"type": "integer", "minimum": 1},
                                            "startColumn": {"type": "integer", "minimum": 1},
                                        },
                                    },
                                },
                            }
                        },
                    },
                },
            },
        },
    },
}
"""What SARIF 2.1.0 asks of the parts that are used."""


def test_sarif_is_of_the_standard_s_form(shop: Project) -> None:
    shop.write({"templates/b c.md.j2": "lost\n"})
    ran = shop.run("lint", "--format", "sarif")
    assert ran.code == 1
    jsonschema.Draft202012Validator(SARIF).validate(ran.json)
    run = ran.json["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == ["CU101", "CU102", "CU203", "CU502"]
    results = [(result["ruleId"], rules[result["ruleIndex"]], result["level"]) for result in run["results"]]
    assert results == [
        ("CU101", "CU101", "error"),
        ("CU102", "CU102", "warning"),
        ("CU203", "CU203", "warning"),
        ("CU502", "CU502", "warning"),
    ]
    places = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    assert places[0]["region"] == {"startLine": 1, "startColumn": 7}
    assert places[3]["artifactLocation"]["uri"] == "templates/b%20c.md.j2"


def test_sarif_knows_a_finding_again_when_lines_move(shop: Project) -> None:
    def known() -> list[dict[str, str]]:
        run = shop.run("lint", "--format", "sarif").json["runs"][0]
        return [result["partialFingerprints"] for result in run["results"]]

    before = known()
    shop.write({"templates/a.md.j2": f"Hello.\n\n{TEMPLATE}"})
    assert known() == before
    assert len({json.dumps(item) for item in before}) == 3


def test_all_codes_are_listed_without_a_project(cacheunit: Cacheunit, tmp_path: Path) -> None:
    ran = cacheunit("-C", tmp_path, "lint", "--codes")
    assert ran.code == 0
    assert [line.split()[0] for line in ran.out.splitlines()] == list(CODES)
    listed = cacheunit("-C", tmp_path, "lint", "--codes", "--format", "json").json["codes"]
    assert [code["code"] for code in listed] == list(CODES)
    assert cacheunit("-C", tmp_path, "lint", "--codes", "--format", "sarif").code == 2


def test_codes_are_well_formed() -> None:
    names = [code.name for code in CODES.values()]
    assert len(set(names)) == len(names)
    for key, code in CODES.items():
        assert key == code.code
        assert re.fullmatch(r"CU\d\d\d", key)
        assert key[:3] in GROUPS
        assert re.fullmatch(r"[a-z][a-z-]+", code.name)


def test_the_page_lists_every_code_with_its_severity(pytestconfig: pytest.Config) -> None:
    page = (pytestconfig.rootpath / "docs/lint.md").read_text(encoding="utf-8")
    for code in CODES.values():
        assert f"| {code.code} | {code.name} | {code.severity} |" in page


# Comments


@pytest.mark.parametrize(
    "template",
    [
        "Built 2026-11-30T03:22:43Z. {# cacheunit: ignore CU101 #}\n",
        "{# cacheunit: ignore CU101 #}\nBuilt 2026-11-30T03:22:43Z.\n",
        "{#- cacheunit: ignore CU102, CU101 -- our own epoch -#}\nBuilt 2026-11-30T03:22:43Z.\n",
        "{# cacheunit: ignore\n   CU101: the day the shop opened\n#}\nBuilt 2026-11-30T03:22:43Z.\n",
        "{# cacheunit: ignore timestamp #}\nBuilt 2026-11-30T03:22:43Z.\n",
        "Built 2026-11-30T03:22:43Z.\nOn.\n\n{# cacheunit: ignore-file CU1 #}\n",
    ],
)
def test_a_comment_ignores_a_code_on_its_line_the_next_one_or_in_the_file(project: Project, template: str) -> None:
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": template})
    assert codes(project) == []


@pytest.mark.parametrize(
    "template",
    [
        "Built 2026-11-30T03:22:43Z. {# cacheunit: ignore CU102 #}\n",
        "{# cacheunit: ignore CU101 #}\n\nBuilt 2026-11-30T03:22:43Z.\n",
        "Built 2026-11-30T03:22:43Z.\n{# cacheunit: ignore CU101 #}\n",
        "cacheunit: ignore CU101\nBuilt 2026-11-30T03:22:43Z.\n",
    ],
)
def test_a_comment_ignores_nothing_else(project: Project, template: str) -> None:
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": template})
    assert "CU101" in codes(project)


def test_comments_in_manifests_and_data_ignore_too(project: Project) -> None:
    project.write(
        {
            "prefixes/a.yaml": (
                "system: a.md.j2\nvariables:\n  day: 2026-11-30  # cacheunit: ignore CU102\n"
                "  # cacheunit: ignore unused\n  idle: 1\n  other: 1\ndata: {faq: faq.yaml}\n"
            ),
            "templates/a.md.j2": "{{ day }} {{ faq.q }} {{ faq.p }}\n",
            "faq.yaml": "# cacheunit: ignore-file CU203\nq: desk@laden.velowerk-muster.de\np: 2026-11-29\n",
        }
    )
    ran = project.run("lint", "--format", "json")
    assert [(f["code"], f["path"], f["line"]) for f in ran.json["findings"]] == [
        ("CU102", "faq.yaml", 3),
        ("CU501", "prefixes/a.yaml", 6),
    ]


def test_a_file_that_nothing_looks_for_can_say_that_this_is_meant(project: Project) -> None:
    project.write(
        {
            "prefixes/a.yaml": "system: a.md.j2\n",
            "templates/a.md.j2": "A.\n",
            "templates/draft.md.j2": "{# cacheunit: ignore-file CU502 - for next week #}\nDraft.\n",
        }
    )
    assert codes(project) == []


@pytest.mark.parametrize(
    ("comment", "column", "message", "hint"),
    [
        ("{# cacheunit: ignore CU110 #}", 4, 'there is no code "CU110" to ignore', "did you mean "),
        ("{# cacheunit: ignore CU101, dtae #}", 4, 'there is no code "dtae" to ignore', 'did you mean "date"?'),
        ("{# cacheunit: ignore #}", 4, "the comment names no code to ignore", "write: cacheunit: ignore CU101"),
    ],
)
def test_a_comment_that_ignores_no_known_code_is_a_finding(
    project: Project, comment: str, column: int, message: str, hint: str
) -> None:
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": f"One.\nA. {comment}\n"})
    (found,) = project.run("lint", "--format", "json").json["findings"]
    assert (found["code"], found["severity"], found["prefix"]) == ("CU504", "warning", "a")
    assert (found["path"], found["line"], found["column"], found["message"]) == (
        "templates/a.md.j2",
        2,
        column,
        message,
    )
    assert found["hint"].startswith(hint)
