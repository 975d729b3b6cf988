"""Sends locked artifacts to a live endpoint and compares the cache hits that it reports with the predicted ones."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cacheunit_build.compiler.project import compile_or_fail
from cacheunit_build.domain.errors import CacheunitError, Fault, fail
from cacheunit_build.domain.file_names import LOCK_FILE
from cacheunit_build.domain.lock import Lock
from cacheunit_build.domain.sequences import common_prefix
from cacheunit_build.lockfile.drift import drift_on_disk
from cacheunit_build.lockfile.format import read_lock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cacheunit_build.compiler.loaded_target import LoadedTarget
    from cacheunit_build.domain.artifact import Artifact
    from cacheunit_build.domain.protocols import Adapters, Endpoint, ProjectFiles, Selection
    from cacheunit_build.domain.usage import Usage

USER_MESSAGES = (
    "Please say in one word what this is about.",
    "42 is the answer; what was the question?",
    "\nAnd once more, on a new line: is all well?",
    "Über alles andere reden wir später.",
    "那么,请用一句话回答。",
    "- a list\n- of two items",
)
"""The user messages that follow a prefix; no two of them begin with the same token."""

Verdict = Literal["primed", "as predicted", "differs", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """The result of one request.

    Attributes:
        prefix: name of the prefix.
        target: name of the target.
        continuation: number of the request, and of the user message that it ends with; the first is 0.
        predicted: tokens predicted to come from the cache; None where nothing is predicted.
        observed: tokens that the server reports as read from the cache; None where it reports nothing.
        verdict: `primed` for the first request of an artifact, which only fills the cache.
        cause: the likely cause of a difference, or why the verdict is `unknown`.
    """

    prefix: str
    target: str
    continuation: int
    predicted: int | None
    observed: int | None
    verdict: Verdict
    cause: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifySettings:
    """Settings of one run of `verify`.

    Attributes:
        attempts: the most requests of an artifact after its first one; more where its target needs more to warm up.
        wait: seconds before each of these.
        model: name of the model; None for the first that the server lists, or else the first of the target.
    """

    attempts: int
    wait: float
    model: str | None = None


def verify(
    adapters: Adapters, endpoint: Endpoint, selection: Selection, settings: VerifySettings
) -> Iterator[VerifyResult]:
    """Sends every selected artifact with different user messages until its hits are as predicted.

    Yields:
        The result of each request worth reporting: the first and the last one of each artifact.

    Raises:
        CacheunitError: sources, lock and `build/` disagree, or the endpoint cannot be used.
    """
    artifacts, targets = _locked_artifacts(adapters, selection)
    names = sorted({artifact.target for artifact in artifacts})
    if len(names) > 1:
        raise fail(f"artifacts of several targets are selected: {', '.join(names)}", hint="choose one with --target")
    served_model = settings.model or next(iter(endpoint.models()), None)
    for artifact in artifacts:
        loaded = targets[artifact.target]
        model = served_model or next(iter(loaded.target.models), None)
        if model is None:
            raise fail("the endpoint does not list its models", hint="name one with --model")
        yield from _ArtifactVerification(artifact, loaded, endpoint, model).run(settings)


def _locked_artifacts(
    adapters: Adapters, selection: Selection
) -> tuple[Sequence[Artifact], Mapping[str, LoadedTarget]]:
    """Compiles the selected artifacts; returns them with their targets.

    Raises:
        CacheunitError: there is no lock, or sources, lock and `build/` disagree about one of them.
    """
    if adapters.files.read(LOCK_FILE) is None:
        raise fail(f"there is no {LOCK_FILE}; only locked artifacts are sent", hint='run "cacheunit build"')
    lock = read_lock(adapters.files)
    compiled = compile_or_fail(adapters, selection)
    # A checkout may come without build/, if artifacts are not committed.
    has_build_folder = adapters.files.has_folder(compiled.settings.build)
    faults: list[Fault] = []
    for artifact in compiled.artifacts:
        if lock.entries.get(artifact.key) != artifact.entry:
            message = f"{artifact.prefix} for {artifact.target} does not match the lock"
            faults.append(Fault(message=message, path=LOCK_FILE, hint='run "cacheunit build", or undo the change'))
        elif has_build_folder:
            faults += _file_faults(artifact, adapters.files, compiled.settings.build)
    if faults:
        raise CacheunitError(*faults)
    return compiled.artifacts, compiled.targets


def _file_faults(artifact: Artifact, files: ProjectFiles, folder: str) -> Iterator[Fault]:
    """Yields a fault for each file of an artifact in the build folder that differs from the lock."""
    lock = Lock(targets={}, entries={artifact.key: artifact.entry})
    for drift in drift_on_disk(lock, folder, files.fingerprint, ()):
        actual = files.fingerprint(str(drift.path))
        what = "is missing" if actual is None else f"does not match the lock: its fingerprint is {actual}"
        yield Fault(message=f"the artifact {what}", path=drift.path, hint='run "cacheunit build"')


class _ArtifactVerification:
    """Verifies one artifact at one endpoint."""

    def __init__(self, artifact: Artifact, loaded: LoadedTarget, endpoint: Endpoint, model: str) -> None:
        self._artifact = artifact
        self._tokenizer = loaded.tokenizer
        self._rule = loaded.target.cache
        self._format = loaded.request_format
        self._endpoint = endpoint
        self._model = model
        self._prediction = self._rule.predict(artifact.entry)
        self._predicted = self._prediction.tokens

    def run(self, settings: VerifySettings) -> Iterator[VerifyResult]:
        """Sends a first request that fills the cache, then further ones until one is as predicted.

        Yields:
            The result of the first request, and of the last one.
        """
        yield self._result(0, self._send(0), "primed", None)
        attempts = max(settings.attempts, self._rule.warm_up_requests, 1)
        for attempt in range(1, attempts + 1):
            self._endpoint.wait(settings.wait)
            usage = self._send(attempt)
            verdict = self._verdict(usage)
            if verdict != "differs" or attempt == attempts:
                yield self._result(attempt, usage, verdict, self._cause(usage, verdict))
                return

    def _result(self, index: int, usage: Usage, verdict: Verdict, cause: str | None) -> VerifyResult:
        """Returns the result of the request with this number."""
        return VerifyResult(
            prefix=self._artifact.prefix,
            target=self._artifact.target,
            continuation=index,
            predicted=None if verdict == "primed" else self._predicted,
            observed=usage.hit,
            verdict=verdict,
            cause=cause,
        )

    def _send(self, index: int) -> Usage:
        """Sends the artifact with the user message of this number."""
        return self._endpoint.send(self._format.route, self._body(index))

    def _body(self, index: int) -> dict[str, Any]:
        """Returns the request with the user message of this number."""
        user = USER_MESSAGES[index % len(USER_MESSAGES)]
        fragment = json.loads(self._artifact.request)
        return {**self._format.append_user(fragment, user), "model": self._model}

    def _verdict(self, usage: Usage) -> Verdict:
        """Compares a hit with the prediction; an estimate may be off by its margin."""
        if usage.hit is None or self._predicted is None:
            return "unknown"
        # Where every token counts, the unstable ones may be hit too: not every user message changes them.
        unstable = self._artifact.unstable if self._rule.serves_every_token else 0
        fits = self._prediction.low <= usage.hit <= self._prediction.high + unstable
        return "as predicted" if fits else "differs"

    def _cause(self, usage: Usage, verdict: Verdict) -> str | None:
        """Returns the likely cause of a difference, or why a verdict is `unknown`; None if it is as predicted."""
        if usage.hit is None:
            return "the server does not report cached tokens (vLLM: --enable-prompt-tokens-details)"
        if self._predicted is None:
            return "the cache rule of the target is unknown, so nothing is predicted"
        if verdict != "differs":
            return None
        return self._tokens_cause() or self._hit_cause(usage.hit, self._predicted)

    def _tokens_cause(self) -> str | None:
        """Compares the server's token ids with the target's; returns how they differ.

        None where they agree, the server does not offer its ids, or the target's count is an estimate.
        """
        if self._artifact.margin:
            return None
        expected = list(self._tokenizer.encode(self._artifact.framed_prefix))
        actual = self._endpoint.tokenize(self._model, self._artifact.framed_prefix)
        # Some servers add a start token of their own.
        if actual is not None and expected not in (list(actual), list(actual)[1:]):
            return f"different tokenizer: {len(actual):,} tokens on the server, {len(expected):,} in the target"
        if not self._format.has_chat_template:
            return None
        whole_request = self._endpoint.tokenize_chat(self._body(0))
        static = expected[: self._artifact.entry.tokens]
        if whole_request is None:
            return None
        shared = common_prefix(static, list(whole_request))
        if shared == len(static):
            return None
        return f"different chat template: the server's text differs from the target's frame from token {shared:,} on"

    def _hit_cause(self, hit: int, predicted: int) -> str:
        """Returns the likely cause of a hit that is not the predicted one: the first row that fits.

        hit                                      likely cause
        0, prefix of less than two minima        a higher minimum
        no multiple of the unit                  another unit
        one unit less, with unstable tokens      the last token merges
        whole units less, but not 0              a larger unit, another template, or eviction
        0                                        not in the cache
        anything else                            another template, or another count
        """
        if hit == 0 and self._artifact.entry.tokens < (self._rule.minimum or 0) * 2:
            return "nothing is cached: the endpoint's minimum may be higher than the target's"
        if self._rule.has_units and self._rule.unit:
            unit = self._rule.unit
            if hit % unit:
                return f"the hit is not a multiple of {unit}: the endpoint has a different unit"
            if predicted - hit == unit and self._artifact.unstable:
                return (
                    "the last token merges with the user message and costs one unit: end the frame with a control token"
                )
            if 0 < hit < predicted:
                units = (predicted - hit) // unit
                fewer = f"{units:,} unit{'s' * (units != 1)} fewer than predicted"
                return f"{fewer}: a larger unit, a different chat template, or eviction"
        if hit == 0:
            return "cold: not written yet, evicted, sent to another machine, or a chat template that begins differently"
        return "the chat template differs, or the endpoint counts tokens differently"


def nothing_differs(results: Sequence[VerifyResult]) -> bool:
    """Whether no result has the verdict `differs`."""
    return all(result.verdict != "differs" for result in results)
