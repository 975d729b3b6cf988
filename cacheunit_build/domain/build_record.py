"""What a build remembers, so that the next one need not do again what still holds. Standard library only.

A trace of a manifest is every file that was looked for, absent ones included, with the fingerprint of what was found,
and the outcomes that they gave. While all of them are as they were, and so are the settings and the software, nothing
is parsed, rendered or counted.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from cacheunit_build.domain.models import (
    ArtifactRecord,
    Lock,
    LockEntry,
    Lookup,
    PaddingPlan,
    TargetIdentity,
    artifact_paths,
)
from cacheunit_build.domain.protocols import LOCK_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


_FIELDS = tuple(field.name for field in fields(LockEntry))


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixRecord:
    """One manifest: path -> fingerprint of every file that was looked for (None: absent), and what they gave.

    `identities` are those of its targets as they were then.
    """

    inputs: Mapping[str, str | None]
    outcomes: tuple[ArtifactRecord, ...]
    identities: Mapping[str, TargetIdentity]

    def holds(self, found: Callable[[str], str | None]) -> bool:
        """Whether every file is as it was; `found` gives the fingerprint that a file has now."""
        return all(found(path) == fingerprint for path, fingerprint in self.inputs.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRecord:
    """One whole build: settings files, folders (manifests, templates, artifacts), the lock's fingerprint, traces."""

    settings: Mapping[str, str | None]
    folders: tuple[str, str, str]
    lock: str | None
    traces: Mapping[str, PrefixRecord]

    def settled(self, found: Callable[[str], str | None]) -> bool:
        """Whether the settings are as they were."""
        return all(found(path) == fingerprint for path, fingerprint in self.settings.items())

    @property
    def outcomes(self) -> list[ArtifactRecord]:
        """What all traces gave."""
        return [outcome for trace in self.traces.values() for outcome in trace.outcomes]

    def locked(self) -> Lock | None:
        """The lock that these traces give; None where they were made with different states of one target."""
        targets: dict[str, TargetIdentity] = {}
        for trace in self.traces.values():
            for name, identity in trace.identities.items():
                if targets.setdefault(name, identity) != identity:
                    return None
        return Lock(targets=targets, entries={outcome.key: outcome.entry for outcome in self.outcomes})

    def artifact_files(self) -> dict[str, str]:
        """Path -> fingerprint of every file in the build folder."""
        found = {}
        for outcome in self.outcomes:
            text, request = artifact_paths(*outcome.key, self.folders[2])
            found[text], found[request] = outcome.entry.text, outcome.entry.request
        return found

    def files(self) -> dict[str, str | None] | None:
        """Path -> fingerprint of every file that decides whether there is anything to do (None: absent).

        None where the lock is not that of the traces, or two traces saw different states of one file.
        """
        found: dict[str, str | None] = {**self.settings, LOCK_FILE: self.lock, **self.artifact_files()}
        looked = [item for trace in self.traces.values() for item in trace.inputs.items()]
        agree = all(found.setdefault(path, fingerprint) == fingerprint for path, fingerprint in looked)
        return found if agree and self.lock is not None else None


def trace_of(outcomes: Iterable[ArtifactRecord], identities: Mapping[str, TargetIdentity]) -> PrefixRecord:
    """The trace of the outcomes of one manifest, made with targets of these identities."""
    kept = tuple(_kept(outcome) for outcome in outcomes)
    return PrefixRecord(
        inputs={look.path: look.found for outcome in kept for look in outcome.lookups},
        outcomes=kept,
        identities={outcome.target: identities[outcome.target] for outcome in kept},
    )


def _kept(outcome: ArtifactRecord) -> ArtifactRecord:
    """The outcome as a record says it."""
    return replace(
        ArtifactRecord.of(outcome),
        plan=replace(outcome.plan, goal=None),
        lookups=tuple(Lookup(path=look.path, found=look.found) for look in outcome.lookups),
    )


def record_data(record: BuildRecord) -> dict[str, Any]:
    """A record as plain values."""
    return {
        "settings": dict(record.settings),
        "folders": list(record.folders),
        "lock": record.lock,
        "traces": {path: _trace_data(trace) for path, trace in record.traces.items()},
    }


def _trace_data(trace: PrefixRecord) -> dict[str, Any]:
    return {
        "inputs": dict(trace.inputs),
        "identities": {name: [identity.profile, identity.tokenizer] for name, identity in trace.identities.items()},
        "outcomes": [
            {
                "key": list(outcome.key),
                "entry": {name: getattr(outcome.entry, name) for name in _FIELDS},
                "margin": outcome.margin,
                "plan": [outcome.plan.action, outcome.plan.reason],
                "looked": [lookup.path for lookup in outcome.lookups],
            }
            for outcome in trace.outcomes
        ],
    }


def parse_record(data: Any) -> BuildRecord | None:  # noqa: ANN401
    """The record that `data` says, None where it says none."""
    try:
        prefixes, templates, build = data["folders"]
        return BuildRecord(
            settings=dict(data["settings"].items()),
            folders=(prefixes, templates, build),
            lock=data["lock"],
            traces={path: _parse_trace(trace) for path, trace in data["traces"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _parse_trace(data: Mapping[str, Any]) -> PrefixRecord:
    inputs = data["inputs"]
    outcomes = tuple(
        ArtifactRecord(
            prefix=outcome["key"][0],
            target=outcome["key"][1],
            entry=LockEntry(**outcome["entry"]),
            margin=outcome["margin"],
            plan=PaddingPlan(action=outcome["plan"][0], goal=None, reason=outcome["plan"][1]),
            lookups=tuple(Lookup(path=path, found=inputs[path]) for path in outcome["looked"]),
        )
        for outcome in data["outcomes"]
    )
    identities = {
        name: TargetIdentity(profile=profile, tokenizer=tokenizer)
        for name, (profile, tokenizer) in data["identities"].items()
    }
    return PrefixRecord(inputs=dict(inputs.items()), outcomes=outcomes, identities=identities)
