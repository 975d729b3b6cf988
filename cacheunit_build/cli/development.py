"""Compiles prefixes from their sources for programs under development, as `load(…, dev=True)` asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.builder.up_to_date import reusable_records
from cacheunit_build.cli.context import Context
from cacheunit_build.compiler.project import compile_or_fail
from cacheunit_build.domain.file_names import SETTINGS_FILES
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cacheunit_build.cli.context import OpenProject
    from cacheunit_build.domain.lock import ArtifactKey, LockEntry, TargetIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class DevelopedPrefix:
    """A prefix as its sources are now.

    Attributes:
        entry: the entry that a build would lock.
        identity: the identity of its target that a build would lock.
        files: the bytes of its text, of its request fragment, and of the body of its cached content if it has one; None
            where they are unchanged since the last build.
    """

    entry: LockEntry
    identity: TargetIdentity
    files: tuple[bytes, bytes, bytes | None] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compiled:
    """What was compiled last for one name, and the fingerprint of each file that decided it."""

    inputs: Mapping[str, str | None]
    prefixes: Mapping[ArtifactKey, DevelopedPrefix]


_open: dict[str, OpenProject] = {}
"""The projects that are open, by root, so that vocabularies stay loaded."""
_last: dict[tuple[str, str, str | None], _Compiled] = {}


def compile_prefix(root: Path, name: str, target: str | None) -> Mapping[ArtifactKey, DevelopedPrefix]:
    """Returns a prefix, or all its variants, as the sources are now. Nothing is written.

    Args:
        root: the root of the project.
        name: a prefix or variant.
        target: the target; None for all of the prefix.

    Raises:
        CacheunitError: every fault in the sources.
    """
    project = _project(root)
    files = project.files

    def fingerprint_of(path: str) -> str | None:
        data = files.read(path)
        return None if data is None else fingerprint(data)

    key = str(root), name, target
    last = _last.get(key)
    if last is not None and all(fingerprint_of(path) == before for path, before in last.inputs.items()):
        return last.prefixes
    reuse = reusable_records(project.adapters.records, fingerprint_of, files)
    selection = Selection(names=(name,), targets=() if target is None else (target,))
    compiled = compile_or_fail(project.adapters, selection, reuse=reuse)
    prefixes = {
        record.key: DevelopedPrefix(entry=record.entry, identity=compiled.identities[record.target], files=None)
        for record in compiled.reused
    }
    for artifact in compiled.artifacts:
        data = artifact.text, artifact.request, artifact.cached_content
        identity = compiled.identities[artifact.target]
        prefixes[artifact.key] = DevelopedPrefix(entry=artifact.entry, identity=identity, files=data)
    inputs = {item.path: item.fingerprint for record in compiled.records for item in record.lookups}
    inputs |= {path: fingerprint_of(path) for path in SETTINGS_FILES}
    if all(loaded.traceable for loaded in compiled.targets.values()):
        _last[key] = _Compiled(inputs=inputs, prefixes=prefixes)
    return prefixes


def _project(root: Path) -> OpenProject:
    """Returns the project at a root as it is now on disk."""
    former = _open.get(str(root))
    project = Context(root, quiet=True, verbose=False).project() if former is None else former.reopened()
    _open[str(root)] = project
    return project
