"""The record of a build, from which the next build knows what it need not compile again.

For each manifest it has the fingerprint of every file that was looked for, absent ones included, and the artifacts that
these files gave. While no fingerprint, setting or program changes, nothing is parsed, rendered or counted again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.artifact import ArtifactRecord, PaddingPlan, locked_files
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.file_names import LOCK_FILE, is_artifact_name
from cacheunit_build.domain.lock import Lock, TargetIdentity, entry_data, entry_from, identity_data, identity_from
from cacheunit_build.domain.prompt import Lookup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    FingerprintOf = Callable[[str], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixRecord:
    """The record of one manifest.

    Attributes:
        inputs: path -> fingerprint of every file that was looked for, None where there was no such file.
        artifacts: what these files gave.
        identities: the identity of each target, by name.
        remote: the URL of the remote cache that it is from; None where it was compiled here.
    """

    inputs: Mapping[str, str | None]
    artifacts: tuple[ArtifactRecord, ...]
    identities: Mapping[str, TargetIdentity]
    remote: str | None = None

    def matches(self, fingerprint_of: FingerprintOf) -> bool:
        """Returns whether no input changed; `fingerprint_of` returns the present fingerprint of a file."""
        return all(fingerprint_of(path) == fingerprint for path, fingerprint in self.inputs.items())

    def locked_files(self, folder: str) -> dict[str, str]:
        """Returns path -> fingerprint of the files of its artifacts in the build folder."""
        files: dict[str, str] = {}
        for artifact in self.artifacts:
            files |= locked_files(artifact.key, artifact.entry, folder)
        return files


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRecord:
    """The record of one build of a whole project.

    Attributes:
        settings: path -> fingerprint of each file that may hold settings, None where there was no such file.
        folders: the folders of manifests, templates and artifacts.
        lock: the fingerprint of the lockfile; None where the records do not give exactly that lock.
        prefixes: the record of each manifest, by its path.
    """

    settings: Mapping[str, str | None]
    folders: tuple[str, str, str]
    lock: str | None
    prefixes: Mapping[str, PrefixRecord]

    def settings_match(self, fingerprint_of: FingerprintOf) -> bool:
        """Returns whether the settings did not change; `fingerprint_of` returns the present fingerprint of a file."""
        return all(fingerprint_of(path) == fingerprint for path, fingerprint in self.settings.items())

    @property
    def artifacts(self) -> list[ArtifactRecord]:
        """The records of all artifacts, by manifest."""
        return [artifact for prefix in self.prefixes.values() for artifact in prefix.artifacts]

    @property
    def remotes(self) -> frozenset[str]:
        """The URLs of the remote caches that records are from."""
        return frozenset(prefix.remote for prefix in self.prefixes.values() if prefix.remote is not None)

    def without_remotes(self, trusted: Callable[[str], bool]) -> BuildRecord:
        """Returns the record with what was compiled here, or is from a remote cache whose URL is trusted."""
        if all(map(trusted, self.remotes)):
            return self
        kept = {
            path: prefix for path, prefix in self.prefixes.items() if prefix.remote is None or trusted(prefix.remote)
        }
        return replace(self, prefixes=kept, lock=None)

    def reusable(self, *versions: FingerprintOf) -> Callable[[str], PrefixRecord | None] | None:
        """Returns a function from a manifest path to its record, where its inputs are as recorded in all versions.

        Args:
            versions: for each version of the project, a function that returns the fingerprint of a file in it.

        Returns:
            None where the settings changed in one of the versions.
        """
        if not all(map(self.settings_match, versions)):
            return None
        return lambda path: self.unchanged_prefix(path, *versions)

    def unchanged_prefix(self, path: str, *versions: FingerprintOf) -> PrefixRecord | None:
        """Returns the record of the manifest at `path` if its inputs are as recorded in each of `versions`, else None.

        A version is a function that returns the fingerprint of a file in it. A file that cannot be read is a change.
        """
        prefix = self.prefixes.get(path)
        try:
            return prefix if prefix is not None and all(map(prefix.matches, versions)) else None
        except CacheunitError:  # compiling it reports the fault, with its place
            return None

    def lock_contents(self) -> Lock | None:
        """Returns the lock with the entries of these records; None if they disagree about the identity of a target."""
        targets: dict[str, TargetIdentity] = {}
        for prefix in self.prefixes.values():
            for name, identity in prefix.identities.items():
                if targets.setdefault(name, identity) != identity:
                    return None
        return Lock(targets=targets, entries={artifact.key: artifact.entry for artifact in self.artifacts})

    def artifact_files(self) -> dict[str, str]:
        """Returns path -> fingerprint of every file that belongs into the build folder."""
        files: dict[str, str] = {}
        for prefix in self.prefixes.values():
            files |= prefix.locked_files(self.folders[2])
        return files

    def all_files(self) -> dict[str, str | None] | None:
        """Returns path -> fingerprint of every file that decides whether a build has anything to do.

        None where the lock is not the one that these records give, or two of them saw different states of one file.
        """
        files: dict[str, str | None] = {**self.settings, LOCK_FILE: self.lock, **self.artifact_files()}
        inputs = [item for prefix in self.prefixes.values() for item in prefix.inputs.items()]
        agree = all(files.setdefault(path, fingerprint) == fingerprint for path, fingerprint in inputs)
        return files if agree and self.lock is not None else None


def prefix_record(artifacts: Iterable[ArtifactRecord], identities: Mapping[str, TargetIdentity]) -> PrefixRecord:
    """Returns the record of one manifest.

    Args:
        artifacts: the records of its artifacts.
        identities: the identity of each target, by name.
    """
    stored = tuple(_as_stored(artifact) for artifact in artifacts)
    return PrefixRecord(
        inputs={lookup.path: lookup.fingerprint for artifact in stored for lookup in artifact.lookups},
        artifacts=stored,
        identities={artifact.target: identities[artifact.target] for artifact in stored},
    )


def _as_stored(artifact: ArtifactRecord) -> ArtifactRecord:
    """Returns the record without what is not stored: the goal of padding, and which file asked for another."""
    return replace(
        artifact,
        plan=replace(artifact.plan, goal=None),
        lookups=tuple(Lookup(path=lookup.path, fingerprint=lookup.fingerprint) for lookup in artifact.lookups),
    )


def header_data(record: BuildRecord) -> dict[str, Any]:
    """Returns what a record has beside its prefixes, as JSON values; each identity is listed once."""
    return {
        "settings": dict(record.settings),
        "folders": list(record.folders),
        "lock": record.lock,
        "identities": [identity_data(identity) for identity in _identities(record)[0]],
    }


def prefixes_data(record: BuildRecord) -> Iterator[tuple[str, Any]]:
    """Yields path and record of each manifest, as JSON values; artifacts have the index of their target's identity."""
    _, index_of = _identities(record)
    for path, prefix in record.prefixes.items():
        indexes = {name: index_of[id(identity)] for name, identity in prefix.identities.items()}
        artifacts = [_artifact_data(item, indexes, prefix.inputs) for item in prefix.artifacts]
        yield path, [prefix.inputs, prefix.remote, artifacts]


def prefix_data(prefix: PrefixRecord) -> dict[str, Any]:
    """Returns the record of one manifest as JSON values that need no others."""
    record = BuildRecord(settings={}, folders=("", "", ""), lock=None, prefixes={"": prefix})
    ((_, data),) = prefixes_data(record)
    return {"header": header_data(record), "prefix": data}


def parse_prefix(data: Any) -> PrefixRecord | None:  # noqa: ANN401 - JSON that anybody may have written
    """Returns the record in JSON values as `prefix_data` returns them, None where they are not one."""
    try:
        parser = RecordParser(data["header"])
        parser.add("", data["prefix"])
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return None
    return parser.record().prefixes[""]


def _identities(record: BuildRecord) -> tuple[list[TargetIdentity], dict[int, int]]:
    """Returns the identities of a record, each once, and the index of each by the `id` of the object."""
    identities: list[TargetIdentity] = []
    index_of: dict[int, int] = {}
    for prefix in record.prefixes.values():
        for identity in prefix.identities.values():
            if id(identity) not in index_of:
                if identity not in identities:
                    identities.append(identity)
                index_of[id(identity)] = identities.index(identity)
    return identities, index_of


def _artifact_data(
    artifact: ArtifactRecord, indexes: Mapping[str, int], inputs: Mapping[str, str | None]
) -> list[object]:
    """Returns the record of an artifact as JSON values: its files are left out where all inputs are looked for."""
    paths: list[str] | None = [lookup.path for lookup in artifact.lookups]
    paths = None if paths == list(inputs) else paths
    plan = artifact.plan
    key = (artifact.prefix, artifact.target, indexes[artifact.target])
    return [*key, entry_data(artifact.entry), plan.action, plan.reason, paths]


class RecordParser:
    """Makes a record from JSON values that anybody may have written, one manifest after the other.

    Equal texts become one object, since a record has the same paths and fingerprints many times.

    Args:
        header: what `header_data` returned.

    Raises:
        KeyError, IndexError, TypeError, ValueError, AttributeError: they are not a record, here or in `add`.
    """

    def __init__(self, header: Any) -> None:  # noqa: ANN401 - JSON that anybody may have written
        prefixes, templates, build = header["folders"]
        self._identities = [identity_from(identity) for identity in header["identities"]]
        self._record = BuildRecord(
            settings=dict(header["settings"].items()),
            folders=(prefixes, templates, build),
            lock=header["lock"],
            prefixes={},
        )
        self._prefixes: dict[str, PrefixRecord] = {}
        self._texts: dict[str, str] = {}
        self._lookups: dict[tuple[str, str | None], Lookup] = {}
        self._plans: dict[tuple[str, str], PaddingPlan] = {}

    def shared(self, text: str) -> str:
        """Returns the first text that was equal to this one."""
        return self._texts.setdefault(text, text)

    def add(self, path: str, data: Any) -> None:  # noqa: ANN401 - JSON that anybody may have written
        """Adds the record of the manifest at a path."""
        inputs, remote, artifacts = data
        inputs = {self.shared(name): value and self.shared(value) for name, value in inputs.items()}
        everything = tuple(self._lookup(*item) for item in inputs.items())
        records = tuple(self._artifact(inputs, everything, *artifact) for artifact in artifacts)
        identities = {
            record.target: self._identities[artifact[2]] for record, artifact in zip(records, artifacts, strict=True)
        }
        self._prefixes[self.shared(path)] = PrefixRecord(
            inputs=inputs, artifacts=records, identities=identities, remote=remote and self.shared(remote)
        )

    def record(self) -> BuildRecord:
        """Returns the record with what was added."""
        return replace(self._record, prefixes=self._prefixes)

    def _artifact(  # noqa: PLR0913, PLR0917 - the values of a list
        self,
        inputs: Mapping[str, str | None],
        everything: tuple[Lookup, ...],
        prefix: str,
        target: str,
        index: int,
        entry: object,
        action: str,
        reason: str,
        paths: Sequence[str] | None,
    ) -> ArtifactRecord:
        if not is_artifact_name(prefix, target):
            raise ValueError("a name that no artifact has")
        lookups = everything if paths is None else tuple(self._lookup(path, inputs[path]) for path in paths)
        plan = self._plans.get((action, reason))
        if plan is None:
            plan = self._plans[action, reason] = PaddingPlan(action=action, goal=None, reason=reason)
        return ArtifactRecord(
            prefix=self.shared(prefix),
            target=self.shared(target),
            entry=entry_from(entry),
            unit=self._identities[index].cache.unit or 0,
            plan=plan,
            lookups=lookups,
        )

    def _lookup(self, path: str, fingerprint: str | None) -> Lookup:
        key = path, fingerprint
        lookup = self._lookups.get(key)
        if lookup is None:
            lookup = self._lookups[key] = Lookup(path=path, fingerprint=fingerprint)
        return lookup
