"""Compiles one manifest: reads it with its tools, renders its variants, and compiles each of them for each target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cacheunit_build.compiler.artifact import compile_artifact
from cacheunit_build.compiler.blank_texts import blank_texts
from cacheunit_build.compiler.example_checks import example_order_faults
from cacheunit_build.compiler.frozen_options import frozen_options, repeated_schema_faults, unlisted_options
from cacheunit_build.compiler.loaded_target import load_target
from cacheunit_build.compiler.manifest_inputs import InputReader
from cacheunit_build.compiler.per_tools import PerTools
from cacheunit_build.compiler.tool_checks import response_schema_faults, tool_faults
from cacheunit_build.domain.errors import CacheunitError, Fault, fail
from cacheunit_build.domain.fingerprint import cache_key, fingerprint
from cacheunit_build.domain.lifetimes import ANY_LIFETIME
from cacheunit_build.domain.settings import DEFAULT_HITS_PER_MISS
from cacheunit_build.parsing.manifest import parse_manifest
from cacheunit_build.parsing.variants import expand
from cacheunit_build.targets.lookup import find_target, unknown_target
from cacheunit_build.templating.renderer import Renderer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cacheunit_build.compiler.loaded_target import LoadedTarget
    from cacheunit_build.compiler.manifest_inputs import ManifestInputs
    from cacheunit_build.domain.artifact import Artifact, ArtifactRecord
    from cacheunit_build.domain.lock import TargetIdentity
    from cacheunit_build.domain.manifest import Manifest, Variant
    from cacheunit_build.domain.protocols import CompileInputs
    from cacheunit_build.domain.selection import SelectedArtifacts
    from cacheunit_build.domain.settings import Settings
    from cacheunit_build.domain.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledPrefix:
    """The result of compiling one manifest.

    Attributes:
        path: the manifest file.
        artifacts: the artifacts of the selected variants and targets.
        variants: all variants.
        faults: every fault.
        complete: whether all variants and targets were compiled without faults, from files that are all known.
    """

    path: str
    artifacts: tuple[Artifact, ...] = ()
    variants: tuple[Variant, ...] = ()
    faults: tuple[Fault, ...] = ()
    complete: bool = False

    @property
    def records(self) -> tuple[ArtifactRecord, ...]:
        """What is recorded of its artifacts."""
        return tuple(artifact.record for artifact in self.artifacts)


class PrefixCompiler:
    """Compiles manifests of one project."""

    def __init__(
        self, adapters: CompileInputs, settings: Settings, targets: Mapping[str, Target], selection: SelectedArtifacts
    ) -> None:
        self._loaded: dict[tuple[str, bool], LoadedTarget] = {}
        self._adapters = adapters
        self._settings = settings
        self._targets = targets
        self._selection = selection
        self._found_targets: dict[tuple[str, ...], dict[str, Target]] = {}  # by their names in manifests and settings
        self._reader = InputReader(adapters.files)
        self._per_tools = PerTools()
        # It asks for the names of templates only where one is missing.
        self._renderer = Renderer(adapters.files.read, self._template_names, settings.templates)

    @property
    def loaded(self) -> dict[str, LoadedTarget]:
        """The targets that were loaded, by name: for any prefix where one needs that, else for system text alone."""
        return {name: loaded for (name, _), loaded in sorted(self._loaded.items(), key=lambda item: not item[0][1])}

    @property
    def identities(self) -> dict[str, TargetIdentity]:
        """The identity of each target that was loaded, by name."""
        return {name: loaded.identity for name, loaded in self.loaded.items()}

    @property
    def package_files(self) -> dict[str, str]:
        """The sources of the files of models from outside of the project, with the sha256 of each file."""
        return {source: digest for loaded in self.loaded.values() for source, digest in loaded.package_files.items()}

    def compile(self, name: str, path: str) -> CompiledPrefix:
        """Compiles the prefix of that name from the manifest at `path`."""
        try:
            manifest, digest = self._read_manifest(name, path)
        except CacheunitError as error:
            return CompiledPrefix(path=path, faults=error.faults_at(path))
        targets, target_faults = self._targets_of(manifest)
        known = () if target_faults else list(targets.values())
        inputs = self._reader.read(manifest, digest, known)
        if inputs.response_schema is not None:
            manifest = replace(manifest, response_schema=inputs.response_schema)
        variants, matrix_faults = _expanded(manifest, {} if target_faults else targets)
        used = {name: self._targets[name] for variant in variants for name in variant.targets}
        faults = [*inputs.faults, *target_faults, *self._target_faults(manifest, inputs, targets, used), *matrix_faults]
        if faults:
            return CompiledPrefix(path=path, faults=tuple(faults))
        selected = [variant for variant in variants if self._selected_targets(variant)]
        artifacts, faults = self._compile_variants(selected, inputs)
        everything = len(selected) == len(variants) and not self._selection.targets
        return CompiledPrefix(
            path=path,
            variants=variants,
            artifacts=tuple(artifacts),
            faults=tuple(faults),
            complete=everything and not faults and all(map(self._is_traceable, used)),
        )

    def identities_of(self, name: str, path: str) -> tuple[str, dict[str, TargetIdentity]] | None:
        """Returns the fingerprint of the manifest at `path`, and the identities of its targets by name.

        None where there is a fault, which compiling it reports, and where not all files are known that decide its
        artifacts.
        """
        try:
            manifest, digest = self._read_manifest(name, path)
            targets, faults = self._targets_of(manifest)
            loaded = [self._loaded_target(manifest, target) for target in targets.values()]
        except CacheunitError:
            return None
        if faults or not all(item.traceable for item in loaded):
            return None
        return digest, {item.target.name: item.identity for item in loaded}

    def _read_manifest(self, name: str, path: str) -> tuple[Manifest, str]:
        """Returns the manifest at `path`, and the fingerprint of its bytes.

        Raises:
            CacheunitError: its faults.
        """
        data = self._adapters.files.read(path)
        if data is None:
            raise fail("the manifest is a broken link")
        key = cache_key(self._settings.project, name)
        return self._with_defaults(parse_manifest(data, name=name, path=path, cache_key=key)), fingerprint(data)

    def _is_traceable(self, target: str) -> bool:
        """Returns whether all files are known that decide the output of a target, which was loaded."""
        return (self._loaded.get((target, False)) or self._loaded[target, True]).traceable

    def _with_defaults(self, manifest: Manifest) -> Manifest:
        """Returns a manifest with what it leaves to the settings of the project."""
        hits_per_miss = self._settings.hits_per_miss
        if hits_per_miss == DEFAULT_HITS_PER_MISS or manifest.padding.hits_per_miss is not None:
            return manifest  # where none is set, the default is used
        return replace(manifest, padding=replace(manifest.padding, hits_per_miss=hits_per_miss))

    def _selected_targets(self, variant: Variant) -> list[Target]:
        """Returns the selected targets of a variant; none where the variant itself is not selected."""
        if not self._selection.includes(variant.name):
            return []
        return [self._targets[name] for name in variant.targets if self._selection.includes_target(name)]

    def _compile_variants(
        self, variants: Sequence[Variant], inputs: ManifestInputs
    ) -> tuple[list[Artifact], list[Fault]]:
        """Returns the artifacts of all variants that compile, and the faults of the others."""
        artifacts: list[Artifact] = []
        faults: list[Fault] = []
        for variant in variants:
            try:
                artifacts += self._artifacts(variant, inputs)
            except CacheunitError as error:
                faults += error.faults
        return artifacts, faults

    def _artifacts(self, variant: Variant, inputs: ManifestInputs) -> list[Artifact]:
        """Returns the artifact of a variant for each of its selected targets.

        Raises:
            CacheunitError: the faults of all targets.
        """
        rendered = self._renderer.render(variant, inputs.lookups)
        if blank := blank_texts(variant, rendered):
            raise CacheunitError(*blank)
        artifacts: list[Artifact] = []
        faults: list[Fault] = []
        for target in self._selected_targets(variant):
            try:
                loaded = self._loaded_target(variant.manifest, target)
                artifacts.append(compile_artifact(variant, rendered, inputs.tools, loaded, self._adapters.files.read))
            except CacheunitError as error:
                faults += error.faults
        if faults:
            raise CacheunitError(*faults)
        return artifacts

    def _template_names(self) -> list[str]:
        folder = self._settings.templates
        try:
            return [path.removeprefix(f"{folder}/") for path in self._adapters.files.walk(folder)]
        except CacheunitError:
            return []

    def _target_faults(
        self, manifest: Manifest, inputs: ManifestInputs, targets: Mapping[str, Target], used: Mapping[str, Target]
    ) -> list[Fault]:
        """Returns the faults of what the targets of a manifest do not take.

        Args:
            manifest: the manifest.
            inputs: its tools.
            targets: its targets.
            used: those of them that it has variants for.
        """
        # Where a target is unknown, there are no variants yet: the others are checked all the same.
        candidates = used.values() or targets.values()
        selected = [target for target in candidates if self._selection.includes_target(target.name)]
        names = ",".join(target.name for target in selected)
        return [
            *repeated_schema_faults(manifest, list(targets.values())),
            *self._per_tools.get(inputs.tools, names, lambda: tuple(tool_faults(inputs.tools, selected))),
            *example_order_faults(manifest, selected),
            *response_schema_faults(manifest, selected),
            *_unknown_lifetimes(manifest, list(targets.values())),
        ]

    def _targets_of(self, manifest: Manifest) -> tuple[dict[str, Target], list[Fault]]:
        """Returns the targets of a manifest or of the project, by the names there, and faults of names and options."""
        names = tuple(manifest.targets or self._settings.targets)
        targets = self._found_targets.get(names)
        if targets is None:
            targets, faults = self._find_targets(manifest, names)
            if faults:
                return targets, faults
            self._found_targets[names] = targets
        return targets, unlisted_options(manifest, list(targets.values()))

    def _find_targets(self, manifest: Manifest, names: Sequence[str]) -> tuple[dict[str, Target], list[Fault]]:
        """Returns the targets of these names, which a manifest or the settings have, and the faults of the others."""
        targets: dict[str, Target] = {}
        faults: list[Fault] = []
        for index, name in enumerate(names):
            try:
                target = find_target(name, self._targets)
            except CacheunitError as error:
                faults += [self._name_fault(manifest, fault, index) for fault in error.faults]
                continue
            if target is None:
                faults.append(self._name_fault(manifest, unknown_target(name, self._targets), index))
            elif target in targets.values():
                faults.append(manifest.fault(f'"{name}" is target "{target.name}" again', "targets", index))
            else:
                targets[name] = target
        return targets, faults

    def _name_fault(self, manifest: Manifest, fault: Fault, index: int) -> Fault:
        """Returns a fault of a name of a target in the manifest, or in the settings where the manifest names none."""
        if manifest.targets:
            return manifest.fault(fault.message, "targets", index, hint=fault.hint)
        return self._settings.fault(fault.message, "targets", hint=fault.hint)

    def _loaded_target(self, manifest: Manifest, target: Target) -> LoadedTarget:
        """Returns the target as a manifest needs it, loaded once.

        Raises:
            CacheunitError: it cannot be loaded.
        """
        needing = _keys_that_need_a_frame(manifest, target)
        system_only = not needing and target.frame.for_system_text != target.frame
        loaded = self._loaded.get((target.name, system_only))
        if loaded is None:
            loaded = self._loaded[target.name, system_only] = self._load(manifest, target, needing, system_only)
        return loaded

    def _load(
        self,
        manifest: Manifest,
        target: Target,
        needing: Sequence[str],
        system_only: bool,  # noqa: FBT001
    ) -> LoadedTarget:
        """Loads a target.

        Raises:
            CacheunitError: its faults, at its table in the settings for one of the project's own; at the key of the
                manifest that needs the frame, where system text alone would not.
        """
        try:
            return load_target(target, self._adapters, system_only=system_only)
        except CacheunitError as error:
            if target.name in self._settings.target:
                table = self._settings.fault("", "target", target.name)
                raise CacheunitError(*error.faults_at(table.path, table.line)) from None
            if needing and target.frame.for_system_text != target.frame:
                faults = error.faults_at(manifest.path, manifest.line(needing[0]))
                message = f"{needing[0]} need the model's own encoder"
                raise CacheunitError(
                    *(replace(item, message=f"{message}: {item.message}") for item in faults)
                ) from None
            raise


def _keys_that_need_a_frame(manifest: Manifest, target: Target) -> list[str]:
    """Returns the keys of a manifest for which a target needs more than text around the system text."""
    options = frozen_options(manifest, target).for_frame
    present = {"tools": manifest.tools, "examples": manifest.examples, "options": options}
    return [key for key, value in present.items() if value]


def _unknown_lifetimes(manifest: Manifest, targets: Sequence[Target]) -> list[Fault]:
    """Returns a fault for each lifetime of a manifest that none of its targets has."""
    faults = []
    for part, lifetime in manifest.cache.ttl.by_part.items():
        if not targets or any(target.cache.has_lifetime(lifetime) for target in targets):
            continue
        known = dict.fromkeys(item for target in targets for item in target.cache.lifetimes if item != ANY_LIFETIME)
        hint = f"the lifetimes are {', '.join(known)}" if known else "its targets have no lifetimes to choose from"
        message = f"no target of the manifest has a lifetime of {lifetime}"
        faults.append(manifest.fault(message, "cache", "ttl", part, hint=hint))
    return list(dict.fromkeys(faults))


def _expanded(manifest: Manifest, targets: Mapping[str, Target]) -> tuple[tuple[Variant, ...], list[Fault]]:
    """Returns the variants of a manifest, and the faults of its matrix; nothing where it has no targets."""
    try:
        return (expand(manifest, targets) if targets else ()), []
    except CacheunitError as error:
        return (), list(error.faults)
