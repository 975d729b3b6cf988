"""Compiles a project in memory: reads its settings, lists its manifests, and compiles those that are selected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cacheunit_build.compiler.prefix import CompiledPrefix, PrefixCompiler
from cacheunit_build.compiler.selection import select, unmatched_faults
from cacheunit_build.domain.errors import CacheunitError, Fault, fail
from cacheunit_build.domain.names import folded, name_problem
from cacheunit_build.domain.selection import Selection
from cacheunit_build.parsing.folders import owned_folder_faults
from cacheunit_build.parsing.settings import parse_settings
from cacheunit_build.targets.loader import all_targets
from cacheunit_build.templating.renderer import Renderer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from cacheunit_build.compiler.loaded_target import LoadedTarget
    from cacheunit_build.domain.artifact import Artifact, ArtifactRecord
    from cacheunit_build.domain.build_record import PrefixRecord
    from cacheunit_build.domain.lock import TargetIdentity
    from cacheunit_build.domain.manifest import Variant
    from cacheunit_build.domain.protocols import CompileInputs, ProgressCallback, SourceFiles
    from cacheunit_build.domain.selection import SelectedArtifacts
    from cacheunit_build.domain.settings import Settings
    from cacheunit_build.domain.source_map import SourceMaps
    from cacheunit_build.domain.target import Target

    Reuse = Callable[[str], PrefixRecord | None]

_MANIFEST = ".yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledProject:
    """The result of compiling a project: everything that is selected, compiled or reused.

    Attributes:
        settings: the settings of the project.
        selection: what was selected.
        targets: the targets that were loaded, by name.
        identities: the identity of each target in use, by name.
        artifacts: the artifacts that were compiled, by prefix and target.
        reused: the records of artifacts that an earlier build compiled from the same inputs, by prefix and target.
        manifests: the paths of all manifests of the project.
        variants: all variants of each manifest that was compiled, by the name of its prefix.
        complete: the artifacts of each manifest that was compiled for all its variants and targets, without faults and
            from files that are all known.
        faults: every fault.
    """

    settings: Settings
    selection: SelectedArtifacts
    targets: Mapping[str, LoadedTarget]
    identities: Mapping[str, TargetIdentity]
    artifacts: tuple[Artifact, ...]
    reused: tuple[ArtifactRecord, ...]
    manifests: frozenset[str]
    variants: Mapping[str, tuple[Variant, ...]]
    complete: Mapping[str, tuple[Artifact, ...]]
    faults: tuple[Fault, ...]

    @property
    def records(self) -> tuple[ArtifactRecord, ...]:
        """The records of all artifacts, compiled or reused, by prefix and target."""
        records = [*(artifact.record for artifact in self.artifacts), *self.reused]
        return tuple(sorted(records, key=lambda record: record.key))

    @property
    def package_files(self) -> dict[str, str]:
        """The sources of the files of models from outside of the project, with the sha256 of each file."""
        return {source: digest for loaded in self.targets.values() for source, digest in loaded.package_files.items()}


def read_project(files: SourceFiles) -> tuple[Settings, Mapping[str, Target]]:
    """Returns the settings of a project, and the known targets together with its own.

    Raises:
        CacheunitError: every fault in the settings.
    """
    settings = parse_settings(files.read("pyproject.toml"), files.read("cacheunit.toml"))
    faults = tuple(owned_folder_faults(settings, files))
    if faults:
        raise CacheunitError(*faults)
    return settings, all_targets(settings)


def compile_project(
    adapters: CompileInputs,
    selection: Selection | None = None,
    progress: ProgressCallback | None = None,
    *,
    reuse: Reuse | None = None,
    jobs: int = 1,
) -> CompiledProject:
    """Compiles the selected artifacts, or all. Nothing is written.

    Args:
        adapters: the project's files and tokenizers.
        selection: which artifacts to compile.
        progress: called with the number of compiled manifests and the number of all.
        reuse: returns the record of the manifest at a path, if none of its inputs changed.
        jobs: the number of threads; the result does not depend on it.

    Raises:
        CacheunitError: the settings or the selection are wrong, or there is nothing to compile.
    """
    settings, targets = read_project(adapters.files)
    all_manifests = manifest_names(adapters.files, settings)
    selected = select(selection or Selection(), dict(all_manifests), targets, settings.prefixes)
    manifests = [(name, path) for name, path in all_manifests if selected.includes_manifest(name)]
    adapters.files.walk(settings.templates)  # raises for links and names that differ between systems
    run = _CompilerRun(adapters, settings, targets, selected)
    run.compile_all(manifests, reuse, progress, jobs)
    return run.result(frozenset(path for _, path in all_manifests))


def check_selection(files: SourceFiles, selection: Selection) -> None:
    """Raises a fault for each name and target of a selection that the project does not have. Nothing is compiled."""
    settings, targets = read_project(files)
    select(selection, dict(manifest_names(files, settings)), targets, settings.prefixes)


def compile_or_fail(
    adapters: CompileInputs,
    selection: Selection | None = None,
    progress: ProgressCallback | None = None,
    *,
    reuse: Reuse | None = None,
    jobs: int = 1,
) -> CompiledProject:
    """Compiles the selected artifacts, or all, as `compile_project`, for callers that cannot use a partial result.

    Raises:
        CacheunitError: every fault.
    """
    compiled = compile_project(adapters, selection, progress, reuse=reuse, jobs=jobs)
    if compiled.faults:
        raise CacheunitError(*compiled.faults)
    return compiled


def manifest_names(files: SourceFiles, settings: Settings) -> list[tuple[str, str]]:
    """Returns the name of each prefix and the path of its manifest, in code point order.

    Raises:
        CacheunitError: there is none, a name is not allowed, or two differ only in letter case.
    """
    names: dict[str, str] = {}
    first: dict[str, str] = {}  # folded name -> path
    faults: list[Fault] = []
    for path in files.walk(settings.prefixes):
        name, dot, extension = path.removeprefix(f"{settings.prefixes}/").rpartition(".")
        if extension.lower() == "yml" or (extension.lower() == "yaml" and extension != "yaml"):
            faults.append(Fault(message="the name of a manifest must end in .yaml", path=path, hint="rename it"))
        if dot + extension != _MANIFEST:
            continue
        if "@" in name:
            faults.append(
                Fault(
                    message='the name must not contain "@", which separates a prefix from its variant',
                    path=path,
                    hint="rename it",
                )
            )
        for part in name.split("/"):
            problem = name_problem(part)
            if problem is not None:
                message = f'"{part}" {problem}, so its folder in {settings.build}/ is not possible everywhere'
                faults.append(Fault(message=message, path=path, hint="rename it"))
        other = first.setdefault(folded(name), path)
        if other != path:
            faults.append(_twin_fault(path, other))
        names[name] = path
    if faults:
        raise CacheunitError(*faults)
    if not names:
        raise fail(f"no manifests under {settings.prefixes}/", hint='"cacheunit init" creates a first one')
    return list(names.items())


def _twin_fault(path: str, other: str) -> Fault:
    message = f'differs from "{other}" only in letter case: on some systems they are one file'
    return Fault(message=message, path=path, hint="rename one of them")


def source_maps(files: SourceFiles, settings: Settings, variant: Variant) -> SourceMaps:
    """Returns which source lines each character of a variant's texts comes from.

    Raises:
        CacheunitError: it does not render.
    """
    return Renderer(files.read, list, settings.templates).source_maps(variant)


class _CompilerRun:
    """Compiles manifests in several threads, going on after faults."""

    def __init__(
        self, adapters: CompileInputs, settings: Settings, targets: Mapping[str, Target], selection: SelectedArtifacts
    ) -> None:
        self._files = adapters.files
        self._settings = settings
        self._selection = selection
        self._compiler = PrefixCompiler(adapters, settings, targets, selection)
        self._compiled: list[CompiledPrefix] = []
        self._reused: list[ArtifactRecord] = []
        self._reused_names: list[str] = []
        self._identities: dict[str, TargetIdentity] = {}

    def compile_all(
        self, manifests: list[tuple[str, str]], reuse: Reuse | None, progress: ProgressCallback | None, jobs: int
    ) -> None:
        """Reuses the records of unchanged manifests, and compiles the others."""
        unchanged = {path: record for _, path in manifests if (record := reuse(path) if reuse else None) is not None}
        work = [(name, path) for name, path in manifests if path not in unchanged]
        for record in unchanged.values():
            self._identities |= record.identities
            self._reused_names += {artifact.prefix for artifact in record.artifacts}
            self._reused += (item for item in record.artifacts if self._selection.includes_key(item.key))
        for done, compiled in enumerate(self._compile_each(work, min(jobs, len(work)))):
            self._compiled.append(compiled)
            if progress is not None:
                progress(done + 1, len(work))

    def _compile_each(self, work: list[tuple[str, str]], jobs: int) -> Iterator[CompiledPrefix]:
        if jobs <= 1:
            yield from (self._compiler.compile(*manifest) for manifest in work)
            return
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(max_workers=jobs) as pool:
            yield from pool.map(lambda manifest: self._compiler.compile(*manifest), work)

    def result(self, manifests: frozenset[str]) -> CompiledProject:
        """Returns everything that was compiled and reused, in the order of names."""
        prefixes = sorted(self._compiled, key=lambda prefix: prefix.path)
        artifacts = [artifact for prefix in prefixes for artifact in prefix.artifacts]
        faults = [fault for prefix in prefixes for fault in prefix.faults]
        faults += self._twin_faults(artifacts)
        if not faults:
            names = {*self._reused_names, *(variant.name for prefix in prefixes for variant in prefix.variants)}
            keys = {artifact.key for artifact in artifacts} | {record.key for record in self._reused}
            faults += unmatched_faults(self._selection, names, keys)
        loaded = self._compiler.loaded
        return CompiledProject(
            settings=self._settings,
            selection=self._selection,
            targets=loaded,
            identities=self._identities | {name: target.identity for name, target in loaded.items()},
            artifacts=tuple(sorted(artifacts, key=lambda artifact: artifact.key)),
            reused=tuple(sorted(self._reused, key=lambda record: record.key)),
            manifests=manifests,
            variants={prefix.variants[0].manifest.name: prefix.variants for prefix in prefixes if prefix.variants},
            complete={prefix.path: prefix.artifacts for prefix in prefixes if prefix.complete},
            faults=tuple(dict.fromkeys(faults)),
        )

    def _twin_faults(self, artifacts: Iterable[Artifact]) -> Iterator[Fault]:
        """Yields a fault for each input that some systems take for another file, which is there too."""
        records = [*(artifact.record for artifact in artifacts), *self._reused]
        inputs = {item.path for record in records for item in record.lookups if item.fingerprint is not None}
        twins = self._files.twins(sorted(inputs))
        yield from (_twin_fault(path, twin) for path, twin in twins.items())
