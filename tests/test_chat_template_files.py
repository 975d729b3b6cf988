"""A model's files give the same prompt as in transformers: named templates, template files, special tokens.

Each case has its expected text, which transformers gives too, where it is installed.
"""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.prompt import Conversation, Turn
from cacheunit_build.templating.chat_template import load_chat_template

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from conftest import Project

TOOL = {"type": "function", "function": {"name": "look_up", "description": "Säuber <it>", "parameters": {"a": [1.5]}}}
TURNS = (Turn(role="user", text="Q1 "), Turn(role="assistant", text="A1"))
TOKENIZER: Mapping[str, object] = {
    "version": "1.0",
    "added_tokens": [],
    "post_processor": None,
    "model": {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model's files, and the text that they give.

    Attributes:
        text: the expected text with one tool.
        plain: the expected text without tools; None if it is the same.
        template: the key `chat_template` of the config; None for no such key.
        config: further keys of the config.
        files: further files.
        arguments: arguments of the template.
        named: the file that the target names.
    """

    text: str
    plain: str | None = None
    template: object = None
    config: Mapping[str, object] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    named: str = "tokenizer_config.json"

    def written(self) -> dict[str, bytes]:
        """Returns the bytes of all files by name."""
        config = dict(self.config) | ({} if self.template is None else {"chat_template": self.template})
        files = {"tokenizer_config.json": json.dumps(config), **self.files}
        return {name: text.encode() for name, text in files.items()}


def added(text: str) -> dict[str, object]:
    """Returns a special token as configs of older models have it."""
    flags = dict.fromkeys(("lstrip", "rstrip", "normalized", "single_word"), False)
    return {"__type": "AddedToken", "content": text, "special": True, **flags}


def named(**templates: str) -> list[dict[str, str]]:
    """Returns several templates as a config has them."""
    return [{"name": name, "template": text} for name, text in templates.items()]


ROLES = "{% for message in messages %}{{ message.role }};{% endfor %}"
TOKENS = "{{ bos_token }}|{{ eos_token }}|{{ pad_token is defined }}"
ALL_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
CASES = {
    "one template": Case(template="one", text="one"),
    "tool_use with tools, default without": Case(
        template=named(default="plain", tool_use="tools"), text="tools", plain="plain"
    ),
    "the order of the list does not matter": Case(
        template=named(tool_use="tools", default="plain"), text="tools", plain="plain"
    ),
    "default where there is no tool_use": Case(template=named(rag="documents", default="plain"), text="plain"),
    "the last template of a name": Case(template=[*named(default="1"), *named(default="2")], text="2"),
    "templates as a mapping": Case(template={"default": "plain", "tool_use": "tools"}, text="tools", plain="plain"),
    "a template chosen by name": Case(
        template=named(default="plain", rag="{{ documents[0].text }}"),
        arguments={"chat_template": "rag", "documents": [{"title": "t", "text": "found"}]},
        text="found",
    ),
    "a template file replaces the config's key": Case(
        template=named(default="old", tool_use="old tools"), files={"chat_template.jinja": "new"}, text="new"
    ),
    "a template file prints the config's tokens": Case(
        config={"bos_token": "<s>"}, files={"chat_template.jinja": TOKENS}, text="<s>||False"
    ),
    "a folder of named template files": Case(
        files={"chat_template.jinja": "plain", "additional_chat_templates/tool_use.jinja": "tools"},
        text="tools",
        plain="plain",
    ),
    "named template files beside a template file": Case(
        files={"chat_template.jinja": "plain", "additional_chat_templates/tool_use.jinja": "tools"},
        named="chat_template.jinja",
        text="tools",
        plain="plain",
    ),
    "a default in the folder": Case(
        files={"chat_template.jinja": "1", "additional_chat_templates/default.jinja": "2"}, text="2"
    ),
    "a template file chosen by name": Case(
        files={"chat_template.jinja": "1", "additional_chat_templates/rag.jinja": "2"},
        arguments={"chat_template": "rag"},
        text="2",
    ),
    "all seven special tokens": Case(
        template="".join(f"{{{{ {name} }}}} " for name in ALL_TOKENS) + ".",
        config={name: f"<{name[:3]}>" for name in ALL_TOKENS},
        text="<bos> <eos> <unk> <sep> <pad> <cls> <mas> .",
    ),
    "special tokens: added, null and absent": Case(
        template=TOKENS, config={"bos_token": added("<s>"), "eos_token": None}, text="<s>||False"
    ),
    "other tokens by name": Case(
        template="{{ image_token }}|{{ audio }}|{{ add_bos_token }}|{{ vision_token }}",
        config={
            "image_token": "<i>",
            "add_bos_token": True,
            "extra_special_tokens": {"audio": "<a>", "vision_token": added("<v>")},
        },
        text="<i>|<a>||<v>",
    ),
    "lists of special tokens have no names": Case(
        template="{{ additional_special_tokens }}|{{ extra_special_tokens }}",
        config={"additional_special_tokens": ["<a>"], "extra_special_tokens": ["<b>"]},
        text="|",
    ),
    "the tokens of an older model": Case(
        template=TOKENS,
        config={"bos_token": "<old>"},
        files={"special_tokens_map.json": json.dumps({"bos_token": "<new>", "eos_token": {"content": "</s>"}})},
        text="<new>|</s>|False",
    ),
    "a newer model's config has the tokens": Case(
        template=TOKENS,
        config={"bos_token": "<s>", "added_tokens_decoder": {}},
        files={"special_tokens_map.json": json.dumps({"bos_token": "<not>", "eos_token": "<not>"})},
        text="<s>||False",
    ),
    "an argument overrides a special token": Case(
        template=TOKENS, config={"bos_token": "<s>"}, arguments={"bos_token": "<mine>"}, text="<mine>||False"
    ),
    "loop controls": Case(
        template="{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m.content }}"
        "{% if m.role == 'assistant' %}{% break %}{% endif %}{% endfor %}",
        text="Q1 A1",
    ),
    "the tag generation": Case(
        template="{% for m in messages %}{%- if m.role == 'assistant' %}{% generation %}{{ m.content }}"
        "{% set x = 1 %}{% endgeneration %}{{ x }}{% endif %}{% endfor %}",
        text="A1",
    ),
    "tojson": Case(
        template="{{ tools | tojson }}{{ {'b': '<é>', 'a': none} | tojson(indent=1) | indent(2) }}",
        text='[{"type": "function", "function": {"name": "look_up", "description": "Säuber <it>", "parameters": '
        '{"a": [1.5]}}}]{\n   "b": "<é>",\n   "a": null\n  }',
        plain='null{\n   "b": "<é>",\n   "a": null\n  }',
    ),
    "absent tools are none": Case(
        template="{{ tools is none }} {{ tools is defined }} {{ documents }} {{ missing }}",
        text="False True None ",
        plain="True True None ",
    ),
    "an exception in a branch that is not taken": Case(
        template="{% if messages[0].role != 'system' %}{{ raise_exception('no') }}{% endif %}" + ROLES,
        text="system;user;assistant;user;",
    ),
    "a clock in a branch that is not taken": Case(
        template="{% if day is not defined %}{% set day = strftime_now('%d') %}{% endif %}{{ day }}",
        arguments={"day": "26 Jul 2024"},
        text="26 Jul 2024",
    ),
    "namespaces and macros": Case(
        template="{% macro line(m, end='\\n') %}{{ m.role ~ end }}{% endmacro %}{% set ns = namespace(n=0) %}"
        "{% for m in messages %}{% set ns.n = ns.n + 1 %}{{ line(m, end=ns.n) }}{% endfor %}",
        text="system1user2assistant3user4",
    ),
    "the prompt for an answer, and none": Case(
        template="{{ add_generation_prompt }}", arguments={"add_generation_prompt": False}, text="False"
    ),
    "blocks are trimmed, one newline is dropped": Case(
        template=" {% if true %}\n  x\n  {% endif %}\ny\n\n", text="  x\ny\n"
    ),
    "Windows line ends in a config": Case(template="{% if true %}\r\nx\r\n{% endif %}\r\ny\r\n", text="x\ny"),
    "Windows line ends in a file": Case(
        files={"chat_template.jinja": "{% if true %}\r\nx\r\n{% endif %}\r\n"}, text="x\n"
    ),
    "Python methods": Case(
        template="{{ messages[1].content.strip() }}{{ messages[0].get('name', '-') }}"
        "{{ messages[1:][0].items() | list }}",
        text="Q1-[('role', 'user'), ('content', 'Q1 ')]",
    ),
}


def conversation(*, tools: bool) -> Conversation:
    return Conversation(
        system="Be kind.", tools=(TOOL,) if tools else (), turns=TURNS, following=({"role": "user", "content": "Hi"},)
    )


def rendered(case: Case, *, tools: bool) -> str:
    """Renders a case, its files in the folder `model`."""
    files = {f"model/{name}": data for name, data in case.written().items()}
    path = f"model/{case.named}"
    return load_chat_template(files[path], path, case.arguments, files.get)(conversation(tools=tools))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_text_of_a_models_files_is_exactly_this(case: Case) -> None:
    assert rendered(case, tools=True) == case.text
    assert rendered(case, tools=False) == (case.text if case.plain is None else case.plain)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_models_files_render_as_in_transformers(case: Case, tmp_path: Path) -> None:
    tokenizer = transformers_tokenizer(tmp_path, case.written())
    for tools in (True, False):
        talk = conversation(tools=tools)
        options = {"add_generation_prompt": True, **case.arguments}
        tool_list = list(talk.tools) or None
        text = tokenizer.apply_chat_template(talk.messages(), tools=tool_list, tokenize=False, **options)
        assert rendered(case, tools=tools) == text


def transformers_tokenizer(folder: Path, files: Mapping[str, bytes]) -> Any:  # noqa: ANN401 - the package has no types
    """Loads a model's files by transformers."""
    pytest.importorskip("transformers")
    for name, data in {"tokenizer.json": json.dumps(TOKENIZER).encode(), **files}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    return importlib.import_module("transformers").PreTrainedTokenizerFast.from_pretrained(str(folder))


# What is refused


def refused(case: Case, *, tools: bool = False) -> str:
    with pytest.raises(CacheunitError) as caught:
        rendered(case, tools=tools)
    (fault,) = caught.value.faults
    return str(fault)


WITHOUT_DEFAULT = named(tool_use="tools", rag="documents")


def test_templates_without_a_default_are_for_tools_only(tmp_path: Path) -> None:
    case = Case(template=WITHOUT_DEFAULT, text="tools")
    assert rendered(case, tools=True) == "tools"
    assert refused(case) == (
        "model/tokenizer_config.json: has no chat template for prefixes without tools: "
        'none is named "default" (rag, tool_use)\n\nhint: choose one by its name: arguments = {chat_template = "rag"}'
    )
    tokenizer = transformers_tokenizer(tmp_path, case.written())
    with pytest.raises(ValueError, match=r"no default specified.*\['rag', 'tool_use'\]"):
        tokenizer.apply_chat_template(conversation(tools=False).messages(), tokenize=False)


def test_templates_with_neither_default_nor_tool_use_are_refused_with_tools_too() -> None:
    error = refused(Case(template=named(rag="documents"), text=""), tools=True)
    assert 'has no chat template for this prefix: none is named "default" (rag)' in error


def test_a_chosen_template_that_does_not_exist_is_refused() -> None:
    for name, hint in (("rga", 'did you mean "rag"'), ("../x", "its templates are rag, tool_use")):
        error = refused(Case(template=WITHOUT_DEFAULT, arguments={"chat_template": name}, text=""))
        assert f'has no chat template named "{name}"' in error
        assert hint in error


def test_a_broken_template_is_reported_at_its_own_file_when_it_is_used() -> None:
    files = {"chat_template.jinja": "plain", "additional_chat_templates/tool_use.jinja": "\n{% if %}"}
    case = Case(files=files, text="")
    assert rendered(case, tools=False) == "plain"
    assert refused(case, tools=True).startswith("model/additional_chat_templates/tool_use.jinja:2: ")
    failing = Case(files={"chat_template.jinja": "\n\n{{ 1 / 0 }}"}, text="")
    assert refused(failing).startswith("model/chat_template.jinja:3: the chat template failed: ZeroDivisionError")


@pytest.mark.parametrize("token", [*ALL_TOKENS, "image_token"])
def test_a_template_without_a_config_must_not_use_an_unset_special_token(token: str) -> None:
    source = f"one\n{{% if messages | length > 9 %}}{{{{ {token} }}}}{{% endif %}}"
    for name, text in (("chat.jinja", source), ("chat_template.json", json.dumps({"chat_template": source}))):
        case = Case(files={name: text}, named=name, text="")
        assert refused(case) == (
            f'model/{name}:2: the chat template uses "{token}", which is not set\n\n'
            f'hint: set it: arguments = {{{token} = "…"}}, or name a tokenizer_config.json that has it (null for none)'
        )
        assert rendered(Case(files={name: text}, named=name, text="", arguments={token: "<t>"}), tools=False) == "one\n"


def test_a_template_may_set_such_a_variable_itself() -> None:
    source = "{% set eos_token = '</s>' %}{{ eos_token }}"
    assert rendered(Case(files={"c.jinja": source}, named="c.jinja", text=""), tools=False) == "</s>"


def test_a_token_that_the_tokenizers_class_sets_by_itself_is_refused() -> None:
    """LlamaTokenizer prints <s> for a config that has no bos_token, and nothing for one where it is null."""
    case = Case(template=TOKENS, config={"tokenizer_class": "LlamaTokenizerFast", "eos_token": "</s>"}, text="")
    assert 'the chat template uses "bos_token", which is not set' in refused(case)
    tokens = {"eos_token": "</s>", "bos_token": None, "pad_token": None}
    case = Case(template=TOKENS, config={"tokenizer_class": "LlamaTokenizerFast", **tokens}, text="")
    assert rendered(case, tools=False) == "|</s>|False"


def test_a_byte_order_mark_that_transformers_would_print_is_refused(tmp_path: Path) -> None:
    case = Case(files={"chat_template.jinja": "\ufeffone"}, text="")
    assert refused(case).startswith("model/chat_template.jinja:1: begins with a byte order mark")
    tokenizer = transformers_tokenizer(tmp_path, case.written())
    assert tokenizer.apply_chat_template(conversation(tools=False).messages(), tokenize=False) == "\ufeffone"


@pytest.mark.parametrize("name", ["messages", "tools"])
def test_an_argument_cannot_replace_a_part_of_the_prefix(name: str) -> None:
    error = refused(Case(template="one", arguments={name: []}, text=""))
    assert f'the argument "{name}" of the chat template is set by the prefix' in error


def test_a_file_of_another_name_stands_alone() -> None:
    files = {"mine.jinja": "mine", "chat_template.jinja": "no", "additional_chat_templates/tool_use.jinja": "no"}
    assert rendered(Case(files=files, named="mine.jinja", text=""), tools=True) == "mine"
    config = {"mine.json": json.dumps({"chat_template": "mine"}), "chat_template.jinja": "no"}
    assert rendered(Case(files=config, named="mine.json", text=""), tools=True) == "mine"


# In a project


SETTINGS = """\
targets = ["ours"]

[target.ours]
extends = "vllm"
tokenizer = {encoding = "o200k_base"}
frame = {chat_template = "model/tokenizer_config.json"}
cache = {unit = 16}
"""
TOOL_FILE = json.dumps({"name": "look_up", "description": "Looks up", "parameters": {"type": "object"}})


@pytest.fixture
def ours(project: Project) -> Project:
    """A project with a prefix that has a tool and one that has none, for a model with two templates."""
    templates = named(
        default="D{{ messages[0].content }}<|endoftext|>",
        tool_use="{{ tools | tojson }} {{ messages[0].content }}<|endoftext|>",
    )
    project.write(
        {
            "cacheunit.toml": SETTINGS,
            "templates/s.md.j2": "Be kind.",
            "tools/look_up.json": TOOL_FILE,
            "prefixes/plain.yaml": "system: s.md.j2\npadding: 'off'\n",
            "prefixes/tools.yaml": "system: s.md.j2\npadding: 'off'\ntools: [tools/look_up.json]\n",
            "model/tokenizer_config.json": json.dumps({"chat_template": templates}),
        }
    )
    return project


def plans(project: Project) -> dict[str, tuple[int, str]]:
    built = project.run("build", "--format", "json").json["artifacts"]
    return {item["prefix"]: (item["tokens"], item["reason"]) for item in built}


def test_a_prefix_with_tools_is_counted_in_the_template_for_tools(ours: Project) -> None:
    built = plans(ours)
    assert built["tools"][0] > built["plain"][0] + 20
    assert "leaves the tools out" not in built["tools"][1]
    ours.edit("model/tokenizer_config.json", "tool_use", "unused")
    assert "the target's frame leaves the tools out" in plans(ours)["tools"][1]


def test_template_files_are_inputs_even_before_they_exist(ours: Project) -> None:
    ours.build()
    locked = ours.read("cacheunit.lock")
    assert ours.check()["ok"]
    ours.write({"model/chat_template.jinja": "{{ messages[0].content }} And so on.<|endoftext|>"})
    assert not ours.check()["ok"]
    ours.build()
    assert ours.read("cacheunit.lock") != locked
    ours.path("model/chat_template.jinja").unlink()
    ours.build()
    assert ours.read("cacheunit.lock") == locked


def test_a_prefix_that_no_template_is_for_is_an_error_of_that_prefix(ours: Project) -> None:
    ours.edit("model/tokenizer_config.json", "default", "rag")
    ran = ours.run("build")
    assert ran.code == 2
    assert "plain for ours: has no chat template for prefixes without tools" in ran.err
    ours.path("prefixes/plain.yaml").unlink()
    ours.build()
