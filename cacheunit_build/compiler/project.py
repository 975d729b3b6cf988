"""The first half of the story: which manifests there are, and what all of them give, in memory."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cacheunit_build.compiler.prefix import CompiledPrefix, PrefixCompiler
from cacheunit_build.domain.errors import CacheunitError, Fault, did_you_mean, fail
from cacheunit_build.domain.protocols import Selection
from cacheunit_build.parsing.settings import parse_settings
from cacheunit_build.targets.loader import all_targets, named_target
from cacheunit_build.templating.renderer import Renderer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from cacheunit_build.compiler.artifact import LoadedTarget
    from cacheunit_build.domain.build_record import PrefixRecord
    from cacheunit_build.domain.models import ArtifactRecord, Settings, TargetIdentity, Variant
    from cacheunit_build.domain.protocols import ArtifactKey, CompileInputs, ProgressCallback, SourceFiles
    from cacheunit_build.domain.source_map import SourceMaps
    from cacheunit_build.domain.target import Target

    Reuse = Callable[[str], PrefixRecord | None]

_MANIFEST = ".yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledProject:
    """What the sources give now: artifacts in the order of their names, and every fault on the way.

    `targets` are those that were loaded; `manifests` are the paths of all; `whole` are the outcomes of each manifest
    that was compiled for all its variants and targets, and traceable.
    """

    config: Settings
    targets: Mapping[str, LoadedTarget]
    identities: Mapping[str, TargetIdentity]
    artifacts: tuple[ArtifactRecord, ...]
    manifests: frozenset[str]
    whole: Mapping[str, tuple[ArtifactRecord, ...]]
    faults: tuple[Fault, ...]

    @property
    def vocabularies(self) -> set[str]:
        """The files outside of the project that vocabularies were loaded from."""
        return {file for ready in self.targets.values() for file in ready.tokenizer.files}

    @property
    def keys(self) -> set[ArtifactKey]:
        """The artifacts by prefix and target."""
        return {artifact.key for artifact in self.artifacts}


def read_project(files: SourceFiles) -> tuple[Settings, dict[str, Target]]:
    """The settings of a project, and the targets that it knows.

    Raises:
        CacheunitError: every fault in the settings.
    """
    config = parse_settings(files.read("pyproject.toml"), files.read("cacheunit.toml"))
    return config, all_targets(config)


def compile_project(
    adapters: CompileInputs,
    selection: Selection | None = None,
    progress: ProgressCallback | None = None,
    *,
    reuse: Reuse | None = None,
    jobs: int = 1,
) -> CompiledProject:
    """Compiles what `selection` takes, everything if None. Nothing is written.

    Args:
        adapters: the outside world.
        selection: which artifacts.
        progress: called with the number of manifests done and of all.
        reuse: path of a manifest -> its trace, where it is known and nothing has changed.
        jobs: how many threads compile; the result does not depend on it.

    Raises:
        CacheunitError: the settings or the selection are wrong, or there is nothing to compile.
    """
    config, targets = read_project(adapters.files)
    selection = _settled(selection or Selection(), targets)
    everything = manifest_names(adapters.files, config)
    manifests = _chosen(everything, selection, config)
    run = _Run(adapters, config, targets, selection)
    run.compile_all(manifests, reuse, progress, jobs)
    return run.compiled(frozenset(path for _, path in everything))


def compile_or_fail(
    adapters: CompileInputs,
    selection: Selection | None = None,
    progress: ProgressCallback | None = None,
    *,
    reuse: Reuse | None = None,
    jobs: int = 1,
) -> CompiledProject:
    """As `compile_project`, for those who can do nothing with half of it.

    Raises:
        CacheunitError: every fault.
    """
    compiled = compile_project(adapters, selection, progress, reuse=reuse, jobs=jobs)
    if compiled.faults:
        raise CacheunitError(*compiled.faults)
    return compiled


def manifest_names(files: SourceFiles, config: Settings) -> list[tuple[str, str]]:
    """The name of each prefix and the path of its manifest, by code point.

    Raises:
        CacheunitError: there is none, or two differ only in letter case.
    """
    faults: list[Fault] = []
    found: dict[str, str] = {}
    folded: dict[str, str] = {}
    for path in files.walk(config.prefixes):
        stem, dot, extension = path.removeprefix(f"{config.prefixes}/").rpartition(".")
        if extension.lower() == "yml" or (extension.lower() == "yaml" and extension != "yaml"):
            faults.append(Fault(message="a manifest's name ends in .yaml", path=path, hint="rename it"))
        if dot + extension != _MANIFEST:
            continue
        if "@" in stem:
            faults.append(Fault(message='"@" stands between a prefix and its variant', path=path, hint="rename it"))
        other = folded.setdefault(unicodedata.normalize("NFC", stem).casefold(), path)
        if other != path:
            message = f'differs from "{other}" only in letter case: on some systems they are one file'
            faults.append(Fault(message=message, path=path, hint="rename one of them"))
        found[stem] = path
    if faults:
        raise CacheunitError(*faults)
    if not found:
        raise fail(f"no manifests under {config.prefixes}/", hint='"cacheunit init" makes a first one')
    return list(found.items())


def source_maps(files: SourceFiles, config: Settings, variant: Variant) -> SourceMaps:
    """Where the characters of a variant's texts came from.

    Raises:
        CacheunitError: it does not render.
    """
    return Renderer(files.read, list, config.templates).origins(variant)


def _settled(selection: Selection, targets: Mapping[str, Target]) -> Selection:
    """The selection with its target by the target's own name."""
    if selection.target is None:
        return selection
    return replace(selection, target=named_target(selection.target, targets).name)


def _chosen(manifests: list[tuple[str, str]], selection: Selection, config: Settings) -> list[tuple[str, str]]:
    known = dict(manifests)
    faults = [
        Fault(message=f'no prefix "{name}" under {config.prefixes}/', hint=did_you_mean(name, known))
        for name in selection.names
        if name.partition("@")[0] not in known
    ]
    if faults:
        raise CacheunitError(*faults)
    wanted = {name.partition("@")[0] for name in selection.names} or known.keys()
    return [(name, path) for name, path in manifests if name in wanted]


class _Run:
    """Compiles manifests, in as many threads as wanted, going on after faults."""

    def __init__(
        self, adapters: CompileInputs, config: Settings, targets: Mapping[str, Target], selection: Selection
    ) -> None:
        self._adapters = adapters
        self._config = config
        self._selection = selection
        self._compiler = PrefixCompiler(adapters, config, targets, selection)
        self._found: list[CompiledPrefix] = []
        self._known: dict[str, TargetIdentity] = {}

    def compile_all(
        self, manifests: list[tuple[str, str]], reuse: Reuse | None, progress: ProgressCallback | None, jobs: int
    ) -> None:
        """Reuses what is known, and compiles the rest."""
        known = {path: trace for _, path in manifests if (trace := reuse(path) if reuse else None) is not None}
        work = [(name, path) for name, path in manifests if path not in known]
        for path, trace in known.items():
            self._known |= trace.identities
            self._found.append(self._reused(path, trace.outcomes))
        for done, one in enumerate(self._compiled_each(work, min(jobs, len(work)))):
            self._found.append(one)
            if progress is not None:
                progress(done + 1, len(work))

    def _compiled_each(self, work: list[tuple[str, str]], jobs: int) -> Iterator[CompiledPrefix]:
        if jobs <= 1:
            yield from (self._compiler.compile(*manifest) for manifest in work)
            return
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(max_workers=jobs) as pool:
            yield from pool.map(lambda manifest: self._compiler.compile(*manifest), work)

    def _reused(self, path: str, outcomes: tuple[ArtifactRecord, ...]) -> CompiledPrefix:
        taken = tuple(outcome for outcome in outcomes if self._selection.includes_key(outcome.key))
        return CompiledPrefix(path=path, outcomes=taken, names=tuple({outcome.prefix for outcome in outcomes}))

    def compiled(self, manifests: frozenset[str]) -> CompiledProject:
        """All that was found, in the order of names."""
        found = sorted(self._found, key=lambda one: one.path)
        outcomes = [outcome for one in found for outcome in one.outcomes]
        faults = [fault for one in found for fault in one.faults]
        if not faults:
            faults += self._unmet(outcomes, [name for one in found for name in one.names])
        return CompiledProject(
            config=self._config,
            targets=self._compiler.ready,
            identities=self._known | {name: ready.identity for name, ready in self._compiler.ready.items()},
            artifacts=tuple(sorted(outcomes, key=lambda outcome: outcome.key)),
            manifests=manifests,
            whole={one.path: one.outcomes for one in found if one.whole},
            faults=tuple(dict.fromkeys(faults)),
        )

    def _unmet(self, outcomes: Sequence[ArtifactRecord], names: Sequence[str]) -> list[Fault]:
        """What was selected and yet is nowhere."""
        faults = [
            Fault(message=f'there is no variant "{name}"', hint=did_you_mean(name, names))
            for name in self._selection.names
            if "@" in name and name not in names
        ]
        if not faults and not outcomes:
            faults.append(Fault(message=f'nothing is compiled for target "{self._selection.target}"'))
        return faults
