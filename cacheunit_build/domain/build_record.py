"""The record of a build, from which the next build knows what it need not compile again.

For each manifest it has the fingerprint of every file that was looked for, absent ones included, and the artifacts that
these files gave. While no fingerprint, setting or program changes, nothing is parsed, rendered or counted again.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.artifact import ArtifactRecord, PaddingPlan, locked_files
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.file_names import LOCK_FILE, is_artifact_name
from cacheunit_build.domain.lock import Lock, LockEntry, TargetIdentity, entry_from, identity_data, identity_from
from cacheunit_build.domain.prompt import Lookup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    FingerprintOf = Callable[[str], str | None]

_ENTRY_FIELDS = tuple(field.name for field in fields(LockEntry))


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixRecord:
    """The record of one manifest.

    Attributes:
        inputs: path -> fingerprint of every file that was looked for, None where there was no such file.
        artifacts: what these files gave.
        identities: the identity of each target, by name.
    """

    inputs: Mapping[str, str | None]
    artifacts: tuple[ArtifactRecord, ...]
    identities: Mapping[str, TargetIdentity]

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


def record_data(record: BuildRecord) -> dict[str, Any]:
    """Returns a record as JSON values; each identity is listed once, and prefixes have its index."""
    identities: list[TargetIdentity] = []
    prefixes = {path: _prefix_data(prefix, identities) for path, prefix in record.prefixes.items()}
    return {
        "settings": dict(record.settings),
        "folders": list(record.folders),
        "lock": record.lock,
        "identities": [identity_data(identity) for identity in identities],
        "prefixes": prefixes,
    }


def prefix_data(prefix: PrefixRecord) -> dict[str, Any]:
    """Returns the record of one manifest as JSON values that need no others."""
    identities: list[TargetIdentity] = []
    data = _prefix_data(prefix, identities)
    return {"record": data, "identities": [identity_data(identity) for identity in identities]}


def parse_prefix(data: Any) -> PrefixRecord | None:  # noqa: ANN401 - JSON that anybody may have written
    """Returns the record in JSON values as `prefix_data` returns them, None where they are not one."""
    try:
        return _parse_prefix(data["record"], [identity_from(identity) for identity in data["identities"]])
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return None


def _prefix_data(prefix: PrefixRecord, identities: list[TargetIdentity]) -> dict[str, Any]:
    """Returns the record of one manifest as JSON values, and adds identities that are not in the list yet."""
    indexes = {}
    for name, identity in prefix.identities.items():
        if identity not in identities:
            identities.append(identity)
        indexes[name] = identities.index(identity)
    return {
        "inputs": dict(prefix.inputs),
        "identities": indexes,
        "artifacts": [
            {
                "key": list(artifact.key),
                "entry": {name: getattr(artifact.entry, name) for name in _ENTRY_FIELDS},
                "plan": [artifact.plan.action, artifact.plan.reason],
                "lookups": [lookup.path for lookup in artifact.lookups],
            }
            for artifact in prefix.artifacts
        ],
    }


def parse_record(data: Any) -> BuildRecord | None:  # noqa: ANN401 - JSON that anybody may have written
    """Returns the record in JSON values, None where they are not a record."""
    try:
        prefixes, templates, build = data["folders"]
        identities = [identity_from(identity) for identity in data["identities"]]
        return BuildRecord(
            settings=dict(data["settings"].items()),
            folders=(prefixes, templates, build),
            lock=data["lock"],
            prefixes={path: _parse_prefix(prefix, identities) for path, prefix in data["prefixes"].items()},
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return None


def _parse_prefix(data: Mapping[str, Any], all_identities: Sequence[TargetIdentity]) -> PrefixRecord:
    inputs = data["inputs"]
    if not all(is_artifact_name(*artifact["key"]) for artifact in data["artifacts"]):
        raise ValueError("a name that no artifact has")
    identities = {name: all_identities[index] for name, index in data["identities"].items()}
    artifacts = tuple(
        ArtifactRecord(
            prefix=artifact["key"][0],
            target=artifact["key"][1],
            entry=entry_from(artifact["entry"]),
            unit=identities[artifact["key"][1]].cache.unit or 0,
            plan=PaddingPlan(action=artifact["plan"][0], goal=None, reason=artifact["plan"][1]),
            lookups=tuple(Lookup(path=path, fingerprint=inputs[path]) for path in artifact["lookups"]),
        )
        for artifact in data["artifacts"]
    )
    return PrefixRecord(inputs=dict(inputs.items()), artifacts=artifacts, identities=identities)
