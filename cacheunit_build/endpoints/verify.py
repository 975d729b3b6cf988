"""Sends locked artifacts to a live endpoint and compares the cache hits that it reports with the predicted ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from cacheunit_build.compiler.project import compile_or_fail
from cacheunit_build.domain.errors import CacheunitError, Fault, fail
from cacheunit_build.domain.file_names import LOCK_FILE, LOCK_VERSION, readable_name
from cacheunit_build.domain.lock import Lock
from cacheunit_build.domain.recorded_count import MOST_TOKENS
from cacheunit_build.endpoints.artifact_requests import ArtifactRequests
from cacheunit_build.endpoints.calibrate import no_model_fault, question_of
from cacheunit_build.endpoints.difference import explain_difference
from cacheunit_build.endpoints.expected_hit import expected_hit
from cacheunit_build.lockfile.drift import drift_on_disk
from cacheunit_build.lockfile.format import read_lock

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from cacheunit_build.compiler.loaded_target import LoadedTarget
    from cacheunit_build.domain.artifact import Artifact
    from cacheunit_build.domain.endpoint import Endpoint
    from cacheunit_build.domain.protocols import Adapters, ProjectFiles
    from cacheunit_build.domain.recorded_count import RecordedCount
    from cacheunit_build.domain.selection import Selection
    from cacheunit_build.domain.target import Target
    from cacheunit_build.domain.usage import Usage
    from cacheunit_build.endpoints.calibrate import Question

Verdict = Literal["warm-up", "as predicted", "not hit", "differs", "unknown"]

FEWEST_ATTEMPTS = 5
"""The fewest requests by which a best-effort cache is judged."""
_NOT_REPORTED = "the server does not report cached tokens (vLLM: --enable-prompt-tokens-details)"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """The result of one request, or of the requests to a best-effort cache.

    Attributes:
        prefix: name of the prefix.
        target: name of the target.
        continuation: number of the request, and of the user message that it ends with; the first is 0.
        predicted: tokens predicted to come from the cache; None where nothing is predicted.
        observed: tokens that the server reports as read from the cache; of several requests, the hit that differs, or
            else the best one. None where it reports nothing.
        verdict: `warm-up` for the first request of an artifact, which only fills the cache; `not hit` where too few
            requests to a best-effort cache hit.
        cause: the cause of a difference, if a test showed one, or why the verdict is `unknown`.
        facts: what was observed of a difference, one sentence each.
        hint: what to try next.
        hits: requests to a best-effort cache that hit as predicted; None for any other cache.
        requests: requests to a best-effort cache that were compared.
        share: the share of `requests` that hit as predicted.
        recorded: the count that the responses report; None where they report none, or none is asked for.
    """

    prefix: str
    target: str
    continuation: int
    predicted: int | None
    observed: int | None
    verdict: Verdict
    cause: str | None = None
    facts: tuple[str, ...] = ()
    hint: str | None = None
    hits: int | None = None
    requests: int | None = None
    share: float | None = None
    recorded: RecordedCount | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifySettings:
    """Settings of one run of `verify`.

    Attributes:
        attempts: maximum number of requests per artifact after the first one. For a best-effort target: the number of
            requests after the warm-up requests, at least `FEWEST_ATTEMPTS`.
        wait: seconds before each of these.
        min_share: the share of requests to a best-effort target that must hit as predicted.
        warm: whether the cache is only to be filled, so that one hit is enough.
        model: name of the model; None for the first that the server lists, or else the first of the target.
        record_day: the present day, in UTC, where the reported tokens are to be recorded; None where they are not.
    """

    attempts: int
    wait: float
    min_share: float = 0.5
    warm: bool = False
    model: str | None = None
    record_day: str | None = None


def verify(
    adapters: Adapters, endpoint: Endpoint, selection: Selection, settings: VerifySettings
) -> Iterator[VerifyResult]:
    """Sends every selected artifact with different user messages until its hits are as predicted.

    A best-effort target gets a fixed number of requests, of which enough must hit.

    Yields:
        The result of each request worth reporting: the first and the last one of each artifact.

    Raises:
        CacheunitError: sources, lock and `build/` disagree, the target needs more attempts to warm up, or the endpoint
            cannot be used.
    """
    artifacts, targets = _locked_artifacts(adapters, selection)
    names = sorted({artifact.target for artifact in artifacts})
    if len(names) > 1:
        raise fail(f"artifacts of several targets are selected: {', '.join(names)}", hint="choose one with --target")
    for name in names:
        _refuse_stored(targets[name].target)
        _refuse_too_few_attempts(targets[name].target, settings)
    if settings.record_day is not None:
        estimated = {artifact.target for artifact in artifacts if artifact.estimated is not None}
        settings = _with_counted_model(settings, [targets[name] for name in names], estimated)
    served_model = settings.model or next(iter(endpoint.models()), None)
    for artifact in artifacts:
        loaded = targets[artifact.target]
        model = served_model or next(iter(loaded.target.model_ids), None)
        if model is None:
            raise fail("the endpoint does not list its models", hint="name one with --model")
        question = None if settings.record_day is None else question_of(artifact, loaded)
        yield from _Verification(ArtifactRequests(artifact, loaded, endpoint, model), settings, question).run()


def _with_counted_model(
    settings: VerifySettings, targets: Sequence[LoadedTarget], estimated: Collection[str]
) -> VerifySettings:
    """Returns the settings with the model whose counts the target takes.

    Args:
        settings: the settings.
        targets: the targets.
        estimated: the names of targets with an artifact whose count is an estimate.

    Raises:
        CacheunitError: the target has exact counts, names no such model, or reports no tokens at a marker; or another
            model is to be sent to.
    """
    for loaded in targets:
        target = loaded.target
        if target.name not in estimated:
            raise fail(f'target "{target.name}" counts with the model\'s own vocabulary: there is nothing to record')
        if not target.cache.serves_marked_only or target.cache.marker is None:
            message = f'target "{target.name}" has no cache markers, so no response reports the tokens in front of one'
            raise fail(message, hint='"cacheunit calibrate" asks the provider for a count')
        if target.counted_model is None:
            raise CacheunitError(no_model_fault(loaded))
        if settings.model not in (None, target.counted_model):
            message = f'target "{target.name}" takes the counts of {target.counted_model}, not of {settings.model}'
            raise fail(message, hint="leave out --model, or set count_model of the target")
        settings = replace(settings, model=target.counted_model)
    return settings


def _refuse_stored(target: Target) -> None:
    """Raises an error for a target that stores prefixes at the provider, which costs money by the hour."""
    if target.cache.is_stored:
        message = f'target "{target.name}" stores prefixes at the provider, which verify does not do'
        raise fail(message, hint="store one by prefix.cached_content, and compare responses by prefix.observe()")


def _refuse_too_few_attempts(target: Target, settings: VerifySettings) -> None:
    """Raises an error where no request would be left after the warm-up requests, so that nothing could be compared."""
    needed = target.cache.warm_up_requests
    if settings.attempts < needed and not target.cache.best_effort:
        message = f'target "{target.name}" needs {needed} warm-up requests; attempts: {settings.attempts}'
        raise fail(message, hint=f"set --attempts to {needed} or more")


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
    if lock.version != LOCK_VERSION:
        raise fail(f"the lock has version {lock.version}", path=LOCK_FILE, hint='run "cacheunit build" to rewrite it')
    compiled = compile_or_fail(adapters, selection)
    # A checkout may come without build/, if artifacts are not committed.
    has_build_folder = adapters.files.has_folder(compiled.settings.build)
    faults: list[Fault] = []
    for artifact in compiled.artifacts:
        if lock.entries.get(artifact.key) != artifact.entry:
            message = f"{readable_name(artifact.prefix)} for {artifact.target} does not match the lock"
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


class _Verification:
    """Verifies one artifact at one endpoint."""

    def __init__(self, requests: ArtifactRequests, settings: VerifySettings, question: Question | None) -> None:
        self._requests = requests
        self._question = question
        self._settings = settings
        self._warm_up_requests = requests.rule.warm_up_requests
        self._expected = expected_hit(requests.rule, requests.artifact)

    def run(self) -> Iterator[VerifyResult]:
        """Sends a first request that fills the cache, then further ones.

        Yields:
            The result of the first request, and of the others.
        """
        first = self._requests.send(0)
        yield self._result(0, first.hit, "warm-up")
        result = self._judge_share() if self._requests.rule.best_effort else self._send_until_met()
        yield replace(result, recorded=self._recorded(first, result.observed))

    def _recorded(self, first: Usage, hit: int | None) -> RecordedCount | None:
        """Returns the count that a hit shows: the tokens in front of the last marker, where nothing static follows it.

        The first request must have written or read the same number: a smaller hit may be that of an earlier marker.
        Where it does not report what it wrote, there must be no earlier marker.
        """
        entry, day = self._requests.artifact.entry, self._settings.record_day
        if self._question is None or day is None or not hit or entry.markers[-1:] != (entry.tokens,):
            return None
        agrees = len(entry.markers) == 1 if first.written is None else first.written + (first.hit or 0) == hit
        if not agrees or hit > MOST_TOKENS:
            return None
        return self._question.recorded_as(hit, 0, "reported", day)

    def _send_until_met(self) -> VerifyResult:
        """Sends requests until one is as predicted, or no attempt is left; returns the result of the last one.

        Where nothing is to be cached, all warm-up requests are sent, since without them there is no hit in any case.
        """
        hits: dict[int, int] = {}
        for number, hit, unknown in self._replies(self._settings.attempts):
            if unknown is not None:
                return unknown
            is_warm = number >= self._warm_up_requests
            if self._expected.is_met(hit) and (is_warm or self._expected.tokens):
                return self._result(number, hit, "as predicted")
            if is_warm:
                hits[number] = hit
        return self._difference_result(number, hit, "differs", hits)

    def _judge_share(self) -> VerifyResult:
        """Sends requests to a best-effort cache; returns the verdict by the share of those that hit as predicted.

        The warm-up requests are not compared. In order to warm the cache only, one hit of any request is enough.
        """
        attempts = max(self._settings.attempts, FEWEST_ATTEMPTS)
        hits: dict[int, int] = {}
        for number, hit, unknown in self._replies(self._warm_up_requests - 1 + attempts):
            if unknown is not None:
                return unknown
            if number >= self._warm_up_requests or (self._settings.warm and hit):
                hits[number] = hit
            if self._settings.warm and self._expected.is_met(hit):
                break
        return self._share_result(number, hits)

    def _replies(self, last: int) -> Iterator[tuple[int, int, VerifyResult | None]]:
        """Sends the requests from 1 to `last`.

        Yields:
            The number of each request, the hit that it reported, and its result where that hit cannot be compared with
            the prediction; None where it can.
        """
        for number in range(1, last + 1):
            usage = self._requests.send(number, self._settings.wait)
            why = self._why_unknown(usage)
            unknown = None if why is None else self._result(number, usage.hit, "unknown", cause=why)
            yield number, usage.hit or 0, unknown

    def _share_result(self, last: int, hits: Mapping[int, int]) -> VerifyResult:
        """Returns the verdict about the compared requests to a best-effort cache.

        predicted  hits                              verdict, with `min_share` 0.5
        1,024      1,024, 0, 1,024, 1,024, 896       as predicted: 3 of 5
        1,024      0, 0, 1,024, 0, 0                 not hit: 1 of 5
        1,024      1,024, 1,024, 1,000, 1,024, 0     differs: 1,000 tokens are no whole units
        """
        met = sum(self._expected.is_met(hit) for hit in hits.values())
        share = met / len(hits)
        is_enough = met > 0 if self._settings.warm else share >= self._settings.min_share
        not_allowed = [hit for hit in hits.values() if not self._expected.allows(hit)]
        if is_enough and not not_allowed:
            result = self._result(last, max(hits.values()), "as predicted")
        else:
            verdict: Verdict = "differs" if not_allowed else "not hit"
            result = self._difference_result(last, max(not_allowed or hits.values()), verdict, hits)
        facts = (f"{met} of {len(hits)} requests hit as predicted", *result.facts)
        return replace(result, facts=facts, hits=met, requests=len(hits), share=share)

    def _difference_result(
        self, number: int, observed: int | None, verdict: Verdict, hits: Mapping[int, int]
    ) -> VerifyResult:
        """Returns the result of hits that differ from the prediction, with what tests show about them."""
        difference = explain_difference(self._requests, self._expected, hits)
        result = self._result(number, observed, verdict, cause=difference.cause)
        return replace(result, facts=difference.facts, hint=difference.hint)

    def _why_unknown(self, usage: Usage) -> str | None:
        """Returns why a hit cannot be compared with the prediction; None where it can."""
        if usage.hit is not None:
            return self._expected.why_unknown
        if usage.contradictions:
            return f"the usage that the endpoint reports contradicts itself: {usage.contradictions[0]}"
        return _NOT_REPORTED

    def _result(self, number: int, observed: int | None, verdict: Verdict, *, cause: str | None = None) -> VerifyResult:
        """Returns the result of the request with this number."""
        return VerifyResult(
            prefix=self._requests.artifact.prefix,
            target=self._requests.artifact.target,
            continuation=number,
            predicted=None if verdict == "warm-up" else self._expected.tokens,
            observed=observed,
            verdict=verdict,
            cause=cause,
        )


def has_passed(results: Sequence[VerifyResult]) -> bool:
    """Returns whether no result differs from the prediction, and best-effort targets hit often enough."""
    return all(result.verdict not in ("differs", "not hit") for result in results)
