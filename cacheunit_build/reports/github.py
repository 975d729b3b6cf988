"""Messages that a GitHub workflow shows on the lines of a change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cacheunit_build.domain.errors import Fault


Level = Literal["error", "warning", "notice"]


def annotation(  # noqa: PLR0913 - what a workflow command takes
    level: Level,
    message: str,
    *,
    path: str | None = None,
    line: int | None = None,
    column: int | None = None,
    title: str | None = None,
) -> str:
    """One workflow command; `path` is relative to the top of the repository, `line` and `column` count from 1."""
    given = (("file", path), ("line", line), ("col", column), ("title", title))
    properties = ",".join(f"{name}={_property(str(value))}" for name, value in given if value is not None)
    return f"::{level}{' ' if properties else ''}{properties}::{_data(message)}"


def fault_annotations(faults: Iterable[Fault], locate: Callable[[str], str]) -> str:
    """Each fault as an error at its place."""
    return "\n".join(
        annotation(
            "error",
            fault.message + (f"\n{fault.hint}" if fault.hint else ""),
            path=None if fault.path is None else locate(fault.path),
            line=fault.line,
        )
        for fault in faults
    )


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
