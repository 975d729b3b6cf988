"""A fault is a value: what is wrong, where, and what would help. Errors carry faults until a door prints them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong in the input.

    `path` is relative to the project root with forward slashes; `line` counts from 1; both are None where no file is
    to blame.
    """

    message: str
    path: str | None = None
    line: int | None = None
    hint: str | None = None

    def __str__(self) -> str:
        """Place, message and hint, as the command line prints them after `error: `; no final newline."""
        place = "" if self.path is None else f"{self.path}: " if self.line is None else f"{self.path}:{self.line}: "
        hint = "" if self.hint is None else f"\n\nhint: {self.hint}"
        return f"{place}{self.message}{hint}"


class CacheunitError(Exception):
    """The input is wrong. `faults` holds every fault that was found, at least one, in the order of the input."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__("\n\n".join(str(fault) for fault in faults))
        self.faults = faults


def fail(message: str, *, path: str | None = None, line: int | None = None, hint: str | None = None) -> CacheunitError:
    """The error that carries this one fault, to be raised by the caller."""
    return CacheunitError(Fault(message=message, path=path, line=line, hint=hint))


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint that names the known word nearest to `word`; None where none is near."""
    import difflib

    candidates = sorted(set(known))
    near = difflib.get_close_matches(word, candidates, n=1, cutoff=0.6)
    if not near:
        folded = {candidate.casefold(): candidate for candidate in reversed(candidates)}
        near = [folded[word.casefold()]] if word.casefold() in folded else []
    return f'did you mean "{near[0]}"?' if near else None
