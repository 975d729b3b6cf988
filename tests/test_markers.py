"""Cache markers stand where the manifest says, carry its lifetimes, and leave the conversation one of its own."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from cacheunit_build import CacheunitError, load

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Project

SENTENCE = "The agent answers questions about orders, and never guesses. "
HEAD, MIDDLE, TAIL = SENTENCE * 150, "The plan is {{ plan }}. " * 40, "It closes with a greeting. " * 40
TOOL = {"name": "find_order", "description": "Finds an order. " * 400, "parameters": {"properties": {}}}
USER = [{"role": "user", "content": "Hi"}]
FAMILY = "targets: [{targets}]\nsystem: [head.md, plan.md, tail.md]\nmatrix: {{plan: [free, pro]}}\n"


@pytest.fixture
def family(project: Project) -> Project:
    """Returns a project with the sources of a family of two variants, but no manifest."""
    project.write({"templates/head.md": HEAD, "templates/plan.md": MIDDLE, "templates/tail.md": TAIL})
    project.write({"tools.json": json.dumps(TOOL)})
    return project


def built(project: Project, manifest: str, target: str = "anthropic-512") -> dict[str, Any]:
    """Builds the manifest, and returns the artifact of its first variant as the JSON report has it."""
    project.write({"prefixes/a.yaml": manifest})
    artifacts = project.run("build", "--format", "json").json["artifacts"]
    found: dict[str, Any] = next(item for item in artifacts if item["target"] == target)
    return found


def fragment(project: Project, target: str = "anthropic-512", name: str = "a@plan=free") -> Any:  # noqa: ANN401
    return json.loads(project.read(f"build/{name}/{target}.json"))


def marks(blocks: list[Any]) -> list[Any]:
    """Returns the marker of each block; None where it has none."""
    return [block.get("cache_control") or block.get("prompt_cache_breakpoint") for block in blocks]


EPHEMERAL = {"type": "ephemeral"}


def test_a_list_of_templates_gives_a_block_each_and_the_text_is_their_concatenation(family: Project) -> None:
    built(family, FAMILY.format(targets="anthropic-512, openai-legacy"))
    blocks = fragment(family)["system"]
    assert [block["text"][:9] for block in blocks] == [HEAD[:9], "\n\nThe pla", "\n\nIt clos"]
    text = family.read("build/a@plan=free/anthropic-512.txt").decode()
    assert "".join(block["text"] for block in blocks) == text
    assert fragment(family, "openai-legacy")["messages"][0]["content"] == text  # nothing is marked there


def test_markers_stand_behind_tools_the_shared_text_and_the_prefix(family: Project) -> None:
    artifact = built(family, FAMILY.format(targets="anthropic-512") + "tools: [tools.json]\n")
    request = fragment(family)
    assert marks(request["tools"]) == [EPHEMERAL]
    assert marks(request["system"]) == [EPHEMERAL, None, EPHEMERAL]
    tools, shared, end = artifact["markers"]
    assert 0 < tools < shared < end == artifact["tokens"]
    assert "a marker stands behind the tools (" in artifact["reason"]


def test_all_variants_have_the_same_early_markers(family: Project) -> None:
    built(family, FAMILY.format(targets="anthropic-512, openai") + "tools: [tools.json]\n")
    for target, part in (("anthropic-512", "system"), ("openai", "input")):
        heads = []
        for plan in ("free", "pro"):
            request = fragment(family, target, f"a@plan={plan}")
            blocks = request[part] if part == "system" else request["input"][0]["content"]
            heads.append((request["tools"], blocks[:1]))
        assert heads[0] == heads[1]


@pytest.mark.parametrize(
    ("manifest", "marked"),
    [
        pytest.param("system: [head.md, tail.md]", [False, True], id="no matrix: the text is shared as a whole"),
        pytest.param("system: [plan.md, head.md]\nmatrix: {plan: [a]}", [False, True], id="the first block reads it"),
        pytest.param("system: [head.md, plan.md]\nmatrix: {plan: [a]}", [True, True], id="the second block reads it"),
        pytest.param(
            "system: [head.md, tail.md, plan.md]\nmatrix: {plan: [a]}", [False, True, True], id="two shared blocks"
        ),
        pytest.param(
            "system: [head.md, blank.md, plan.md]\nmatrix: {plan: [a]}", [True, True], id="a blank block joins another"
        ),
        pytest.param(
            "system: [blank.md, plan.md, head.md]\nmatrix: {plan: [a]}", [False, True], id="a blank block is first"
        ),
        pytest.param(
            "system: [head.md, includes.md]\nmatrix: {plan: [a]}", [True, True], id="an included template reads it"
        ),
        pytest.param(
            "system: [head.md, asks.md, tail.md]\nmatrix: {plan: [a, b]}",
            [True, False, True],
            id="it is only asked for",
        ),
    ],
)
def test_the_shared_marker_ends_the_last_block_that_reads_no_axis(
    family: Project, manifest: str, marked: list[bool]
) -> None:
    family.write({"templates/blank.md": " \n"})
    family.write({"templates/includes.md": "{% include 'plan.md' %}"})
    family.write({"templates/asks.md": "{% if plan == 'z' %}Never.{% endif %}Always the same. " * 20})
    built(family, f"targets: [anthropic-512]\n{manifest}\n")
    name = "a" if "matrix" not in manifest else "a@plan=a"
    assert [mark is not None for mark in marks(fragment(family, name=name)["system"])] == marked


@pytest.mark.parametrize(
    "condition", ["{% if plan == 'pro' %}For pro.{% endif %}", " {% if plan == 'pro' %}P{% endif %} "]
)
def test_a_block_that_is_blank_in_one_variant_leaves_the_shared_one_as_it_is(family: Project, condition: str) -> None:
    family.write({"templates/plan.md": f"{condition}\n"})
    built(family, FAMILY.format(targets="anthropic-512"))
    free, pro = (fragment(family, name=f"a@plan={plan}")["system"] for plan in ("free", "pro"))
    assert free[0] == pro[0]
    assert marks(free) == [EPHEMERAL, EPHEMERAL]
    assert marks(pro) == [EPHEMERAL, None, EPHEMERAL]


def test_a_build_of_one_variant_places_its_markers_as_a_build_of_all(family: Project) -> None:
    built(family, FAMILY.format(targets="anthropic-512"))
    before = family.read("build/a@plan=pro/anthropic-512.json")
    family.edit("templates/tail.md", "greeting", "salute")
    family.edit("templates/tail.md", "salute", "greeting")
    family.run("build", "a@plan=pro")
    assert family.read("build/a@plan=pro/anthropic-512.json") == before


def test_an_early_marker_that_may_be_below_the_minimum_is_dropped_and_the_plan_says_so(family: Project) -> None:
    family.write({"templates/head.md": SENTENCE * 70})  # ~770 tokens, 385 to 1,155
    artifact = built(family, FAMILY.format(targets="anthropic-512"))
    assert marks(fragment(family)["system"]) == [None, None, EPHEMERAL]
    assert re.search(
        r"no marker behind the text that all variants share: ~\d+ tokens may be below the minimum of 512",
        artifact["reason"],
    )


def test_tools_are_marked_only_where_a_format_can(family: Project) -> None:
    artifact = built(family, FAMILY.format(targets="openai") + "tools: [tools.json]\n", "openai")
    request = fragment(family, "openai")
    assert marks(request["tools"]) == [None]
    assert marks(request["input"][0]["content"]) == [{"mode": "explicit"}, None, {"mode": "explicit"}]
    assert len(artifact["markers"]) == 2


def test_a_request_has_room_for_the_marker_of_the_conversation(family: Project) -> None:
    built(family, FAMILY.format(targets="anthropic-512") + "tools: [tools.json]\n")
    prefix = load("a", plan="free", root=str(family.root))
    request = prefix.request(USER, conversation_marker=True)
    text = json.dumps(request)
    assert text.count("cache_control") == 4


# Lifetimes


def test_a_lifetime_is_on_every_marker_and_in_the_lock(family: Project) -> None:
    artifact = built(family, FAMILY.format(targets="anthropic-512") + "cache: {ttl: 1h}\n")
    hour = {"type": "ephemeral", "ttl": "1h"}
    assert marks(fragment(family)["system"]) == [hour, None, hour]
    assert artifact["lifetimes"] == ["1h", "1h"]
    entry = json.loads(family.read("cacheunit.lock"))["prefixes"]["a@plan=free"]["anthropic-512"]
    assert entry["lifetimes"] == ["1h", "1h"]


@pytest.mark.parametrize(
    ("ttl", "expected"),
    [
        ("{shared: 1h}", ["1h", None]),
        ("{tools: 1h}", [None, None]),
        ("{prefix: 1h}", ["1h", "1h"]),  # what stands in front lives at least as long
        ("{shared: 1h, prefix: 5m}", ["1h", "5m"]),
    ],
)
def test_each_marker_may_have_its_own_lifetime(family: Project, ttl: str, expected: list[str | None]) -> None:
    built(family, FAMILY.format(targets="anthropic-512") + f"cache: {{ttl: {ttl}}}\n")
    head, _, end = marks(fragment(family)["system"])
    assert [head.get("ttl"), end.get("ttl")] == expected


def test_a_lifetime_of_the_whole_request_is_an_option_of_it(family: Project) -> None:
    artifact = built(family, FAMILY.format(targets="openai-legacy") + "cache: {ttl: 24h}\n", "openai-legacy")
    assert fragment(family, "openai-legacy")["prompt_cache_retention"] == "24h"
    assert artifact["lifetimes"] == ["24h"]


@pytest.mark.parametrize("target", ["openai-legacy", "gemini-explicit"])
def test_a_lifetime_that_a_target_has_no_marker_for_is_named(family: Project, target: str) -> None:
    artifact = built(family, FAMILY.format(targets=target) + "cache: {ttl: {tools: 24h}}\n", target)
    assert "24h is not used: the target has one lifetime for all, that of the prefix" in artifact["reason"]
    assert artifact["lifetimes"] == []


def test_the_price_of_a_lifetime_is_that_of_its_marker(family: Project, tmp_path: Path) -> None:
    built(family, FAMILY.format(targets="anthropic-512") + "cache: {ttl: {shared: 1h}}\n")
    shutil.copytree(family.root, tmp_path / "old")
    family.edit("templates/head.md", "The agent", "An agent")
    (change, _) = family.run("diff", "--against", tmp_path / "old", "--format", "json").json["changes"]
    (head, end) = family.run("build", "--format", "json").json["artifacts"][0]["markers"]
    assert change["still_cached"] == 0
    assert change["cost"]["one_time"] == pytest.approx(head * 2 + (end - head) * 1.25 - end * 0.1, rel=1e-6)


@pytest.mark.parametrize(
    ("cache", "error"),
    [
        ("{ttl: soon}", '"soon" is not a lifetime'),
        ("{ttl: {tools: 0m}}", '"0m" is not a lifetime'),
        ("{ttl: 2h}", "no target of the manifest has a lifetime of 2h"),
        (
            "{ttl: {tools: 5m, prefix: 1h}}",
            'the lifetime of "prefix", 1h, is longer than that of "tools" in front of it, 5m',
        ),
        ("{ttl: {end: 5m}}", 'unknown key "end"'),
        ("{ttl: 5}", '"cache.ttl" must be'),
    ],
)
def test_a_wrong_lifetime_is_one_fault_at_its_line(family: Project, cache: str, error: str) -> None:
    family.write({"prefixes/a.yaml": FAMILY.format(targets="anthropic-512") + f"cache: {cache}\n"})
    result = family.run("build")
    assert result.code == 2
    assert result.err.count("error: ") == 1
    assert f"prefixes/a.yaml:4: {error}" in result.err
    assert not (family.root / "build").exists()


def test_a_target_without_the_lifetime_keeps_its_own_and_says_so(family: Project) -> None:
    artifact = built(family, FAMILY.format(targets="anthropic-512, openai") + "cache: {ttl: 1h}\n", "openai")
    assert "the target has no lifetime of 1h, so the provider's own is used" in artifact["reason"]
    assert "lifetimes" not in json.loads(family.read("cacheunit.lock"))["prefixes"]["a@plan=free"]["openai"]


def test_the_conversation_is_not_marked_for_longer_than_the_prefix(family: Project) -> None:
    built(family, FAMILY.format(targets="anthropic-512"))
    prefix = load("a", plan="free", root=str(family.root))
    with pytest.raises(CacheunitError, match="a cache marker with a lifetime of 1h stands behind one of 5m"):
        prefix.request(USER, conversation_marker="1h")
    with pytest.raises(CacheunitError, match="has no lifetime of '2h'"):
        prefix.request(USER, conversation_marker="2h")
    built(family, FAMILY.format(targets="anthropic-512") + "cache: {ttl: 1h}\n")
    request = load("a", plan="free", root=str(family.root)).request(USER, conversation_marker="1h")
    assert request["messages"][-1]["content"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


# Cache keys


def test_all_variants_and_versions_of_a_prefix_have_one_cache_key(family: Project) -> None:
    family.write({"cacheunit.toml": 'project = "shop"\n'})
    built(family, FAMILY.format(targets="openai, openai-legacy, mistral, anthropic-512"))
    assert "prompt_cache_key" not in fragment(family, "anthropic-512")
    keys = {
        fragment(family, target, f"a@plan={plan}")["prompt_cache_key"]
        for target in ("openai", "openai-legacy", "mistral")
        for plan in ("free", "pro")
    }
    family.edit("templates/head.md", "never guesses", "never ever guesses")
    built(family, FAMILY.format(targets="openai"), "openai")
    keys.add(fragment(family, "openai")["prompt_cache_key"])
    assert len(keys) == 1
    assert re.fullmatch("[0-9a-f]{64}", *keys)


def test_a_cache_key_is_made_of_the_names_of_project_and_prefix(family: Project) -> None:
    def key(settings: dict[str, str], name: str = "a") -> str:
        for file in ("cacheunit.toml", "pyproject.toml"):
            (family.root / file).unlink(missing_ok=True)
        family.write({**settings, f"prefixes/{name}.yaml": "system: tail.md\ntargets: [openai]\n"})
        family.run("build")
        return str(fragment(family, "openai", name)["prompt_cache_key"])

    shop = key({"cacheunit.toml": 'project = "shop"\n'})
    assert key({"pyproject.toml": '[project]\nname = "shop"\n'}) == shop
    assert key({"pyproject.toml": '[project]\nname = "x"\n[tool.cacheunit]\nproject = "shop"\n'}) == shop
    assert len({shop, key({}), key({"cacheunit.toml": 'project = "bank"\n'}), key({}, "b")}) == 4


def test_a_request_may_choose_another_cache_key(family: Project) -> None:
    built(family, FAMILY.format(targets="openai"), "openai")
    prefix = load("a", plan="free", root=str(family.root))
    assert prefix.request(USER, prompt_cache_key="mine")["prompt_cache_key"] == "mine"
    assert prefix.request(USER)["prompt_cache_key"] == fragment(family, "openai")["prompt_cache_key"]


@pytest.mark.parametrize(
    "others",
    [
        {"prompt_cache_options": {"mode": "explicit"}},
        {"extra_body": {"prompt_cache_options": {"mode": "explicit"}}},
    ],
)
def test_retention_and_cache_options_are_not_sent_together(family: Project, others: dict[str, Any]) -> None:
    built(family, FAMILY.format(targets="openai-legacy") + "cache: {ttl: 24h}\n", "openai-legacy")
    prefix = load("a", plan="free", root=str(family.root))
    with pytest.raises(CacheunitError, match="of which its API takes only one"):
        prefix.request(USER, **others)
    built(family, FAMILY.format(targets="openai-legacy"), "openai-legacy")
    prefix = load("a", plan="free", root=str(family.root))
    assert prefix.request(USER, prompt_cache_retention="24h")["prompt_cache_retention"] == "24h"
