"""Models apart from cache rules: each counts as its reference does, and a target is made of a model and a rule."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from typing import TYPE_CHECKING

import pytest
from support import vocabulary_file

from cacheunit_build.adapters.tokenizers import package_files
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.parsing.settings import parse_settings
from cacheunit_build.targets.loader import all_targets, known_models, known_targets, target_table_schema
from cacheunit_build.targets.lookup import find_target

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from conftest import Project

    from cacheunit_build.domain.target import Target

CASE = {
    "templates/orders.md.j2": "You answer questions about orders.\nBe kind, and be brief.\n",
    "prefixes/orders.yaml": """\
system: orders.md.j2
tools: [orders.json]
padding: off
examples:
  - {role: user, text: "Where is A-17?"}
  - {role: assistant, text: I look., tool_calls: [{name: search, arguments: {query: A-17, limit: 3}}]}
  - {role: tool, text: "{\\"state\\": \\"sent\\"}"}
  - {role: assistant, text: "It was sent."}
""",
    "orders.json": json.dumps(
        [
            {
                "name": "search",
                "description": "Finds orders in Köln.",
                "parameters": {
                    "type": "object",
                    "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
                },
            }
        ]
    ),
}
TOKENS = {
    "deepseek-r1": 65,
    "deepseek-r1-distill-llama": 79,
    "deepseek-r1-distill-qwen": 80,
    "deepseek-v2.5": 45,
    "deepseek-v3": 42,
    "deepseek-v3.1": 58,
    "deepseek-v4": 381,
    "glm-4-0414": 132,
    "glm-4.5v": 233,
    "glm-4.6v": 234,
    "glm-4.6v-flash": 234,
    "glm-4.7-flash": 214,
    "glm-5": 214,
    "glm-5.1": 204,
    "glm-5.2": 213,
    "gpt-oss": 204,
    "minimax-m2": 249,
    "minimax-m3": 486,
    "qwen-2.5": 229,
    "qwen-3": 224,
    "qwen-3.5": 360,
    "qwen-3.6": 360,
    "qwq": 224,
}
"""The static tokens of the case for each model, by bench/models.py: transformers 5.24, or the model's own encoder, and
tokenizers 0.23; for gpt-oss by openai-harmony 0.0.8."""


def targets_of(toml: str) -> Mapping[str, Target]:
    """Returns all targets of a project with these settings."""
    return all_targets(parse_settings(None, toml.encode()))


def fault_of(toml: str) -> tuple[int | None, str, str | None]:
    """Returns line, message and hint of the only fault of these settings."""
    with pytest.raises(CacheunitError) as caught:
        targets_of(toml)
    (fault,) = caught.value.faults
    assert fault.path == "cacheunit.toml"
    return fault.line, fault.message, fault.hint


# Each model


@pytest.mark.slow
def test_each_model_counts_tools_and_examples_as_its_reference_does(project: Project) -> None:
    names = list(known_models())
    targets = "".join(f'[target."{name}-it"]\nmodel = "{name}"\ncache = "vllm"\n' for name in names)
    project.write({**CASE, "cacheunit.toml": f"targets = {[f'{name}-it' for name in names]}\n{targets}"})
    artifacts = project.run("build", "--format", "json").json["artifacts"]
    assert {item["target"].removesuffix("-it"): item["tokens"] for item in artifacts} == TOKENS
    assert {item["counted"] for item in artifacts} == {"exact"}


def test_each_model_has_evidence_and_files_that_are_known_by_their_hash() -> None:
    for model in known_models().values():
        assert model.evidence
        assert model.tokenizer is not None
        assert model.tokenizer.sha256 is not None
        assert not isinstance(model.frame.chat_template, str)
        assert not isinstance(model.frame.encoder, str)


# A model and a rule


def test_a_target_is_made_of_a_model_and_the_rule_of_a_target() -> None:
    toml = '[target.ours]\nmodel = "qwen-3.5"\ncache = "vllm"\nmodel_ids = ["qwen3.5-32b"]\n'
    ours, vllm, model = targets_of(toml)["ours"], known_targets()["vllm"], known_models()["qwen-3.5"]
    assert (ours.cache, ours.request, ours.options) == (vllm.cache, vllm.request, vllm.options)
    assert (ours.tokenizer, ours.frame, ours.evidence) == (model.tokenizer, model.frame, model.evidence)
    assert (ours.model, ours.model_ids, ours.description) == ("qwen-3.5", ("qwen3.5-32b",), "")


def test_own_keys_come_last() -> None:
    toml = """
[target.ours]
extends = "deepseek-v4"
model = "qwen-3"
description = "ours"
[target.ours.cache]
extends = "vllm"
unit = 528
[target.ours.frame]
arguments = {enable_thinking = false}
"""
    ours, vllm, model = targets_of(toml)["ours"], known_targets()["vllm"], known_models()["qwen-3"]
    assert (ours.cache.unit, ours.cache.evidence, ours.options) == (528, vllm.cache.evidence, vllm.options)
    assert (ours.frame.chat_template, ours.tokenizer) == (model.frame.chat_template, model.tokenizer)
    assert ours.frame.arguments == {"enable_thinking": False}
    assert (ours.description, ours.model_ids) == ("ours", known_targets()["deepseek-v4"].model_ids)


def test_a_model_and_a_rule_replace_those_of_the_extended_target() -> None:
    both = '[target.base]\nmodel = "qwen-3"\ncache = "deepseek-v4"\n[target.ours]\nextends = "base"\n'
    ours = targets_of(f'{both}cache = "llama-cpp"\nmodel = "glm-5"\n')["ours"]
    known = known_targets()["llama-cpp"]
    assert (ours.cache, ours.options, ours.tool_limits) == (known.cache, known.options, known.tool_limits)
    assert ours.frame == known_models()["glm-5"].frame
    assert ours.model == "glm-5"


def test_the_former_name_of_model_ids_is_still_read(project: Project) -> None:
    toml = '[target.ours]\nextends = "deepseek-v4"\nmodels = ["m-1"]\n'
    assert targets_of(toml)["ours"].model_ids == ("m-1",)
    assert fault_of(toml + 'model_ids = ["m-2"]\n')[1] == 'unknown key "models"'
    project.write({"cacheunit.toml": toml})
    shown = project.run("targets", "ours", "--format", "json").json["targets"][0]
    assert (shown["models"], shown["model_ids"], shown["model"]) == (["m-1"], ["m-1"], "deepseek-v4")


# A known target in place


@pytest.mark.parametrize("extends", ["", 'extends = "deepseek-v4"\n'])
def test_a_project_changes_a_known_target_in_place(extends: str) -> None:
    toml = f"[target.deepseek-v4]\n{extends}[target.deepseek-v4.cache]\nunit = 64\n"
    own, known = targets_of(f'{toml}[target.ours]\nextends = "deepseek-v4"\n'), known_targets()["deepseek-v4"]
    assert (own["deepseek-v4"].cache.unit, known.cache.unit) == (64, 128)
    assert (own["deepseek-v4"].frame, own["deepseek-v4"].model_ids) == (known.frame, known.model_ids)
    assert own["ours"].cache.unit == 64


def test_other_arguments_of_an_encoder_are_used_for_system_texts_too(project: Project) -> None:
    project.write({"prefixes/a.yaml": "system: a.j2\npadding: off\n", "templates/a.j2": "Be kind.\n"})
    tokens = [item["tokens"] for item in project.run("build", "--format", "json").json["artifacts"]]
    arguments = '{thinking_mode = "thinking", reasoning_effort = "max"}'
    project.write({"cacheunit.toml": f"[target.deepseek-v4.frame]\narguments = {arguments}\n"})
    (artifact,) = project.run("build", "--format", "json").json["artifacts"]
    assert artifact["tokens"] == tokens[0] + 79


def test_a_frame_in_place_replaces_that_of_a_known_target(project: Project) -> None:
    project.write({"prefixes/a.yaml": "system: a.j2\npadding: off\n", "templates/a.j2": "Be kind.\n"})
    project.write({"cacheunit.toml": '[target.deepseek-v4.frame]\nafter = "<｜User｜>"\n'})
    (artifact,) = project.run("build", "--format", "json").json["artifacts"]
    assert artifact["tokens"] == len(("Be", " kind", ".\n", "<｜User｜>"))


# What a target refers to, and does not exist


@pytest.mark.parametrize(
    ("toml", "expected"),
    [
        ('model = "qwen-3.55"\ncache = "vllm"', (2, 'unknown model "qwen-3.55"', 'did you mean "qwen-3.5"?')),
        ('model = "glm-5"\ncache = "vlm"', (3, 'unknown target "vlm"', 'did you mean "vllm"?')),
        ('cache = {extends = "vlm"}\nmodel = "glm-5"', (2, 'unknown target "vlm"', 'did you mean "vllm"?')),
        (
            'model = "glm-5"',
            (2, "the target names a model, but no cache rule", 'add the name of a target that has it: cache = "vllm"'),
        ),
        ('cache = "x"\nmodel = "glm-5"', (2, "targets extend each other in a cycle: x -> x", None)),
        (
            'model = "gpt-5.2"\ncache = "vllm"',
            (2, 'unknown model "gpt-5.2"', f"the models are {', '.join(sorted(known_models()))}"),
        ),
        ("extends = 3", (2, '"extends" must be the name of a target', 'extends = "vllm"')),
        ('cache = {extends = ["x"]}', (2, '"cache.extends" must be the name of a target', 'extends = "vllm"')),
        ('extends = "zzz"', (2, 'unknown target "zzz"', '"cacheunit targets" lists the known ones')),
        (
            'model = ["glm-5"]\ncache = "vllm"',
            (
                2,
                '"model" must be the name of a model, or name its folder',
                'model = {path = "DIR"}, with encoder = "FILE.py:FUNCTION" if it has one',
            ),
        ),
        (
            'model = {folder = "m"}\ncache = "vllm"',
            (
                2,
                '"model" must be the name of a model, or name its folder',
                'model = {path = "DIR"}, with encoder = "FILE.py:FUNCTION" if it has one',
            ),
        ),
    ],
)
def test_a_wrong_reference_is_one_error_at_its_key(toml: str, expected: tuple[int, str, str | None]) -> None:
    assert fault_of(f"[target.x]\n{toml}\n") == expected


def test_an_unknown_model_that_is_like_no_other_lists_all_of_them() -> None:
    *_, hint = fault_of('[target.x]\nmodel = "?"\ncache = "vllm"\n')
    assert hint == f"the models are {', '.join(sorted(known_models()))}"


def test_editors_know_the_models() -> None:
    properties = target_table_schema()["properties"]
    assert properties["model"]["anyOf"][0]["enum"] == sorted(known_models())
    assert {"model_ids", "extends"} <= properties.keys()


# A folder of the project

CHAT = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}{{ tools | tojson if tools }}<|a|>"
FOLDER = """\
targets = ["ours"]
[target.ours]
model = {path = "models/ours"}
cache = "vllm"
"""


@pytest.fixture
def folder(project: Project) -> Project:
    """Returns a project with a model in a folder, as Hugging Face lays it out."""
    project.write({"prefixes/a.yaml": "system: a.j2\npadding: off\n", "templates/a.j2": "Be kind.\n"})
    project.write({"cacheunit.toml": FOLDER, "models/ours/tokenizer_config.json": json.dumps({"chat_template": CHAT})})
    shutil.copy(vocabulary_file(), project.path("models/ours/tokenizer.json"))
    return project


def test_a_model_is_a_folder_of_the_project_and_its_files_are_inputs(folder: Project) -> None:
    (artifact,) = folder.run("build", "--format", "json").json["artifacts"]
    assert artifact["counted"] == "exact"
    (explained,) = folder.run("explain", "a", "--format", "json").json["artifacts"]
    inputs = {item["path"] for item in explained["inputs"]}
    assert {
        f"models/ours/{name}" for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
    } <= inputs
    folder.write({"models/ours/chat_template.jinja": "New. " + CHAT})
    assert folder.drift() == [("profile", "a")]


def test_the_same_files_named_one_by_one_give_the_same_bytes(folder: Project) -> None:
    folder.build()
    before = folder.files("build")
    folder.write(
        {
            "cacheunit.toml": 'targets = ["ours"]\n[target.ours]\nextends = "vllm"\n'
            '[target.ours.tokenizer]\npath = "models/ours/tokenizer.json"\n'
            '[target.ours.frame]\nchat_template = "models/ours/tokenizer_config.json"\n'
        }
    )
    assert folder.check()["ok"]
    assert folder.files("build") == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda project: project.path("models/ours/tokenizer.json").unlink(), "there is no vocabulary"),
        (
            lambda project: project.path("models/ours/tokenizer_config.json").unlink(),
            'there is no file "models/ours/tokenizer_config.json"',
        ),
        (
            lambda project: project.write({"models/ours/tokenizer_config.json": "{}"}),
            'models/ours/tokenizer_config.json: target "ours": has no "chat_template"',
        ),
    ],
)
def test_a_folder_that_lacks_a_file_is_an_error_that_names_it(
    folder: Project, change: Callable[[Project], object], message: str
) -> None:
    change(folder)
    ran = folder.run("build")
    assert ran.code == 2
    assert message in ran.err
    assert not folder.path("build").exists()


def test_the_encoder_of_a_folder_is_code_of_the_project(folder: Project) -> None:
    folder.edit("cacheunit.toml", '"models/ours"}', '"models/ours/", encoder = "encoding/e.py:encode"}')
    source = "def encode(messages):\n    return '|'.join(message['content'] for message in messages)\n"
    folder.write({"models/ours/encoding/e.py": source})
    assert folder.run("build").code == 0
    ran = folder.run("--no-project-code", "check")
    assert ran.code == 2
    assert "models/ours/encoding/e.py" in ran.err


# Files of packages


def archive(files: dict[str, bytes]) -> bytes:
    """Returns a ZIP archive."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return data.getvalue()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (archive({"a": b"1", "b": b"2"}), 'the archive "x.zip" has 2 files, not one'),
        (archive({}), 'the archive "x.zip" has 0 files, not one'),
        (archive({"a": b"1" * 100_000}), 'the vocabulary "x.zip" is larger than'),
        (archive({"a": b"12345" * 100})[:90], 'the archive "x.zip" cannot be unpacked'),
        (b"no archive", 'the archive "x.zip" cannot be unpacked'),
    ],
    ids=["two files", "no file", "too large", "cut", "no archive"],  # the bytes have the time of day
)
def test_an_archive_that_is_broken_or_too_large_is_refused(
    data: bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_files, "MOST_BYTES", 1000)
    with pytest.raises(CacheunitError) as caught:
        package_files.unzipped(data, "x.zip")
    assert str(caught.value.faults[0]).startswith(message)
    assert package_files.unzipped(archive({"t.json": b"{}"}), "x.zip") == b"{}"


# The id of a model in place of the name of a target

BEDROCK = [name for name in known_targets() if name.startswith("bedrock-")]


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("gpt-5.2", "openai-legacy"),
        ("gpt-5.2-2025-12-11", "openai-legacy"),
        ("openai/gpt-5.6", "openai"),
        ("claude-sonnet-4-5", "anthropic-1024"),
        ("claude-sonnet-4-5-20250929", "anthropic-1024"),
        ("anthropic/claude-opus-4.8", "anthropic-1024"),
        ("deepseek/deepseek-v4-pro", "deepseek-v4"),
        ("deepseek-v4", "deepseek-v4"),
        ("us.anthropic.claude-opus-4-8-v1:0", None),  # of Bedrock, whose targets list no models
        ("gpt-5.9", None),
        ("gemini-2.5-pro", "gemini-2.5"),
        ("google/gemini-3.8-flash", "gemini"),
    ],
)
def test_a_target_is_found_by_the_id_of_a_model(name: str, target: str | None) -> None:
    found = find_target(name, known_targets())
    assert (None if found is None else found.name) == target


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("claude-sonnet-4-9", 'did you mean "claude-sonnet-4-6"?'),
        ("deepseek-v4-por", 'did you mean "deepseek-v4-pro"?'),
        ("gpt-99-astral", 'did you mean "gpt-6-astra"?'),
        ("gemini-3-pro-preview", 'did you mean "gemini-3.1-pro-preview"?'),
        ("google/gemini-9-flash", 'did you mean "gemini-3.8-flash"?'),
        ("groq/openai/gpt-oss-120b", "targets of that family: groq"),
        ("openai/gpt-5.9", 'did you mean "gpt-5.6"?'),
        ("us.amazon.nova-pro-v1:0", f"targets of that family: {', '.join(BEDROCK)}"),
        ("bedrock/claude-sonnet-4-5", f"targets of that family: {', '.join(BEDROCK)}"),
        ("unheard-of", '"cacheunit targets" lists the known ones'),
    ],
)
def test_an_unknown_model_is_compared_with_those_of_its_family(project: Project, name: str, hint: str) -> None:
    project.write({"prefixes/a.yaml": f"system: a.j2\ntargets: [{name}]\n", "templates/a.j2": "Be kind.\n"})
    ran = project.run("build")
    assert ran.err.startswith(f'error: prefixes/a.yaml:2: unknown target "{name}"\n\nhint: {hint}\n')
    project.write({"prefixes/a.yaml": "system: a.j2\n"})
    assert f"hint: {hint}" in project.run("build", "--target", name).err


def test_a_target_of_the_project_comes_first_and_one_that_inherits_the_models_is_not_meant() -> None:
    targets = targets_of('[target.ours]\nextends = "openai-legacy"\n')
    assert find_target("gpt-5", targets) == known_targets()["openai-legacy"]
    targets = targets_of('[target.ours]\nextends = "openai-legacy"\nmodel_ids = ["gpt-5"]\n')
    assert find_target("gpt-5-2025-08-07", targets) == targets["ours"]
    targets = targets_of('[target.ours]\nextends = "vllm"\nmodel_ids = ["GPT-5-2025-08-07"]\n')
    assert find_target("gpt-5", targets) == targets["ours"], "known targets list it by just this spelling"


def test_a_model_that_several_targets_list_needs_the_name_of_one(project: Project) -> None:
    both = "".join(f'[target.{name}]\nextends = "openai-legacy"\nmodel_ids = ["gpt-5"]\n' for name in ("a", "b"))
    project.write({"cacheunit.toml": both, "templates/a.j2": "Be kind.\n"})
    project.write({"prefixes/a.yaml": "system: a.j2\ntargets: [gpt-5]\n"})
    message = 'several targets list the model "gpt-5"\n\nhint: say which one is meant: "a/gpt-5" or "b/gpt-5"\n'
    assert project.run("build").err.startswith(f"error: prefixes/a.yaml:2: {message}")
    project.write({"prefixes/a.yaml": "system: a.j2\ntargets: [b/gpt-5]\n"})
    assert "b" in project.build().out.splitlines()[1].split()
