"""Proves that a build depends on its sources only: it is repeated elsewhere, and the bytes are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cacheunit_build.builder.build import artifact_files
from cacheunit_build.builder.results import Deviation, Proof
from cacheunit_build.compiler.project import compile_or_fail, source_maps
from cacheunit_build.domain.file_names import LOCK_FILE, SETTINGS_FILES
from cacheunit_build.domain.lock import Lock
from cacheunit_build.lockfile.format import lock_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cacheunit_build.compiler.project import CompiledProject
    from cacheunit_build.domain.protocols import Adapters, Rebuild, SourceFiles
    from cacheunit_build.domain.source_map import SourceLine


def prove(adapters: Adapters, rebuild: Rebuild) -> Proof:
    """Builds the project again under other conditions, each time without a cache, and compares all bytes.

    Args:
        adapters: the project.
        rebuild: builds copies of the sources.

    Raises:
        CacheunitError: the project does not compile.
    """
    compiled = compile_or_fail(adapters)
    expected = _outputs(compiled)
    sources = _sources(adapters.files, compiled)
    deviations = []
    for conditions in rebuild.conditions:
        built = rebuild(conditions, sources, (compiled.settings.build, LOCK_FILE))
        if isinstance(built, str):
            deviations.append(Deviation(conditions=conditions, reason=built))
        else:
            path = _first_difference(expected, built)
            if path is not None:
                before, after = expected.get(path, b""), built.get(path, b"")
                offset = _first_differing_byte(before, after)
                source = _source_line(adapters.files, compiled, path, before[:offset])
                deviations.append(Deviation(conditions=conditions, path=path, offset=offset, source=source))
    return Proof(rebuilds=tuple(rebuild.conditions), deviations=tuple(deviations))


def _outputs(compiled: CompiledProject) -> dict[str, bytes]:
    """Returns the bytes of every file that a build writes."""
    files = artifact_files(compiled.artifacts, compiled.settings.build)
    lock = Lock(targets=compiled.identities, entries={record.key: record.entry for record in compiled.records})
    return {**files, LOCK_FILE: lock_bytes(lock)}


def _sources(files: SourceFiles, compiled: CompiledProject) -> dict[str, bytes]:
    """Returns the bytes of every file that the build read."""
    paths = {lookup.path for record in compiled.records for lookup in record.lookups}
    contents = {path: files.read(path) for path in sorted({*paths, *compiled.manifests, *SETTINGS_FILES})}
    return {path: data for path, data in contents.items() if data is not None}


def _first_difference(expected: Mapping[str, bytes], built: Mapping[str, bytes]) -> str | None:
    """Returns the first file that differs: a text, which has a place in a template, before fragments and the lock."""
    different = [path for path in {**expected, **built} if expected.get(path) != built.get(path)]
    return min(different, key=lambda path: (path == LOCK_FILE, not path.endswith(".txt"), path), default=None)


def _first_differing_byte(before: bytes, after: bytes) -> int:
    """Returns the index of the first byte that differs; the length of the shorter one where it begins the other."""
    pairs = enumerate(zip(before, after, strict=False))
    return next((index for index, (left, right) in pairs if left != right), min(len(before), len(after)))


def _source_line(files: SourceFiles, compiled: CompiledProject, path: str, before: bytes) -> SourceLine | None:
    """Returns the line of a template that goes on behind the bytes `before` of a text file; None if there is none."""
    folder = compiled.settings.build
    artifact = next((item for item in compiled.artifacts if path in artifact_files([item], folder)), None)
    if artifact is None or not path.endswith(".txt"):
        return None
    system = source_maps(files, compiled.settings, artifact.variant).system
    offset = len(before.decode("utf-8", "ignore"))
    if not artifact.text.decode().startswith(system.text) or offset > len(system.text):
        return None
    chain = system.at(offset)
    return chain[0] if chain else None
