"""Compiles a project in memory: reads its settings, lists its manifests, and compiles those that are selected."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cacheunit_build.compiler.prefix import PrefixCompiler
from cacheunit_build.compiler.selection import select, unmatched_faults
from cacheunit_build.domain.errors import CacheunitError, Fault, fail
from cacheunit_build.domain.names import folded, name_problem
from cacheunit_build.domain.selection import Selection
from cacheunit_build.parsing.folders import owned_folder_faults
from cacheunit_build.parsing.settings import parse_settings
from cacheunit_build.targets.loader import all_targets
from cacheunit_build.templating.renderer import Renderer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from cacheunit_build.compiler.loaded_target import LoadedTarget
    from cacheunit_build.compiler.prefix import CompiledPrefix
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
    ManifestPath = tuple[str, str]

_MANIFEST = ".yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectPlan:
    """What is to be compiled of a project.

    Attributes:
        settings: the settings of the project.
        targets: the known targets and those of the project, by name.
        selection: what is selected.
        manifests: name and path of each selected manifest.
        all_manifests: the paths of all manifests of the project.
    """

    settings: Settings
    targets: Mapping[str, Target]
    selection: SelectedArtifacts
    manifests: tuple[ManifestPath, ...]
    all_manifests: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectRecords:
    """What is recorded of a project that was compiled: everything that is selected, compiled or reused.

    Attributes:
        settings: the settings of the project.
        selection: what was selected.
        identities: the identity of each target in use, by name.
        records: the records of all artifacts, compiled or reused, by prefix and target.
        manifests: the paths of all manifests of the project.
        package_files: the sources of the files of models from outside of the project, with the sha256 of each file.
        complete: the records of each manifest that was compiled for all its variants and targets, without faults and
            from files that are all known.
        faults: every fault.
        remotes: the URL of the remote cache that the result of a manifest is from, by its path; not for what was
            compiled.
    """

    settings: Settings
    selection: SelectedArtifacts
    identities: Mapping[str, TargetIdentity]
    records: tuple[ArtifactRecord, ...]
    manifests: frozenset[str]
    package_files: Mapping[str, str]
    complete: Mapping[str, tuple[ArtifactRecord, ...]]
    faults: tuple[Fault, ...]
    remotes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledProject(ProjectRecords):
    """The result of compiling a project in this process.

    Attributes:
        targets: the targets that were loaded, by name.
        artifacts: the artifacts that were compiled, by prefix and target.
        reused: the records of artifacts that an earlier build compiled from the same inputs, by prefix and target.
        variants: all variants of each manifest that was compiled, by the name of its prefix.
    """

    targets: Mapping[str, LoadedTarget]
    artifacts: tuple[Artifact, ...]
    reused: tuple[ArtifactRecord, ...]
    variants: Mapping[str, tuple[Variant, ...]]


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


def plan_project(files: SourceFiles, selection: Selection | None = None) -> ProjectPlan:
    """Returns what is to be compiled for a selection, or for everything.

    Raises:
        CacheunitError: the settings or the selection are wrong, or there is nothing to compile.
    """
    settings, targets = read_project(files)
    all_manifests = manifest_names(files, settings)
    selected = select(selection or Selection(), dict(all_manifests), targets, settings.prefixes)
    files.walk(settings.templates)  # raises for links and names that differ between systems
    return ProjectPlan(
        settings=settings,
        targets=targets,
        selection=selected,
        manifests=tuple((name, path) for name, path in all_manifests if selected.includes_manifest(name)),
        all_manifests=frozenset(path for _, path in all_manifests),
    )


def compile_project(
    inputs: CompileInputs,
    selection: Selection | None = None,
    progress: ProgressCallback | None = None,
    *,
    reuse: Reuse | None = None,
) -> CompiledProject:
    """Compiles the selected artifacts, or all, in this process. Nothing is written.

    Args:
        inputs: the project's files and tokenizers.
        selection: which artifacts to compile.
        progress: called with the number of compiled manifests and the number of all.
        reuse: returns the record of the manifest at a path, if none of its inputs changed.

    Raises:
        CacheunitError: the settings or the selection are wrong, or there is nothing to compile.
    """
    plan = plan_project(inputs.files, selection)
    work, reused = split_work(plan, reuse)
    compiler = PrefixCompiler(inputs, plan.settings, plan.targets, plan.selection)
    prefixes = []
    for manifest in work:
        prefixes.append(compiler.compile(*manifest))
        if progress is not None:
            progress(len(prefixes), len(work))
    project = compiled_project(plan, compiler, prefixes, reused)
    names = {*reused.names, *(variant.name for prefix in prefixes for variant in prefix.variants)}
    return replace(project, faults=all_faults(plan, project.faults, project.records, names, inputs.files))


def split_work(plan: ProjectPlan, reuse: Reuse | None) -> tuple[list[ManifestPath], ReusedRecords]:
    """Returns the manifests that must be compiled, and the records of the others.

    Args:
        plan: what is selected.
        reuse: returns the record of the manifest at a path, if none of its inputs changed; None to compile everything.
    """
    unchanged = {path: record for _, path in plan.manifests if (record := reuse(path) if reuse else None) is not None}
    work = [manifest for manifest in plan.manifests if manifest[1] not in unchanged]
    return work, _reused_records(list(unchanged.values()), plan.selection)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReusedRecords:
    """The records of manifests that need not be compiled.

    Attributes:
        records: the records of the selected artifacts, by prefix and target.
        names: the names of all variants of these manifests.
        identities: the identity of each target in use, by name.
    """

    records: tuple[ArtifactRecord, ...] = ()
    names: frozenset[str] = frozenset()
    identities: Mapping[str, TargetIdentity] = field(default_factory=dict)


def _reused_records(prefixes: Sequence[PrefixRecord], selection: SelectedArtifacts) -> ReusedRecords:
    """Returns what is reused of the records of some manifests, of which a part is selected."""
    records = [record for prefix in prefixes for record in prefix.artifacts]
    selected = (record for record in records if selection.includes_key(record.key))
    return ReusedRecords(
        records=tuple(sorted(selected, key=lambda record: record.key)),
        names=frozenset(record.prefix for record in records),
        identities={name: identity for prefix in prefixes for name, identity in prefix.identities.items()},
    )


def compiled_project(
    plan: ProjectPlan,
    compiler: PrefixCompiler,
    prefixes: Iterable[CompiledPrefix],
    reused: ReusedRecords,
) -> CompiledProject:
    """Returns everything that was compiled and reused, in the order of names, with the faults of the manifests.

    Args:
        plan: what was selected.
        compiler: what compiled it.
        prefixes: the result of each manifest.
        reused: the records of the others.
    """
    prefixes = sorted(prefixes, key=lambda prefix: prefix.path)
    artifacts = sorted((item for prefix in prefixes for item in prefix.artifacts), key=lambda item: item.key)
    return CompiledProject(
        settings=plan.settings,
        selection=plan.selection,
        identities={**reused.identities, **compiler.identities},
        records=merged_records((artifact.record for artifact in artifacts), reused),
        manifests=plan.all_manifests,
        package_files=compiler.package_files,
        complete={prefix.path: prefix.records for prefix in prefixes if prefix.complete},
        faults=tuple(fault for prefix in prefixes for fault in prefix.faults),
        targets=compiler.loaded,
        artifacts=tuple(artifacts),
        reused=reused.records,
        variants={prefix.variants[0].manifest.name: prefix.variants for prefix in prefixes if prefix.variants},
    )


def merged_records(compiled: Iterable[ArtifactRecord], reused: ReusedRecords) -> tuple[ArtifactRecord, ...]:
    """Returns the records of all artifacts, by prefix and target."""
    return tuple(sorted((*compiled, *reused.records), key=lambda record: record.key))


def all_faults(
    plan: ProjectPlan,
    faults: Iterable[Fault],
    records: Iterable[ArtifactRecord],
    names: Collection[str],
    files: SourceFiles,
) -> tuple[Fault, ...]:
    """Returns every fault of a project: those of its manifests, and those that only the whole shows.

    Args:
        plan: what was selected.
        faults: the faults of manifests.
        records: the records of all artifacts, compiled or reused.
        names: the names of all prefixes and variants.
        files: the files of the project.
    """
    found = [*faults, *_input_twins(records, files)]
    if not found:
        found += unmatched_faults(plan.selection, names, {record.key for record in records})
    return tuple(dict.fromkeys(found))


def _input_twins(records: Iterable[ArtifactRecord], files: SourceFiles) -> Iterator[Fault]:
    """Yields a fault for each input that some systems take for another file, which is there too."""
    inputs = {item.path for record in records for item in record.lookups if item.fingerprint is not None}
    yield from (_twin_fault(path, twin) for path, twin in files.twins(sorted(inputs)).items())


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
) -> CompiledProject:
    """Compiles the selected artifacts, or all, as `compile_project`, for callers that cannot use a partial result.

    Raises:
        CacheunitError: every fault.
    """
    compiled = compile_project(adapters, selection, progress, reuse=reuse)
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
