"""Reads the cached tokens from the usage that a response reports, in the form of any supported provider.

Sources: the API references of OpenAI (chat and responses), Anthropic, DeepSeek, Gemini and Bedrock, and the servers of
llama.cpp and vLLM; looked up 2026-11-29. Needs the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# Each entry is the path of a field. The first path that leads to a number counts.
_HITS = (
    ("prompt_cache_hit_tokens",),  # DeepSeek
    ("prompt_tokens_details", "cached_tokens"),  # OpenAI chat, vLLM, llama.cpp, and compatible APIs
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
# OpenAI's responses count the whole prompt here; Anthropic and Bedrock only what is neither read from the cache nor
# written to it.
_INPUT = (("input_tokens",), ("inputTokens",))
_SEPARATE_HITS = (("cache_read_input_tokens",), ("cacheReadInputTokens",))  # Anthropic and Bedrock
_CONTAINERS = ("usage", "usage_metadata", "usageMetadata", "timings")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The input tokens that a response reports; None for a number that it does not report.

    Attributes:
        hit: tokens read from the cache.
        written: tokens written to the cache.
        prompt: tokens of the whole prompt, cached or not.
    """

    hit: int | None
    written: int | None
    prompt: int | None


def read_usage(value: object) -> Usage:
    """Reads the usage from a response, or from its usage object; takes mappings and objects of a client library.

    {"usage": {"prompt_tokens": 1500, "prompt_tokens_details": {"cached_tokens": 1280}}}  hit 1280, prompt 1500
    {"input_tokens": 20, "cache_read_input_tokens": 1280}                                 hit 1280, prompt 1300
    None                                                                                  all None
    """
    containers = [_field(value, name) for name in _CONTAINERS]
    sources = [value, *(container for container in containers if container is not None)]
    hit, written, prompt, uncached = (_first_number(sources, paths) for paths in (_HITS, _WRITTEN, _PROMPT, _INPUT))
    if prompt is None and uncached is not None:
        separate = _first_number(sources, _SEPARATE_HITS) is not None
        prompt = uncached + ((hit or 0) + (written or 0) if separate else 0)
    return Usage(hit=hit, written=written, prompt=prompt)


def _first_number(sources: list[Any], paths: tuple[tuple[str, ...], ...]) -> int | None:
    """Returns the first number at one of the paths, in the order of the sources; None where there is none."""
    for source in sources:
        for path in paths:
            value: Any = source
            for name in path:
                value = _field(value, name)
            number = _token_count(value)
            if number is not None:
                return number
    return None


def _field(value: Any, name: str) -> Any:  # noqa: ANN401 - whatever a client's library returns
    """Returns the item or attribute of that name; None where there is none."""
    if isinstance(value, dict):
        return value.get(name)
    return None if value is None or isinstance(value, str | int | float | list) else getattr(value, name, None)


def _token_count(value: object) -> int | None:
    """Returns a number of tokens, also from a text as some gateways send it; None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
