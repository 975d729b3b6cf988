"""Tests `observe`: cached tokens are read from the responses of each provider, and compared with the prediction."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import trace

from cacheunit_build import load
from cacheunit_build.domain.usage import Usage, read_usage

if TYPE_CHECKING:
    from conftest import Project

REPLIES: dict[str, tuple[Any, Usage]] = {
    "OpenAI chat": (
        {"prompt_tokens": 1500, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 1280}},
        Usage(hit=1280, written=None, prompt=1500),
    ),
    "OpenAI, with a paid write": (
        {"prompt_tokens": 1500, "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 1400}},
        Usage(hit=0, written=1400, prompt=1500),
    ),
    "OpenAI responses": (
        {"input_tokens": 1500, "input_tokens_details": {"cached_tokens": 1280}, "output_tokens": 3},
        Usage(hit=1280, written=None, prompt=1500),
    ),
    "Anthropic": (
        {"input_tokens": 20, "cache_read_input_tokens": 1280, "cache_creation_input_tokens": 0, "output_tokens": 3},
        Usage(hit=1280, written=0, prompt=1300),
    ),
    "DeepSeek": (
        {"prompt_tokens": 1500, "prompt_cache_hit_tokens": 1280, "prompt_cache_miss_tokens": 220},
        Usage(hit=1280, written=None, prompt=1500),
    ),
    "Gemini, REST": (
        {"usageMetadata": {"promptTokenCount": 1500, "cachedContentTokenCount": 1280}},
        Usage(hit=1280, written=None, prompt=1500),
    ),
    "Gemini, Python": (
        SimpleNamespace(usage_metadata=SimpleNamespace(prompt_token_count=1500, cached_content_token_count=1280)),
        Usage(hit=1280, written=None, prompt=1500),
    ),
    "Bedrock": (
        {"usage": {"inputTokens": 20, "cacheReadInputTokens": 1280, "cacheWriteInputTokens": 0, "outputTokens": 3}},
        Usage(hit=1280, written=0, prompt=1300),
    ),
    "llama.cpp": (
        {"content": "x", "tokens_cached": 99, "timings": {"cache_n": 1280, "prompt_n": 20}},
        Usage(hit=1280, written=None, prompt=None),
    ),
    "an object of a client library": (
        SimpleNamespace(usage=SimpleNamespace(prompt_tokens=9, prompt_tokens_details=SimpleNamespace(cached_tokens=8))),
        Usage(hit=8, written=None, prompt=9),
    ),
    "vLLM without reports": (
        {"prompt_tokens": 1500, "prompt_tokens_details": None},
        Usage(hit=None, written=None, prompt=1500),
    ),
    "numbers as text": (
        {"prompt_tokens": "1500", "prompt_tokens_details": {"cached_tokens": "1280"}},
        Usage(hit=1280, written=None, prompt=1500),
    ),
    "no numbers": (
        {"prompt_tokens": True, "prompt_tokens_details": {"cached_tokens": -1}, "cache_read_input_tokens": "many"},
        Usage(hit=None, written=None, prompt=None),
    ),
    "nothing": (None, Usage(hit=None, written=None, prompt=None)),
    "a text": ("overloaded", Usage(hit=None, written=None, prompt=None)),
}


@pytest.mark.parametrize("provider", REPLIES)
def test_the_usage_of_each_provider_is_read(provider: str) -> None:
    value, expected = REPLIES[provider]
    assert read_usage(value) == expected


SETTINGS = """
targets = ["deepseek-v4"]
[target.short]
extends = "anthropic-1024"
[target.ours]
extends = "short"
cache = {minimum = 4}
[target.other]
extends = "ours"
cache = {kind = "tokens"}
"""


@pytest.fixture
def locked(project: Project) -> Project:
    project.write(
        {
            "cacheunit.toml": SETTINGS,
            "prefixes/a.yaml": "system: a.j2\ntargets: [deepseek-v4, short, ours, other]\npadding: 'off'\n",
            "templates/a.j2": "You answer briefly and to the point. " * 40,
        }
    )
    project.build()
    return project


def test_the_example_for_opentelemetry_records_on_the_current_span(locked: Project) -> None:
    page = (Path(__file__).parent.parent / "docs" / "live.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    example: dict[str, Any] = {}
    exec(code, example)  # noqa: S102 - the example in the documentation is executed
    prefix = load("a", target="deepseek-v4", root=locked.root)
    span = _Span(trace.INVALID_SPAN_CONTEXT)
    with trace.use_span(span):
        example["record"](prefix, {"prompt_tokens_details": {"cached_tokens": 128}})
    assert (span.recorded["gen_ai.usage.cache_read.input_tokens"], span.recorded["cacheunit.verdict"]) == (
        128,
        "partial",
    )
    silent = _Span(trace.INVALID_SPAN_CONTEXT)
    with trace.use_span(silent):
        example["record"](prefix, None)
    assert "gen_ai.usage.cache_read.input_tokens" not in silent.recorded
    assert silent.recorded["cacheunit.verdict"] == "unknown"


class _Span(trace.NonRecordingSpan):
    """Records the attributes that are set on it."""

    def __init__(self, context: trace.SpanContext) -> None:
        super().__init__(context)
        self.recorded: dict[str, Any] = {}

    def set_attribute(self, key: str, value: Any) -> None:  # noqa: ANN401 - any value that a span accepts
        self.recorded[key] = value


VERDICTS = [(256, "warm"), (300, "warm"), (255, "partial"), (128, "partial"), (0, "cold"), (None, "unknown")]


@pytest.mark.parametrize(("hit", "verdict"), VERDICTS)
def test_the_verdict_compares_the_hit_with_whole_units(locked: Project, hit: int | None, verdict: str) -> None:
    prefix = load("a", target="deepseek-v4", root=locked.root)
    assert prefix.predicted == 256 < prefix.tokens
    observed = prefix.observe({"prompt_tokens_details": {"cached_tokens": hit}})
    assert (observed.hit, observed.predicted, observed.verdict) == (hit, 256, verdict)


def test_no_hit_is_predicted_below_the_minimum_and_estimates_allow_for_their_margin(locked: Project) -> None:
    assert load("a", target="short", root=locked.root).predicted == 0
    ours = load("a", target="ours", root=locked.root)
    assert (ours.predicted, ours.counted) == (ours.tokens, "estimate")
    assert ours.observe({"cache_read_input_tokens": ours.tokens // 2 + 1}).verdict == "warm"
    assert ours.observe({"cache_read_input_tokens": ours.tokens // 2 - 1}).verdict == "partial"
    other = load("a", target="other", root=locked.root)
    assert other.predicted == other.tokens  # a target that changes the kind of rule inherits no minimum
