"""The evidence of what a target claims."""

from __future__ import annotations

import datetime as dt  # noqa: TID251 - the type of a date; no clock is read
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from cacheunit_build.domain.constraints import VALIDATION

Grade = Literal["documented", "measured", "inferred"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The reason to believe a number of a target."""

    __pydantic_config__: ClassVar[Any] = VALIDATION

    claim: str
    """What is claimed, in one sentence."""
    grade: Grade
    """Whether the provider documents it, it was measured on a server, or it is inferred."""
    checked: dt.date
    """The day of the last check."""
    source: str
    """The URL or name of the source."""
