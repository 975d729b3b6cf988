"""Builds chunks of manifests on a dask cluster, which shares no folder with this machine.

Sources travel as bytes: what all chunks may need is sent once, each chunk comes with its manifests, and what a worker
finds missing is sent with the chunk when it is run again.
"""

from __future__ import annotations

import pickle
from collections import Counter, deque
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from functools import cached_property
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from cacheunit_build.adapters.cluster.connection import Cluster, large_messages
from cacheunit_build.adapters.cluster.noted_tokenizers import other_load
from cacheunit_build.adapters.cluster.sent_files import Answer, answer
from cacheunit_build.adapters.cluster.software_check import installed_software, other_software
from cacheunit_build.adapters.cluster.worker import ChunkRequest, Job, run_chunk
from cacheunit_build.domain.errors import CacheunitError, fail, first_names

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from cacheunit_build.adapters.cluster.sent_files import Question
    from cacheunit_build.adapters.cluster.worker import ChunkReply, OpenInputs
    from cacheunit_build.domain.protocols import TokenizerLoader, WorkerFiles
    from cacheunit_build.domain.workers import Chunk, WorkerInputs

    T = TypeVar("T")

_MOST_ROUNDS = 50
"""How often a chunk may find that it needs more files: a template can include one that includes another one."""
_SECONDS_BETWEEN_CHECKS = 1.0
_CHUNKS_PER_WORKER = 2
"""One that is built, and one that is on its way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSources:
    """What is sent to every worker, as far as it is known before anything is built.

    Attributes:
        templates: the folder of templates.
        outputs: the folder of artifacts, of which workers see nothing: all that they make comes back.
        files: files that may be read for any manifest.
        inputs: the path of each manifest -> files that were read for it the last time.
    """

    templates: str
    outputs: str
    files: Collection[str]
    inputs: Mapping[str, Collection[str]]


class ClusterWorkers:
    """Builds chunks on the workers of a cluster.

    Args:
        address: the address of its scheduler.
        files: the files of the project, which are read here.
        sources: returns what is sent to every worker.
        open_inputs: returns the loaders that a worker uses; it is sent there.
    """

    def __init__(
        self,
        address: str,
        files: Callable[[], WorkerFiles],
        sources: Callable[[WorkerFiles], SharedSources],
        open_inputs: OpenInputs,
    ) -> None:
        self._address = address
        self._files = files
        self._sources = sources
        self._open_inputs = open_inputs

    @cached_property
    def _cluster(self) -> Cluster:
        return Cluster(self._address)

    @property
    def count(self) -> int:
        """The number of workers.

        Raises:
            CacheunitError: there is no cluster to build with.
        """
        return self._cluster.worker_count

    def run(
        self, task: Callable[[WorkerInputs], Callable[[Chunk], T]], inputs: WorkerInputs, chunks: Sequence[Chunk]
    ) -> Generator[T, None, None]:
        """Yields the result of each chunk.

        Args:
            task: returns what builds a chunk, from the files and loaders of a worker; it is sent there.
            inputs: the files and loaders of this process.
            chunks: the chunks.

        Raises:
            CacheunitError: the cluster is gone, a worker has other software, or building a prefix ends every worker.
        """
        try:
            if chunks:
                files = self._files()
                sources = self._sources(files)
                job = Job(task=task, open_inputs=self._open_inputs, answers=_shared_answers(files, sources, chunks))
                with large_messages():
                    run = _Run(self._cluster, job, files, sources, inputs.tokenizers)
                    yield from run.results(chunks)
        finally:
            self._cluster.close()


def _shared_answers(files: WorkerFiles, sources: SharedSources, chunks: Sequence[Chunk]) -> dict[Question, Answer]:
    """Returns what every worker needs: all templates, and what several manifests read the last time."""
    walked = answer(files, ("walk", sources.templates))
    manifests = [path for chunk in chunks for _, path in chunk]
    readers = Counter(file for path in manifests for file in sources.inputs.get(path, ()))
    shared = {file for file, count in readers.items() if count > 1}
    paths = sorted({*sources.files, *(walked.value or ()), *shared})
    outputs = answer(files, ("walk", sources.outputs))
    return {
        ("walk", sources.templates): walked,
        ("walk", sources.outputs): replace(outputs, value=()),
        **{("read", path): answer(files, ("read", path)) for path in paths},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """A chunk that is being built.

    Attributes:
        chunk: the manifests.
        answers: the files that only this chunk needs.
        rounds: how often files were missing.
        alone: whether nothing else is being built, so that it is to blame if workers are lost.
    """

    chunk: Chunk
    answers: Mapping[Question, Answer] = field(default_factory=dict)
    rounds: int = 0
    alone: bool = False


class _Run:
    """One build on a cluster."""

    def __init__(
        self, cluster: Cluster, job: Job, files: WorkerFiles, sources: SharedSources, tokenizers: TokenizerLoader
    ) -> None:
        self._cluster = cluster
        self._shared = job.answers
        self._files = files
        self._inputs = sources.inputs
        self._tokenizers = tokenizers
        self._build = f"cacheunit-{uuid4().hex}"
        self._executor: Any = cluster.executor()
        # The result of a task, since another worker makes it again where the one that has it is lost.
        self._job = cluster.send(pickle.dumps(job), self._build)
        self._running: dict[Future[bytes], tuple[str, _Attempt]] = {}
        self._done: SimpleQueue[Future[bytes]] = SimpleQueue()
        self._suspects: deque[_Attempt] = deque()
        self._submitted = 0
        self._most = 0
        self._counted_until = 0  # until then, the number of workers is not asked for again

    def results(self, chunks: Sequence[Chunk]) -> Iterator[Any]:
        """Yields the result of each chunk."""
        waiting = deque(chunks)
        self._fill(waiting)
        while self._running:
            try:
                future = self._done.get(timeout=_SECONDS_BETWEEN_CHECKS)
            except Empty:
                self._refuse_if_idle()
                continue
            _, attempt = self._running.pop(future)
            reply = self._reply(future, attempt)
            if reply is not None and reply.missing:
                self._submit(self._with_missing(attempt, reply))
            elif reply is not None:
                yield reply.value
            self._fill(waiting)

    def _fill(self, waiting: deque[Chunk]) -> None:
        """Has as many chunks built as keep all workers busy, and what may have ended workers at last, one by one.

        Few are on their way at once, since dask suspects all that a worker has when it is lost.
        """
        if self._submitted >= self._counted_until:
            self._most = self._cluster.worker_count * _CHUNKS_PER_WORKER
            self._counted_until = self._submitted + self._most
        while waiting and len(self._running) < self._most:
            chunk = waiting.popleft()
            self._submit(_Attempt(chunk=chunk, answers=self._answers_for(chunk)))
        if not self._running and self._suspects:
            self._submit(self._suspects.popleft())

    def _answers_for(self, chunk: Chunk) -> dict[Question, Answer]:
        """Returns the manifests of a chunk, and what they alone read the last time."""
        paths = dict.fromkeys(file for _, path in chunk for file in (path, *self._inputs.get(path, ())))
        questions: list[Question] = [("read", path) for path in paths if ("read", path) not in self._shared]
        return {question: answer(self._files, question) for question in questions}

    def _submit(self, attempt: _Attempt) -> None:
        request = pickle.dumps(ChunkRequest(build=self._build, chunk=attempt.chunk, answers=attempt.answers))
        key = f"{self._build}-{self._submitted}"
        self._submitted += 1
        priority = 1 if attempt.rounds else 0  # so that the worker learns early what other chunks need too
        future = self._executor.submit(run_chunk, self._job, request, installed_software(), key=key, priority=priority)
        self._running[future] = (key, attempt)
        future.add_done_callback(self._done.put)

    def _reply(self, future: Future[bytes], attempt: _Attempt) -> ChunkReply | None:
        """Returns what a worker replied; None if the chunk is tried again in parts, since it ended every worker.

        Raises:
            CacheunitError: there is no reply that counts.
        """
        from distributed.scheduler import KilledWorker

        try:
            reply: ChunkReply = pickle.loads(future.result())  # noqa: S301 - as trusted as the bytes that it has
        except CancelledError:
            raise self._cluster.lost() from None
        except KilledWorker as error:
            self._split(attempt, error.allowed_failures + 1)
            return None
        except (OSError, MemoryError, ImportError, AttributeError, pickle.UnpicklingError) as error:
            reason = " ".join(str(error).split())
            raise fail(f"a worker failed: {type(error).__name__}: {reason}") from error
        self._refuse(reply)
        return reply

    def _refuse(self, reply: ChunkReply) -> None:
        """Raises the faults of a reply."""
        if reply.software is not None:
            fault = other_software(reply.worker, reply.software)
        else:
            fault = other_load(reply.worker, reply.loads, self._tokenizers)
        if fault is not None:
            raise CacheunitError(fault)
        if reply.faults:
            raise CacheunitError(*reply.faults)

    def _with_missing(self, attempt: _Attempt, reply: ChunkReply) -> _Attempt:
        """Returns the chunk with the answers that a worker missed."""
        if attempt.rounds == _MOST_ROUNDS:
            names = ", ".join(str(argument) for _, argument in reply.missing)
            raise fail(f"a worker still misses files after {_MOST_ROUNDS} rounds: {names}", path=attempt.chunk[0][1])
        new = {question: answer(self._files, question) for question in reply.missing}
        return replace(attempt, answers={**attempt.answers, **new}, rounds=attempt.rounds + 1)

    def _split(self, attempt: _Attempt, lost: int) -> None:
        """Has the manifests of a chunk built one by one, with nothing beside them: others may have ended the workers.

        Raises:
            CacheunitError: it was a single one, with nothing beside it.
        """
        if attempt.alone and len(attempt.chunk) == 1:
            message = f"every worker that built this prefix alone was lost, {lost} in a row"
            hint = "the logs of the workers say why; perhaps memory ran out"
            raise fail(message, path=attempt.chunk[0][1], hint=hint)
        self._suspects += [replace(attempt, chunk=(manifest,), alone=True) for manifest in attempt.chunk]

    def _refuse_if_idle(self) -> None:
        """Raises a fault if the cluster is gone or cannot work, with the prefixes that were being built then."""
        try:
            self._cluster.refuse_if_idle()
        except CacheunitError as error:
            chunks = {key: attempt.chunk for key, attempt in self._running.values()}
            suspects = [path for key in self._cluster.suspects(list(chunks)) for _, path in chunks[key]]
            if not suspects:
                raise
            hint = f"the workers that were lost had to build {first_names(sorted(suspects))}"
            raise CacheunitError(*(replace(fault, hint=hint) for fault in error.faults)) from None
