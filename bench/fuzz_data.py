"""The targets of `fuzz.py` that read data from elsewhere: tokenizers, the cache, usage."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fuzz_base import Target, require, scratch

TEXT = "Be kind.\n\n<s> It's 12:30, \u65e5\u672c\u8a9e, \U0001f600 <|user|> e\u0301\u00e4 \t.\r\n"


# Tokenizers


def run_tokenizer(data: bytes) -> None:
    """Loads a tokenizer.json and encodes a text, as the reference does and each time alike."""
    from tokenizers import Tokenizer

    from cacheunit_build.adapters.tokenizers.loader import LocalTokenizerLoader
    from cacheunit_build.domain.target import TokenizerSpec

    vocabulary = LocalTokenizerLoader(lambda _: data).load(TokenizerSpec(path="tokenizer.json"))
    start = vocabulary.start_tokens
    require(
        start is None or all(isinstance(text, str) and isinstance(token, int) for text, token in start),
        "start tokens that are no texts and ids",
    )
    for some in (vocabulary, vocabulary.with_start_tokens()):
        for literal in (False, True):
            ids = some.encode(TEXT, literal=literal)
            require(all(isinstance(token, int) for token in ids), "ids that are no numbers")
            require(some.encode(TEXT, literal=literal) == ids, "other ids the second time")
        require(b"".join(some.token_bytes(TEXT)) == TEXT.encode(), "the bytes of the tokens are not the text")
        some.control_tokens_in(TEXT)
    reference = Tokenizer.from_str(data.decode())
    reference.no_truncation()
    reference.no_padding()
    expected = reference.encode(TEXT, add_special_tokens=False).ids
    require(vocabulary.encode(TEXT) == expected, "other ids than the reference")


def run_ranks(data: bytes) -> None:
    """Reads a cached vocabulary, with a right checksum, and encodes a text."""
    from cacheunit_build.adapters.tokenizers.tiktoken_conversion import to_encoding
    from cacheunit_build.adapters.tokenizers.vocabulary_cache import Ranks, VocabularyCache

    folder = scratch()
    fallback = Ranks(tokens={bytes([byte]): byte for byte in range(256)}, controls={"<s>": 256}, ordinary=frozenset())
    path = folder / "digest.ranks"
    code = _code_of_ranks()
    path.write_bytes(hashlib.sha256(code + data).digest() + code + data)
    ranks = VocabularyCache(folder).ranks("digest", lambda: fallback)
    require(isinstance(ranks.controls, dict), "control tokens that are no mapping")
    require(all(isinstance(item, int) for item in ranks.controls.values()), "control tokens without ids")
    require(all(isinstance(item, str) for item in ranks.ordinary), "ordinary tokens that are no texts")
    if ranks is not fallback:
        to_encoding(ranks, r"\S+|\s+").encode_ordinary(TEXT)


@cache
def _code_of_ranks() -> bytes:
    """Returns the bytes with which the code marks its own cached vocabularies."""
    return _saved_ranks()[32:64]


def _saved_ranks() -> bytes:
    """Returns the file of a small cached vocabulary."""
    from cacheunit_build.adapters.tokenizers.vocabulary_cache import Ranks, VocabularyCache

    vocabulary = VocabularyCache(scratch())
    tokens = {bytes([byte]): byte for byte in range(256)} | {b"Be": 256, b" kind": 257}
    vocabulary.ranks("seed", lambda: Ranks(tokens=tokens, controls={"<s>": 258}, ordinary=frozenset("\u00e4")))
    vocabulary.save()
    return (scratch() / "seed.ranks").read_bytes()


def _tokenizer_seeds() -> list[bytes]:
    """Returns small tokenizers of each kind."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    letters = {character: index for index, character in enumerate(pre_tokenizers.ByteLevel.alphabet())}
    bpe = Tokenizer(models.BPE(vocab=letters | {"Be": 256, "\u0120k": 257}, merges=[("B", "e"), ("\u0120", "k")]))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.add_special_tokens(["<s>", AddedToken("<|user|>", lstrip=True)])
    bpe.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 258)])
    pieces = Tokenizer(models.WordPiece(vocab={"[UNK]": 0, "be": 1, "kind": 2, "##s": 3, "[CLS]": 4, "[SEP]": 5}))
    pieces.normalizer = normalizers.BertNormalizer()
    pieces.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pieces.post_processor = processors.BertProcessing(("[SEP]", 5), ("[CLS]", 4))
    unigram = Tokenizer(models.Unigram([("<unk>", 0.0), ("\u2581", -1.0), ("Be", -2.0), ("k", -3.0)], 0))
    unigram.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(" ", "\u2581")])
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    unigram.add_tokens(["\u00e4", "    "])
    words = Tokenizer(models.WordLevel(vocab={"<unk>": 0, "Be": 1}, unk_token="<unk>"))  # noqa: S106 - a token
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.enable_padding(length=8)
    words.enable_truncation(4)
    return [tokenizer.to_str().encode() for tokenizer in (bpe, pieces, unigram, words)]


# Cache


@cache
def _built_project() -> tuple[Path, Path]:
    """Builds a small project; returns it and its cache folder."""
    root = scratch() / "project"
    (root / "prefixes").mkdir(parents=True)
    (root / "templates").mkdir()
    (root / "cacheunit.toml").write_text('targets = ["deepseek-v4"]\n')
    (root / "prefixes/p.yaml").write_text("system: s.md.j2\nmatrix: {tone: [calm, brief]}\n")
    (root / "templates/s.md.j2").write_text("Be kind and {{ tone }}.\n")
    program = Path(sysconfig.get_path("scripts")) / "cacheunit"
    os.environ["CACHEUNIT_CACHE_DIR"] = str(scratch() / "cache")
    subprocess.run([program, "build"], cwd=root, check=False, stdout=subprocess.DEVNULL)
    record = next(iter(scratch().rglob("record.json")), None)
    if record is None:
        sys.exit("error: the build of the seed wrote no record.json")
    return root, record.parent


def _cache_seeds() -> list[bytes]:
    _, folder = _built_project()
    files = {b"s": folder / "stamp.json", b"n": folder / "seen.json"}
    bodies = {kind: path.read_bytes().partition(b"\n")[2] for kind, path in files.items() if path.exists()}
    bodies[b"r"] = (folder / "record.json").read_bytes()[: -len(hashlib.sha256().hexdigest())]
    return [kind + (body or b'["digest",1]') for kind, body in bodies.items()]


def run_cache(data: bytes) -> None:
    """Reads a record (byte 0 is r), stamp (s) or confirmation (n) with a right hash; a record is written again."""
    from cacheunit_build.adapters.storage.build_cache import BuildCache
    from cacheunit_build.adapters.storage.build_stamp import read_stamp
    from cacheunit_build.adapters.storage.cache_folder import CacheFolder
    from cacheunit_build.domain.build_record import RecordParser, header_data, prefixes_data

    root, folder = _built_project()
    kind, body = data[:1], data[1:]
    name = {b"r": "record.json", b"s": "stamp.json"}.get(kind, "seen.json")
    digest = hashlib.sha256(body).hexdigest().encode()
    with_hash = {"record.json": body + digest, "stamp.json": digest + b"\n" + body}
    (folder / name).write_bytes(with_hash.get(name, body))
    if name == "stamp.json":
        stamp = read_stamp(CacheFolder(str(root)))
        for command in ("build_output", "check_output") if stamp else ():
            for form in ("text", "json"):
                output = getattr(stamp, command)(form)
                require(output is None or isinstance(output, str), "an output that is no text")
        return
    cached = BuildCache(CacheFolder(str(root)), for_build=True)
    cached.start()
    record = cached.last_record()
    cached.valid_record()
    require(isinstance(cached.trusted_before(), int), "a time that is no number")
    dict(cached.recorded_files())
    if record is not None:
        record.all_files()
        parser = RecordParser(json.loads(json.dumps(header_data(record))))
        for path, values in json.loads(json.dumps(dict(prefixes_data(record)))).items():
            parser.add(path, values)
        require(parser.record() == record, "another record after a round trip")


# Usage


class _Hostile:
    """An object whose attributes are those of a mapping, and which raises where there is none."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update({key: value for key, value in values.items() if not key.startswith("__")})

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as in the base
        raise RuntimeError(name)

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    def __hash__(self) -> int:
        raise RuntimeError

    def __bool__(self) -> bool:
        raise RuntimeError


def run_usage(data: bytes) -> None:
    """Reads usage from JSON, as mappings or (byte 0) as objects of two kinds; never raises."""
    from cacheunit_build.domain.usage import read_usage

    hook = {b"o": lambda values: SimpleNamespace(**values), b"h": _Hostile}.get(data[:1])
    try:
        value = json.loads(data[1:], object_hook=hook)
    except (ValueError, RecursionError):
        return
    usage = read_usage(value)
    for number in (usage.hit, usage.written, usage.prompt):
        require(number is None or (type(number) is int and number >= 0), "not a number of tokens")
    if usage.prompt is not None:
        require((usage.hit or 0) <= usage.prompt, "more hits than the whole prompt")
        require((usage.written or 0) <= usage.prompt, "more written than the whole prompt")
    require(read_usage(value) == usage, "another result the second time")


_USAGES: list[Any] = [
    {"usage": {"prompt_tokens": 1500, "prompt_tokens_details": {"cached_tokens": 1280, "cache_write_tokens": 10}}},
    {"usage": {"input_tokens": 20, "cache_read_input_tokens": 1280, "cache_creation_input_tokens": 0,
               "cache_creation": {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 2}}},
    {"prompt_cache_hit_tokens": 0, "prompt_cache_miss_tokens": 5, "prompt_tokens_details": {"cached_tokens": 900}},
    {"usageMetadata": {"promptTokenCount": 9, "cachedContentTokenCount": 4,
                       "cacheTokensDetails": [{"modality": "TEXT", "tokenCount": 4}],
                       "promptTokensDetails": [{"tokenCount": 9}]}},
    {"usage": {"inputTokens": 9, "cacheReadInputTokens": 3, "cacheDetails": [{"inputTokens": 2}]}},
    {"usage": {"inputTokens": {"total": 9, "cacheRead": 3, "cacheWrite": 2, "noCache": 4}, "raw": {}}},
    {"timings": {"cache_n": 3, "prompt_n": 2}, "id": "a"},
    [{"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 5, "cache_read_input_tokens": 7}}},
     {"type": "message_delta", "usage": {"output_tokens": 3}}],
    [{"id": "a", "choices": []}, {"id": "a", "usage": {"prompt_tokens": "12", "cached_tokens": 3.0}}],
]  # fmt: skip


def _usage_seeds() -> list[bytes]:
    return [kind + json.dumps(value).encode() for kind in (b"m", b"o", b"h") for value in _USAGES]


DATA: dict[str, Target] = {
    "tokenizer": Target(run_tokenizer, _tokenizer_seeds, "json"),
    "ranks": Target(run_ranks, lambda: [_saved_ranks()[64:]], "bytes"),
    "cache": Target(run_cache, _cache_seeds, "json", head=1),
    "usage": Target(run_usage, _usage_seeds, "json", head=1),
}
