"""What a frozen prefix has arrives unchanged at a server, through the vendors' own clients, for each feature."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from recording_server import recording
from sdk_clients import SENDERS, close_clients, configure

from cacheunit_build import load
from cacheunit_build.domain.fingerprint import compact_json
from cacheunit_build.request_formats.formats import FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from recording_server import Recorder

DOCS = Path(__file__).parents[1] / "docs/requests.md"
SETTINGS = """
[target.text]
extends = "deepseek-v4"
request = "text"
[target.openai-chat]
extends = "openai-legacy"
cache = {kind = "breakpoints", minimum = 16, marker = "prompt_cache_breakpoint"}
[target.openai-responses]
extends = "openai"
cache = {minimum = 16}
[target.anthropic-messages]
extends = "anthropic-512"
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
}
MODELS: dict[str, dict[str, Any]] = {
    "text": {"model": "deepseek-v4-flash"},
    "openai-chat": {"model": "gpt-5"},
    "openai-responses": {"model": "gpt-5.6"},
    "anthropic-messages": {"model": "claude-opus-5-5", "max_tokens": 9},
}
PLAIN = "a prompt is plain text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One feature of a prefix or of a request; a row of the table in the documentation.

    Attributes:
        manifest: lines of the manifest, for all formats.
        options: the options that the manifest freezes, by format.
        arguments: arguments of `request()`.
        arrives: a part of the JSON that arrives, by format; one for all others is under "".
        times: how often that part arrives.
        missing: why a format does not have the feature, by format; the documentation says the same.
    """

    manifest: str = "system: system.j2"
    options: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    arrives: Mapping[str, str]
    times: int = 1
    missing: Mapping[str, str] = field(default_factory=dict)


MARKERS = {
    "openai-chat": '"prompt_cache_breakpoint":{"mode":"explicit"}',
    "openai-responses": '"prompt_cache_breakpoint":{"mode":"explicit"}',
    "anthropic-messages": '"cache_control":{"type":"ephemeral"}',
}
FEATURES = {
    "system text": Feature(arrives={"": "規則 \U0001f642"}, times=20),
    "tools": Feature(
        manifest="system: system.j2\ntools: [tool.json]",
        arrives={"": '"properties":{"query":{"type":"string"},"after":{"type":"string"}}'},
        missing={"text": PLAIN},
    ),
    "examples": Feature(
        manifest="system: system.j2\nexamples: [{role: user, text: Where is A-17?}, {role: assistant, text: In Köln.}]",
        arrives={"": "In Köln."},
        missing={"text": PLAIN},
    ),
    "cache marker": Feature(arrives=MARKERS, missing={"text": PLAIN}),
    "`conversation_marker`": Feature(
        arguments={"conversation_marker": True}, arrives=MARKERS, times=2, missing={"text": PLAIN}
    ),
    "`dynamic`": Feature(arguments={"dynamic": "Today is Monday."}, arrives={"": "Today is Monday."}),
    "frozen options": Feature(
        options={
            "openai-chat": {"reasoning_effort": "high"},
            "openai-responses": {"reasoning": {"effort": "high"}},
            "anthropic-messages": {"thinking": {"type": "enabled", "budget_tokens": 2048}},
        },
        arrives={
            "openai-chat": '"reasoning_effort":"high"',
            "openai-responses": '"reasoning":{"effort":"high"}',
            "anthropic-messages": '"thinking":{"type":"enabled","budget_tokens":2048}',
        },
        missing={"text": PLAIN},
    ),
    "response schema": Feature(
        options={
            "openai-chat": {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}},
            "openai-responses": {"text": {"format": {"type": "json_schema", "name": "a", "schema": SCHEMA}}},
            "anthropic-messages": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        },
        arrives={"": '"properties":{"zip":{"type":"string"},"city":{"type":"string"}}'},
        missing={"text": PLAIN},
    ),
}
CELLS = [(name, format_) for name, feature in FEATURES.items() for format_ in FORMATS if format_ not in feature.missing]


def prefix_name(feature: str, format_name: str) -> str:
    """Returns the name of the prefix with one feature for one format."""
    return f"{list(FEATURES).index(feature)}-{format_name}"


def files() -> dict[str, str]:
    """Returns the files of the project: a prefix for each feature of each format."""
    prefixes = {}
    for name, format_name in CELLS:
        feature, path = FEATURES[name], f"prefixes/{prefix_name(name, format_name)}.yaml"
        options = json.dumps(feature.options.get(format_name, {}))
        prefixes[path] = f"{feature.manifest}\ntargets: [{format_name}]\noptions: {options}\n"
    sources = {"cacheunit.toml": SETTINGS, "templates/system.j2": SYSTEM, "tool.json": json.dumps(TOOL)}
    return {**prefixes, **sources}


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
    return {"messages": [{"role": "user", "content": "Hi"}]}


def frozen_part(arrived: Any, frozen: Any) -> Any:  # noqa: ANN401 - JSON
    """Returns the part of what arrived that stands where the frozen one does: the first items, or the same keys."""
    if isinstance(frozen, dict) and isinstance(arrived, dict):
        return {key: frozen_part(arrived[key], frozen[key]) for key in arrived if key in frozen}
    if isinstance(frozen, list) and isinstance(arrived, list):
        return arrived[: len(frozen)]
    return arrived[: len(frozen)] if isinstance(frozen, str) and isinstance(arrived, str) else arrived


@pytest.mark.parametrize(("feature", "format_name"), CELLS)
def test_frozen_parts_arrive_byte_for_byte(root: Path, server: Recorder, feature: str, format_name: str) -> None:
    name = prefix_name(feature, format_name)
    prefix = load(name, root=str(root))
    case = FEATURES[feature]
    SENDERS[format_name](prefix.request(**user(format_name), **case.arguments, **MODELS[format_name]))
    frozen = json.loads((root / f"build/{name}/{format_name}.json").read_bytes())
    arrived = server.last.body
    for key, part in frozen.items():
        assert compact_json(frozen_part(arrived[key], part)) == compact_json(part)
    snippet = case.arrives.get(format_name, case.arrives.get(""))
    assert compact_json(arrived).decode().count(str(snippet)) == case.times
    assert "Hi" in compact_json(arrived).decode()
