"""Compares the names of models: as a target lists them, and as requests spell them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_PROVIDER = re.compile(r"^(?:.*/)?(?:(?:[a-z]{2,6}\.)?(?:anthropic|openai|deepseek|qwen|mistral|moonshot|google)\.)?")
_FIRST_LETTERS = re.compile(r"[a-z]+")
_SUFFIX = re.compile(r"(?:[-@](?:\d{8}|\d{4}-\d{2}-\d{2})|-latest|-v\d+:\d+)$")
"""A date, "latest", or the version of a model on Bedrock; a bare -v3 or :27 is a part of other models' names."""


def is_listed_model(name: str, listed: Iterable[str]) -> bool:
    """Returns whether a request's model is one of those that a target lists.

    Letter case, dates and Bedrock's versions at the end, and the name of a provider in front do not count:

    Claude Opus 4.8    claude-opus-4-8-20260801, anthropic/claude-opus-4.8, us.anthropic.claude-opus-4-8-v1:0
    Claude Haiku 3.5   claude-3-5-haiku-latest
    Claude Opus 4      claude-opus-4-0
    """
    return _words(name) in map(_words, listed)


def same_family(name: str, names: Iterable[str]) -> list[str]:
    """Returns the names that begin with the letters that a name begins with: gpt-5.9 has those of "gpt-…"."""
    letters = _FIRST_LETTERS.match(name.casefold())
    family = letters[0] if letters else ""
    return [other for other in names if family and other.casefold().startswith(family)]


def _words(name: str) -> tuple[list[str], list[str]]:
    """Returns the words of a model's name, sorted, and its numbers in their order, without a last zero."""
    text = _PROVIDER.sub("", name.strip().casefold())
    while (shorter := _SUFFIX.sub("", text)) != text:
        text = shorter
    parts = [part for part in re.split(r"[-\s._]+", text) if part]
    numbers = [part for part in parts if part.isdecimal()]
    if numbers[1:] and numbers[-1] == "0":
        numbers.pop()
    return sorted(part for part in parts if not part.isdecimal()), numbers
