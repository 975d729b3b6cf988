"""Lint rules about texts, tools and names: each reports its exact location, and nothing where it must not."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from cacheunit_build.adapters.system import secret_scanner
from cacheunit_build.lint.registry import RULES
from cacheunit_build.lint.results import Location
from cacheunit_build.lint.source_locator import SourceTexts

if TYPE_CHECKING:
    from conftest import Project

Violation = dict[str, Any]

INTRODUCTION = "You are the support agent of a bicycle shop. Answer in plain words.\n"
KEY = "AKIA" + "IOSFODNN7QWERTYU"[:16]  # in two parts, so that no scanner reports this file
PASSWORD = "://shop:" + "pa55w0rdZ@"


def lint(project: Project, *arguments: str) -> list[Violation]:
    """Returns the violations of a run, and checks its exit code."""
    ran = project.run("lint", "--format", "json", *arguments)
    assert ran.err == ""
    violations: list[Violation] = ran.json["findings"]
    assert ran.code == int(any(violation["severity"] == "error" for violation in violations))
    return violations


def lint_line(project: Project, line: str) -> list[Violation]:
    """Returns the violations of a prefix whose second line is `line`, those of CU4xx aside."""
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": f"{INTRODUCTION}{line}\nLast line.\n"})
    return [violation for violation in lint(project) if not violation["code"].startswith("CU4")]


REPORTED = [
    ("CU101", "error", "The report was made 2026-11-30T03:22:43Z by the server.", "2026-11-30T03:22:43Z"),
    ("CU101", "error", "The report was made 2026-11-30 03:22 by the server.", "2026-11-30 03:22"),
    ("CU101", "error", "Last sync: Nov 30, 2026 03:22:43 PM", "Nov 30, 2026 03:22:43 PM"),
    ("CU101", "warning", "Write times as in `2026-11-30T03:22:43Z`.", "2026-11-30T03:22:43Z"),
    ("CU102", "warning", "Prices hold until 2026-11-30 in all shops.", "2026-11-30"),
    ("CU102", "warning", "The shop opened on 3 March 2024.", "3 March 2024"),
    ("CU102", "error", "Today is March 3rd, 2026.", "March 3rd, 2026"),
    ("CU102", "error", "Current date: 2026-11-30", "2026-11-30"),
    ("CU102", "error", "The current date is **Monday, November 30, 2026**.", "November 30, 2026"),
    ("CU102", "error", "Today's date (in ISO format): 2026-11-30", "2026-11-30"),
    ("CU102", "warning", "If the current date is after 2026-11-30, refuse.", "2026-11-30"),
    ("CU102", "warning", "Compare today's prices with 2026-11-30.", "2026-11-30"),
    ("CU102", "info", "Dates are written like 2026-11-30.", "2026-11-30"),
    ("CU103", "warning", "The time is 11:42:07 PM here.", "11:42:07 PM"),
    ("CU103", "warning", "Current time: 11:42", "11:42"),
    ("CU104", "error", "The catalogue is of 1795993363.", "1795993363"),
    ("CU104", "error", "The catalogue is of 1795993363123.", "1795993363123"),
    (
        *("CU105", "error", "Your scratch folder is work/3f2b8c1e-9d47-4c15-a1f0-7be2c4d90a61/tmp."),
        "3f2b8c1e-9d47-4c15-a1f0-7be2c4d90a61",
    ),
    (
        *("CU106", "warning", "Checksum of the rules: 9e107d9d372bb6826bd81d3542a419d6"),
        "9e107d9d372bb6826bd81d3542a419d6",
    ),
    ("CU108", "error", "Answer request req_8f3a2b1c now.", "req_8f3a2b1c"),
    ("CU109", "warning", "Your version is v1.2.3-14-g1a2b3c4.", "v1.2.3-14-g1a2b3c4"),
    ("CU201", "warning", "The notes are in /home/shopdesk/notes/shop.", "/home/shopdesk/notes/shop"),
    ("CU201", "warning", r"The notes are in C:\Users\shopdesk\notes.", r"C:\Users\shopdesk\notes"),
    ("CU201", "warning", "Files lie below /scratch/run7/work now.", "/scratch/run7/work"),
    ("CU202", "warning", "Ask db1.prod.internal for stock.", "db1.prod.internal"),
    ("CU202", "warning", "Ask 10.20.30.41 for stock.", "10.20.30.41"),
    ("CU202", "warning", "Ask 93.184.216.34 for stock.", "93.184.216.34"),
    ("CU203", "warning", "Write to desk@laden.velowerk-muster.de about it.", "desk@laden.velowerk-muster.de"),
    ("CU204", "error", f"Sign in with postgres{PASSWORD}db first.", PASSWORD),
    ("CU205", "error", f"Sign in with {KEY} first.", KEY),
    ("CU301", "warning", "Smith &amp; Sons make our frames.", "&amp;"),
    ("CU301", "warning", "Say `it&#39;s` in a `string`.", "&#39;"),
    ("CU302", "warning", "Frame\u200bs and forks.", "\u200b"),
    ("CU302", "error", "Frames\U000e0041 and forks.", "\U000e0041"),
    ("CU303", "error", "Frames \u202eand forks.", "\u202e"),
    ("CU304", "error", "Frames\x1b and forks.", "\x1b"),
    ("CU305", "warning", "Frames\u2028and forks.", "\u2028"),
    ("CU305", "warning", "Frames\x0cand forks.", "\x0c"),
    ("CU306", "error", r'Frames{{ "\r" }}and forks.', r"\r"),
    ("CU307", "warning", "A caf\u00e9 and a cafe\u0301.", "e\u0301"),
    ("CU308", "info", "Stop at <|im_start|> please.", "<|im_start|>"),
    ("CU309", "warning", r"Gr\u00fc\u00dfe aus dem caf\u00e9.", r"\u00fc\u00df"),
    ("CU309", "warning", r"Wrap it in \u003cb\u003e.", r"\u003c"),
    ("CU310", "warning", "Frames and forks. <!-- ask Jane -->", "<!--"),
    ("CU310", "warning", "<!-- a <!-- b\n--- c -> d -->", "<!-- b"),
    ("CU310", "info", "<example><!-- ask Jane --></example>", "<!--"),
    ("CU311", "warning", "---\ntitle: Agent\ntools:\n- one\n  - two\n\n# more\n'a b': c\n---", "---"),
    ("CU311", "warning", "--- \ntitle:\n...", "---"),
]


@pytest.mark.parametrize(("code", "severity", "line", "matched"), REPORTED)
def test_a_text_is_reported_at_its_line_and_column(
    project: Project, code: str, severity: str, line: str, matched: str
) -> None:
    first = next(violation for violation in lint_line(project, line) if violation["code"] == code)
    location = (first["path"], first["line"], first["column"])
    assert (first["severity"], location) == (severity, ("templates/a.md.j2", 2, line.index(matched) + 1))
    assert (first["prefix"], first["prefixes"]) == ("a", ["a"])
    assert first["message"]
    assert first["hint"]


NOT_REPORTED = [
    "Use the API of 2024-10-21-preview, model gpt-4o-2024-08-06 and https://x.test/schemas/2019-04-01/a.json.",
    "Open from 9:00 to 17:30; chapter 2 starts at 02:17:43 in the recording [02:17:43.120 --> 02:17:49.200].",
    "Unix time begins on January 1, 1970. The largest is 2147483647. Call 0301234567 or +491795993363.",
    "Use ISBN 9780136083238, article 1000000000 and version 20.04.5.",
    "Ids look like 550e8400-e29b-41d4-a716-446655440000 or 00000000-0000-0000-0000-000000000000.",
    "Pin actions/checkout@34e114876b0b11c390a56381ad16ebd13914f8d5; the commit 3f2b8c1 broke it; colour #a1b2c3.",
    "Read /etc/hosts and /usr/bin/env; call GET /api/v1/users/42/orders; work in /home/user/project and ./src.",
    "Listen on 127.0.0.1 or 0.0.0.0, as 192.0.2.7 and 203.0.113.9 do; version 1.2.3.4 and 10.0.0.0 too.",
    "See www.example.com, https://github.com, .env.local, settings.local.json and host.docker.internal.",
    "Write to jane@example.com, you@yourcompany.com, git@github.com:acme/shop.git or @support.",
    "Use AKIAIOSFODNN7EXAMPLE, sk-xxxxxxxxxxxxxxxxxxxx, ${TOKEN} and https://user:password@example.com.",
    "In HTML write `&amp;` for `&`; in <b>bold</b> text &nbsp; too; R&D; a && b; AT&T;",
    "Family \U0001f468\u200d\U0001f469\u200d\U0001f467, \u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "\u0915\u094d\u200d\u0937, \u05d0\u05d1\u200f!",
    r"Write \u00fc for u with dots; \u0009 is a tab.",
    "Tabs\tand caf\u00e9, na\u00efve, \u304c\u304e\u3050.",
    "Strike <s>this</s>, list<|>, [INST, and a|b.",
    r"Match [\u4e00-\u9fff] or \u200b, in C:\path\new.",
    "Write `<!-- a comment -->`.\n\n```html\n<!-- BAD -->\n```\n\nA comment begins with <!-- and <!--- too. ->",
    "```yaml\n---\nname: skill\n---\n```",
    "---\n\n## Tone\n\n- Be kind.\n\n---\n\nNote: short.\n---",
]


@pytest.mark.parametrize("line", NOT_REPORTED)
def test_ordinary_prompt_text_is_not_reported(project: Project, line: str) -> None:
    assert lint_line(project, line) == []


def test_comments_and_front_matter_are_reported_where_they_reach_the_model_unless_that_is_wanted(
    project: Project,
) -> None:
    front = "---\ntitle: Agent\n---\n"
    project.write(
        {
            "prefixes/a.yaml": "system: a.md.j2\n",
            "templates/a.md.j2": f"{front}{{% include 'b.md.j2' %}}{{# <!-- not in the text --> #}}\n",
            "templates/b.md.j2": (
                f"{front}{INTRODUCTION}<!-- on\ntwo lines -->\n{{# cacheunit: ignore CU310: a mark #}}\n<!-- kept -->"
            ),
        }
    )
    reported = [(item["code"], item["path"], item["line"], item["column"]) for item in lint(project, "--select", "CU3")]
    assert reported == [
        ("CU311", "templates/a.md.j2", 1, 1),
        ("CU311", "templates/b.md.j2", 1, 1),
        ("CU310", "templates/b.md.j2", 5, 1),
    ]
    project.write({"prefixes/a.yaml": "system: a.md.j2\nstrip: front-matter\n"})
    assert [(item["code"], item["line"]) for item in lint(project, "--select", "CU3")] == [("CU310", 5)]


def test_what_front_matter_looks_like_is_not_reported_in_tools_from_which_nothing_can_strip_it(
    project: Project,
) -> None:
    tool = {"name": "find", "description": "---\ntitle: Find\n---\nFinds. <!-- slow -->", "parameters": {}}
    project.write({"prefixes/a.yaml": "tools: [t.json]\ntargets: [openai]\n", "t.json": json.dumps(tool)})
    assert [item["code"] for item in lint(project, "--select", "CU3")] == ["CU310"]


def test_every_text_rule_has_a_case() -> None:
    tested_with_tools = {"CU107"}
    assert {code for code in RULES if code[2] in "123"} - tested_with_tools == {case[0] for case in REPORTED}


@pytest.mark.parametrize(
    "around",
    [
        "```\n{}\n```\n",
        "# Example answers\n\n{}\n",
        "<example>\n{}\n</example>\n",
        "| a | b | {} |\n",
        "For example: {}\n",
        'Call now("{}").\n',
        "Run it:\n\n    {}\n",
        "The result is::\n\n  {}\n",
    ],
)
def test_an_example_is_reported_with_a_lower_severity(project: Project, around: str) -> None:
    stamp = "2026-11-30T03:22:43Z"
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": INTRODUCTION + around.format(stamp)})
    assert [(f["code"], f["severity"]) for f in lint(project)] == [("CU101", "warning")]


def test_an_indented_paragraph_of_a_list_item_is_not_code(project: Project) -> None:
    text = f"{INTRODUCTION}\n- Rules:\n\n    Built 2026-11-30T03:22:43Z.\n"
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": text})
    assert [(f["line"], f["severity"]) for f in lint(project, "--select", "CU101")] == [(5, "error")]


def test_an_example_section_ends_at_the_next_heading_of_its_level(project: Project) -> None:
    text = "# Examples\n\n## Short\n\nDone 2026-11-30 03:22.\n\n# Rules\n\nDone 2026-11-30 03:23.\n"
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": text})
    assert [(f["line"], f["severity"]) for f in lint(project, "--select", "CU101")] == [(5, "warning"), (9, "error")]


# Locations


def test_the_location_is_in_the_source_that_wrote_the_text(project: Project) -> None:
    """An include, a macro, a variable, a data file, an example; never a comment or the description."""
    project.write(
        {
            "prefixes/a.yaml": (
                "description: Born 2026-01-02\nsystem: a.md.j2\nvariables: {day: 2026-01-02}\ntargets: [openai]\n"
                "data: {faq: data/faq.yaml, notes: data/notes.txt}\nexamples:\n"
                "  - {role: user, template: turn.md.j2}\n  - {role: assistant, text: Since 2026-01-06.}\n"
            ),
            "templates/a.md.j2": (
                "{# 2026-01-01 2026-01-03 #}\n{% from 'm.md.j2' import rule %}\n"
                "{{ day }}\n{% include 'b.md.j2' %}\n{{ rule('x') }}\n{{ faq.q }}\n{{ notes }}\n"
            ),
            "templates/b.md.j2": "B\nhas 2026-01-03.\n",
            "templates/m.md.j2": "{% macro rule(x) %}{{ x }} of 2026-01-04{% endmacro %}\n",
            "templates/turn.md.j2": "Before 2026-01-05?\n",
            "data/faq.yaml": '# 2026-01-07\nq: "Opened 2026-01-07"\n',
            "data/notes.txt": "One.\nClosed {# 2026-01-08 #}.\n",
        }
    )
    violations = lint(project, "--select", "CU102")
    assert [(f["path"], f["line"], f["column"]) for f in violations] == [
        ("data/faq.yaml", 2, 12),
        ("data/notes.txt", 2, 11),
        ("prefixes/a.yaml", 3, 18),
        ("prefixes/a.yaml", 8, 35),
        ("templates/b.md.j2", 2, 5),
        ("templates/m.md.j2", 1, 31),
        ("templates/turn.md.j2", 1, 8),
    ]


def test_equal_texts_have_locations_of_their_own(project: Project) -> None:
    text = "One of 2026-01-01.\nTwo of 2026-01-01, three of 2026-01-01.\n"
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": text})
    violations = lint(project, "--select", "CU102")
    assert [(f["line"], f["column"]) for f in violations] == [(1, 8), (2, 8), (2, 29)]


def test_text_that_an_expression_builds_is_reported_in_column_1(project: Project) -> None:
    text = "You are an agent.\nBorn on {{ '2026' }}-{{ '01' }}-01 or so.\nLast.\n"
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": text})
    assert [(f["path"], f["line"], f["column"]) for f in lint(project, "--select", "CU102")] == [
        ("templates/a.md.j2", 2, 1)
    ]


@pytest.mark.parametrize(
    "source",
    [
        "caf\u00e9 \u201ca\u201d",
        r"caf\u00e9 \u201ca\u201d",
        r"caf\u00E9 \u201Ca\u201D",
        r"caf\U000000e9 \U0000201ca\U0000201d",
    ],
    ids=["literal", "escapes of JSON", "upper-case escapes", "long escapes"],
)
def test_text_is_located_however_the_source_escapes_it(source: str) -> None:
    text = "A caf\u00e9 \u201ca\u201d, please"
    sources = SourceTexts({"a.md.j2": f"One.\nA {source}, please\n".encode()}.get)
    span = (2, len(text) - len(", please"))
    assert sources.column("a.md.j2", 2, text, span) == 3
    assert sources.locate("a.md.j2", 1, text, span) == Location(path="a.md.j2", line=2, column=3)
    assert sources.locate("a.md.j2", 3, text, span) is None


def test_of_several_equal_texts_the_one_in_the_same_context_is_located() -> None:
    sources = SourceTexts({"a.md.j2": b"one x two\nthree x four\n"}.get)
    assert sources.locate("a.md.j2", 1, "three x five", (6, 7)) == Location(path="a.md.j2", line=2, column=7)


def test_one_location_in_several_variants_targets_and_prefixes_is_one_violation(project: Project) -> None:
    project.write(
        {
            "prefixes/a.yaml": "system: a.md.j2\nmatrix: {plan: [free, pro]}\ntargets: [deepseek-v4, openai]\n",
            "prefixes/b.yaml": "system: part.md.j2\n",
            "templates/a.md.j2": "{{ plan }} {% if plan == 'pro' %}2026-02-02{% endif %}\n{% include 'part.md.j2' %}",
            "templates/part.md.j2": "Since 2026-01-01.\n",
        }
    )
    violations = [(f["path"], f["prefix"], f["prefixes"]) for f in lint(project, "--select", "CU102")]
    assert violations == [
        ("templates/a.md.j2", "a@plan=pro", ["a@plan=pro"]),
        ("templates/part.md.j2", "a", ["a", "b"]),
    ]


def test_repeated_characters_on_a_line_are_one_violation(project: Project) -> None:
    violations = lint_line(project, "a\u200bb\u200bc\u200bd and &amp; more")
    assert [(f["code"], f["column"]) for f in violations] == [("CU302", 2), ("CU301", 13)]
    assert violations[0]["message"].endswith("is invisible, and 2 more on this line")


# Tools


def lint_tool(project: Project, description: str, *arguments: str) -> list[Violation]:
    """Returns the violations of a prefix whose only tool has this description."""
    tool = {
        "name": "search",
        "title": "not sent: 2026-01-01",
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": {"title": {"type": "string", "description": "Since 2026-02-02"}},
        },
    }
    project.write(
        {
            "prefixes/a.yaml": "system: a.md.j2\ntools: [tools/search.json]\ntargets: [openai]\n",
            "templates/a.md.j2": INTRODUCTION,
            "tools/search.json": json.dumps(tool, indent=2),
        }
    )
    return lint(project, *arguments)


@pytest.mark.parametrize(
    "description",
    [
        "Full-text search (520445 entries)",
        "Searches 12,345 indexed documents.",
        "Currently 1832 open tickets can be read.",
    ],
)
def test_a_growing_count_in_a_tool_is_reported(project: Project, description: str) -> None:
    (violation,) = lint_tool(project, description, "--select", "live-counter")
    line = f'  "description": "{description}",'
    number = next(word for word in description.replace("(", " ").split() if word[0].isdigit())
    assert (violation["code"], violation["severity"]) == ("CU107", "warning")
    assert (violation["path"], violation["line"], violation["column"]) == (
        "tools/search.json",
        4,
        line.index(number) + 1,
    )


@pytest.mark.parametrize(
    "description",
    [
        "Returns up to 250 results.",
        "At most 1024 items a call.",
        "Between 100 and 500 rows.",
        "Error 404 pages are left out.",
    ],
)
def test_a_limit_in_a_tool_is_not_a_growing_count(project: Project, description: str) -> None:
    assert lint_tool(project, description, "--select", "CU107") == []


def test_only_the_parts_of_a_tool_that_are_sent_are_checked(project: Project) -> None:
    violations = lint_tool(project, "Search, caf\u00e9", "--select", "CU1")
    assert [(f["code"], f["line"]) for f in violations] == [("CU102", 10)]


def test_an_escape_in_a_tool_file_is_not_reported(project: Project) -> None:
    assert lint_tool(project, "Gr\u00fc\u00dfe", "--select", "CU3") == []
    assert b"\\u00fc" in project.read("tools/search.json")


def test_an_escaped_invisible_character_in_a_tool_is_located(project: Project) -> None:
    (violation,) = lint_tool(project, "Sea\u200brch", "--select", "CU302")
    assert (violation["line"], violation["column"]) == (4, len('  "description": "Sea') + 1)


# Control tokens


def test_an_allowed_control_token_of_the_target_is_reported(project: Project) -> None:
    text = "Stop at <\uff5cUser\uff5c> please.\n"
    project.write({"prefixes/a.yaml": "system: a.md.j2\nspecial_tokens: allow\n", "templates/a.md.j2": text})
    (violation,) = lint(project, "--select", "control-token")
    assert (violation["severity"], violation["line"], violation["column"]) == ("warning", 1, 9)
    assert violation["message"] == "<\uff5cUser\uff5c> is a control token of the target"


# Secrets


@pytest.mark.parametrize("secret", [KEY, f"postgres{PASSWORD}db"])
def test_no_part_of_a_secret_is_ever_printed(project: Project, secret: str) -> None:
    lint_line(project, f"Sign in with {secret} first.")
    for form in ("text", "json", "markdown", "github", "sarif"):
        ran = project.run("lint", "--format", form)
        assert ran.code == 1
        assert "a secret: " in ran.out
        for part in (secret[:4], secret[-4:], "pa55"):
            assert part not in ran.out + ran.err


def test_without_the_scanner_a_note_says_that_only_the_form_was_checked(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "detect_secrets.core.plugins.util", None)  # importing it fails
    monkeypatch.setattr(secret_scanner, "detectors", secret_scanner.detectors.__wrapped__)
    text = f"Sign in with {KEY}.\nAt postgres{PASSWORD}db.\n"
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": text})
    ran = project.run("lint", "--format", "json")
    assert (ran.code, [f["code"] for f in ran.json["findings"]]) == (1, ["CU205"])
    note = 'note: secrets were checked by their form only; run: pip install "cacheunit-build[secrets]"\n'
    assert ran.err == note
    assert project.run("-q", "lint").err == ""
    assert project.run("lint", "--ignore", "CU204").err == ""


# The project


def test_unused_variables_data_files_and_axes_are_reported(project: Project) -> None:
    project.write(
        {
            "prefixes/a.yaml": (
                "system: a.md.j2\nvariables:\n  used: 1\n  idle: 2\ndata:\n  faq: faq.yaml\nmatrix:\n  plan: [x, y]\n"
            ),
            "templates/a.md.j2": "{{ used }} {{ 'idle faq plan' }}\n",
            "faq.yaml": "q: a\n",
        }
    )
    violations = [
        (f["code"], f["severity"], f["path"], f["line"], f["column"], f["message"])
        for f in lint(project, "--select", "CU5")
    ]
    assert violations == [
        ("CU501", "warning", "prefixes/a.yaml", 4, 3, 'variable "idle" is not used by any template'),
        ("CU501", "warning", "prefixes/a.yaml", 6, 3, 'data file "faq" is not used by any template'),
        ("CU501", "warning", "prefixes/a.yaml", 8, 3, 'matrix axis "plan" is not used by any template'),
    ]
    assert lint(project, "a@plan=x", "--select", "CU501") == []


def test_use_in_another_prefix_does_not_count(project: Project) -> None:
    for name, text in (("a", "{{ used }}\n"), ("b", "B\n")):
        project.write({f"prefixes/{name}.yaml": f"system: {name}.md.j2\nvariables: {{used: 1}}\n"})
        project.write({f"templates/{name}.md.j2": text})
    assert [f["path"] for f in lint(project, "--select", "CU501")] == ["prefixes/b.yaml"]


def test_every_way_to_use_a_variable_counts(project: Project) -> None:
    project.write(
        {
            "prefixes/a.yaml": (
                "system: a.md.j2\ntargets: [openai]\nexamples: [{role: user, template: turn.md.j2}]\nvariables:\n"
                "  v1: x\n  v2: x\n  v3: x\n  v4: b\n  v5: [x]\n  v6: x\n  v7: x\n  v8: x\n"
                "matrix: {plan: [free, pro]}\n"
            ),
            "templates/base.md.j2": "{{ v1 }}{% block body %}{% endblock %}\n",
            "templates/a.md.j2": (
                "{% extends 'base.md.j2' %}{% block body %}{% include v4 ~ '.md.j2' %}\n"
                "{% import 'm.md.j2' as m with context %}{{ m.say() }}{% for x in v5 if v6 is defined %}{{ x }}"
                "{% endfor %}\n"
                "{% if plan == 'pro' %}{% set v = v8 %}{{ v }}{% endif %}{% endblock %}\n"
            ),
            "templates/b.md.j2": "{{ v2 }}\n",
            "templates/m.md.j2": "{% macro say() %}{{ v3 }}{% endmacro %}\n",
            "templates/turn.md.j2": "{{ v7|default('') }}\n",
        }
    )
    assert lint(project, "--select", "CU501") == []


def test_a_template_that_no_prefix_uses_or_names_is_reported(project: Project) -> None:
    project.write(
        {
            "prefixes/a.yaml": "system: a.md.j2\n",
            "templates/a.md.j2": "A\n{% if false %}{% include 'named.md.j2' %}{% endif %}\n",
            "templates/named.md.j2": "{% include 'too.md.j2' ignore missing %}\n",
            "templates/too.md.j2": "Too.\n",
            "templates/lost.md.j2": "{% include 'also.md.j2' %}\n",
            "templates/also.md.j2": "Also.\n",
            "templates/README.md": "For people.\n",
        }
    )
    violations = [(f["code"], f["prefix"], f["path"], f["line"], f["column"]) for f in lint(project, "--select", "CU5")]
    assert violations == [("CU502", None, "templates/also.md.j2", 1, 1), ("CU502", None, "templates/lost.md.j2", 1, 1)]
    assert lint(project, "a", "--select", "CU5") == []


def test_names_that_look_alike_are_reported(project: Project) -> None:
    project.write(
        {
            "prefixes/shop-a.yaml": "system: a.md.j2\nvariables:\n  order_id: 1\n  Order_ID: 2\n  \n",
            "prefixes/shop_a.yaml": "system: a.md.j2\nvariables: {order_id: 1, Order_ID: 2}\n",
            "templates/a.md.j2": "{{order_id}}{{ Order_ID }}{% include 'tone.md.j2' %}{% include 't\u043ene.md.j2' %}",
            "templates/tone.md.j2": "x\n",
            "templates/t\u043ene.md.j2": "y\n",
        }
    )
    violations = {
        (f["code"], f["path"], f["line"], f["column"], f["message"]) for f in lint(project, "--select", "CU5")
    }
    assert violations == {
        ("CU503", "prefixes/shop-a.yaml", 4, 3, 'variable "Order_ID" looks like "order_id"'),
        ("CU503", "prefixes/shop_a.yaml", 1, 1, 'prefix "shop_a" looks like "shop-a"'),
        ("CU503", "prefixes/shop_a.yaml", 2, 26, 'variable "Order_ID" looks like "order_id"'),
        (
            "CU503",
            "templates/t\u043ene.md.j2",
            1,
            1,
            'template "templates/t\u043ene.md.j2" looks like "templates/tone.md.j2"',
        ),
    }
    (one,) = lint(project, "shop_a", "--select", "CU5")
    assert (one["path"], one["line"]) == ("prefixes/shop_a.yaml", 2)


def test_names_that_look_different_are_not_reported(project: Project) -> None:
    project.write(
        {
            "prefixes/a.yaml": "system: a.md.j2\nvariables: {order: 1, orders: 2, order_2: 3}\n",
            "templates/a.md.j2": "{{ order }}{{ orders }}{{ order_2 }}{% include 'b/a.md.j2' %}\n",
            "templates/b/a.md.j2": "x\n",
        }
    )
    assert lint(project, "--select", "CU5") == []
