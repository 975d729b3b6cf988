"""Compares each good build of a watch with the one before, with the last commit and with the main branch.

What was compiled stays in memory, so that a save costs one compilation of what it changed: the artifacts of the last
commit are compiled once, where they differ, and those of the build before were compiled by it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from cacheunit_build.diff.comparison import Side
from cacheunit_build.diff.diff import Baseline, compare, old_side
from cacheunit_build.diff.known_version import NOT_COMPILED, KnownVersion, same_record
from cacheunit_build.diff.results import DiffResult
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.file_names import SETTINGS_FILES
from cacheunit_build.domain.protocols import OldVersion
from cacheunit_build.watching.remembered_files import RememberedFiles, remember

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cacheunit_build.compiler.project import CompiledProject
    from cacheunit_build.diff.results import Difference
    from cacheunit_build.domain.artifact import ArtifactRecord
    from cacheunit_build.domain.build_record import PrefixRecord
    from cacheunit_build.domain.lock import ArtifactKey
    from cacheunit_build.domain.protocols import Adapters, SourceFiles

OpenBaseline = Callable[[], Baseline]
"""Returns what to compare with, or raises why there is nothing."""

MOST_COMPARED_WITH_ADDED = 60
"""The most artifacts of a version that are all compiled to find out what an added one shares with them."""

BUILD_BEFORE = Baseline(label="the build before")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What a build changed.

    Attributes:
        version: the version that was built.
        since_save: the differences from the good build before; None for the first one.
        since_commit: the differences from the last commit; None where there is none to compare with.
        no_commit: why there is no last commit to compare with; None where there is one, or nobody asked.
        since_main: the differences from where this branch left the main branch; None where there is no such commit.
        no_main: why there is no such commit; None where there is one, or nobody asked.
    """

    version: KnownVersion
    since_save: DiffResult | None
    since_commit: DiffResult | None
    no_commit: str | None
    since_main: DiffResult | None
    no_main: str | None


class BuildComparison:
    """Compares the good builds of one watch.

    Args:
        last_commit: returns the last commit, to compare with; or raises why there is none. None to compare with none.
    """

    def __init__(self, last_commit: OpenBaseline | None) -> None:
        self._commit = None if last_commit is None else _CommitComparison(last_commit)
        self._main: _CommitComparison | None = None
        self._version: KnownVersion | None = None
        self._files: RememberedFiles | None = None

    def compare_with_main(self, main_branch: OpenBaseline) -> None:
        """Compares from now on with the commit where this branch left the main branch, or says why there is none."""
        self._main = _CommitComparison(main_branch)

    def compare(
        self, adapters: Adapters, records: tuple[ArtifactRecord, ...], compiled: Callable[[], CompiledProject]
    ) -> Comparison:
        """Compares a build with the one before, with the last commit and with the main branch.

        Args:
            adapters: the project as the build read it.
            records: the records of all artifacts that were selected.
            compiled: returns what the build compiled and reused; called where that is not the same as before.
        """
        former = version = self._version
        if version is None or not _is_same(version, records, adapters.files):
            version = self._next_version(adapters, compiled())
        since_save = None
        if former is not None:
            since_save = DiffResult(against=BUILD_BEFORE.label)
            if version is not former:
                since_save = _differences(version, Side(snapshot=former), BUILD_BEFORE)
        nothing = None, None
        since_commit, no_commit = self._commit.since(adapters, version, former) if self._commit else nothing
        since_main, no_main = self._main.since(adapters, version, former) if self._main else nothing
        return Comparison(
            version=version,
            since_save=since_save,
            since_commit=since_commit,
            no_commit=no_commit,
            since_main=since_main,
            no_main=no_main,
        )

    def _next_version(self, adapters: Adapters, compiled: CompiledProject) -> KnownVersion:
        """Returns the version that was built, which takes over what did not change from the one before."""
        former_records = {} if self._version is None else self._version.records
        self._files = remember(adapters.files, compiled, self._files, former_records)
        inputs = OldVersion(
            files=self._files,
            tokenizers=adapters.tokenizers.with_project_files(self._files.read),
            encoder=adapters.encoder,
        )
        self._version = KnownVersion(compiled, inputs, self._version)
        return self._version


class _CommitComparison:
    """Compares the good builds of one watch with a commit.

    Args:
        open_commit: returns the commit, or raises why there is none.
    """

    def __init__(self, open_commit: OpenBaseline) -> None:
        self._open_commit = open_commit
        self._commit: tuple[Baseline, Side] | None = None
        self._result: DiffResult | None = None

    def since(
        self, adapters: Adapters, version: KnownVersion, former: KnownVersion | None
    ) -> tuple[DiffResult | None, str | None]:
        """Returns the differences from the commit, or why there are none.

        Args:
            adapters: the project as the build read it.
            version: the version that was built.
            former: the version before, which may be the one that was committed.
        """
        try:
            commit = self._open_commit()
            if self._commit is None or self._commit[0].label != commit.label:
                self._commit = commit, self._committed(commit, adapters, version)
                self._result = None
            side = self._commit[1]
            if former is not None and isinstance(side.snapshot, KnownVersion):
                side.snapshot.take_over(former)
            if version is not former or self._result is None:
                known = _still_known(self._result, version, former)
                self._result = _differences(version, side, commit, known)
        except CacheunitError as error:
            self._commit = self._result = None
            return None, error.faults[0].message
        return self._result, None

    def _committed(self, commit: Baseline, adapters: Adapters, version: KnownVersion) -> Side:
        """Returns the commit with the record of each of its artifacts; what differs from now is compiled."""
        old = None if commit.old_version is None else commit.old_version()
        if old is None:
            return old_side(None, commit, None)
        record, selection = adapters.records.valid_record(), version.compiled.selection
        unchanged = None if record is None else record.reusable(cache(old.files.fingerprint))
        folder = version.compiled.settings.prefixes

        def reuse(path: str) -> PrefixRecord | None:
            name = path.removeprefix(f"{folder}/").removesuffix(".yaml")
            return NOT_COMPILED if not selection.includes_manifest(name) else unchanged and unchanged(path)

        return old_side(old, commit, reuse)


def _differences(
    new: KnownVersion, old: Side, baseline: Baseline, known: Mapping[ArtifactKey, Difference] | None = None
) -> DiffResult:
    """Returns the differences from an older version, of which only artifacts that differ are compiled.

    Args:
        new: the version that was built.
        old: the older version.
        baseline: its name.
        known: differences that are as they were.
    """
    known = known or {}
    former = old.snapshot
    if not isinstance(former, KnownVersion):
        return compare(new, old, baseline, known)
    changed = _changed_keys(new, former)
    new.require(changed - known.keys())
    added = changed - former.records.keys()
    is_partial = bool(added) and len(former.records) > MOST_COMPARED_WITH_ADDED
    required = former.records.keys() if added and not is_partial else changed - known.keys()
    former.require(required)
    only = None if old.faults else changed  # the lock stands for what does not compile
    return compare(new, replace(old, is_partial=is_partial, only=only), baseline, known)


def _still_known(
    result: DiffResult | None, version: KnownVersion, former: KnownVersion | None
) -> dict[ArtifactKey, Difference]:
    """Returns the differences of an earlier comparison that hold for a later version too.

    Args:
        result: the earlier comparison; None for none.
        version: the later version.
        former: the version that was compared then.
    """
    if result is None or former is None or _settings(version.files) != _settings(former.files):
        return {}
    return {
        item.key: item
        for item in result.differences
        if item.key in former.records and same_record(version.records.get(item.key), former.records[item.key])
    }


def _is_same(version: KnownVersion, records: tuple[ArtifactRecord, ...], files: SourceFiles) -> bool:
    """Returns whether a version has these records and settings, so that its targets are the same too."""
    return tuple(version.records.values()) == records and _settings(version.files) == _settings(files)


def _settings(files: SourceFiles) -> list[bytes | None]:
    return [files.read(path) for path in SETTINGS_FILES]


def _changed_keys(new: KnownVersion, old: KnownVersion) -> set[ArtifactKey]:
    """Returns the artifacts that only one of two versions has, or that differ, or whose target changed."""
    targets = old.compiled.identities.keys() | new.compiled.identities.keys()
    changed = {name for name in targets if old.compiled.identities.get(name) != new.compiled.identities.get(name)}
    keys = old.records.keys() ^ new.records.keys()
    for key, record in new.records.items():
        former = old.records.get(key, record)
        if key[1] in changed or (former is not record and former.entry != record.entry):
            keys.add(key)
    return keys
