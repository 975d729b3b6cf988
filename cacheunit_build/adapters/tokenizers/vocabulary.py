"""A loaded vocabulary: turns text into token ids, and encodes a text that it has seen before only once."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from cacheunit_build.adapters.tokenizers.engines import is_library_error
from cacheunit_build.domain.document import shortened
from cacheunit_build.domain.errors import CacheunitError, fail
from cacheunit_build.domain.fingerprint import fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from cacheunit_build.adapters.tokenizers.post_processor import StartTokens

    T = TypeVar("T")

_MAX_CACHED_TEXTS = 64

MAX_UNSPLIT = 400
"""Texts of up to this many characters are never split at a line end: encoding them costs less than the cache."""

# A long text may be encoded in two parts, split between a line end and a visible character: no piece of the patterns
# used here spans that point, and none before it depends on what follows that character. Two characters are left out:
# "/", which o200k_base joins to a line end, and "[", with which a padding label begins, so that the text in front of
# the padding is what the cache holds. The pattern is matched against the reversed text, to find the last point first:
#
#     text                     split
#     "Be kind.\nBe brief."    "Be kind.\n" + "Be brief."
#     "One\n/two" "One\n[two"  none
_SAFE_SPLIT = re.compile(r"[!-.0-Z\\-~](?=\n)")


class Engine(Protocol):
    """A tokenizer library with one vocabulary loaded.

    Attributes:
        splits_at_lines: whether a text has the same ids if its two parts around a safe split are encoded separately.
    """

    splits_at_lines: bool

    def encode(self, text: str, *, literal: bool = False) -> list[int]:
        """Returns the token ids of `text`.

        Args:
            text: what to encode; without control tokens if `literal` is False and the vocabulary splits at them.
            literal: encode control tokens as ordinary characters.
        """

    def token_bytes(self, text: str, ids: Sequence[int]) -> list[bytes]:
        """Returns the bytes of each token of `text`, whose ids are `ids`; joined, they are the text."""


def _with_faults(call: Callable[[], T], text: str) -> T:
    """Returns the result of a call of a tokenizer library; its errors, and panics of Rust code, become faults."""
    try:
        return call()
    except CacheunitError:
        raise
    except BaseException as error:
        if not is_library_error(error):
            raise
        raise fail(f"the tokenizer failed on a text of {len(text):,} characters: {shortened(str(error))}") from None


class ControlTokens:
    """The control tokens of a vocabulary, and a search for them in text.

    The search returns what a regular expression of all tokens, longest first, would match. Compiling one for a thousand
    tokens takes longer than loading the vocabulary, so only their first characters are searched for.

    Args:
        ids: text -> id of each token.
    """

    def __init__(self, ids: Mapping[str, int]) -> None:
        self.ids = dict(ids)
        self.id_set = frozenset(ids.values())
        self._lengths = self._lengths_by_start()
        self._firsts = sorted({text[0] for text in self.ids})

    def _lengths_by_start(self) -> dict[str, list[int]]:
        """Returns the lengths to try, longest first, for each start: the first two characters, or the first one.

        Tokens "<a>", "<a><b>" and "<" give {"<a": [6, 3, 1], "<": [1]}.
        """
        lengths: dict[str, set[int]] = {}
        for text in self.ids:
            lengths.setdefault(text[:2], set()).add(len(text))
            lengths.setdefault(text[0], set())
        for start, sizes in lengths.items():
            sizes.update({1} if start[0] in self.ids else ())
        return {start: sorted(sizes, reverse=True) for start, sizes in lengths.items()}

    def find(self, text: str) -> Iterator[tuple[int, str]]:
        """Yields the offset and the text of each control token in `text`, left to right, without overlaps."""
        end = 0
        # `str.find` for each of these few characters takes a tenth of the time of a pattern of all of them.
        offsets: list[int] = []
        for first in self._firsts:
            offset = text.find(first)
            while offset >= 0:
                offsets.append(offset)
                offset = text.find(first, offset + 1)
        for begin in sorted(offsets):
            if begin < end:
                continue
            for length in self._lengths.get(text[begin : begin + 2]) or self._lengths[text[begin]]:
                token = text[begin : begin + length]  # shorter than `length` where the text ends
                if token in self.ids:
                    end = begin + len(token)
                    yield begin, token
                    break


@dataclass(kw_only=True, eq=False)
class Vocabulary:
    """A loaded vocabulary; implements the protocol `Tokenizer`.

    Attributes:
        engine: what encodes.
        identity: the fingerprint of the vocabulary file, or of the file and the margin for an estimate.
        label: the name of the engine, and why its ids can be relied on (docs/tokenizers.md).
        control_tokens: its control tokens. In text they are encoded as such, as in a rendered chat template.
        splits_at_controls: whether the text on either side of a control token is encoded as if it stood alone. It is
            then encoded once, and cached.
        ordinary: the control tokens that are ordinary text, such as umlauts, and so are allowed in content.
        margin: the share by which a count may be wrong: 0 with the model's own vocabulary.
        files: the sources of the files that it was loaded from, if outside of the project, with their sha256.
        start_tokens: the tokens that its post-processor puts in front of a text; None if that is not known.
        framed_start: whether the texts to encode begin with the start tokens.
    """

    engine: Engine
    identity: str
    label: str
    control_tokens: ControlTokens
    splits_at_controls: bool = True
    ordinary: frozenset[str] = frozenset()
    margin: float = 0.0
    files: Mapping[str, str] = field(default_factory=dict)
    start_tokens: StartTokens | None = ()
    framed_start: bool = False
    _cached_ids: dict[str, list[int]] = field(default_factory=dict, init=False, repr=False)

    @property
    def control_ids(self) -> frozenset[int]:
        """The ids of the control tokens."""
        return self.control_tokens.id_set

    def as_estimate(self, margin: float) -> Vocabulary:
        """Returns this vocabulary as an estimate for another model: without control tokens, counts within `margin`."""
        identity = fingerprint(f"{self.identity} within {margin}".encode())
        return Vocabulary(
            engine=self.engine,
            identity=identity,
            label=f"estimate, ±{margin * 100:.0f} %",
            control_tokens=ControlTokens({}),
            margin=margin,
            files=self.files,
        )

    def without_control_tokens(self) -> Vocabulary:
        """Returns this vocabulary for an API that reads control tokens in a text as characters."""
        return replace(self, control_tokens=ControlTokens({}))

    def with_start_tokens(self) -> Vocabulary:
        """Returns this vocabulary for texts that begin with the start tokens, and go on as a text of their own."""
        return replace(self, framed_start=True)

    def _split_start(self, text: str) -> tuple[StartTokens, str]:
        """Returns the start tokens that a text begins with, and the text after them, which is encoded on its own.

        Some vocabularies put a space in front of a text, but not of one that follows a control token.
        """
        tokens = (self.start_tokens or ()) if self.framed_start else ()
        if not tokens:
            return (), text
        start = "".join(token for token, _ in tokens)
        return (tokens, text[len(start) :]) if text.startswith(start) else ((), text)

    def encode(self, text: str, *, literal: bool = False) -> list[int]:
        """Returns the token ids of `text`.

        Args:
            text: what to encode.
            literal: encode control tokens as ordinary characters.

        Raises:
            CacheunitError: the tokenizer library failed on the text.
        """
        start, text = ((), text) if literal else self._split_start(text)
        if not start:
            return self._encode_text(text, literal=literal)
        return [*(token for _, token in start), *self._encode_text(text, literal=literal)]

    def _encode_text(self, text: str, *, literal: bool) -> list[int]:
        if literal or not self.splits_at_controls or not self.control_tokens.ids:
            return self._encode(text, literal=literal or not self.control_tokens.ids)
        # "<|user|>Hi" -> the id of <|user|>, then the ids of "Hi"
        ids: list[int] = []
        end = 0
        for begin, token in self.control_tokens.find(text):
            if begin > end:
                ids += self._encode_between_controls(text[end:begin])
            ids.append(self.control_tokens.ids[token])
            end = begin + len(token)
        return ids + self._encode_between_controls(text[end:]) if end < len(text) else ids

    def _encode_between_controls(self, text: str) -> list[int]:
        """Encodes text without control tokens; the part before its last safe split comes from the cache."""
        split = self._last_safe_split(text)
        if split == 0:
            return self._encode_cached(text)
        return self._encode_cached(text[:split]) + self._encode(text[split:], literal=False)

    def _last_safe_split(self, text: str) -> int:
        """Returns the offset of the last safe split in a long text; 0 if there is none."""
        if not self.engine.splits_at_lines or len(text) <= MAX_UNSPLIT:
            return 0
        match = _SAFE_SPLIT.search(text[::-1])
        return len(text) - match.end() if match else 0

    def _encode_cached(self, text: str) -> list[int]:
        ids = self._cached_ids.get(text)
        if ids is None:
            if len(self._cached_ids) >= _MAX_CACHED_TEXTS:
                self._cached_ids.clear()
            ids = self._cached_ids[text] = self._encode(text, literal=False)
        return ids

    def _encode(self, text: str, *, literal: bool) -> list[int]:
        """Encodes with the engine."""
        return _with_faults(lambda: self.engine.encode(text, literal=literal), text)

    def control_tokens_in(self, text: str) -> list[str]:
        """Returns the control tokens in `text`, without ordinary ones, each once, in order of appearance."""
        tokens = dict.fromkeys(token for _, token in self.control_tokens.find(text))
        return [token for token in tokens if token not in self.ordinary]

    def token_bytes(self, text: str) -> list[bytes]:
        """Returns the bytes of each token of `text`, in order."""
        start, text = self._split_start(text)
        ids = self._encode_text(text, literal=False)
        rest = _with_faults(lambda: self.engine.token_bytes(text, ids), text)
        return [*(token.encode() for token, _ in start), *rest]
