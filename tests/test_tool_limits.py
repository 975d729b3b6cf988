"""Limits of tools by provider: their evidence, what stops a build, what lint reports, and how targets extend them."""

from __future__ import annotations

import datetime as dt
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cacheunit_build.domain.prompt import Tool
from cacheunit_build.parsing.settings import parse_settings
from cacheunit_build.targets.loader import all_targets, known_targets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conftest import Project

    from cacheunit_build.domain.tool_limit import ToolLimit

KNOWN = known_targets()
LIMITS = [(name, limit) for name, target in KNOWN.items() for limit in target.tool_limits]
EVIDENCE = 'claim = "a claim"\ngrade = "inferred"\nchecked = 2026-12-01\nsource = "a test"\n'


def write_tools(project: Project, tools: Sequence[object], *targets: str) -> None:
    """Writes a prefix with tools, one entry a line."""
    listed = ",\n".join(map(json.dumps, tools))
    project.write(
        {
            "prefixes/a.yaml": f"system: a.md.j2\ntools: [t.json]\ntargets: [{', '.join(targets)}]\n",
            "templates/a.md.j2": "Be kind.\n",
            "t.json": f"[\n{listed}\n]",
        }
    )


def errors_of(project: Project) -> list[tuple[str, int, str]]:
    """Returns place and message of each error of a build, which writes nothing."""
    ran = project.run("build", "--format", "json")
    assert (ran.code, project.path("build").exists()) == (2, False)
    return [(error["path"], error["line"], error["message"]) for error in ran.json["errors"]]


# The known targets


@pytest.mark.parametrize(("name", "limit"), LIMITS)
def test_a_limit_has_evidence_whose_claim_states_its_value(name: str, limit: ToolLimit) -> None:
    assert limit.grade in ("documented", "measured", "inferred")
    assert (limit.checked, limit.source.startswith("https://")) == (dt.date(2026, 12, 1), True), name
    stated = {int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*\d", limit.claim)}
    numbers = {limit.name_length, limit.tools, limit.description_length} - {None}
    assert numbers <= stated
    assert all(keyword in limit.claim or "these keywords" in limit.claim for keyword in limit.root_keywords or ())


def test_engines_have_no_limits_and_every_hosted_api_has_one() -> None:
    engines = {"vllm", "sglang", "tensorrt-llm", "llama-cpp"}
    assert {name for name, target in KNOWN.items() if not target.tool_limits} == engines


def test_targets_shows_a_limit_with_its_evidence(project: Project) -> None:
    out = project.run("targets", "deepseek-v4").out
    assert "limit: at most 128 tools (refused)\n  documented, checked 2026-12-01: at most 128 functions" in out
    (target,) = project.run("targets", "gemini", "--format", "json").json["targets"]
    assert [item["effect"] for item in target["tool_limits"] if "name_length" in item] == ["refused", "disputed"]
    assert all(value is not None for item in target["tool_limits"] for value in item.values())


# What stops a build


@pytest.mark.parametrize(
    ("target", "tool", "message"),
    [
        ("openai-legacy", {"name": "a.b"}, 'refuses the tool name "a.b": it must match [a-zA-Z0-9_-]+'),
        ("anthropic-1024", {"name": "a/b"}, 'refuses the tool name "a/b": it must match [a-zA-Z0-9_-]+'),
        ("gemini", {"name": "1st"}, 'refuses the tool name "1st": it must match [a-zA-Z_][a-zA-Z0-9_.:-]*'),
        (
            "mistral",
            {"name": "n" * 65},
            f'refuses the tool name "{"n" * 65}": it has 65 characters, at most 64 are possible',
        ),
        (
            "anthropic-1024",
            {"name": "t", "inputSchema": {"anyOf": [{"required": ["a"]}], "allOf": [{"required": ["a"]}]}},
            'refuses the schema of tool "t": it has "allOf" and "anyOf" at its root',
        ),
    ],
)
def test_a_tool_that_the_provider_refuses_stops_the_build_at_its_line(
    project: Project, target: str, tool: object, message: str
) -> None:
    write_tools(project, [{"name": "fine"}, tool], target)
    assert errors_of(project) == [("t.json", 3, f'target "{target}" {message}')]


@pytest.mark.parametrize("target", ["openai-legacy", "groq", "kimi"])
def test_the_first_tool_too_many_is_named(project: Project, target: str) -> None:
    write_tools(project, [{"name": f"t{index}"} for index in range(129)], target)
    assert errors_of(project) == [
        ("t.json", 130, f'target "{target}" refuses 129 tools: at most 128 are possible'),
    ]
    write_tools(project, [{"name": f"t{index}"} for index in range(128)], target)
    project.build()


def test_one_fault_names_all_targets_and_says_what_would_help(project: Project) -> None:
    write_tools(project, [{"name": "a.b"}], "anthropic-1024", "anthropic-2048", "gemini")
    err = project.run("build").err
    assert err.startswith('error: t.json:2: targets "anthropic-1024", "anthropic-2048" refuse the tool name "a.b"')
    assert "hint: rename the tool (measured: https://github.com/home-assistant/core/issues/147760)" in err
    assert "\n1 error; nothing was written" in err


def test_only_selected_targets_are_checked(project: Project) -> None:
    write_tools(project, [{"name": "a.b"}], "anthropic-1024", "gemini")
    assert project.run("build", "--target", "gemini").code == 0


# Disputed limits


def test_a_disputed_limit_is_a_warning_of_lint_and_stops_nothing(project: Project) -> None:
    write_tools(project, [{"name": "t"}, {"name": "u", "description": "d" * 1025}], "openai-legacy")
    project.build()
    (finding,) = project.run("lint", "--select", "CU6", "--format", "json").json["findings"]
    assert (finding["code"], finding["severity"], finding["path"], finding["line"]) == ("CU601", "warning", "t.json", 3)
    message = (
        'openai-legacy may refuse the description of tool "u": it has 1,025 characters, at most 1,024 are possible'
    )
    assert finding["message"] == message


def test_a_tool_within_disputed_limits_is_no_finding(project: Project) -> None:
    write_tools(project, [{"name": "u", "description": "d" * 1024}], "openai-legacy", "gemini", "kimi", "openai")
    assert project.run("lint", "--select", "CU6", "--format", "json").json["findings"] == []


# Limits of a project's targets


def limits_of(toml: str) -> list[tuple[str, str, str]]:
    """Returns effect, text and claim of each limit of the target `own`."""
    target = all_targets(parse_settings(None, toml.encode()))["own"]
    return [(limit.effect, str(limit), limit.claim) for limit in target.tool_limits]


def test_a_limit_replaces_that_of_the_base_of_its_kind_and_effect() -> None:
    base = 'tool_limits = [{tools = 9, claim = "b", grade = "measured", checked = 2026-12-01, source = "s"}]'
    toml = f'[target.base]\nextends = "gemini"\n{base}\n[target.own]\nextends = "base"\n[[target.own.tool_limits]]\n'
    toml += f"name_length = 10\n{EVIDENCE}"
    limits = limits_of(toml)
    assert ("refused", "at most 9 tools", "b") in limits
    assert ("refused", "tool names have at most 10 characters", "a claim") in limits
    assert [text for effect, text, _ in limits if effect == "disputed"] == ["tool names have at most 64 characters"]
    assert len(limits) == len(KNOWN["gemini"].tool_limits)


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("", "needs exactly one of names, name_length"),
        ("tools = 1\nname_length = 2", "needs exactly one of names, name_length"),
        ('names = "(a+)+"', "names"),
        ('names = "[z-a]+"', "are no pattern"),
        ("tools = 0", "tools"),
        ('response_root = "array"', "response_root"),
        ('effect = "perhaps"\ntools = 1', "effect"),
    ],
)
def test_a_wrong_limit_is_a_fault_in_the_settings(project: Project, limit: str, message: str) -> None:
    toml = f'[target.own]\nextends = "openai"\n[[target.own.tool_limits]]\n{limit}\n{EVIDENCE}'
    project.write({"cacheunit.toml": toml})
    ran = project.run("targets")
    assert (ran.code, "cacheunit.toml:" in ran.err, message in ran.err) == (2, True, True), ran.err


def test_a_long_name_is_shown_shortened() -> None:
    limit = next(limit for limit in KNOWN["qwen"].tool_limits if limit.name_length)
    tool = Tool(name="n" * 128, description="", schema={}, strict=None, path="t.json", line=1)
    (problem,) = limit.tool_problems([tool])
    assert problem.message.startswith(f'the tool name "{"n" * 79}…": it has 128 characters')


def test_the_table_in_the_documentation_lists_the_limits_of_every_target() -> None:
    page = (Path(__file__).parent.parent / "docs" / "targets.md").read_text(encoding="utf-8")
    section = page.partition("## Limits of tools")[2].partition("\n## ")[0]
    listed = {
        name.strip(" `"): cells
        for names, *cells in re.findall(r"^\|(.+?)\|(.*?)\|(.*?)\|(.*?)\|(.*?)\|(.*?)\|$", section, re.MULTILINE)
        for name in names.split(",")
    }
    for name, target in KNOWN.items():
        cells = listed.get(name) or listed.get(f"{name.partition('-')[0]}-…")
        assert (cells is not None) == bool(target.tool_limits), name
        for limit in target.tool_limits:
            values = (limit.names, limit.name_length, limit.tools, limit.root_keywords, limit.description_length)
            column = next((index for index, value in enumerate(values) if value is not None), 4)
            cell = (cells or [""] * 5)[column if limit.effect == "refused" else 4]
            keywords = limit.root_keywords or ()
            number = limit.name_length or limit.tools or limit.description_length
            assert all(f"`{word}`" in cell for word in (*keywords, *filter(None, [limit.names]))), name
            assert number is None or f"{number:,}" in cell, name
