"""The two tokenizer libraries, each as an `Engine`: tiktoken, and Hugging Face tokenizers."""

from __future__ import annotations

import json
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.document import shortened
from cacheunit_build.domain.errors import fail

if TYPE_CHECKING:
    from collections.abc import Sequence

    import tiktoken


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
        CacheunitError: the package is missing, or `data` is not a valid `tokenizer.json`.
    """

    splits_at_lines = False

    def __init__(self, data: bytes, path: str) -> None:
        self._data = data
        self._path = path
        self._tokenizer = _reference_tokenizer(data, path)
        self._literal_tokenizer: Any = None

    def encode(self, text: str, *, literal: bool = False) -> list[int]:
        """Returns the token ids of `text`."""
        if not literal:
            return list(self._tokenizer.encode(text, add_special_tokens=False).ids)
        if self._literal_tokenizer is None:
            # Without added tokens, the text of a control token is split and merged like any other.
            without_added = json.dumps({**json.loads(self._data), "added_tokens": []})
            self._literal_tokenizer = _reference_tokenizer(without_added.encode(), self._path)
        return list(self._literal_tokenizer.encode(text, add_special_tokens=False).ids)

    def token_bytes(self, text: str, ids: Sequence[int]) -> list[bytes]:  # noqa: ARG002 - the offsets are needed
        """Returns the text split at the tokens' offsets; a character of several tokens goes to the last of them."""
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
