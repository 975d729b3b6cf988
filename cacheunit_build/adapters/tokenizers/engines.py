"""The two tokenizer libraries, each as an `Engine`: tiktoken, and Hugging Face tokenizers."""

from __future__ import annotations

import json
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.document import shortened
from cacheunit_build.domain.errors import fail

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import tiktoken

MOST_GROWTH = 100
"""The most characters that the normalizers of a vocabulary may put in the place of one."""


class TiktokenEngine:
    """Encodes with tiktoken, without its search for control tokens, which takes longer than encoding itself."""

    def __init__(self, encoding: tiktoken.Encoding, *, splits_at_lines: bool = False) -> None:
        self._encoding = encoding
        self.splits_at_lines = splits_at_lines

    def encode(self, text: str, *, literal: bool = False) -> list[int]:  # noqa: ARG002 - always literal
        """Returns the token ids of `text`; a control token in it is encoded as ordinary characters."""
        return self._encoding.encode_ordinary(text)

    def token_bytes(self, text: str, ids: Sequence[int]) -> list[bytes]:  # noqa: ARG002 - the ids are enough
        """Returns the bytes of each token."""
        return self._encoding.decode_tokens_bytes(ids)


class HuggingFaceEngine:
    """Encodes with Hugging Face tokenizers, which match control tokens themselves.

    Raises:
        CacheunitError: the package is missing; or `data` is not a valid `tokenizer.json`, encodes at random, or makes
            texts much longer.
    """

    splits_at_lines = False

    def __init__(self, data: bytes, path: str) -> None:
        self._tokenizer = _reference_tokenizer(data, path)
        self._literal_tokenizer: Any = None
        _refuse_randomness(self._tokenizer.model, path)
        _refuse_growth(self.component("normalizer"), path)

    def added_tokens(self) -> list[dict[str, Any]]:
        """Returns the added tokens as a `tokenizer.json` has them, with the ids that they are encoded as.

        The library does not keep the ids of the file: a token of the vocabulary keeps its id there, others are
        numbered after it, and of two with the same text there is one.
        """
        flags = ("content", "special", "lstrip", "rstrip", "single_word", "normalized")
        return [
            {"id": token_id, **{flag: getattr(token, flag) for flag in flags}}
            for token_id, token in self._tokenizer.get_added_tokens_decoder().items()
        ]

    def component(self, name: str) -> Any:  # noqa: ANN401 - any JSON value
        """Returns the component `normalizer`, `pre_tokenizer` or `post_processor` as the library writes it.

        It reads forms that it does not write, such as `["x"]` for `{"type": "Prepend", "prepend": "x"}`.
        """
        component = getattr(self._tokenizer, name)
        return None if component is None else json.loads(component.__getstate__())

    def encode(self, text: str, *, literal: bool = False) -> list[int]:
        """Returns the token ids of `text`."""
        if literal and self._literal_tokenizer is None:
            self._literal_tokenizer = _without_added_tokens(self._tokenizer)
        tokenizer = self._literal_tokenizer if literal else self._tokenizer
        return list(tokenizer.encode(text, add_special_tokens=False).ids)

    def token_bytes(self, text: str, ids: Sequence[int]) -> list[bytes]:  # noqa: ARG002 - the offsets are needed
        """Returns the text split at the tokens' offsets; a character of several tokens goes to the last of them.

        A text that the vocabulary has no token for gives none.
        """
        ends = (end for _, end in self._tokenizer.encode(text, add_special_tokens=False).offsets)
        starts = [0, *accumulate(ends, max)]
        offsets = [*starts[:-1], len(text)]
        return [text[start:end].encode() for start, end in pairwise(offsets)]


def is_library_error(error: BaseException) -> bool:
    """Returns whether an error is one of the tokenizer libraries, which raise nothing narrower than `Exception`.

    A panic of their Rust code is no `Exception`.
    """
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def _reference_tokenizer(data: bytes, path: str) -> Any:  # noqa: ANN401 - the package has no types
    """Loads a `tokenizer.json` into the reference implementation, with its truncation and padding switched off."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        hint = 'pip install "cacheunit-build[hf]"'
        raise fail(f'vocabulary "{path}" needs the package tokenizers', hint=hint) from None
    try:
        tokenizer = Tokenizer.from_str(data.decode("utf-8"))
    except BaseException as error:
        if not is_library_error(error):
            raise
        raise fail(f'vocabulary "{path}" is not a valid tokenizer.json: {shortened(str(error))}') from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _without_added_tokens(tokenizer: Any) -> Any:  # noqa: ANN401 - the package has no types
    """Returns a tokenizer with the same model that splits and merges the text of a control token like any other."""
    bare = type(tokenizer)(tokenizer.model)
    bare.normalizer = tokenizer.normalizer
    bare.pre_tokenizer = tokenizer.pre_tokenizer
    return bare


def _refuse_randomness(model: Any, path: str) -> None:  # noqa: ANN401 - the package has no types
    """Raises a fault for a model that drops merges or samples pieces at random, as some are trained."""
    for option in ("dropout", "alpha", "nbest_size"):
        value = getattr(model, option, None)
        if value:
            message = f'vocabulary "{path}" encodes at random: its model has "{option}": {value:g}'
            raise fail(message, hint=f'remove "{option}", as for inference')


def _refuse_growth(normalizer: Any, path: str) -> None:  # noqa: ANN401 - any JSON value
    """Raises a fault for normalizers that together put too many characters in the place of one.

    The library does not bound what they make, and stops the process where memory ends.
    """
    growth = 1
    for part in _normalizers(normalizer):
        growth *= max(1, len(part.get("content", "")) + len(part.get("prepend", "")))
        if growth > MOST_GROWTH:
            raise fail(f'the normalizers of vocabulary "{path}" make texts more than {MOST_GROWTH} times longer')


def _normalizers(normalizer: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - any JSON value
    """Yields the normalizers of a sequence, those of sequences in it included, or a single one."""
    if normalizer is None:
        return
    inner = normalizer.get("normalizers")
    if inner is None:
        yield normalizer
        return
    for part in inner:
        yield from _normalizers(part)
