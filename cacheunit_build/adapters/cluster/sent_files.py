"""The files of a project as they are sent to workers that cannot read it: questions about files, and their answers.

A worker never guesses: what was not sent is noted, and the machine that has the project answers it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cacheunit_build.domain.errors import CacheunitError, Fault
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.staged_files import StagedFiles

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cacheunit_build.domain.protocols import ObservedFile, WorkerFiles

Question = tuple[Literal["read", "has_folder", "walk", "twins"], str | tuple[str, ...]]
"""A method of the files of a project, and its argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the files of the project answered.

    Attributes:
        value: what the method returned.
        faults: the faults that it raised instead.
        observed: the fingerprint and the stat of a file that was read.
    """

    value: Any = None
    faults: tuple[Fault, ...] = ()
    observed: ObservedFile | None = None


Answers = Mapping[Question, Answer]


def answer(files: WorkerFiles, question: Question) -> Answer:
    """Asks the files of the project."""
    method, argument = question
    try:
        value = getattr(files, method)(argument)
    except CacheunitError as error:
        return Answer(faults=error.faults)
    observed = files.observed().get(argument) if isinstance(argument, str) and method == "read" else None
    return Answer(value=value, observed=observed)


class SentFiles:
    """The files of a project that were sent to a worker. It stages nothing, but returns what is to be staged.

    Args:
        answers: what is known.
    """

    def __init__(self, answers: Answers) -> None:
        self._answers = dict(answers)
        self._missing: dict[Question, None] = {}
        self._observed: dict[str, ObservedFile] = {}

    def add(self, answers: Answers) -> None:
        """Adds what was sent later."""
        self._answers |= answers

    @property
    def has_missing(self) -> bool:
        """Whether there were questions without an answer since the last call of `take_missing`."""
        return bool(self._missing)

    def take_missing(self) -> tuple[Question, ...]:
        """Returns the questions that had no answer since the last call; what was made of them is worth nothing."""
        missing = tuple(self._missing)
        self._missing.clear()
        return missing

    def _ask(self, question: Question, otherwise: Any) -> Any:  # noqa: ANN401 - what the method returns
        found = self._answers.get(question)
        if found is None:
            self._missing[question] = None
            return otherwise
        if found.faults:
            raise CacheunitError(*found.faults)
        if found.observed is not None:
            self._observed[str(question[1])] = found.observed
        return found.value

    def read(self, path: str) -> bytes | None:
        """Returns the bytes of a file; None where there is no such file.

        Raises:
            CacheunitError: it cannot be read.
        """
        data: bytes | None = self._ask(("read", path), None)
        return data

    def fingerprint(self, path: str) -> str | None:
        """Returns the fingerprint of a file; None where there is no such file."""
        data = self.read(path)
        return None if data is None else fingerprint(data)

    def has_folder(self, folder: str) -> bool:
        """Returns whether there is such a folder."""
        return bool(self._ask(("has_folder", folder), False))  # noqa: FBT003 - a value

    def walk(self, folder: str) -> Sequence[str]:
        """Returns the paths of all files below a folder, in code point order.

        Raises:
            CacheunitError: a folder is a link, or a name differs between systems.
        """
        paths: Sequence[str] = self._ask(("walk", folder), ())
        return paths

    def twins(self, paths: Iterable[str]) -> Mapping[str, str]:
        """Returns path -> a path in the project that is another one there, and the same one on some systems."""
        twins: Mapping[str, str] = self._ask(("twins", tuple(paths)), {})
        return twins

    def observed(self) -> Mapping[str, ObservedFile]:
        """Returns path -> fingerprint and stat of every file that was asked for, as the project has them."""
        return self._observed

    def stage(self, files: Mapping[str, bytes]) -> StagedFiles:
        """Returns files as they are: nothing is written here."""
        return StagedFiles(contents=files)
