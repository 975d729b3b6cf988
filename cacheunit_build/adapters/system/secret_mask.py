"""Masks secrets in text from outside: whole ones, parts of them, and their usual encodings."""

from __future__ import annotations

import base64
import html
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote
from urllib.request import getproxies

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MASK = "***"

_SHORTEST_PART = 6
"""The fewest characters of a secret that are masked; a shorter secret is masked where it is a word."""
_ENCODED = re.compile(
    r"%(?:25)*(?P<percent>[0-9a-f]{2})|\\+(?:u(?P<u>[0-9a-f]{4})|x(?P<x>[0-9a-f]{2})|(?P<quoted>[/\"'\\]))"
    r"|(?P<entity>&(?:#x[0-9a-f]{1,6}|#[0-9]{1,7}|amp|lt|gt|quot|apos);)|.",
    re.IGNORECASE | re.DOTALL,
)
"""A character of a URL, a string of JSON or of Python, or HTML, encoded or not."""
_WORD = re.compile(r"[\w*.…•·-]+")

_Piece = tuple[str, int, int]
"""A character, and the start and the end of its spelling in a text."""


class SecretMask:
    """Masks some secrets in any text.

    Args:
        secrets: the secrets; empty ones are left out.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        spellings = {spelling for secret in secrets if secret for spelling in _spellings(secret)}
        self._short = {spelling for spelling in spellings if len(spelling) < _SHORTEST_PART}
        self._long = spellings - self._short
        self._parts = {part for spelling in self._long for part in _parts(spelling)}
        self._beginnings = {part[:length] for part in self._parts for length in range(1, _SHORTEST_PART + 1)}

    def __call__(self, text: str) -> str:
        """Returns a text with each word that has a secret, or six characters of one in a row, as `***`."""
        hidden = [False] * len(text)
        for pieces in _views(text):
            for start, end in self._secret_spans(pieces):
                hidden[start:end] = [True] * (end - start)
        for start, end in self._mixed_spans(text):
            hidden[start:end] = [True] * (end - start)
        if not any(hidden):
            return text
        for word in _WORD.finditer(text):  # what is left of "sk-abc…xyz", which a server shortened
            if any(hidden[word.start() : word.end()]):
                hidden[word.start() : word.end()] = [True] * (word.end() - word.start())
        marked = "".join("\0" if is_hidden else c for c, is_hidden in zip(text.replace("\0", " "), hidden, strict=True))
        return re.sub("\0+", MASK, marked)

    def is_in(self, text: str) -> bool:
        """Returns whether a whole secret of six or more characters is in a text."""
        return any(spelling in "".join(piece[0] for piece in view) for view in _views(text) for spelling in self._long)

    def _secret_spans(self, pieces: list[_Piece]) -> Iterator[tuple[int, int]]:
        """Yields start and end in the text of each part of a secret."""
        characters = "".join(piece[0] for piece in pieces)
        for index in range(len(characters) - _SHORTEST_PART + 1):
            if characters[index : index + _SHORTEST_PART] in self._parts:
                yield pieces[index][1], pieces[index + _SHORTEST_PART - 1][2]
        for secret in self._short:
            for match in re.finditer(rf"(?<!\w){re.escape(secret)}(?!\w)", characters):
                yield pieces[match.start()][1], pieces[match.end() - 1][2]

    def _mixed_spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yields start and end of each part of a secret of which some characters are encoded, and others only look so.

        With the secret 00000: the text %00000%3A has "%" in front of it, not the character %00.
        """
        begun: dict[str, int] = {}  # the beginning of a part -> where it starts in the text
        for match in _ENCODED.finditer(text):
            spellings = [[(_lower(_decoded(match)), match.start(), match.end())]]
            if match.end() - match.start() > 1:
                spellings.append([(_lower(text[i]), i, i + 1) for i in range(match.start(), match.end())])
            reached = [self._continued(begun, pieces) for pieces in spellings]
            begun = {}
            for parts, spans in reached:
                begun = parts | begun
                yield from spans

    def _continued(self, begun: dict[str, int], pieces: list[_Piece]) -> tuple[dict[str, int], list[tuple[int, int]]]:
        """Returns the beginnings of parts after further characters, and the spans of the parts that are complete."""
        spans: list[tuple[int, int]] = []
        for character, start, end in pieces:
            longer = {part + character: begin for part, begin in begun.items()}
            longer.setdefault(character, start)
            begun = {part: begin for part, begin in longer.items() if part in self._beginnings}
            spans += [(begin, end) for part, begin in begun.items() if part in self._parts]
        return begun, spans


def proxy_secrets() -> Iterator[str]:
    """Yields users and passwords in the URLs of proxies that the environment names, as they are and decoded."""
    for url in getproxies().values():
        user, _, password = url.rpartition("@")[0].rpartition("/")[2].partition(":")
        for secret in (password, user if not password else ""):
            yield from (secret, unquote(secret))


def _spellings(secret: str) -> Iterator[str]:
    """Yields a secret as it is, decoded, in base64 wherever it begins in the encoded bytes, and in hexadecimal."""
    for pieces in _views(secret):
        yield "".join(piece[0] for piece in pieces)
    data = secret.encode("utf-8", "surrogatepass")
    yield data.hex()
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + data).decode().rstrip("=").lower()
        # The first and the last characters are made of the neighbouring bytes too.
        start, end = (0, 2, 3)[offset], len(encoded) - bool((offset + len(data)) % 3)
        spelled = encoded[start:end]
        if len(spelled) >= _SHORTEST_PART:
            yield from (spelled, spelled.replace("+", "-").replace("/", "_"))


def _parts(spelling: str) -> Iterator[str]:
    """Yields all parts of the length at which a part is masked."""
    for index in range(len(spelling) - _SHORTEST_PART + 1):
        yield spelling[index : index + _SHORTEST_PART]


def _views(text: str) -> tuple[list[_Piece], list[_Piece]]:
    """Returns the characters of a text in lower case: as they are, and decoded."""
    plain = [(_lower(c), index, index + 1) for index, c in enumerate(text)]
    decoded = [(_lower(_decoded(match)), match.start(), match.end()) for match in _ENCODED.finditer(text)]
    return plain, decoded


def _decoded(match: re.Match[str]) -> str:
    """Returns the character that an encoded one stands for."""
    digits = match["percent"] or match["u"] or match["x"]
    if digits:
        return chr(int(digits, 16))
    if match["quoted"]:
        return match["quoted"]
    return html.unescape(match[0])[:1] if match["entity"] else match[0]


def _lower(character: str) -> str:
    """Returns a character in lower case, if that is one character."""
    lower = character.lower()
    return lower if len(lower) == 1 else character
