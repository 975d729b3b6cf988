"""What the workers of a cluster run: they build chunks from the files that were sent, and write nothing themselves.

Only bytes and functions of this package travel as arguments and results, so that a scheduler need not know more.
"""

from __future__ import annotations

import pickle
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cacheunit_build.adapters.cluster.noted_tokenizers import NotedTokenizers
from cacheunit_build.adapters.cluster.sent_files import SentFiles
from cacheunit_build.adapters.cluster.software_check import installed_software
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.workers import OpenedInputs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cacheunit_build.adapters.cluster.noted_tokenizers import Loads
    from cacheunit_build.adapters.cluster.sent_files import Answers, Question
    from cacheunit_build.adapters.cluster.software_check import Software
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.protocols import TokenizerLoader, WorkerFiles
    from cacheunit_build.domain.workers import Chunk, WorkerInputs

    OpenInputs = Callable[[WorkerFiles], WorkerInputs]

_MOST_BUILDS = 2
"""The builds whose vocabularies and templates stay loaded in a worker: several may take turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is the same for all chunks of a build.

    Attributes:
        task: returns what builds a chunk.
        open_inputs: returns the loaders for the files that were sent.
        answers: the files that all chunks may need.
    """

    task: Callable[[WorkerInputs], Callable[[Chunk], Any]]
    open_inputs: OpenInputs
    answers: Answers


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRequest:
    """A chunk to be built.

    Attributes:
        build: identifies the build.
        chunk: the manifests.
        answers: the files that this chunk needs besides those of the job.
    """

    build: str
    chunk: Chunk
    answers: Answers


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkReply:
    """What a worker replies; exactly one of `value`, `missing` and `faults` counts, in the reverse order.

    Attributes:
        worker: the address of the worker.
        software: its software, if that is not the one of the build.
        faults: why the chunk could not be built at all.
        missing: the questions about files that it could not answer.
        value: the result of the chunk.
        loads: the vocabularies and files of packages that the worker loaded.
    """

    worker: str
    software: Software | None = None
    faults: tuple[Fault, ...] = ()
    missing: tuple[Question, ...] = ()
    value: Any = None
    loads: Loads = field(default_factory=dict)


class _Build:
    """One build in this process: what its chunks share."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._files = SentFiles(job.answers)
        self._tokenizers: NotedTokenizers | None = None
        self._build_chunk: Callable[[Chunk], Any] | None = None

    def run(self, request: ChunkRequest) -> ChunkReply:
        """Builds a chunk."""
        self._files.add(request.answers)
        value: Any = None
        faults: tuple[Fault, ...] = ()
        try:
            value = self._builder()(request.chunk)
        except CacheunitError as error:
            faults = error.faults
        except Exception:
            if not self._files.has_missing:
                raise
        missing = self._files.take_missing()
        if missing:  # what was read, parsed and loaded without these files is not to be used
            self._build_chunk = None
            return ChunkReply(worker=_address(), missing=missing)
        loads = {} if self._tokenizers is None else dict(self._tokenizers.loads)
        return ChunkReply(worker=_address(), faults=faults, value=value, loads=loads)

    def _builder(self) -> Callable[[Chunk], Any]:
        if self._build_chunk is None:
            inputs = self._job.open_inputs(self._files)
            loader = _former[0].with_project_files(self._files.read) if _former else inputs.tokenizers
            _former[:] = [loader]
            self._tokenizers = NotedTokenizers(loader)
            inputs = OpenedInputs(files=self._files, tokenizers=self._tokenizers, encoder=inputs.encoder)
            self._build_chunk = self._job.task(inputs)
        return self._build_chunk


_lock = threading.Lock()
"""Held while a chunk is built: of Python's threads only one works at a time, and each would load all vocabularies."""
_builds: dict[str, _Build] = {}
_former: list[TokenizerLoader] = []
"""The last loader, if any, whose vocabularies are taken over."""


def run_chunk(job: bytes, request: bytes, software: Mapping[str, tuple[str, str]]) -> bytes:
    """Builds a chunk in a worker.

    Args:
        job: a `Job`, pickled. It is read once in each process.
        request: a `ChunkRequest`, pickled.
        software: the software that the worker must have; nothing is read before that is certain.

    Returns:
        A `ChunkReply`, pickled.
    """
    installed = installed_software()
    if installed != software:
        return pickle.dumps(ChunkReply(worker=_address(), software=installed))
    parsed: ChunkRequest = pickle.loads(request)  # noqa: S301 - a worker trusts its scheduler
    with _lock:
        build = _builds.pop(parsed.build, None) or _Build(pickle.loads(job))  # noqa: S301 - as above
        _builds[parsed.build] = build
        while len(_builds) > _MOST_BUILDS:
            del _builds[next(iter(_builds))]
        return pickle.dumps(build.run(parsed))


def _address() -> str:
    from distributed import get_worker

    return str(get_worker().address)
