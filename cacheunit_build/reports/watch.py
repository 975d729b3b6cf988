"""The report of `watch`: one line for each artifact that a build wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.domain.file_names import readable_name
from cacheunit_build.reports.formatting import tokens_cell, units_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.domain.artifact import ArtifactRecord
    from cacheunit_build.watching.session import WatchedBuild


def watch_lines(build: WatchedBuild) -> Iterator[str]:
    """Yields a line for each artifact that was written or removed; none where nothing changed."""
    milliseconds = f"{build.seconds * 1000:,.0f} ms"
    for record in build.result.records:
        if record.key in build.result.written:
            yield f"{readable_name(record.prefix)} for {record.target}: {_change(record, build)}, {milliseconds}"
    for prefix, target in build.result.removed:
        yield f"{readable_name(prefix)} for {target}: removed"


def _change(record: ArtifactRecord, build: WatchedBuild) -> str:
    """Returns the numbers of an artifact, and how they differ from the former ones."""
    entry = record.entry
    parts = [f"{tokens_cell(entry.tokens, record.margin, entry.counted)} tokens"]
    if record.unit and not record.margin:
        parts.append(units_text(entry.tokens, record.unit))
    parts.append(f"{entry.padding:,} padding")
    replaced = build.result.replaced.get(record.key)
    if replaced is None:
        return ", ".join([*parts, "new"])
    parts.append(f"{entry.tokens - replaced.entry.tokens:+,} from the former lock")
    still_cached = build.still_cached.get(record.key)
    if still_cached is not None:
        parts.append(f"{still_cached:,} still cached")
    return ", ".join(parts)
