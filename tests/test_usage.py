"""Tests `read_usage`: the cached tokens are read from the responses of each provider, server and library.

Shapes looked up 2026-11-30, in the documentation that each group names; numbers too where the documentation has some.
The types are those of the installed client libraries. google-genai, langchain-core and litellm are not installed by the
extra `test` (70 MB, 50 MB and 330 MB): their tests run where they are, and their shapes are tested as JSON.
"""

from __future__ import annotations

import json
import math
import time
from collections import UserDict
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import MagicMock

import anthropic.types
import openai.types
import openai.types.completion_usage
import openai.types.responses
import openai.types.responses.response_usage
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheunit_build.domain import usage as usage_module
from cacheunit_build.domain import usage_fields
from cacheunit_build.domain.usage import Usage, read_usage

if TYPE_CHECKING:
    from collections.abc import Iterator


def usage(hit: int | None = None, written: int | None = None, prompt: int | None = None, *told: str) -> Usage:
    return Usage(hit=hit, written=written, prompt=prompt, contradictions=told)


class Counts(NamedTuple):
    prompt_tokens: int
    cached_tokens: int


# https://developers.openai.com/api/docs/guides/prompt-caching and the API reference
OPENAI: dict[str, tuple[Any, Usage]] = {
    "chat": (
        {
            "prompt_tokens": 2006,
            "completion_tokens": 300,
            "total_tokens": 2306,
            "prompt_tokens_details": {"cached_tokens": 1920},
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
        usage(1920, None, 2006),
    ),
    "chat, tokens written": (
        {
            "usage": {
                "prompt_tokens": 2600,
                "prompt_tokens_details": {"cached_tokens": 2000, "cache_write_tokens": 400, "audio_tokens": 0},
            }
        },
        usage(2000, 400, 2600),
    ),
    "responses": (
        {"input_tokens": 1500, "input_tokens_details": {"cached_tokens": 1280}, "output_tokens": 3},
        usage(1280, None, 1500),
    ),
    "responses, tokens written": (
        {"usage": {"input_tokens": 1500, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 1400}}},
        usage(0, 1400, 1500),
    ),
    "last chunk of a chat stream": (
        {"object": "chat.completion.chunk", "choices": [], "usage": {"prompt_tokens": 9, "total_tokens": 12}},
        usage(None, None, 9),
    ),
    "chunks of a chat stream": (
        [
            {"id": "chatcmpl-1", "choices": [{"delta": {"content": "Hi"}}], "usage": None},
            {
                "id": "chatcmpl-1",
                "choices": [],
                "usage": {"prompt_tokens": 2006, "prompt_tokens_details": {"cached_tokens": 1920}},
            },
        ],
        usage(1920, None, 2006),
    ),
    "event response.completed": (
        {
            "type": "response.completed",
            "sequence_number": 9,
            "response": {
                "id": "resp_1",
                "usage": {"input_tokens": 328, "input_tokens_details": {"cached_tokens": 256, "cache_write_tokens": 0}},
            },
        },
        usage(256, 0, 328),
    ),
    "events of responses": (
        [
            {"type": "response.created", "response": {"id": "resp_1", "usage": None}},
            {"type": "response.output_text.delta", "item_id": "msg_1", "delta": "Hi"},
            {
                "type": "response.completed",
                "response": {
                    "id": "resp_1",
                    "usage": {"input_tokens": 328, "input_tokens_details": {"cached_tokens": 9}},
                },
            },
        ],
        usage(9, None, 328),
    ),
    "realtime": (
        {
            "type": "response.done",
            "response": {
                "usage": {
                    "total_tokens": 253,
                    "input_tokens": 132,
                    "input_token_details": {
                        "text_tokens": 119,
                        "cached_tokens": 64,
                        "cached_tokens_details": {"text_tokens": 64, "audio_tokens": 0},
                    },
                }
            },
        },
        usage(64, None, 132),
    ),
    "details as a list": (
        {"prompt_tokens": 2006, "prompt_tokens_details": [{"cached_tokens": 1280}, {"cached_tokens": 640}, {}]},
        usage(1920, None, 2006),
    ),
}

MESSAGE_START = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "usage": {
            "input_tokens": 2,
            "cache_creation_input_tokens": 10408,
            "cache_read_input_tokens": 14265,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 10408},
            "output_tokens": 1,
        },
    },
}
TEXT_DELTA = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}
MESSAGE_DELTA = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 15}}

# https://platform.claude.com/docs/en/build-with-claude/prompt-caching and .../streaming
ANTHROPIC: dict[str, tuple[Any, Usage]] = {
    "message": (
        {"input_tokens": 20, "cache_read_input_tokens": 1280, "cache_creation_input_tokens": 0, "output_tokens": 3},
        usage(1280, 0, 1300),
    ),
    "both times to live": (
        {
            "usage": {
                "input_tokens": 2048,
                "cache_read_input_tokens": 1800,
                "cache_creation_input_tokens": 248,
                "cache_creation": {"ephemeral_5m_input_tokens": 148, "ephemeral_1h_input_tokens": 100},
            }
        },
        usage(1800, 248, 4096),
    ),
    "only the times to live": (
        {"input_tokens": 20, "cache_creation": {"ephemeral_5m_input_tokens": 148, "ephemeral_1h_input_tokens": 100}},
        usage(None, 248, 268),
    ),
    "all read": ({"input_tokens": 0, "cache_read_input_tokens": 1280}, usage(1280, None, 1280)),
    "event message_start": (MESSAGE_START, usage(14265, 10408, 24675)),
    "event message_delta": (MESSAGE_DELTA, usage()),
    "events of a stream": (
        [MESSAGE_START, TEXT_DELTA, MESSAGE_DELTA, {"type": "message_stop"}],
        usage(14265, 10408, 24675),
    ),
    "events in a tuple": ((MESSAGE_START, MESSAGE_DELTA), usage(14265, 10408, 24675)),
    "a server tool adds tokens": (  # the counts of message_delta are cumulative
        [
            {
                "type": "message_start",
                "message": {
                    "id": "msg_1",
                    "usage": {
                        "input_tokens": 2679,
                        "cache_creation_input_tokens": 100,
                        "cache_read_input_tokens": 0,
                        "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 0},
                    },
                },
            },
            {
                "type": "message_delta",
                "usage": {
                    "input_tokens": 10682,
                    "cache_creation_input_tokens": 300,
                    "cache_read_input_tokens": 100,
                    "output_tokens": 510,
                },
            },
        ],
        usage(100, 300, 11082),
    ),
    "message_delta without cached tokens": (
        [
            MESSAGE_START,
            {
                "type": "message_delta",
                "usage": {"input_tokens": 2, "cache_read_input_tokens": None, "cache_creation_input_tokens": None},
            },
        ],
        usage(14265, 10408, 24675),
    ),
    "a gateway that counts at the end": (  # OpenRouter, https://github.com/0xPlaygrounds/rig/pull/2236
        [
            {
                "type": "message_start",
                "message": {"id": "gen-1", "usage": {"input_tokens": 0, "cache_read_input_tokens": 0}},
            },
            {"type": "message_delta", "usage": {"input_tokens": 20, "cache_read_input_tokens": 1280}},
        ],
        usage(1280, None, 1300),
    ),
}

GEMINI_DETAILS = {
    "promptTokenCount": 1500,
    "cachedContentTokenCount": 1280,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 1242}, {"modality": "IMAGE", "tokenCount": 258}],
    "cacheTokensDetails": [{"modality": "TEXT", "tokenCount": 1022}, {"modality": "IMAGE", "tokenCount": 258}],
}
# https://ai.google.dev/api/generate-content#UsageMetadata and https://ai.google.dev/gemini-api/docs/caching
GEMINI: dict[str, tuple[Any, Usage]] = {
    "REST": ({"responseId": "r1", "usageMetadata": GEMINI_DETAILS}, usage(1280, None, 1500)),
    "REST, details only": (
        {"usageMetadata": {key: GEMINI_DETAILS[key] for key in ("promptTokensDetails", "cacheTokensDetails")}},
        usage(1280, None, 1500),
    ),
    "REST, total that the details do not explain": (  # tokens of tools are in the total
        {"promptTokenCount": 1600, "promptTokensDetails": GEMINI_DETAILS["promptTokensDetails"]},
        usage(None, None, 1600),
    ),
    "REST, a stream": (
        [{"responseId": "r1", "usageMetadata": {"promptTokenCount": 1500}}, {"usageMetadata": GEMINI_DETAILS}],
        usage(1280, None, 1500),
    ),
    "Python": (
        SimpleNamespace(usage_metadata=SimpleNamespace(prompt_token_count=1500, cached_content_token_count=1280)),
        usage(1280, None, 1500),
    ),
    "Python, as JSON": (
        {
            "usage_metadata": {
                "cache_tokens_details": [{"modality": "TEXT", "token_count": 1280}],
                "cached_content_token_count": 1280,
                "prompt_token_count": 1500,
                "prompt_tokens_details": [{"modality": "TEXT", "token_count": 1500}],
            }
        },
        usage(1280, None, 1500),
    ),
    "interactions": (
        {
            "id": "i1",
            "usage": {
                "total_input_tokens": 1500,
                "total_cached_tokens": 1280,
                "cached_tokens_by_modality": [{"modality": "text", "tokens": 1280}],
                "input_tokens_by_modality": [{"modality": "text", "tokens": 1500}],
            },
        },
        usage(1280, None, 1500),
    ),
    "interactions, a stream": (
        [
            {"event_type": "interaction.created", "interaction": {"id": "i1"}},
            {
                "event_type": "interaction.completed",
                "interaction": {"id": "i1", "usage": {"total_input_tokens": 1500, "total_cached_tokens": 1280}},
            },
        ],
        usage(1280, None, 1500),
    ),
}

BEDROCK_USAGE = {"inputTokens": 20, "outputTokens": 3, "cacheReadInputTokens": 1280, "cacheWriteInputTokens": 0}
# https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_TokenUsage.html
BEDROCK: dict[str, tuple[Any, Usage]] = {
    "Converse": ({"usage": BEDROCK_USAGE}, usage(1280, 0, 1300)),
    "Converse, written by time to live": (
        {
            "usage": {
                "inputTokens": 20,
                "cacheDetails": [{"ttl": "1h", "inputTokens": 64}, {"ttl": "5m", "inputTokens": 36}],
            }
        },
        usage(None, 100, 120),
    ),
    "Converse without a cache": ({"usage": {"inputTokens": 20, "outputTokens": 3}}, usage(None, None, 20)),
    "event of a stream": ({"metadata": {"usage": BEDROCK_USAGE, "metrics": {"latencyMs": 9}}}, usage(1280, 0, 1300)),
    "events of a stream": (
        [{"messageStart": {"role": "assistant"}}, {"messageStop": {}}, {"metadata": {"usage": BEDROCK_USAGE}}],
        usage(1280, 0, 1300),
    ),
}

# https://api-docs.deepseek.com/guides/kv_cache; vLLM: --enable-prompt-tokens-details; SGLang: --enable-cache-report;
# llama.cpp: tools/server/README.md; xAI: https://docs.x.ai/developers/advanced-api-usage/prompt-caching
OTHERS: dict[str, tuple[Any, Usage]] = {
    "DeepSeek": (
        {
            "prompt_tokens": 1500,
            "prompt_cache_hit_tokens": 1280,
            "prompt_cache_miss_tokens": 220,
            "prompt_tokens_details": {"cached_tokens": 1280},
        },
        usage(1280, None, 1500),
    ),
    "DeepSeek without a total": (
        {"prompt_cache_hit_tokens": 1280, "prompt_cache_miss_tokens": 220},
        usage(1280, None, 1500),
    ),
    "vLLM": (
        {"usage": {"prompt_tokens": 1500, "prompt_tokens_details": {"cached_tokens": 1280}}},
        usage(1280, None, 1500),
    ),
    "vLLM without reports": ({"prompt_tokens": 1500, "prompt_tokens_details": None}, usage(None, None, 1500)),
    "SGLang": (
        {"usage": {"prompt_tokens": 1500, "prompt_tokens_details": {"cached_tokens": 1279}}},
        usage(1279, None, 1500),
    ),
    "SGLang, its own API": (
        {"text": "x", "meta_info": {"id": "1", "prompt_tokens": 1500, "completion_tokens": 3, "cached_tokens": 1279}},
        usage(1279, None, 1500),
    ),
    "llama.cpp, its own API": (
        {"content": "x", "tokens_cached": 272, "timings": {"cache_n": 236, "prompt_n": 1, "predicted_n": 35}},
        usage(236, None, 237),
    ),
    "llama.cpp, chat": (
        {
            "usage": {"prompt_tokens": 237, "prompt_tokens_details": {"cached_tokens": 0}},
            "timings": {"cache_n": 236, "prompt_n": 1},
        },
        usage(236, None, 237),
    ),
    "llama.cpp before it reported cache_n": ({"timings": {"prompt_n": 1, "predicted_n": 35}}, usage()),
    "xAI": (
        {"prompt_tokens": 125, "prompt_tokens_details": {"text_tokens": 125, "cached_tokens": 98}},
        usage(98, None, 125),
    ),
    "Groq, last chunk": (
        {"x_groq": {"usage": {"prompt_tokens": 125, "prompt_tokens_details": {"cached_tokens": 98}}}},
        usage(98, None, 125),
    ),
    "an object of a client library": (
        SimpleNamespace(usage=SimpleNamespace(prompt_tokens=9, prompt_tokens_details=SimpleNamespace(cached_tokens=8))),
        usage(8, None, 9),
    ),
    "mappings that are no dict": (
        MappingProxyType({"usage": UserDict({"prompt_tokens": 9, "cached_tokens": 8})}),
        usage(8, None, 9),
    ),
    "a named tuple": (Counts(prompt_tokens=9, cached_tokens=8), usage(8, None, 9)),
}

LITELLM = {  # as litellm 1.110 makes it of a response of Anthropic
    "prompt_tokens": 1400,
    "prompt_tokens_details": {
        "cached_tokens": 1280,
        "cache_write_tokens": 100,
        "cache_creation_tokens": 100,
        "cache_creation_token_details": {"ephemeral_5m_input_tokens": 60, "ephemeral_1h_input_tokens": 40},
        "text_tokens": 20,
    },
    "cache_creation_input_tokens": 100,
    "cache_read_input_tokens": 1280,
}
AI_SDK_6 = {
    "inputTokens": 1400,
    "inputTokenDetails": {"noCacheTokens": 20, "cacheReadTokens": 1280, "cacheWriteTokens": 100},
    "cachedInputTokens": 1280,
    "outputTokens": 3,
    "raw": {"input_tokens": 20, "cache_read_input_tokens": 1280, "cache_creation_input_tokens": 100},
}
# https://docs.litellm.ai/docs/completion/prompt_caching; https://reference.langchain.com/python/langchain-core/messages/ai;
# https://github.com/vercel/ai: packages/provider/src/language-model/{v2,v3}, packages/anthropic, issues 9921 and 11178
LIBRARIES: dict[str, tuple[Any, Usage]] = {
    "LiteLLM": ({"usage": LITELLM}, usage(1280, 100, 1400)),
    "LangChain": (
        {"input_tokens": 1400, "output_tokens": 3, "input_token_details": {"cache_read": 1280, "cache_creation": 100}},
        usage(1280, 100, 1400),
    ),
    "LangChain, written by time to live": (
        {
            "usage_metadata": {
                "input_tokens": 1400,
                "input_token_details": {
                    "cache_read": 1280,
                    "cache_creation": 0,
                    "ephemeral_5m_input_tokens": 60,
                    "ephemeral_1h_input_tokens": 40,
                },
            }
        },
        usage(1280, 100, 1400),
    ),
    "LangChain, a message of Anthropic": (
        {
            "usage_metadata": {"input_tokens": 1300, "input_token_details": {"cache_read": 1280, "cache_creation": 0}},
            "response_metadata": {
                "usage": {"input_tokens": 20, "cache_read_input_tokens": 1280, "cache_creation_input_tokens": 0}
            },
        },
        usage(1280, 0, 1300),
    ),
    "LangChain, metadata of OpenAI": (
        {"response_metadata": {"token_usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 8}}}},
        usage(8, None, 9),
    ),
    "LangChain, an LLMResult": ({"llm_output": {"token_usage": {"prompt_tokens": 9}}}, usage(None, None, 9)),
    "Vercel AI SDK 6": ({"usage": AI_SDK_6}, usage(1280, 100, 1400)),
    "Vercel AI SDK 6, usage": (AI_SDK_6, usage(1280, 100, 1400)),
    "Vercel AI SDK 6, without a total": (
        {"inputTokenDetails": {"noCacheTokens": 20, "cacheReadTokens": 1280, "cacheWriteTokens": 100}},
        usage(1280, 100, 1400),
    ),
    "Vercel AI SDK 6, as a provider returns it": (
        {"usage": {"inputTokens": {"total": 1400, "noCache": 20, "cacheRead": 1280, "cacheWrite": 100}}},
        usage(1280, 100, 1400),
    ),
    "Vercel AI SDK 5": (  # whether inputTokens has the cached tokens depends on the provider
        {"inputTokens": 1815, "outputTokens": 4, "totalTokens": 1819, "reasoningTokens": 0, "cachedInputTokens": 1280},
        usage(1280, None, None),
    ),
    "Vercel AI SDK 5, Anthropic": (
        {
            "usage": {"inputTokens": 20, "outputTokens": 3, "totalTokens": 23, "cachedInputTokens": 1280},
            "providerMetadata": {
                "anthropic": {
                    "usage": {"input_tokens": 20, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 1280},
                    "cacheCreationInputTokens": 100,
                    "stopSequence": None,
                }
            },
        },
        usage(1280, 100, 1400),
    ),
    "Vercel AI SDK 5, Bedrock": (
        {
            "usage": {"inputTokens": 20, "cachedInputTokens": 1280},
            "providerMetadata": {"bedrock": {"usage": {"cacheWriteInputTokens": 100}}},
        },
        usage(1280, 100, None),
    ),
    "Vercel AI SDK 5, a stream": (
        [
            {"type": "text-delta", "id": "0", "text": "Hi"},
            {"type": "finish-step", "response": {"id": "r1"}, "usage": {"inputTokens": 20, "cachedInputTokens": 1280}},
            {"type": "finish", "totalUsage": {"inputTokens": 20, "cachedInputTokens": 1280}},
        ],
        usage(1280, None, None),
    ),
    "Vercel AI SDK 4, Anthropic": (
        {
            "usage": {"promptTokens": 20, "completionTokens": 3},
            "providerMetadata": {"anthropic": {"cacheCreationInputTokens": 2118, "cacheReadInputTokens": 0}},
        },
        usage(0, 2118, None),
    ),
    "Vercel AI SDK 4, OpenAI": ({"providerMetadata": {"openai": {"cachedPromptTokens": 1280}}}, usage(1280)),
    "Vercel AI SDK, DeepSeek": ({"providerMetadata": {"deepseek": {"promptCacheHitTokens": 1280}}}, usage(1280)),
}

RECORDED = {
    f"{group}: {name}": case
    for group, cases in (
        ("OpenAI", OPENAI),
        ("Anthropic", ANTHROPIC),
        ("Gemini", GEMINI),
        ("Bedrock", BEDROCK),
        ("other", OTHERS),
        ("library", LIBRARIES),
    )
    for name, case in cases.items()
}


@pytest.mark.parametrize("shape", RECORDED)
def test_the_usage_of_each_provider_is_read(shape: str) -> None:
    value, expected = RECORDED[shape]
    assert read_usage(value) == expected


AGREEING: dict[str, tuple[Any, Usage]] = {
    "a 0 is the default of a gateway": (
        {"prompt_cache_hit_tokens": 0, "prompt_tokens_details": {"cached_tokens": 900}},
        usage(900),
    ),
    "a 0 after the number": (
        {"prompt_tokens_details": {"cached_tokens": 900}, "cache_read_input_tokens": 0},
        usage(900),
    ),
    "None is no number": ({"prompt_cache_hit_tokens": None, "cached_tokens": 900}, usage(900)),
    "equal numbers agree": ({"prompt_cache_hit_tokens": 900, "cached_tokens": 900}, usage(900)),
    "all are 0": ({"prompt_cache_hit_tokens": 0, "cached_tokens": 0}, usage(0)),
    "written tokens": (
        {"cache_creation_input_tokens": 0, "prompt_tokens_details": {"cache_write_tokens": 64}},
        usage(None, 64),
    ),
    "prompt tokens": ({"prompt_tokens": 0, "input_tokens": 900, "input_tokens_details": {}}, usage(None, None, 900)),
    "a prompt of 0 is a default beside cached tokens": ({"prompt_tokens": 0, "cached_tokens": 900}, usage(900)),
    "a miss of 0 is a default beside the prompt": (
        {
            "prompt_tokens": 1500,
            "prompt_cache_hit_tokens": 0,
            "prompt_cache_miss_tokens": 0,
            "prompt_tokens_details": {"cached_tokens": 900},
        },
        usage(900, None, 1500),
    ),
    "what is not cached has what is written": (  # Vercel AI SDK 6, OpenAI
        {
            "inputTokens": 2600,
            "inputTokenDetails": {"noCacheTokens": 600, "cacheReadTokens": 2000},
            "usage": {"raw": {"prompt_tokens_details": {"cached_tokens": 2000, "cache_write_tokens": 400}}},
        },
        usage(2000, 400, 2600),
    ),
    "nothing but a 0 is not cached": (
        {"inputTokens": 1000, "inputTokenDetails": {"noCacheTokens": 0, "cacheReadTokens": 640}},
        usage(640, None, 1000),
    ),
    "the tokens missed without those cached": (
        {"usage": {"prompt_tokens": 1000}, "timings": {"prompt_n": 100}},
        usage(None, None, 1000),
    ),
    "all of the prompt is read or written": (
        {"prompt_tokens": 1000, "prompt_tokens_details": {"cached_tokens": 900, "cache_write_tokens": 100}},
        usage(900, 100, 1000),
    ),
    "the cached tokens of another field are added to what is not cached": (
        {"input_tokens": 20, "cache_read_input_tokens": 0, "prompt_tokens_details": {"cached_tokens": 900}},
        usage(900, None, 920),
    ),
}


@pytest.mark.parametrize("case", AGREEING)
def test_fields_that_say_the_same_are_reconciled(case: str) -> None:
    value, expected = AGREEING[case]
    assert read_usage(value) == expected


CONTRADICTING: dict[str, tuple[Any, Usage]] = {
    "cached tokens": (
        {"prompt_cache_hit_tokens": 900, "prompt_tokens_details": {"cached_tokens": 640}, "prompt_tokens": 1500},
        usage(None, None, 1500, "prompt_cache_hit_tokens is 900, but prompt_tokens_details.cached_tokens is 640"),
    ),
    "each other number once": (
        {
            "prompt_cache_hit_tokens": 1280,
            "prompt_tokens_details": {"cached_tokens": 640},
            "cache_read_input_tokens": 1280,
            "cached_tokens": 640,
            "cache_n": 32,
        },
        usage(
            None,
            None,
            None,
            "prompt_cache_hit_tokens is 1,280, but prompt_tokens_details.cached_tokens is 640",
            "prompt_cache_hit_tokens is 1,280, but cache_n is 32",
        ),
    ),
    "in two parts of a response": (
        {"usage": {"prompt_tokens_details": {"cached_tokens": 640}}, "timings": {"cache_n": 236}},
        usage(None, None, None, "usage.prompt_tokens_details.cached_tokens is 640, but timings.cache_n is 236"),
    ),
    "a list that has another sum": (
        {"cachedContentTokenCount": 900, "cacheTokensDetails": [{"tokenCount": 600}, {"tokenCount": 40}]},
        usage(None, None, None, "cachedContentTokenCount is 900, but cacheTokensDetails.tokenCount is 640"),
    ),
    "written tokens": (
        {
            "input_tokens": 20,
            "cache_read_input_tokens": 1280,
            "cache_creation_input_tokens": 100,
            "cache_creation": {"ephemeral_5m_input_tokens": 60, "ephemeral_1h_input_tokens": 60},
        },
        usage(
            1280,
            None,
            None,
            "cache_creation_input_tokens is 100, "
            "but cache_creation.ephemeral_5m_input_tokens + ephemeral_1h_input_tokens is 120",
        ),
    ),
    "prompt tokens": (
        {"prompt_tokens": 1500, "promptTokenCount": 1400, "cached_tokens": 640},
        usage(640, None, None, "prompt_tokens is 1,500, but promptTokenCount is 1,400"),
    ),
    "prompt tokens as a total and as a sum": (
        {"prompt_tokens": 1500, "input_tokens": 20, "cache_read_input_tokens": 1280},
        usage(1280, None, None, "prompt_tokens is 1,500, but input_tokens + cache_read_input_tokens is 1,300"),
    ),
    "a hit larger than the prompt": (
        {"prompt_tokens": 20, "cache_read_input_tokens": 1280},
        usage(None, None, None, "cache_read_input_tokens is 1,280, more than the whole prompt: prompt_tokens is 20"),
    ),
    "more written than the prompt": (
        {"prompt_tokens": 20, "cached_tokens": 8, "cache_creation_input_tokens": 1280},
        usage(8, None, None, "cache_creation_input_tokens is 1,280, more than the whole prompt: prompt_tokens is 20"),
    ),
    "hit and miss that are not the prompt": (
        {"prompt_tokens": 1500, "prompt_cache_hit_tokens": 1280, "prompt_cache_miss_tokens": 20},
        usage(
            None,
            None,
            None,
            "prompt_cache_hit_tokens + prompt_cache_miss_tokens is 1,300, but prompt_tokens is 1,500",
        ),
    ),
    "all was missed, but tokens are cached": (
        {
            "prompt_tokens": 1500,
            "prompt_cache_hit_tokens": 0,
            "prompt_cache_miss_tokens": 1500,
            "prompt_tokens_details": {"cached_tokens": 900},
        },
        usage(
            None,
            None,
            None,
            "prompt_tokens_details.cached_tokens + prompt_cache_miss_tokens is 2,400, but prompt_tokens is 1,500",
        ),
    ),
    "read and written are more than the prompt": (
        {"prompt_tokens": 1000, "prompt_tokens_details": {"cached_tokens": 900, "cache_write_tokens": 900}},
        usage(
            None,
            None,
            None,
            "prompt_tokens_details.cached_tokens + prompt_tokens_details.cache_write_tokens is 1,800, "
            "more than the whole prompt: prompt_tokens is 1,000",
        ),
    ),
    "llama.cpp, tokens that are missing": (
        {"usage": {"prompt_tokens": 1000}, "timings": {"cache_n": 640, "prompt_n": 100}},
        usage(None, None, None, "timings.cache_n + timings.prompt_n is 740, but usage.prompt_tokens is 1,000"),
    ),
    "Vercel AI SDK 6, tokens that are missing": (
        {"inputTokens": 1000, "inputTokenDetails": {"noCacheTokens": 10, "cacheReadTokens": 640}},
        usage(
            None,
            None,
            None,
            "inputTokenDetails.cacheReadTokens + inputTokenDetails.noCacheTokens is 650, but inputTokens is 1,000",
        ),
    ),
    "Vercel AI SDK 6, as a provider returns it": (
        {"usage": {"inputTokens": {"total": 1000, "noCache": 10, "cacheRead": 640, "cacheWrite": 100}}},
        usage(
            None,
            None,
            None,
            "usage.inputTokens.cacheRead + usage.inputTokens.cacheWrite + usage.inputTokens.noCache is 750, "
            "but usage.inputTokens.total is 1,000",
        ),
    ),
    "an event of a stream of llama.cpp": (
        [
            {"choices": [{"delta": {"content": "Hi"}}]},
            {"choices": [], "usage": {"prompt_tokens": 1000}, "timings": {"cache_n": 640, "prompt_n": 100}},
        ],
        usage(None, None, None, "timings.cache_n + timings.prompt_n is 740, but usage.prompt_tokens is 1,000"),
    ),
    "counts of a stream that fall": (
        [{"usage": {"cached_tokens": 900}}, {"usage": {"cached_tokens": 640}}],
        usage(None, None, None, "an event of the stream reports 900 cached tokens, but the last one 640"),
    ),
    "an event of a stream": (
        [
            {"message": {"usage": {"cached_tokens": 900, "cache_read_input_tokens": 640}}},
            {"usage": {"cached_tokens": 900}},
        ],
        usage(
            None,
            None,
            None,
            "message.usage.cache_read_input_tokens is 640, but message.usage.cached_tokens is 900",
        ),
    ),
    "a stream with a hit larger than its prompt": (
        [{"usage": {"cached_tokens": 900}}, {"usage": {"prompt_tokens": 640}}],
        usage(None, None, None, "the stream reports 900 cached tokens, but 640 in the whole prompt"),
    ),
    "two responses": (
        [
            {"id": "a", "usage": {"prompt_tokens": 1500, "cached_tokens": 0}},
            {"id": "b", "usage": {"prompt_tokens": 1500, "cached_tokens": 1280}},
        ],
        usage(None, None, None, "the list has the usage of 2 responses, so no number is that of one"),
    ),
}


@pytest.mark.parametrize("case", CONTRADICTING)
def test_a_contradiction_is_told_and_its_number_unknown(case: str) -> None:
    value, expected = CONTRADICTING[case]
    assert read_usage(value) == expected


NUMBERS: dict[str, tuple[Any, int | None]] = {
    "whole": (1280, 1280),
    "whole float": (1280.0, 1280),
    "text": ("1280", 1280),
    "text of other digits": ("٣", None),
    "text with a sign": ("-1", None),
    "words": ("many", None),
    "text of 5,000 digits": ("9" * 5000, None),
    "5,000 digits": (10**5000, None),
    "negative": (-1, None),
    "bool": (True, None),
    "fraction": (0.5, None),
    "not a number": (math.nan, None),
    "infinite": (math.inf, None),
    "bytes": (b"1280", None),
    "list": ([1280], None),
    "mapping": ({}, None),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_only_a_whole_number_of_tokens_counts(kind: str) -> None:
    number, tokens = NUMBERS[kind]
    assert read_usage({"cached_tokens": number}) == usage(tokens)


def test_types_of_openai_are_read() -> None:
    details = openai.types.completion_usage.PromptTokensDetails(cached_tokens=1280, cache_write_tokens=100)
    chat = openai.types.CompletionUsage(
        prompt_tokens=1500, completion_tokens=3, total_tokens=1503, prompt_tokens_details=details
    )
    assert read_usage(chat) == read_usage(SimpleNamespace(usage=chat)) == usage(1280, 100, 1500)
    responses = openai.types.responses.ResponseUsage.model_validate(
        {
            "input_tokens": 1500,
            "input_tokens_details": {"cached_tokens": 1280, "cache_write_tokens": 0},
            "output_tokens": 3,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 1503,
        }
    )
    assert read_usage(responses) == usage(1280, 0, 1500)


def test_events_of_openai_are_read() -> None:
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []}
    chunks = [
        openai.types.chat.ChatCompletionChunk.model_validate(chunk),
        openai.types.chat.ChatCompletionChunk.model_validate(
            {**chunk, "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10, "cached_tokens": 8}}
        ),
    ]
    assert read_usage(chunks) == usage(8, None, 9)
    response = openai.types.responses.Response.model_construct(
        id="r",
        usage=openai.types.responses.ResponseUsage.model_construct(
            input_tokens=9,
            input_tokens_details=openai.types.responses.response_usage.InputTokensDetails(
                cached_tokens=8, cache_write_tokens=0
            ),
        ),
    )
    event = openai.types.responses.ResponseCompletedEvent.model_construct(type="response.completed", response=response)
    assert read_usage(event) == read_usage([event]) == usage(8, 0, 9)


def test_fields_that_a_client_of_openai_does_not_know_are_read() -> None:
    deepseek = openai.types.CompletionUsage.model_validate(
        {
            "prompt_tokens": 1500,
            "completion_tokens": 3,
            "total_tokens": 1503,
            "prompt_cache_hit_tokens": 0,
            "prompt_tokens_details": {"cached_tokens": 900},
        }
    )
    assert read_usage(deepseek) == usage(900, None, 1500)


def test_types_of_anthropic_are_read() -> None:
    message = anthropic.types.Usage(
        input_tokens=20,
        output_tokens=3,
        cache_read_input_tokens=1280,
        cache_creation_input_tokens=100,
        cache_creation=anthropic.types.CacheCreation(ephemeral_5m_input_tokens=60, ephemeral_1h_input_tokens=40),
    )
    assert read_usage(message) == usage(1280, 100, 1400)
    assert read_usage(anthropic.types.Usage(input_tokens=20, output_tokens=3)) == usage(None, None, 20)
    start = anthropic.types.RawMessageStartEvent.model_construct(
        type="message_start", message=anthropic.types.Message.model_construct(id="msg_1", usage=message)
    )
    delta = anthropic.types.RawMessageDeltaEvent.model_construct(
        type="message_delta", usage=anthropic.types.MessageDeltaUsage(output_tokens=15)
    )
    assert read_usage([start, delta]) == usage(1280, 100, 1400)


def test_types_of_google_genai_are_read() -> None:
    types = pytest.importorskip("google.genai.types")
    details = [types.ModalityTokenCount(modality="TEXT", token_count=1280)]
    metadata = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=1500, cached_content_token_count=1280, cache_tokens_details=details
    )
    response = types.GenerateContentResponse(usage_metadata=metadata)
    assert (
        read_usage(response)
        == read_usage(json.loads(response.model_dump_json(by_alias=True)))
        == usage(1280, None, 1500)
    )


def test_a_message_of_langchain_is_read() -> None:
    messages = pytest.importorskip("langchain_core.messages")
    recorded, expected = LIBRARIES["LangChain, a message of Anthropic"]
    counts = {**recorded["usage_metadata"], "output_tokens": 3, "total_tokens": 1303}
    message = messages.AIMessage("x", usage_metadata=counts, response_metadata=recorded["response_metadata"])
    assert read_usage(message) == expected


def test_types_of_litellm_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else its import asks the network for prices
    litellm = pytest.importorskip("litellm.types.utils")
    counts = {"cache_read_input_tokens": 1280, "cache_creation_input_tokens": 100}
    assert read_usage(litellm.Usage(prompt_tokens=1400, completion_tokens=3, **counts)) == usage(1280, 100, 1400)


class Hostile:
    """An object whose attributes raise."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def __getattr__(self, name: str) -> object:
        raise self.error(name)


class Endless:
    """An object that has every attribute, each of them itself."""

    def __getattr__(self, name: str) -> Endless:
        return self


class EndlessList(list[Any]):
    """A list that never ends."""

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield {"cached_tokens": 1}


class HostileMapping(UserDict[str, Any]):
    """A mapping that cannot be read."""

    def get(self, key: str, default: object = None) -> Any:  # noqa: ANN401 - as the class that it replaces
        raise RuntimeError(key, default)


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"usage": value, "prompt_tokens_details": [value]}
    return value


def cycle() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value.update({name.split(".")[0]: value for name in usage_fields.CONTAINERS})
    value["prompt_tokens_details"] = [value, [value]]
    return value


MOCK = MagicMock()
UNREADABLE: dict[str, Any] = {
    "nothing": None,
    "a text": "overloaded",
    "a number": 3,
    "an empty list": [],
    "texts in a list": ["data: [DONE]", None, 3],
    "attributes that raise": Hostile(RuntimeError),
    "attributes that are missing": Hostile(AttributeError),
    "attributes that never end": Hostile(RecursionError),
    "every attribute": Endless(),
    "a mock": MOCK,
    "a mock of a mapping": MagicMock(spec=dict),
    "a mock of a list": MagicMock(spec=list),
    "mocks in a list": [MOCK, MOCK],
    "a list without end": EndlessList(),
    "details without end": {"prompt_tokens_details": EndlessList()},
    "a mapping that raises": HostileMapping(),
    "a cycle": cycle(),
    "deep nesting": nested(100_000),
    "a list of lists": [[{"cached_tokens": 3}]],
    "a class": Usage,
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_no_number_is_read_where_there_is_none(case: str) -> None:
    assert read_usage(UNREADABLE[case]) == usage()


def test_an_iterator_is_not_consumed() -> None:
    events = iter([MESSAGE_START, MESSAGE_DELTA])
    assert read_usage(events) == usage()
    assert len(list(events)) == 2


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_an_exit_or_an_interrupt_while_a_response_is_read_passes_through(error: type[BaseException]) -> None:
    for response in (Hostile(error), [Hostile(error)]):
        with pytest.raises(error):
            read_usage(response)


def test_more_events_that_report_tokens_than_are_read_are_a_contradiction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_module, "MAX_READ_EVENTS", 3)
    event = {"usage": {"prompt_tokens": 9, "cached_tokens": 4}}
    assert read_usage([event] * 3) == usage(4, None, 9)
    reason = "4 events may report tokens, more than the 3 that are read"
    assert read_usage([event] * 4) == usage(None, None, None, reason)
    assert read_usage([*[SimpleNamespace(text="a"), {"text": "a"}] * 5, event]) == usage(4, None, 9)


def test_more_details_than_are_read_are_no_number() -> None:
    details = [{"token_count": 1}] * 101
    assert read_usage({"cache_tokens_details": details[:100]}) == usage(100, None, None)
    assert read_usage({"cache_tokens_details": details}) == usage()


def test_objects_of_unknown_classes_are_read_field_by_field_only_where_they_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[object] = []

    def recording(event: object) -> list[usage_fields.Container]:
        read.append(event)
        return usage_fields.containers_of(event)

    monkeypatch.setattr(usage_module, "containers_of", recording)
    events = [SimpleNamespace(text="a"), SimpleNamespace(usage=None), SimpleNamespace(usage={"cached_tokens": 3})]
    assert read_usage(events) == usage(3, None, None)
    assert read == events[2:]


def test_events_without_usage_take_little_time() -> None:
    text = anthropic.types.RawContentBlockDeltaEvent.model_validate(TEXT_DELTA)
    events = [MESSAGE_START, *[TEXT_DELTA, text] * 5000, MESSAGE_DELTA]
    started = time.process_time()
    assert read_usage(events) == usage(14265, 10408, 24675)
    # It takes 0.1 s, and 4 s if each event is read field by field.
    assert time.process_time() - started < 2


FIELDS = (
    usage_fields.HIT_FIELDS
    + usage_fields.WRITTEN_FIELDS
    + usage_fields.PROMPT_FIELDS
    + usage_fields.INPUT_FIELDS
    + usage_fields.UNCACHED_FIELDS
    + usage_fields.CONTAINERS
    + usage_fields.ID_FIELDS
)
KEYS = st.sampled_from(sorted({name for path in FIELDS for part in path.split(".") for name in part.split(" + ")}))
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(0, 3),
    st.floats(),
    st.text(max_size=5),
    st.integers(0, 3).map(str),
    st.builds(Hostile, st.sampled_from([AttributeError, KeyError, RecursionError])),
    st.just(MOCK),
    st.just(Endless()),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(KEYS, inner, max_size=6),
        st.dictionaries(KEYS, inner, max_size=6).map(lambda fields: SimpleNamespace(**fields)),
    ),
    max_leaves=30,
)


@given(VALUES)
def test_whatever_is_given_the_numbers_are_possible(value: object) -> None:
    result = read_usage(value)
    numbers = (result.hit, result.written, result.prompt)
    assert all(number is None or (type(number) is int and number >= 0) for number in numbers)
    assert result.hit is None or result.prompt is None or result.hit <= result.prompt
    if not isinstance(value, list | tuple) and result.prompt:
        assert (result.hit or 0) + (result.written or 0) <= result.prompt
    assert len(set(result.contradictions)) == len(result.contradictions)


@given(VALUES.filter(lambda value: not isinstance(value, list | tuple)))
def test_a_stream_of_one_event_reports_what_the_event_reports(event: object) -> None:
    assert read_usage([event]) == read_usage(event)


@given(
    st.dictionaries(
        st.sampled_from([name for name in usage_fields.HIT_FIELDS if "." not in name]),
        st.sampled_from([0, 640, 900]),
        min_size=1,
    )
)
def test_a_hit_is_told_only_where_all_positive_numbers_agree(fields: dict[str, int]) -> None:
    positive = {number for number in fields.values() if number}
    result = read_usage(fields)
    assert result.hit == (None if len(positive) > 1 else max(positive, default=0))
    assert len(result.contradictions) == max(len(positive) - 1, 0)
