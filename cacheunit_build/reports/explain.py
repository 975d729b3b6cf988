"""The report of `explain`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.cache_rule import MILLION
from cacheunit_build.domain.file_names import readable_name
from cacheunit_build.reports.build import artifact_json
from cacheunit_build.reports.formatting import price_text, tokens_cell, unit_text, with_former_keys
from cacheunit_build.reports.layout import Block, Table, columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cacheunit_build.builder.explain import Explanation
    from cacheunit_build.builder.results import InputChange
    from cacheunit_build.domain.artifact import Artifact
    from cacheunit_build.domain.prices import FoundPrice
    from cacheunit_build.domain.prompt import Lookup
    from cacheunit_build.domain.target import Price

    PricesByTarget = Mapping[str, FoundPrice]

_LOCKED = {
    "same": "matches the lock",
    "different": "does not match the lock",
    "absent": "not in the lock",
    "unknown": "the lock cannot be read",
}


_MOST_SHAPES = 2
"""The most refused shapes that are shown; the JSON report has all."""


def explain_blocks(explanations: Sequence[Explanation], prices: PricesByTarget | None = None) -> list[Block]:
    """Returns a row for each artifact where there are several, then each of them in detail.

    What an artifact has in common with one before it is not repeated: its details name that one.

    Args:
        explanations: the artifacts.
        prices: the price of each target for which there is one, and where it comes from if it is not its own.
    """
    prices = prices or {}
    if len(explanations) == 1:
        return [_details(explanations[0], prices.get(explanations[0].artifact.target), None)]
    header = ("prefix", "target", "tokens", "counted", "unit", "padding", "plan")
    rows = [
        (
            readable_name(item.artifact.prefix),
            item.artifact.target,
            tokens_cell(item.artifact.entry.tokens, item.artifact.margin, item.artifact.entry.counted),
            item.artifact.entry.counted,
            f"{item.artifact.unit:,}" if item.artifact.unit else "-",
            f"{item.artifact.entry.padding:,}",
            f"{item.artifact.record.plan.action}: {item.artifact.record.plan.reason}",
        )
        for item in explanations
    ]
    shown: dict[tuple[str, ...], str] = {}
    details = [_details(item, prices.get(item.artifact.target), shown) for item in explanations]
    return [*([Table(header=header, rows=rows, right=(2, 4, 5))] if rows else []), *details]


def _details(explanation: Explanation, price: FoundPrice | None, shown: dict[tuple[str, ...], str] | None) -> list[str]:
    """Returns lines with numbers, plan, fingerprints, inputs and changes of one artifact.

    Args:
        explanation: the artifact.
        price: the price of its target, and where it comes from; None where there is none.
        shown: the sections that were shown before, each with its artifact; those of this one are added. None for an
            artifact that is explained alone, without a row in a table.
    """
    artifact = explanation.artifact
    name = f"{readable_name(artifact.prefix)} for {artifact.target}"
    segments = [(f"    {segment}", digest) for segment, digest in artifact.segments.items()]
    sections = {
        "  segments": ["  segments", *columns(segments)],
        "  inputs": ["  inputs", *columns(_input_rows(artifact.record.lookups))],
        "  changes": [line for change in explanation.changed for line in _change_lines(change)],
    }
    lines = [name, *columns([fact for fact in _facts(explanation, price, in_table=shown is not None) if fact[1]])]
    for title, section in sections.items():
        other = name if shown is None or not section else shown.setdefault(tuple(section), name)
        lines += section if other == name else [f"{title}: those of {other}"]
    return lines


def _facts(explanation: Explanation, price: FoundPrice | None, *, in_table: bool) -> list[tuple[str, str]]:
    """Returns the names and values of what is known of an artifact, without padding and plan if a table has them."""
    artifact, entry = explanation.artifact, explanation.artifact.entry
    return [
        ("  tokens", f"{tokens_cell(entry.tokens, artifact.margin, entry.counted)} static, {_counted(explanation)}"),
        ("  later turns", _later_turns(artifact)),
        ("  unstable", _unstable(artifact)),
        ("  literal", _literal(artifact)),
        ("  units", _units(artifact)),
        ("  padding", "" if in_table else f"{entry.padding:,} tokens"),
        ("  markers", _markers(artifact)),
        ("  lifetime", "" if entry.markers else ", ".join(entry.lifetimes)),
        ("  predicted", _predicted(explanation)),
        ("  money", "" if price is None else _money(explanation, price[0])),
        ("  price", "" if price is None else price_text(*price)),
        ("  plan", "" if in_table else f"{artifact.record.plan.action}: {artifact.record.plan.reason}"),
        ("  text", entry.text),
        ("  request", entry.request),
        ("  cached content", entry.cached_content or ""),
        ("  token ids", entry.token_ids or "not recorded, since the count is not exact"),
        ("  lock", _LOCKED[explanation.locked]),
    ]


def _markers(artifact: Artifact) -> str:
    """Returns how many tokens stand in front of each marker, with its lifetime where the request asks for one."""
    entry = artifact.entry
    inner = [f"~{marker:,}" if artifact.estimated else f"{marker:,}" for marker in entry.markers[:-1]]
    last = [tokens_cell(marker, artifact.margin, entry.counted) for marker in entry.markers[-1:]]
    places = [f"after {marker} tokens" for marker in (*inner, *last)]
    if len(entry.lifetimes) == len(places):
        places = [f"{place} ({lifetime})" for place, lifetime in zip(places, entry.lifetimes, strict=True)]
    return ", ".join(places)


def _counted(explanation: Explanation) -> str:
    entry = explanation.artifact.entry
    if entry.counted == "recorded":
        return "recorded from the provider"
    return "an estimate" if explanation.artifact.margin else f"{entry.counted} ({explanation.engine})"


def _later_turns(artifact: Artifact) -> str:
    """Returns what later turns of a conversation do to the static tokens; empty for an estimate."""
    turns = artifact.later_turns
    if turns is None:
        return "" if artifact.estimated else "assumed to leave the prefix unchanged, since the frame is fixed text"
    shown = ", ".join(f'"{shape}"' for shape in turns.refused[:_MOST_SHAPES])
    more = f" and {len(turns.refused) - _MOST_SHAPES} more" if len(turns.refused) > _MOST_SHAPES else ""
    refused = f"; refused by the frame: {shown}{more}" if turns.refused else ""
    if turns.shape is None:
        return f"change none of them{refused}"
    source = "" if turns.source is None else f", from {turns.source.path}:{turns.source.line} on"
    shared = f"{turns.first_turn:,} tokens are shared by requests of one turn"
    return f"{shared}, but a later turn ({turns.shape}) changes all but {artifact.entry.tokens:,}{source}{refused}"


def _predicted(explanation: Explanation) -> str:
    """Returns how many tokens a warm cache serves."""
    prediction = explanation.prediction
    if prediction.tokens is None:
        return f"unknown, {prediction.low:,} to {prediction.high:,} tokens from a warm cache"
    if prediction.low == prediction.high:
        return f"{prediction.tokens:,} tokens from a warm cache"
    return f"~{prediction.tokens:,} tokens from a warm cache, {prediction.low:,} to {prediction.high:,}"


def _money(explanation: Explanation, price: Price) -> str:
    """Returns what the prefix costs in a request, and in a million requests that a warm cache serves."""
    cost, estimate = explanation.cost, "~" if explanation.artifact.margin else ""
    shown = [f"{estimate}{cost.uncached * price.input / MILLION:.4g} {price.currency} per request without a cache"]
    if cost.cold is not None and cost.warm is not None:
        cold, warm = (value * price.input / MILLION for value in (cost.cold, cost.warm))
        shown.append(f"{estimate}{cold:.4g} where it is written to the cache, {estimate}{warm:.4g} from a warm cache")
        shown.append(f"{estimate}{cost.warm * price.input:,.4g} {price.currency} per 1M requests from a warm cache")
    return "; ".join(shown)


def _unstable(artifact: Artifact) -> str:
    return f"{artifact.unstable:,} more at the end, which change with what follows" if artifact.unstable else ""


def _literal(artifact: Artifact) -> str:
    return "" if artifact.literal is None else f"{artifact.literal:,} with control tokens read as characters"


def _units(artifact: Artifact) -> str:
    if not artifact.unit:
        return ""
    units = "not aligned, since the count is not exact" if artifact.margin else unit_text(artifact)
    return f"{units} (unit of {artifact.unit:,})"


def _change_lines(change: InputChange) -> tuple[str, str, str]:
    old, new = change.old or "absent", change.new or "absent"
    return f"  changed since the lock: {change.path}", f"    was {old}", f"    is  {new}"


def _input_rows(lookups: Sequence[Lookup]) -> list[tuple[str, str]]:
    """Returns each file, indented below the file that names it, with its fingerprint."""
    depth = {lookup.path: 0 for lookup in lookups}
    rows = []
    for lookup in _depth_first(lookups):
        depth[lookup.path] = depth.get(lookup.asked_by or "", -1) + 1
        rows.append((f"    {'  ' * depth[lookup.path]}{lookup.path}", lookup.fingerprint or "absent"))
    return rows


def _depth_first(lookups: Sequence[Lookup], asked_by: str | None = None) -> list[Lookup]:
    """Returns the files, each in front of the files that it names."""
    ordered = []
    for lookup in lookups:
        if lookup.asked_by == asked_by:
            ordered += [lookup, *_depth_first(lookups, lookup.path)]
    return ordered


def explain_json(explanations: Sequence[Explanation], prices: PricesByTarget | None = None) -> dict[str, Any]:
    """Returns the report as JSON values; for the arguments, see `explain_blocks`."""
    found = prices or {}
    return {"artifacts": [_explanation_json(item, found.get(item.artifact.target)) for item in explanations]}


def _cost_json(explanation: Explanation, price: FoundPrice | None) -> dict[str, Any]:
    """Returns the cost of a request in input-token prices, and in money where there is a price."""
    values = asdict(explanation.cost)
    numbers = {name: None if value is None else round(value, 6) for name, value in values.items()}
    if price is None:
        return {**numbers, "money": None}
    amount, origin = price
    money = {
        name: None if value is None else round(value * amount.input / MILLION, 9) for name, value in values.items()
    }
    found = {} if origin is None else asdict(origin)
    return {**numbers, "money": {**money, "currency": amount.currency, **found}}


def _explanation_json(explanation: Explanation, price: FoundPrice | None) -> dict[str, Any]:
    artifact, entry = explanation.artifact, explanation.artifact.entry
    report: dict[str, Any] = {
        "prefix": artifact.prefix,
        "target": artifact.target,
        "tokenizer": explanation.engine,
        **artifact_json(artifact.record),
        "unstable": artifact.unstable,
        "later_turns": None if artifact.later_turns is None else asdict(artifact.later_turns),
        "predicted": explanation.prediction.tokens,
        "cost": _cost_json(explanation, price),
        "literal": artifact.literal,
        "segments": dict(artifact.segments),
        "text": entry.text,
        "request": entry.request,
        "cached_content": entry.cached_content,
        "token_ids": entry.token_ids,
        "inputs": [
            {"path": lookup.path, "fingerprint": lookup.fingerprint, "asked_by": lookup.asked_by}
            for lookup in artifact.record.lookups
        ],
        "locked": explanation.locked,
        "changed": [asdict(change) for change in explanation.changed],
    }
    return with_former_keys(report, {"soft": "unstable"})
