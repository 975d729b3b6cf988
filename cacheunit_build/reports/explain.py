"""The report of `explain`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.cache_rule import MILLION
from cacheunit_build.domain.file_names import readable_name
from cacheunit_build.reports.build import artifact_json
from cacheunit_build.reports.folding import MOST_ROWS, fold, number_range
from cacheunit_build.reports.formatting import price_text, tokens_cell, tokens_range, unit_text, with_former_keys
from cacheunit_build.reports.layout import Block, Section, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cacheunit_build.builder.explain import Explanation
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


_MOST_DETAILS = 3
"""The most artifacts of which all details are shown."""

_SHORT = 12
"""The digits of a fingerprint that are shown."""

_MOST_SHAPES = 2
"""The most refused shapes that are shown; the JSON report has all."""


def explain_blocks(
    explanations: Sequence[Explanation], prices: PricesByTarget | None = None, *, verbose: bool = False
) -> list[Block]:
    """Returns a row for each prefix and target where there are several artifacts, then a few of them in detail.

    What an artifact has in common with one before it is not repeated: its details name that one.

    Args:
        explanations: the artifacts.
        prices: the price of each target for which there is one, and where it comes from if it is not its own.
        verbose: whether to show each artifact in detail and whole fingerprints.
    """
    prices = prices or {}
    if len(explanations) == 1:
        return [_details(explanations[0], prices.get(explanations[0].artifact.target), None, verbose=verbose)]
    if len(explanations) > _MOST_DETAILS and not verbose:
        return [_table(explanations, MOST_ROWS), ["name one of them, or use -v, to see details"]]
    shown: dict[object, str] = {}
    details = [_details(item, prices.get(item.artifact.target), shown, verbose=verbose) for item in explanations]
    return [_table(explanations, len(explanations)), *details]


def _table(explanations: Sequence[Explanation], most: int) -> Table:
    """Returns a row for each prefix and target with its numbers and plan, or for more where these are many."""
    by_key = {item.artifact.key: item.artifact.record for item in explanations}
    rows: list[tuple[str, ...]] = []
    notes: dict[int, str] = {}
    for group in fold(by_key, most):
        records = [by_key[key] for key in group.keys]
        plans = dict.fromkeys(record.plan.action for record in records)
        counted = dict.fromkeys(record.entry.counted for record in records)
        if len(records) == 1:
            notes[len(rows)] = f"{records[0].plan.action}: {records[0].plan.reason}"
        units = {record.unit for record in records if record.unit}
        cells = tokens_range(records), ", ".join(counted), number_range(units) or "-"
        padding = number_range(record.entry.padding for record in records)
        rows.append((group.name, group.target, *cells, padding, ", ".join(plans)))
    header = ("prefix", "target", "tokens", "counted", "unit", "padding", "plan")
    return Table(header=header, rows=rows, right=(2, 4, 5), notes=notes)


def _details(
    explanation: Explanation, price: FoundPrice | None, shown: dict[object, str] | None, *, verbose: bool
) -> Section:
    """Returns numbers, plan, fingerprints, inputs and changes of one artifact.

    Args:
        explanation: the artifact.
        price: the price of its target, and where it comes from; None where there is none.
        shown: the sections that were shown before, each with its artifact; those of this one are added. None for an
            artifact that is explained alone, without a row in a table.
        verbose: whether to show whole fingerprints.
    """
    artifact = explanation.artifact
    name = f"{readable_name(artifact.prefix)} for {artifact.target}"
    digest = str if verbose else _short
    sections = {
        "segments": [(segment, digest(value)) for segment, value in artifact.segments.items()],
        "inputs": _input_rows(artifact.record.lookups, digest),
        "changed since the lock": [
            (change.path, f"{digest(change.old or 'absent')} -> {digest(change.new or 'absent')}")
            for change in explanation.changed
        ],
    }
    facts = [fact for fact in _facts(explanation, price, digest, in_table=shown is not None) if fact[1]]
    blocks: list[Block] = [[name], Table(rows=facts, indent=2)]
    for title, rows in sections.items():
        other = name if shown is None or not rows else shown.setdefault((title, *rows), name)
        if other != name:
            blocks.append([f"  {title}: those of {other}"])
        elif rows:
            blocks += [[f"  {title}"], Table(rows=rows, indent=4)]
    return Section(blocks)


def _short(digest: str) -> str:
    """Returns a fingerprint with 12 of its digits."""
    kind, colon, digits = digest.rpartition(":")
    return f"{kind}{colon}{digits[:_SHORT]}" if len(digits) > _SHORT else digest


def _facts(
    explanation: Explanation, price: FoundPrice | None, digest: Callable[[str], str], *, in_table: bool
) -> list[tuple[str, str]]:
    """Returns the names and values of what is known of an artifact, without padding and plan if a table has them."""
    artifact, entry = explanation.artifact, explanation.artifact.entry
    return [
        ("tokens", f"{tokens_cell(entry.tokens, artifact.margin, entry.counted)} static, {_counted(explanation)}"),
        ("later turns", _later_turns(artifact)),
        ("unstable", _unstable(artifact)),
        ("literal", _literal(artifact)),
        ("units", _units(artifact)),
        ("padding", "" if in_table else f"{entry.padding:,} tokens"),
        ("markers", _markers(artifact)),
        ("lifetime", "" if entry.markers else ", ".join(entry.lifetimes)),
        ("predicted", _predicted(explanation)),
        ("money", "" if price is None else _money(explanation, price[0])),
        ("price", "" if price is None else price_text(*price)),
        ("plan", "" if in_table else f"{artifact.record.plan.action}: {artifact.record.plan.reason}"),
        ("text", digest(entry.text)),
        ("request", digest(entry.request)),
        ("cached content", digest(entry.cached_content or "")),
        ("token ids", digest(entry.token_ids) if entry.token_ids else "not recorded, since the count is not exact"),
        ("lock", _LOCKED[explanation.locked]),
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


def _input_rows(lookups: Sequence[Lookup], digest: Callable[[str], str]) -> list[tuple[str, str]]:
    """Returns each file, indented below the file that names it, with its fingerprint."""
    depth = {lookup.path: 0 for lookup in lookups}
    rows = []
    for lookup in _depth_first(lookups):
        depth[lookup.path] = depth.get(lookup.asked_by or "", -1) + 1
        rows.append((f"{'  ' * depth[lookup.path]}{lookup.path}", digest(lookup.fingerprint or "absent")))
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
