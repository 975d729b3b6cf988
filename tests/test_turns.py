"""Static tokens hold in later turns too, for each kind of chat template that changes what it printed before.

The templates are miniatures, one for each kind. What they really print is computed here by Jinja and Hugging Face
tokenizers alone, for conversations of up to three turns in other words than the product tries.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2.sandbox import ImmutableSandboxedEnvironment
from support import default_vocabulary, reference

from cacheunit_build.compiler.static_tokens import static_tokens
from cacheunit_build.domain.prompt import Conversation, StaticTokens, Turn
from cacheunit_build.templating.chat_template import load_chat_template

if TYPE_CHECKING:
    from collections.abc import Iterator

    Message = dict[str, Any]

START, USER, ASSISTANT = "<｜begin▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"
SYSTEM = "Answer in one sentence, and name the source of each claim."
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}},
}
EXAMPLES = (Turn(role="user", text="Is it late?"), Turn(role="assistant", text="<think>It is nine.</think>No."))
PLAIN = Conversation(system=SYSTEM, tools=(), turns=())
WITH_TOOLS = replace(PLAIN, tools=(TOOL,))
WITH_EXAMPLES = replace(PLAIN, turns=EXAMPLES)

ALL_TURNS = (
    "user, assistant, user",
    "user, assistant, user, assistant, user",
    "user, assistant",
    "user, empty answer, user",
    "user, answer with reasoning, user",
    "user, 20 further exchanges, user",
)
TOOL_TURNS = (
    "user, tool call, tool result",
    "user, tool call, tool result, assistant, user",
    "user, tool call, tool result, tool call, tool result, assistant, user",
    "user, two tool calls, two tool results",
)
ROLES = (
    "{% for m in messages %}{{ {'system': '<｜begin▁of▁sentence｜>', 'user': '<｜User｜>',"
    " 'assistant': '<｜Assistant｜>', 'tool': '<｜tool▁output▁begin｜>'}[m.role] }}"
)
"""The start of a loop that prints the role of each message."""
TOOLS = "{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of chat template.

    Attributes:
        template: a miniature of it.
        framed_prefix: the text that all its requests begin with.
        prefix: the prefix that is counted.
        unstable: the tokens at the end of that text that change with what follows.
        first_turn: the text that all first requests begin with, if it is another one.
        first_unstable: the tokens at the end of that text that change with what follows.
        refused: the shapes of later turns that it refuses.
    """

    template: str
    framed_prefix: str
    prefix: Conversation = PLAIN
    unstable: int = 0
    first_turn: str | None = None
    first_unstable: int = 0
    refused: tuple[str, ...] = ()


KINDS = {
    "nothing changes": Kind(
        template=ROLES + "{{ m.content }}{% endfor %}<｜Assistant｜>", framed_prefix=START + SYSTEM + USER
    ),
    "white space around the system text is stripped": Kind(
        template=ROLES + "{{ m.content | trim }}{% endfor %}",
        prefix=replace(PLAIN, system=f"\n {SYSTEM}\n\n"),
        framed_prefix=START + SYSTEM + USER,
    ),
    "the system text is before the last user turn only": Kind(
        template=(
            START + "{% for m in messages[1:] %}{% if m.role == 'user' %}<｜User｜>"
            "{% if loop.last %}{{ messages[0].content }}\n\n{% endif %}{% endif %}{{ m.content }}{% endfor %}"
        ),
        framed_prefix=START + USER,
        first_turn=f"{START}{USER}{SYSTEM}\n\n",
        first_unstable=1,
    ),
    "the first line has the number of messages": Kind(
        template="Messages: {{ messages | length }}\n" + ROLES + "{{ m.content }}{% endfor %}",
        framed_prefix="Messages: ",
        first_turn=f"Messages: 2\n{START}{SYSTEM}{USER}",
    ),
    "the tools are before the last user turn only": Kind(
        template=(
            "{% set users = messages | selectattr('role', 'equalto', 'user') | list %}"
            + ROLES
            + "{% if m == users[-1] %}"
            + TOOLS
            + "{% endif %}{{ m.content }}{% endfor %}"
        ),
        prefix=WITH_TOOLS,
        framed_prefix=START + SYSTEM + USER,
        first_turn=START + SYSTEM + USER + json.dumps(TOOL),
        first_unstable=2,
    ),
    "the tools move to the front with their first result": Kind(
        template=(
            "{% set results = messages | selectattr('role', 'equalto', 'tool') | list %}"
            "<｜begin▁of▁sentence｜>{% if results %}" + TOOLS + "{% endif %}{{ messages[0].content }}"
            "{% if not results %}" + TOOLS + "{% endif %}"
            "{% for m in messages[1:] %}<｜{{ m.role }}｜>{{ m.content }}{% endfor %}"
        ),
        prefix=WITH_TOOLS,
        framed_prefix=START,
        first_turn=START + SYSTEM + json.dumps(TOOL) + "<｜user｜>",
        first_unstable=2,
    ),
    "reasoning is printed in the last answer only": Kind(
        template=(
            "{% set answers = messages | selectattr('role', 'equalto', 'assistant') | list %}"
            + ROLES
            + "{% if m.role == 'assistant' and m != answers[-1] %}{{ m.content.split('</think>')[-1] }}"
            "{% else %}{{ m.content }}{% endif %}{% endfor %}"
        ),
        prefix=WITH_EXAMPLES,
        framed_prefix=f"{START}{SYSTEM}{USER}Is it late?{ASSISTANT}",
        first_turn=f"{START}{SYSTEM}{USER}Is it late?{ASSISTANT}<think>It is nine.</think>No.{USER}",
    ),
    "reasoning is never printed": Kind(
        template=ROLES + "{{ m.content.split('</think>')[-1] }}{% endfor %}",
        prefix=WITH_EXAMPLES,
        framed_prefix=f"{START}{SYSTEM}{USER}Is it late?{ASSISTANT}No.{USER}",
    ),
    "answers of the assistant are refused": Kind(
        template=(
            ROLES + "{% if m.role == 'assistant' %}{{ raise_exception('one turn only') }}{% endif %}"
            "{{ m.content }}{% endfor %}"
        ),
        framed_prefix=START + SYSTEM + USER,
        refused=ALL_TURNS,
    ),
    "results of tools are refused": Kind(
        template=(
            ROLES + "{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}{{ m.content }}{% endfor %}"
        ),
        prefix=WITH_TOOLS,
        framed_prefix=START + SYSTEM + USER,
        refused=TOOL_TURNS,
    ),
    "arguments have to be JSON, and the front tells of a call": Kind(
        template=(
            "{% set calls = messages | selectattr('tool_calls', 'defined') | list %}"
            "<｜begin▁of▁sentence｜>{% if calls %}{{ calls[0].tool_calls[0].function.arguments + '\n' }}{% endif %}"
            "{% for m in messages %}<｜{{ m.role }}｜>{{ m.content }}{% endfor %}"
        ),
        prefix=WITH_TOOLS,
        framed_prefix=START,
        first_turn=f"{START}<｜system｜>{SYSTEM}<｜user｜>",
        first_unstable=2,
    ),
}


def product(kind: Kind) -> StaticTokens:
    """Returns the static tokens that the product claims."""
    frame, vocabulary = load_chat_template(kind.template.encode(), "chat.jinja", {}), default_vocabulary()
    return static_tokens(frame, kind.prefix, vocabulary.encode, vocabulary.control_ids)


def encode(text: str) -> list[int]:
    """Returns the token ids of a text by the reference implementation."""
    return list(reference().encode(text, add_special_tokens=False).ids)


def conversations(prefix: Conversation) -> Iterator[list[Message]]:
    """Yields the messages of conversations of one, two and three turns, with tool calls if there are tools."""
    answer: Message = {"role": "assistant", "content": "<think>Hm.</think>\nYes."}
    question: Message = {"role": "user", "content": "Why?"}
    call = {"id": "abcdefgh1", "type": "function", "function": {"name": "now", "arguments": '{"zone": "UTC"}'}}
    called: list[Message] = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "12:30"},
    ]
    later: list[list[Message]] = [[], [answer, question], [answer, question] * 2]
    if prefix.tools:
        later += [called, called * 2, [*called, answer, question], [answer, question, *called]]
    for words in ("What now?", "\n\nGo", "{", "7", "<b>", " and", "時刻は?"):
        for rest in later:
            yield [*prefix.messages(), {"role": "user", "content": words}, *rest]


def render(kind: Kind, messages: list[Message]) -> str | None:
    """Returns what Jinja renders; None where the template refuses the conversation."""
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    try:
        return environment.from_string(kind.template).render(messages=messages, tools=list(kind.prefix.tools) or None)
    except TypeError:  # `raise_exception` is not defined here, so calling it fails
        return None
    except Exception as error:
        if "raise_exception" in str(error):
            return None
        raise


@pytest.mark.parametrize("name", KINDS)
def test_static_tokens_are_those_of_the_text_that_no_later_turn_changes(name: str) -> None:
    kind = KINDS[name]
    result = product(kind)
    expected = encode(kind.framed_prefix)
    assert result.framed_prefix == kind.framed_prefix
    assert list(result.ids) == expected[: len(expected) - kind.unstable]
    assert result.unstable == kind.unstable


@pytest.mark.parametrize("name", KINDS)
def test_tokens_of_the_first_turn_are_counted_too(name: str) -> None:
    kind = KINDS[name]
    result = product(kind)
    text = kind.framed_prefix if kind.first_turn is None else kind.first_turn
    assert result.first_turn == len(encode(text)) - kind.first_unstable
    assert (result.change is None) == (kind.first_turn is None)


@pytest.mark.parametrize("name", KINDS)
def test_every_conversation_of_up_to_three_turns_begins_with_the_static_tokens(name: str) -> None:
    kind = KINDS[name]
    result = product(kind)
    texts = [render(kind, messages) for messages in conversations(kind.prefix)]
    rendered = [encode(text) for text in texts if text is not None]
    assert len(rendered) >= 7  # first turns at least
    assert [ids[: result.tokens] for ids in rendered] == [list(result.ids)] * len(rendered)


@pytest.mark.parametrize("name", KINDS)
def test_shapes_that_a_template_refuses_are_listed(name: str) -> None:
    assert product(KINDS[name]).refused_turns == KINDS[name].refused


def test_system_text_that_begins_like_the_tried_words_is_not_counted_where_the_user_speaks_in_later_turns() -> None:
    template = KINDS["the system text is before the last user turn only"].template.replace(USER, "[INST] ")
    for system in ("A longer message, of several sentences.", "A short one.", "7 rules", " the"):
        kind = Kind(template=template, framed_prefix="", prefix=replace(PLAIN, system=system))
        result = product(kind)
        assert result.framed_prefix == f"{START}[INST] "
        rendered = [encode(render(kind, messages) or "") for messages in conversations(kind.prefix)]
        assert [ids[: result.tokens] for ids in rendered] == [list(result.ids)] * len(rendered)


SCAN = (
    "{% set ns = namespace(last=0, answer=0) %}{% for m in messages %}"
    "{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}"
    "{% if m.role == 'assistant' %}{% set ns.answer = loop.index0 %}{% endif %}{% endfor %}"
)
"""Finds the last user message and the last answer, as templates that look ahead do."""
HEADS = (
    START,
    "System: ",
    "{{ messages | length }} messages\n",
    "Last: {{ messages[-1].role }}.",
    "{% if ns.answer %}Go on. {% endif %}",
    "Question {{ ns.last }}",
)
PLACES = {
    "front": ("", ""),
    "first question": ("{% if loop.index0 == 1 %}", "{% endif %}"),
    "last question": ("{% if loop.index0 == ns.last %}", "{% endif %}"),
    "last message": ("{% if loop.last %}", "{% endif %}"),
}
MARKERS = (USER, "\nUser: ", "[INST] ", "1", "# ")
SYSTEMS = (SYSTEM, "Be kind.", "# Rules\n\n1. Short\n", " the", "12", "What")
ANSWERS = (
    "{{ m.content }}",
    "{{ m.content | trim }}",
    "{% if loop.index0 == ns.answer %}{{ m.content }}{% else %}{{ m.content.split('</think>')[-1] }}{% endif %}",
    "{% if loop.index0 > ns.last %}<think>{% endif %}{{ m.content }}",
)


def composed_template(head: str, marker: str, answer: str, system_place: str, tools_place: str) -> str:
    """Returns a template that prints system text and tools in these places."""
    system = "{{ messages[0].content }}\n".join(PLACES[system_place])
    tools = TOOLS.join(PLACES[tools_place])
    in_front = (tools if tools_place == "front" else "") + (system if system_place == "front" else "")
    in_turn = (tools if tools_place != "front" else "") + (system if system_place != "front" else "")
    return (
        SCAN + head + in_front + "{% for m in messages %}{% if m.role == 'assistant' %}" + ASSISTANT + answer
        + "{% elif m.role != 'system' %}" + marker + in_turn + "{{ m.content }}{% endif %}{% endfor %}"
    )  # fmt: skip


@pytest.mark.slow
@settings(max_examples=50)
@given(
    st.builds(
        composed_template,
        st.sampled_from(HEADS),
        st.sampled_from(MARKERS),
        st.sampled_from(ANSWERS),
        st.sampled_from(sorted(PLACES)),
        st.sampled_from(sorted(PLACES)),
    ),
    st.sampled_from(SYSTEMS),
    st.sampled_from(((), (TOOL,))),
    st.sampled_from(((), EXAMPLES)),
)
def test_every_conversation_begins_with_the_static_tokens_of_any_composed_template(
    template: str, system: str, tools: tuple[Message, ...], examples: tuple[Turn, ...]
) -> None:
    kind = Kind(template=template, framed_prefix="", prefix=Conversation(system=system, tools=tools, turns=examples))
    result = product(kind)
    for messages in conversations(kind.prefix):
        assert encode(render(kind, messages) or "")[: result.tokens] == list(result.ids)


def test_a_template_that_refuses_system_messages_refuses_the_prefix() -> None:
    template = ROLES + "{% if m.role == 'system' %}{{ raise_exception('no system message') }}{% endif %}{% endfor %}"
    with pytest.raises(Exception, match="no system message"):
        product(Kind(template=template, framed_prefix=""))
