"""The first half of the story: manifests -> variants -> texts -> requests -> plans -> artifacts, in memory."""

from __future__ import annotations

import bisect
import unicodedata
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cacheunit_build.artifact import compile_artifact, ready_target
from cacheunit_build.config import parse_config
from cacheunit_build.errors import CacheunitError, Fault, did_you_mean, fail
from cacheunit_build.fingerprint import fingerprint
from cacheunit_build.manifest import expand, parse_manifest
from cacheunit_build.model import Lookup
from cacheunit_build.paths import normal_path
from cacheunit_build.ports import Selection
from cacheunit_build.render import Renderer
from cacheunit_build.source import parse_data
from cacheunit_build.targets import all_targets, find_target, target_names
from cacheunit_build.tools import parse_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cacheunit_build.artifact import ReadyTarget
    from cacheunit_build.model import Artifact, Config, Manifest, TargetIdentity, Tool, Variant
    from cacheunit_build.ports import Edges, Files, Key
    from cacheunit_build.target import Target

_MANIFEST = ".yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """What the sources give now: artifacts in the order of their names, and every fault on the way.

    `targets` are those that were used, loaded.
    """

    config: Config
    targets: Mapping[str, ReadyTarget]
    artifacts: tuple[Artifact, ...]
    faults: tuple[Fault, ...]

    @property
    def identities(self) -> dict[str, TargetIdentity]:
        """What the lock is to remember of the targets."""
        return {name: ready.identity for name, ready in self.targets.items()}

    @property
    def keys(self) -> set[Key]:
        """The artifacts by prefix and target."""
        return {artifact.key for artifact in self.artifacts}

    def find(self, key: Key) -> Artifact | None:
        """The artifact of that key."""
        index = bisect.bisect_left(self.artifacts, key, key=lambda artifact: artifact.key)
        found = self.artifacts[index : index + 1]
        return found[0] if found and found[0].key == key else None


def read_project(files: Files) -> tuple[Config, dict[str, Target]]:
    """The settings of a project, and the targets that it knows.

    Raises:
        CacheunitError: every fault in the settings.
    """
    config = parse_config(files.read("pyproject.toml"), files.read("cacheunit.toml"))
    return config, all_targets(config)


def compile_project(
    edges: Edges, selection: Selection | None = None, progress: Callable[[int, int], None] | None = None
) -> Compiled:
    """Compiles what `selection` takes, everything if None. Nothing is written.

    Args:
        edges: the outside world.
        selection: which artifacts.
        progress: called with the number of manifests done and of all.

    Raises:
        CacheunitError: the settings or the selection are wrong, or there is nothing to compile.
    """
    config, targets = read_project(edges.files)
    selection = _settled(selection or Selection(), targets)
    manifests = _chosen(manifest_names(edges.files, config), selection, config)
    compiler = _Compiler(edges, config, targets, selection)
    for done, (name, path) in enumerate(manifests):
        if progress is not None:
            progress(done, len(manifests))
        compiler.compile_manifest(name, path)
    return compiler.compiled()


def manifest_names(files: Files, config: Config) -> list[tuple[str, str]]:
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


def _settled(selection: Selection, targets: Mapping[str, Target]) -> Selection:
    """The selection with its target by the target's own name."""
    if selection.target is None:
        return selection
    target = find_target(selection.target, targets)
    if target is None:
        raise fail(f'unknown target "{selection.target}"', hint=did_you_mean(selection.target, target_names(targets)))
    return replace(selection, target=target.name)


def _chosen(manifests: list[tuple[str, str]], selection: Selection, config: Config) -> list[tuple[str, str]]:
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


class _Compiler:
    """Compiles manifests one after the other, going on after faults."""

    def __init__(self, edges: Edges, config: Config, targets: Mapping[str, Target], selection: Selection) -> None:
        self._edges = edges
        self._config = config
        self._targets = targets
        self._selection = selection
        self._renderer = Renderer(edges.files.read, self._template_names, config.templates)
        self._names: list[str] = []
        self._ready: dict[str, ReadyTarget] = {}
        self._artifacts: list[Artifact] = []
        self._faults: list[Fault] = []

    def compiled(self) -> Compiled:
        faults = list(self._faults)
        if not faults:
            faults += self._unmet()
        return Compiled(
            config=self._config,
            targets=self._ready,
            artifacts=tuple(sorted(self._artifacts, key=lambda artifact: artifact.key)),
            faults=tuple(dict.fromkeys(faults)),
        )

    def _unmet(self) -> list[Fault]:
        """What was selected and yet is nowhere."""
        faults = [
            Fault(message=f'there is no variant "{name}"', hint=did_you_mean(name, self._names))
            for name in self._selection.names
            if "@" in name and name not in self._names
        ]
        if not faults and not self._artifacts:
            faults.append(Fault(message=f'nothing is compiled for target "{self._selection.target}"'))
        return faults

    def _template_names(self) -> list[str]:
        folder = self._config.templates
        try:
            return [path.removeprefix(f"{folder}/") for path in self._edges.files.walk(folder)]
        except CacheunitError:
            return []

    def compile_manifest(self, name: str, path: str) -> None:
        """Compiles the variants of one manifest for each of its targets."""
        faults: list[Fault] = []
        try:
            data = self._edges.files.read(path)
            if data is None:
                raise fail("the manifest is a link to nothing")
            manifest = parse_manifest(data, name=name, path=path)
        except CacheunitError as error:
            self._faults += (fault if fault.path else replace(fault, path=path) for fault in error.faults)
            return
        lookups = [Lookup(path=path, found=fingerprint(data))]
        tools = self._tools_of(manifest, lookups, faults)
        targets = self._targets_of(manifest, faults)
        variants = expand(manifest)
        self._names += [variant.name for variant in variants]
        self._faults += faults
        if faults:
            return
        for variant in variants:
            if targets and self._selection.takes(variant.name):
                self._compile_variant(variant, targets, tools, tuple(lookups))

    def _tools_of(self, manifest: Manifest, lookups: list[Lookup], faults: list[Fault]) -> tuple[Tool, ...]:
        """The tools of a manifest in its order; no name twice."""
        tools: list[Tool] = []
        for index, file in enumerate(manifest.tools):
            path = normal_path(file)
            try:
                data = self._edges.files.read(path)
                lookups.append(
                    Lookup(path=path, found=None if data is None else fingerprint(data), asked_by=manifest.path)
                )
                if data is None:
                    faults.append(manifest.fault(f'there is no file "{path}"', "tools", index))
                else:
                    tools += parse_tools(parse_data(data, path))
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

    def _compile_variant(
        self, variant: Variant, targets: list[Target], tools: tuple[Tool, ...], lookups: tuple[Lookup, ...]
    ) -> None:
        try:
            rendered = self._renderer.render(variant)
        except CacheunitError as error:
            self._faults += error.faults
            return
        rendered = replace(rendered, lookups=(*lookups, *rendered.lookups))
        for target in targets:
            try:
                ready = self._ready_target(target)
                self._artifacts.append(compile_artifact(variant, rendered, tools, ready, self._edges.files.read))
            except CacheunitError as error:
                self._faults += error.faults

    def _ready_target(self, target: Target) -> ReadyTarget:
        """The target, loaded once; what is wrong with one of the project's is told where its table stands."""
        if target.name not in self._ready:
            try:
                self._ready[target.name] = ready_target(target, self._edges)
            except CacheunitError as error:
                if target.name not in self._config.tables:
                    raise
                document = self._config.document
                line = document.line((*self._config.under, "target", target.name))
                placed = (f if f.path else replace(f, path=document.path, line=line) for f in error.faults)
                raise CacheunitError(*placed) from None
        return self._ready[target.name]
