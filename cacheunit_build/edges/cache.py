"""`.cacheunit/`: what each artifact was made from. Deleting or breaking it changes no output."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from cacheunit_build.model import Artifact, Entry

Inputs = dict[str, str | None]


class InputRecord:
    """Per artifact, the lock entry and the fingerprint of every file that was looked for to make it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "inputs.json"

    def of(self, prefix: str, target: str, entry: Entry) -> Inputs | None:
        """The inputs that gave exactly `entry`, None where that is not known."""
        record = self._load().get(f"{prefix} {target}")
        if not isinstance(record, dict) or record.get("entry") != asdict(entry):
            return None
        inputs = record.get("inputs")
        return inputs if isinstance(inputs, dict) else None

    def note(self, artifacts: Iterable[Artifact], kept: Iterable[tuple[str, str]]) -> None:
        """Remembers the inputs of `artifacts`, keeps those of `kept`, drops the rest. Failing to write is no fault."""
        old = self._load()
        records: dict[str, Any] = {name: old[name] for name in map(" ".join, kept) if name in old}
        for artifact in artifacts:
            inputs = {lookup.path: lookup.found for lookup in artifact.lookups}
            records[" ".join(artifact.key)] = {"entry": asdict(artifact.entry), "inputs": inputs}
        if records == old:
            return
        try:
            temporary = self._path.with_suffix(".tmp")
            temporary.write_text(json.dumps(records, ensure_ascii=False, indent=1), encoding="utf-8")
            temporary.replace(self._path)
        except OSError:
            return

    def _load(self) -> Mapping[str, Any]:
        try:
            loaded = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        return loaded if isinstance(loaded, dict) else {}
