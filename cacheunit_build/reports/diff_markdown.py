"""The page of `diff` as Markdown, for a comment on a pull request and the summary of a job."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from cacheunit_build.domain.escaping import code_span, markdown_text, one_line, output_line
from cacheunit_build.reports.diff_cells import COLUMNS, RIGHT
from cacheunit_build.reports.diff_page import diff_page
from cacheunit_build.reports.formatting import markdown_table, plural
from cacheunit_build.reports.word_diff import plain_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cacheunit_build.diff.results import DiffResult
    from cacheunit_build.reports.diff_page import CauseView, DiffPage
    from cacheunit_build.reports.word_diff import MarkedLine

MOST_CHARACTERS = 65_000
"""The most characters of the page: GitHub takes 65,536 in a comment."""

_LEGEND = (
    "The one-time cost is what the first request to each artifact after the change pays in addition, together. The "
    "cost per 1M requests is what later requests to one artifact pay in addition. Both are in prices of one uncached "
    "input token where no currency is shown."
)


def diff_markdown(diff: DiffResult, most: int = MOST_CHARACTERS) -> str:
    """Returns the page with each cause folded, the line to decide by first; empty where nothing changed.

    Args:
        diff: the result.
        most: the most characters; causes that do not fit are counted.
    """
    if not diff.differences:
        return ""
    page = diff_page(diff)
    head = [
        f"### Prompt cache: {markdown_text(page.summary.decision)}",
        f"Against {code_span(page.against)}. {markdown_text(page.counts)}. {_LEGEND}",
    ]
    tail = [
        markdown_text(page.hidden),
        "\n".join(f"- {markdown_text(line)}" for line in dict.fromkeys((*page.remarks, *diff.notes))),
    ]
    return "\n\n".join(part for part in (*head, *_fitting(page, most - _length([*head, *tail])), *tail) if part)


def _length(parts: Sequence[str]) -> int:
    return sum(len(part) + 2 for part in parts)


def _fitting(page: DiffPage, most: int) -> list[str]:
    """Returns the causes that fit into that many characters, and how many do not."""
    parts: list[str] = []
    left = most - len("… and 1,000,000 causes do not fit here") - 2
    for index, cause in enumerate(page.causes):
        part = _folded(cause)
        left -= len(part) + 2
        if left < 0:
            return [*parts, f"… and {plural(len(page.causes) - index, 'cause')} that do not fit here"]
        parts.append(part)
    return parts


def _folded(cause: CauseView) -> str:
    """Returns a cause, of which place and words are shown until it is unfolded."""
    title = f"{_html_code(cause.place)} {_html_code(cause.what)}".strip()
    count = f" ({plural(cause.artifacts, 'artifact')})" if cause.artifacts else ""
    rows = [(code_span(row.name), code_span(row.target), *map(markdown_text, row.cells[2:])) for row in cause.rows]
    parts = [
        f"<details><summary>{title}{count}</summary>",
        _fence(cause.lines, cause.hidden_lines),
        markdown_table([COLUMNS, *rows], right=RIGHT) if rows else "",
        "</details>",
    ]
    return "\n\n".join(part for part in parts if part)


def _html_code(text: str) -> str:
    """Returns HTML that shows a text as code, in which GitHub turns nothing into a link."""
    return f"<code>{html.escape(one_line(text))}</code>" if text else ""


def _fence(lines: Sequence[MarkedLine], hidden: int) -> str:
    """Returns a block of code with changed lines; empty where there are none."""
    if not lines:
        return ""
    shown = [output_line(plain_line(line)) for line in lines]
    more = [f"… and {plural(hidden, 'more line')}"] if hidden else []
    longest = max((len(run) for line in shown for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}text", *shown, *more, fence])
