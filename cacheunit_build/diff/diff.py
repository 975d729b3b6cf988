"""The story of a review: two versions of a project, both compiled in memory, and what the change does to the cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from cacheunit_build.compiler.project import compile_or_fail, compile_project, read_project
from cacheunit_build.diff.artifact_diff import ArtifactDiff
from cacheunit_build.diff.results import Difference, DiffResult
from cacheunit_build.diff.snapshot import Snapshot
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.models import Lock
from cacheunit_build.domain.protocols import LOCK_FILE, Selection
from cacheunit_build.lockfile.format import EMPTY, drift_between, parse_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cacheunit_build.domain.build_record import PrefixRecord
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.models import Drift
    from cacheunit_build.domain.protocols import Adapters, ArtifactKey, OldVersion, ProgressCallback, SourceFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What is compared with: a project as it was, or a lock alone. `past` makes its world when it is needed."""

    label: str
    past: Callable[[], OldVersion] | None = None
    lock: Lock | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """One version: what was compiled, the lock that stands in for what was not, what is wrong with it."""

    version: Snapshot | None
    locked: Lock = EMPTY
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def lock(self) -> Lock:
        """What a build of this version would lock; entries of what does not compile are those of its lock."""
        if self.version is None:
            return self.locked
        made = {key: outcome.entry for key, outcome in self.version.outcomes.items()}
        kept = self.locked.entries if self.faults else {}
        targets = {**self.locked.targets, **self.version.compiled.identities}
        return Lock(targets=targets, entries={**kept, **made})


def diff(
    adapters: Adapters,
    against: Baseline,
    selection: Selection | None = None,
    *,
    progress: ProgressCallback | None = None,
    jobs: int = 1,
) -> DiffResult:
    """What the work tree's sources do to a cache that was filled from `against`. Nothing is written.

    Raises:
        CacheunitError: every fault in the sources as they are now, or in the selection.
    """
    selection = selection or Selection()
    past = None if against.past is None else against.past()
    reuse = None if past is None else _unchanged(adapters, past)
    compiled = compile_or_fail(adapters, selection, progress, reuse=reuse, jobs=jobs)
    now = _Side(version=Snapshot(compiled, adapters.files))
    then = _then(past, against, reuse, jobs)
    pairs = _Pairs(now, then, selection)
    if reuse is not None and pairs.added:  # whose cache serves these is seen on whole artifacts only
        then = _then(past, against, None, jobs)
        pairs = _Pairs(now, then, selection)
    differences = tuple(sorted(pairs.differences(), key=lambda item: item.key))
    return DiffResult(
        against=against.label,
        differences=differences,
        sources=pairs.sources(differences),
        faults=then.faults,
        notes=(*against.notes, *then.notes, *_stand_in(then)),
    )


def _stand_in(then: _Side) -> tuple[str, ...]:
    """What is to be known where a lock stands in for sources."""
    if not then.faults or not then.locked.entries:
        return ()
    return ("the lock there stands in for what does not compile: if it was stale, a change may not show",)


def _unchanged(adapters: Adapters, past: OldVersion) -> Callable[[str], PrefixRecord | None] | None:
    """What gives the trace of a manifest whose inputs are as the last build saw them, in both versions."""
    record = adapters.memory.recall()
    now, then = cache(adapters.files.fingerprint), cache(past.files.fingerprint)
    if record is None or not record.settled(now) or not record.settled(then):
        return None

    def unchanged(path: str) -> PrefixRecord | None:
        trace = record.traces.get(path)
        try:
            return trace if trace is not None and trace.holds(now) and trace.holds(then) else None
        except CacheunitError:  # the whole story tells it
            return None

    return unchanged


def _then(
    past: OldVersion | None, against: Baseline, reuse: Callable[[str], PrefixRecord | None] | None, jobs: int
) -> _Side:
    """The older version, as far as it compiles under today's rules."""
    if past is None:
        return _Side(version=None, locked=against.lock or EMPTY)
    locked, notes = _old_lock(past.files)
    try:
        config, _ = read_project(past.files)
        if not any(path.endswith(".yaml") for path in past.files.walk(config.prefixes)):
            notes = (*notes, f"there are no manifests at {against.label}")
            return _Side(version=None, notes=notes)
        compiled = compile_project(past, reuse=reuse, jobs=jobs)
    except CacheunitError as error:
        return _Side(version=None, locked=locked, faults=error.faults, notes=notes)
    return _Side(version=Snapshot(compiled, past.files), locked=locked, faults=compiled.faults, notes=notes)


def _old_lock(files: SourceFiles) -> tuple[Lock, tuple[str, ...]]:
    data = files.read(LOCK_FILE)
    try:
        return (EMPTY if data is None else parse_lock(data, LOCK_FILE)), ()
    except CacheunitError as error:
        return EMPTY, (f"the lock there is not read: {error.faults[0].message}",)


class _Pairs:
    """The artifacts of both versions, set side by side."""

    def __init__(self, now: _Side, then: _Side, selection: Selection) -> None:
        self._now = now
        self._then = then
        self._before, self._after = then.lock, now.lock
        taken = {key: entry for key, entry in self._before.entries.items() if selection.includes_key(key)}
        self._renamed = self._renames(set(taken))
        drift = drift_between(replace(self._before, entries=taken), self._after)
        gone = set(self._renamed.values())
        self._drift = [item for item in drift if (item.prefix, item.target) not in gone]
        self.added = any(item.kind == "added" and self._key(item) not in self._renamed for item in self._drift)
        versions = now.version, then.version
        self._contrast = None if versions[0] is None or versions[1] is None else ArtifactDiff(versions[0], versions[1])

    def _renames(self, before: set[ArtifactKey]) -> dict[ArtifactKey, ArtifactKey]:
        """New key -> old key of artifacts with another name and the same bytes."""
        gone: dict[tuple[object, ...], list[ArtifactKey]] = {}
        for key in sorted(before - self._after.entries.keys()):
            entry = self._before.entries[key]
            gone.setdefault((key[1], entry.text, entry.request, entry.token_ids), []).append(key)
        found: dict[ArtifactKey, ArtifactKey] = {}
        for key in sorted(self._after.entries.keys() - self._before.entries.keys()):
            entry = self._after.entries[key]
            same = gone.get((key[1], entry.text, entry.request, entry.token_ids))
            if same:
                found[key] = same.pop(0)
        return found

    def differences(self) -> Iterator[Difference]:
        """What is different, in the order of names."""
        for item in self._drift:
            key = self._key(item)
            yield self._renamed_one(key) if key in self._renamed else self._difference(item, key)

    @staticmethod
    def _key(item: Drift) -> ArtifactKey:
        return item.prefix, item.target

    def _renamed_one(self, key: ArtifactKey) -> Difference:
        was = self._renamed[key]
        entry = self._after.entries[key]
        return Difference(
            prefix=key[0],
            target=key[1],
            kind="renamed",
            was=was[0],
            old=self._before.entries[was],
            new=entry,
            still_cached=entry.tokens,
            recomputed=0,
            margin=self._margin(key),
        )

    def _margin(self, key: ArtifactKey) -> float:
        outcome = None if self._now.version is None else self._now.version.outcomes.get(key)
        return 0.0 if outcome is None else outcome.margin

    def _difference(self, item: Drift, key: ArtifactKey) -> Difference:
        old, new = self._before.entries.get(key), self._after.entries.get(key)
        kind = item.kind
        assert kind in ("added", "removed", "changed", "tokenizer", "profile")  # noqa: S101 - what two locks can differ in
        plain = Difference(prefix=key[0], target=key[1], kind=kind, old=old, new=new, margin=self._margin(key))
        if new is None:
            return plain
        if old is None:
            fault = self._fault_of(key)
            if fault is not None:
                why = f"the old sources do not compile under today's rules: {fault.message}"
                return replace(plain, kind="unknown", why=why)
            if self._contrast is not None:
                return self._contrast.added(plain)
            return plain if self._before.entries else replace(plain, still_cached=0, recomputed=new.tokens)
        versions = self._then.version, self._now.version
        before, after = (None if version is None else version.artifact(key) for version in versions)
        if self._contrast is None or before is None or after is None:
            return _of_lock_alone(plain, self._then)
        return self._contrast.changed(plain, before, after)

    def _fault_of(self, key: ArtifactKey) -> Fault | None:
        """Why there is nothing under that key in the old version, if its manifest was there."""
        if self._then.version is None:
            return next(iter(self._then.faults), None)
        compiled = self._then.version.compiled
        path = f"{compiled.config.prefixes}/{key[0].partition('@')[0]}.yaml"
        if path not in compiled.manifests:
            return None
        faults = self._then.faults
        return next((fault for fault in faults if fault.path == path), next(iter(faults), None))

    def sources(self, differences: tuple[Difference, ...]) -> dict[str, tuple[ArtifactKey, ...]]:
        """The sources that are not as they were, with the artifacts that use them."""
        return {} if self._contrast is None else self._contrast.sources([item.key for item in differences])


def _of_lock_alone(difference: Difference, then: _Side) -> Difference:
    """What two entries tell: the same ids are all warm, of others nothing is known."""
    old, new = difference.old, difference.new
    assert old is not None  # noqa: S101 - it was looked up
    assert new is not None  # noqa: S101 - the same
    if difference.kind == "changed" and old.token_ids is not None and old.token_ids == new.token_ids:
        return replace(difference, still_cached=new.tokens, recomputed=0)
    what = "it is compared with a lock, which holds"
    if then.faults:
        what = "the old sources do not compile under today's rules, and their lock holds"
    return replace(difference, why=f"{what} no text: the first change and the warm tokens are unknown")
