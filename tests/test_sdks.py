"""What a frozen prefix has arrives unchanged at a server, through the vendors' own clients, for each feature."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from recording_server import CACHED, recording
from sdk_clients import SENDERS, close_clients, configure

from cacheunit_build import load
from cacheunit_build.domain.fingerprint import compact_json
from cacheunit_build.request_formats.formats import FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from recording_server import Recorder

DOCS = Path(__file__).parents[1] / "docs/requests.md"
SETTINGS = """
[target.t-text]
extends = "deepseek-v4"
request = "text"
[target.t-openai-chat]
extends = "openai-legacy"
[target.t-openai-chat.cache]
kind = "breakpoints"
minimum = 16
marker = "prompt_cache_breakpoint"
key = "prompt_cache_key"
lifetimes = {5m = 1, 24h = 1}
lifetime_option = "prompt_cache_retention"
[target.t-openai-responses]
extends = "openai"
cache = {minimum = 16}
[target.t-anthropic-messages]
extends = "anthropic-512"
cache = {minimum = 16}
[target.t-gemini]
extends = "gemini"
[target.t-bedrock-converse]
extends = "bedrock-converse-1024"
cache = {minimum = 16}
[target.t-bedrock-nova]
extends = "bedrock-nova"
cache = {minimum = 16}
"""
SYSTEM = "You help the customers of «Acme» — 規則 \U0001f642.\n" * 20
TOOL = {
    "name": "search",
    "description": "Finds an order.",
    "parameters": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "after": {"type": "string"}},
        "required": ["query"],
    },
}
SCHEMA = {
    "type": "object",
    "properties": {"zip": {"type": "string"}, "city": {"type": "string"}},
    "required": ["zip", "city"],
    "additionalProperties": False,
}
MODELS: dict[str, dict[str, Any]] = {
    "text": {"model": "deepseek-v4-pro"},
    "openai-chat": {"model": "gpt-5"},
    "openai-responses": {"model": "gpt-5.6"},
    "anthropic-messages": {"model": "claude-opus-5-5", "max_tokens": 9},
    "gemini": {"model": "gemini-3.8-flash", "config": {"temperature": 0}},
    "bedrock-converse": {"modelId": "us.anthropic.claude-opus-4-6-v1:0"},
    "bedrock-nova": {"modelId": "us.amazon.nova-pro-v1:0"},
}
DOCUMENTED = ("openai-legacy", "openai", "anthropic-512", "gemini", "gemini-explicit", "bedrock-converse-1024")
PLAIN = "a prompt is plain text"
UNMARKED = "its caches need no marker"
NO_LIFETIME = "it has no lifetimes"
KEYLESS = "it has no cache keys"
NONE_KNOWN = "none is known to change its prefix"
HOSTED = {
    "openai-responses": {"type": "web_search"},
    "anthropic-messages": {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
    "gemini": {"googleSearch": {}},
    "bedrock-converse": {"systemTool": {"name": "nova_grounding"}},
    "bedrock-nova": {"systemTool": {"name": "nova_grounding"}},
}
FURTHER: dict[str, dict[str, Any]] = {
    "openai-responses": {"defer_loading": True},
    "anthropic-messages": {"input_examples": [{"query": "A-17"}]},
    "gemini": {"responseJsonSchema": {"type": "string"}},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One feature of a prefix or of a request; a row of the table in the documentation.

    Attributes:
        manifest: lines of the manifest, for all formats.
        manifests: lines of the manifest in place of these, by format.
        options: the options that the manifest freezes, by format.
        arguments: arguments of `request()`.
        arrives: a part of the JSON that arrives, by format; one for all others is under "".
        times: how often that part arrives.
        missing: why a format does not have the feature, by format; the documentation says the same.
    """

    manifest: str = "system: system.j2"
    manifests: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    arrives: Mapping[str, str]
    times: int = 1
    missing: Mapping[str, str] = field(default_factory=dict)


MARKERS = {
    "openai-chat": '"prompt_cache_breakpoint":{"mode":"explicit"}',
    "openai-responses": '"prompt_cache_breakpoint":{"mode":"explicit"}',
    "anthropic-messages": '"cache_control":{"type":"ephemeral"}',
    "bedrock-converse": '{"cachePoint":{"type":"default"}}',
    "bedrock-nova": '{"cachePoint":{"type":"default"}}',
}
TOOLS = "system: system.j2\ntools: [tool.json]"
CALLS = """
examples:
- {role: user, text: Where is A-17?}
- role: assistant
  tool_calls: [{name: search, arguments: {query: A-17, after: x}}]
- {role: tool, text: In Köln.}
- {role: assistant, text: It is in Köln.}
"""
NO_TEXT = {"text": PLAIN}
FEATURES = {
    "system text": Feature(arrives={"": "規則 \U0001f642"}, times=20),
    "system text in blocks": Feature(
        manifest="system: [system.j2, system.j2]", arrives={"": "規則 \U0001f642"}, times=40
    ),
    "tools": Feature(
        manifest=TOOLS,
        arrives={"": '"properties":{"query":{"type":"string"},"after":{"type":"string"}}'},
        missing=NO_TEXT,
    ),
    "examples": Feature(
        manifest="system: system.j2\nexamples: [{role: user, text: Where is A-17?}, {role: assistant, text: In Köln.}]",
        arrives={"": "In Köln."},
        missing=NO_TEXT,
    ),
    "tool calls in examples": Feature(
        manifest=TOOLS + CALLS,
        arrives={
            "": '{"query":"A-17","after":"x"}',
            "openai-chat": r"{\"query\":\"A-17\",\"after\":\"x\"}",
            "openai-responses": r"{\"query\":\"A-17\",\"after\":\"x\"}",
        },
        missing=NO_TEXT,
    ),
    "cache marker": Feature(arrives=MARKERS, missing={**NO_TEXT, "gemini": UNMARKED}),
    "`conversation_marker`": Feature(
        arguments={"conversation_marker": True}, arrives=MARKERS, times=2, missing={**NO_TEXT, "gemini": UNMARKED}
    ),
    "`cache.ttl`": Feature(
        manifest="system: system.j2\ncache: {ttl: 1h}",
        manifests={
            "openai-chat": "system: system.j2\ncache: {ttl: 24h}",
            "openai-responses": "system: system.j2\ncache: {ttl: 12h}",
        },
        arrives={
            "openai-chat": '"prompt_cache_retention":"24h"',
            "openai-responses": '"prompt_cache_breakpoint":{"mode":"explicit","ttl":"12h"}',
            "anthropic-messages": '"cache_control":{"type":"ephemeral","ttl":"1h"}',
            "bedrock-converse": '{"cachePoint":{"type":"default","ttl":"1h"}}',
        },
        missing={**NO_TEXT, "gemini": "only cached content has a lifetime", "bedrock-nova": NO_LIFETIME},
    ),
    "cache key": Feature(
        arrives={"": '"prompt_cache_key":"'},
        missing={
            **NO_TEXT,
            **dict.fromkeys(("anthropic-messages", "gemini", "bedrock-converse", "bedrock-nova"), KEYLESS),
        },
    ),
    "`dynamic`": Feature(arguments={"dynamic": "Today is Monday."}, arrives={"": "Today is Monday."}),
    "frozen options": Feature(
        options={
            "openai-chat": {"reasoning_effort": "high"},
            "openai-responses": {"reasoning": {"effort": "high"}},
            "anthropic-messages": {"thinking": {"type": "enabled", "budget_tokens": 2048}},
            "gemini": {"toolConfig": {"functionCallingConfig": {"mode": "AUTO"}}},
            "bedrock-converse": {"additionalModelRequestFields": {"thinking": {"type": "disabled"}}},
        },
        arrives={
            "openai-chat": '"reasoning_effort":"high"',
            "openai-responses": '"reasoning":{"effort":"high"}',
            "anthropic-messages": '"thinking":{"type":"enabled","budget_tokens":2048}',
            "gemini": '"toolConfig":{"functionCallingConfig":{"mode":"AUTO"}}',
            "bedrock-converse": '"thinking":{"type":"disabled"}',
        },
        missing={**NO_TEXT, "bedrock-nova": NONE_KNOWN},
    ),
    "response schema": Feature(
        manifest="system: system.j2\noptions: {response_schema: schema.json}",
        arrives={
            "": '"properties":{"zip":{"type":"string"},"city":{"type":"string"}}',
            "bedrock-converse": r"\"properties\":{\"zip\":{\"type\":\"string\"},\"city\":{\"type\":\"string\"}}",
        },
        missing={
            **NO_TEXT,
            "gemini": "it is no part of what is cached: set it in each request",
            "bedrock-nova": NONE_KNOWN,
        },
    ),
    "hosted tools": Feature(
        manifest="system: system.j2\ntools: [tool.json, hosted-{format}.json]",
        arrives={
            "openai-responses": '{"type":"web_search"}',
            "anthropic-messages": '{"max_uses":3,"name":"web_search","type":"web_search_20250305",',
            "gemini": '{"googleSearch":{}}',
            "": '{"systemTool":{"name":"nova_grounding"}}',
        },
        missing={**NO_TEXT, "openai-chat": "none is known"},
    ),
    "further keys of tools": Feature(
        manifest="system: system.j2\ntools: [further-{format}.json]",
        arrives={
            "openai-responses": '"defer_loading":true',
            "anthropic-messages": '"input_examples":[{"query":"A-17"}]',
            "gemini": '"responseJsonSchema":{"type":"string"}',
        },
        missing={**NO_TEXT, **dict.fromkeys(("openai-chat", "bedrock-converse", "bedrock-nova"), "none is known")},
    ),
}
CELLS = [(name, format_) for name, feature in FEATURES.items() for format_ in FORMATS if format_ not in feature.missing]


def prefix_name(feature: str, format_name: str) -> str:
    """Returns the name of the prefix with one feature for one format."""
    return f"{list(FEATURES).index(feature)}-{format_name}"


def files() -> dict[str, str]:
    """Returns the files of the project: a prefix for each feature of each format."""
    sources = {
        "cacheunit.toml": SETTINGS,
        "templates/system.j2": SYSTEM,
        "tool.json": json.dumps(TOOL),
        "schema.json": json.dumps(SCHEMA),
        **{f"hosted-{format_name}.json": json.dumps(tool) for format_name, tool in HOSTED.items()},
        "prefixes/stored.yaml": f"{TOOLS}{CALLS}targets: [gemini-explicit]\ncache: {{ttl: 2h}}\n",
        "prefixes/support/agent.yaml": f"{TOOLS}\ntargets: [{', '.join(DOCUMENTED)}]\n",
        **{f"further-{format_name}.json": json.dumps({**TOOL, **keys}) for format_name, keys in FURTHER.items()},
    }
    for name, format_name in CELLS:
        feature, path = FEATURES[name], f"prefixes/{prefix_name(name, format_name)}.yaml"
        manifest = feature.manifests.get(format_name, feature.manifest).replace("{format}", format_name)
        options = json.dumps(feature.options[format_name]) if format_name in feature.options else ""
        sources[path] = f"{manifest}\ntargets: [t-{format_name}]\n{options and f'options: {options}'}\n"
    return sources


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of a built project."""
    from cacheunit_build.cli import main as cli

    root = tmp_path_factory.mktemp("project")
    for path, text in files().items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("CACHEUNIT_CACHE_DIR", str(tmp_path_factory.mktemp("cache") / "cacheunit"))
        assert cli.run(["-C", str(root), "-q", "build"]) == 0
    return root


@pytest.fixture(scope="module")
def server() -> Iterator[Recorder]:
    """Returns a recording server that the clients send to."""
    with recording() as recorder, pytest.MonkeyPatch.context() as environment:
        configure(environment, recorder.url)
        yield recorder
        close_clients()


def user(format_name: str) -> dict[str, Any]:
    """Returns the user's words as arguments of `request()`."""
    if format_name == "text":
        return {"continuation": "Hi"}
    return {"messages": [FORMATS[format_name].form.message("user", "Hi")]}


def frozen_part(arrived: Any, frozen: Any) -> Any:  # noqa: ANN401 - JSON
    """Returns the part of what arrived that stands where the frozen one does: the first items, or the same keys."""
    if isinstance(frozen, dict) and isinstance(arrived, dict):
        return {key: frozen_part(arrived[key], frozen[key]) for key in arrived if key in frozen}
    if isinstance(frozen, list) and isinstance(arrived, list):
        return arrived[: len(frozen)]
    return arrived[: len(frozen)] if isinstance(frozen, str) and isinstance(arrived, str) else arrived


def in_the_spelling_of_the_api(body: Any) -> Any:  # noqa: ANN401 - JSON
    """Returns a request with the names that Google's client sends in the other spelling that its API takes."""
    for tool in body.get("tools", ()):
        for function in tool.get("functionDeclarations", ()):
            for name in [name for name in function if name.endswith("_json_schema")]:  # the last ones, in this order
                first = name.partition("_")[0]
                function[f"{first}JsonSchema"] = function.pop(name)
    return body


@pytest.mark.parametrize(("feature", "format_name"), CELLS)
def test_frozen_parts_arrive_byte_for_byte(root: Path, server: Recorder, feature: str, format_name: str) -> None:
    name = prefix_name(feature, format_name)
    prefix = load(name, root=str(root))
    case = FEATURES[feature]
    SENDERS[format_name](prefix.request(**user(format_name), **case.arguments, **MODELS[format_name]))
    frozen = json.loads((root / f"build/{name}/t-{format_name}.json").read_bytes())
    arrived = in_the_spelling_of_the_api(server.last.body)
    for key, part in frozen.items():
        assert compact_json(frozen_part(arrived[key], part)) == compact_json(part)
    snippet = case.arrives.get(format_name, case.arrives.get(""))
    assert compact_json(arrived).decode().count(str(snippet)) == case.times
    assert "Hi" in compact_json(arrived).decode()


# What is stored as cached content


def test_cached_content_arrives_byte_for_byte_and_requests_name_it(root: Path, server: Recorder) -> None:
    from sdk_clients import client

    prefix = load("stored", root=str(root))
    cache = client("google").caches.create(model="gemini-3.8-flash", config=prefix.cached_content)
    assert server.last.path.endswith("/cachedContents")
    arrived = in_the_spelling_of_the_api(server.last.body)
    frozen = json.loads((root / "build/stored/gemini-explicit.cache.json").read_bytes())
    assert arrived.keys() == {*frozen, "model"}
    for key, part in frozen.items():
        assert compact_json(arrived[key]) == compact_json(part)
    SENDERS["gemini"](prefix.request(**user("gemini"), cached_content=cache.name, **MODELS["gemini"]))
    assert server.last.path.endswith("/models/gemini-3.8-flash:generateContent")
    assert server.last.body.keys() == {"contents", "cachedContent", "generationConfig"}
    assert server.last.body["cachedContent"] == "cachedContents/recorded"


# The documentation


def rows(page: str) -> list[list[str]]:
    """Returns the cells of each row of the table of features in a page, its header first."""
    (table,) = re.findall(r"^\| feature \|.*?(?=\n\n)", page, re.MULTILINE | re.DOTALL)
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return [lines[0], *lines[2:]]


def test_the_table_in_the_documentation_has_each_feature_of_each_format() -> None:
    header, *cells = rows(DOCS.read_text(encoding="utf-8"))
    assert header == ["feature", *(f"`{name}`" for name in FORMATS)]
    assert cells == [
        [name, *(feature.missing.get(format_name, "yes") for format_name in FORMATS)]
        for name, feature in FEATURES.items()
    ]


EXAMPLES = re.findall(r"^```python\n(.*?)^```$", DOCS.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
PATHS = {
    "chat.completions.create": "/v1/chat/completions",
    "responses.create": "/v1/responses",
    "messages.create": "/v1/messages",
    "generate_content": "/models/gemini-3.8-flash:generateContent",
    "converse": "/model/us.anthropic.claude-sonnet-4-6/converse",
}


def test_every_client_has_an_example() -> None:
    calls = [call for example in EXAMPLES for call in PATHS if f"{call}(" in example]
    assert sorted(calls) == sorted([*PATHS, "generate_content"])  # with implicit and with explicit caching


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_send_the_prefix(
    root: Path, server: Recorder, example: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(root)
    names: dict[str, Any] = {}
    exec(example, names)  # noqa: S102 - the example in the documentation is executed
    names["client"].close()
    (path,) = [path for call, path in PATHS.items() if f"{call}(" in example]
    assert server.last.path.endswith(path)
    prefix = names["prefix"]
    content = f"{root}/build/support/agent/{prefix.target}{'.json' if prefix.cached_content is None else '.cache.json'}"
    sent = server.last if prefix.cached_content is None else server.requests[-2]
    for key, part in json.loads(Path(content).read_bytes()).items():
        assert compact_json(frozen_part(in_the_spelling_of_the_api(sent.body)[key], part)) == compact_json(part)
    assert "Where is A-17?" in compact_json(server.last.body).decode()
    assert f"Observation(hit={CACHED}," in capsys.readouterr().out


# The vendors' types


def request_in_the_types(format_name: str, body: Any) -> None:  # noqa: ANN401 - JSON
    """Raises an error where a fragment does not fit the types of the vendor's package."""
    if format_name == "gemini":
        from google.genai import types

        contents = [*body.get("contents", ()), *([body["systemInstruction"]] if "systemInstruction" in body else ())]
        assert all(types.Content.model_validate(content) for content in contents)
        assert all(types.Tool.model_validate(tool) for tool in body.get("tools", ()))
        types.GenerateContentConfig.model_validate({"toolConfig": body.get("toolConfig")})
        return
    from botocore.validate import ParamValidator
    from sdk_clients import client

    shape = client("aws").meta.service_model.operation_model("Converse").input_shape
    problems = ParamValidator().validate({"modelId": "m", **body}, shape)
    assert not problems.has_errors(), problems.generate_report()


TYPED = [cell for cell in CELLS if cell[1] in ("gemini", "bedrock-converse", "bedrock-nova")]


@pytest.mark.parametrize(("feature", "format_name"), TYPED)
@pytest.mark.usefixtures("server")
def test_a_fragment_has_the_types_of_the_vendors_package(root: Path, feature: str, format_name: str) -> None:
    body = json.loads((root / f"build/{prefix_name(feature, format_name)}/t-{format_name}.json").read_bytes())
    request_in_the_types(format_name, body)


@pytest.mark.parametrize(
    ("format_name", "body"),
    [
        ("gemini", {"contents": [{"role": "user", "content": "Hi"}]}),
        ("gemini", {"tools": [{"functions": []}]}),
        ("bedrock-converse", {"system": [{"type": "text", "text": "Hi"}]}),
        ("bedrock-converse", {"messages": [{"role": "user", "content": "Hi"}]}),
    ],
)
@pytest.mark.usefixtures("server")
def test_the_vendors_types_refuse_the_form_of_another_api(format_name: str, body: Any) -> None:  # noqa: ANN401
    with pytest.raises((ValueError, AssertionError)):
        request_in_the_types(format_name, body)
