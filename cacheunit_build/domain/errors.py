"""Faults as values, and the exceptions that carry them to the command line, which prints them all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cacheunit_build.domain.escaping import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong in the input.

    Attributes:
        message: what is wrong.
        path: the file, relative to the project root with forward slashes; None where no file is to blame.
        line: the line in that file, from 1; None where it is not known.
        hint: what would help; None where there is nothing to suggest.
        artifact: the prefix and the target that the message begins with; None where it is about no single artifact.
    """

    message: str
    path: str | None = None
    line: int | None = None
    hint: str | None = None
    artifact: tuple[str, str] | None = None

    def __str__(self) -> str:
        """Returns place, message and hint, each on one line, as the command line prints them after `error: `."""
        line = "" if self.line is None else f":{self.line}"
        place = "" if self.path is None else f"{one_line(self.path)}{line}: "
        hint = "" if self.hint is None else f"\n\nhint: {one_line(self.hint)}"
        return f"{place}{one_line(self.message)}{hint}"


class CacheunitError(Exception):
    """The input is wrong.

    Attributes:
        faults: every fault, at least one, in the order of the input.
    """

    def __init__(self, *faults: Fault) -> None:
        super().__init__("\n\n".join(str(fault) for fault in faults))
        self.faults = faults

    def faults_at(self, path: str | None, line: int | None = None) -> tuple[Fault, ...]:
        """Returns the faults; those without a place get this one."""
        return tuple(replace(fault, path=path, line=line) if fault.path is None else fault for fault in self.faults)


class PartlyWrittenError(CacheunitError):
    """Raised when something failed, and what was changed before could not be restored."""


def fail(message: str, *, path: str | None = None, line: int | None = None, hint: str | None = None) -> CacheunitError:
    """Returns an error with this one fault; the caller raises it."""
    return CacheunitError(Fault(message=message, path=path, line=line, hint=hint))


_MOST_FAULTS = 50
"""The most faults of one file that are reported."""
_MOST_NAMES = 8


def first_faults(faults: Iterable[Fault]) -> list[Fault]:
    """Returns the faults of one file; where there are very many, the first ones, and one that counts the others."""
    listed = list(faults)
    more = len(listed) - _MOST_FAULTS
    if more <= 0:
        return listed
    return [*listed[:_MOST_FAULTS], Fault(message=f"{more:,} more errors in this file", path=listed[0].path)]


_LONGEST_WORD = 200


def first_names(names: Sequence[str]) -> str:
    """Returns names in one line, for a message: at most eight, and the number of the others."""
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Returns a hint that names the known word nearest to `word`; None where none is near."""
    import difflib

    if len(word) > _LONGEST_WORD:
        return None
    candidates = sorted({name for name in known if len(name) <= _LONGEST_WORD})
    near = difflib.get_close_matches(word, candidates, n=1, cutoff=0.6)
    if not near:
        folded = {candidate.casefold(): candidate for candidate in reversed(candidates)}
        near = [folded[word.casefold()]] if word.casefold() in folded else []
    return f'did you mean "{near[0]}"?' if near else None
