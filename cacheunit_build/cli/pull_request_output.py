"""Prints the reports of `build` and `check` for reviews: Markdown, or annotations and the summary of a GitHub job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.cli.output import append_job_summary, print_escaped

if TYPE_CHECKING:
    from cacheunit_build.builder.results import BuildResult, CheckResult
    from cacheunit_build.cli.context import Context


def print_review(context: Context, form: str, markdown: str, result: BuildResult | CheckResult) -> None:
    """Prints Markdown as it is, or annotations, with the Markdown in the summary of the job.

    Args:
        context: the context of the command.
        form: `markdown` or `github`.
        markdown: the report.
        result: the result that the report is about.
    """
    from cacheunit_build.reports.check import review_annotations

    for note in result.notes:
        context.remark(f"note: {note}")
    if form == "markdown":
        print_escaped(markdown)
    else:
        print_escaped(review_annotations(result.faults, result.drift, context.repository_path))
        append_job_summary(markdown)
