"""The story of a proof: artifacts are sent to a live endpoint, and what it reports is held against the prediction."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cacheunit_build.builder.build import old_lock
from cacheunit_build.compiler.project import compile_or_fail
from cacheunit_build.domain.artifact import Artifact
from cacheunit_build.domain.errors import fail
from cacheunit_build.domain.file_names import LOCK_FILE
from cacheunit_build.domain.lock import Lock
from cacheunit_build.domain.sequences import common_prefix
from cacheunit_build.lockfile.drift import drift_on_disk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cacheunit_build.compiler.loaded_target import LoadedTarget
    from cacheunit_build.domain.protocols import Adapters, Endpoint, Selection
    from cacheunit_build.domain.target import FormatName
    from cacheunit_build.domain.usage import Usage

USER_MESSAGES = (
    "Please say in one word what this is about.",
    "42 is the answer; what was the question?",
    "\nAnd once more, on a new line: is all well?",
    "Über alles andere reden wir später.",
    "那么,请用一句话回答。",
    "- a list\n- of two items",
)
"""What is sent as the user's words: each begins with another token than the others."""

Result = Literal["primed", "as predicted", "differs", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """One request: the tokens that were predicted to come from the cache, and those that the server reports.

    The first one of an artifact fills the cache: nothing is predicted of it, and it is `primed`. `cause` is the likely
    reason of a difference, or why nothing is known.
    """

    prefix: str
    target: str
    continuation: int
    predicted: int | None
    observed: int | None
    verdict: Result
    cause: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How often an artifact is asked for after the first request, and how long is waited before each, in seconds."""

    attempts: int
    wait: float


def verify(  # noqa: PLR0913 - what a proof needs
    adapters: Adapters,
    server: Endpoint,
    selection: Selection,
    patience: Patience,
    *,
    model: str | None = None,
    told: Callable[[VerifyResult], None] | None = None,
) -> tuple[VerifyResult, ...]:
    """Sends every locked artifact with different continuations until the hits are as predicted.

    Args:
        adapters: the outside world.
        server: the endpoint.
        selection: which artifacts.
        patience: how often to ask.
        model: its name; by default the first that the server serves, else the first of the target.
        told: called with each result as it comes.

    Raises:
        CacheunitError: the sources, the lock and `build/` do not agree, or the endpoint is of no use.
    """
    artifacts, targets = _locked(adapters, selection)
    named = sorted({artifact.target for artifact in artifacts})
    if len(named) > 1:
        raise fail(f"one endpoint serves one of the targets {', '.join(named)}", hint="--target picks one")
    served = model or next(iter(server.models()), None)
    results: list[VerifyResult] = []
    for artifact in artifacts:
        ready = targets[artifact.target]
        name = served or next(iter(ready.target.models), None)
        if name is None:
            raise fail("the endpoint does not tell which models it serves", hint="--model names one")
        for result in _Trial(artifact, ready, server, name).results(patience):
            results.append(result)
            if told is not None:
                told(result)
    return tuple(results)


def _locked(adapters: Adapters, selection: Selection) -> tuple[list[Artifact], dict[str, LoadedTarget]]:
    """The artifacts, if sources, lock and `build/` say the same of each."""
    if adapters.files.read(LOCK_FILE) is None:
        raise fail(f"there is no {LOCK_FILE}: what is sent is what was locked", hint='run "cacheunit build"')
    files, lock = adapters.files, old_lock(adapters.files)
    compiled = compile_or_fail(adapters, selection)
    artifacts = [item for item in compiled.artifacts if isinstance(item, Artifact)]
    folder = compiled.config.build
    frozen = files.exists(folder)
    for artifact in artifacts:
        named = f"{artifact.prefix} for {artifact.target}"
        if lock.entries.get(artifact.key) != artifact.entry:
            raise fail(f"{named} is not as locked", path=LOCK_FILE, hint='run "cacheunit build", or undo the change')
        own = Lock(targets={}, entries={artifact.key: artifact.entry})
        drift = next(drift_on_disk(own, folder, files.fingerprint, ()), None) if frozen else None
        if drift is not None:
            found = files.fingerprint(str(drift.path))
            what = "is missing" if found is None else f"is not what was locked: found {found}"
            raise fail(f"the artifact {what}", path=drift.path, hint='run "cacheunit build"')
    return artifacts, dict(compiled.targets)


class _Trial:
    """One artifact at one endpoint."""

    def __init__(self, artifact: Artifact, ready: LoadedTarget, server: Endpoint, model: str) -> None:
        self._artifact = artifact
        self._ready = ready
        self._server = server
        self._model = model
        self._predicted = ready.target.cache.reusable(artifact.entry.tokens)

    def results(self, patience: Patience) -> Iterator[VerifyResult]:
        """The first request fills the cache; further ones are sent until one is as predicted, or patience ends."""
        yield self._verified(0, self._ask(0), None, "primed", None)
        least = max(1, self._ready.target.cache.warm_up_requests)
        for attempt in range(1, max(patience.attempts, least) + 1):
            self._server.wait(patience.wait)
            usage = self._ask(attempt)
            verdict, cause = self._judged(usage)
            last = attempt >= max(patience.attempts, least) or verdict != "differs"
            if last:
                cause = self._cause(usage) if verdict == "differs" else cause
                yield self._verified(attempt, usage, self._predicted, verdict, cause)
                return

    def _verified(
        self, index: int, usage: Usage, predicted: int | None, verdict: Result, cause: str | None
    ) -> VerifyResult:
        return VerifyResult(
            prefix=self._artifact.prefix,
            target=self._artifact.target,
            continuation=index,
            predicted=predicted,
            observed=usage.hit,
            verdict=verdict,
            cause=cause,
        )

    def _ask(self, index: int) -> Usage:
        return self._server.ask(self._ready.target.request, self._body(index))

    def _body(self, index: int) -> dict[str, Any]:
        words = USER_MESSAGES[index % len(USER_MESSAGES)]
        return {**request_body(self._artifact.request, self._ready.target.request, words), "model": self._model}

    def _judged(self, usage: Usage) -> tuple[Result, str | None]:
        if usage.hit is None:
            return "unknown", "the server does not report cached tokens (vLLM: --enable-prompt-tokens-details)"
        if self._predicted is None:
            return "unknown", "the target's cache rule is unknown, and so nothing is predicted"
        unstable = self._artifact.unstable if self._ready.target.cache.kind == "tokens" else 0
        margin = self._artifact.margin * self._predicted
        as_predicted = self._predicted - margin <= usage.hit <= self._predicted + unstable + margin
        return ("as predicted" if as_predicted else "differs"), None

    def _cause(self, usage: Usage) -> str:
        """What most likely makes the difference."""
        hit, predicted = usage.hit or 0, self._predicted or 0
        entry, rule = self._artifact.entry, self._ready.target.cache
        other = self._other_tokens()
        if other is not None:
            return other
        if hit == 0 and entry.tokens < (rule.minimum or 0) * 2:
            return "nothing is cached: the endpoint's minimum may be higher than the target's"
        if rule.kind == "blocks" and rule.unit and hit % rule.unit:
            return f"hits that are no multiple of {rule.unit}: the endpoint has another unit"
        if rule.kind == "blocks" and rule.unit and predicted - hit == rule.unit and self._artifact.unstable:
            return "the last token merges with what follows, which costs one unit: end the frame on a control token"
        if 0 < hit < predicted and rule.kind == "blocks" and rule.unit:
            return f"{(predicted - hit) // rule.unit:,} units fewer: a larger unit, another chat template, or evicted"
        if hit == 0:
            return "cold: not written yet, evicted, sent to another machine, or the chat template begins otherwise"
        return "the chat template differs, or the endpoint counts tokens of its own"

    def _other_tokens(self) -> str | None:
        """What the server's own tokens say, where it offers them: of the framed_prefix, and of a whole request."""
        if self._artifact.margin:
            return None
        ours = list(self._ready.tokenizer.encode(self._artifact.framed_prefix))
        theirs = self._server.tokenize(self._model, self._artifact.framed_prefix)
        if theirs is not None and ours not in (list(theirs), list(theirs)[1:]):
            return f"the tokenizer differs: the server has {len(theirs):,} tokens where the target has {len(ours):,}"
        whole = self._server.tokenize_chat(self._body(0)) if self._ready.target.request == "openai-chat" else None
        static = ours[: self._artifact.entry.tokens]
        same = len(static) if whole is None else common_prefix(static, list(whole))
        if same == len(static):
            return None
        return f"the chat template is not the target's frame: from token {same:,} on, the server reads another text"


def request_body(fragment: bytes, form: FormatName, words: str) -> dict[str, Any]:
    """A request fragment with the user's words after it."""
    body: dict[str, Any] = json.loads(fragment)
    if form == "text":
        return {**body, "prompt": body["prompt"] + words}
    place = "input" if form == "openai-responses" else "messages"
    return {**body, place: [*body.get(place, []), {"role": "user", "content": words}]}


def agreed(results: Sequence[VerifyResult]) -> bool:
    """Whether nothing differs."""
    return all(result.verdict != "differs" for result in results)
