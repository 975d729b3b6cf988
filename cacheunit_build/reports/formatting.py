"""What several reports share: Markdown tables, counts, and JSON values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from cacheunit_build.reports.folding import number_range

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from cacheunit_build.domain.artifact import Artifact, ArtifactRecord
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.lock import Counted
    from cacheunit_build.domain.prices import PriceOrigin
    from cacheunit_build.domain.target import Price


def markdown_table(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> str:
    """Returns rows as a Markdown table, the first of them as its header.

    Args:
        rows: rows of the same length; cells are Markdown, in which a bar stands in code spans only.
        right: the indexes of columns that are aligned right.
    """
    rule = ["---:" if column in right else "---" for column in range(len(rows[0]))]
    head, *body = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *body))


def plural(count: int, noun: str, several: str | None = None) -> str:
    """Returns a count with its noun: `1 artifact`, `2 artifacts`."""
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"


def tokens_cell(tokens: int, margin: float, counted: Counted = "estimate") -> str:
    """Returns a number of tokens; an estimate as `~1,093 ±35 %`, a recorded count as `1,236 ±4`."""
    if margin and counted == "recorded":
        return f"{tokens:,} ±{math.ceil(tokens * margin):,}"
    return f"~{tokens:,} ±{margin * 100:.0f} %" if margin else f"{tokens:,}"


def tokens_range(records: Sequence[ArtifactRecord]) -> str:
    """Returns the static tokens of some artifacts: `1,280`, `~1,093 ±35 %`, `1,280…1,536`, `~1,093…1,400`."""
    values = {(record.entry.tokens, record.margin, record.entry.counted) for record in records}
    if len(values) == 1:
        return tokens_cell(*values.pop())
    counts = [record.entry.tokens for record in records]
    return number_range(counts, estimated=any(record.entry.is_estimate for record in records))


def units_text(tokens: int, unit: int) -> str:
    """Returns full units and the rest in words: `13 units`, `1 unit + 107 tokens not cached`."""
    full, past = divmod(tokens, unit)
    rest = f" + {plural(past, 'token')} not cached" if past else ""
    return f"{plural(full, 'unit')}{rest}"


def unit_text(artifact: Artifact) -> str:
    """Returns the units of an artifact in words; `unit unknown` where there is none."""
    return units_text(artifact.entry.tokens, artifact.unit) if artifact.unit else "unit unknown"


def faults_json(faults: Iterable[Fault]) -> list[dict[str, Any]]:
    """Returns faults as JSON values: message, path, line and hint."""
    return [{"message": fault.message, "path": fault.path, "line": fault.line, "hint": fault.hint} for fault in faults]


def with_former_keys(report: dict[str, Any], former: Mapping[str, str]) -> dict[str, Any]:
    """Returns a report that has its renamed keys under their former names too, for programs that still read those.

    Args:
        report: the report, with its present keys.
        former: former name -> present name.
    """
    return report | {old: report[new] for old, new in former.items()}


def price_text(price: Price, origin: PriceOrigin | None = None) -> str:
    """Returns `1.25 USD for a million uncached input tokens`, and the model and source of a price from a list."""
    found = "" if origin is None else f", {origin.model} ({origin.source})"
    return f"{price.input:,} {price.currency} for a million uncached input tokens{found}"
