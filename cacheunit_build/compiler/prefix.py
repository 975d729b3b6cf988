"""Compiles one manifest: reads it with its tools, renders its variants, and compiles each of them for each target."""

from __future__ import annotations

import threading
import unicodedata
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cacheunit_build.compiler.artifact import compile_artifact
from cacheunit_build.compiler.frozen_options import repeated_schema_faults, unlisted_options
from cacheunit_build.compiler.loaded_target import load_target
from cacheunit_build.compiler.tool_checks import known_tool_keys, response_schema_faults, tool_faults
from cacheunit_build.domain.errors import CacheunitError, Fault, did_you_mean, fail
from cacheunit_build.domain.file_names import readable_name
from cacheunit_build.domain.fingerprint import cache_key, fingerprint
from cacheunit_build.domain.front_options import RESPONSE_SCHEMA
from cacheunit_build.domain.lifetimes import ANY_LIFETIME
from cacheunit_build.domain.manifest import MARKER_PARTS
from cacheunit_build.domain.paths import normal_path
from cacheunit_build.domain.prompt import Lookup
from cacheunit_build.parsing.data_file import parse_data
from cacheunit_build.parsing.manifest import parse_manifest
from cacheunit_build.parsing.response_schema import parse_response_schema
from cacheunit_build.parsing.tools import parse_tools
from cacheunit_build.parsing.variants import expand
from cacheunit_build.targets.loader import find_target, target_names
from cacheunit_build.templating.renderer import Renderer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cacheunit_build.compiler.loaded_target import LoadedTarget
    from cacheunit_build.domain.artifact import Artifact
    from cacheunit_build.domain.document import Document
    from cacheunit_build.domain.manifest import Manifest, Variant
    from cacheunit_build.domain.prompt import Rendered, Tool
    from cacheunit_build.domain.protocols import CompileInputs
    from cacheunit_build.domain.response_schema import ResponseSchema
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


class PrefixCompiler:
    """Compiles manifests of one project; several threads may use it.

    Attributes:
        loaded: the targets that were loaded, by name.
    """

    def __init__(
        self, adapters: CompileInputs, settings: Settings, targets: Mapping[str, Target], selection: SelectedArtifacts
    ) -> None:
        self.loaded: dict[str, LoadedTarget] = {}
        self._adapters = adapters
        self._settings = settings
        self._targets = targets
        self._selection = selection
        self._local = threading.local()
        self._loading = threading.Lock()

    def compile(self, name: str, path: str) -> CompiledPrefix:
        """Compiles the prefix of that name from the manifest at `path`."""
        try:
            data = self._adapters.files.read(path)
            if data is None:
                raise fail("the manifest is a broken link")
            manifest = self._with_defaults(parse_manifest(data, name=name, path=path))
        except CacheunitError as error:
            return CompiledPrefix(path=path, faults=error.faults_at(path))
        targets, target_faults = self._targets_of(manifest)
        inputs = _Inputs(self._adapters, manifest, fingerprint(data), () if target_faults else list(targets.values()))
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
            complete=everything and not faults and all(self.loaded[target].traceable for target in used),
        )

    def _with_defaults(self, manifest: Manifest) -> Manifest:
        """Returns a manifest with what it leaves to the settings of the project."""
        hits_per_miss = manifest.padding.hits_per_miss or self._settings.hits_per_miss
        padding = replace(manifest.padding, hits_per_miss=hits_per_miss)
        return replace(manifest, padding=padding, cache_key=cache_key(self._settings.project, manifest.name))

    def _selected_targets(self, variant: Variant) -> list[Target]:
        """Returns the selected targets of a variant; none where the variant itself is not selected."""
        if not self._selection.includes(variant.name):
            return []
        return [self._targets[name] for name in variant.targets if self._selection.includes_target(name)]

    def _compile_variants(self, variants: Sequence[Variant], inputs: _Inputs) -> tuple[list[Artifact], list[Fault]]:
        """Returns the artifacts of all variants that compile, and the faults of the others."""
        artifacts: list[Artifact] = []
        faults: list[Fault] = []
        for variant in variants:
            try:
                artifacts += self._artifacts(variant, inputs)
            except CacheunitError as error:
                faults += error.faults
        return artifacts, faults

    def _artifacts(self, variant: Variant, inputs: _Inputs) -> list[Artifact]:
        """Returns the artifact of a variant for each of its selected targets.

        Raises:
            CacheunitError: the faults of all targets.
        """
        rendered = self._renderer.render(variant)
        if blank := _blank_texts(variant, rendered):
            raise CacheunitError(*blank)
        rendered = replace(rendered, lookups=(*inputs.lookups, *rendered.lookups))
        artifacts: list[Artifact] = []
        faults: list[Fault] = []
        for target in self._selected_targets(variant):
            try:
                loaded = self._loaded_target(target)
                artifacts.append(compile_artifact(variant, rendered, inputs.tools, loaded, self._adapters.files.read))
            except CacheunitError as error:
                faults += error.faults
        if faults:
            raise CacheunitError(*faults)
        return artifacts

    @property
    def _renderer(self) -> Renderer:
        """The renderer of this thread: one renderer can render only one variant at a time."""
        if not hasattr(self._local, "renderer"):
            self._local.renderer = Renderer(self._adapters.files.read, self._template_names, self._settings.templates)
        renderer: Renderer = self._local.renderer
        return renderer

    def _template_names(self) -> list[str]:
        folder = self._settings.templates
        try:
            return [path.removeprefix(f"{folder}/") for path in self._adapters.files.walk(folder)]
        except CacheunitError:
            return []

    def _target_faults(
        self, manifest: Manifest, inputs: _Inputs, targets: Mapping[str, Target], used: Mapping[str, Target]
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
        return [
            *repeated_schema_faults(manifest, list(targets.values())),
            *tool_faults(inputs.tools, selected),
            *response_schema_faults(manifest, selected),
            *_unknown_lifetimes(manifest, list(targets.values())),
        ]

    def _targets_of(self, manifest: Manifest) -> tuple[dict[str, Target], list[Fault]]:
        """Returns the targets of a manifest or of the project, by the names there, and faults of names and options."""
        targets: dict[str, Target] = {}
        faults: list[Fault] = []
        for index, name in enumerate(manifest.targets or self._settings.targets):
            target = find_target(name, self._targets)
            if target is None:
                faults.append(self._unknown_target(manifest, name, index))
            elif target in targets.values():
                faults.append(manifest.fault(f'"{name}" is target "{target.name}" again', "targets", index))
            else:
                targets[name] = target
        if not faults:
            faults += unlisted_options(manifest, list(targets.values()))
        return targets, faults

    def _unknown_target(self, manifest: Manifest, name: str, index: int) -> Fault:
        """Returns a fault in the manifest, or in the settings where the manifest names no targets."""
        message = f'unknown target "{name}"'
        hint = did_you_mean(name, target_names(self._targets)) or '"cacheunit targets" lists the known ones'
        if manifest.targets:
            return manifest.fault(message, "targets", index, hint=hint)
        return self._settings.fault(message, "targets", hint=hint)

    def _loaded_target(self, target: Target) -> LoadedTarget:
        """Returns the target, loaded once for all threads."""
        with self._loading:
            if target.name not in self.loaded:
                self.loaded[target.name] = self._load(target)
            return self.loaded[target.name]

    def _load(self, target: Target) -> LoadedTarget:
        """Loads a target; the faults of one of the project's own are at its table in the settings."""
        try:
            return load_target(target, self._adapters)
        except CacheunitError as error:
            if target.name not in self._settings.target:
                raise
            table = self._settings.fault("", "target", target.name)
            raise CacheunitError(*error.faults_at(table.path, table.line)) from None


def _unknown_lifetimes(manifest: Manifest, targets: Sequence[Target]) -> list[Fault]:
    """Returns a fault for each lifetime of a manifest that none of its targets has."""
    faults = []
    for part in MARKER_PARTS:
        lifetime = getattr(manifest.cache.ttl, part)
        if lifetime is None or not targets or any(target.cache.has_lifetime(lifetime) for target in targets):
            continue
        known = dict.fromkeys(item for target in targets for item in target.cache.lifetimes if item != ANY_LIFETIME)
        hint = f"the lifetimes are {', '.join(known)}" if known else "its targets have no lifetimes to choose from"
        message = f"no target of the manifest has a lifetime of {lifetime}"
        faults.append(manifest.fault(message, "cache", "ttl", part, hint=hint))
    return list({(fault.message, fault.line): fault for fault in faults}.values())


def _unknown_tools(manifest: Manifest, tools: Sequence[Tool]) -> list[Fault]:
    """Returns a fault for each tool call of an example whose tool the prefix does not have."""
    names = [tool.name for tool in tools]
    return [
        manifest.fault(
            f'an example calls the tool "{call.name}", which the prefix does not have',
            *("examples", index, "tool_calls", place, "name"),
            hint=did_you_mean(call.name, names) or 'add it to "tools"',
        )
        for index, example in enumerate(manifest.examples)
        for place, call in enumerate(example.tool_calls)
        if call.name not in names
    ]


def _expanded(manifest: Manifest, targets: Mapping[str, Target]) -> tuple[tuple[Variant, ...], list[Fault]]:
    """Returns the variants of a manifest, and the faults of its matrix; nothing where it has no targets."""
    try:
        return (expand(manifest, targets) if targets else ()), []
    except CacheunitError as error:
        return (), list(error.faults)


def _blank_texts(variant: Variant, rendered: Rendered) -> list[Fault]:
    """Returns a fault for a system text and for each example without a visible character, which providers refuse."""
    manifest = variant.manifest
    faults = []
    if manifest.system and _is_blank(rendered.system):
        faults.append(manifest.fault(f"{readable_name(variant.name)}: the system text is blank", "system"))
    for index, (example, turn) in enumerate(zip(manifest.examples, rendered.turns, strict=True)):
        if _is_blank(turn.text) and not (turn.calls and example.template is None and example.text is None):
            key = "text" if example.template is None else "template"
            message = f"{readable_name(variant.name)}: the text of example {index + 1} is blank"
            faults.append(
                manifest.fault(message, "examples", index, key, hint="providers refuse blank messages: remove it")
            )
    return faults


def _is_blank(text: str) -> bool:
    """Returns whether a text has no visible character: nothing but white space, control and format characters."""
    return all(character.isspace() or unicodedata.category(character) in ("Cc", "Cf") for character in text)


class _Inputs:
    """Tools and response schema of one manifest, with all files looked for, the manifest first, and every fault.

    Args:
        adapters: the project's files.
        manifest: the manifest.
        manifest_fingerprint: that of its bytes.
        targets: its targets; none where they are not known.
    """

    def __init__(
        self, adapters: CompileInputs, manifest: Manifest, manifest_fingerprint: str, targets: Sequence[Target]
    ) -> None:
        self.tools: tuple[Tool, ...] = ()
        self.response_schema: ResponseSchema | None = None
        self.lookups = [Lookup(path=manifest.path, fingerprint=manifest_fingerprint)]
        self.faults: list[Fault] = []
        self._files = adapters.files
        self._manifest = manifest
        known_keys = known_tool_keys(targets)
        for index, file in enumerate(manifest.tools):
            with self._faults_at("tools", index):
                self.tools += parse_tools(self._document(file), known_keys)
        self.faults += _duplicate_tools(self.tools)
        if not self.faults:
            self.faults += _unknown_tools(manifest, self.tools)
        schema_file = manifest.options.get(RESPONSE_SCHEMA)
        if schema_file is not None:
            with self._faults_at("options", RESPONSE_SCHEMA):
                self.response_schema = parse_response_schema(self._document(schema_file))

    @contextmanager
    def _faults_at(self, *keys: str | int) -> Iterator[None]:
        """Collects the faults of its body; those without a place are at these keys of the manifest."""
        try:
            yield
        except CacheunitError as error:
            self.faults += error.faults_at(self._manifest.path, self._manifest.line(*keys))

    def _document(self, file: str) -> Document:
        """Returns a parsed file that the manifest names.

        Raises:
            CacheunitError: there is none, or it cannot be read or parsed.
        """
        path = normal_path(file)
        data = self._files.read(path)
        digest = None if data is None else fingerprint(data)
        self.lookups.append(Lookup(path=path, fingerprint=digest, asked_by=self._manifest.path))
        if data is None:
            raise fail(f'there is no file "{path}"')
        return parse_data(data, path, floats=True)


def _duplicate_tools(tools: Sequence[Tool]) -> list[Fault]:
    """Returns a fault for each tool whose name another one has already; a hosted one without a name may be repeated."""
    first: dict[str, Tool] = {}
    faults: list[Fault] = []
    for tool in tools:
        nameless = tool.hosted is not None and "name" not in tool.hosted
        other = tool if nameless else first.setdefault(tool.name, tool)
        if other is not tool:
            message = f'tool "{tool.name}" already exists, in {other.path}'
            faults.append(Fault(message=message, path=tool.path, line=tool.line, hint="remove one of them"))
    return faults
