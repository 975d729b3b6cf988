"""The lint command: options, output formats, exit codes, and comments that suppress rules."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from cacheunit_build.lint.registry import FORMER_NAMES, GROUPS, RULES, select_rules
from cacheunit_build.lint.results import LintResult, Violation
from cacheunit_build.lint.suppressions import parse_suppressions
from cacheunit_build.reports.layout import plain_text
from cacheunit_build.reports.lint import lint_blocks, lint_github, lint_markdown

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Cacheunit, Project

TEMPLATE = "Built 2026-11-30T03:22:43Z.\nPrices of 2026-11-30, desk@laden.velowerk-muster.de\n"


@pytest.fixture
def shop(project: Project) -> Project:
    """A project with one error and two warnings at known locations."""
    project.write({"prefixes/a.yaml": "system: a.md.j2\npadding: always\n", "templates/a.md.j2": TEMPLATE})
    return project


def lint_codes(project: Project, *arguments: str) -> list[str]:
    ran = project.run("lint", "--format", "json", *arguments)
    return [violation["code"] for violation in ran.json["findings"]]


# Options


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
def test_rules_and_groups_are_selected_and_ignored(
    shop: Project, arguments: tuple[str, ...], expected: list[str]
) -> None:
    assert lint_codes(shop, *arguments) == expected


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("CU110", 'did you mean "CU101"?'),
        ("CU9", 'did you mean "CU5"?'),
        ("timestmap", 'did you mean "timestamp"?'),
        ("zzz", 'run "cacheunit lint --codes" to list all rules'),
    ],
)
def test_an_unknown_rule_is_wrong_input_and_the_hint_names_a_similar_one(shop: Project, word: str, hint: str) -> None:
    ran = shop.run("lint", "--select", word)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f'error: --select: unknown rule "{word}"\n\nhint: ')
    assert re.fullmatch(r'did you mean "CU\d(\d\d)?"\?', hint) or ran.err.endswith(f"{hint}\n")


def test_all_unknown_rules_are_reported_at_once(shop: Project) -> None:
    ran = shop.run("lint", "--select", "no,nope", "--ignore", "never")
    assert (ran.code, ran.err.count("error: ")) == (2, 3)


def test_names_and_a_target_select_what_is_linted(shop: Project) -> None:
    shop.write(
        {
            "prefixes/b.yaml": "system: b.md.j2\ntargets: [openai]\nmatrix: {plan: [free, pro]}\n",
            "templates/b.md.j2": "{{ plan }}{% if plan == 'pro' %} 2026-02-02{% endif %}\n",
        }
    )
    assert lint_codes(shop, "a", "--select", "CU102") == ["CU102"]
    assert lint_codes(shop, "b", "--select", "CU102") == ["CU102"]
    assert lint_codes(shop, "b@plan=free", "--select", "CU102") == []
    assert lint_codes(shop, "--target", "openai", "--select", "CU1") == ["CU102"]
    ran = shop.run("lint", "c")
    assert (ran.code, ran.out, ran.err) == (2, "", 'error: no prefix "c" under prefixes/\n')
    assert shop.run("lint", "--target", "nope").code == 2


def test_all_faults_are_reported_where_a_project_does_not_compile(shop: Project) -> None:
    shop.write({"prefixes/b.yaml": "system: no.md.j2\n", "prefixes/c.yaml": "sistem: a.md.j2\n"})
    ran = shop.run("lint")
    assert (ran.code, ran.out, ran.err.count("error: ")) == (2, "", 2), ran.err
    assert len(shop.run("lint", "--format", "json").json["errors"]) == 2


def test_lint_writes_nothing(shop: Project) -> None:
    before = shop.snapshot()
    assert shop.run("lint").code == 1
    assert shop.snapshot() == before


# Exit codes


def test_only_errors_change_the_exit_code(shop: Project) -> None:
    assert shop.run("lint").code == 1
    assert shop.run("lint", "--ignore", "CU101").code == 0
    shop.write({"templates/a.md.j2": "Answer in plain words.\n"})
    ran = shop.run("lint")
    assert (ran.code, ran.out, ran.err) == (0, "ok: no violations\n", "")


def test_the_prefixes_of_this_repository_have_no_errors(cacheunit: Cacheunit, pytestconfig: pytest.Config) -> None:
    ran = cacheunit("-C", pytestconfig.rootpath, "lint", "--format", "json")
    assert ran.code == 0, ran.out


# Settings


def test_strict_fails_for_warnings_and_not_for_info(shop: Project) -> None:
    assert shop.run("lint", "--strict", "--ignore", "CU101").code == 1
    assert shop.run("lint", "--strict", "--ignore", "CU101,CU102,CU203").code == 0
    shop.write({"templates/a.md.j2": "For example: 2026-11-30\n"})
    ran = shop.run("lint", "--strict")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "0 errors, 0 warnings, 1 info")


def test_settings_make_lint_strict_and_the_command_line_wins(shop: Project) -> None:
    shop.write({"cacheunit.toml": "[lint]\nstrict = true\n"})
    assert shop.run("lint", "--select", "CU102").code == 1
    assert shop.run("lint", "--select", "CU102", "--no-strict").code == 0


@pytest.mark.parametrize(
    ("settings", "arguments", "expected"),
    [
        ('select = ["CU1"]', (), ["CU101", "CU102"]),
        ('select = ["volatile"]\nignore = ["date"]', (), ["CU101"]),
        ('select = ["CU1"]', ("--select", "CU2"), ["CU203"]),
        ('select = ["CU101"]', ("--ignore", "CU1"), []),
        ('ignore = ["CU102"]', ("--ignore", "CU203"), ["CU101"]),
        ('ignore = ["CU102"]', ("--select", "CU102"), ["CU102"]),
        ('ignore = ["CU102"]', ("--select", "CU1"), ["CU101"]),
        ('ignore = ["CU1"]', ("--select", "CU102"), ["CU102"]),
    ],
)
def test_settings_select_rules_and_the_command_line_wins(
    shop: Project, settings: str, arguments: tuple[str, ...], expected: list[str]
) -> None:
    shop.write({"cacheunit.toml": f"[lint]\n{settings}\n"})
    assert lint_codes(shop, *arguments) == expected


def severities(project: Project, *arguments: str) -> dict[str, str]:
    ran = project.run("lint", "--format", "json", *arguments)
    return {violation["code"]: violation["severity"] for violation in ran.json["findings"]}


def test_settings_replace_the_usual_severity_of_rules(shop: Project) -> None:
    shop.write({"cacheunit.toml": '[lint.severity]\nCU1 = "info"\ndate = "error"\n'})
    assert severities(shop) == {"CU101": "info", "CU102": "error", "CU203": "warning"}
    assert shop.run("lint", "--ignore", "CU102").code == 0
    assert shop.run("lint", "--select", "CU102").code == 1


def test_a_milder_or_more_severe_case_of_a_rule_stays_one_step_away_from_its_severity(shop: Project) -> None:
    shop.write({"templates/a.md.j2": "For example: 2026-11-30\n", "cacheunit.toml": '[lint.severity]\nCU102="error"\n'})
    assert severities(shop) == {"CU102": "warning"}
    shop.write({"templates/a.md.j2": "Today is 2026-11-30.\n", "cacheunit.toml": '[lint.severity]\nCU102="info"\n'})
    assert severities(shop, "--select", "CU102") == {"CU102": "warning"}


def test_the_gate_decides_by_the_usual_severity_of_a_rule_whatever_the_settings_make_of_it(shop: Project) -> None:
    shop.write({"cacheunit.toml": 'gate = ["CU102"]\n[lint.severity]\nCU102 = "info"\n'})
    ran = shop.run("build")
    assert (ran.code, ran.err.startswith("error: templates/a.md.j2:2: CU102")) == (2, True)
    shop.write({"templates/a.md.j2": "For example: 2026-11-30\n"})
    shop.write({"cacheunit.toml": 'gate = ["CU102"]\n[lint.severity]\nCU102 = "error"\n'})
    assert shop.run("build").code == 0


def test_each_unknown_rule_of_the_settings_is_a_fault_with_its_line_and_a_hint(shop: Project) -> None:
    lines = ['gate = ["CU9"]', "[lint]", 'select = ["tiemstamp"]', 'ignore = ["CU1",', '"xx"]', "[lint.severity]"]
    shop.write({"cacheunit.toml": "\n".join([*lines, 'dates = "info"', 'CU102 = "info"', 'date = "error"', ""])})
    ran = shop.run("lint")
    assert (ran.code, ran.out) == (2, "")
    faults = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    assert faults == [
        'error: cacheunit.toml:3: unknown rule "tiemstamp" in "lint.select"',
        'error: cacheunit.toml:4: unknown rule "xx" in "lint.ignore"',
        'error: cacheunit.toml:7: unknown rule "dates" in "lint.severity"',
        'error: cacheunit.toml:9: "date" and "CU102" in "lint.severity" are the same rule',
        'error: cacheunit.toml:1: unknown rule "CU9"',
    ]
    assert ran.err.count("hint: did you mean ") == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ('severity = {CU1 = "off"}', "\"lint.severity.CU1\" must be 'error', 'warning' or 'info', not 'off'"),
        ("strict = 1", '"lint.strict" must be true or false, not 1'),
        ('selct = ["CU1"]', 'unknown key "selct"'),
        ('select = "CU1"', "\"lint.select\" must be a list, not 'CU1'"),
    ],
)
def test_wrong_values_of_lint_settings_are_faults_with_their_line(shop: Project, settings: str, message: str) -> None:
    shop.write({"cacheunit.toml": f"[lint]\n{settings}\n"})
    ran = shop.run("lint")
    assert (ran.code, ran.err.splitlines()[0]) == (2, f"error: cacheunit.toml:2: {message}")


# Formats


def test_text_has_a_line_for_each_violation_hints_and_a_summary(shop: Project) -> None:
    ran = shop.run("lint", "--ignore", "leaks")
    assert ran.out == (
        'templates/a.md.j2:1:7: error CU101: "2026-11-30T03:22:43Z" is a timestamp\n'
        'templates/a.md.j2:2:11: warning CU102: "2026-11-30" is a date\n'
        "\n"
        f"CU101  timestamp  {RULES['CU101'].hint}\n"
        f"CU102  date       {RULES['CU102'].hint}\n"
        "\n"
        "1 error, 1 warning, 0 info\n"
    )


def violation(message: str = "message", **other: Any) -> Violation:
    fields: dict[str, Any] = {"code": "CU101", "severity": "error", "prefixes": ("a",), "path": "templates/a.md.j2"}
    fields |= {"line": 3, "column": 5, "hint": "do it", "message": message}
    return Violation(**fields | other)


def shown(*violations: Violation, verbose: bool = False, width: int = 100) -> list[str]:
    return plain_text(lint_blocks(LintResult(violations=violations), verbose=verbose), width).splitlines()


@pytest.mark.parametrize(
    ("prefixes", "expected"),
    [
        (("a",), "message"),
        (("a", "b"), "message (in a, b)"),
        (("a@x=1", "a@x=2", "b"), "message (in a ×2, b)"),
    ],
)
def test_text_folds_the_prefixes_and_variants_that_have_a_violation(prefixes: tuple[str, ...], expected: str) -> None:
    assert shown(violation(variants=prefixes))[0] == f"templates/a.md.j2:3:5: error CU101: {expected}"


def test_text_has_one_row_for_the_same_finding_in_many_places_and_verbose_has_all() -> None:
    violations = [violation(line=line) for line in range(1, 27)]
    assert shown(*violations)[0] == "templates/a.md.j2:1, 2, 3 and 23 more: error CU101: message"
    assert "CU101: message" not in "\n".join(shown(*violations)[1:])
    assert [line for line in shown(*violations, verbose=True) if line.endswith("CU101: message")] == [
        f"templates/a.md.j2:{line}:5: error CU101: message" for line in range(1, 27)
    ]


def test_text_folds_more_than_three_messages_of_a_rule_in_a_file_and_keeps_severities_apart() -> None:
    three = [violation(f"message {line}", line=line) for line in range(1, 4)]
    assert [line.rpartition(": ")[2] for line in shown(*three)[:3]] == ["message 1", "message 2", "message 3"]
    milder = violation("mild", line=9, severity="warning")
    lines = shown(*three, violation("message 4", line=7, prefixes=("b",)), milder)
    assert lines[:2] == [
        "templates/a.md.j2:1, 2, 3 and 1 more: error CU101: message 1, and 3 more like it (in a, b)",
        "templates/a.md.j2:9:5: warning CU101: mild",
    ]
    assert lines[-1] == "4 errors, 1 warning, 0 info"


def test_text_folds_the_targets_of_a_finding() -> None:
    violations = [violation(f"for {name}: few tokens", code="CU403", target=name) for name in ("x", "y", "z")]
    assert shown(*violations)[0] == (
        "templates/a.md.j2:3: error CU403: for x: few tokens, and 2 more like it (3 targets)"
    )


def test_text_shows_the_first_twenty_files_of_a_rule_and_how_many_more() -> None:
    violations = [violation(path=f"templates/{number:02d}.md.j2") for number in range(25)]
    lines = shown(*violations)
    assert lines[19] == "templates/19.md.j2:3:5: error CU101: message"
    assert lines[20] == "error CU101: 5 more in 5 files; -v shows all"
    assert len([line for line in shown(*violations, verbose=True) if "CU101: message" in line]) == 25


def test_each_hint_is_shown_once() -> None:
    usual = RULES["CU101"].hint
    lines = shown(*(violation(line=line) for line in (1, 2)), violation("other"))
    assert [line for line in lines if "do it" in line] == ["CU101  timestamp  do it"]
    lines = shown(violation("x", line=1), violation("y", line=2, hint=usual), violation("z", line=3, hint="do it"))
    assert [line for line in lines if "do it" in line or usual in line] == [
        "  hint: do it",
        f"CU101  timestamp  {usual}",
    ]


@pytest.mark.parametrize("width", [40, 80, 100])
def test_no_line_of_the_text_is_wider_than_the_width(width: int) -> None:
    long = violation("word " * 60, path=f"templates/{'folder/' * 20}a.md.j2", hint="a hint " * 30)
    assert max(map(len, shown(long, violation("x" * 300, hint="h" * 300), width=width))) <= width


def test_variants_and_targets_are_folded_in_text_and_json_keeps_every_violation(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    day = "Day 2026-11-30, a long line of text. "
    project.write(
        {
            "prefixes/support/agent.yaml": (
                "system: agent.md.j2\npadding: 'off'\ntargets: [openai, qwen, mistral]\n"
                f"matrix: {{locale: [{', '.join(f'l{number}' for number in range(29))}]}}\n"
            ),
            "templates/agent.md.j2": f"{day * 26}\nserver{{{{ locale }}}}.corp.local\n",
        }
    )
    ran = project.run("lint")
    lines = ran.out.splitlines()
    assert max(map(len, lines)) <= 100
    assert len(lines) < 30
    assert "and 28 more like it (in support/agent ×29)" in re.sub(r"\n +", " ", ran.out)
    codes = lint_codes(project)
    assert codes.count("CU202") == 29
    assert len(codes) > 29


def test_output_to_a_pipe_has_no_colour(shop: Project) -> None:
    assert "\x1b" not in shop.run("lint").out


def test_json_has_the_agreed_keys(shop: Project) -> None:
    (violation_data,) = shop.run("lint", "--select", "CU101", "--format", "json").json["findings"]
    assert violation_data == {
        "code": "CU101",
        "severity": "error",
        "message": '"2026-11-30T03:22:43Z" is a timestamp',
        "prefix": "a",
        "path": "templates/a.md.j2",
        "line": 1,
        "column": 7,
        "hint": RULES["CU101"].hint,
        "prefixes": ["a"],
    }


def test_markdown_is_a_table_and_empty_without_violations(shop: Project) -> None:
    ran = shop.run("lint", "--select", "CU101", "--format", "markdown")
    head, rule, row, blank, summary = ran.out.splitlines()
    assert head.count("|") == rule.count("|") == row.count("|") == 6
    assert row.startswith("| error | CU101 | `templates/a.md.j2:1:7` | ")
    assert (blank, summary) == ("", "1 error, 0 warnings, 0 info")
    ran = shop.run("lint", "--ignore", "CU", "--format", "markdown")
    assert (ran.code, ran.out) == (0, "")


def test_markdown_escapes_messages_and_paths() -> None:
    result = LintResult(violations=(violation("<img src=x> a|b\n`c` *d* @team &amp;", path="templates/a|`b.md"),))
    row = lint_markdown(result).splitlines()[2]
    assert row.replace("\\|", "").count("|") == 6
    for mark in ("<img", "`c", "*d"):
        assert re.findall(rf"(.){re.escape(mark)}", row) == ["\\"]
    assert "`@team` &amp;amp;" in row


def test_github_annotates_the_source_line(shop: Project) -> None:
    ran = shop.run("lint", "--format", "github")
    first, second, third = ran.out.splitlines()
    assert first == (
        "::error file=templates/a.md.j2,line=1,col=7,title=CU101 timestamp::"
        f'"2026-11-30T03:22:43Z" is a timestamp%0A%0Ahint: {RULES["CU101"].hint}'
    )
    assert second.startswith("::warning file=templates/a.md.j2,line=2,col=11,title=CU102 date::")
    assert third.startswith("::warning file=templates/a.md.j2,line=2,col=")
    assert shop.run("lint", "--ignore", "CU", "--format", "github").out == ""


def test_github_annotations_escape_special_characters() -> None:
    result = LintResult(violations=(violation("50 % of a,b: x", path="a,b:c%.md", severity="info"),))
    assert lint_github(result, "sub/{}".format) == (
        "::notice file=sub/a%2Cb%3Ac%25.md,line=3,col=5,title=CU101 timestamp::50 %25 of a,b: x%0A%0Ahint: do it"
    )


def test_annotations_and_sarif_name_files_from_the_root_of_the_repository(shop: Project) -> None:
    subprocess.run(["git", "init", "-q"], cwd=shop.root.parent, check=True)
    ran = shop.run("lint", "--select", "CU101", "--format", "github")
    assert ran.out.startswith("::error file=project/templates/a.md.j2,line=1,")
    run = shop.run("lint", "--select", "CU101", "--format", "sarif").json["runs"][0]
    location = run["results"][0]["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == "project/templates/a.md.j2"


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
                "fullDescription": {"$ref": "#/$defs/message"},
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
"""The JSON Schema of the parts of SARIF 2.1.0 that are used."""


def test_sarif_is_valid(shop: Project) -> None:
    shop.write({"templates/b c.md.j2": "unused\n"})
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
    locations = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    assert locations[0]["region"] == {"startLine": 1, "startColumn": 7}
    assert locations[3]["artifactLocation"]["uri"] == "templates/b%20c.md.j2"


def test_sarif_has_the_page_of_each_reported_rule(shop: Project) -> None:
    run = shop.run("lint", "--format", "sarif").json["runs"][0]
    for data in run["tool"]["driver"]["rules"]:
        rule = RULES[data["id"]]
        assert data["fullDescription"]["text"] == rule.why
        assert rule.hint in data["help"]["text"].replace(rule.hint.capitalize(), rule.hint)
        assert data["help"]["markdown"].startswith(f"# {rule.code} {rule.name}\n")
        assert next(iter(rule.good.values())) in data["help"]["markdown"]
        assert "helpUri" not in data


def test_sarif_recognizes_a_violation_when_lines_move(shop: Project) -> None:
    def identities() -> list[dict[str, str]]:
        run = shop.run("lint", "--format", "sarif").json["runs"][0]
        return [result["partialFingerprints"] for result in run["results"]]

    before = identities()
    shop.write({"templates/a.md.j2": f"Hello.\n\n{TEMPLATE}"})
    assert identities() == before
    assert len({json.dumps(item) for item in before}) == 3


def test_all_rules_are_listed_without_a_project(cacheunit: Cacheunit, tmp_path: Path) -> None:
    ran = cacheunit("-C", tmp_path, "lint", "--codes")
    assert ran.code == 0
    assert [line.split()[0] for line in ran.out.splitlines()] == list(RULES)
    listed = cacheunit("-C", tmp_path, "lint", "--codes", "--format", "json").json["codes"]
    assert [code["code"] for code in listed] == list(RULES)
    assert cacheunit("-C", tmp_path, "lint", "--codes", "--format", "sarif").code == 2


def test_rules_have_unique_codes_and_names_in_known_groups() -> None:
    names = [*(rule.name for rule in RULES.values()), *GROUPS.values(), *FORMER_NAMES]
    assert len(set(names)) == len(names)
    for code, rule in RULES.items():
        assert code == rule.code
        assert re.fullmatch(r"CU\d\d\d", code)
        assert code[:3] in GROUPS
        assert re.fullmatch(r"[a-z][a-z-]+", rule.name)


def test_each_group_of_rules_is_the_module_of_its_code_and_name() -> None:
    for group, name in GROUPS.items():
        module = importlib.import_module(f"cacheunit_build.lint.rules.{group.lower()}_{name}")
        assert [rule.code for rule in module.RULES] == [code for code in RULES if code.startswith(group)]


@pytest.mark.parametrize(("former_name", "code"), FORMER_NAMES.items())
def test_former_names_of_rules_are_accepted(former_name: str, code: str) -> None:
    assert select_rules([former_name], []).select == (code,)
    comment = f"{{# cacheunit: ignore {former_name} #}}"
    assert parse_suppressions(comment, "a.md.j2").suppresses(code, 1)


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
def test_a_comment_suppresses_a_rule_on_its_line_the_next_line_or_in_the_file(project: Project, template: str) -> None:
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": template})
    assert lint_codes(project) == []


@pytest.mark.parametrize(
    "template",
    [
        "Built 2026-11-30T03:22:43Z. {# cacheunit: ignore CU102 #}\n",
        "{# cacheunit: ignore CU101 #}\n\nBuilt 2026-11-30T03:22:43Z.\n",
        "Built 2026-11-30T03:22:43Z.\n{# cacheunit: ignore CU101 #}\n",
        "cacheunit: ignore CU101\nBuilt 2026-11-30T03:22:43Z.\n",
    ],
)
def test_a_comment_suppresses_nothing_else(project: Project, template: str) -> None:
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": template})
    assert "CU101" in lint_codes(project)


def test_comments_in_manifests_and_data_suppress_rules_too(project: Project) -> None:
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


def test_a_comment_in_an_unused_template_suppresses_the_rule(project: Project) -> None:
    project.write(
        {
            "prefixes/a.yaml": "system: a.md.j2\npadding: always\n",
            "templates/a.md.j2": "A.\n",
            "templates/draft.md.j2": "{# cacheunit: ignore-file CU502 - for next week #}\nDraft.\n",
        }
    )
    assert lint_codes(project) == []


@pytest.mark.parametrize(
    ("comment", "column", "message", "hint"),
    [
        ("{# cacheunit: ignore CU110 #}", 4, 'unknown rule "CU110" in an ignore comment', "did you mean "),
        ("{# cacheunit: ignore CU101, dtae #}", 4, 'unknown rule "dtae" in an ignore comment', 'did you mean "date"?'),
        ("{# cacheunit: ignore #}", 4, "the ignore comment names no rule", "write: cacheunit: ignore CU101"),
    ],
)
def test_a_comment_that_names_no_known_rule_is_reported(
    project: Project, comment: str, column: int, message: str, hint: str
) -> None:
    manifest = "system: a.md.j2\npadding: always\n"
    project.write({"prefixes/a.yaml": manifest, "templates/a.md.j2": f"One.\nA. {comment}\n"})
    (violation_data,) = project.run("lint", "--format", "json").json["findings"]
    assert (violation_data["code"], violation_data["severity"], violation_data["prefix"]) == ("CU504", "warning", "a")
    assert (violation_data["path"], violation_data["line"], violation_data["column"], violation_data["message"]) == (
        "templates/a.md.j2",
        2,
        column,
        message,
    )
    assert violation_data["hint"].startswith(hint)


@pytest.mark.parametrize(
    ("template", "column", "message"),
    [
        ("Use {#jar} first.\nAnd more.\nEnd with #} as the mark.\n", 5, '"{#jar}" begins a comment, not a placeholder'),
        ("Use {# first.\nEnd with #} as the mark.\n", 5, "the comment leaves out text of 2 lines, and stands within"),
        ("{# note\n#} text\n", 1, "the comment leaves out text of 2 lines"),
        ("{#each} a {#lid} #}b\n", 1, '"{#each}" begins a comment'),
    ],
)
def test_a_comment_that_swallows_text_is_reported(project: Project, template: str, column: int, message: str) -> None:
    project.write({"prefixes/a.yaml": "system: a.md.j2\npadding: always\n", "templates/a.md.j2": f"A.\n{template}"})
    (found,) = project.run("lint", "--format", "json").json["findings"]
    assert (found["code"], found["path"], found["line"], found["column"]) == ("CU505", "templates/a.md.j2", 2, column)
    assert found["message"].startswith(message)


def test_comments_on_lines_of_their_own_and_in_one_line_are_not_reported(project: Project) -> None:
    comments = "{# A note\non lines\nof its own. #}\nText. {# a note #} Text.\n{%- if 1 %}{# two\nlines #}{% endif %}\n"
    quoted = "{{ '{#' }} x {{ '#}' }}{% raw %}{#jar}\n#} x{% endraw %}\n{# cacheunit: ignore CU102\n#}x\n"
    project.write({"prefixes/a.yaml": "system: a.md.j2\npadding: always\n", "templates/a.md.j2": comments + quoted})
    assert lint_codes(project) == []
