"""What a change does to the cache -> text, JSON, Markdown for a pull request, annotations on the source lines."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cacheunit_build.reports.data import errors_data, with_former_keys
from cacheunit_build.reports.github import annotation
from cacheunit_build.reports.names import names_together
from cacheunit_build.reports.table import columns, markdown_table
from cacheunit_build.reports.text_diff import text_diff

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cacheunit_build.diff.results import Difference, DiffResult, FirstChange
    from cacheunit_build.domain.cache_rule import Cost
    from cacheunit_build.domain.target import Price

_PER = 1_000_000
_FORMER = {"warm": "still_cached", "rewritten": "recomputed"}
_FORMER_COST = {"once": "one_time"}


def diff_data(diff: DiffResult) -> dict[str, Any]:
    """The report of `diff`."""
    return {
        "against": diff.against,
        "changes": [_difference_data(item) for item in diff.differences],
        "sources": [
            {"path": path, "artifacts": [{"prefix": prefix, "target": target} for prefix, target in keys]}
            for path, keys in diff.sources.items()
        ],
        "affected": list(diff.affected),
        "errors": errors_data(diff.faults),
        "notes": list(diff.notes),
    }


def _difference_data(item: Difference) -> dict[str, Any]:
    entry = item.new or item.old
    report = {
        "prefix": item.prefix,
        "target": item.target,
        "kind": item.kind,
        "was": item.was,
        "counted": None if entry is None else entry.counted,
        "tokens": {"old": item.old.tokens if item.old else None, "new": item.new.tokens if item.new else None},
        "padding": {"old": item.old.padding if item.old else None, "new": item.new.padding if item.new else None},
        "still_cached": item.still_cached,
        "recomputed": item.recomputed,
        "shares": item.shares,
        "first_change": None if item.first is None else asdict(item.first),
        "cost": _cost_data(item.cost, item.price),
        "unknown": item.why,
    }
    return with_former_keys(report, _FORMER)


def _cost_data(cost: Cost | None, price: Price | None) -> dict[str, Any] | None:
    """In token prices, and in money where the target carries a price."""
    if cost is None:
        return None
    numbers = {name: None if value is None else round(value, 6) for name, value in asdict(cost).items()}
    numbers = with_former_keys(numbers, _FORMER_COST)
    if price is None:
        return {**numbers, "money": None}
    money = {
        name: None if value is None else round(value * price.input / _PER, 9) for name, value in asdict(cost).items()
    }
    return {**numbers, "money": {**with_former_keys(money, _FORMER_COST), "currency": price.currency}}


def diff_text(diff: DiffResult, *, texts: bool = False) -> str:
    """A line an artifact, the sources that changed, and a summary; with `texts`, the rendered texts side by side."""
    if not diff.differences:
        return f"no difference against {diff.against}"
    header = ("kind", "prefix", "target", "tokens", "padding", "warm", "rewritten", "once", "per 1M", "first change")
    rows = [(item.kind, _named(item), item.target, *_numbers(item), _where(item)) for item in diff.differences]
    parts = [f"against {diff.against}", columns([header, *rows], right=(3, 4, 5, 6, 7, 8))]
    parts += ["\n".join(_source_lines(diff))] if diff.sources else []
    parts += ["\n".join(notes)] if (notes := list(_unknowns(diff))) else []
    parts += list(_text_diffs(diff)) if texts else []
    return "\n\n".join([*parts, _summary(diff)])


def _named(item: Difference) -> str:
    return item.prefix if item.was is None else f"{item.was} -> {item.prefix}"


def _numbers(item: Difference) -> tuple[str, str, str, str, str, str]:
    """Tokens, padding, warm, rewritten, the cost of going cold, the cost of a million requests."""
    about = "about " if item.margin else ""
    once, running = _costs(item)
    return (
        about + _change(item, "tokens"),
        _change(item, "padding"),
        "?" if item.still_cached is None and item.kind != "removed" else about + _count(item.still_cached),
        "?" if item.recomputed is None and item.kind != "removed" else about + _count(item.recomputed),
        once,
        running,
    )


def _change(item: Difference, name: str) -> str:
    old, new = (None if entry is None else getattr(entry, name) for entry in (item.old, item.new))
    if old == new or None in (old, new):
        return _count(new if new is not None else old)
    return f"{old:,} -> {new:,}"


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _costs(item: Difference) -> tuple[str, str]:
    """Money where there is a price, else token prices."""
    if item.cost is None:
        return "", ""
    shown: list[str] = []
    for value, sign in ((item.cost.one_time, ""), (item.cost.per_million, "+")):
        if value is None:
            shown.append("?")
        elif item.price is None:
            shown.append(f"{value:{sign},.0f}")
        else:
            shown.append(f"{value * item.price.input / _PER:{sign},.4g} {item.price.currency}")
    return shown[0], shown[1]


def _where(item: Difference) -> str:
    if item.first is None:
        return "" if item.shares is None else f"shares its beginning with {item.shares}"
    source = "" if item.first.source is None else f"{item.first.source.path}:{item.first.source.line}"
    return " ".join(part for part in (source, f"({_offsets(item.first)})") if part)


def _offsets(first: FirstChange) -> str:
    counts = [("byte", first.byte), ("token", first.token), ("unit", first.unit)]
    found = [f"{name} {value:,}" for name, value in counts if value is not None]
    return ", ".join([first.part, *found] if first.part != "system" or not found else found)


def _source_lines(diff: DiffResult) -> Iterator[str]:
    for path, keys in diff.sources.items():
        yield f"{path} changed: {names_together(prefix for prefix, _ in keys)}"


def _unknowns(diff: DiffResult) -> Iterator[str]:
    """What cannot be told, once for all artifacts for which it cannot."""
    reasons: dict[str, list[str]] = {}
    for item in diff.differences:
        if item.why is not None:
            reasons.setdefault(item.why, []).append(item.prefix)
    for why, names in reasons.items():
        yield f"{names_together(names)}: {why}"


def _text_diffs(diff: DiffResult) -> Iterator[str]:
    """The rendered texts of each artifact, those of several targets that are the same once."""
    seen: dict[tuple[str, tuple[str, str]], None] = {}
    for item in diff.differences:
        if item.text is not None and item.text[0] != item.text[1] and (item.prefix, item.text) not in seen:
            seen[item.prefix, item.text] = None
            yield text_diff(*item.text, name=item.prefix)


def _summary(diff: DiffResult) -> str:
    kinds: dict[str, int] = {}
    for item in diff.differences:
        kinds[item.kind] = kinds.get(item.kind, 0) + 1
    told = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
    exact = [item for item in diff.differences if not item.margin and item.still_cached is not None]
    if not exact:
        return told
    warm = sum(item.still_cached or 0 for item in exact)
    rewritten = sum(item.recomputed or 0 for item in exact)
    return f"{told}: {warm:,} tokens stay warm, {rewritten:,} are computed anew"


def diff_markdown(diff: DiffResult) -> str:
    """A table for a comment on a pull request; nothing where nothing changed."""
    if not diff.differences:
        return ""
    header = (
        "",
        "prefix",
        "target",
        "tokens",
        "padding",
        "warm",
        "rewritten",
        "once",
        "per 1M requests",
        "first change",
    )
    rows = [
        (item.kind, f"`{_named(item)}`", f"`{item.target}`", *_numbers(item), _where(item)) for item in diff.differences
    ]
    units = (
        "`once` is what the first request pays more while the cache is cold, `per 1M` what a million later ones pay "
        "more than before, in prices of one uncached input token where no currency stands."
    )
    parts = [f"### Prompt cache: {_summary(diff)}", f"Against {diff.against}. {units}"]
    parts.append(markdown_table([header, *rows], right=(3, 4, 5, 6, 7, 8)))
    parts += ["\n".join(f"- {line}" for line in _source_lines(diff))] if diff.sources else []
    parts += ["\n".join(f"- {line}" for line in (*_unknowns(diff), *diff.notes))]
    return "\n\n".join(part for part in parts if part)


def diff_annotations(diff: DiffResult, locate: Callable[[str], str]) -> str:
    """A notice on each source line at which artifacts begin to differ; `locate` gives a path in the repository."""
    places: dict[tuple[str, int], list[Difference]] = {}
    for item in diff.differences:
        source = None if item.first is None else item.first.source
        if source is not None:
            places.setdefault((locate(source.path), source.line), []).append(item)
    return "\n".join(
        annotation("notice", "\n".join(_sentence(item) for item in items), path=path, line=line, title="prompt cache")
        for (path, line), items in sorted(places.items())
    )


def _sentence(item: Difference) -> str:
    about = "about " if item.margin else ""
    warm = (
        "unknown how many tokens stay warm"
        if item.still_cached is None
        else f"{about}{item.still_cached:,} tokens stay warm"
    )
    anew = "" if item.recomputed is None else f", {about}{item.recomputed:,} are computed anew"
    return f"{item.prefix} for {item.target}: {warm}{anew}"
