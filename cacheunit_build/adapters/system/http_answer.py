"""An answer to an HTTP request: its status and its body, unpacked and parsed within limits."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_LEVELS = 100
"""The most lists and objects that JSON has inside of one another."""

_PACKED = ("gzip", "x-gzip", "deflate")


class AnswerError(Exception):
    """An answer is over a limit or cannot be read, and would not be better at another try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a request.

    Attributes:
        status: the status code.
        headers: the headers, by name in lower case.
        data: the body, unpacked.
    """

    status: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def is_success(self) -> bool:
        """Whether the status says that the request was answered."""
        return 200 <= self.status < 300  # noqa: PLR2004 - HTTP

    @property
    def text(self) -> str:
        """The body as text."""
        return self.data.decode("utf-8", "replace")

    def json(self) -> Any:  # noqa: ANN401 - JSON
        """Returns the body as JSON.

        Raises:
            AnswerError: it is nested too deeply.
            ValueError: it is not JSON.
        """
        too_deep = AnswerError("answers with JSON that is nested too deeply")
        try:
            value = json.loads(self.data)
        except RecursionError:
            raise too_deep from None
        level = [value]
        for _ in range(MOST_LEVELS):
            level = [item for outer in level for item in _items(outer) if isinstance(item, list | dict)]
            if not level:
                return value
        raise too_deep


def _items(value: object) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


def unpacked(data: bytes, encoding: str, most_bytes: int) -> bytes:
    """Returns a body without its encoding, which some servers apply although none is accepted.

    Args:
        data: the body.
        encoding: the header `Content-Encoding`.
        most_bytes: the most bytes that it may have unpacked.

    Raises:
        AnswerError: it has more, is damaged, or has another encoding.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity") or not data:
        return data
    if encoding not in _PACKED:
        raise AnswerError("answers in an encoding that is not supported")
    try:
        unpacked = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(data, most_bytes + 1)
    except zlib.error:
        raise AnswerError(f"answers with a body that is not {encoding}, as its header says") from None
    if len(unpacked) > most_bytes:
        raise too_long(most_bytes)
    return unpacked


def too_long(most_bytes: int) -> AnswerError:
    """Returns the error of an answer with more bytes."""
    return AnswerError(f"answers with more than {most_bytes >> 20} MiB")
