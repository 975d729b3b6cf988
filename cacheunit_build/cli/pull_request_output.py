"""Prints reports for reviews: Markdown, annotations and outputs of a GitHub job, and Code Quality reports of GitLab."""

from __future__ import annotations

import os
import secrets
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from cacheunit_build.cli.context import WRONG_INPUT
from cacheunit_build.cli.output import output_width, print_escaped, print_faults
from cacheunit_build.cli.output_file import write_report
from cacheunit_build.domain.errors import CacheunitError, fail
from cacheunit_build.domain.escaping import json_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cacheunit_build.builder.results import BuildResult, CheckResult
    from cacheunit_build.cli.context import Context
    from cacheunit_build.diff.results import DiffResult
    from cacheunit_build.reports.layout import Block

_MOST_SUMMARY_BYTES = 1000 * 1024
"""The most bytes of the summary of one step: GitHub refuses all of it beyond 1 MiB, and already near that.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands#step-isolation-and-limits
(documented), https://github.com/actions/runner/issues/4337 (measured by its author)
"""


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


def print_github_diff(context: Context, result: DiffResult) -> None:
    """Prints the annotations of a diff; writes its table to the summary of the job, and the outputs of the step."""
    from cacheunit_build.reports.diff_markdown import diff_markdown
    from cacheunit_build.reports.diff_outputs import diff_outputs
    from cacheunit_build.reports.diff_places import diff_annotations

    print_escaped(diff_annotations(result, context.repository_path))
    append_job_summary(diff_markdown(result))
    append_step_outputs(diff_outputs(result))


def print_code_quality(
    context: Context, issues: list[dict[str, Any]], blocks: Iterable[Block], output: str | None = None
) -> None:
    """Prints or writes a Code Quality report, and the text report on standard error for the log of the job."""
    from cacheunit_build.reports.layout import layout

    context.remark(*layout(blocks, output_width()))
    write_report(context, json_text(issues), output)


def report_faults(context: Context, form: str, error: CacheunitError, output: str | None = None) -> int:
    """Prints the faults of the input as a report in the format, where it has a place for them; returns the exit code.

    Args:
        context: the context of the command.
        form: the format of the report.
        error: the faults.
        output: the file that the report is to be written to.

    Raises:
        CacheunitError: these faults, in a format that has no place for them.
    """
    from cacheunit_build.reports.check import faults_markdown
    from cacheunit_build.reports.formatting import faults_json

    if form == "json":
        write_report(context, json_text({"errors": faults_json(error.faults)}), output)
    elif form == "markdown":
        write_report(context, faults_markdown(error.faults), output)
    elif form == "github":
        from cacheunit_build.reports.github import fault_annotations

        print_escaped(fault_annotations(error.faults, context.repository_path))
        append_job_summary(faults_markdown(error.faults))
    elif form == "gitlab":
        from cacheunit_build.reports.gitlab import faults_gitlab

        print_faults(error.faults)
        write_report(context, json_text(faults_gitlab(error.faults, context.repository_path)), output)
    elif form == "sarif":
        from cacheunit_build.reports.sarif import faults_sarif

        print_faults(error.faults)
        folder = context.repository_path("").rstrip("/")
        write_report(context, json_text(faults_sarif(error.faults, folder, version("cacheunit-build"))), output)
    else:
        raise error
    return WRONG_INPUT


def append_job_summary(markdown: str) -> None:
    """Appends to the summary of a GitHub job, if the command runs in one, as much as fits.

    Raises:
        CacheunitError: the file of the summary cannot be written.
    """
    file = os.environ.get("GITHUB_STEP_SUMMARY")
    if file and markdown:
        used = os.path.getsize(file) if os.path.isfile(file) else 0  # noqa: PTH113, PTH202 - one look
        _append(file, _cut(f"{markdown}\n\n", _MOST_SUMMARY_BYTES - used), "the job summary")


def append_step_outputs(outputs: Mapping[str, str]) -> None:
    """Appends outputs of a step, if the command runs in a GitHub job.

    Each value is in front of a line that cannot be guessed, so that no value can end itself and begin another output.

    Raises:
        CacheunitError: the file of the outputs cannot be written.
    """
    file = os.environ.get("GITHUB_OUTPUT")
    if file:
        ends = {name: f"end-{secrets.token_hex(16)}" for name in outputs}
        text = "".join(f"{name}<<{ends[name]}\n{value}\n{ends[name]}\n" for name, value in outputs.items())
        _append(file, text, "the outputs of the step")


def _cut(markdown: str, most: int) -> str:
    """Truncates Markdown to at most `most` bytes of UTF-8, at a line end, with a note of that on top."""
    data = markdown.encode("utf-8", "backslashreplace")
    if len(data) <= most:
        return markdown
    note = "**The report is longer than GitHub shows: its end is left out.** Run the command for all of it.\n\n"
    kept = data[: max(0, most - len(note))]
    lines = kept[: kept.rfind(b"\n") + 1].decode("utf-8", "ignore")
    return note + lines if lines else ""


def _append(file: str, text: str, what: str) -> None:
    """Appends text to a file that the runner reads."""
    try:
        with open(file, "a", encoding="utf-8", errors="backslashreplace", newline="\n") as handle:  # noqa: PTH123 - one append
            handle.write(text)
    except OSError as error:
        raise fail(f"cannot write {what}: {error.strerror}", path=file) from None
