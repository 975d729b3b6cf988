"""Vocabulary files that are broken, too large or not in their package are faults that name them, never a crash."""

from __future__ import annotations

import copy
import gzip
import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from cacheunit_build.adapters.storage import installed_files
from cacheunit_build.adapters.tokenizers import package_files
from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.target import TokenizerSpec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cacheunit_build.adapters.tokenizers.vocabulary import Vocabulary

Json = Any


def tokenizer_json(kind: str) -> Json:
    """Returns a small valid `tokenizer.json` with a model of a kind."""
    from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors

    if kind == "BPE":
        model = models.BPE(vocab={**{c: i for i, c in enumerate("helo Ġ")}, "he": 9}, merges=[("h", "e")])
        tokenizer = Tokenizer(model)
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.normalizer = normalizers.Sequence([normalizers.NFC()])
    else:
        tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "hello": 1}, unk_token="[UNK]"))  # noqa: S106
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.add_tokens([AddedToken("ä", normalized=True)])
    start, end = ((token, int(str(tokenizer.token_to_id(token)))) for token in ("<s>", "</s>"))
    template = processors.TemplateProcessing(single="<s> $A", special_tokens=[start])
    tokenizer.post_processor = (
        processors.Sequence([processors.ByteLevel(), template])
        if kind == "BPE"
        else processors.BertProcessing(end, start)
    )
    return json.loads(tokenizer.to_str())


WRONG_VALUES: tuple[Json, ...] = (None, True, -1, 2**40, 1.5, "", "x", [], {}, [[]], {"a": 1})


def places(value: Json, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the keys that lead to each value in a JSON value."""
    yield place
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(min(len(value), 2)):
            yield from places(value[key], (*place, key))


def damaged(value: Json) -> Iterator[Json]:
    """Yields copies of a JSON value in which one value at a time is missing or of another type."""
    yield from WRONG_VALUES
    for place in places(value):
        for replacement in (copy, *WRONG_VALUES) if place else ():
            damaged_value = copy.deepcopy(value)
            inner = damaged_value
            for key in place[:-1]:
                inner = inner[key]
            if replacement is copy:
                del inner[place[-1]]
            else:
                inner[place[-1]] = replacement
            yield damaged_value


def encode_everything(data: bytes) -> None:
    """Loads a vocabulary file, and encodes texts with it."""
    vocabulary = LocalTokenizerLoader(lambda _: data).load(TokenizerSpec(path="vocab/tokenizer.json"))
    for text in ("", "hello <s>helo ä\n", "中"):
        vocabulary.encode(text)
        vocabulary.encode(text, literal=True)
        vocabulary.token_bytes(text)
        vocabulary.control_tokens_in(text)
    start = "".join(token for token, _ in vocabulary.start_tokens or ())
    vocabulary.with_start_tokens().encode(f"{start}hello")


@pytest.mark.parametrize("kind", ["BPE", "WordLevel"])
def test_a_vocabulary_file_with_any_value_damaged_is_read_or_is_a_fault(kind: str) -> None:
    faults = 0
    for value in damaged(tokenizer_json(kind)):
        try:
            encode_everything(json.dumps(value).encode())
        except CacheunitError:
            faults += 1
    assert faults > 300


NOT_VOCABULARIES = (
    *(b"", b"[", b"[" * 100_000, b'{"a":' * 100_000, b"null", b"5", b"\xff\xfe", b"\x00", b"{}", b"NaN"),
    *(b'{"model":' + b"9" * 100_000 + b"}", b'{"version": 1e999999}', b"\xef\xbb\xbf{}", b"aGk= 0\n"),
)


@pytest.mark.parametrize("data", NOT_VOCABULARIES)
def test_what_is_not_a_vocabulary_is_a_fault_that_names_the_file(data: bytes) -> None:
    with pytest.raises(CacheunitError, match=r"vocab/tokenizer\.json"):
        encode_everything(data)


def test_a_vocabulary_file_that_is_cut_anywhere_is_a_fault_that_names_the_file() -> None:
    data = json.dumps(tokenizer_json("BPE")).encode()
    for end in range(0, len(data) - 1, 41):
        with pytest.raises(CacheunitError, match=r"vocab/tokenizer\.json"):
            encode_everything(data[:end])


def test_a_text_that_the_vocabulary_cannot_encode_is_a_fault() -> None:
    value = tokenizer_json("WordLevel")
    value["model"] |= {"unk_token": "missing"}
    with pytest.raises(CacheunitError, match="the tokenizer failed on a text of 16 characters"):
        encode_everything(json.dumps({**value, "added_tokens": []}).encode().replace(b'"hello"', b'"other"'))


def added(token_id: int, content: str, **flags: bool) -> Json:
    """Returns an added token of a `tokenizer.json`."""
    flags = {**dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False), "special": True, **flags}
    return {"id": token_id, "content": content, **flags}


EMPTY: Json = {"vocab": {}, "merges": []}
MERGING: Json = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "x": 3}, "merges": ["a b"]}
TEMPLATE: Json = {"type": "TemplateProcessing", "pair": [], "special_tokens": {}}
NOT_USABLE: tuple[tuple[Json, str], ...] = (
    ({"model": {**MERGING, "dropout": 0.5}}, r'"v/t\.json" encodes at random: its model has "dropout": 0\.5'),
    ({"model": {**MERGING, "dropout": 1}}, r'"v/t\.json" encodes at random'),
    ({"model": {**MERGING, "continuing_subword_prefix": "abcd"}}, r'"v/t\.json" is not a valid tokenizer\.json'),
    (
        {"model": EMPTY, "normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
        r'"v/t\.json" is not a valid tokenizer\.json',
    ),
    ({"model": {"vocab": []}}, "the tokenizer failed on a text of 5 characters"),
    ({"model": {"vocab": {}, "unk_token": ""}, "normalizer": [[]]}, "the tokenizer failed on a text of 5 characters"),
    (
        {"model": EMPTY, "post_processor": {**TEMPLATE, "single": [{"SpecialToken": {"id": "", "type_id": 0}}]}},
        r'"v/t\.json" is not a tokenizer\.json of a known form: KeyError',
    ),
    (
        {
            "model": EMPTY,
            "post_processor": {
                **TEMPLATE,
                "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [258], "tokens": []}},
            },
        },
        r'"v/t\.json" is not a tokenizer\.json of a known form: ValueError',
    ),
)


def load_json(value: Json) -> Vocabulary:
    """Loads a `tokenizer.json` with a value, or with bytes."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return LocalTokenizerLoader(lambda _: data).load(TokenizerSpec(path="v/t.json"))


@pytest.mark.parametrize(("value", "message"), NOT_USABLE)
def test_a_vocabulary_that_cannot_be_used_is_a_fault(value: Json, message: str) -> None:
    with pytest.raises(CacheunitError, match=message):
        load_json(value).encode("ab <x")


def test_a_vocabulary_without_effective_dropout_is_read() -> None:
    for dropout in (None, 0, 0.0):
        assert load_json({"model": {**MERGING, "dropout": dropout}}).encode("ab") == [2]


def test_what_the_library_reads_but_is_not_json_is_a_fault() -> None:
    with pytest.raises(CacheunitError, match=r'"v/t\.json" is not a tokenizer\.json of a known form: JSONDecodeError'):
        load_json(b'{"", "added_tokens": [], "model": {"vocab": {}, "merges": []}}')


def test_a_text_without_tokens_has_no_token_bytes() -> None:
    vocabulary = load_json({"model": EMPTY})
    assert (vocabulary.encode("ab"), vocabulary.token_bytes("ab")) == ([], [])


ADDED: tuple[tuple[list[Json], str], ...] = (
    ([added(9, "x")], "x"),
    ([added(9, "<x>")], "<x>"),
    ([added(0, "<x>"), added(1, "<x>")], "<x>"),
    ([added(7, "<x>"), added(7, "<y>")], "<x><y>"),
    ([added(7, "<y>"), added(5, "<x>"), added(6, "<x>", special=False)], "a<x><y>"),
    ([added(7, ""), added(9, "<y>")], "a<y>"),
    ([added(7, "ab"), added(9, "xab", normalized=True)], "xab"),
    ([added(9, "xab", normalized=True), added(7, "bx"), added(8, "ab")], "xabx"),
    ([added(7, "<x>"), added(8, "a", normalized=True)], "a<x>b"),
    ([added(7, "ab"), added(8, "ab", normalized=True)], "xab"),
)


@pytest.mark.parametrize(("tokens", "text"), ADDED, ids=lambda value: value if isinstance(value, str) else len(value))
@pytest.mark.parametrize("normalizer", [None, {"type": "Lowercase"}], ids=repr)
def test_added_tokens_are_encoded_as_by_the_library(tokens: list[Json], text: str, normalizer: Json) -> None:
    from tokenizers import Tokenizer

    value = {"model": MERGING, "added_tokens": tokens, "normalizer": normalizer}
    reference, vocabulary = Tokenizer.from_str(json.dumps(value)), load_json(value)
    for written in (text, text.upper(), f"b{text}a{text}"):
        assert vocabulary.encode(written) == reference.encode(written, add_special_tokens=False).ids
        assert b"".join(vocabulary.token_bytes(written)) == (written.encode() if vocabulary.encode(written) else b"")
    assert vocabulary.control_tokens.ids == {
        token["content"]: reference.token_to_id(token["content"]) for token in tokens if token["content"]
    }
    assert vocabulary.encode("<xaby", literal=True) == [3, 2]


def replacing(content: str) -> Json:
    return {"type": "Replace", "pattern": {"String": "a"}, "content": content}


@pytest.mark.parametrize(
    "normalizer",
    [
        replacing("a" * 101),
        {"type": "Sequence", "normalizers": [replacing("a" * 11), replacing("a" * 10)]},
        {"type": "Sequence", "normalizers": [{"type": "Sequence", "normalizers": [replacing("a" * 11)] * 2}]},
        ["a" * 101],
        {"type": "Sequence", "normalizers": [replacing("a" * 1000)] * 20},
        {"pattern": {"Regex": "a"}, "content": "a" * 101},
    ],
    ids=lambda value: repr(value)[:60],
)
def test_normalizers_that_make_texts_much_longer_are_refused(normalizer: Json) -> None:
    with pytest.raises(CacheunitError, match=r'normalizers of vocabulary "v/t\.json" make texts more than 100 times'):
        load_json({"model": MERGING, "normalizer": normalizer})


def test_usual_normalizers_are_read() -> None:
    parts = [{"type": "Prepend", "prepend": "a"}, *[replacing("b")] * 50, replacing(""), {"type": "NFC"}]
    assert load_json({"model": MERGING, "normalizer": {"type": "Sequence", "normalizers": parts}}).encode("x") == [1, 3]


def test_a_vocabulary_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(package_files, "MOST_BYTES", 1000)
    package(tmp_path, monkeypatch, {"big.json": b" " * 1001})
    for spec in (TokenizerSpec(path="big.json"), TokenizerSpec(package="vocabularies", file="big.json")):
        with pytest.raises(CacheunitError, match=r'the vocabulary .*big\.json" is larger'):
            LocalTokenizerLoader(lambda _: b" " * 1001).load(spec)


# In a package


def package(folder: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes]) -> Path:
    """Makes a package `vocabularies` that Python finds, and returns its folder."""
    root = folder / "site/vocabularies"
    for name, data in {"__init__.py": b"raise SystemExit('imported')", **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    monkeypatch.syspath_prepend(root.parent)
    return root


def load_from(package_name: str, file: str) -> str:
    """Loads a vocabulary from a package; returns the label of its library."""
    return LocalTokenizerLoader(lambda _: None).load(TokenizerSpec(package=package_name, file=file)).label


def test_a_vocabulary_in_a_package_inside_of_a_package_is_found_without_importing_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = json.dumps(tokenizer_json("BPE")).encode()
    package(tmp_path, monkeypatch, {"a/t.json": data, "inner/__init__.py": b"raise SystemExit", "inner/t.json": data})
    assert load_from("vocabularies", "a/t.json") == load_from("vocabularies.inner", "t.json")


@pytest.mark.parametrize(
    "file", ["../outside.json", "/outside.json", "a/../../outside.json", "..\\outside.json", "", "."]
)
def test_the_file_of_a_package_stays_in_the_package(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = package(tmp_path, monkeypatch, {"a/t.json": b"{}"})
    (root.parent / "outside.json").write_bytes(json.dumps(tokenizer_json("BPE")).encode())
    with pytest.raises(CacheunitError, match="path"):
        load_from("vocabularies", str(root.parent / "outside.json") if file.startswith("/") else file)


def test_a_link_that_leads_out_of_the_package_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = json.dumps(tokenizer_json("BPE")).encode()
    root = package(tmp_path, monkeypatch, {"t.json": data})
    (tmp_path / "outside.json").write_bytes(data)
    (root / "out.json").symlink_to(tmp_path / "outside.json")
    (root / "folder").symlink_to(tmp_path)
    (root / "inside.json").symlink_to("t.json")
    for file in ("out.json", "folder/outside.json"):
        with pytest.raises(CacheunitError, match="leads out of its package through a link"):
            load_from("vocabularies", file)
    assert load_from("vocabularies", "inside.json")
    pinned = TokenizerSpec(package="vocabularies", file="out.json", sha256=hashlib.sha256(data).hexdigest())
    assert LocalTokenizerLoader(lambda _: None).load(pinned)


@pytest.mark.parametrize("name", ["../x", "", ".", ".x", "x.", "a..b", "/etc", "a/b", "x y", "a\x00", "9"])
def test_what_is_not_the_name_of_a_package_is_refused(name: str) -> None:
    with pytest.raises(CacheunitError, match="is not the name of a package"):
        load_from(name, "t.json")


# Files of tiktoken


def test_files_of_tiktoken_that_cannot_be_read_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed_files, "package_folders", lambda _: [str(tmp_path)])
    monkeypatch.setattr(package_files, "MOST_BYTES", 10_000_000)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    os.mkfifo(tmp_path / "fb374d419588a4632f3f557e76b4b70aebbca790")  # the file of o200k_base
    (tmp_path / "data").mkdir()
    for data in (b"", b"\x1f\x8b", b"text", gzip.compress(b"aGk= 0\n")[:-4], gzip.compress(b"0" * 10_000_001)):
        (tmp_path / "data/o200k_base.tiktoken.gz").write_bytes(data)
        with pytest.raises(CacheunitError, match=r"needs the file o200k_base\.tiktoken"):
            LocalTokenizerLoader(lambda _: None).load(TokenizerSpec(encoding="o200k_base"))
