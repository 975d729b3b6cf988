"""Formats a lock as text for `git diff`: one line per target and entry."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cacheunit_build.domain.file_names import readable_name
from cacheunit_build.domain.lock import identity_data
from cacheunit_build.reports.formatting import plural

if TYPE_CHECKING:
    from cacheunit_build.domain.lock import Lock, LockEntry, TargetIdentity

_SHORT = 12


def lock_lines(lock: Lock) -> list[str]:
    """Formats the targets, then the entries, each sorted by name.

    There are no aligned columns: a longer name in one line would change all others in a diff.
    """
    targets = [_target(name, identity) for name, identity in sorted(lock.targets.items())]
    units = {name: identity.cache.unit or 0 for name, identity in lock.targets.items()}
    entries = [
        f"{readable_name(prefix)}  {target}  {_entry(entry, units.get(target, 0))}"
        for (prefix, target), entry in sorted(lock.entries.items())
    ]
    return [*targets, *entries]


def _target(name: str, identity: TargetIdentity) -> str:
    """Formats the identity of a target; fields are separated by two spaces."""
    data = identity_data(identity)
    rule = " ".join(f"{key} {value}" for key, value in data["cache"].items())
    fields = [
        f"target {name}",
        *([identity.format] if identity.format else []),
        *([rule] if rule else []),
        f"frame {_short(identity.frame)}",
        f"tokenizer {_short(identity.tokenizer)}",
        *([f"options {', '.join(data['options'])}"] if "options" in data else []),
        *([f"models {', '.join(data['models'])}"] if "models" in data else []),
    ]
    return "  ".join(fields)


def _margin(entry: LockEntry) -> str:
    """Returns the margin of a count in tokens, that of an estimate in percent; nothing for none."""
    if not entry.margin:
        return ""
    return f" ±{entry.margin * 100:.0f} %" if entry.is_estimate else f" ±{math.ceil(entry.tokens * entry.margin):,}"


def _entry(entry: LockEntry, unit: int) -> str:
    """Formats an entry without its name; fields are separated by two spaces."""
    estimate = entry.is_estimate
    fields = [
        f"{'~' if estimate else ''}{entry.tokens:,} tokens",
        *([] if estimate or not unit else [_units(entry.tokens, unit)]),
        f"padding {entry.padding:,}",
        entry.counted + _margin(entry),
        *([f"markers {', '.join(f'{marker:,}' for marker in entry.markers)}"] if entry.markers else []),
        *([f"lifetimes {', '.join(entry.lifetimes)}"] if entry.lifetimes else []),
        f"text {_short(entry.text)}",
        f"request {_short(entry.request)}",
        *([] if entry.cached_content is None else [f"cached content {_short(entry.cached_content)}"]),
        *([] if entry.token_ids is None else [f"ids {_short(entry.token_ids)}"]),
    ]
    return "  ".join(fields)


def _units(tokens: int, unit: int) -> str:
    """Formats a count in full units: "10 units of 128", "10 units of 128 + 20 tokens"."""
    full, rest = divmod(tokens, unit)
    return f"{plural(full, 'unit')} of {unit:,}" + (f" + {plural(rest, 'token')}" if rest else "")


def _short(fingerprint: str) -> str:
    """Returns the first digits of a fingerprint, enough to tell two apart."""
    return fingerprint.removeprefix("sha256:")[:_SHORT]
