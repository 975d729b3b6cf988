"""Explains an artifact: its inputs, its plan, and what changed since it was locked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cacheunit_build.builder.changed_inputs import ChangedInputs
from cacheunit_build.builder.results import InputChange
from cacheunit_build.compiler.project import compile_or_fail
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.file_names import LOCK_VERSION
from cacheunit_build.domain.fingerprint import fingerprint_json
from cacheunit_build.domain.lock import identity_data
from cacheunit_build.lockfile.format import read_lock

if TYPE_CHECKING:
    from cacheunit_build.compiler.project import CompiledProject
    from cacheunit_build.domain.artifact import Artifact
    from cacheunit_build.domain.cache_results import Prediction
    from cacheunit_build.domain.cache_rule import CacheRule
    from cacheunit_build.domain.lock import Lock, LockEntry, TargetIdentity
    from cacheunit_build.domain.protocols import Adapters
    from cacheunit_build.domain.selection import Selection

LockState = Literal["same", "different", "absent", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One artifact, explained.

    Attributes:
        artifact: the artifact, as the sources give it now.
        engine: what counts its tokens.
        prediction: how many of its tokens a warm cache serves.
        cost: what it costs in a request.
        locked: whether the lock has the same entry; `unknown` where the lock cannot be read.
        changed: the inputs that changed since the lock was made.
    """

    artifact: Artifact
    engine: str
    prediction: Prediction
    cost: RequestCost
    locked: LockState
    changed: tuple[InputChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCost:
    """What a prefix costs in one request, as a multiple of the price of one uncached input token.

    Attributes:
        uncached: the cost without a cache.
        cold: the cost in the first request, which writes the cache; None where unknown.
        warm: the cost in later ones; None where unknown.
    """

    uncached: float
    cold: float | None
    warm: float | None


def request_cost(rule: CacheRule, entry: LockEntry) -> RequestCost:
    """Returns what an artifact costs in one request by a cache rule."""
    warm, extra = rule.price_of_hit(entry), rule.cost(0, None, entry).one_time
    cold = None if warm is None or extra is None else warm + extra
    return RequestCost(uncached=entry.tokens, cold=cold, warm=warm)


def explain(adapters: Adapters, selection: Selection) -> tuple[Explanation, ...]:
    """Explains every selected artifact.

    Raises:
        CacheunitError: every fault in the sources.
    """
    compiled = compile_or_fail(adapters, selection)
    try:
        lock = read_lock(adapters.files)
    except CacheunitError:
        return tuple(_explanation(compiled, artifact, "unknown", ()) for artifact in compiled.artifacts)
    changed = ChangedInputs(adapters, compiled, lock)
    return tuple(
        _explanation(
            compiled,
            artifact,
            _state(lock, artifact),
            (*changed.of(artifact.key), *_target_changes(compiled, lock, artifact)),
        )
        for artifact in compiled.artifacts
    )


def _explanation(
    compiled: CompiledProject, artifact: Artifact, locked: LockState, changed: tuple[InputChange, ...]
) -> Explanation:
    loaded = compiled.targets[artifact.target]
    return Explanation(
        artifact=artifact,
        engine=loaded.tokenizer.label,
        prediction=loaded.target.cache.predict(artifact.entry),
        cost=request_cost(loaded.target.cache, artifact.entry),
        locked=locked,
        changed=changed,
    )


def _state(lock: Lock, artifact: Artifact) -> LockState:
    entry = lock.entries.get(artifact.key)
    if entry is None:
        return "absent"
    return "same" if entry == artifact.entry else "different"


def _target_changes(compiled: CompiledProject, lock: Lock, artifact: Artifact) -> tuple[InputChange, ...]:
    """Returns what changed of the artifact's target since it was locked: its rules, its vocabulary."""
    if artifact.key not in lock.entries or lock.version != LOCK_VERSION:
        return ()
    name = artifact.target
    was, now = lock.targets.get(name), compiled.identities[name]
    old = (None, None) if was is None else (_profile(was), was.tokenizer)
    parts = zip(("rules", "vocabulary"), old, (_profile(now), now.tokenizer), strict=True)
    return tuple(InputChange(path=f"{part} of target {name}", old=a, new=b) for part, a, b in parts if a != b)


def _profile(identity: TargetIdentity) -> str:
    """Returns the fingerprint of everything that the lock has of a target but its vocabulary."""
    return fingerprint_json({key: value for key, value in identity_data(identity).items() if key != "tokenizer"})
