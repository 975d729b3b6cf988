"""Tests `observe`: the cached tokens of a response are compared with the prediction."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import trace

from cacheunit_build import load

if TYPE_CHECKING:
    from conftest import Project

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
