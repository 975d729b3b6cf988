"""A lock -> one readable line a target and an entry, for a diff of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.reports.text import units_text

if TYPE_CHECKING:
    from cacheunit_build.domain.lock import Lock, LockEntry

_SHORT = 12


def lock_text(lock: Lock) -> str:
    """Targets, then entries, by name. No columns: a longer name in one line would change all the others."""
    targets = [
        f"target {name}  profile {_short(identity.profile)}  tokenizer {_short(identity.tokenizer)}"
        for name, identity in sorted(lock.targets.items())
    ]
    entries = [f"{prefix}  {target}  {_entry(entry)}" for (prefix, target), entry in sorted(lock.entries.items())]
    return "\n".join([*targets, *entries])


def _entry(entry: LockEntry) -> str:
    estimate = entry.counted == "estimate"
    unit = f" of {entry.unit:,}" if entry.unit else ""
    facts = [
        f"{'about ' if estimate else ''}{entry.tokens:,} tokens",
        f"units {'-' if estimate else units_text(entry.tokens, entry.unit)}{unit}",
        f"padding {entry.padding:,}",
        entry.counted,
        f"text {_short(entry.text)}",
        f"request {_short(entry.request)}",
    ]
    return "  ".join([*facts, *([] if entry.token_ids is None else [f"ids {_short(entry.token_ids)}"])])


def _short(fingerprint: str) -> str:
    """Enough of a fingerprint to tell two apart."""
    return fingerprint.removeprefix("sha256:")[:_SHORT]
