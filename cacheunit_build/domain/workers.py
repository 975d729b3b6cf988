"""The protocol of workers, which build chunks of manifests in other processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from cacheunit_build.domain.protocols import CompileInputs

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from cacheunit_build.domain.protocols import EncoderLoader, TokenizerLoader, WorkerFiles

Chunk = Sequence[tuple[str, str]]
"""Some manifests: name and path of each."""

T = TypeVar("T")


class WorkerInputs(CompileInputs, Protocol):
    """What a worker needs to build chunks of manifests."""

    @property
    def files(self) -> WorkerFiles:
        """The files of the project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedInputs:
    """What a worker that shares nothing with the command has opened: the files of the project, and its own loaders."""

    files: WorkerFiles
    tokenizers: TokenizerLoader
    encoder: EncoderLoader


class Workers(Protocol):
    """Builds chunks of manifests in other processes."""

    @property
    def count(self) -> int:
        """The number of workers."""

    def run(
        self, task: Callable[[WorkerInputs], Callable[[Chunk], T]], inputs: WorkerInputs, chunks: Sequence[Chunk]
    ) -> Generator[T, None, None]:
        """Yields the result of each chunk, in any order. Workers end when it is closed.

        Args:
            task: called once by each worker with the files and loaders that it has; returns what builds a chunk.
            inputs: the files and loaders of this process.
            chunks: the chunks.

        Raises:
            CacheunitError: a worker was lost.
        """
