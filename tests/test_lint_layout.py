"""Lint rules about layout: token counts against the target's cache rule, and the order of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support import count_default

if TYPE_CHECKING:
    from conftest import Project

Violation = dict[str, Any]

UNIT = 128
TIMESTAMP = "2026-11-30T03:22:43Z"
FRAME = "<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cUser\uff5c>"
RULES = "".join(
    f"Rule {number}: answer question {number} of the guest in one plain sentence.\n" for number in range(60)
)


def lint(project: Project, *arguments: str) -> list[Violation]:
    ran = project.run("lint", "--format", "json", *arguments)
    assert ran.err == ""
    violations: list[Violation] = ran.json["findings"]
    assert ran.code == int(any(violation["severity"] == "error" for violation in violations))
    return violations


def write_prefix(project: Project, text: str, manifest: str = "", name: str = "a") -> None:
    project.write({f"prefixes/{name}.yaml": f"system: {name}.md.j2\n{manifest}", f"templates/{name}.md.j2": text})


def tokens(text: str) -> int:
    """Returns the static tokens of a text at the default target."""
    return count_default(FRAME[0] + text + FRAME[1])


def text_of(static_tokens: int) -> str:
    """Returns a text with exactly that many static tokens."""
    text = "Answer"
    while tokens(text) < static_tokens:
        text += " so"
    assert tokens(text) == static_tokens
    return text


# Volatile text before stable text


def test_a_timestamp_in_the_first_unit_is_an_error_since_nothing_stays_cached(project: Project) -> None:
    text = f"Built {TIMESTAMP}.\n{RULES}"
    write_prefix(project, text)
    (violation,) = lint(project, "--select", "CU401")
    lost = tokens(text) - count_default(f"{FRAME[0]}Built ")
    padded = lost + -tokens(text) % UNIT
    units = (padded + UNIT - 1) // UNIT
    assert (violation["severity"], violation["path"], violation["line"], violation["column"]) == (
        "error",
        "templates/a.md.j2",
        1,
        7,
    )
    assert violation["message"] == (
        f"a change here recomputes {padded:,} tokens ({units} of {units} units); nothing stays cached"
    )


def test_a_timestamp_behind_the_first_unit_is_a_warning_and_counts_the_lost_units(project: Project) -> None:
    write_prefix(project, f"{RULES}\nBuilt {TIMESTAMP}.\n{RULES}")
    (violation,) = lint(project, "--select", "volatile-before-stable")
    before = count_default(f"{FRAME[0]}{RULES}\nBuilt ") // UNIT
    assert (violation["severity"], violation["line"]) == ("warning", 62)
    total = int(violation["message"].split(" of ")[-1].split()[0])
    assert f"({total - before} of {total} units)" in violation["message"]
    assert "nothing stays cached" not in violation["message"]


@pytest.mark.parametrize(
    "text",
    [
        f"{RULES}Built {TIMESTAMP}.\n",
        f"Write times as `{TIMESTAMP}`.\n{RULES}",
        f"{{# cacheunit: ignore CU101: the epoch of our data #}}\nBuilt {TIMESTAMP}.\n{RULES}",
    ],
    ids=["at the end", "an example", "suppressed"],
)
def test_volatile_text_at_the_end_in_examples_or_suppressed_is_not_reported_as_before_stable(
    project: Project, text: str
) -> None:
    write_prefix(project, text)
    assert lint(project, "--select", "CU401") == []


def test_text_of_an_ignored_rule_does_not_count_as_volatile(project: Project) -> None:
    write_prefix(project, f"Prices of 2026-11-30.\n{RULES}")
    assert [(f["code"], f["severity"]) for f in lint(project, "--select", "CU4")] == [("CU401", "warning")]
    assert lint(project, "--ignore", "CU102") == []


def test_an_estimate_claims_no_units(project: Project) -> None:
    write_prefix(project, f"Built {TIMESTAMP}.\n{RULES}", "targets: [openai]\n")
    (violation,) = lint(project, "--select", "CU401")
    assert violation["message"].startswith("a change here recomputes ~9")
    assert "unit" not in violation["message"]


def test_volatile_text_in_tools_comes_before_the_system_text(project: Project) -> None:
    tool = '{"name": "find", "description": "Finds \\"all\\" (520445 entries)", "inputSchema": {"type": "object"}}'
    project.write({"tools/find.json": tool})
    write_prefix(project, f"{RULES}Built {TIMESTAMP}.\n{RULES}", "tools: [tools/find.json]\ntargets: [openai]\n")
    (violation,) = lint(project, "--select", "CU401")
    assert (violation["severity"], violation["path"], violation["line"]) == ("warning", "tools/find.json", 1)
    assert violation["column"] == tool.index("520445") + 1
    assert violation["message"].endswith("; nothing stays cached")
    (violation,) = lint(project, "--select", "CU401", "--ignore", "CU107")
    assert (violation["severity"], violation["path"], violation["line"]) == ("warning", "templates/a.md.j2", 61)


def test_tools_alone_are_linted_too(project: Project) -> None:
    tool = '{"name": "find", "description": "Finds all.\u200b", "inputSchema": {"type": "object"}}'
    project.write({"tools/find.json": tool, "prefixes/a.yaml": "targets: [openai]\ntools: [tools/find.json]\n"})
    violations = [(f["code"], f["path"], f["line"]) for f in lint(project)]
    assert violations == [("CU403", "prefixes/a.yaml", 2), ("CU302", "tools/find.json", 1)]


# Token counts


@pytest.mark.parametrize("past", [1, 2])
def test_a_few_tokens_over_a_unit_are_reported(project: Project, past: int) -> None:
    write_prefix(project, text_of(2 * UNIT + past))
    (violation,) = lint(project)
    word = "1 token" if past == 1 else f"{past} tokens"
    assert (violation["code"], violation["severity"], violation["path"], violation["line"]) == (
        "CU402",
        "info",
        "prefixes/a.yaml",
        1,
    )
    assert violation["message"] == f"for deepseek-v4: {word} past 2 units of 128, not padded"
    assert violation["hint"] == f"remove {word}, or add {UNIT - past} more"


@pytest.mark.parametrize(("goal", "manifest"), [(256, ""), (270, ""), (300, 'padding: "off"\n')])
def test_aligned_padded_or_far_past_a_unit_is_not_reported(project: Project, goal: int, manifest: str) -> None:
    write_prefix(project, text_of(goal), manifest)
    assert lint(project) == []


def test_less_than_a_unit_is_below_the_minimum(project: Project) -> None:
    write_prefix(project, text_of(100), 'padding: "off"\n')
    (violation,) = lint(project)
    assert (violation["code"], violation["severity"]) == ("CU403", "warning")
    assert violation["message"] == "for deepseek-v4: 100 static tokens, 28 below one unit of 128: nothing is cached"


def test_exact_counts_and_estimates_are_compared_with_the_minimum(project: Project) -> None:
    project.write({"cacheunit.toml": "[target.high]\nextends = 'deepseek-v4'\ncache = {minimum = 1024}\n"})
    write_prefix(project, RULES[:2000], "targets: [high, openai]\n")
    write_prefix(project, RULES * 2, "targets: [high, openai]\n", "b")
    write_prefix(project, RULES + RULES[:500], "targets: [openai]\n", "c")
    violations = [(f["prefix"], f["severity"], f["message"]) for f in lint(project, "--select", "CU403")]
    assert [(name, severity) for name, severity, _ in violations] == [("a", "warning"), ("a", "warning"), ("c", "info")]
    assert "below the minimum of 1,024: nothing is cached" in violations[0][2]
    assert "for openai: at most " in violations[1][2]
    assert "too close to the minimum of 1,024" in violations[2][2]


def test_the_token_counts_of_variants_are_one_violation_that_names_the_first(project: Project) -> None:
    write_prefix(project, "Speak {{ locale }}.", 'padding: "off"\nmatrix: {locale: [fr, Portuguese of Brazil]}\n')
    (violation,) = lint(project, "--select", "CU403")
    assert violation["prefix"] == "a"
    assert violation["message"].startswith("a@locale=fr for deepseek-v4: ")


UNFRAMED = "[target.unframed]\nextends = 'deepseek-v4'\nframe = {before = '', after = ''}\n"


def test_an_unstable_end_is_info_and_a_warning_if_it_costs_a_unit(project: Project) -> None:
    text = " so" * UNIT
    assert count_default(text) == UNIT
    project.write({"cacheunit.toml": UNFRAMED})
    write_prefix(project, text, 'targets: [unframed]\npadding: "off"\n')
    (violation,) = [f for f in lint(project) if f["code"] == "CU404"]
    assert (violation["severity"], violation["path"], violation["line"]) == ("warning", "prefixes/a.yaml", 1)
    assert (
        violation["message"]
        == "for unframed: the last token may change with the text that follows, so 1 more unit of 128 is not cached"
    )
    write_prefix(project, " so" * (UNIT + 40), 'targets: [unframed]\npadding: "off"\n')
    (violation,) = lint(project)
    assert (violation["code"], violation["severity"]) == ("CU404", "info")
    write_prefix(project, " so" * (UNIT + 40), 'padding: "off"\n')
    assert lint(project) == []


# Shared text


def section(title: str) -> str:
    return f"## {title}\n{RULES.replace('Rule', title)[:1500]}\n\n"


def test_variants_that_diverge_before_shared_text_are_reported_with_the_text_to_move(project: Project) -> None:
    spoken = "{{ locale }}"
    text = f"# Agent\n\nSpeak {spoken}.\n\n{section('Tone')}Bye, {spoken}.\n\n{section('Prices')}"
    write_prefix(project, text, "matrix: {locale: [French, German]}\n")
    (violation,) = lint(project, "--select", "CU405")
    assert (violation["severity"], violation["prefix"]) == ("warning", "a")
    # The manifest spells the value, and the template prints it.
    assert (violation["path"], violation["line"]) in (("prefixes/a.yaml", 2), ("templates/a.md.j2", 3))
    assert "(0 units shared)" in violation["message"]
    assert violation["message"].startswith("2 variants diverge here, after ")
    assert violation["hint"] == 'move to the front: "## Tone", "## Prices"'


def test_variants_that_share_units_and_diverge_before_less_text_are_info(project: Project) -> None:
    text = f"{RULES}\nSpeak {{{{ locale }}}}.\n\n{section('Tone')}"
    write_prefix(project, text, "matrix: {locale: [French, German]}\n")
    (violation,) = lint(project, "--select", "CU405")
    assert violation["severity"] == "info"
    units = count_default(f"{RULES}\nSpeak ") // UNIT
    assert f"({units} units shared)" in violation["message"]


def test_variants_that_share_only_their_beginning_are_not_reported(project: Project) -> None:
    write_prefix(project, f"{section('Tone')}{section('Prices')}In {{{{ locale }}}}.\n", "matrix: {locale: [fr, de]}\n")
    assert lint(project, "--select", "CU405") == []


def test_prefixes_that_share_most_text_but_not_their_beginning_are_reported(project: Project) -> None:
    shared = section("Tone") + section("Prices")
    write_prefix(project, f"You sell bicycles.\n\n{shared}")
    write_prefix(project, f"You repair bicycles.\n\n{shared}Be brief.\n", name="b")
    write_prefix(project, f"You lend bicycles.\n\n{section('Lending')}{section('Prices')}", name="c")
    (violation,) = lint(project, "--select", "CU406")
    assert (violation["severity"], violation["prefix"]) == ("info", "a")
    assert (violation["path"], violation["line"], violation["column"]) == ("templates/a.md.j2", 1, 5)
    assert violation["message"].startswith("a and b diverge here, after ")
    assert violation["hint"] == 'begin both with "## Tone", "## Prices"'


@pytest.mark.parametrize(
    "texts",
    [
        (section("Tone") + section("Prices") + "Sell.\n", section("Tone") + section("Prices") + "Repair.\n"),
        (RULES + "\nSell.\n\n" + section("Tone"), RULES + "\nRepair.\n\n" + section("Tone")),
        ("Sell.\n\n" + section("Tone"), "Repair.\n\n" + section("Prices")),
        ("Sell.\n\nBe brief.\n", "Repair.\n\nBe brief.\n"),
    ],
    ids=["share their beginning", "share most at their beginning", "share nothing", "share little"],
)
def test_other_pairs_of_prefixes_are_not_reported(project: Project, texts: tuple[str, str]) -> None:
    for name, text in zip("ab", texts, strict=True):
        write_prefix(project, text, name=name)
    assert lint(project, "--select", "CU406") == []


def test_prefixes_of_different_targets_are_not_compared(project: Project) -> None:
    write_prefix(project, f"Sell.\n\n{section('Tone')}")
    write_prefix(project, f"Repair.\n\n{section('Tone')}", "targets: [openai]\n", "b")
    assert lint(project, "--select", "CU406") == []
