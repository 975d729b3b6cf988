"""The builds of one watch: what is watched, what each build did, and what stays cached of the former artifacts."""

from __future__ import annotations

import time  # noqa: TID251 - how long a build takes is reported, and decides no byte
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cacheunit_build.builder.build import build
from cacheunit_build.builder.results import BuildResult
from cacheunit_build.builder.up_to_date import unchanged_build
from cacheunit_build.domain.errors import CacheunitError
from cacheunit_build.domain.file_names import LOCK_FILE, SETTINGS_FILES
from cacheunit_build.domain.fingerprint import fingerprint_ids
from cacheunit_build.domain.protocols import WatchedPaths
from cacheunit_build.parsing.settings import parse_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cacheunit_build.builder.results import Gate, ReplacedArtifact
    from cacheunit_build.compiler.loaded_target import LoadedTarget
    from cacheunit_build.domain.artifact import Artifact
    from cacheunit_build.domain.errors import Fault
    from cacheunit_build.domain.lock import ArtifactKey
    from cacheunit_build.domain.protocols import Adapters
    from cacheunit_build.domain.selection import Selection

FOLDERS = ("prefixes", "templates", "build")
"""The folders of manifests, templates and artifacts until the settings are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedBuild:
    """One build of a watch.

    Attributes:
        result: the result.
        seconds: how long it took.
        still_cached: static tokens that the former cache entry of a replaced artifact still serves, where known.
        new_faults: the faults, where they are not those of the build before.
        fixed: whether the build before had faults and this one has none.
    """

    result: BuildResult
    seconds: float
    still_cached: Mapping[ArtifactKey, int]
    new_faults: tuple[Fault, ...]
    fixed: bool


class WatchSession:
    """Builds a project again and again.

    Args:
        open_adapters: opens the project again, with vocabularies that stay loaded.
        jobs: the number of threads that compile.
        gate: finds what must not be frozen.
        selection: which artifacts to build; all if None.
    """

    def __init__(
        self,
        open_adapters: Callable[[], Adapters],
        jobs: int = 1,
        gate: Gate | None = None,
        selection: Selection | None = None,
    ) -> None:
        self._open_adapters = open_adapters
        self._jobs = jobs
        self._gate = gate
        self._selection = selection
        self._faults: tuple[Fault, ...] = ()
        self._asked: frozenset[str] = frozenset()
        self._folders = FOLDERS

    def paths(self) -> WatchedPaths:
        """Returns the manifests, the templates, and every file that the last build looked for."""
        prefixes, templates, build_folder = self._folders
        files = (path for path in self._asked if not path.startswith(f"{build_folder}/") and path != LOCK_FILE)
        return WatchedPaths(
            folders=frozenset((prefixes, templates)),
            files=frozenset(files),
            ignored=frozenset((build_folder, LOCK_FILE)),
        )

    def build(self) -> WatchedBuild:
        """Builds once. What is wrong, even so wrong that the project cannot be opened, is a fault of the result."""
        begun = time.monotonic()
        try:
            result = self._build()
        except CacheunitError as error:
            result = BuildResult(faults=error.faults)
        seconds = time.monotonic() - begun
        former, self._faults = self._faults, result.faults
        return WatchedBuild(
            result=result,
            seconds=seconds,
            still_cached=_still_cached(result),
            new_faults=result.faults if result.faults != former else (),
            fixed=bool(former) and not result.faults,
        )

    def _build(self) -> BuildResult:
        try:
            adapters = self._open_adapters()
        except CacheunitError:
            self._asked |= set(SETTINGS_FILES)  # they are why it cannot be opened
            raise
        try:
            with adapters.files.exclusive():
                adapters.records.start()
                result = None if self._selection else unchanged_build(adapters.files, adapters.records)
                return result or build(adapters, self._selection, jobs=self._jobs, gate=self._gate)
        finally:
            self._note_inputs(adapters)

    def _note_inputs(self, adapters: Adapters) -> None:
        """Notes which files were looked for, and the folders of the settings; broken settings change no folder."""
        files = adapters.files
        self._asked = frozenset(files.asked)
        try:
            settings = parse_settings(files.read("pyproject.toml"), files.read("cacheunit.toml"))
        except CacheunitError:
            return
        self._folders = (settings.prefixes, settings.templates, settings.build)


def _still_cached(result: BuildResult) -> dict[ArtifactKey, int]:
    """Returns how many tokens of each replaced artifact the former cache entry still serves, where that is known."""
    counts: dict[ArtifactKey, int] = {}
    for artifact in result.compiled:
        replaced, target = result.replaced.get(artifact.key), result.targets.get(artifact.target)
        if replaced is not None and target is not None:
            count = _tokens_still_cached(artifact, replaced, target)
            if count is not None:
                counts[artifact.key] = count
    return counts


def _tokens_still_cached(artifact: Artifact, replaced: ReplacedArtifact, target: LoadedTarget) -> int | None:
    """Returns how many static tokens stay cached; None where the former token ids cannot be restored.

    They are those of the former text in the present frame, if their fingerprint is the locked one. Where the text is
    the same, something else of the request changed, such as an option, which token ids may not show.
    """
    text, former_text = artifact.text.decode(), replaced.text.decode("utf-8", "replace")
    if text not in artifact.framed_prefix or replaced.entry.token_ids is None or text == former_text:
        return None
    encode = target.tokenizer.encode
    former_ids = encode(artifact.framed_prefix.replace(text, former_text, 1))[: replaced.entry.tokens]
    if fingerprint_ids(former_ids) != replaced.entry.token_ids:
        return None
    ids = encode(artifact.framed_prefix)[: artifact.entry.tokens]
    # The former blocks are not known, and a block that goes on is another block: only markers of both are found.
    markers = tuple(marker for marker in replaced.entry.markers if marker in artifact.entry.markers)
    former = replace(replaced.entry, markers=markers)
    return target.target.cache.impact(former, artifact.entry, (former_ids, ids)).still_cached
