"""What a response says of the cache, in whichever form its provider has. Standard library only.

SourceFiles: the API references of OpenAI (chat and responses), Anthropic, DeepSeek, Gemini and Bedrock, the servers of
llama.cpp and vLLM; looked up 2026-11-29.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_HITS = (
    ("prompt_cache_hit_tokens",),  # DeepSeek
    ("prompt_tokens_details", "cached_tokens"),  # OpenAI chat, vLLM, llama.cpp, and those who speak like them
    ("input_tokens_details", "cached_tokens"),  # OpenAI responses
    ("cache_read_input_tokens",),  # Anthropic
    ("cacheReadInputTokens",),  # Bedrock
    ("cachedContentTokenCount",),  # Gemini, REST
    ("cached_content_token_count",),  # Gemini, Python
    ("total_cached_tokens",),  # Gemini, interactions
    ("cache_n",),  # llama.cpp, timings
    ("cached_tokens",),
)
_WRITTEN = (
    ("prompt_tokens_details", "cache_write_tokens"),
    ("input_tokens_details", "cache_write_tokens"),
    ("cache_creation_input_tokens",),
    ("cacheWriteInputTokens",),
)
_PROMPT = (("prompt_tokens",), ("promptTokenCount",), ("prompt_token_count",), ("total_input_tokens",))
_SPLIT = (("input_tokens",), ("inputTokens",))  # Anthropic and Bedrock: what stands behind the last breakpoint
_CONTAINERS = ("usage", "usage_metadata", "usageMetadata", "timings")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens that were read from the cache, written to it, and of the whole prompt; None where nothing is said."""

    hit: int | None
    written: int | None
    prompt: int | None


def read_usage(value: object) -> Usage:
    """The usage in a response, or in its part that tells of usage; mappings and objects alike."""
    sources = [value, *(part for name in _CONTAINERS if (part := _field(value, name)) is not None)]
    hit, written, prompt, split = (_first(sources, paths) for paths in (_HITS, _WRITTEN, _PROMPT, _SPLIT))
    if prompt is None and split is not None:
        separate = _first(sources, (("cache_read_input_tokens",), ("cacheReadInputTokens",))) is not None
        prompt = split + ((hit or 0) + (written or 0) if separate else 0)
    return Usage(hit=hit, written=written, prompt=prompt)


def _first(sources: list[Any], paths: tuple[tuple[str, ...], ...]) -> int | None:
    for source in sources:
        for path in paths:
            found: Any = source
            for name in path:
                found = _field(found, name)
            number = _number(found)
            if number is not None:
                return number
    return None


def _field(value: Any, name: str) -> Any:  # noqa: ANN401 - whatever a client's library gives
    if isinstance(value, dict):
        return value.get(name)
    return None if value is None or isinstance(value, str | int | float | list) else getattr(value, name, None)


def _number(value: object) -> int | None:
    """A number of tokens, also where a gateway made text of it."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
