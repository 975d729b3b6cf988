"""Targets whose vocabulary is published and whose frame is not: the count, and a margin for what is not known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from cacheunit_build.adapters.storage import installed_files
from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
from cacheunit_build.compiler.tool_declarations import tool_declarations
from cacheunit_build.domain.target import FrameEstimate, TokenizerSpec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from conftest import Project

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "number": {"type": "string", "description": "The number on the invoice.\nWith its year.", "pattern": "[0-9]+"},
        "state": {"type": ["string", "null"], "enum": ["open", "paid", None], "default": "open"},
        "limit": {"type": "integer", "minimum": 1},
        "tags": {"type": "array", "items": {"type": "string"}},
        "place": {
            "description": "Where it was sent.",
            "type": "object",
            "properties": {"city": {"type": "string", "description": "The city."}, "at": {}},
            "required": ["city"],
        },
        "since": {"anyOf": [{"type": "number"}, {"type": "null"}]},
    },
    "required": ["number"],
}
TOOL = {"name": "find_order", "description": "Find an order.", "parameters": PARAMETERS}
DECLARED = """\
namespace functions {

// Find an order.
type find_order = (_: {
// The number on the invoice.
// With its year.
number: string,
state?: "open" | "paid" | null, // default: "open"
limit?: number,
tags?: string[],
// Where it was sent.
place?: {
  // The city.
  city: string,
  at?: any,
},
since?: number | null,
}) => any;

type now = () => any;

{"type":"web_search"}
} // namespace functions"""
TEXT = "Answer in one sentence, and name the order that you speak of.\n" * 30
OWN = '[target.own]\nextends = "openai"\n[target.own.tokenizer]\nencoding = "o200k_base"\n'


@pytest.fixture
def shop(project: Project) -> Project:
    """Returns a project with a tool, for each target that a test writes into its manifest."""
    project.write({"templates/a.j2": TEXT, "tools/tools.json": json.dumps([TOOL]), "cacheunit.toml": OWN})
    return project


def built(project: Project, manifest: str) -> Mapping[str, Any]:
    """Builds one prefix, and returns its only entry in the lock."""
    project.write({"prefixes/a.yaml": f"system: a.j2\n{manifest}"})
    project.build()
    (entry,) = json.loads(project.read("cacheunit.lock"))["prefixes"]["a"].values()
    return dict(entry)


def reason(project: Project) -> str:
    """Returns the reason of the plan of the only artifact."""
    (artifact,) = project.run("explain", "a", "--format", "json").json["artifacts"]
    return str(artifact["reason"])


def tokens(text: str) -> int:
    """Returns the tokens of a text in the vocabulary of GPT-4o and GPT-5."""
    return len(LocalTokenizerLoader(lambda _: None).load(TokenizerSpec(encoding="o200k_base")).encode(text))


def test_tools_are_declared_as_in_typescript() -> None:
    tools: list[dict[str, Any]] = [
        {"type": "function", "function": TOOL},
        {"function": {"name": "now"}},
        {"type": "web_search"},
    ]
    assert tool_declarations(tools) == DECLARED
    assert tool_declarations([]) == ""


def test_text_for_openai_is_counted_in_its_vocabulary_within_a_few_tokens(shop: Project) -> None:
    entry = built(shop, "targets: [openai-legacy]\n")
    assert (entry["counted"], entry["tokens"], "token_ids" in entry) == ("estimate", tokens(TEXT), False)
    assert entry["margin"] * entry["tokens"] <= 2 * 5 + entry["tokens"] / 100
    assert shop.check()["ok"]


def test_tools_for_openai_widen_the_margin_by_their_own_share_only(shop: Project) -> None:
    plain = built(shop, "targets: [openai-legacy]\n")
    entry = built(shop, "targets: [openai-legacy]\ntools: [tools/tools.json]\n")
    (tool,) = json.loads(shop.read("build/a/openai-legacy.json"))["tools"]
    declared, as_json = tokens(tool_declarations([tool])), tokens(json.dumps(tool["function"]))
    assert abs(entry["tokens"] - plain["tokens"] - declared) <= 1
    assert plain["margin"] < entry["margin"] < 0.2
    assert "the margin is for what the provider puts around messages and tools" in reason(shop)
    assert entry["tokens"] * (1 + entry["margin"]) >= plain["tokens"] + 10 + min(as_json, 1.3 * declared)


def test_worked_examples_are_messages_of_the_margin(shop: Project) -> None:
    shop.write({"templates/a.j2": "Be kind."})
    examples = "- {role: user, text: Where is it?}\n- {role: assistant, text: On its way.}\n" * 4
    entry = built(shop, f"targets: [openai-legacy]\nexamples:\n{examples}")
    assert entry["margin"] == min(99, -(-100 * 10 * 5 // entry["tokens"])) / 100


def test_a_response_schema_is_counted_and_widens_the_margin(shop: Project) -> None:
    plain = built(shop, "targets: [openai-legacy]\n")
    schema = json.dumps({"type": "json_schema", "json_schema": {"name": "order", "schema": PARAMETERS}})
    entry = built(shop, f"targets: [openai-legacy]\noptions: {{response_format: {schema}}}\n")
    assert entry["tokens"] > plain["tokens"] + 100
    assert entry["margin"] > plain["margin"]


def test_control_tokens_are_characters_for_openai(shop: Project) -> None:
    shop.write({"templates/a.j2": "A text ends with <|endoftext|> in some files."})
    assert built(shop, "targets: [openai-legacy]\n")["tokens"] > tokens("A text ends with <|endoftext|> in some files.")


def test_a_vocabulary_of_ones_own_without_a_frame_counts_text_exactly_and_tools_as_an_estimate(shop: Project) -> None:
    alone = built(shop, "targets: [own]\n")
    assert (alone["counted"], "margin" in alone) == ("exact", False)
    entry = built(shop, "targets: [own]\ntools: [tools/tools.json]\n")
    assert (entry["counted"], "token_ids" in entry) == ("estimate", False)
    assert entry["tokens"] > alone["tokens"] + 100
    defaults = FrameEstimate()
    assert entry["margin"] * entry["tokens"] >= 2 * defaults.message_margin + defaults.preamble_margin
    assert shop.check()["ok"]


def test_a_target_with_a_frame_that_has_no_place_for_tools_still_refuses_them(shop: Project) -> None:
    shop.write({"cacheunit.toml": OWN + '[target.own.frame]\nbefore = "<|system|>"\n'})
    shop.write({"prefixes/a.yaml": "system: a.j2\ntargets: [own]\ntools: [tools/tools.json]\n"})
    ran = shop.run("build")
    assert (ran.code, "the target's frame has no template for tools" in ran.err) == (2, True)


def test_targets_shows_what_the_margin_of_an_estimated_frame_is_for(shop: Project) -> None:
    shown = (
        "not published: ±5 tokens around each message, ±10 and ±30 % for tools, counted as declarations of TypeScript"
    )
    assert shown in shop.run("targets", "openai-legacy").out
    assert "not published" not in shop.run("targets", "own").out


def test_an_estimated_frame_excludes_another_one(shop: Project) -> None:
    shop.write({"cacheunit.toml": OWN + '[target.own.frame]\nbefore = "<s>"\nestimate = {message_margin = 3}\n'})
    ran = shop.run("targets", "own")
    assert ran.code == 2
    assert 'takes one of "before" and "after", "chat_template", "encoder", or "estimate"' in ran.err
    assert "cacheunit.toml:5" in ran.err


def test_without_the_vocabulary_a_build_names_the_command_and_writes_nothing(
    shop: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalTokenizerLoader, "load", LocalTokenizerLoader.__dict__["_load"])
    monkeypatch.setattr(installed_files, "package_folders", lambda _: [str(tmp_path)])
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    shop.write({"prefixes/a.yaml": "system: a.j2\ntargets: [openai-legacy]\n"})
    before = shop.snapshot()
    ran = shop.run("build")
    assert ran.code == 2
    assert 'target "openai-legacy": encoding "o200k_base" needs the file o200k_base.tiktoken' in ran.err
    assert 'pip install "cacheunit-build[openai]"' in ran.err
    assert shop.snapshot() == before


def test_an_estimate_in_its_own_vocabulary_takes_recorded_counts(shop: Project) -> None:
    shop.write({"cacheunit.toml": OWN.replace("[target.own.tok", 'count_model = "gpt-6-sol"\n[target.own.tok', 1)})
    estimate = built(shop, "targets: [own]\ntools: [tools/tools.json]\n")
    (asked,) = shop.run("calibrate", "--dry-run", "--format", "json").json["asked"]
    assert (asked["prefix"], asked["estimate"]) == ("a", estimate["tokens"])
    ran = shop.run("verify", "http://localhost:1", "a", "--record")
    assert (ran.code, "nothing to record" in ran.err) == (2, False)
    built(shop, "targets: [own]\n")
    plan = shop.run("calibrate", "--dry-run", "--format", "json").json
    assert (plan["asked"], plan["exact"]) == ([], 1)
    ran = shop.run("verify", "http://localhost:1", "a", "--record")
    assert "counts with the model's own vocabulary: there is nothing to record" in ran.err


def test_openai_chat_has_no_route_that_counts(shop: Project) -> None:
    built(shop, "targets: [openai-legacy]\n")
    ran = shop.run("calibrate", "--dry-run")
    assert (ran.code, 'the API of format "openai-chat" has no route that counts tokens' in ran.err) == (2, True)
