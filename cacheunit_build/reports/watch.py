"""What one build of a watch did -> one line a prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.domain.fingerprint import fingerprint_ids
from cacheunit_build.domain.models import Artifact
from cacheunit_build.reports.text import units_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cacheunit_build.builder.results import BuildResult
    from cacheunit_build.compiler.artifact import LoadedTarget
    from cacheunit_build.domain.cache_rule import ChangeImpact
    from cacheunit_build.domain.models import ArtifactRecord, LockEntry


def watch_lines(built: BuildResult, seconds: float) -> Iterator[str]:
    """A line for each artifact that was written and each that was removed; none where nothing changed."""
    milliseconds = f"{seconds * 1000:,.0f} ms"
    for outcome in built.artifacts:
        if outcome.key in built.written:
            yield f"{outcome.prefix} for {outcome.target}: {_change(outcome, built)}, {milliseconds}"
    for prefix, target in built.removed:
        yield f"{prefix} for {target}: removed"


def _change(outcome: ArtifactRecord, built: BuildResult) -> str:
    entry = outcome.entry
    about = "about " if outcome.margin else ""
    parts = [f"{about}{entry.tokens:,} tokens"]
    if entry.unit and not outcome.margin:
        parts.append(f"{units_text(entry.tokens, entry.unit)} units")
    parts.append(f"{entry.padding:,} padding")
    before = built.replaced.get(outcome.key)
    if before is None:
        return ", ".join([*parts, "new"])
    old, text = before
    parts.append(f"{entry.tokens - old.tokens:+,} to the lock")
    found = _impact(outcome, old, text, built.targets.get(outcome.target))
    if found is not None and found.still_cached is not None:
        parts.append(f"{found.still_cached:,} stay warm")
    return ", ".join(parts)


def _impact(outcome: ArtifactRecord, old: LockEntry, text: bytes, ready: LoadedTarget | None) -> ChangeImpact | None:
    """What the change does to the cache, where the old token ids can be had again: their fingerprint proves it."""
    if not isinstance(outcome, Artifact) or ready is None or old.token_ids is None:
        return None
    now, then = outcome.text.decode(), text.decode("utf-8", "replace")
    if now not in outcome.framed_prefix:
        return None
    ids = ready.tokenizer.encode(outcome.framed_prefix.replace(now, then, 1))[: old.tokens]
    if fingerprint_ids(ids) != old.token_ids:
        return None
    new = ready.tokenizer.encode(outcome.framed_prefix)[: outcome.entry.tokens]
    return ready.target.cache.impact(ids, new, on_block=False)  # the text is one block: what goes on in it, is another
