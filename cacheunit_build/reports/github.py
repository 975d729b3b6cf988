"""Formats messages as workflow commands, which GitHub shows as annotations on the lines of a change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from cacheunit_build.domain.escaping import workflow_message, workflow_property

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cacheunit_build.domain.errors import Fault


Level = Literal["error", "warning", "notice"]


def annotation(
    level: Level,
    *lines: str,
    path: str | None = None,
    line: int | None = None,
    column: int | None = None,
    title: str | None = None,
) -> str:
    """Returns one workflow command.

    Args:
        level: how severe it is.
        lines: the text of the annotation.
        path: the file, relative to the root of the repository.
        line: counts from 1.
        column: counts from 1.
        title: the heading of the annotation.
    """
    parameters = (("file", path), ("line", line), ("col", column), ("title", title))
    properties = ",".join(f"{name}={workflow_property(str(value))}" for name, value in parameters if value is not None)
    return f"::{level}{' ' if properties else ''}{properties}::{workflow_message(*lines)}"


def fault_annotations(faults: Iterable[Fault], repository_path: Callable[[str], str]) -> str:
    """Returns an error annotation for each fault.

    Args:
        faults: what to show.
        repository_path: path in the project -> path in the repository.
    """
    return "\n".join(
        annotation(
            "error",
            *(text for text in (fault.message, fault.hint) if text),
            path=None if fault.path is None else repository_path(fault.path),
            line=fault.line,
        )
        for fault in faults
    )
