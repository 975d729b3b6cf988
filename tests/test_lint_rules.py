"""The documentation of lint rules: their examples are true, and all pages are made from the rules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cacheunit_build.lint.gate_rules import gate_role
from cacheunit_build.lint.registry import GROUPS, RULES
from cacheunit_build.lint.replacements import FIXABLE
from cacheunit_build.reports.layout import text_width
from cacheunit_build.reports.lint_rules import rule_markdown, rule_page, rules_page

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Cacheunit, Project

    from cacheunit_build.lint.rule import Example

PAGES = Path(__file__).parent.parent / "docs/rules"

MANIFEST = "prefixes/agent.yaml"
TEMPLATE = "templates/agent.md.j2"
TOOL = "tools/find.json"
GUIDE = "".join(
    f"## Part {part}\n\n"
    + "".join(
        f"Rule {part}.{rule}: answer question {rule} of the guest in one plain sentence.\n" for rule in range(1, 9)
    )
    + "\n"
    for part in range(1, 7)
)
"""A long template: with its frame, exactly 7 units of 128 tokens of the default target."""
SECRETS = {"ghp_…": "ghp_" + "8fK2mQ7xR4vT9wZ3bN6cJ1dH5gL0pS8yA2eU", ":…@": ":" + "pa55w0rdZ" + "@"}
"""What stands for a secret in an example -> the secret, in parts, for scanners of this file."""
ALSO_REPORTED = {"CU401": {"CU102"}}
"""Code -> what the bad example of the rule must have too: CU401 is about the text that another rule reports."""


def write_example(project: Project, example: Example) -> None:
    """Writes the project of an example, which differs from a usual one in the files that it has."""
    files = dict(example)
    if not any(path.startswith("prefixes/") for path in files):
        files[MANIFEST] = "system: agent.md.j2\n" + (f"tools: [{TOOL}]\n" if TOOL in files else "")
        files.setdefault(TEMPLATE, "Answer in plain words.\n")
    for path, text in files.items():
        if path.startswith("prefixes/") and "padding:" not in text:
            files[path] = f"{text}padding: always\n"  # so that the few tokens of an example are no violation
    if any("guide.md.j2" in text for text in files.values()):
        files["templates/guide.md.j2"] = GUIDE
    for shown, secret in SECRETS.items():
        files = {path: text.replace(shown, secret) for path, text in files.items()}
    project.write(files)


def reported(project: Project, example: Example) -> set[str]:
    """Returns the codes that lint reports for an example."""
    write_example(project, example)
    ran = project.run("lint", "--format", "json")
    assert ran.err == ""
    return {violation["code"] for violation in ran.json["findings"]}


@pytest.mark.parametrize("code", RULES)
def test_the_bad_example_is_reported_by_exactly_its_rule(project: Project, code: str) -> None:
    assert reported(project, RULES[code].bad) == {code} | ALSO_REPORTED.get(code, set())


@pytest.mark.parametrize("code", RULES)
def test_the_good_example_is_clean(project: Project, code: str) -> None:
    assert reported(project, RULES[code].good) <= ALSO_REPORTED.get(code, set())


@pytest.mark.parametrize("code", RULES)
def test_the_examples_of_a_rule_with_a_fix_show_what_it_does(project: Project, code: str) -> None:
    rule = RULES[code]
    write_example(project, rule.bad)
    before = project.files()
    assert project.run("lint", "--fix", "--select", code).code in (0, 1)
    fixed = {path: data.decode() for path, data in project.files().items() if data != before[path]}
    assert fixed == (dict(rule.good) if code in FIXABLE else {})


@pytest.mark.parametrize("code", [code for code in RULES if gate_role(code) != "never" and code != "CU204"])
def test_a_rule_stops_a_build_where_its_page_says_so(project: Project, code: str) -> None:
    write_example(project, RULES[code].bad)
    settings = project.path("cacheunit.toml")
    text = settings.read_text(encoding="utf-8") if settings.exists() else ""
    if gate_role(code) == "optional":
        assert project.run("build").code == 0
        project.write({"cacheunit.toml": f'gate = ["{code}"]\n{text}'})
    ran = project.run("build")
    assert ran.code == 2, ran.out
    assert f"{code}: " in ran.err


@pytest.mark.parametrize("code", [code for code in RULES if gate_role(code) == "never"])
def test_a_rule_cannot_be_in_the_gate_where_its_page_says_so(project: Project, code: str) -> None:
    write_example(project, {**RULES[code].bad, "cacheunit.toml": f'gate = ["{code}"]\n'})
    assert f'"{code}" cannot be in the gate' in project.run("build").err


def test_the_documentation_has_a_page_made_from_each_rule(golden: Callable[[str, bytes], None]) -> None:
    pages = {f"{code}.md": rule_page(rule) for code, rule in RULES.items()} | {"README.md": rules_page()}
    for name, text in pages.items():
        golden(str(PAGES / name), text.encode())
    assert {path.name for path in PAGES.iterdir()} == set(pages)


def test_what_a_page_shows_can_be_seen_and_is_no_secret() -> None:
    for rule in RULES.values():
        page = rule_markdown(rule)
        assert page.replace("\n", "").isprintable()
        assert not any(secret in page for secret in SECRETS.values())


@pytest.mark.parametrize("code", RULES)
def test_a_rule_is_explained_within_the_width_of_the_terminal(
    cacheunit: Cacheunit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ran = cacheunit("-C", tmp_path, "lint", "--explain", code)
    assert (ran.code, ran.err) == (0, "")
    words = " ".join(ran.out.split())
    for text in (RULES[code].name, RULES[code].why, RULES[code].hint):
        assert " ".join(text.split()) in words
    assert [line for line in ran.out.splitlines() if text_width(line) > 80] == []


def test_the_list_of_rules_fits_the_width(
    cacheunit: Cacheunit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = cacheunit("-C", tmp_path, "lint", "--codes").out.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines if line.startswith("CU")] == list(RULES)


@pytest.mark.parametrize("word", ["CU101", "cu101", "timestamp"])
def test_a_rule_is_explained_by_code_and_by_name(cacheunit: Cacheunit, tmp_path: Path, word: str) -> None:
    ran = cacheunit("-C", tmp_path, "lint", "--explain", word)
    assert ran.out.startswith("CU101 timestamp\n")
    assert "    The stock was counted 2026-11-30T03:22:43Z.\n" in ran.out
    data = cacheunit("-C", tmp_path, "lint", "--explain", word, "--format", "json").json
    assert (data["code"], data["gate"], data["bad"]) == ("CU101", "optional", dict(RULES["CU101"].bad))
    page = cacheunit("-C", tmp_path, "lint", "--explain", word, "--format", "markdown").out
    assert page == f"{rule_markdown(RULES['CU101'])}\n"
    assert cacheunit("-C", tmp_path, "lint", "--explain", word, "--format", "sarif").code == 2


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("timestmap", 'error: unknown rule "timestmap"\n\nhint: did you mean "timestamp"?\n'),
        ("CU6", 'error: "CU6" is a group of rules, not one rule\n\nhint: choose one of CU601\n'),
        *(
            (name, f'error: "{name}" is a group of rules, not one rule\n\nhint: choose one of CU')
            for name in GROUPS.values()
        ),
    ],
)
def test_what_is_no_rule_cannot_be_explained(cacheunit: Cacheunit, tmp_path: Path, word: str, message: str) -> None:
    ran = cacheunit("-C", tmp_path, "lint", "--explain", word)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(message)
