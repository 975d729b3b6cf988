"""Secrets by the patterns of detect-secrets, which is an extra. Nothing is sent anywhere to verify one."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cacheunit_build.domain.protocols import SecretScanner

# Addresses have a code of their own.
_NOT_SECRETS = frozenset(("IPPublicDetector",))
_EXAMPLE = re.compile(r"example|sample|dummy|fake|placeholder|changeme|your[-_]?|x{5,}|\*{3,}|(.)\1{7,}", re.IGNORECASE)
# Keys of model providers in their present form, which detect-secrets 1.5 does not know.
_MODEL_KEY = re.compile(r"(?<![\w-])sk-(?:ant|proj|svcacct|or-v1)-[A-Za-z0-9_-]{32,}")
_NAME = re.compile(r"[a-z]+(?:[-_][a-z]+)+")
_WORDS = frozenset(("pass", "password", "passwd", "pwd", "secret", "token", "pw", "key", "apikey", "api_key", "user"))


def secret_scanner() -> SecretScanner | None:
    """What finds secrets, None where detect-secrets is not installed."""
    try:
        known = detectors()
    except ImportError:
        return None

    patterns = [(detector, pattern) for detector in known for pattern in detector.denylist]

    @cache
    def scan(text: str) -> Sequence[tuple[int, int, str]]:
        found: dict[tuple[int, int], str] = {}
        for detector, pattern in patterns:
            for match in pattern.finditer(text):
                if any(detector.analyze_string(match[0])) and not _is_example(match):
                    found.setdefault(match.span(), detector.secret_type)
        for match in _MODEL_KEY.finditer(text):
            if not _is_example(match):
                found.setdefault(match.span(), "Model API Key")
        return [(start, end, kind) for (start, end), kind in sorted(found.items())]

    return scan


@cache
def detectors() -> tuple[Any, ...]:
    """Those that know a secret by its own form; guesses by entropy or by a keyword in front stay out."""
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
    from detect_secrets.plugins.base import RegexBasedDetector

    kinds: Any = get_mapping_from_secret_type_to_class().values()
    wanted = (kind for kind in kinds if issubclass(kind, RegexBasedDetector) and kind.__name__ not in _NOT_SECRETS)
    return tuple(kind() for kind in sorted(wanted, key=lambda kind: kind.__name__))


def _is_example(match: re.Match[str]) -> bool:
    """Whether it is filled in where a secret would stand, as in documentation."""
    from detect_secrets.filters.heuristic import is_prefixed_with_dollar_sign, is_sequential_string, is_templated_secret

    if match.string[match.start() - 1 : match.start()].isalnum() and match[0][0].isalnum():  # the end of a longer word
        return True
    secret = max((group for group in match.groups() if group), key=len, default=match[0])
    if is_templated_secret(secret) or is_prefixed_with_dollar_sign(secret) or is_sequential_string(secret):
        return True
    if match[0].startswith("BEGIN"):  # a heading alone is no key
        return re.match(r"[-\s\\n]*[A-Za-z0-9+/=]{20}", match.string[match.end() :]) is None
    return _EXAMPLE.search(match[0]) is not None or secret.lower() in _WORDS or _NAME.fullmatch(secret) is not None
