"""What the builds of a project recorded in the user's cache: the record of the last one, and the stats of its files.

The cache can be deleted, damaged or shared at any time: then there is no record.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from cacheunit_build.adapters.storage.build_stamp import read_stamp, write_stamp
from cacheunit_build.adapters.storage.cache_file import TEMPORARY_SUFFIX, file_system_time, write_cache_file
from cacheunit_build.adapters.storage.file_stat import Stat, read_regular_file, surely_before
from cacheunit_build.adapters.storage.record_file import RecordFile, locked_by, read_record_file, write_record_file
from cacheunit_build.adapters.storage.toolchain import software, vocabularies_unchanged, vocabulary_state
from cacheunit_build.domain.file_names import LOCK_FILE
from cacheunit_build.domain.fingerprint import fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from cacheunit_build.adapters.storage.cache_folder import CacheFolder
    from cacheunit_build.adapters.storage.toolchain import VocabularyState
    from cacheunit_build.domain.artifact import ArtifactRecord
    from cacheunit_build.domain.build_record import BuildRecord

    Outputs = Callable[[Sequence[ArtifactRecord]], Mapping[str, str]]

_RECORD = "record.json"
_ROOT = "root"
"""The file with the path of the project, so that the cache of one that no longer exists can be removed."""


class BuildCache:
    """The record of a project's last build, in one file.

    Where the project has no record, that of another checkout with the very same lock serves; what it says is compared
    with this project's files, by content.

    An unchanged stat means unchanged content only if the file last changed before the build that recorded it began, by
    the clock of the file system, and only for a build: a check reads every file.

    Args:
        folder: the project's part of the user's cache, which need not exist.
        outputs: returns what a build and a check print that have nothing to do, by command and report format; without
            it, no stamp is written.
        for_build: whether a build asks, which may believe stats, and writes.
        parsed: the cache file as it was parsed before, used while its digest is the same.
        trusts_remote: returns whether records are believed that are from a remote cache at that URL; by default, none.
    """

    def __init__(
        self,
        folder: CacheFolder,
        outputs: Outputs | None = None,
        *,
        for_build: bool = False,
        parsed: RecordFile | None = None,
        trusts_remote: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._cache = folder
        self._folder = folder.project
        self._outputs = outputs
        self._for_build = for_build
        self._begun = 0
        self._parsed = parsed
        self._trusts_remote = trusts_remote
        self._written: RecordFile | None = None

    def reopened(self) -> BuildCache:
        """Returns the cache as it is now on disk; its file is parsed only if it changed since it was last parsed."""
        return BuildCache(
            self._cache,
            self._outputs,
            for_build=self._for_build,
            parsed=self._latest,
            trusts_remote=self._trusts_remote,
        )

    @property
    def has_stamp(self) -> bool:
        """Whether there is a stamp of the last build."""
        return read_stamp(self._cache) is not None

    @cached_property
    def problem(self) -> str | None:
        """Why nothing can be cached, None where it can be. For a build, the cache folder is created."""
        return self._cache.prepare() if self._for_build else self._cache.problem()

    @property
    def vocabularies(self) -> Path | None:
        """The folder of parsed vocabularies; None where nothing can be cached."""
        return None if self.problem is not None else Path(self._cache.vocabularies)

    def start(self) -> None:
        """Marks the time at which a build begins to read; later calls change nothing."""
        if not self._begun and self.problem is None:
            self._begun = file_system_time(self._cache.root, self._folder)

    def valid_record(self) -> BuildRecord | None:
        """Returns the last record, if package, interpreter, libraries and vocabularies did not change.

        What is from a remote cache that is not trusted is left out.
        """
        record = self.last_record() if self._made_with_present_software else None
        return None if record is None else record.without_remotes(self._trusts_remote)

    def last_record(self) -> BuildRecord | None:
        """Returns the last record, even if the software or a vocabulary has changed since."""
        return self._latest.record

    def recorded_files(self) -> Mapping[str, tuple[str, Stat]]:
        """Returns path -> fingerprint and stat of the files that this checkout's last build saw; none for a check."""
        if not self._for_build or self._latest.of_other_checkout:
            return {}
        return self._latest.files

    def trusted_before(self) -> int:
        """Returns the time, in nanoseconds, from which on a changed file must be read, whatever its stat."""
        return surely_before(max(self._latest.begun, self._confirmed()))

    def save(
        self, record: BuildRecord, vocabularies: Mapping[str, str], observed: Mapping[str, tuple[str, Stat]]
    ) -> None:
        """Writes the record, if it is new. A failure is ignored.

        Args:
            record: the record of a build.
            vocabularies: the sources of the vocabularies that it used, with the sha256 of each file.
            observed: path -> fingerprint and stat of the project's files that it read or wrote.
        """
        if self.problem is not None or self._software is None:
            return
        kept = self._latest.vocabularies if self._made_with_present_software else {}
        used = {source: digest for source, (*_, digest) in kept.items()} | dict(vocabularies)
        states = {
            source: vocabulary_state(source, used[source], self._begun, kept.get(source)) for source in sorted(used)
        }
        known = {source: state for source, state in states.items() if state is not None}
        if len(known) < len(states):  # one was replaced while it was used
            return
        latest = self._latest
        unchanged = latest.record == record and latest.files == observed and not latest.of_other_checkout
        if unchanged and (latest.software, latest.vocabularies) == (self._software, known):
            self.confirm(observed)
            return
        self._write(record, known, observed)
        self._write_stamp(record, observed, known, {})
        self._sweep()

    def _write(
        self,
        record: BuildRecord,
        vocabularies: Mapping[str, VocabularyState],
        observed: Mapping[str, tuple[str, Stat]],
    ) -> None:
        contents = RecordFile(software=self._software, vocabularies=vocabularies, begun=self._begun, files=observed)
        self._written = write_record_file(Path(self._folder, _RECORD), contents, record)
        write_cache_file(f"{self._folder}/{_ROOT}", os.fsencode(self._cache.root))

    def confirm(self, observed: Mapping[str, tuple[str, Stat]], outputs: Mapping[str, str] | None = None) -> None:
        """Records that all files match the last record, so that the next build need not read them again.

        Args:
            observed: path -> fingerprint and stat of the project's files.
            outputs: further outputs of a build with nothing to do, by command and report format.
        """
        record = self.last_record()
        if record is None or self.problem is not None:
            return
        vocabularies = self._latest.vocabularies
        if self._latest.of_other_checkout:
            self._write(record, vocabularies, observed)
        else:
            write_cache_file(f"{self._folder}/seen.json", json.dumps([self._latest.digest, self._begun]).encode())
        self._write_stamp(record, observed, vocabularies, outputs or {})

    def _write_stamp(
        self,
        record: BuildRecord,
        observed: Mapping[str, tuple[str, Stat]],
        vocabularies: Mapping[str, VocabularyState],
        more_outputs: Mapping[str, str],
    ) -> None:
        if self._outputs is None:
            return
        made_with = {"software": self._software, "vocabularies": vocabularies, "begun": self._begun}
        outputs = self._outputs(record.artifacts)
        write_stamp(self._folder, record, observed, made_with, {**outputs, **more_outputs})

    def _sweep(self) -> None:
        """Removes what killed builds left, and the caches of projects that no longer exist.

        Another build may be writing a file that is removed here: then it is written the next time.
        """
        for top in (self._folder, self._cache.vocabularies):
            with contextlib.suppress(OSError):
                for path in Path(top).glob(f"*{TEMPORARY_SUFFIX}"):
                    path.unlink()
        with contextlib.suppress(OSError):
            for folder in Path(self._cache.projects).iterdir():
                with contextlib.suppress(OSError):
                    if not Path(os.fsdecode((folder / _ROOT).read_bytes())).is_dir():
                        shutil.rmtree(folder)

    def _confirmed(self) -> int:
        """Returns the time at which all files were last seen to be as in the present record."""
        try:
            digest, begun = json.loads(Path(self._folder, "seen.json").read_bytes())
        except (OSError, ValueError, TypeError, RecursionError):
            return 0
        return begun if digest == self._latest.digest and isinstance(begun, int) else 0

    @cached_property
    def _made_with_present_software(self) -> bool:
        if self._latest.record is None or self._latest.software != self._software:
            return False
        try:
            return vocabularies_unchanged(self._latest.vocabularies, trust_stats=self._for_build)
        except OSError:
            return False

    @property
    def _latest(self) -> RecordFile:
        """The record to use: this checkout's, else that of another checkout with the same lock, else an empty one."""
        return self._written or self._read

    @cached_property
    def _read(self) -> RecordFile:
        if self.problem is not None:
            return RecordFile()
        own = Path(self._folder, _RECORD)
        return self._parse(own) or next(
            filter(None, map(self._parse_other, self._records_of_same_lock(own))), RecordFile()
        )

    def _records_of_same_lock(self, own: Path) -> Iterator[Path]:
        """Yields the records of other checkouts whose lock has the bytes of this project's lock."""
        try:
            lock = fingerprint(read_regular_file(f"{self._cache.root}/{LOCK_FILE}")).encode()
            folders = list(Path(self._cache.projects).iterdir())
        except OSError:
            return
        for path in (folder / _RECORD for folder in folders):
            with contextlib.suppress(OSError):
                if path != own and locked_by(path) == lock:
                    yield path

    def _parse_other(self, path: Path) -> RecordFile | None:
        parsed = self._parse(path)
        return None if parsed is None else replace(parsed, of_other_checkout=True)

    def _parse(self, path: Path) -> RecordFile | None:
        parsed = read_record_file(path, self._parsed)
        return None if parsed is None else replace(parsed, of_other_checkout=False)

    @cached_property
    def _software(self) -> dict[str, str] | None:
        """The identity of the present software; None where it cannot be read."""
        try:
            return software()
        except OSError:
            return None
