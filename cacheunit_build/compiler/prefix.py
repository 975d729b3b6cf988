"""One manifest -> its outcomes: variants, rendered, and compiled for each target."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cacheunit_build.compiler.artifact import compile_artifact, load_target
from cacheunit_build.domain.errors import CacheunitError, Fault, did_you_mean, fail
from cacheunit_build.domain.fingerprint import fingerprint
from cacheunit_build.domain.models import Lookup
from cacheunit_build.domain.paths import normal_path
from cacheunit_build.parsing.data_file import parse_data
from cacheunit_build.parsing.manifest import expand, parse_manifest
from cacheunit_build.parsing.tools import parse_tools
from cacheunit_build.targets.loader import find_target, target_names
from cacheunit_build.templating.renderer import Renderer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cacheunit_build.compiler.artifact import LoadedTarget
    from cacheunit_build.domain.models import ArtifactRecord, Manifest, Settings, Tool, Variant
    from cacheunit_build.domain.protocols import CompileInputs, Selection
    from cacheunit_build.domain.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledPrefix:
    """What one manifest gave: its outcomes, the names of its variants, its faults.

    `whole`: for all variants and targets, without faults, from files that are all known.
    """

    path: str
    outcomes: tuple[ArtifactRecord, ...] = ()
    names: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    whole: bool = False


class PrefixCompiler:
    """Compiles manifests of one project; safe to be used by several threads."""

    def __init__(
        self, adapters: CompileInputs, config: Settings, targets: Mapping[str, Target], selection: Selection
    ) -> None:
        self.ready: dict[str, LoadedTarget] = {}
        self._adapters = adapters
        self._config = config
        self._targets = targets
        self._selection = selection
        self._local = threading.local()
        self._loading = threading.Lock()

    def compile(self, name: str, path: str) -> CompiledPrefix:
        """The prefix of that name, from the manifest at `path`."""
        faults: list[Fault] = []
        try:
            data = self._adapters.files.read(path)
            if data is None:
                raise fail("the manifest is a link to nothing")
            manifest = parse_manifest(data, name=name, path=path)
        except CacheunitError as error:
            return CompiledPrefix(path=path, faults=tuple(f if f.path else replace(f, path=path) for f in error.faults))
        lookups = [Lookup(path=path, found=fingerprint(data))]
        tools = self._tools_of(manifest, lookups, faults)
        targets = self._targets_of(manifest, faults)
        variants = expand(manifest)
        names = tuple(variant.name for variant in variants)
        chosen = [variant for variant in variants if targets and self._selection.takes(variant.name)]
        if faults:
            return CompiledPrefix(path=path, names=names, faults=tuple(faults))
        outcomes: list[ArtifactRecord] = []
        for variant in chosen:
            try:
                outcomes += self._outcomes(variant, targets, tools, lookups)
            except CacheunitError as error:
                faults += error.faults
        whole = not faults and len(chosen) == len(variants) and self._selection.target is None
        whole = whole and all(self.ready[target.name].traceable for target in targets)
        return CompiledPrefix(path=path, names=names, outcomes=tuple(outcomes), faults=tuple(faults), whole=whole)

    def _outcomes(
        self, variant: Variant, targets: Sequence[Target], tools: Sequence[Tool], lookups: Sequence[Lookup]
    ) -> list[ArtifactRecord]:
        """The variant for each target; the faults of all targets at once."""
        rendered = self._renderer.render(variant)
        rendered = replace(rendered, lookups=(*lookups, *rendered.lookups))
        outcomes: list[ArtifactRecord] = []
        faults: list[Fault] = []
        for target in targets:
            try:
                ready = self._ready_target(target)
                outcomes.append(compile_artifact(variant, rendered, tools, ready, self._adapters.files.read))
            except CacheunitError as error:
                faults += error.faults
        if faults:
            raise CacheunitError(*faults)
        return outcomes

    @property
    def _renderer(self) -> Renderer:
        """One for each thread, since it keeps what it is at."""
        if not hasattr(self._local, "renderer"):
            self._local.renderer = Renderer(self._adapters.files.read, self._template_names, self._config.templates)
        renderer: Renderer = self._local.renderer
        return renderer

    def _template_names(self) -> list[str]:
        folder = self._config.templates
        try:
            return [path.removeprefix(f"{folder}/") for path in self._adapters.files.walk(folder)]
        except CacheunitError:
            return []

    def _tools_of(self, manifest: Manifest, lookups: list[Lookup], faults: list[Fault]) -> tuple[Tool, ...]:
        """The tools of a manifest in its order; no name twice."""
        tools: list[Tool] = []
        for index, file in enumerate(manifest.tools):
            path = normal_path(file)
            try:
                data = self._adapters.files.read(path)
                lookups.append(
                    Lookup(path=path, found=None if data is None else fingerprint(data), asked_by=manifest.path)
                )
                if data is None:
                    faults.append(manifest.fault(f'there is no file "{path}"', "tools", index))
                else:
                    tools += parse_tools(parse_data(data, path, floats=True))
            except CacheunitError as error:
                faults += (
                    f if f.path else manifest.fault(f.message, "tools", index, hint=f.hint) for f in error.faults
                )
        first: dict[str, Tool] = {}
        for tool in tools:
            other = first.setdefault(tool.name, tool)
            if other is not tool:
                message = f'tool "{tool.name}" is there already, from {other.path}'
                faults.append(Fault(message=message, path=tool.path, line=tool.line, hint="keep one of the two"))
        return tuple(tools)

    def _targets_of(self, manifest: Manifest, faults: list[Fault]) -> list[Target]:
        """The targets of a manifest, or the project's; of these, the one that is selected."""
        found: list[Target] = []
        for index, name in enumerate(manifest.targets or self._config.targets):
            target = find_target(name, self._targets)
            if target is None:
                faults.append(self._unknown_target(manifest, name, index))
            elif target in found:
                faults.append(manifest.fault(f'"{name}" is target "{target.name}" again', "targets", index))
            elif self._selection.target in (None, target.name):
                found.append(target)
        return found

    def _unknown_target(self, manifest: Manifest, name: str, index: int) -> Fault:
        """The fault stands in the manifest, or in the settings where the manifest names no targets."""
        message = f'unknown target "{name}"'
        hint = did_you_mean(name, target_names(self._targets)) or '"cacheunit targets" lists the known ones'
        if manifest.targets:
            return manifest.fault(message, "targets", index, hint=hint)
        document = self._config.document
        line = document.line((*self._config.under, "targets"))
        return Fault(message=message, path=document.path or None, line=line, hint=hint)

    def _ready_target(self, target: Target) -> LoadedTarget:
        """The target, loaded once; what is wrong with one of the project's is told where its table stands."""
        with self._loading:
            return self._load(target)

    def _load(self, target: Target) -> LoadedTarget:
        if target.name not in self.ready:
            try:
                self.ready[target.name] = load_target(target, self._adapters)
            except CacheunitError as error:
                if target.name not in self._config.tables:
                    raise
                document = self._config.document
                line = document.line((*self._config.under, "target", target.name))
                placed = (f if f.path else replace(f, path=document.path, line=line) for f in error.faults)
                raise CacheunitError(*placed) from None
        return self.ready[target.name]
