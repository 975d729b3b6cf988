"""What vLLM's `/metrics` says of its prefix cache. Standard library only.

The names are those of vLLM's documentation and source, looked up 2026-11-29.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_INFO = re.compile(r"^vllm:cache_config_info\{(?P<labels>.*)\}", re.MULTILINE)
_LABEL = re.compile(r'(?P<name>\w+)="(?P<value>(?:[^"\\]|\\.)*)"')
_HITS = re.compile(r"^vllm:prefix_cache_hits(?:_total)?(?:\{.*\})? (?P<number>\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """The unit that the server is set to, and the tokens that its cache served so far; None where not told."""

    unit: int | None
    hits: int | None


def read_gauges(text: str | None) -> Gauges:
    """What a text in the form of Prometheus tells."""
    info = _INFO.search(text or "")
    labels = {} if info is None else {found["name"]: found["value"] for found in _LABEL.finditer(info["labels"])}
    units = [labels.get(name, "") for name in ("prefix_match_unit", "block_size")]
    unit = next((int(value) for value in units if value.isascii() and value.isdigit() and int(value)), None)
    counted = [_number(found["number"]) for found in _HITS.finditer(text or "")]
    known = [number for number in counted if number is not None]
    return Gauges(unit=unit, hits=sum(known) if known else None)


def _number(text: str) -> int | None:
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        return None
