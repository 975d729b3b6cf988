"""The report of `targets`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.front_options import EFFECTS
from cacheunit_build.reports.formatting import plural, price_text, with_former_keys
from cacheunit_build.reports.layout import Block, Section, Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cacheunit_build.domain.evidence import Evidence
    from cacheunit_build.domain.target import RequestOption, Target


def targets_table(targets: Mapping[str, Target], *, verbose: bool = False) -> Table:
    """Returns a row for each target.

    Args:
        targets: the targets by name.
        verbose: whether to show prices and request formats too, with the description below each row.
    """
    known = targets.values()
    rows = [
        (target.name, target.cache.kind, _unit(target), _number(target.cache.minimum), _counted(target))
        for target in known
    ]
    header: tuple[str, ...] = ("target", "kind", "unit", "minimum", "counted")
    if not verbose:
        described = [(*row, target.description) for row, target in zip(rows, known, strict=True)]
        return Table(header=(*header, "description"), rows=described, right=(2, 3))
    prices = [(_number(target.cache.read), _number(target.cache.write), target.request) for target in known]
    notes = {index: target.description for index, target in enumerate(known)}
    full = [(*row, *more) for row, more in zip(rows, prices, strict=True)]
    return Table(header=(*header, "read", "write", "request"), rows=full, right=(2, 3, 5, 6), notes=notes)


def target_blocks(target: Target) -> list[Block]:
    """Returns everything about one target, with the evidence of its numbers."""
    cache, frame = target.cache, target.frame
    facts = [
        ("description", target.description),
        ("model", target.model or ""),
        ("model ids", ", ".join(target.model_ids)),
        ("request", target.request),
        ("tokenizer", "none: set in the project" if target.tokenizer is None else str(target.tokenizer)),
        ("frame", "" if target.frame.estimate is None else str(target.frame.estimate)),
        ("before", repr(frame.before) if frame.before else ""),
        ("after", repr(frame.after) if frame.after else ""),
        ("chat template", str(frame.chat_template or "")),
        ("encoder", str(frame.encoder or "")),
        ("cache", f"{cache.kind}, unit {_unit(target)}, minimum {_number(cache.minimum)}"),
        ("dropped", f"the last {plural(cache.dropped_units, 'unit')}" if cache.dropped_units else ""),
        ("hits", "not guaranteed: best effort" if cache.best_effort else ""),
        ("prices", f"read {_number(cache.read)}, write {_number(cache.write)} (an uncached input token is 1)"),
        ("money", _money(target)),
        ("marker", cache.marker or ""),
        ("lifetimes", ", ".join(f"{lifetime} (write {price:g})" for lifetime, price in cache.lifetimes.items())),
        ("lifetime by", cache.lifetime_option or ""),
        ("cache key", cache.key or ""),
    ]
    evidence = [
        *([*_evidence_lines(item)] for item in (*target.evidence, *cache.evidence)),
        *([f"option {_option(option)}", *_evidence_lines(option)] for option in target.options),
        *([f"limit: {limit} ({limit.effect})", *_evidence_lines(limit)] for limit in target.tool_limits),
    ]
    known = Section([[target.name], Table(rows=[fact for fact in facts if fact[1]], indent=2)])
    return [known, *([f"  {line}" for line in lines] for lines in evidence)]


def _evidence_lines(item: Evidence) -> tuple[str, str]:
    return f"{item.grade}, checked {item.checked}: {item.claim}", f"  {item.source}"


def _option(option: RequestOption) -> str:
    """Returns name and effect of an option, with the values that have no effect."""
    neutral = ", ".join(json.dumps(value, ensure_ascii=False) for value in option.neutral)
    return f"{option.name}: {EFFECTS[option.effect]}{f', except {neutral}' if neutral else ''}"


def _money(target: Target) -> str:
    price = target.price
    return "" if price is None else price_text(price)


def _unit(target: Target) -> str:
    cache = target.cache
    return _number(cache.unit) if cache.has_units or not cache.is_known else "-"


def _counted(target: Target) -> str:
    if target.tokenizer is None:
        return "-"
    if target.frame.estimate is not None:
        return "estimate"
    return f"±{target.tokenizer.margin * 100:.0f} %" if target.tokenizer.margin else "exact"


def _number(number: float | None) -> str:
    return "unknown" if number is None else f"{number:,}"


def targets_json(targets: Mapping[str, Target]) -> dict[str, Any]:
    """Returns the report as JSON values."""
    return {"targets": [_target_json(target) for target in targets.values()]}


def _target_json(target: Target) -> dict[str, Any]:
    spec = {} if target.tokenizer is None else asdict(target.tokenizer)
    cache = asdict(target.cache)
    cache["evidence"] = [_dated(item) for item in cache["evidence"]]
    return {
        "name": target.name,
        "description": target.description,
        "model": target.model,
        "model_ids": list(target.model_ids),
        "models": list(target.model_ids),  # the former name
        "request": target.request,
        "tokenizer": {key: value for key, value in spec.items() if value is not None},
        "frame": asdict(target.frame),
        "evidence": [_dated(asdict(item)) for item in target.evidence],
        "cache": with_former_keys(cache, {"primes": "warm_up_requests"}),
        "options": [_dated(asdict(option)) for option in target.options],
        "tool_limits": [
            {key: value for key, value in _dated(asdict(limit)).items() if value is not None}
            for limit in target.tool_limits
        ],
        "price": None if target.price is None else asdict(target.price),
    }


def _dated(evidence: dict[str, Any]) -> dict[str, Any]:
    """Returns evidence with its day as text."""
    return {**evidence, "checked": evidence["checked"].isoformat()}
