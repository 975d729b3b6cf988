"""Asks a provider for the static tokens of estimated artifacts, by routes that count requests without running a model.

A provider counts whole requests: what is in front of the user's words, these words, and what the API puts behind them.
Two requests tell the first part but for a few tokens:

    a   the prefix and the user's message "a"    static tokens + 1 + what stands behind
    b   the user's message "a" alone             what stands in front of it without a prefix + 1 + what stands behind

    a - b <= static tokens <= a - 1

A message of one letter has at least one token, and what stands behind it is the same in both. The difference of the two
bounds, b - 1 tokens, is the framing of an empty request, of which nobody says what is in front of the user's words. The
recorded count is the middle, and its margin half of the difference: with a = 1,240 and b = 8, it is 1,236 ±4.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cacheunit_build.compiler.project import compile_project
from cacheunit_build.domain.errors import CacheunitError, Fault, fail
from cacheunit_build.domain.file_names import COUNTS_FILE, readable_name
from cacheunit_build.domain.recorded_count import RecordedCount
from cacheunit_build.lockfile.counts import counts_bytes, read_counts
from cacheunit_build.request_formats.formats import FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from cacheunit_build.builder.results import Gate
    from cacheunit_build.compiler.loaded_target import LoadedTarget
    from cacheunit_build.domain.artifact import Artifact
    from cacheunit_build.domain.endpoint import Endpoint
    from cacheunit_build.domain.protocols import Adapters
    from cacheunit_build.domain.selection import Selection
    from cacheunit_build.request_formats.base import RequestFormat
    from cacheunit_build.request_formats.counting import CountRoute

USER_TEXT = "a"
"""The user's message in all requests that are counted: one letter, so that it has one token or more."""


_LEFT_OUT_HINT = "does the endpoint count system text and tools?"
_MOST_RATIO = 5
"""The most times that an estimate may have the tokens of a count: the vocabularies in bench/ differ by less than 3."""
_NO_ROUTE = (404, 405)
"""The statuses of an endpoint that does not have a route."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A prefix that a provider is asked to count.

    Attributes:
        prefix: the prefix or variant.
        target: the target.
        model: the model that the provider counts for.
        estimate: its static tokens by the vocabulary of the estimate.
        request: the fingerprint of the bytes that are counted.
        vocabulary: the fingerprint of the vocabulary of the estimate.
        tools: whether it has tools.
        fragment: these bytes, parsed.
        request_format: the format of its requests.
        recorded: the count of the same bytes that is recorded already; None where there is none.
    """

    prefix: str
    target: str
    model: str
    estimate: int
    request: str
    vocabulary: str
    tools: bool
    fragment: Mapping[str, Any]
    request_format: RequestFormat
    recorded: RecordedCount | None

    def recorded_as(self, tokens: int, margin: int, how: Any, day: str) -> RecordedCount:  # noqa: ANN401 - a literal
        """Returns a line of the counts file with the answer."""
        return RecordedCount(
            prefix=self.prefix,
            target=self.target,
            model=self.model,
            request=self.request,
            tokens=tokens,
            margin=margin,
            how=how,
            day=day,
            estimate=self.estimate,
            vocabulary=self.vocabulary,
            tools=self.tools,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What a provider is to be asked.

    Attributes:
        route: how it is asked; None where nothing is to be asked.
        questions: the artifacts whose bytes have no recorded count.
        unchanged: those that have one.
        exact: how many selected artifacts are counted with the model's own vocabulary.
        uncountable: how many are of an API that has no route that counts.
    """

    route: CountRoute | None
    questions: tuple[Question, ...]
    unchanged: tuple[Question, ...]
    exact: int
    uncountable: int = 0

    @property
    def requests(self) -> int:
        """How many requests ask all questions: one each, and one for each model."""
        return len(self.questions) + len({question.model for question in self.questions})


def plan_calibration(adapters: Adapters, selection: Selection, gate: Gate | None = None) -> Calibration:
    """Returns what a provider is to be asked for the selected artifacts. Sends nothing.

    Args:
        adapters: the project.
        selection: which artifacts.
        gate: finds what must not be frozen, and so is not sent either.

    Raises:
        CacheunitError: the project does not compile, a target has several models and none to count with, the provider
            has no route that counts, or the artifacts belong to several providers.
    """
    compiled = compile_project(adapters, selection)
    faults = compiled.faults or (gate(adapters, compiled) if gate else ())
    if faults:
        raise CacheunitError(*faults)
    estimated = [artifact for artifact in compiled.artifacts if artifact.estimated is not None]
    targets = {artifact.target: compiled.targets[artifact.target] for artifact in estimated}
    routes = _routes(targets)
    countable = [item for item in estimated if targets[item.target].request_format.count_route is not None]
    questions = [question_of(artifact, targets[artifact.target]) for artifact in countable]
    return Calibration(
        route=next(iter(routes), None),
        questions=tuple(item for item in questions if item.recorded is None),
        unchanged=tuple(item for item in questions if item.recorded is not None),
        exact=len(compiled.artifacts) - len(estimated),
        uncountable=len(estimated) - len(countable),
    )


def _routes(targets: Mapping[str, LoadedTarget]) -> list[CountRoute]:
    """Returns the one route that counts for all targets that have one; none where there are no targets.

    Raises:
        CacheunitError: no target has such a route, one has no model to count with, or they have different routes.
    """
    countable = {name: loaded for name, loaded in sorted(targets.items()) if loaded.request_format.count_route}
    if targets and not countable:
        raise CacheunitError(*(_no_route_fault(loaded) for _, loaded in sorted(targets.items())))
    faults = [no_model_fault(loaded) for loaded in countable.values() if loaded.target.counted_model is None]
    if faults:
        raise CacheunitError(*faults)
    found = {loaded.target.request: loaded.request_format.count_route for loaded in countable.values()}
    routes = {name: route for name, route in found.items() if route is not None}
    if len(routes) > 1:
        names = ", ".join(countable)
        raise fail(f"artifacts of several providers are selected: {names}", hint="choose one with --target")
    return list(routes.values())


def _no_route_fault(loaded: LoadedTarget) -> Fault:
    target = loaded.target
    message = f'target "{target.name}": the API of format "{target.request}" has no route that counts tokens'
    *others, last = sorted(name for name, known in FORMATS.items() if known.count_route is not None)
    return Fault(message=message, hint=f"use a target of the provider's own format: {', '.join(others)} or {last}")


def no_model_fault(loaded: LoadedTarget) -> Fault:
    """Returns the fault of a target that is for several models, or any, and does not choose one to count with."""
    target = loaded.target
    several = f"is for {len(target.model_ids)} models" if target.model_ids else "names no model"
    message = f'target "{target.name}" {several}, which may count differently: none is chosen to count with'
    example = f'[target.NAME] extends = "{target.name}" and count_model = "…"'
    return Fault(message=message, hint=f"in the settings, add {example}: the API's id of the model that you use")


def question_of(artifact: Artifact, loaded: LoadedTarget) -> Question:
    """Returns what a provider is asked about an estimated artifact of a target with a model to count with."""
    estimated = artifact.estimated
    if estimated is None or estimated.model is None:
        raise ValueError(artifact.key)
    return Question(
        prefix=artifact.prefix,
        target=artifact.target,
        model=estimated.model,
        estimate=max(1, estimated.estimate),
        request=estimated.request,
        vocabulary=estimated.vocabulary,
        tools=estimated.tools,
        fragment=json.loads(estimated.body),
        request_format=loaded.request_format,
        recorded=loaded.counts.of(artifact.prefix, artifact.target, estimated.model, estimated.request),
    )


def calibrate(
    endpoint: Endpoint, calibration: Calibration, day: str, progress: Callable[[RecordedCount], None] | None = None
) -> tuple[RecordedCount, ...]:
    """Asks a provider; returns the count of each question. Writes nothing: a run that fails records nothing.

    Args:
        endpoint: the provider.
        calibration: what to ask.
        day: the present day, in UTC.
        progress: called with each count.

    Raises:
        CacheunitError: the provider does not answer, or its numbers cannot be right.
    """
    alone: dict[str, int] = {}
    counts: list[RecordedCount] = []
    for question in calibration.questions:
        if question.model not in alone:
            alone[question.model] = _count(endpoint, question, {})
        whole = _count(endpoint, question, question.fragment)
        count = static_count(question, whole, alone[question.model], day)
        if whole * _MOST_RATIO < question.estimate:
            message = f"{whole:,} tokens cannot be right where the estimate is ~{question.estimate:,}"
            raise fail(f"{_name(question)}: {message}", hint=_LEFT_OUT_HINT)
        counts.append(count)
        if progress is not None:
            progress(count)
    return tuple(counts)


def static_count(question: Question, whole: int, alone: int, day: str) -> RecordedCount:
    """Returns the static tokens that follow from the count of a whole request, and of the user's words alone.

    whole  alone  fewest  most   recorded
    1,240  8      1,232   1,239  1,236 ±4
    1,240  7      1,233   1,239  1,236 ±3
    1,240  1      1,239   1,239  1,239

    Raises:
        CacheunitError: the numbers cannot be right: the endpoint left out what is in front of the user's words.
    """
    fewest, most = whole - alone, whole - 1
    if fewest < 1:
        message = f"{_name(question)}: {whole:,} tokens with the prefix and {alone:,} without it cannot both be right"
        raise fail(message, hint=_LEFT_OUT_HINT)
    tokens = (fewest + most + 1) // 2
    return question.recorded_as(tokens, tokens - fewest, "counted", day)


def _count(endpoint: Endpoint, question: Question, fragment: Mapping[str, Any]) -> int:
    """Returns the tokens that the provider counts in a request: a fragment, and the user's words after it.

    Raises:
        CacheunitError: it does not answer, or not with a number.
    """
    route = question.request_format.count_route
    if route is None:
        raise ValueError(question.target)
    request = question.request_format.append_user(dict(fragment), USER_TEXT)
    try:
        answer = endpoint.ask(route.route, question.model, route.body(request, question.model))
    except CacheunitError as error:
        raise CacheunitError(*(_with_hint(fault, question, route) for fault in error.faults)) from None
    number = route.answer(answer)
    if number is None:
        message = f'{_name(question)}: the answer of {route.route.path} has no whole number in "{route.answer_key}"'
        raise fail(message, hint="is it the provider's own API? --url names its base URL")
    return number


def _with_hint(fault: Fault, question: Question, route: CountRoute) -> Fault:
    """Returns the fault of an endpoint with the artifact it was asked about, and a hint that fits this command."""
    hint = fault.hint
    if hint is not None and "--model" in hint:
        hint = f'set "count_model" of target "{question.target}" to a model of the endpoint; it is "{question.model}"'
    elif hint is None and any(f"answers {status}:" in fault.message for status in _NO_ROUTE):
        hint = f"does it count? its route would be {route.route.path}; --url names the base URL of the API"
    elif hint is None:
        hint = "nothing was recorded: try again later, or name fewer prefixes"
    return replace(fault, message=f"{_name(question)}: {fault.message}", hint=hint)


def _name(question: Question) -> str:
    return f"{readable_name(question.prefix)} for {question.target}"


def record(adapters: Adapters, counts: Iterable[RecordedCount]) -> bool:
    """Writes counts into the counts file, each in place of those of former bytes; returns whether it changed.

    Raises:
        CacheunitError: the file is broken, or cannot be written.
    """
    new: Sequence[RecordedCount] = tuple(counts)
    if not new:
        return False
    with adapters.files.exclusive():
        data = counts_bytes(read_counts(adapters.files).updated(new))
        if adapters.files.read(COUNTS_FILE) == data:
            return False
        adapters.files.commit({COUNTS_FILE: data}, (), None)
        return True
