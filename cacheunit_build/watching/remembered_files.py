"""The sources of the last good build, kept in memory: the files themselves change with the next save."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from cacheunit_build.diff.known_version import same_record
from cacheunit_build.domain.file_names import SETTINGS_FILES
from cacheunit_build.domain.fingerprint import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cacheunit_build.compiler.project import CompiledProject
    from cacheunit_build.domain.artifact import ArtifactRecord
    from cacheunit_build.domain.lock import ArtifactKey
    from cacheunit_build.domain.protocols import SourceFiles


class RememberedFiles:
    """Files as they were when they were read; implements the protocol `SourceFiles`.

    Args:
        contents: path -> bytes; None where there was no such file.
    """

    def __init__(self, contents: Mapping[str, bytes | None]) -> None:
        self.contents = contents
        self.fingerprint = cache(self._fingerprint)

    def read(self, path: str) -> bytes | None:
        """Returns the bytes of a file; None where there was none, or no build looked for it."""
        return self.contents.get(path)

    def _fingerprint(self, path: str) -> str | None:
        """Returns the fingerprint of a file; None where there was none."""
        data = self.read(path)
        return None if data is None else fingerprint(data)

    def has_folder(self, folder: str) -> bool:
        """Returns whether there was a file below a folder."""
        return any(path.startswith(f"{folder}/") for path in self.contents)

    def walk(self, folder: str) -> list[str]:
        """Returns the paths of the files below a folder that a build read, in code point order."""
        return sorted(
            path for path, data in self.contents.items() if data is not None and path.startswith(f"{folder}/")
        )

    def twins(self, _paths: Iterable[str]) -> Mapping[str, str]:
        """Returns nothing, since the build refused twins."""
        return {}


def remember(
    files: SourceFiles,
    compiled: CompiledProject,
    former: RememberedFiles | None,
    former_records: Mapping[ArtifactKey, ArtifactRecord],
) -> RememberedFiles:
    """Returns the sources of a build; only those of artifacts that changed are read.

    Args:
        files: the files of the build, which it has read.
        compiled: what the build compiled and reused.
        former: the sources of the build before; None for the first.
        former_records: the records of the build before.
    """
    kept = {} if former is None else former.contents
    folder = f"{compiled.settings.prefixes}/"
    gone = {path for path in kept if path.startswith(folder) and path.endswith(".yaml")} - compiled.manifests
    contents = {path: data for path, data in kept.items() if path not in gone} if gone else dict(kept)
    changed = [record for record in compiled.records if not same_record(former_records.get(record.key), record)]
    paths = {lookup.path for record in changed for lookup in record.lookups}
    contents |= {path: files.read(path) for path in (*SETTINGS_FILES, *sorted(paths))}
    return RememberedFiles(contents)
