"""Gemini's and Bedrock's own forms: their fragments, and the requests that `request()` makes and refuses."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
from google.genai import types

from cacheunit_build import CacheunitError, load
from cacheunit_build.domain.prompt import Tool, ToolCall, Turn
from cacheunit_build.request_formats.formats import FORMATS
from cacheunit_build.request_formats.parts import Marker, MarkerPlace, PrefixParts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from conftest import Project

    from cacheunit_build.request_formats.parts import PartName

POINT = {"cachePoint": {"type": "default"}}
SCHEMA = {"type": "object", "properties": {}}
SEARCH = Tool(name="search", description="Finds.", schema=SCHEMA, strict=True, path="t.json", line=1)
HOSTED = Tool(name="g", description="", schema={}, strict=None, path="t.json", line=1, hosted={"googleSearch": {}})
CALLS = tuple(ToolCall(id=f"call{number}", name="search", arguments={"b": number, "a": 0}) for number in (1, 2))
TURNS = (
    Turn(role="user", text="Where?"),
    Turn(role="assistant", text="I look.", calls=CALLS),
    Turn(role="tool", text="Here.", result_of=CALLS[0]),
    Turn(role="tool", text="", result_of=CALLS[1]),
    Turn(role="assistant", text="Here."),
)


def parts(*places: tuple[PartName, int], lifetime: str | None = None) -> PrefixParts:
    """Returns a prefix with markers at these places."""
    markers = [
        Marker(place=MarkerPlace(part=part, index=index), name="cachePoint", lifetime=lifetime)
        for part, index in places
    ]
    return PrefixParts(blocks=("One.", "Two."), tools=(SEARCH,), turns=TURNS, markers=markers)


# Fragments


def test_a_fragment_of_converse_has_markers_behind_what_they_are_on() -> None:
    spec = {"name": "search", "description": "Finds.", "inputSchema": {"json": SCHEMA}, "strict": True}
    uses = [{"toolUse": {"toolUseId": call.id, "name": "search", "input": call.arguments}} for call in CALLS]
    results = [
        {"toolResult": {"toolUseId": "call1", "content": [{"text": "Here."}]}},
        {"toolResult": {"toolUseId": "call2", "content": []}},
    ]
    fragment = FORMATS["bedrock-converse"].fragment(parts(("tools", 0), ("system", 0), ("examples", 4)))
    assert fragment == {
        "messages": [
            {"role": "user", "content": [{"text": "Where?"}]},
            {"role": "assistant", "content": [{"text": "I look."}, *uses]},
            {"role": "user", "content": results},
            {"role": "assistant", "content": [{"text": "Here."}, POINT]},
        ],
        "system": [{"text": "One."}, POINT, {"text": "Two."}],
        "toolConfig": {"tools": [{"toolSpec": spec}, POINT]},
    }


def test_a_lifetime_is_in_the_marker() -> None:
    fragment = FORMATS["bedrock-converse"].fragment(parts(("system", 1), lifetime="1h"))
    assert fragment["system"][-1] == {"cachePoint": {"type": "default", "ttl": "1h"}}


@pytest.mark.parametrize("name", ["bedrock-converse", "bedrock-nova"])
def test_content_blocks_of_converse_are_counted_without_markers(name: str) -> None:
    format_ = FORMATS[name]
    marked, unmarked = format_.fragment(parts(("system", 0), ("examples", 4))), format_.fragment(parts())
    assert format_.content_blocks(marked) == format_.content_blocks(unmarked)
    assert format_.marked_blocks(marked) == (2, 10)
    assert format_.marked_blocks(unmarked) == ()
    assert len(format_.content_blocks(marked)) == 10
    assert format_.tool_names(marked) == ("search",)
    assert format_.has_examples(marked)


def test_only_claude_takes_a_marker_among_the_tools() -> None:
    tools_alone = PrefixParts(blocks=(), tools=(SEARCH,))
    assert FORMATS["bedrock-converse"].last_markable(tools_alone) == MarkerPlace(part="tools", index=0)
    assert FORMATS["bedrock-nova"].last_markable(tools_alone) is None


@pytest.mark.parametrize(
    ("turns", "place"),
    [
        (TURNS, MarkerPlace(part="examples", index=4)),
        (TURNS[:4], MarkerPlace(part="examples", index=0)),
        (TURNS[1:4], MarkerPlace(part="system", index=1)),
    ],
)
def test_nova_takes_no_marker_behind_the_result_of_a_tool(turns: Sequence[Turn], place: MarkerPlace) -> None:
    prefix = PrefixParts(blocks=("One.", "Two."), tools=(SEARCH,), turns=turns)
    assert FORMATS["bedrock-nova"].last_markable(prefix) == place
    assert FORMATS["bedrock-converse"].last_markable(prefix) == prefix.last


def test_a_fragment_of_gemini_has_the_order_of_its_client() -> None:
    prefix = PrefixParts(blocks=("One.", "Two."), tools=(SEARCH, HOSTED), turns=TURNS)
    fragment = FORMATS["gemini"].fragment(prefix)
    calls = [{"functionCall": {"args": call.arguments, "name": "search"}} for call in CALLS]
    results = [{"functionResponse": {"name": "search", "response": {"output": text}}} for text in ("Here.", "")]
    assert json.dumps(fragment) == json.dumps(
        {
            "contents": [
                {"parts": [{"text": "Where?"}], "role": "user"},
                {"parts": [{"text": "I look."}, *calls], "role": "model"},
                {"parts": results, "role": "user"},
                {"parts": [{"text": "Here."}], "role": "model"},
            ],
            "systemInstruction": {"parts": [{"text": "One."}, {"text": "Two."}]},
            "tools": [
                {"googleSearch": {}},
                {
                    "functionDeclarations": [
                        {"description": "Finds.", "name": "search", "parametersJsonSchema": SCHEMA},
                    ]
                },
            ],
        }
    )
    assert FORMATS["gemini"].tool_names(fragment) == ("googleSearch", "search")
    assert len(FORMATS["gemini"].content_blocks(fragment)) == 2 + 2 + 7
    assert FORMATS["gemini"].has_examples(fragment)
    assert not FORMATS["gemini"].has_examples(FORMATS["gemini"].fragment(PrefixParts(blocks=("One.",))))


# Requests

SETTINGS = """
[target.own]
extends = "gemini"
[[target.own.options]]
name = "generationConfig.thinkingConfig"
effect = "text"
claim = "for this test, thinking changes the text"
grade = "inferred"
checked = 2026-12-01
source = "a test"
[target.listed]
extends = "bedrock-converse-1024"
models = ["claude-opus-4-6"]
"""
FILES = {
    "cacheunit.toml": SETTINGS,
    "prefixes/long.yaml": """
system: long.j2
tools: [t.json]
targets: [gemini, bedrock-converse-1024, bedrock-nova, listed]
""",
    "prefixes/short.yaml": "system: a.j2\ntargets: [gemini, bedrock-converse-1024]\n",
    "prefixes/tools.yaml": "tools: [t.json]\ntargets: [bedrock-nova, bedrock-converse-1024]\n",
    "prefixes/taught.yaml": """
system: long.j2
targets: [gemini, bedrock-converse-1024]
examples: [{role: user, text: One?}, {role: assistant, text: Two.}]
""",
    "prefixes/own.yaml": """
system: a.j2
targets: [own]
options: {generationConfig: {thinkingConfig: {thinkingBudget: 0}}}
""",
    "templates/a.j2": "Be brief.\n",
    "templates/long.j2": "Be brief and kind, and answer in full sentences.\n" * 400,
    "t.json": json.dumps({"name": "now", "description": "word " * 4000, "parameters": {"type": "object"}}),
}
CONVERSE, NOVA = "bedrock-converse-1024", "bedrock-nova"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of a built project."""
    from cacheunit_build.cli import main as cli

    root = tmp_path_factory.mktemp("project")
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("CACHEUNIT_CACHE_DIR", str(tmp_path_factory.mktemp("cache") / "cacheunit"))
        assert cli.run(["-C", str(root), "-q", "build"]) == 0
    return root


@pytest.fixture(scope="module")
def prefix(root: Path) -> Callable[[str, str], Any]:
    """Returns a function that loads a prefix of the built project for a target."""
    return lambda name, target: load(name, target=target, root=str(root))


def content(*parts_: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts_)}


def message(*blocks: Any, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


HI, HELLO = content({"text": "Hi"}), message({"text": "Hi"})
RESULT = {"toolResult": {"toolUseId": "c", "content": [{"text": "Yes."}]}}


def refusal(prefix: Any, messages: list[Any], **arguments: Any) -> str:  # noqa: ANN401 - a prefix
    with pytest.raises(CacheunitError) as caught:
        prefix.request(messages, **arguments)
    (fault,) = caught.value.faults
    return f"{fault.message} ({fault.hint})"


@pytest.mark.parametrize(
    ("config", "part"),
    [
        ({"system_instruction": "Be kind."}, '"systemInstruction" is frozen'),
        ({"systemInstruction": {"parts": []}}, '"systemInstruction" is frozen'),
        ({"tools": []}, '"tools" is frozen'),
        ({"tool_config": {"function_calling_config": {"mode": "ANY"}}}, '"toolConfig", which changes the text'),
        ({"cached_content": "cachedContents/x"}, '"cachedContent", which puts text in front'),
        ({"http_options": {"extra_body": {"tools": [{"codeExecution": {}}]}}}, '"tools" is frozen'),
        (types.GenerateContentConfig(system_instruction="Be kind."), '"systemInstruction" is frozen'),
        (types.GenerateContentConfig(cached_content="cachedContents/x"), '"cachedContent", which puts text in front'),
    ],
)
def test_gemini_refuses_what_changes_the_prefix_under_the_names_of_its_client(
    prefix: Callable[[str, str], Any],
    config: Any,  # noqa: ANN401 - mapping or object
    part: str,
) -> None:
    assert part in refusal(prefix("long", "gemini"), [HI], config=config)


def test_gemini_refuses_a_part_at_the_top_too(prefix: Callable[[str, str], Any]) -> None:
    assert '"contents" is frozen' in refusal(prefix("long", "gemini"), [HI], contents=[])
    assert '"tools" is frozen' in refusal(prefix("long", "gemini"), [HI], tools=[])
    added = refusal(prefix("short", "gemini"), [HI], config={"tools": [{"google_search": {}}]})
    assert 'not built for this value of "tools"' in added


@pytest.mark.parametrize(
    "config",
    [
        {"temperature": 0, "max_output_tokens": 9},
        {"temperature": 0, "maxOutputTokens": 9},
        types.GenerateContentConfig(temperature=0, max_output_tokens=9),
    ],
)
def test_gemini_adds_the_frozen_parts_to_config_in_any_form(
    prefix: Callable[[str, str], Any],
    config: Any,  # noqa: ANN401 - mapping or object
) -> None:
    before = copy.deepcopy(config)
    request = prefix("long", "gemini").request([HI], model="gemini-3.8-flash", config=config)
    assert config == before
    assert list(request) == ["contents", "config", "model"]
    assert list(request["config"]) == ["system_instruction", "tools", "temperature", "max_output_tokens"]
    assert (request["config"]["temperature"], request["config"]["max_output_tokens"]) == (0, 9)
    assert prefix("long", "gemini").request([HI], config=None)["config"].keys() == {"system_instruction", "tools"}


def test_gemini_merges_a_frozen_option_with_the_rest_of_its_mapping(prefix: Callable[[str, str], Any]) -> None:
    own = prefix("own", "own")
    assert own.request([HI])["config"]["thinking_config"] == {"thinkingBudget": 0}
    same = own.request(
        [HI], config=types.GenerateContentConfig(thinking_config=types.ThinkingConfig(thinking_budget=0))
    )
    assert same["config"]["thinking_config"] == {"thinkingBudget": 0}
    assert "is frozen as" in refusal(own, [HI], config={"thinking_config": {"thinking_budget": 5}})
    changed = own.request(
        [HI], config={"thinking_config": {"thinking_budget": 5}}, allow=("generationConfig.thinkingConfig",)
    )
    assert changed["config"]["thinking_config"] == {"thinking_budget": 5}


@pytest.mark.parametrize("config", ["x", 5, [("temperature", 1)]])
def test_a_config_of_another_type_is_refused(prefix: Callable[[str, str], Any], config: Any) -> None:  # noqa: ANN401
    with pytest.raises(
        TypeError, match=f"config must be a mapping or a GenerateContentConfig, not {type(config).__name__}"
    ):
        prefix("long", "gemini").request([HI], config=config)


def _nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("config", [{1: 2}, {"tool_config": {1: 2}}, _nested(5_000)])
def test_a_config_that_is_no_json_is_a_type_error(prefix: Callable[[str, str], Any], config: Any) -> None:  # noqa: ANN401
    with pytest.raises(TypeError, match=r"config has the key 1, which must be a str|nested too deeply"):
        prefix("long", "gemini").request([HI], config=config)


def test_messages_are_objects_of_the_client_too(prefix: Callable[[str, str], Any]) -> None:
    said = types.Content(role="model", parts=[types.Part(text="Hello.")])
    assert prefix("long", "gemini").request([HI, said, HI])["contents"][1] is said
    for wrong in ("Hi", types.Part(text="Hi")):
        with pytest.raises(TypeError, match=r"messages\[0\] must be a mapping or an object with a role"):
            prefix("long", "gemini").request([wrong])
    robot = types.Content(role="assistant", parts=[])
    assert 'messages[0] has the role "assistant"' in refusal(prefix("long", "gemini"), [robot])


@pytest.mark.parametrize(
    ("target", "wrong", "text"),
    [
        ("gemini", {"role": "user", "content": "Hi"}, 'messages[0] needs a "parts"'),
        ("gemini", {"role": "assistant", "parts": []}, 'has the role "assistant", which format "gemini" has not'),
        ("gemini", {"role": "user", "parts": "Hi"}, 'messages[0]["parts"] is a text'),
        (CONVERSE, {"role": "user", "content": "Hi"}, 'messages[0]["content"] is a text'),
        (CONVERSE, {"role": "model", "content": []}, 'has the role "model", which format "bedrock-converse" has not'),
        (CONVERSE, {"content": []}, 'messages[0] needs a "role"'),
    ],
)
def test_messages_in_the_form_of_another_api_are_refused(
    prefix: Callable[[str, str], Any], target: str, wrong: dict[str, Any], text: str
) -> None:
    assert text in refusal(prefix("long", target), [wrong])


def test_a_message_of_gemini_needs_no_role(prefix: Callable[[str, str], Any]) -> None:
    assert prefix("long", "gemini").request([{"parts": [{"text": "Hi"}]}])["contents"] == [{"parts": [{"text": "Hi"}]}]


def test_dynamic_text_is_a_system_block_of_converse_and_in_front_of_the_users_words_of_gemini(
    prefix: Callable[[str, str], Any],
) -> None:
    system = prefix("long", CONVERSE).request([HELLO], dynamic="Now.")["system"]
    assert system[1:] == [POINT, {"text": "Now."}]
    taught = prefix("taught", CONVERSE).request([message(RESULT, {"text": "Hi"})], dynamic="Now.")
    assert taught["messages"][-1]["content"] == [RESULT, {"text": "Now."}, {"text": "Hi"}]
    response = {"functionResponse": {"name": "now", "response": {}}}
    contents = prefix("long", "gemini").request([content(response, {"text": "Hi"})], dynamic="Now.")["contents"]
    assert contents == [content(response, {"text": "Now."}, {"text": "Hi"})]


@pytest.mark.parametrize(
    ("target", "messages", "expected"),
    [
        (CONVERSE, [message({"text": "Hi"})], [message({"text": "Hi"}, POINT)]),
        (CONVERSE, [message({"text": "Hi"}, RESULT)], [message({"text": "Hi"}, RESULT, POINT)]),
        (CONVERSE, [message({"text": "Hi"}, POINT)], [message({"text": "Hi"}, POINT)]),
        (
            CONVERSE,
            [message({"text": "Hi"}, {"reasoningContent": {}})],
            [message({"text": "Hi"}, POINT, {"reasoningContent": {}})],
        ),
        (NOVA, [message({"text": "Hi"}), message(RESULT)], [message({"text": "Hi"}, POINT), message(RESULT)]),
    ],
)
def test_the_marker_of_a_conversation_is_behind_the_last_block_that_can_have_one(
    prefix: Callable[[str, str], Any], target: str, messages: list[Any], expected: list[Any]
) -> None:
    before = copy.deepcopy(messages)
    assert prefix("long", target).request(messages, conversation_marker=True)["messages"] == expected
    assert messages == before


def test_converse_takes_four_markers_and_longer_lifetimes_first(prefix: Callable[[str, str], Any]) -> None:
    long = prefix("long", CONVERSE)
    assert long.request([message({"text": "Hi"}, POINT)] * 2)["system"][-1] == POINT
    assert "takes at most 4 markers: this one has 5" in refusal(long, [message({"text": "Hi"}, POINT)] * 3)
    assert "a lifetime of 1h stands behind one of 5m" in refusal(long, [HELLO], conversation_marker="1h")
    with pytest.raises(CacheunitError, match=r'target "bedrock-nova" has no lifetime of .1h.'):
        prefix("long", NOVA).request([HELLO], conversation_marker="1h")


def test_converse_refuses_other_tools_and_takes_another_choice(prefix: Callable[[str, str], Any]) -> None:
    long = prefix("long", CONVERSE)
    request = long.request([HELLO], toolConfig={"toolChoice": {"any": {}}}, modelId="m")
    assert list(request["toolConfig"]) == ["tools", "toolChoice"]
    assert request["modelId"] == "m"
    assert '"toolConfig.tools" is frozen' in refusal(long, [HELLO], toolConfig={"tools": []})
    assert '"system" is frozen' in refusal(long, [HELLO], system=[])
    short = prefix("short", CONVERSE)
    assert '"toolConfig.tools", which puts text in front' in refusal(short, [HELLO], toolConfig={"tools": [{}]})
    assert short.request([HELLO], toolConfig={"tools": []})["toolConfig"] == {"tools": []}


def test_a_listed_model_is_named_by_its_id_on_bedrock(prefix: Callable[[str, str], Any]) -> None:
    listed = prefix("long", "listed")
    assert listed.request([HELLO], modelId="anthropic.claude-opus-4-6")["modelId"] == "anthropic.claude-opus-4-6"
    assert 'model "us.amazon.nova-pro-v1:0" is not one of those' in refusal(
        listed, [HELLO], modelId="us.amazon.nova-pro-v1:0"
    )
    assert listed.request([HELLO], modelId="us.amazon.nova-pro-v1:0", allow=("model",))


def test_nova_marks_the_system_text_only(prefix: Callable[[str, str], Any], root: Path) -> None:
    def tools(name: str, target: str) -> Any:  # noqa: ANN401 - JSON
        return json.loads((root / f"build/{name}/{target}.json").read_bytes())["toolConfig"]["tools"]

    assert POINT not in tools("long", NOVA)
    assert prefix("long", NOVA).request([HELLO])["system"][-1] == POINT
    assert POINT not in tools("tools", NOVA)
    assert prefix("tools", NOVA).predicted == 0
    assert tools("tools", CONVERSE)[-1] == POINT


def test_tools_are_no_options_of_a_manifest(project: Project) -> None:
    project.write(
        {
            **FILES,
            "prefixes/short.yaml": f"system: a.j2\ntargets: [{CONVERSE}]\noptions: {{toolConfig: {{tools: []}}}}\n",
        }
    )
    ran = project.run("build")
    assert ran.code == 2
    assert 'short.yaml:3: "toolConfig.tools" is a part of the prefix, not an option' in ran.err


@pytest.mark.parametrize(
    ("examples", "line", "message"),
    [
        ("- {role: assistant, text: Hi}", 4, "examples that do not begin with a message of the user"),
        ("- {role: user, text: A}\n- {role: user, text: B}", 5, "two messages of the user in succession"),
        (
            "- {role: user, text: A}\n- {role: assistant, text: B}\n- {role: assistant, text: C}",
            6,
            "two messages of the assistant in succession",
        ),
    ],
)
def test_examples_that_do_not_alternate_are_a_fault_for_converse_only(
    project: Project, examples: str, line: int, message: str
) -> None:
    manifest = f"system: a.j2\ntargets: [{CONVERSE}, anthropic-1024]\nexamples:\n{examples}\n"
    project.write({"templates/a.j2": "Text.", "prefixes/a.yaml": manifest})
    ran = project.run("build")
    assert f'error: prefixes/a.yaml:{line}: target "{CONVERSE}" refuses {message}' in ran.err
    assert (ran.code, ran.err.count("error: ")) == (2, 1)
    assert project.run("build", "--target", "anthropic-1024").code == 0


def test_the_first_message_behind_the_examples_is_of_the_other_role(project: Project) -> None:
    manifest = f"system: a.j2\ntargets: [{CONVERSE}]\nexamples: [{{role: user, text: A}}]\n"
    project.write({"templates/a.j2": "Text.", "prefixes/a.yaml": manifest})
    project.build()
    loaded = load("a", root=project.root)
    assert 'messages[0] has the role "user", as the last example' in refusal(loaded, [HELLO])
    answer = {"role": "assistant", "content": [{"text": "B"}]}
    assert len(loaded.request([answer, HELLO])["messages"]) == 3
