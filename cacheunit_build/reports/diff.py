"""The report of `diff`: text, JSON, Markdown for a pull request, and annotations on the changed source lines."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.cache_rule import MILLION
from cacheunit_build.domain.escaping import code_span, markdown_text
from cacheunit_build.domain.file_names import readable_name
from cacheunit_build.reports.folding import fold_names
from cacheunit_build.reports.formatting import faults_json, markdown_table, price_text, with_former_keys
from cacheunit_build.reports.github import annotation
from cacheunit_build.reports.layout import Block, Table
from cacheunit_build.reports.text_diff import diff_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cacheunit_build.diff.results import Difference, DiffResult, FirstChange
    from cacheunit_build.domain.lock import LockEntry
    from cacheunit_build.domain.target import Price

_FORMER_KEYS = {"warm": "still_cached", "rewritten": "recomputed"}
_FORMER_COST_KEYS = {"once": "one_time"}
_COLUMNS = (
    *("prefix", "target", "tokens", "padding", "still cached", "recomputed"),
    *("one-time cost", "cost per 1M requests", "first change"),
)
_RIGHT = (3, 4, 5, 6, 7, 8)


def diff_json(diff: DiffResult) -> dict[str, Any]:
    """Returns the report as JSON values."""
    return {
        "against": diff.against,
        "changes": [_difference_json(item) for item in diff.differences],
        "sources": [
            {"path": path, "artifacts": [{"prefix": prefix, "target": target} for prefix, target in keys]}
            for path, keys in diff.sources.items()
        ],
        "affected": list(diff.affected),
        "errors": faults_json(diff.faults),
        "notes": list(diff.notes),
    }


def _difference_json(item: Difference) -> dict[str, Any]:
    entry = item.new or item.old
    report = {
        "prefix": item.prefix,
        "target": item.target,
        "kind": item.kind,
        "what": item.what,
        "was": item.was,
        "counted": None if entry is None else entry.counted,
        "tokens": {"old": item.old.tokens if item.old else None, "new": item.new.tokens if item.new else None},
        "padding": {"old": item.old.padding if item.old else None, "new": item.new.padding if item.new else None},
        "still_cached": item.still_cached,
        "recomputed": item.recomputed,
        "shares": item.shares,
        "first_change": None if item.first is None else asdict(item.first),
        "cost": _cost_json(item),
        "unknown": item.why,
    }
    return with_former_keys(report, _FORMER_KEYS)


def _cost_json(item: Difference) -> dict[str, Any] | None:
    """Returns a cost in input-token prices, and in money where there is a price."""
    cost, price = item.cost, item.price
    if cost is None:
        return None
    values = asdict(cost)
    numbers = {name: None if value is None else round(value, 6) for name, value in values.items()}
    report = with_former_keys(numbers, _FORMER_COST_KEYS)
    if price is None:
        return {**report, "money": None}
    money = {name: None if value is None else round(value * price.input / MILLION, 9) for name, value in values.items()}
    origin = {} if item.price_origin is None else asdict(item.price_origin)
    return {**report, "money": {**with_former_keys(money, _FORMER_COST_KEYS), "currency": price.currency, **origin}}


def diff_blocks(diff: DiffResult, *, texts: bool = False) -> list[Block]:
    """Returns a row for each artifact, the changed sources, and a summary.

    Args:
        diff: the result.
        texts: whether to show the rendered texts line by line too.
    """
    if not diff.differences:
        return [[f"no difference from {diff.against}"]]
    rows = [(item.kind, _name(item), item.target, *_numbers(item), _first_change(item)) for item in diff.differences]
    return [
        [f"against {diff.against}"],
        Table(header=("kind", *_COLUMNS), rows=rows, right=_RIGHT),
        list(_source_lines(diff)),
        list(_unknown_lines(diff)),
        list(_price_lines(diff)),
        *(_text_diffs(diff) if texts else ()),
        [_summary(diff)],
    ]


def _name(item: Difference) -> str:
    name = readable_name(item.prefix)
    return name if item.was is None else f"{readable_name(item.was)} -> {name}"


def _numbers(item: Difference) -> tuple[str, str, str, str, str, str]:
    """Returns the cells of tokens, padding, still cached, recomputed, one-time cost and cost per 1M requests."""
    one_time, running = _costs(item)
    return (
        _old_and_new(item, "tokens"),
        _old_and_new(item, "padding"),
        _count(item, item.still_cached),
        _count(item, item.recomputed),
        one_time,
        running,
    )


def _old_and_new(item: Difference, name: str) -> str:
    """Returns `1,024`, or `~1,024 -> 1,152` where a number changed, here from an estimate to an exact one."""
    old, new = (_of_entry(entry, name) for entry in (item.old, item.new))
    return new or old if old == new or not old or not new else f"{old} -> {new}"


def _of_entry(entry: LockEntry | None, name: str) -> str:
    """Returns a number of tokens of a lock entry, `~` in front of an estimate; nothing where there is no entry."""
    if entry is None:
        return ""
    return f"{'~' if entry.is_estimate and name == 'tokens' else ''}{getattr(entry, name):,}"


def _count(item: Difference, tokens: int | None) -> str:
    """Returns a number of tokens; a question mark where it is unknown, nothing for a removed artifact."""
    if tokens is None:
        return "" if item.kind == "removed" else "?"
    return f"{'~' if item.estimated else ''}{tokens:,}"


def _costs(item: Difference) -> tuple[str, str]:
    """Returns the one-time cost and the cost per 1M requests, in money where there is a price."""
    if item.cost is None:
        return "", ""
    estimate = "~" if item.estimated else ""
    costs = _cost(item.cost.one_time, "", item.price), _cost(item.cost.per_million, "+", item.price)
    one_time, running = (cost if cost == "?" else estimate + cost for cost in costs)
    return one_time, running


def _cost(value: float | None, sign: str, price: Price | None) -> str:
    if value is None:
        return "?"
    if price is None:
        return f"{value:{sign},.0f}"
    return f"{value * price.input / MILLION:{sign},.4g} {price.currency}"


def _first_change(item: Difference) -> str:
    """Returns the source line and the offsets of the first change."""
    if item.first is None:
        return "" if item.shares is None else f"shares its beginning with {item.shares}"
    source = "" if item.first.source is None else f"{item.first.source.path}:{item.first.source.line}"
    return " ".join(part for part in (source, f"({_offsets(item.first)})") if part)


def _offsets(first: FirstChange) -> str:
    counts = [("byte", first.byte), ("token", first.token), ("unit", first.unit)]
    offsets = [f"{name} {value:,}" for name, value in counts if value is not None]
    return ", ".join([first.part, *offsets] if first.part != "system" or not offsets else offsets)


def _source_lines(diff: DiffResult) -> Iterator[str]:
    for path, keys in diff.sources.items():
        yield f"{path} changed: {fold_names(prefix for prefix, _ in keys)}"


def _unknown_lines(diff: DiffResult) -> Iterator[str]:
    """Yields each reason why something is unknown, with the artifacts that it is about."""
    reasons: dict[str, list[str]] = {}
    for item in diff.differences:
        if item.why is not None:
            reasons.setdefault(item.why, []).append(item.prefix)
    for why, names in reasons.items():
        yield f"{fold_names(names)}: {why}"


def _price_lines(diff: DiffResult) -> Iterator[str]:
    """Yields the prices that are not the targets' own, each once, with the day of the data."""
    lines = (
        f"{item.target}: {price_text(item.price, item.price_origin)}"
        for item in diff.differences
        if item.price is not None and item.price_origin is not None and item.cost is not None and item.cost.is_known
    )
    yield from dict.fromkeys(lines)


def _text_diffs(diff: DiffResult) -> Iterator[list[str]]:
    """Yields the diff of each artifact's text; targets with the same texts share one."""
    seen: set[tuple[str, tuple[str, str]]] = set()
    for item in diff.differences:
        if item.text is not None and item.text[0] != item.text[1] and (item.prefix, item.text) not in seen:
            seen.add((item.prefix, item.text))
            yield diff_lines(*item.text, name=readable_name(item.prefix))


def _summary(diff: DiffResult) -> str:
    """Returns the number of differences of each kind, and what they do to the cache."""
    kinds: dict[str, int] = {}
    for item in diff.differences:
        kinds[item.kind] = kinds.get(item.kind, 0) + 1
    counts = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
    exact = [item for item in diff.differences if not item.estimated and item.still_cached is not None]
    if not exact:
        return counts
    still_cached = sum(item.still_cached or 0 for item in exact)
    recomputed = sum(item.recomputed or 0 for item in exact)
    return f"{counts}: {still_cached:,} tokens still cached, {recomputed:,} recomputed"


def diff_markdown(diff: DiffResult) -> str:
    """Returns a table for a comment on a pull request; empty where nothing changed."""
    if not diff.differences:
        return ""
    rows = [
        (
            item.kind,
            code_span(_name(item)),
            code_span(item.target),
            *map(markdown_text, _numbers(item)),
            markdown_text(_first_change(item)),
        )
        for item in diff.differences
    ]
    legend = (
        "The one-time cost is what the first request after the change pays in addition, the cost per 1M requests what "
        "later ones do, in prices of one uncached input token where no currency is shown."
    )
    notes = (*_unknown_lines(diff), *_price_lines(diff), *diff.notes)
    parts = [
        f"### Prompt cache: {_summary(diff)}",
        f"Against {code_span(diff.against)}. {legend}",
        markdown_table([("", *_COLUMNS), *rows], right=_RIGHT),
        "\n".join(f"- {markdown_text(line)}" for line in _source_lines(diff)),
        "\n".join(f"- {markdown_text(line)}" for line in notes),
    ]
    return "\n\n".join(part for part in parts if part)


def diff_annotations(diff: DiffResult, repository_path: Callable[[str], str]) -> str:
    """Returns a notice on each source line at which artifacts begin to differ.

    Args:
        diff: the result.
        repository_path: returns the path in the repository of a path in the project.
    """
    by_line: dict[tuple[str, int], list[Difference]] = {}
    for item in diff.differences:
        source = None if item.first is None else item.first.source
        if source is not None:
            by_line.setdefault((repository_path(source.path), source.line), []).append(item)
    return "\n".join(
        annotation("notice", *map(_sentence, items), path=path, line=line, title="prompt cache")
        for (path, line), items in sorted(by_line.items())
    )


def _sentence(item: Difference) -> str:
    """Returns what a change does to the cache, in one sentence."""
    name = f"{readable_name(item.prefix)} for {item.target}"
    if item.still_cached is None or item.recomputed is None:
        return f"{name}: unknown how many tokens are still cached"
    estimate = "~" if item.estimated else ""
    return f"{name}: {estimate}{item.still_cached:,} tokens still cached, {estimate}{item.recomputed:,} recomputed"
