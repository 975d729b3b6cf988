"""Finds secrets in texts with the patterns of detect-secrets, an optional dependency; nothing is sent anywhere."""

from __future__ import annotations

import re
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cacheunit_build.domain.protocols import SecretScanner

# Lint has a rule of its own for IP addresses.
_EXCLUDED_DETECTORS = frozenset(("IPPublicDetector",))
_PLACEHOLDER = re.compile(
    r"example|sample|dummy|fake|placeholder|changeme|your[-_]?|x{5,}|\*{3,}|(.)\1{7,}", re.IGNORECASE
)
_PIECE = 600
"""Characters of a part of a line; secrets are at most half as long, or found by their first half."""
_KEY = re.compile(r"[-\s\\n]*[A-Za-z0-9+/=]{20}")
_LONG_LINE = re.compile(r"[^\n]{1000,}")
_WORDS_WITH_HYPHENS = re.compile(r"[a-z]+(?:[-_][a-z]+)+")
_PLACEHOLDER_WORDS = frozenset(
    ("pass", "password", "passwd", "pwd", "secret", "token", "pw", "key", "apikey", "api_key", "user")
)


def secret_scanner() -> SecretScanner | None:
    """Returns a scanner that remembers the texts it has seen; None where detect-secrets is not installed."""
    try:
        patterns = [(detector, pattern) for detector in detectors() for pattern in detector.denylist]
    except ImportError:
        return None

    @cache
    def scan(text: str) -> Sequence[tuple[int, int, str]]:
        """Returns start, end and kind of each secret in a text; the first detector decides the kind."""
        kinds: dict[tuple[int, int], str] = {}
        for match, kind in _secrets(text, patterns):
            kinds.setdefault(match.span(), kind)
        # A part of a line that ends inside a secret shows only its start.
        ends = dict(sorted(kinds))
        return [(start, end, kinds[start, end]) for start, end in sorted(ends.items())]

    return scan


def _secrets(text: str, patterns: Sequence[tuple[Any, re.Pattern[str]]]) -> Iterator[tuple[re.Match[str], str]]:
    """Yields each match of a detector's pattern that is a secret, and the kind of secret."""
    pieces = list(_pieces(text))
    for detector, pattern in patterns:
        for match in chain.from_iterable(pattern.finditer(text, start, end) for start, end in pieces):
            if any(detector.analyze_string(match[0])) and not _is_placeholder(match):
                yield match, detector.secret_type


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Yields the parts of a text to search: whole lines; a very long one in parts that overlap.

    Patterns of detect-secrets take time that grows with the square of a line without end.
    """
    start = 0
    for line in _LONG_LINE.finditer(text):
        if start < line.start():
            yield start, line.start()
        for begin in range(line.start(), line.end(), _PIECE // 2):
            yield begin, min(begin + _PIECE, line.end())
        start = line.end()
    if start < len(text):
        yield start, len(text)


@cache
def detectors() -> tuple[Any, ...]:
    """Returns the detectors that recognize a secret by its own form, not by its entropy or by a keyword before it.

    Raises:
        ImportError: detect-secrets is not installed.
    """
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
    from detect_secrets.plugins.base import RegexBasedDetector

    classes: Any = get_mapping_from_secret_type_to_class().values()
    wanted = (
        detector
        for detector in classes
        if issubclass(detector, RegexBasedDetector) and detector.__name__ not in _EXCLUDED_DETECTORS
    )
    return tuple(detector() for detector in sorted(wanted, key=lambda detector: detector.__name__))


def _is_placeholder(match: re.Match[str]) -> bool:
    """Returns whether a match is what documentation writes in place of a secret, or only a part of a word."""
    from detect_secrets.filters.heuristic import is_prefixed_with_dollar_sign, is_sequential_string, is_templated_secret

    before = match.string[match.start() - 1 : match.start()]
    if before.isalnum() and match[0][0].isalnum():  # the end of a longer word
        return True
    secret = max((group for group in match.groups() if group), key=len, default=match[0])
    if is_templated_secret(secret) or is_prefixed_with_dollar_sign(secret) or is_sequential_string(secret):
        return True
    if match[0].startswith("BEGIN"):  # the heading of a private key: a secret only if the key follows it
        return _KEY.match(match.string, match.end()) is None
    return _PLACEHOLDER.search(match[0]) is not None or _is_words(secret)


def _is_words(secret: str) -> bool:
    """Returns whether a secret consists of words: `password`, `my-secret-token`."""
    return secret.lower() in _PLACEHOLDER_WORDS or _WORDS_WITH_HYPHENS.fullmatch(secret) is not None
