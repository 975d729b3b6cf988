"""The report of `count` and `pad`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cacheunit_build.reports.formatting import plural, units_text, with_former_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cacheunit_build.compiler.count import TextCount


def count_lines(count: TextCount, left_out: Sequence[str] | None = ()) -> list[str]:
    """Returns a count in words, a line for each fact.

    Args:
        count: the count.
        left_out: the tokens that the tokenizer puts in front of a text, and that are not counted; None if unknown.
    """
    if count.counted == "estimate":
        lines = [f"~{plural(count.tokens, 'token')}, {count.tokenizer}"]
        lines += [f"not aligned to the unit of {count.unit:,}, since the count is an estimate"] if count.unit else []
    else:
        lines = [f"{plural(count.tokens, 'token')}, {count.counted} ({count.tokenizer})"]
        lines += [_units(count)] if count.unit else []
    if count.unstable:
        verb = "is" if count.unstable == 1 else "are"
        lines.append(
            f"{plural(count.unstable, 'more token')} at the end may change with what follows, and {verb} not counted"
        )
    if count.control_tokens:
        lines.append(f"control tokens in the text: {', '.join(count.control_tokens)}")
        lines.append(f"with these read as characters: {count.literal:,} tokens")
    if left_out is None:
        lines.append("the tokenizer's post-processor is of an unknown kind: it may put tokens in front, not counted")
    elif left_out:
        lines.append(f"the tokenizer puts {''.join(left_out)} in front of a text: not counted")
    return lines


def _units(count: TextCount) -> str:
    missing = f"{plural(count.padding, 'token')} to the next boundary" if count.padding else "aligned"
    return f"{units_text(count.tokens, count.unit)} (unit of {count.unit:,}); {missing}"


def count_json(count: TextCount, left_out: Sequence[str] | None = ()) -> dict[str, Any]:
    """Returns the report as JSON values; an estimate has no units, since it cannot tell where they end."""
    report = {**asdict(count), "left_out": left_out}
    report |= dict.fromkeys(("units", "past", "padding")) if count.margin else {}
    return with_former_keys(report, {"soft": "unstable"})
