"""The tokens that a tokenizer's post-processor puts in front of every text are counted for requests of plain text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support import vocabulary_file
from tokenizers import Tokenizer, models, pre_tokenizers

from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
from cacheunit_build.adapters.tokenizers.post_processor import start_tokens
from cacheunit_build.domain.fingerprint import fingerprint_ids
from cacheunit_build.domain.target import TokenizerSpec

if TYPE_CHECKING:
    from conftest import Project

    from cacheunit_build.adapters.tokenizers.vocabulary import Vocabulary

CONTROLS = ("<s>", "</s>", "[CLS]")
TEXT = "be kind, be brief and be kind."


def special(token: str) -> dict[str, object]:
    return {"SpecialToken": {"id": token, "type_id": 0}}


def template(*before: str, after: tuple[str, ...] = (), tokens: dict[str, list[str]] | None = None) -> dict[str, Any]:
    """Returns a post-processor that adds tokens; `tokens` are those of a name that stands for several."""
    named = {name: (tokens or {}).get(name, [name]) for name in (*before, *after)}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    pair = {"Sequence": {"id": "B", "type_id": 1}}
    return {
        "type": "TemplateProcessing",
        "single": [*map(special, before), text, *map(special, after)],
        "pair": [*map(special, before), text, *map(special, before), pair],
        "special_tokens": {
            name: {"id": name, "ids": [CONTROLS.index(text) for text in texts], "tokens": texts}
            for name, texts in named.items()
        },
    }


def sequence(*processors: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "processors": list(processors)}


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
BERT = {"type": "BertProcessing", "sep": ["</s>", 1], "cls": ["[CLS]", 2]}
ROBERTA = {"type": "RobertaProcessing", "sep": ["</s>", 1], "cls": ["<s>", 0], "trim_offsets": True}
ROBERTA["add_prefix_space"] = False
POST_PROCESSORS: dict[str, tuple[dict[str, Any] | None, list[str]]] = {
    "none": (None, []),
    "byte level": (BYTE_LEVEL, []),
    "a template that adds nothing": (template(), []),
    "a template": (template("<s>"), ["<s>"]),
    "a template with an end": (template("[CLS]", "<s>", after=("</s>",)), ["[CLS]", "<s>"]),
    "an end only": (template(after=("</s>",)), []),
    "a name of two tokens": (template("<s>", tokens={"<s>": ["<s>", "[CLS]"]}), ["<s>", "[CLS]"]),
    "BERT": (BERT, ["[CLS]"]),
    "RoBERTa": (ROBERTA, ["<s>"]),
    "a sequence": (sequence(BYTE_LEVEL, template("<s>")), ["<s>"]),
    "an empty sequence": (sequence(), []),
    "a sequence in a sequence": (sequence(sequence(BERT), BYTE_LEVEL), ["[CLS]"]),
}


def tokenizer_json(post_processor: dict[str, Any] | None, *, spaced: bool = False) -> dict[str, Any]:
    """Returns a vocabulary of words and characters; with `spaced`, it puts a space in front of a text."""
    characters = sorted(set(TEXT) | set("\u2581aensty"))
    vocabulary = {text: index for index, text in enumerate([*CONTROLS, *characters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    if spaced:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.add_special_tokens(list(CONTROLS))
    return {**json.loads(tokenizer.to_str()), "post_processor": post_processor}


def load(parsed: dict[str, Any]) -> Vocabulary:
    files = {"tokenizer.json": json.dumps(parsed).encode()}
    return LocalTokenizerLoader(files.get).load(TokenizerSpec(path="tokenizer.json"))


@pytest.mark.parametrize("spaced", [False, True], ids=["plain", "spaced"])
@pytest.mark.parametrize(("post_processor", "start"), POST_PROCESSORS.values(), ids=POST_PROCESSORS)
def test_the_ids_are_those_of_the_tokenizers_default_encoding(
    post_processor: dict[str, Any] | None, start: list[str], *, spaced: bool
) -> None:
    parsed = tokenizer_json(post_processor, spaced=spaced)
    vocabulary, tokenizer = load(parsed), Tokenizer.from_str(json.dumps(parsed))
    assert [text for text, _ in vocabulary.start_tokens or ()] == start
    by_default = tokenizer.encode(TEXT).ids  # with special tokens
    ends = len(by_default) - len(start) - len(tokenizer.encode(TEXT, add_special_tokens=False).ids)
    framed = "".join(start) + TEXT
    ids = vocabulary.with_start_tokens().encode(framed)
    assert ids == by_default[: len(by_default) - ends]
    assert b"".join(vocabulary.with_start_tokens().token_bytes(framed)) == framed.encode()
    assert len(vocabulary.with_start_tokens().token_bytes(framed)) == len(ids)


def test_other_texts_and_literal_ones_are_encoded_as_without_start_tokens() -> None:
    plain = load(tokenizer_json(template("<s>"), spaced=True))
    starting = plain.with_start_tokens()
    for text in (TEXT, "", "<", "a<s>b", "[CLS]be"):
        assert starting.encode(text) == plain.encode(text)
    assert starting.encode("<s>be", literal=True) == plain.encode("<s>be", literal=True)
    assert plain.encode("<s>be") != starting.encode("<s>be")


@pytest.mark.parametrize(
    "unknown", [{"type": "New"}, sequence({"type": "New"}), {}, sequence(template("<s>"), BERT)], ids=repr
)
def test_a_post_processor_of_an_unknown_kind_is_not_taken_for_none(unknown: dict[str, Any]) -> None:
    assert start_tokens(unknown) is None


def test_the_vocabulary_that_is_converted_to_tiktoken_has_no_start_tokens() -> None:
    assert start_tokens(json.loads(vocabulary_file().read_bytes())["post_processor"]) == ()
    assert Tokenizer.from_file(str(vocabulary_file())).encode("a").ids == [67]


# In a project


SETTINGS = """\
targets = ["raw"]

[target.raw]
extends = "vllm"
request = "text"
tokenizer = {path = "model/tokenizer.json"}
cache = {unit = 16}
"""
NOTE = "counted with <s>, which the tokenizer puts in front of a text"


@pytest.fixture
def raw(project: Project) -> Project:
    """A project for completions of raw text, with a tokenizer that puts <s> in front."""
    project.write(
        {
            "cacheunit.toml": SETTINGS,
            "templates/s.md.j2": TEXT,
            "prefixes/one.yaml": "system: s.md.j2\npadding: 'off'\n",
            "model/tokenizer.json": json.dumps(tokenizer_json(template("<s>", after=("</s>",)))),
        }
    )
    return project


def built(project: Project) -> dict[str, Any]:
    """Builds, and returns the report of `explain`."""
    project.build()
    (artifact,) = project.run("explain", "one", "--format", "json").json["artifacts"]
    assert isinstance(artifact, dict)
    return artifact


def test_a_prefix_of_raw_text_has_the_tokens_of_the_default_encoding(raw: Project) -> None:
    artifact = built(raw)
    ids = Tokenizer.from_str(json.dumps(tokenizer_json(template("<s>")))).encode(TEXT).ids
    assert artifact["tokens"] + artifact["unstable"] == len(ids) == len(TEXT) + 1
    assert artifact["token_ids"] == fingerprint_ids(ids[: artifact["tokens"]])
    assert NOTE in artifact["reason"]
    assert raw.read("build/one/raw.txt").decode() == TEXT
    assert json.loads(raw.read("build/one/raw.json")) == {"prompt": TEXT}


def test_padding_aligns_the_count_with_start_tokens(raw: Project) -> None:
    raw.edit("prefixes/one.yaml", "'off'", "always")
    artifact = built(raw)
    assert artifact["padding"] > 0
    assert artifact["tokens"] % 16 == 0
    text = raw.read("build/one/raw.txt").decode()
    tokenizer = Tokenizer.from_str(json.dumps(tokenizer_json(template("<s>"))))
    assert len(tokenizer.encode(text).ids) - artifact["unstable"] == artifact["tokens"]


def test_without_start_tokens_nothing_is_added_or_noted(raw: Project) -> None:
    raw.write({"model/tokenizer.json": json.dumps(tokenizer_json(template(after=("</s>",))))})
    artifact = built(raw)
    assert artifact["tokens"] + artifact["unstable"] == len(TEXT)
    assert "puts" not in artifact["reason"]


@pytest.mark.parametrize(
    ("frame", "tokens", "note"),
    [
        ('before = "<s>"', 1, NOTE),
        ('before = "[CLS]"', 1, "the tokenizer puts <s> in front of a text, the target's frame does not: left out"),
        ('after = "[CLS]"', 1, "the tokenizer puts <s> in front of a text, the target's frame does not: left out"),
    ],
)
def test_a_frame_says_itself_what_is_in_front(raw: Project, frame: str, tokens: int, note: str) -> None:
    raw.write({"cacheunit.toml": SETTINGS + f"frame = {{{frame}}}\n"})
    artifact = built(raw)
    assert artifact["tokens"] + artifact["unstable"] == len(TEXT) + tokens
    assert note in artifact["reason"]


def test_messages_are_framed_without_start_tokens(raw: Project) -> None:
    """Servers encode the text of a chat template without special tokens, as transformers does."""
    raw.edit("cacheunit.toml", 'request = "text"', 'frame = {chat_template = "model/chat.jinja"}')
    raw.write({"model/chat.jinja": "{{ messages[0].content }}[CLS]"})
    artifact = built(raw)
    assert artifact["tokens"] == len(TEXT) + 1
    assert "<s>" not in artifact["reason"]


def test_an_unknown_post_processor_is_an_error_where_it_matters(raw: Project) -> None:
    raw.write({"model/tokenizer.json": json.dumps(tokenizer_json(sequence(template("<s>"), BERT)))})
    ran = raw.run("build")
    assert ran.code == 2
    assert "post-processor is of an unknown kind: it may put tokens in front" in ran.err
    assert "hint: set it: frame.before" in ran.err
    raw.write({"cacheunit.toml": SETTINGS + 'frame = {before = "[CLS]"}\n'})
    assert "post-processor is of an unknown kind: what it puts in front is left out" in built(raw)["reason"]


def test_a_count_in_a_target_has_start_tokens_too(raw: Project) -> None:
    report = json.loads(raw.run("count", "-", "--format", "json", stdin=TEXT.encode()).output)
    assert report["tokens"] + report["unstable"] == len(TEXT) + 1
    raw.build()
    assert raw.check()["ok"]
    assert raw.run("show", "one").code == 0


def test_a_count_of_the_bare_text_says_what_is_left_out(raw: Project) -> None:
    bare = ("count", "-", "--tokenizer", "model/tokenizer.json")
    ran = raw.run(*bare, stdin=TEXT.encode())
    assert int(ran.out) == len(TEXT)
    assert "the tokenizer puts <s> in front of a text: not counted" in ran.err
    assert json.loads(raw.run(*bare, "--format", "json", stdin=TEXT.encode()).output)["left_out"] == ["<s>"]
    assert "in front of a text" not in raw.run("count", "-", stdin=TEXT.encode()).err
    raw.write({"model/tokenizer.json": json.dumps(tokenizer_json(sequence(template("<s>"), BERT)))})
    assert "of an unknown kind: it may put tokens in front, not counted" in raw.run(*bare, stdin=TEXT.encode()).err
    assert json.loads(raw.run(*bare, "--format", "json", stdin=TEXT.encode()).output)["left_out"] is None
