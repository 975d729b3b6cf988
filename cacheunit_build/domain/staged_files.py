"""The files of artifacts that are ready to be moved into place, as processes hand them to one another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFiles:
    """New contents of files, of which none is in place yet. Paths are relative to the root of the project.

    Attributes:
        temporary: path -> the temporary file beside it that has the new bytes.
        folders: the folders that were created for them, parents first.
        contents: path -> new bytes, of files that have no temporary file yet.
    """

    temporary: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    contents: Mapping[str, bytes] = field(default_factory=dict)
