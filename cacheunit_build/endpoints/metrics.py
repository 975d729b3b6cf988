"""Reads what vLLM's `/metrics` page reports about its prefix cache.

The names of the metrics are those of vLLM's documentation and source, looked up 2026-11-29. The page is in Prometheus'
text format:

    vllm:cache_config_info{block_size="16",enable_prefix_caching="True",prefix_match_unit="None"} 1.0
    vllm:prefix_cache_hits_total{engine="0",model_name="qwen"} 4096.0
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# A server may send anything: without the limits, a long line would take time that grows with its square.
_CONFIG = re.compile(r"^vllm:cache_config_info\{(?P<labels>.{0,4096})\}", re.MULTILINE)
_LABEL = re.compile(r'(?P<name>\w+)="(?P<value>(?:[^"\\]|\\.)*)"')
_HITS = re.compile(r"^vllm:prefix_cache_hits(?:_total)?(?:\{.{0,4096}\})? (?P<number>\S{1,32})", re.MULTILINE)
_UNIT_LABELS = ("prefix_match_unit", "block_size")
"""Labels that hold the unit; the first with a number counts."""
_MOST_DIGITS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerMetrics:
    """What a server's metrics report about its prefix cache.

    Attributes:
        unit: tokens in one cache unit, as configured; None where it is not reported.
        hit_tokens: tokens served from the cache since the server started; None where they are not reported.
    """

    unit: int | None
    hit_tokens: int | None


def parse_metrics(text: str | None) -> ServerMetrics:
    """Parses a metrics page in Prometheus' text format; None means that the server has none."""
    return ServerMetrics(unit=_unit(text or ""), hit_tokens=_hit_tokens(text or ""))


def _unit(text: str) -> int | None:
    """Returns the configured unit in tokens; None where no label holds a positive number."""
    config = _CONFIG.search(text)
    if config is None:
        return None
    labels = {label["name"]: label["value"] for label in _LABEL.finditer(config["labels"])}
    for name in _UNIT_LABELS:
        value = labels.get(name, "")
        if value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS and int(value):
            return int(value)
    return None


def _hit_tokens(text: str) -> int | None:
    """Returns the sum of the hit counters of all engines; None where there is none."""
    numbers = [_number(counter["number"]) for counter in _HITS.finditer(text)]
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _number(text: str) -> int | None:
    """Returns a metric's value as a whole number; None for `NaN`, `+Inf` and values that are not numbers."""
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        return None
