"""Loads vocabularies: by tiktoken if its ids are proven to be the reference's, otherwise by Hugging Face tokenizers."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import threading
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cacheunit_build.adapters.storage.installed_files import encoding_source, existing_files
from cacheunit_build.adapters.tokenizers import package_files
from cacheunit_build.adapters.tokenizers.engines import HuggingFaceEngine, TiktokenEngine
from cacheunit_build.adapters.tokenizers.package_files import (
    bounded,
    other_content,
    read_bounded,
    read_installed,
    read_pinned,
    unzipped,
)
from cacheunit_build.adapters.tokenizers.post_processor import start_tokens
from cacheunit_build.adapters.tokenizers.tiktoken_conversion import (
    PROVEN_PATTERNS,
    ordinary_tokens,
    read_ranks,
    to_encoding,
    token_ids,
)
from cacheunit_build.adapters.tokenizers.vocabulary import ControlTokens, Vocabulary
from cacheunit_build.adapters.tokenizers.vocabulary_cache import Ranks, VocabularyCache
from cacheunit_build.domain.document import shortened
from cacheunit_build.domain.errors import CacheunitError, did_you_mean, fail
from cacheunit_build.domain.fingerprint import PREFIX
from cacheunit_build.domain.paths import normal_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cacheunit_build.domain.package_file import PackageFile
    from cacheunit_build.domain.target import TokenizerSpec

TIKTOKEN = "tiktoken, proven equal to the reference"
REFERENCE = "Hugging Face tokenizers, the reference"
OWN = "tiktoken, the encoding's own library"

_SPLITTING_AT_LINES = frozenset({"cl100k_base", "o200k_base", "o200k_harmony"})
"""The tiktoken encodings that may be split at a line end; older ones split a blank line by what follows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _VocabularyFile:
    """A vocabulary file that was read.

    Attributes:
        data: its bytes.
        name: its name for messages.
        source: the source of a file outside of the project; None for a file of the project.
        stored: the sha256 of its bytes on disk, which may be compressed, if it is outside of the project.
    """

    data: bytes
    name: str
    source: str | None
    stored: str = ""


class LocalTokenizerLoader:
    """Loads vocabularies from this machine, each once, and never over a network.

    Args:
        read: returns the bytes of a file of the project by its path relative to the root; None if it does not exist.
        estimates: the vocabularies that an estimate may count with, by the name of their target.
        cache: where parsed vocabularies are kept; nowhere if None.
    """

    def __init__(
        self,
        read: Callable[[str], bytes | None],
        estimates: Mapping[str, TokenizerSpec | None] | None = None,
        cache: VocabularyCache | None = None,
    ) -> None:
        self._read = read
        self._estimates = estimates or {}
        self._cache = cache or VocabularyCache()
        self._loaded: dict[TokenizerSpec, Vocabulary] = {}

    def package_file(self, file: PackageFile) -> tuple[bytes, dict[str, str]]:
        """Returns the bytes of a file in an installed package, and its source with its sha256.

        Raises:
            CacheunitError: the package is not installed, or the file is missing or has another sha256.
        """
        return read_pinned(file)

    def with_project_files(self, read: Callable[[str], bytes | None]) -> LocalTokenizerLoader:
        """Returns a loader that reads project files by `read`, and keeps what was loaded from outside of the project.

        Used where the project's files change or are those of another version.
        """
        loader = LocalTokenizerLoader(read, self._estimates, self._cache)
        loader._loaded = {spec: vocabulary for spec, vocabulary in self._loaded.items() if spec.path is None}
        return loader

    def load(self, spec: TokenizerSpec) -> Vocabulary:
        """Returns the vocabulary that `spec` names.

        Raises:
            CacheunitError: its package is not installed, its file is missing or invalid, or has another sha256.
        """
        if spec not in self._loaded:
            self._loaded[spec] = self._load(spec)
        return self._loaded[spec]

    def save_cache(self) -> None:
        """Caches the vocabularies that had to be parsed. A failure is ignored: the cache is optional."""
        self._cache.save()

    def _load(self, spec: TokenizerSpec) -> Vocabulary:
        """Loads a vocabulary from where `spec` says; an estimate must not be based on another estimate."""
        if spec.estimate is not None:
            counting = self._estimates.get(spec.estimate)
            if counting is None or counting.estimate is not None:
                raise fail(f'no known target "{spec.estimate}" has a vocabulary to estimate with')
            return self.load(counting).as_estimate(spec.margin)
        if spec.encoding is not None:
            return _load_encoding(spec.encoding, spec.sha256, self._cache)
        return _load_file(self._file(spec), spec.sha256, self._cache)

    def _file(self, spec: TokenizerSpec) -> _VocabularyFile:
        """Reads the vocabulary file that `spec` names, in the project or in an installed package."""
        if spec.path is not None:
            data = self._read(normal_path(spec.path))
            if data is None:
                raise fail(f'there is no vocabulary "{spec.path}"', hint="the path is relative to the project root")
            return _VocabularyFile(data=bounded(data, spec.path), name=spec.path, source=None)
        stored, source = read_installed(str(spec.package), str(spec.file), "vocabulary", pinned=spec.sha256 is not None)
        data = unzipped(stored, str(spec)) if str(spec.file).endswith(".zip") else stored
        return _VocabularyFile(data=data, name=str(spec), source=source, stored=hashlib.sha256(stored).hexdigest())


def _load_file(file: _VocabularyFile, expected: str | None, cache: VocabularyCache) -> Vocabulary:
    """Loads a `tokenizer.json`, whose sha256 must be `expected` if that is not None."""
    digest = hashlib.sha256(file.data).hexdigest()
    if expected not in (None, digest):
        raise other_content("vocabulary", file.name, digest, expected)
    files = {} if file.source is None else {file.source: file.stored}
    pattern = PROVEN_PATTERNS.get(digest)
    if pattern is not None:
        ranks = cache.ranks(digest, lambda: read_ranks(file.data))
        return Vocabulary(
            engine=TiktokenEngine(to_encoding(ranks, pattern), splits_at_lines=True),
            identity=PREFIX + digest,
            label=TIKTOKEN,
            control_tokens=ControlTokens(ranks.controls),
            ordinary=ranks.ordinary,
            files=files,
        )
    engine = HuggingFaceEngine(file.data, file.name)
    try:
        json.loads(file.data)  # the library also accepts some texts that are not JSON
        added = engine.added_tokens()
        return Vocabulary(
            engine=engine,
            identity=PREFIX + digest,
            label=REFERENCE,
            control_tokens=ControlTokens(token_ids(added)),
            splits_at_controls=_splits_at_controls(engine, added),
            ordinary=ordinary_tokens(added),
            files=files,
            start_tokens=start_tokens(engine.component("post_processor")),
        )
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        what = f"{type(error).__name__}: {shortened(str(error))}"
        raise fail(f'vocabulary "{file.name}" is not a tokenizer.json of a known form: {what}') from None


def _splits_at_controls(engine: HuggingFaceEngine, added: Sequence[dict[str, Any]]) -> bool:
    """Returns whether the text on either side of an added token is encoded as if it stood alone.

    That is not so if a token takes neighbouring white space with it, if it is searched for in normalized text, or if
    the first piece of a text is encoded differently from later ones. Tokens marked `normalized` are searched for after
    the others, so that one that overlaps another may not be the first in the text.
    """
    # The flags and types are those of the tokenizer.json format of Hugging Face tokenizers.
    exact = all(not (token["lstrip"] or token["rstrip"] or token["single_word"]) for token in added)
    normalizer = engine.component("normalizer")
    normalizes = bool((normalizer or {}).get("normalizers", normalizer))
    searched_late = {character for token in added if token["normalized"] for character in token["content"]}
    searched_first = {character for token in added if not token["normalized"] for character in token["content"]}
    in_order = searched_late.isdisjoint(searched_first) and not (normalizes and searched_late)
    splitting = json.dumps(engine.component("pre_tokenizer"))
    return exact and in_order and "Metaspace" not in splitting and '"add_prefix_space": true' not in splitting


_PATCHING = threading.Lock()
"""Held while tiktoken's loader is replaced, which is one for all threads."""


def _load_encoding(name: str, expected: str | None, cache: VocabularyCache) -> Vocabulary:
    """Loads a tiktoken encoding from its `.tiktoken` file on this machine; tiktoken itself would download it.

    tiktoken's constructor of the encoding calls `load_tiktoken_bpe` for the file, so that is replaced for the call.
    """
    import tiktoken
    from tiktoken_ext import openai_public

    names = sorted(set(openai_public.ENCODING_CONSTRUCTORS) - {"gpt2"})  # gpt2 is r50k_base in another file format
    if name not in names:
        hint = did_you_mean(name, names) or f"the encodings are {', '.join(names)}"
        raise fail(f'there is no tiktoken encoding "{name}"', hint=hint)
    # ENCODING_CONSTRUCTORS["o200k_base"]() calls load_tiktoken_bpe(url, expected_hash=...), then returns the arguments.
    reader = _TiktokenFileReader(name, cache)
    with _PATCHING:
        original = openai_public.load_tiktoken_bpe
        openai_public.load_tiktoken_bpe = reader.tokens
        try:
            encoding = tiktoken.Encoding(**openai_public.ENCODING_CONSTRUCTORS[name]())
        finally:
            openai_public.load_tiktoken_bpe = original
    if expected not in (None, reader.digest):
        raise fail(f'encoding "{name}" has a vocabulary with sha256 {reader.digest}, expected {expected}')
    controls = {text: encoding.encode_single_token(text) for text in encoding.special_tokens_set}
    return Vocabulary(
        engine=TiktokenEngine(encoding, splits_at_lines=name in _SPLITTING_AT_LINES),
        identity=PREFIX + reader.digest,
        label=OWN,
        control_tokens=ControlTokens(controls),
        files=reader.files,
    )


class _TiktokenFileReader:
    """Reads the `.tiktoken` file of one encoding from this machine, in place of tiktoken's download.

    Attributes:
        digest: the sha256 of the file that was read.
        files: its source, and the sha256 of its bytes on disk, which may be compressed.
    """

    def __init__(self, encoding: str, cache: VocabularyCache) -> None:
        self.digest = ""
        self.files: dict[str, str] = {}
        self._encoding = encoding
        self._cache = cache

    def tokens(self, url: str, expected_hash: str | None = None) -> dict[bytes, int]:
        """Returns the tokens of the file that tiktoken would download from `url`; replaces `load_tiktoken_bpe`."""
        self.digest = str(expected_hash)
        data, self.files = _read_tiktoken_file(self._encoding, url, self.digest)
        return self._cache.ranks(self.digest, lambda: _parse_tiktoken_file(data)).tokens


def _parse_tiktoken_file(data: bytes) -> Ranks:
    """Parses the lines of a `.tiktoken` file, "BASE64 ID" each; its control tokens are in tiktoken's code."""
    lines = (line.split() for line in data.splitlines() if line)
    tokens = {base64.b64decode(token): int(rank) for token, rank in lines}
    return Ranks(tokens=tokens, controls={}, ordinary=frozenset())


def _uncompressed(stored: bytes, file: Path) -> bytes:
    """Returns the contents of a `.tiktoken` file, which are not read beyond the limit.

    Raises:
        CacheunitError: there are too many.
        EOFError, OSError, zlib.error: it is broken.
    """
    if file.suffix != ".gz":
        return stored
    with gzip.open(io.BytesIO(stored)) as handle:
        return bounded(handle.read(package_files.MOST_BYTES + 1), file.name)


def _read_tiktoken_file(name: str, url: str, expected: str) -> tuple[bytes, dict[str, str]]:
    """Reads a `.tiktoken` file, from tiktoken's cache folder or from the package bpe-openai.

    Args:
        name: the encoding, for messages.
        url: where tiktoken would download the file from.
        expected: the sha256 that the file must have.

    Returns:
        The bytes of the file, uncompressed; and its source with the sha256 of its bytes on disk.
    """
    # tiktoken names a cached file by the sha1 of its URL; bpe-openai ships o200k_base.tiktoken.gz.
    file = url.rpartition("/")[2]
    cache_name = hashlib.sha1(url.encode()).hexdigest()  # noqa: S324 - tiktoken's own naming
    source = encoding_source(cache_name, file)
    mismatched: list[str] = []
    for path in map(Path, existing_files(source)):
        try:
            stored = read_bounded(path)
            data = _uncompressed(stored, path)
        except (OSError, EOFError, zlib.error, CacheunitError):
            continue
        if hashlib.sha256(data).hexdigest() == expected:
            return data, {source: hashlib.sha256(stored).hexdigest()}
        mismatched.append(path.name)
    note = f"; {', '.join(mismatched)} has another sha256" if mismatched else ""
    raise fail(
        f'encoding "{name}" needs the file {file} (sha256 {expected}), and nothing is downloaded{note}',
        hint=f'pip install "cacheunit-build[openai]", or put the file at TIKTOKEN_CACHE_DIR/{cache_name}',
    )
