"""Formats messages as workflow commands, which GitHub shows as annotations on the lines of a change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cacheunit_build.domain.errors import Fault


Level = Literal["error", "warning", "notice"]


def annotation(  # noqa: PLR0913 - the parameters of a workflow command
    level: Level,
    message: str,
    *,
    path: str | None = None,
    line: int | None = None,
    column: int | None = None,
    title: str | None = None,
) -> str:
    """Returns one workflow command.

    Args:
        level: how severe it is.
        message: the text of the annotation; may have several lines.
        path: the file, relative to the root of the repository.
        line: counts from 1.
        column: counts from 1.
        title: the heading of the annotation.
    """
    parameters = (("file", path), ("line", line), ("col", column), ("title", title))
    properties = ",".join(f"{name}={_escape_property(str(value))}" for name, value in parameters if value is not None)
    return f"::{level}{' ' if properties else ''}{properties}::{_escape_message(message)}"


def fault_annotations(faults: Iterable[Fault], repository_path: Callable[[str], str]) -> str:
    """Returns an error annotation for each fault.

    Args:
        faults: what to show.
        repository_path: path in the project -> path in the repository.
    """
    return "\n".join(
        annotation(
            "error",
            fault.message + (f"\n{fault.hint}" if fault.hint else ""),
            path=None if fault.path is None else repository_path(fault.path),
            line=fault.line,
        )
        for fault in faults
    )


def _escape_message(text: str) -> str:
    """Escapes what would end the message of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    """Escapes what would end a property of a workflow command."""
    return _escape_message(text).replace(":", "%3A").replace(",", "%2C")
