"""The model gpt-oss is framed and counted as openai-harmony does it for vLLM, which is the reference."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from harmony_reference import DATE, FOLDER_VARIABLE, Reference, vocabulary_folder
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheunit_build import load
from cacheunit_build.adapters.storage import installed_files
from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.package_file import PackagedEncoder
from cacheunit_build.domain.sequences import common_prefix
from cacheunit_build.targets import harmony
from cacheunit_build.targets.harmony import encode_messages
from cacheunit_build.targets.loader import SHIPPED_ENCODERS, known_models

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conftest import Project

    from cacheunit_build.adapters.tokenizers.vocabulary import Vocabulary

    Json = dict[str, Any]

SYSTEM: Json = {"role": "system", "content": "  You answer questions about orders.\nBe kind.\n"}
CALL: Json = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"query":"A-17","limit":3}'}}
EXAMPLES: list[Json] = [
    {"role": "user", "content": "Where is A-17?"},
    {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": '{"state": "sent"}'},
    {"role": "assistant", "content": "It was sent."},
]
LATER: list[Json] = [
    {"role": "assistant", "content": "An answer."},
    {"role": "system", "content": "Be brief from now on."},
    {"role": "user", "content": [{"type": "text", "text": "Further "}, {"type": "text", "text": "words."}]},
    {"role": "assistant", "content": None, "tool_calls": [CALL, {**CALL, "id": "c2"}]},
    {"role": "tool", "tool_call_id": "c2", "content": "A result."},
    {"role": "assistant", "content": ""},
]
WORDS = ("q", "W", "3", " ", "\n", "\n\n", "!", "\u8a9e", "'s", "Compare the two drafts. " * 9)


def tool(description: str = "Finds orders in Köln.", /, **schema: Any) -> Json:
    """Returns a tool in OpenAI's form."""
    return {"type": "function", "function": {"name": "search", "description": description, "parameters": schema}}


TOOL = tool(type="object", properties={"query": {"type": "string"}, "limit": {"type": "integer"}}, required=["query"])


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """Returns the reference."""
    library = pytest.importorskip("openai_harmony")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER_VARIABLE, str(vocabulary_folder(tmp_path_factory.mktemp("encodings"))))
        return Reference(library)


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    """Returns the vocabulary of the model."""
    spec = known_models()["gpt-oss"].tokenizer
    assert spec is not None
    return LocalTokenizerLoader(lambda _: None).load(spec)


@pytest.fixture
def orders(project: Project) -> Project:
    """Returns a project whose prefix has a tool and examples with a call of it, for a target with the model."""
    roles = [
        f"  - {{role: {item['role']}, text: {json.dumps(item['content'])}"
        + (", tool_calls: [{name: search, arguments: {query: A-17, limit: 3}}]}" if "tool_calls" in item else "}")
        for item in EXAMPLES
    ]
    project.write(
        {
            "cacheunit.toml": 'targets = ["ours"]\n[target.ours]\nmodel = "gpt-oss"\ncache = "vllm"\n',
            "templates/orders.j2": str(SYSTEM["content"]),
            "orders.json": json.dumps([TOOL]),
            "prefixes/orders.yaml": "\n".join(
                ["system: orders.j2", "tools: [orders.json]", "padding: off", "examples:", *roles, ""]
            ),
        }
    )
    return project


def framed(messages: Sequence[Json], tools: Sequence[Json] = (), **arguments: Any) -> str:
    """Returns the text that is held against the reference."""
    return encode_messages(messages, **{"tools": tools, "conversation_start_date": DATE, **arguments})


# Against the reference

TEXTS = st.sampled_from(["D", "Two\nlines", 'Köln "q" \\', "", "\r\nz\r", "a\x1fb\n\n"])
# The library reads numbers with an exponent beyond 22 less exactly than they are written.
NUMBERS = st.builds(
    lambda digits, exponent: float(f"{digits}e{exponent}"), st.integers(-9999, 9999), st.integers(-15, 19)
)
SCALARS = st.one_of(TEXTS, st.none(), st.booleans(), st.integers(-(10**6), 10**6), NUMBERS)
DEFAULTS = st.one_of(SCALARS, st.lists(SCALARS, max_size=2), st.dictionaries(TEXTS, SCALARS, max_size=2))
KINDS: tuple[Any, ...] = (
    "object",
    "string",
    "number",
    "integer",
    "boolean",
    "array",
    "null",
    ["string", "null"],
    ["integer"],
    [],
    None,
)


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    optional = {
        "type": st.sampled_from(KINDS),
        "description": st.one_of(TEXTS, st.none()),
        "title": TEXTS,
        "examples": st.lists(st.one_of(TEXTS, st.integers(0, 9)), max_size=2),
        "default": DEFAULTS,
        "nullable": st.booleans(),
        "enum": st.lists(st.one_of(TEXTS, st.integers(0, 9)), max_size=2),
        "oneOf": st.lists(inner, max_size=3),
        "items": inner,
        "properties": st.dictionaries(st.sampled_from(["q", "limit", "Z", "köln"]), inner, max_size=3),
        "required": st.lists(st.sampled_from(["q", "Z"]), max_size=2),
    }
    objects = {key: optional[key] for key in ("properties", "required")} | {"type": st.just("object")}
    chosen = st.lists(st.sampled_from(sorted(optional)), max_size=4, unique=True)
    any_schema = chosen.flatmap(lambda keys: st.fixed_dictionaries({key: optional[key] for key in keys}))
    return st.one_of(any_schema, st.fixed_dictionaries(objects))


SCHEMAS = st.recursive(st.sampled_from([{}, {"type": "string"}, True]), _schemas, max_leaves=6)
ROOTS = _schemas(SCHEMAS)


PROPERTIES: list[tuple[Json, str]] = [
    ({"type": "integer", "description": "How many.", "default": 3}, "// How many.\na?: number, // default: 3\n"),
    ({"type": "string", "enum": ["x", "y"], "default": "x"}, 'a?: "x" | "y", // default: x\n'),
    ({"type": "string", "title": "T", "examples": ["e", 1]}, '// T\n//\n// Examples:\n// - "e"\na?: string,\n'),
    ({"type": ["string", "null"], "default": "d"}, 'a?: string | null, // default: "d"\n'),
    ({"type": "array", "items": {"type": "integer"}, "nullable": True}, "a?: number[] | null,\n"),
    ({"type": "array"}, "a?: Array<any>,\n"),
    ({"anyOf": [{"type": "string"}]}, "a?: any,\n"),
    (
        {"type": "object", "description": "D", "properties": {"b": {"type": "string"}}, "required": ["b"]},
        "// D\na?:     // D\n{\n    b: string,\n    },\n",
    ),
    (
        {"description": "D", "oneOf": [{"type": "string", "description": "S"}, {"type": "null", "description": "N"}]},
        "// D\na?:\n | string\n | any // N\n,\n",
    ),
    (
        {"description": "S", "oneOf": [{"type": "string", "description": "S", "default": "d"}, {"type": "number"}]},
        'a?:\n | string // default: "d"\n | number\n,\n',
    ),
]
"""Schemas of a property, and how the reference declares them."""


def declared(text: str) -> str:
    """Returns what a text declares of the only argument of its tool."""
    return text.partition("type search = (_: {\n")[2].partition("}) => any;")[0]


@pytest.mark.parametrize(("schema", "expected"), PROPERTIES)
def test_a_property_is_declared_in_its_form(schema: Json, expected: str) -> None:
    assert declared(framed([EXAMPLES[0]], [tool(type="object", properties={"a": schema})])) == expected


@pytest.mark.parametrize(("schema", "expected"), PROPERTIES)
def test_that_form_is_the_one_of_the_reference(reference: Reference, schema: Json, expected: str) -> None:
    assert declared(reference.text([EXAMPLES[0]], [tool(type="object", properties={"a": schema})])) == expected


@settings(max_examples=300, deadline=None)
@given(schemas=st.lists(ROOTS, min_size=1, max_size=2), description=TEXTS)
def test_tools_are_declared_as_the_reference_declares_them(
    reference: Reference, schemas: list[Json], description: str
) -> None:
    tools = [tool(description, **schema) for schema in schemas]
    assert framed([EXAMPLES[0]], tools) == reference.text([EXAMPLES[0]], tools)


@pytest.mark.parametrize("value", [1e-5, -2.5e-5, 1e-7, 1e16, 1.25e22, -0.0, 123456789012.5, 0.0001])
def test_numbers_have_the_form_of_the_reference(reference: Reference, value: float) -> None:
    tools = [tool(type="object", properties={"a": {"type": "number", "default": [value]}})]
    assert framed([EXAMPLES[0]], tools) == reference.text([EXAMPLES[0]], tools)


@pytest.mark.parametrize("effort", ["low", "medium", "high"])
@pytest.mark.parametrize("tools", [[], [TOOL]])
@pytest.mark.parametrize(
    "messages", [[EXAMPLES[0]], [SYSTEM, EXAMPLES[0]], [SYSTEM, *EXAMPLES, EXAMPLES[0]], [SYSTEM, *EXAMPLES, *LATER]]
)
def test_texts_and_ids_are_those_of_the_reference(
    reference: Reference, vocabulary: Vocabulary, messages: list[Json], tools: list[Json], effort: str
) -> None:
    text = framed(messages, tools, reasoning_effort=effort)
    assert text == reference.text(messages, tools, effort)
    assert vocabulary.encode(text) == reference.ids(messages, tools, effort)


def test_a_build_counts_the_tokens_that_all_requests_share(orders: Project, reference: Reference) -> None:
    (artifact,) = orders.run("build", "--format", "json").json["artifacts"]
    body = json.loads(orders.read("build/orders/ours.json"))
    requests = [[*body["messages"], {"role": "user", "content": words}] for words in WORDS]
    requests += [[*requests[-1], *LATER[:end]] for end in range(1, len(LATER))]
    first, *others = (reference.ids(messages, body["tools"]) for messages in requests)
    assert artifact["counted"] == "exact"
    assert artifact["tokens"] == min(common_prefix(first, ids) for ids in others)


def test_the_frame_of_a_conversation() -> None:
    assert framed([SYSTEM, EXAMPLES[0]]) == (
        "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
        "Knowledge cutoff: 2024-06\nCurrent date: 2026-01-01\n\nReasoning: medium\n\n"
        "# Valid channels: analysis, commentary, final. Channel must be included for every message.<|end|>"
        "<|start|>developer<|message|># Instructions\n\n  You answer questions about orders.\nBe kind.\n<|end|>"
        "<|start|>user<|message|>Where is A-17?<|end|><|start|>assistant"
    )


# The date


def test_each_day_has_the_same_number_of_tokens(vocabulary: Vocabulary) -> None:
    days = [f"{year}-{month:02}-{day:02}" for year in (2025, 2029, 2100) for month in (1, 9, 12) for day in (1, 10, 31)]
    texts = [framed([SYSTEM, EXAMPLES[0]], conversation_start_date=day) for day in days]
    assert len({len(vocabulary.encode(text)) for text in texts}) == 1
    assert len(set(texts)) == len(days)


def test_without_a_date_there_is_no_line_on_it(orders: Project) -> None:
    assert "Current date" not in encode_messages([SYSTEM])
    (dated,) = orders.run("build", "--format", "json").json["artifacts"]
    orders.edit("cacheunit.toml", "cache =", 'frame = {arguments = {conversation_start_date = ""}}\ncache =')
    (undated,) = orders.run("build", "--format", "json").json["artifacts"]
    assert 0 < undated["tokens"] < dated["tokens"]


# The reasoning effort


def test_a_frozen_effort_is_in_the_prefix_and_another_one_is_refused(orders: Project) -> None:
    orders.edit("prefixes/orders.yaml", "padding: off", "padding: off\noptions: {reasoning_effort: high}")
    (artifact,) = orders.run("build", "--format", "json").json["artifacts"]
    assert artifact["counted"] == "exact"
    assert json.loads(orders.read("build/orders/ours.json"))["reasoning_effort"] == "high"
    with pytest.raises(CacheunitError, match="reasoning_effort"):
        load("orders", target="ours", root=orders.root).request([], reasoning_effort="low")


def test_without_a_frozen_effort_a_request_may_only_have_the_one_that_was_counted(orders: Project) -> None:
    assert orders.run("build").code == 0
    prefix = load("orders", target="ours", root=orders.root)
    assert prefix.request([], reasoning_effort="medium")["reasoning_effort"] == "medium"
    with pytest.raises(CacheunitError, match="reasoning_effort"):
        prefix.request([], reasoning_effort="low")


# What can be wrong


def test_an_unknown_effort_is_one_error_and_nothing_is_written(orders: Project) -> None:
    orders.edit("prefixes/orders.yaml", "padding: off", "padding: off\noptions: {reasoning_effort: none}")
    before = orders.snapshot()
    ran = orders.run("build")
    assert (ran.code, orders.snapshot()) == (2, before)
    assert ran.err.count("error:") == 1
    assert 'reasoning_effort is "none", not one of low, medium, high' in ran.err


def test_without_its_vocabulary_the_error_names_the_extra(orders: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalTokenizerLoader, "load", LocalTokenizerLoader.__dict__["_load"])  # not one that is loaded
    folders = installed_files.package_folders
    monkeypatch.setattr(installed_files, "package_folders", lambda name: [] if name == "bpe_openai" else folders(name))
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(orders.path("nowhere")))
    ran = orders.run("build")
    assert ran.code == 2
    assert 'encoding "o200k_harmony" needs the file o200k_base.tiktoken' in ran.err
    assert 'hint: pip install "cacheunit-build[openai]"' in ran.err


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ([{"role": "narrator", "content": "Hi"}], 'a message has the unknown role "narrator"'),
        ([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}], "must be JSON text"),
    ],
)
def test_messages_of_another_form_are_refused(messages: list[Json], error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        encode_messages(messages)


def test_the_file_is_the_one_that_the_model_names() -> None:
    """After a change of targets/harmony.py, its SHA-256 has to be put into models/gpt-oss.toml and loader.py."""
    encoder = known_models()["gpt-oss"].frame.encoder
    assert isinstance(encoder, PackagedEncoder)
    digest = hashlib.sha256(Path(str(harmony.__file__)).read_bytes()).hexdigest()
    assert (encoder.sha256, digest in SHIPPED_ENCODERS) == (digest, True)


def test_it_is_no_code_of_the_project(orders: Project) -> None:
    assert orders.run("--no-project-code", "build").code == 0
