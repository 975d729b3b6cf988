"""The report of `count` and `pad`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cacheunit_build.reports.formatting import plural, units_text, with_former_keys

if TYPE_CHECKING:
    from cacheunit_build.compiler.count import TextCount


def count_report(count: TextCount) -> str:
    """Returns a count in words."""
    lines = [f"{plural(count.tokens, 'token')}, {count.counted} ({count.tokenizer})"]
    if count.unit:
        units = units_text(count.tokens, count.unit)
        missing = f"{plural(count.padding, 'token')} to the next boundary" if count.padding else "aligned"
        lines.append(f"{units} (unit of {count.unit:,}); {missing}")
    if count.unstable:
        lines.append(
            f"{plural(count.unstable, 'more token')} at the end may change with what follows, and are not counted"
        )
    if count.control_tokens:
        lines.append(f"control tokens in the text: {', '.join(count.control_tokens)}")
        lines.append(f"with these read as characters: {count.literal:,} tokens")
    return "\n".join(lines)


def count_json(count: TextCount) -> dict[str, Any]:
    """Returns the report as JSON values."""
    return with_former_keys(asdict(count), {"soft": "unstable"})
