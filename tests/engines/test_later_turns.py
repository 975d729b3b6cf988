"""Compares predicted hits with those of llama.cpp's real server in later turns of a conversation.

The server's only slot holds the last request. So each turn hits what it shares with the turn before it, and the first
request of another conversation hits what the prefix promises.
"""

from __future__ import annotations

import copy
import json
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment
from support import default_vocabulary, reference
from test_llama_cpp import CHAT, FILES, Engine, engine, pytestmark

from cacheunit_build import load
from cacheunit_build.compiler.static_tokens import static_tokens
from cacheunit_build.domain.prompt import Conversation
from cacheunit_build.domain.sequences import common_prefix
from cacheunit_build.templating.chat_template import load_chat_template

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conftest import Project

    Message = dict[str, Any]

__all__ = ["engine", "pytestmark"]  # pytest finds them by name

LATE = (
    "<｜begin▁of▁sentence｜>{% for message in messages[1:] %}"
    "{% if message.role == 'user' %}<｜User｜>{% if loop.last %}{{ messages[0].content }}\n\n{% endif %}"
    "{% else %}<｜Assistant｜>{% endif %}{{ message.content }}{% endfor %}"
)
"""A template that prints the system text before the last user message only, wherever that is."""
SETTINGS = """
[target.late]
extends = "hard"
frame = {chat_template = "late.jinja"}
"""
WORDS = (
    ("Where is it?", "Over there.", "How far?", "A mile.", "Thanks"),
    ("\n\nNext question", "", " . and", "Yes.\n", "def f():\n    pass\n" * 30),
    ("価格は?", "千円です。", "7", "<b>No</b>", "いつ?"),
)
"""The words of user and assistant in conversations of three turns, which begin with different tokens."""
CALL = {"id": "abcdefgh1", "type": "function", "function": {"name": "now", "arguments": '{"zone": "UTC"}'}}


def turns(words: Sequence[str], calls: Sequence[Message] = ()) -> list[list[Message]]:
    """Returns the messages of each request of a conversation; `calls` are a tool call and its result in turn one."""
    messages = [{"role": ("user", "assistant")[index % 2], "content": text} for index, text in enumerate(words)]
    first = [messages[:1], *([[*messages[:1], *calls]] if calls else [])]
    return [*first, *([*messages[:1], *calls, *messages[1:end]] for end in (3, 5))]


def called(content: str) -> list[Message]:
    """Returns a tool call and its result."""
    assistant = {"role": "assistant", "content": "", "tool_calls": [CALL]}
    return [assistant, {"role": "tool", "tool_call_id": CALL["id"], "content": content}]


@pytest.fixture
def built(project: Project) -> Project:
    settings = FILES["cacheunit.toml"].replace('"soft"]', '"soft", "late"]') + SETTINGS
    project.write({**FILES, "cacheunit.toml": settings, "late.jinja": LATE})
    project.build()
    return project


def render(template: str, request: dict[str, Any], **variables: object) -> str:
    """Returns the text that the model reads of a chat request, by Jinja; arguments of calls are mappings, as there."""
    compiled = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(template)
    tools = request.get("tools")
    messages = copy.deepcopy(request["messages"])
    for call in chain.from_iterable(message.get("tool_calls") or [] for message in messages):
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return compiled.render(messages=messages, tools=tools, add_generation_prompt=True, **variables)


def shared_tokens(texts: Sequence[str]) -> list[int]:
    """Returns how many token ids each text shares with the one before it, by Hugging Face tokenizers."""
    encoded = [reference().encode(text, add_special_tokens=False).ids for text in texts]
    return [common_prefix(*pair) for pair in pairwise(encoded)]


TARGETS = [(name, target) for name in ("plain", "turns") for target in ("hard", "soft")]


@pytest.mark.parametrize(("name", "target"), TARGETS)
def test_every_turn_hits_what_it_shares_with_the_turn_before_and_never_less_than_predicted(
    engine: Engine, built: Project, name: str, target: str
) -> None:
    prefix, soft = load(name, target=target, root=built.root), target == "soft"
    requests = [prefix.request(messages=messages) for words in WORDS for messages in turns(words)]
    hits = [engine.chat(request, soft=soft) for request in requests]
    assert hits[1:] == shared_tokens([render(CHAT, request, soft=soft) for request in requests])
    assert min(hits[1:]) >= prefix.tokens


@pytest.mark.parametrize("name", ["plain", "turns"])
def test_the_first_request_of_another_conversation_hits_exactly_what_is_predicted(
    engine: Engine, built: Project, name: str
) -> None:
    prefix = load(name, target="hard", root=built.root)
    first_hits = []
    for words in WORDS:
        hits = [engine.chat(prefix.request(messages=messages)) for messages in turns(words)]
        first_hits.append(hits[0])
    assert first_hits[1:] == [prefix.tokens] * (len(WORDS) - 1)


def test_a_tool_call_and_its_result_leave_the_prefix_cached(engine: Engine, built: Project) -> None:
    prefix = load("turns", target="hard", root=built.root)
    conversations = [turns(words, called(f"It is {12 + hour}:30.")) for hour, words in enumerate(WORDS)]
    requests = [prefix.request(messages=messages) for messages in chain(*conversations)]
    hits = [engine.chat(request) for request in requests]
    assert hits[1:] == shared_tokens([render(CHAT, request) for request in requests])
    assert hits[4::4] == [prefix.tokens] * (len(WORDS) - 1)


def test_a_template_that_moves_the_system_text_in_later_turns_leaves_as_little_cached_as_predicted(
    engine: Engine, built: Project
) -> None:
    prefix = load("plain", target="late", root=built.root)
    assert 0 < prefix.tokens < 5
    for words in WORDS:
        texts = [render(LATE, prefix.request(messages=messages)) for messages in turns(words)]
        tokens = [engine.complete(text) for text in texts]
        assert [hit for _, hit in tokens[1:]] == shared_tokens(texts)
        assert tokens[1][1] == prefix.tokens  # the second turn, though the first had the system text in its front
        assert tokens[0][0] > len(default_vocabulary().encode(prefix.text))


def test_first_requests_with_such_a_template_hit_what_is_counted_for_the_first_turn(
    engine: Engine, built: Project
) -> None:
    prefix = load("plain", target="late", root=built.root)
    conversation = Conversation(system=prefix.text, tools=(), turns=())
    frame, vocabulary = load_chat_template(LATE.encode(), "late.jinja", {}), default_vocabulary()
    counted = static_tokens(frame, conversation, vocabulary.encode, vocabulary.control_ids)
    texts = [render(LATE, prefix.request(messages=turns(words)[0])) for words in WORDS]
    hits = [engine.complete(text)[1] for text in texts]
    assert counted.tokens == prefix.tokens
    assert min(hits[1:]) == counted.first_turn > prefix.tokens
