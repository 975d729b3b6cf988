"""Why an artifact is as it is: its inputs, and which of them differ from what made the lock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cacheunit_build.builder.build import old_lock
from cacheunit_build.builder.changed_inputs import ChangedInputs
from cacheunit_build.builder.results import InputChange
from cacheunit_build.compiler.project import compile_or_fail
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.models import Artifact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cacheunit_build.domain.models import TargetIdentity
    from cacheunit_build.domain.protocols import Adapters, Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One artifact with what encodes it, how the lock stands to it, and the inputs that changed since the lock."""

    artifact: Artifact
    engine: str
    locked: Literal["same", "different", "absent", "unknown"]
    changed: tuple[InputChange, ...]


def _of_target(
    name: str, was: TargetIdentity | None, identities: Mapping[str, TargetIdentity]
) -> tuple[InputChange, ...]:
    """What of a target is not what the lock was made for: its rules, its vocabulary."""
    now = identities[name]
    old = (None, None) if was is None else (was.profile, was.tokenizer)
    parts = zip(("rules", "vocabulary"), old, (now.profile, now.tokenizer), strict=True)
    return tuple(InputChange(path=f"{part} of target {name}", old=a, new=b) for part, a, b in parts if a != b)


def explain(adapters: Adapters, selection: Selection) -> tuple[Explanation, ...]:
    """Explains every artifact that `selection` takes.

    Raises:
        CacheunitError: every fault in the sources.
    """
    compiled = compile_or_fail(adapters, selection)
    try:
        lock = old_lock(adapters.files)
    except CacheunitError:
        lock = None
    since = None if lock is None else ChangedInputs(adapters, compiled, lock)
    explained = []
    for artifact in compiled.artifacts:
        if not isinstance(artifact, Artifact):
            continue
        entry = None if lock is None else lock.entries.get(artifact.key)
        state: Literal["same", "different", "absent", "unknown"] = "unknown" if lock is None else "absent"
        if entry is not None:
            state = "same" if entry == artifact.entry else "different"
        changed = () if since is None or lock is None else since.changed(artifact.key)
        if lock is not None and entry is not None:
            changed += _of_target(artifact.target, lock.targets.get(artifact.target), compiled.identities)
        engine = compiled.targets[artifact.target].tokenizer.engine
        explained.append(Explanation(artifact=artifact, engine=engine, locked=state, changed=changed))
    return tuple(explained)
