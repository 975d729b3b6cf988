"""Lint of layout: what stands before what, and where a prefix stands against its target's numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support import count_default

if TYPE_CHECKING:
    from conftest import Project

Violation = dict[str, Any]

UNIT = 128
STAMP = "2026-11-30T03:22:43Z"
FRAME = "<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cUser\uff5c>"
RULES = "".join(
    f"Rule {number}: answer question {number} of the guest in one plain sentence.\n" for number in range(60)
)


def lint(project: Project, *arguments: str) -> list[Violation]:
    ran = project.run("lint", "--format", "json", *arguments)
    assert ran.err == ""
    findings: list[Violation] = ran.json["findings"]
    assert ran.code == int(any(finding["severity"] == "error" for finding in findings))
    return findings


def prefix(project: Project, text: str, manifest: str = "", name: str = "a") -> None:
    project.write({f"prefixes/{name}.yaml": f"system: {name}.md.j2\n{manifest}", f"templates/{name}.md.j2": text})


def tokens(text: str) -> int:
    """Static tokens of a text at the default target, by its own vocabulary."""
    return count_default(FRAME[0] + text + FRAME[1])


def sized(goal: int) -> str:
    """A text of exactly so many static tokens."""
    text = "Answer"
    while tokens(text) < goal:
        text += " so"
    assert tokens(text) == goal
    return text


# Volatile text before stable text


def test_a_stamp_in_the_first_unit_loses_everything_and_is_an_error(project: Project) -> None:
    text = f"Built {STAMP}.\n{RULES}"
    prefix(project, text)
    (found,) = lint(project, "--select", "CU401")
    lost = tokens(text) - count_default(f"{FRAME[0]}Built ")
    padded = lost + -tokens(text) % UNIT
    units = (padded + UNIT - 1) // UNIT
    assert (found["severity"], found["path"], found["line"], found["column"]) == ("error", "templates/a.md.j2", 1, 7)
    assert found["message"] == (
        f"when this changes, {padded:,} tokens from here on are read anew, {units} of {units} units; "
        "nothing stays cached"
    )


def test_behind_the_first_unit_it_is_milder_and_says_how_many_units_stay(project: Project) -> None:
    prefix(project, f"{RULES}\nBuilt {STAMP}.\n{RULES}")
    (found,) = lint(project, "--select", "volatile-before-stable")
    before = count_default(f"{FRAME[0]}{RULES}\nBuilt ") // UNIT
    assert (found["severity"], found["line"]) == ("warning", 62)
    total = int(found["message"].split(" of ")[-1].split()[0])
    assert f", {total - before} of {total} units" in found["message"]
    assert "nothing stays cached" not in found["message"]


@pytest.mark.parametrize(
    "text",
    [
        f"{RULES}Built {STAMP}.\n",
        f"Write times as `{STAMP}`.\n{RULES}",
        f"{{# cacheunit: ignore CU101: the epoch of our data #}}\nBuilt {STAMP}.\n{RULES}",
    ],
    ids=["at the end", "an example", "meant"],
)
def test_what_loses_nothing_or_is_meant_is_not_said_to_stand_in_front(project: Project, text: str) -> None:
    prefix(project, text)
    assert lint(project, "--select", "CU401") == []


def test_what_is_ignored_on_the_command_line_does_not_count_as_volatile(project: Project) -> None:
    prefix(project, f"Prices of 2026-11-30.\n{RULES}")
    assert [(f["code"], f["severity"]) for f in lint(project, "--select", "CU4")] == [("CU401", "warning")]
    assert lint(project, "--ignore", "CU102") == []


def test_an_estimate_claims_no_units(project: Project) -> None:
    prefix(project, f"Built {STAMP}.\n{RULES}", "targets: [openai]\n")
    (found,) = lint(project, "--select", "CU401")
    assert found["message"].startswith("when this changes, about 9")
    assert "unit" not in found["message"]


def test_tools_stand_in_front_of_the_text_and_so_does_what_is_volatile_in_them(project: Project) -> None:
    tool = '{"name": "find", "description": "Finds \\"all\\" (520445 entries)", "inputSchema": {"type": "object"}}'
    project.write({"tools/find.json": tool})
    prefix(project, f"{RULES}Built {STAMP}.\n{RULES}", "tools: [tools/find.json]\ntargets: [openai]\n")
    (found,) = lint(project, "--select", "CU401")
    assert (found["severity"], found["path"], found["line"]) == ("warning", "tools/find.json", 1)
    assert found["column"] == tool.index("520445") + 1
    assert found["message"].endswith("; nothing stays cached")
    (found,) = lint(project, "--select", "CU401", "--ignore", "CU107")
    assert (found["severity"], found["path"], found["line"]) == ("warning", "templates/a.md.j2", 61)


def test_tools_alone_are_linted_too(project: Project) -> None:
    tool = '{"name": "find", "description": "Finds all.\u200b", "inputSchema": {"type": "object"}}'
    project.write({"tools/find.json": tool, "prefixes/a.yaml": "targets: [openai]\ntools: [tools/find.json]\n"})
    found = [(f["code"], f["path"], f["line"]) for f in lint(project)]
    assert found == [("CU403", "prefixes/a.yaml", 2), ("CU302", "tools/find.json", 1)]


# Numbers


@pytest.mark.parametrize("past", [1, 2])
def test_a_few_tokens_over_a_unit_are_told(project: Project, past: int) -> None:
    prefix(project, sized(2 * UNIT + past))
    (found,) = lint(project)
    word = "1 token" if past == 1 else f"{past} tokens"
    assert (found["code"], found["severity"], found["path"], found["line"]) == ("CU402", "info", "prefixes/a.yaml", 1)
    assert found["message"] == f"for deepseek-v4: {word} past 2 units of 128, not padded"
    assert found["hint"] == f"cut {word}, or write {UNIT - past} more"


@pytest.mark.parametrize(("goal", "manifest"), [(256, ""), (270, ""), (300, 'padding: "off"\n')])
def test_aligned_padded_or_far_past_a_unit_is_no_finding(project: Project, goal: int, manifest: str) -> None:
    prefix(project, sized(goal), manifest)
    assert lint(project) == []


def test_less_than_a_unit_is_below_what_is_cached(project: Project) -> None:
    prefix(project, sized(100), 'padding: "off"\n')
    (found,) = lint(project)
    assert (found["code"], found["severity"]) == ("CU403", "warning")
    assert found["message"] == "for deepseek-v4: 100 static tokens, 28 below one unit of 128: nothing is cached"


def test_the_minimum_is_held_against_exact_counts_and_estimates(project: Project) -> None:
    project.write({"cacheunit.toml": "[target.high]\nextends = 'deepseek-v4'\ncache = {minimum = 1024}\n"})
    prefix(project, RULES[:2000], "targets: [high, openai]\n")
    prefix(project, RULES * 2, "targets: [high, openai]\n", "b")
    prefix(project, RULES + RULES[:500], "targets: [openai]\n", "c")
    found = [(f["prefix"], f["severity"], f["message"]) for f in lint(project, "--select", "CU403")]
    assert [(name, severity) for name, severity, _ in found] == [("a", "warning"), ("a", "warning"), ("c", "info")]
    assert "below the minimum of 1,024: nothing is cached" in found[0][2]
    assert "for openai: at most " in found[1][2]
    assert "too near the minimum of 1,024" in found[2][2]


def test_numbers_of_variants_are_one_finding_that_names_the_first(project: Project) -> None:
    prefix(project, "Speak {{ locale }}.", 'padding: "off"\nmatrix: {locale: [fr, Portuguese of Brazil]}\n')
    (found,) = lint(project, "--select", "CU403")
    assert found["prefix"] == "a"
    assert found["message"].startswith("a@locale=fr for deepseek-v4: ")


SOFT = "[target.soft]\nextends = 'deepseek-v4'\nframe = {before = '', after = ''}\n"


def test_a_soft_end_is_told_and_worse_where_it_costs_a_unit(project: Project) -> None:
    text = " so" * UNIT
    assert count_default(text) == UNIT
    project.write({"cacheunit.toml": SOFT})
    prefix(project, text, 'targets: [soft]\npadding: "off"\n')
    (found,) = [f for f in lint(project) if f["code"] == "CU404"]
    assert (found["severity"], found["path"], found["line"]) == ("warning", "prefixes/a.yaml", 1)
    assert found["message"] == "for soft: the last token may change with what follows: 1 unit of 128 less is cached"
    prefix(project, " so" * (UNIT + 40), 'targets: [soft]\npadding: "off"\n')
    (found,) = lint(project)
    assert (found["code"], found["severity"]) == ("CU404", "info")
    prefix(project, " so" * (UNIT + 40), 'padding: "off"\n')
    assert lint(project) == []


# What is shared, and where


def section(title: str) -> str:
    return f"## {title}\n{RULES.replace('Rule', title)[:1500]}\n\n"


def test_variants_that_part_in_front_of_what_they_share_are_told_where_and_what_to_move(project: Project) -> None:
    spoken = "{{ locale }}"
    text = f"# Agent\n\nSpeak {spoken}.\n\n{section('Tone')}Bye, {spoken}.\n\n{section('Prices')}"
    prefix(project, text, "matrix: {locale: [French, German]}\n")
    (found,) = lint(project, "--select", "CU405")
    assert (found["severity"], found["prefix"]) == ("warning", "a")
    # Until the source map says more, the value stands where the manifest spells it.
    assert (found["path"], found["line"]) in (("prefixes/a.yaml", 2), ("templates/a.md.j2", 3))
    assert "(0 units shared)" in found["message"]
    assert found["message"].startswith("2 variants part here, after ")
    assert found["hint"] == 'move to the front: "## Tone", "## Prices"'


def test_variants_that_share_units_and_part_in_front_of_less_are_told_mildly(project: Project) -> None:
    text = f"{RULES}\nSpeak {{{{ locale }}}}.\n\n{section('Tone')}"
    prefix(project, text, "matrix: {locale: [French, German]}\n")
    (found,) = lint(project, "--select", "CU405")
    assert found["severity"] == "info"
    units = count_default(f"{RULES}\nSpeak ") // UNIT
    assert f"({units} units shared)" in found["message"]


def test_variants_that_share_their_head_alone_are_no_finding(project: Project) -> None:
    prefix(project, f"{section('Tone')}{section('Prices')}In {{{{ locale }}}}.\n", "matrix: {locale: [fr, de]}\n")
    assert lint(project, "--select", "CU405") == []


def test_prefixes_that_share_most_but_not_their_beginning_are_told_in_which_order_they_would(project: Project) -> None:
    shared = section("Tone") + section("Prices")
    prefix(project, f"You sell bicycles.\n\n{shared}")
    prefix(project, f"You repair bicycles.\n\n{shared}Be brief.\n", name="b")
    prefix(project, f"You lend bicycles.\n\n{section('Lending')}{section('Prices')}", name="c")
    (found,) = lint(project, "--select", "CU406")
    assert (found["severity"], found["prefix"]) == ("info", "a")
    assert (found["path"], found["line"], found["column"]) == ("templates/a.md.j2", 1, 5)
    assert found["message"].startswith("a and b part here, after ")
    assert found["hint"] == 'in both, begin with "## Tone", "## Prices"'


@pytest.mark.parametrize(
    "texts",
    [
        (section("Tone") + section("Prices") + "Sell.\n", section("Tone") + section("Prices") + "Repair.\n"),
        (RULES + "\nSell.\n\n" + section("Tone"), RULES + "\nRepair.\n\n" + section("Tone")),
        ("Sell.\n\n" + section("Tone"), "Repair.\n\n" + section("Prices")),
        ("Sell.\n\nBe brief.\n", "Repair.\n\nBe brief.\n"),
    ],
    ids=["share their head", "share most at their head", "share nothing", "share little"],
)
def test_other_pairs_are_no_finding(project: Project, texts: tuple[str, str]) -> None:
    for name, text in zip("ab", texts, strict=True):
        prefix(project, text, name=name)
    assert lint(project, "--select", "CU406") == []


def test_prefixes_of_different_targets_are_not_compared(project: Project) -> None:
    prefix(project, f"Sell.\n\n{section('Tone')}")
    prefix(project, f"Repair.\n\n{section('Tone')}", "targets: [openai]\n", "b")
    assert lint(project, "--select", "CU406") == []
