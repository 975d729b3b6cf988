"""Lists the fields in which providers, servers and libraries report input tokens, and reads numbers from them.

Sources, looked up 2026-11-30: the API references of OpenAI (chat, responses, realtime), Anthropic (messages, streams),
DeepSeek, Gemini (generateContent, interactions) and Bedrock (Converse); the servers vLLM, SGLang and llama.cpp; the
types of openai 3.57, anthropic 2.14, google-genai 3.6, langchain-core 1.8 and litellm 1.110; the Vercel AI SDK 4 to 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

HIT_FIELDS = (
    "prompt_cache_hit_tokens",  # DeepSeek
    "prompt_tokens_details.cached_tokens",  # OpenAI chat, vLLM, SGLang, llama.cpp, LiteLLM and compatible APIs
    "input_tokens_details.cached_tokens",  # OpenAI responses
    "input_token_details.cached_tokens",  # OpenAI realtime
    "cache_read_input_tokens",  # Anthropic, LiteLLM
    "cacheReadInputTokens",  # Bedrock
    "cachedContentTokenCount",  # Gemini, REST
    "cacheTokensDetails.tokenCount",
    "cached_content_token_count",  # Gemini, Python
    "cache_tokens_details.token_count",
    "total_cached_tokens",  # Gemini, interactions
    "cached_tokens_by_modality.tokens",
    "cache_n",  # llama.cpp, timings
    "cached_tokens",  # Moonshot; SGLang's own API
    "input_token_details.cache_read",  # LangChain
    "cachedInputTokens",  # Vercel AI SDK 5 and 6
    "inputTokenDetails.cacheReadTokens",  # Vercel AI SDK 6
    "inputTokens.cacheRead",  # the same, as a provider returns it
    "cachedPromptTokens",  # Vercel AI SDK 4, metadata of OpenAI
    "promptCacheHitTokens",  # Vercel AI SDK, metadata of DeepSeek
)
"""Fields with the tokens that were read from the cache. A list, such as one entry a modality, is summed."""

WRITTEN_FIELDS = (
    "prompt_tokens_details.cache_write_tokens",  # OpenAI chat, OpenRouter, LiteLLM
    "input_tokens_details.cache_write_tokens",  # OpenAI responses
    "prompt_tokens_details.cache_creation_tokens",  # LiteLLM
    "cache_creation_input_tokens",  # Anthropic, LiteLLM
    "cache_creation.ephemeral_5m_input_tokens + ephemeral_1h_input_tokens",  # Anthropic, by time to live
    "cacheWriteInputTokens",  # Bedrock
    "cacheDetails.inputTokens",  # Bedrock, one entry for each time to live
    "input_token_details.cache_creation",  # LangChain; 0 where the next two are reported instead
    "input_token_details.ephemeral_5m_input_tokens + ephemeral_1h_input_tokens",
    "inputTokenDetails.cacheWriteTokens",  # Vercel AI SDK 6
    "inputTokens.cacheWrite",  # the same, as a provider returns it
    "cacheCreationInputTokens",  # Vercel AI SDK, metadata of Anthropic
)
"""Fields with the tokens that were written to the cache."""

PROMPT_FIELDS = (
    "prompt_tokens",
    "promptTokenCount",
    "prompt_token_count",
    "total_input_tokens",
    "inputTokens.total",
)
"""Fields with the tokens of the whole prompt, cached ones included."""

PROMPT_BREAKDOWNS = (
    "promptTokensDetails.tokenCount",
    "prompt_tokens_details.token_count",
    "input_tokens_by_modality.tokens",
)
"""Lists with the tokens of the whole prompt by modality; they may be incomplete, so a total counts more."""

INPUT_FIELDS = ("input_tokens", "inputTokens")
"""Fields with the tokens of the prompt, with or without cached ones: what stands beside them decides."""
TOTAL_SIGNS = ("input_tokens_details", "input_token_details", "inputTokenDetails")
"""Fields beside an input field that includes cached tokens: OpenAI, LangChain, Vercel AI SDK 6."""
PROVIDER_SIGNS = ("cachedInputTokens",)
"""Fields beside an input field whose meaning depends on the provider: Vercel AI SDK 5."""
SEPARATE_SIGNS = (
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "cache_creation",
    "cacheReadInputTokens",
    "cacheWriteInputTokens",
    "cacheDetails",
)
"""Fields beside an input field that has only what is neither read from the cache nor written: Anthropic, Bedrock."""

UNCACHED_FIELDS = (
    "prompt_cache_miss_tokens",  # DeepSeek
    "prompt_n",  # llama.cpp, timings
    "inputTokenDetails.noCacheTokens",  # Vercel AI SDK 6
    "inputTokens.noCache",  # the same, as a provider returns it
)
"""Fields with the tokens of the prompt that are not read from the cache; some providers count those written there."""

_METADATA = "providerMetadata"
CONTAINERS = (
    "usage",
    "usage_metadata",  # Gemini, Python; LangChain
    "usageMetadata",  # Gemini, REST
    "token_usage",
    "timings",  # llama.cpp
    "meta_info",  # SGLang's own API
    "x_groq.usage",  # Groq, last event of a stream
    "message.usage",  # Anthropic, event message_start
    "message.usage_metadata",  # LangChain, a generation
    "response.usage",  # OpenAI, event response.completed
    "interaction.usage",  # Gemini, event interaction.completed
    "metadata.usage",  # Bedrock, event metadata
    "response_metadata.usage",  # LangChain, as the provider reports it
    "response_metadata.token_usage",
    "llm_output.usage",
    "llm_output.token_usage",
    "usage.raw",  # Vercel AI SDK 6, as the provider reports it
    *(f"{_METADATA}.{name}" for name in ("anthropic", "openai", "deepseek")),  # Vercel AI SDK
    *(f"{_METADATA}.{name}.usage" for name in ("anthropic", "bedrock")),
    *(f"{_METADATA}.{name}.usageMetadata" for name in ("google", "vertex")),
)
"""Where the fields are in a response or an event of a stream; besides, a response may be the usage itself."""

ID_FIELDS = ("id", "response_id", "responseId", "message.id", "response.id", "interaction.id")
"""Where a response or an event of a stream has the id of the response."""

_PATHS = (
    *CONTAINERS,
    *HIT_FIELDS,
    *WRITTEN_FIELDS,
    *PROMPT_FIELDS,
    *PROMPT_BREAKDOWNS,
    *INPUT_FIELDS,
    *UNCACHED_FIELDS,
)
_FIRST_NAMES = frozenset(name for path in _PATHS for name in path.split(" + ")[0].split(".")[:1])
_MAX_DETAILS = 100
_MAX_TOKENS = 2**53
_DIGITS = len(str(_MAX_TOKENS))


@dataclass(frozen=True, slots=True)
class FieldValue:
    """A number of tokens and the field that it was read from.

    Attributes:
        name: path of the field in the response, such as `usage.prompt_tokens`; `a.b + c` is the sum of `a.b` and `a.c`.
        tokens: the number.
    """

    name: str
    tokens: int

    def __str__(self) -> str:
        return f"{self.name} is {self.tokens:,}"


@dataclass(frozen=True, slots=True)
class Container:
    """A part of a response that may have fields with tokens.

    Attributes:
        path: where it is in the response, such as `usage`; empty for the response itself.
        value: the part, as a mapping or an object of a client library.
    """

    path: str
    value: Any

    def values(self, fields: Iterable[str]) -> list[FieldValue]:
        """Returns the numbers that are reported in these fields, in their order."""
        numbers = ((name, _number_at(self.value, name)) for name in fields)
        prefix = f"{self.path}." if self.path else ""
        return [FieldValue(f"{prefix}{name}", number) for name, number in numbers if number is not None]

    def has_any(self, fields: Iterable[str]) -> bool:
        """Whether it has one of these fields, and not as None."""
        return any(_attribute(self.value, name) is not None for name in fields)


def containers_of(response: object) -> list[Container]:
    """Returns the response itself and those of its parts in `CONTAINERS` that it has."""
    parts = [Container(path, _value_at(response, path)) for path in CONTAINERS]
    return [Container("", response), *(part for part in parts if part.value is not None)]


def may_report(event: object) -> bool:
    """Whether an event of a stream may report tokens; most have only text, and are not worth reading field by field."""
    try:
        if isinstance(event, Mapping):
            fields = event
        elif hasattr(type(event), "__pydantic_extra__"):  # the clients of OpenAI, Anthropic and Google
            fields = {**vars(event), **(getattr(event, "__pydantic_extra__", None) or {})}
        else:
            return any(getattr(event, name, None) is not None for name in _FIRST_NAMES)
        return any(fields.get(name) is not None for name in _FIRST_NAMES)
    except Exception:  # noqa: BLE001 - the value is of an unknown class, which may raise anything
        return True


def response_id(response: object) -> str | None:
    """Returns the id of a response, or of the response that an event of a stream belongs to; None without one."""
    ids = (_value_at(response, path) for path in ID_FIELDS)
    return next((value for value in ids if type(value) is str), None)


def items_of(value: object, limit: int) -> list[Any] | None:
    """Returns the items of a list or a tuple; None for anything else, empty for more items than `limit`.

    A named tuple has fields, and is not a list here. Iterators are not read: the caller may still need what they yield.
    """
    try:
        if not isinstance(value, list | tuple) or hasattr(value, "_fields"):
            return None
        items = list(islice(value, limit + 1))
    except Exception:  # noqa: BLE001 - the value is of an unknown class, which may raise anything
        return None
    return items if len(items) <= limit else []


def _number_at(value: object, path: str) -> int | None:
    """Returns the number at a path of field names; None where there is none.

    path     value                                        number
    a.b      {"a": {"b": 3}}                              3
    a.b      {"a": [{"b": 3}, {"b": 4}, {}]}              7
    a.b + c  {"a": {"b": 3, "c": 4}}                      7
    """
    names, terms = _parsed(path)
    parents = [value]
    for name in names:
        parent = _attribute(parents[0], name)
        if parent is None:
            return None
        listed = items_of(parent, _MAX_DETAILS)
        parents = [parent] if listed is None else listed
        if not parents:
            return None
    numbers = [_token_count(_attribute(parent, name)) for parent in parents for name in terms]
    reported = [number for number in numbers if number is not None]
    return sum(reported) if reported else None


@cache
def _parsed(path: str) -> tuple[list[str], list[str]]:
    """Returns the names that lead to the parent, and the names of the fields that are summed."""
    *names, last = path.split(".")
    return names, last.split(" + ")


def _value_at(value: Any, path: str) -> Any:  # noqa: ANN401 - whatever a client's library returns
    """Returns what is at a path of field names; None where there is nothing."""
    names, terms = _parsed(path)
    for name in (*names, *terms):
        value = _attribute(value, name)
        if value is None:
            return None
    return value


def _attribute(value: object, name: str) -> Any:  # noqa: ANN401 - whatever a client's library returns
    """Returns the item or attribute of that name; None where there is none or reading it fails."""
    try:
        if type(value) is dict or isinstance(value, Mapping):  # a plain dict is the usual case, and told at once
            return value.get(name)
        return None if value is None or isinstance(value, str | int | float | list) else getattr(value, name, None)
    except Exception:  # noqa: BLE001 - the value is of an unknown class, which may raise anything
        return None


def _token_count(value: object) -> int | None:
    """Returns a number of tokens; None for what is not one.

    1280, 1280.0, "1280" -> 1280
    True, -1, 0.5, nan, "many", 10**400 -> None
    """
    if type(value) is str and value.isascii() and value.isdigit() and len(value) <= _DIGITS:
        value = int(value)
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= _MAX_TOKENS else None
